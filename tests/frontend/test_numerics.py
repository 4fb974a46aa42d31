"""What torch's settings say of float32, and that graphs and builds have it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from aot.driver import build
from aot.frontend.capture import Captured, capture_module
from aot.frontend.ingest import ingest
from aot.frontend.numerics import rounded_kinds
from aot.ir.printer import print_tensors
from aot.options import BuildOptions, parse_target


@pytest.fixture
def settings() -> Iterator[None]:
    """Settings that a test may change; those of the tests afterwards.

    Whoever imports torch's own tests, as OpInfo's do, forbids that for the whole process.
    """
    with torch.backends.__allow_nonbracketed_mutation():
        yield
        torch.backends.cudnn.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")


class Both(nn.Module):
    """A convolution and a product."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.linear = nn.Conv2d(16, 40, 3), nn.Linear(40, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(self.conv(x).mean((2, 3)))


def model(dtype: torch.dtype = torch.float32) -> Captured:
    return capture_module(Both().to(dtype).eval(), (torch.randn(64, 16, 8, 8, dtype=dtype),))


@pytest.mark.usefixtures("settings")
def test_settings_are_read_by_their_old_names_and_new_ones() -> None:
    assert rounded_kinds() == ()
    torch.backends.cudnn.allow_tf32 = True
    assert rounded_kinds() == ("conv",)
    torch.set_float32_matmul_precision("high")
    assert rounded_kinds() == ("conv", "matmul")
    torch.backends.cuda.matmul.allow_tf32 = False
    assert rounded_kinds() == ("conv",)


@pytest.mark.usefixtures("settings")
def test_graphs_have_what_concerns_them() -> None:
    torch.backends.cudnn.allow_tf32 = True
    graph, _ = ingest(model())
    assert graph.tf32 == ("conv",)
    assert "\n  tf32 conv\n" in print_tensors(graph)
    halves, _ = ingest(model(torch.float16))
    assert halves.tf32 == ()
    product = capture_module(nn.Linear(8, 8).eval(), (torch.randn(2, 8),))
    assert ingest(product)[0].tf32 == ()


@pytest.mark.usefixtures("settings")
def test_kernels_that_round_are_named_unless_it_is_forbidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("aot.ir.templates.conv_rounding.ROUNDED_FLOPS", 1)  # so small ones are not
    torch.backends.cudnn.allow_tf32 = True
    torch.set_float32_matmul_precision("high")
    captured = model()

    def rounding(*, exact_floats: bool) -> list[str]:
        options = BuildOptions(
            targets=(parse_target("cuda:sm_90"),),
            stop_after=None,
            exact_floats=exact_floats,
        )
        report = build(captured, options)
        (program,) = report.programs
        return [d.verdict for d in program.decisions if d.stage == "precision"]

    assert rounding(exact_floats=False) == ["tf32", "tf32"]
    assert rounding(exact_floats=True) == []
