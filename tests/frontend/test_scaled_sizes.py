"""Sizes that a factor scales follow the sizes of inputs, as floats round."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import Dim
from torch.nn import functional as F
from torch.testing import assert_close

from aot.errors import AotError
from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.frontend.scaled_sizes import masked, read_rounded
from aot.symbolic import Expr, integer
from tests.calls import Calls
from tests.conformance.executors import interpret_lowered

SIZES = (1, 2, 3, 7, 10, 29, 30, 99, 100)


def sizes_of(function: Callable[[Any], Any], dims: Any, sizes: tuple[int, ...]) -> list[int]:
    """How many rows a model makes of `sizes` rows."""
    model = Calls(lambda x: x.new_ones(function(x.shape[0]), 2))
    captured = capture_module(model, (torch.ones(37, 1),), dynamic_shapes={"args": ({0: dims},)})
    return [interpret_lowered(captured, (torch.ones(n, 1),))[0].shape[0] for n in sizes]


@pytest.mark.parametrize(
    "function",
    [
        lambda n: int(0.3 * n),
        lambda n: int(n / 2.5),
        lambda n: int(n / 0.3),
        lambda n: math.ceil(n * 0.7),
        lambda n: math.floor(1.7 * n),
        lambda n: int(2 * (n / 3)),
        lambda n: max(1, int(0.2 * n)),
        lambda n: n - int(0.1 * (n - 1)),
        lambda n: math.ceil((n + 4) / 2 + 1),
        lambda n: int((n + 2 * 3 - 5) / 3 + 1),
        lambda n: int(n * 0.7 + 0.5),
        lambda n: math.floor(n * 3.0 / 4 - 0.25) + 1,
        lambda n: math.ceil(50 - n / 3) + 50,
    ],
)
def test_fractions_of_a_size(function: Callable[[Any], Any]) -> None:
    found = sizes_of(function, Dim("n", min=1, max=100), SIZES)
    assert found == [function(n) for n in SIZES]


@pytest.mark.parametrize(
    "function",
    [
        lambda n: 9 + int((n - 9) / 2),
        lambda n: 9 + int((n - 9) / 2 - 0.5),
        lambda n: 60 + int((9 - n) / 2),
        lambda n: 60 + int(-(n / 2)),
        lambda n: 9 + math.floor((n - 9) / 2),
        lambda n: 9 + math.ceil((n - 9) / 2),
    ],
)
def test_numbers_below_zero_are_rounded_as_python_does(function: Callable[[Any], Any]) -> None:
    found = sizes_of(function, Dim("n", min=1, max=100), SIZES)
    assert found == [function(n) for n in SIZES]


def test_steps_of_an_exact_convolution_are_no_numbers_of_the_run() -> None:
    """As speech codecs write it: torch decides at once that nothing is taken away."""

    def padded(x: torch.Tensor) -> torch.Tensor:
        frames = (x.shape[-1] - 7 + 5) / 2 + 1
        extra = (math.ceil(frames) - 1) * 2 + 2 - x.shape[-1]
        assert extra >= 0
        return F.pad(x, (5, extra), mode="reflect")

    spec = {"args": ({1: Dim("n", min=12, max=1 << 20)},)}
    captured = capture_module(Calls(padded), (torch.ones(1, 37),), dynamic_shapes=spec)
    nodes = {str(n.target) for n in captured.program.graph.nodes}
    assert not any("scalar_tensor" in n for n in nodes)
    for n in (37, 12, 13, 100):
        x = torch.randn(1, n)
        assert_close(torch.from_numpy(interpret_lowered(captured, (x,))[0]), padded(x))


@pytest.mark.parametrize("function", [lambda n: int(0.29 * n), lambda n: int(n * 0.1 * 3.7)])
def test_what_is_no_fraction_is_computed_in_the_run(function: Callable[[Any], Any]) -> None:
    """0.29 * 100 is 28.999999999999996."""
    found = sizes_of(function, Dim("n", min=1, max=100), SIZES)
    assert found == [function(n) for n in SIZES]
    assert int(0.29 * 100) == 28


def test_exact_factors_need_no_bound() -> None:
    assert sizes_of(lambda n: int(1.5 * n), Dim("n"), (4, 100_001)) == [6, 150_001]


def test_an_operators_own_factor() -> None:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, scale_factor=1.7)

    def captured(bound: Any) -> Any:
        spec = {"args": ({2: bound},)}
        return capture_module(Calls(scaled), (torch.ones(1, 1, 37),), dynamic_shapes=spec)

    bounded = captured(Dim("n", min=2, max=1000))
    for n in (2, 10, 1000):
        (found,) = interpret_lowered(bounded, (torch.ones(1, 1, n),))
        assert found.shape == scaled(torch.ones(1, 1, n)).shape
    with pytest.raises(AotError, match=r"greatest size of at most 65536"):
        ingest(captured(Dim("n")))


def halved(x: torch.Tensor) -> torch.Tensor:
    size = [int(float(n) / 2.0) for n in x.shape[2:]]
    return F.interpolate(x, size=size, mode="bilinear")


def test_conditions_on_roundings_of_several_sizes() -> None:
    """torch asks of the second result how it lies, in terms of both sizes, rounded twice."""
    spec = {"args": ({2: Dim.DYNAMIC, 3: Dim.DYNAMIC},)}
    model = Calls(lambda x: halved(halved(x)))
    captured = capture_module(model, (torch.randn(2, 3, 20, 24),), dynamic_shapes=spec)
    for shape in ((20, 24), (33, 17), (4, 7)):
        x = torch.randn(2, 3, *shape)
        assert_close(torch.from_numpy(interpret_lowered(captured, (x,))[0]), model(x))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("math.trunc(torch.sym_float(n) / 2.0)", 18),
        ("math.floor(n / 4)", 9),
        ("math.ceil(0.75 * torch.sym_float(n))", 28),
        ("math.trunc(torch.sym_float(math.trunc(torch.sym_float(n) / 2.0)) * 1.5)", 27),
        ("math.ceil(n / 2 + 1.0)", 20),
        ("math.ceil(1.5 + torch.sym_float(n) / 2.0)", 20),
        ("math.trunc(n / 2 - 20)", -1),
        ("math.trunc(n / 2 + -20.0)", -1),
    ],
)
def test_roundings_in_conditions_are_read(text: str, value: int) -> None:
    def size_of(node: ast.expr) -> Expr:
        return integer(37) if isinstance(node, ast.Name) else read_rounded(node, size_of)

    assert read_rounded(ast.parse(text, mode="eval").body, size_of) == integer(value)


@pytest.mark.parametrize(
    "text",
    [
        "math.sqrt(n)",
        "math.trunc(torch.sym_float(n) * 0.29)",
        "math.trunc(2.0 / n)",
        "math.trunc(n)",
    ],
)
def test_other_numbers_in_conditions_are_none(text: str) -> None:
    with pytest.raises(ValueError):
        read_rounded(ast.parse(text, mode="eval").body, lambda _: integer(37))


def test_masks_keep_the_last_digits_or_the_others() -> None:
    for number in (37, -37):
        assert masked(integer(number), 7) == integer(number & 7)
        assert masked(integer(number), ~7) == integer(number & ~7)
        assert masked(integer(number), -1) == integer(number)
    with pytest.raises(ValueError, match="& 5"):
        masked(integer(37), 5)
