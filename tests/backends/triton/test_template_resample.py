"""Resizing by walks over an image, in Triton's interpreter and as machine code."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from aot.backends.triton.compile import compile_kernels
from aot.frontend.capture import capture_module
from aot.frontend.weights import to_array
from tests.backends.triton.disassembly import disassemble
from tests.backends.triton.interpret import run_emitted
from tests.backends.triton.test_kernel import emitted
from tests.comparing import difference
from tests.conformance import executors
from tests.conformance.executors import interpret_triton
from tests.settings import seeded

LAST = torch.channels_last


def resize(size: tuple[int, ...], mode: str, **settings: bool) -> Callable[..., torch.Tensor]:
    return lambda x: F.interpolate(x, size=size, mode=mode, **settings)


class Module(torch.nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def check(function: Callable[..., torch.Tensor], x: torch.Tensor, monkeypatch) -> None:
    texts: list[str] = []

    def run(made, *rest):
        texts.extend(f.text for f in made.functions)
        return run_emitted(made, *rest)

    monkeypatch.setattr(executors, "run_emitted", run)
    module = Module(function)
    (actual,) = interpret_triton(capture_module(module, (x,)), (x,))
    assert any("sums0" in text for text in texts)
    exact = function(x.double())
    assert difference(actual, to_array(function(x)), x.dtype, to_array(exact)) == ""


IMAGES = {
    "enlarged": (resize((75, 90), "bicubic"), (2, 3, 40, 48)),
    "reduced": (resize((21, 25), "bilinear", antialias=True), (2, 3, 40, 48)),
    "rows left out": (resize((5, 7), "bicubic"), (2, 3, 70, 40)),
    "more rows, fewer columns": (resize((90, 9), "bilinear"), (1, 2, 33, 20)),
    "a walk of several programs": (resize((70, 140), "bilinear"), (1, 1, 35, 70)),
    "corners": (resize((64, 33), "bicubic", align_corners=True), (1, 3, 20, 20)),
    "few columns": (resize((17, 4), "bilinear"), (3, 5, 8, 9)),
    "rows between taps": (resize((7, 23), "bicubic"), (1, 2, 80, 20)),
    "fewer than taps": (resize((9, 23), "bilinear"), (1, 2, 1, 20)),
    "one point": (resize((1, 1), "bilinear"), (1, 2, 8, 9)),
    "volumes": (resize((6, 20, 21), "trilinear"), (1, 2, 5, 9, 10)),
}


MANY_TAPS = {
    "two windows": (resize((12, 20), "bilinear", antialias=True), (1, 2, 100, 20)),
    "four windows": (resize((9, 20), "bicubic", antialias=True), (1, 2, 70, 20)),
    "windows of uneven distance": (resize((7, 8), "bilinear", antialias=True), (1, 1, 93, 61)),
    "one output": (resize((1, 20), "bilinear", antialias=True), (1, 2, 30, 20)),
    "wide": (resize((9, 140), "bilinear", antialias=True), (1, 1, 50, 140)),
    "an epilogue": (
        lambda x: resize((6, 20), "bilinear", antialias=True)(x).exp() + 1,
        (1, 2, 40, 20),
    ),
}


@pytest.mark.parametrize("name", MANY_TAPS)
@pytest.mark.parametrize("last", [False, True], ids=["planes", "channels last"])
def test_values_of_many_taps(name: str, last: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    function, shape = MANY_TAPS[name]
    torch.manual_seed(seeded())
    x = torch.randn(shape)
    check(function, x.contiguous(memory_format=LAST) if last else x, monkeypatch)


@pytest.mark.parametrize("name", IMAGES)
def test_values(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, shape = IMAGES[name]
    torch.manual_seed(seeded())
    check(function, torch.randn(shape), monkeypatch)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_types(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(seeded())
    x = torch.randn(1, 2, 40, 12).to(dtype)
    check(resize((44, 21), "bilinear"), x, monkeypatch)
    if dtype == torch.float64:  # eager has no antialiasing of halves
        check(resize((6, 12), "bilinear", antialias=True), x, monkeypatch)


def test_channels_last(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(seeded())
    x = torch.randn(2, 3, 20, 30).contiguous(memory_format=LAST)
    check(resize((33, 51), "bicubic"), x, monkeypatch)


def test_an_epilogue(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(seeded())
    larger = resize((33, 51), "bilinear")
    check(lambda x: torch.relu(larger(x) - 0.5) * 2, torch.randn(1, 3, 20, 30), monkeypatch)


@pytest.mark.parametrize("size", [(21, 25), (5, 25)], ids=["two axes", "many taps"])
def test_what_is_not_finite_stays_where_it_is(size: tuple[int, int]) -> None:
    x = torch.randn(1, 1, 40, 48)
    x[0, 0, 7, 9], x[0, 0, 20, 30] = float("inf"), float("nan")
    module = Module(resize(size, "bilinear", antialias=True))
    (actual,) = interpret_triton(capture_module(module, (x,)), (x,))
    eager = to_array(module(x))
    assert (np.isnan(actual) == np.isnan(eager)).all()
    assert (np.isinf(actual) == np.isinf(eager)).all()
    assert np.isinf(eager).any()


def test_columns_follow_memory() -> None:
    larger = resize((100, 130), "bicubic")
    image = torch.zeros(2, 3, 64, 80)
    (first,) = emitted(larger, image).functions
    assert "b1 = " in first.text  # images and channels are planes
    (last,) = emitted(larger, image.contiguous(memory_format=LAST)).functions
    assert "b1 = " not in last.text
    assert "y % (3)" in last.text


def test_each_input_is_read_once_a_walk_ahead_of_its_use() -> None:
    (function,) = emitted(resize((100, 90), "bicubic"), torch.zeros(2, 3, 64, 80)).functions
    inner = function.text.split("for row in")[1].split("known = end")[0]
    summed, fetched = inner.split("wanted = ")
    assert "sums3 = ahead0" in summed
    assert "tl.load(" not in summed
    assert fetched.count("tl.load(") == 4
    # The first row, where taps begin and their weights: five along the inner axis, eleven along the
    # other one, of two outputs before the walk and of one in it.
    assert function.text.count("tl.load(") == 4 + 4 + 5 + 11


def test_rows_of_many_taps_are_read_by_vectors() -> None:
    image = torch.zeros(4, 3, 1200, 1300).contiguous(memory_format=LAST)
    source = emitted(resize((200, 1300), "bilinear", antialias=True), image)
    (image,) = compile_kernels(source.functions, "sm_90", 1, None)
    code = disassemble(image, "sm_90")
    assert code.local_bytes == 0
    assert image.shared == 0
    # Two vectors, eight rows at a time: of a window that the walk had passed, of one, of both.
    assert code.vector_loads == 2 * 3 * 8


def test_bytes_and_few_taps_stay_nests() -> None:
    half = resize((100, 48), "bilinear", antialias=True)
    for x in (torch.zeros(1, 2, 200, 48), torch.zeros(1, 3, 1000, 48, dtype=torch.uint8)):
        source = emitted(half, x)
        assert not any("sums0" in f.text for f in source.functions)


def test_machine_code_keeps_sums_in_registers() -> None:
    source = emitted(resize((2345, 2456), "bicubic"), torch.zeros(4, 3, 1234, 1345))
    (image,) = compile_kernels(source.functions, "sm_90", 1, None)
    code = disassemble(image, "sm_90")
    assert code.local_bytes == 0
    assert code.registers <= 80  # with what has been asked for
    assert image.shared == 0
