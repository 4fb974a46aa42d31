"""Resizing with many taps along two axes in one walk: values, workspace, machine code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from aot.backends.triton import template_resample_outer as template
from aot.backends.triton.compile import compile_kernels
from aot.frontend.capture import Captured, capture_module
from aot.frontend.weights import to_array
from aot.ir.kernels import fused_parts
from aot.ir.templates import Resample2
from aot.ir.verify import verify_kernels
from aot.schedule.memory import plan_memory
from tests.backends.triton.disassembly import disassemble
from tests.backends.triton.templates import emitted
from tests.comparing import difference
from tests.conformance.executors import interpret_triton
from tests.launches import calls_of, template_kernels
from tests.settings import seeded

LAST = torch.channels_last


class Resize(torch.nn.Module):
    def __init__(self, size: tuple[int, int], mode: str = "bilinear") -> None:
        super().__init__()
        self.size, self.mode = size, mode

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, size=self.size, mode=self.mode, antialias=True)


class Scaled(Resize):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(super().forward(x) - 0.25) * x.mean()


def captured(module: Resize, x: torch.Tensor, *, batches: bool = False) -> Captured:
    shapes = {"x": {0: torch.export.Dim("n", max=64)}} if batches else None
    model = capture_module(module, (x,), dynamic_shapes=shapes)
    (call,) = calls_of(emitted(model).graph)
    assert isinstance(call, Resample2) and call.first == "outer"
    return model


def check(module: Resize, x: torch.Tensor, model: Captured | None = None) -> None:
    (actual,) = interpret_triton(model or captured(module, x), (x,))
    exact = module(x.double())
    assert difference(actual, to_array(module(x)), x.dtype, to_array(exact)) == ""


IMAGES: dict[str, tuple[Callable[[], Resize], tuple[int, ...]]] = {
    "one strip": (lambda: Resize((9, 20)), (1, 2, 100, 48)),
    "several strips": (lambda: Resize((5, 60)), (1, 2, 60, 400)),
    "several walks": (lambda: Resize((40, 10)), (1, 1, 400, 44)),
    "long windows": (lambda: Resize((4, 6)), (1, 2, 60, 80)),
    "cubic": (lambda: Resize((8, 7), "bicubic"), (1, 2, 90, 40)),
    "one output": (lambda: Resize((1, 1)), (2, 1, 20, 13)),
    "few taps within": (lambda: Resize((6, 36)), (1, 2, 90, 40)),
    "an epilogue": (lambda: Scaled((9, 20)), (1, 3, 100, 48)),
}


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("last", [False, True], ids=["planes", "channels last"])
def test_values(name: str, last: bool) -> None:
    make, shape = IMAGES[name]
    torch.manual_seed(seeded())
    x = torch.randn(shape)
    check(make(), x.contiguous(memory_format=LAST) if last else x)


def test_doubles() -> None:
    torch.manual_seed(seeded())
    check(Resize((9, 20)), torch.randn(1, 2, 100, 48, dtype=torch.float64))


def test_any_number_of_images() -> None:
    torch.manual_seed(seeded())
    module = Resize((9, 20))
    model = captured(module, torch.randn(2, 1, 100, 48), batches=True)
    for images in (1, 3):
        check(module, torch.randn(images, 1, 100, 48), model)


@pytest.mark.parametrize("last", [False, True], ids=["planes", "channels last"])
def test_outputs_that_do_not_fit_take_another_walk(
    last: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = template._plan

    def too_many(*args) -> template.Strips:
        return replace(plan(*args), each=60, lanes=256)

    monkeypatch.setattr(template, "_plan", too_many)
    torch.manual_seed(seeded())
    x = torch.randn(1, 3, 60, 400)
    check(Resize((5, 60)), x.contiguous(memory_format=LAST) if last else x)


def test_the_workspace_is_the_kernel_s_alone() -> None:
    class Twice(Resize):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x).exp() + super().forward(x + 1)

    x = torch.randn(1, 1, 100, 48)
    graph = emitted(capture_module(Twice((9, 20)), (x,))).graph
    parts = [part for kernel in graph.kernels for part in fused_parts(kernel)]
    (kernel,) = (kernel for kernel in template_kernels(graph) if kernel.workspace)
    assert kernel.workspace in kernel.writes
    others = [part for part in parts if part is not kernel]
    assert others
    assert not any(kernel.workspace in (*part.reads, *part.writes) for part in others)
    verify_kernels(graph)
    placed = {p.buffer: p for p in plan_memory(graph).placements}
    assert int(placed[kernel.workspace].size) > 0


@pytest.mark.parametrize("last", [False, True], ids=["planes", "channels last"])
def test_rows_are_read_by_vectors(last: bool) -> None:
    x = torch.zeros(4, 3, 1200, 1300)
    model = captured(Resize((200, 300)), x.contiguous(memory_format=LAST) if last else x)
    (image,) = compile_kernels(emitted(model).functions, "sm_90", 1, None)
    code = disassemble(image, "sm_90")
    assert code.local_bytes == 0
    # Six rows before the walk and six in it, and those that a window has missed.
    assert code.vector_loads >= 2 * 6 + 1


def test_rows_are_asked_for_an_output_ahead() -> None:
    (function,) = emitted(captured(Resize((224, 224)), torch.zeros(1, 1, 2000, 2000))).functions
    walk = function.text.split("if whole:")[1].split("known = end")[0]
    added, fetched, asked = walk.split("after = ")
    whole, checked = added.split("else:")
    assert whole.count("sums0 += ahead") == whole.count("sums1 += ahead") == 9
    assert checked.count("sums1 = tl.where") == 9
    assert "tl.load(" not in fetched  # where the rows begin
    assert asked.count("< stop") == asked.count("= tl.load(") == 9


def test_all_windows_that_are_open_are_added_to() -> None:
    # 9 taps, 4.46 rows apart: rounded up, the distance would leave one window of the two.
    (function,) = emitted(captured(Resize((224, 224)), torch.zeros(1, 1, 1000, 1000))).functions
    assert "sums1 += ahead" in function.text


def test_of_rows_that_are_asked_for_only_the_last_may_not_be_an_output_s() -> None:
    """Outputs are four or five rows apart."""
    (function,) = emitted(captured(Resize((224, 224)), torch.empty(4, 3, 1000, 1000))).functions
    whole = function.text.split("if whole:")[1].split("else:")[0]
    first, last = whole.split("if start + 5 <= end:")
    assert first.count("sums0 += ahead") == 4 and last.count("sums0 += ahead") == 1
