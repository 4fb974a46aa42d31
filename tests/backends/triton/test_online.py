"""One walk for the greatest element and the sum of exponentials: values and texts."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable

import pytest
import torch

from aot.backends.triton import row_tiling
from aot.backends.triton.online import FAR, find_online
from aot.frontend.capture import Captured
from aot.ir.kernels import NestKernel
from tests.backends.triton.templates import captured, check_close, emitted, kernels_of

LENGTH = 300


@pytest.fixture(autouse=True)
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are walked in turns of a few elements, so that small ones will do."""
    monkeypatch.setattr(row_tiling, "PERSISTENT_POINTS", 128)
    monkeypatch.setattr(row_tiling, "LOOP_POINTS", 64)


def row(**places: float) -> torch.Tensor:
    """Numbers of a row, some of them replaced: by `at_7=math.inf`, for example."""
    torch.manual_seed(0)
    x = torch.randn(LENGTH) * 4
    for name, number in places.items():
        x[int(name.removeprefix("at_"))] = number
    return x


ROWS = torch.stack(
    [
        row(),
        torch.linspace(-50, 50, LENGTH),
        torch.linspace(50, -50, LENGTH),
        torch.full((LENGTH,), -3.0),
        torch.where(torch.arange(LENGTH) % 77 == 5, 1.5, -math.inf),
        torch.full((LENGTH,), -math.inf),
        row(at_200=math.inf),
        row(at_299=math.nan),
    ]
)
"""Also: all alike, few that are seen, none that is, infinite, no number."""


def softmax(x: torch.Tensor) -> torch.Tensor:
    return x.softmax(-1)


def log_total(x: torch.Tensor) -> torch.Tensor:
    greatest = x.amax(-1, keepdim=True)
    return greatest + (x - greatest).exp().sum(-1, keepdim=True).log()


@pytest.mark.parametrize("function", [softmax, log_total])
def test_values_are_those_of_two_walks(function: Callable[..., torch.Tensor]) -> None:
    model = captured(function, (ROWS,))
    assert "online_exp(top" in emitted(model).functions[0].text
    check_close(model, function, (ROWS,))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_down_columns_a_lane_has_what_one_thread_reads(dtype: torch.dtype) -> None:
    """Neighbours in memory are of different columns there."""
    x = torch.cat([ROWS, ROWS.flip(0) / 2]).T.contiguous().to(dtype)
    model = captured(lambda x: x.softmax(0), (x,))
    text = emitted(model).functions[0].text
    (shape, axis), *_ = re.findall(r"tl\.reshape\(.*, (\[.*?\])\), (\d)\)", text)
    assert axis == "1" and shape.split(", ")[1] == str(FAR)
    check_close(model, lambda x: x.softmax(0), (x,))


ODD = torch.cat([ROWS[:, :1], ROWS], 1)
"""Rows that begin within vectors."""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "function",
    [softmax, lambda x: softmax(x[:, 3:]), lambda x: softmax(x + torch.arange(301).to(x))],
    ids=["whole rows", "their ends", "beside what is not walked"],
)
def test_odd_rows_are_walked_from_a_vector_on(
    function: Callable[..., torch.Tensor], dtype: torch.dtype
) -> None:
    x = ODD.to(dtype)
    model = captured(function, (x,))
    text = emitted(model).functions[0].text
    first, *_ = re.findall(r"tl.load\(p0 \+ \(low\d+ \+ t\d+\)(.*?)\)", text)
    assert "mask" not in first
    check_close(model, function, (x,))


def test_rows_of_whole_vectors_are_walked_from_their_first_element() -> None:
    assert "low" not in emitted(captured(softmax, (ROWS,))).functions[0].text


def test_halves_are_walked_once_too() -> None:
    assert pairs(captured(softmax, (ROWS.to(torch.bfloat16),))) == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x - x.amin(-1, keepdim=True)).exp().sum(-1),
        lambda x: (2 * x - x.amax(-1, keepdim=True)).exp().sum(-1),
        lambda x: (x - x.amax(-1, keepdim=True)).exp2().sum(-1),
        lambda x: softmax(x.double()),
    ],
    ids=["of the least", "of something else", "no exponential", "float64"],
)
def test_other_sums_take_a_walk_of_their_own(function: Callable[..., torch.Tensor]) -> None:
    assert pairs(captured(function, (ROWS,))) == 0


def pairs(model: Captured) -> int:
    """Stages that one walk does together with the one before."""
    stages = [k.stages for k in kernels_of(model).kernels if isinstance(k, NestKernel)]
    found = (find_online(*p) for s in stages for p in itertools.pairwise(s))
    return sum(online is not None for online in found)
