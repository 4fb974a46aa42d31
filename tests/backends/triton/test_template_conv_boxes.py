"""Convolutions by groups of warps: which are, their machine code, and their values on a GPU.

Gluon has no interpreter: what the kernel computes is compared where there is a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch.nn import functional as F

from aot.backends.triton import template_conv_boxes
from aot.frontend.weights import to_array
from tests.backends.triton.templates import captured, emitted, machine_code
from tests.comparing import complaint
from tests.conformance.executors import GPU, executor_named

LAST = torch.channels_last


def image(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randn(*shape).to(dtype).to(memory_format=LAST)


def halves(*shape: int) -> torch.Tensor:
    return torch.randn(*shape).to(torch.bfloat16)


def same(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.silu(F.conv2d(x, w, b, padding=1))


def wide(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.conv2d(x, w, b, padding=(3, 2), dilation=(2, 1))


def turned(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.conv_transpose2d(x, w, b, padding=1)


def line(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.conv1d(x, w, b, padding=2)


SINGLE = torch.float32
CASES = {
    "same": (same, (image(2, 72, 21, 37), halves(136, 72, 3, 3), halves(136))),
    "dilated": (wide, (image(3, 64, 19, 23), halves(80, 64, 4, 3), halves(80))),
    "odd outputs": (same, (image(2, 80, 16, 24), halves(133, 80, 3, 3), halves(133))),
    "transposed": (turned, (image(2, 136, 17, 17), halves(136, 96, 4, 4), halves(96))),
    "lines": (line, (halves(4, 72, 301), halves(104, 72, 5), halves(104))),
    "channels first": (same, (halves(2, 72, 21, 40), halves(136, 72, 3, 3), halves(136))),
    "rounded": (
        same,
        (image(3, 77, 29, 33, dtype=SINGLE), torch.randn(136, 77, 3, 3), torch.randn(136)),
    ),
    "rounded, odd outputs": (
        wide,
        (image(2, 132, 29, 33, dtype=SINGLE), torch.randn(149, 132, 5, 3), torch.randn(149)),
    ),
}


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """However long the model says that groups take; and float32 may be rounded."""
    for name in ("_WORTH", "_WORTH_OF_FEW"):
        monkeypatch.setattr(template_conv_boxes, name, 1e9)
    monkeypatch.setattr("aot.ir.templates.conv_rounding.ROUNDED_FLOPS", 1)
    torch.backends.cudnn.allow_tf32 = True
    yield
    torch.backends.cudnn.allow_tf32 = False


def is_by_groups(function, args, arch: str = "sm_90") -> bool:
    functions = emitted(captured(function, args), arch).functions
    return any("conv_by_groups(" in f.text for f in functions)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("case", CASES)
def test_machine_code(case: str) -> None:
    function, args = CASES[case]
    assert is_by_groups(function, args)
    code = machine_code(captured(function, args), "conv", "sm_90")
    names = " ".join(code.instructions)
    assert "HGMMA" in names and "UTMALDG" in names
    assert code.local_bytes <= 32
    assert ("STG.E.128" in names) == ("odd" not in case and case not in ("lines", "channels first"))


@pytest.mark.usefixtures("always")
def test_other_convolutions_are_by_programs() -> None:
    """Of steps, of groups, of exact float32, and on other devices."""
    x, w, b = CASES["same"][1]
    assert not is_by_groups(lambda x, w, b: F.conv2d(x, w, b, stride=2), (x, w, b))
    assert not is_by_groups(lambda x, w, b: F.conv2d(x, w[:, :36], b, groups=2), (x, w, b))
    for arch in ("sm_80", "sm_100"):
        assert not is_by_groups(same, (x, w, b), arch)
    torch.backends.cudnn.allow_tf32 = False
    assert not is_by_groups(*CASES["rounded"])


def test_large_convolutions_are_by_groups_and_small_ones_are_not() -> None:
    """Nothing hides the beginnings of few programs."""
    x, w, b = image(8, 256, 56, 56), halves(256, 256, 3, 3), halves(256)
    assert is_by_groups(same, (x, w, b))
    assert not is_by_groups(same, (x[:1, :, :14, :14], w, b))


@pytest.mark.gpu
@pytest.mark.usefixtures("always")
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("case", CASES)
def test_on_a_gpu(case: str) -> None:
    function, args = CASES[case]
    assert is_by_groups(function, args)
    executor = executor_named(GPU)
    assert executor is not None
    (found,) = executor(captured(function, args), args)
    eager, exact = function(*(x.cuda() for x in args)), function(*(x.double() for x in args))
    assert not complaint(found, to_array(eager.cpu()), to_array(exact))
