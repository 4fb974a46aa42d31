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
from aot.frontend.scaled_sizes import read_rounded
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
    ],
)
def test_fractions_of_a_size(function: Callable[[Any], Any]) -> None:
    found = sizes_of(function, Dim("n", min=1, max=100), SIZES)
    assert found == [function(n) for n in SIZES]


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
