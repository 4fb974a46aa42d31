"""Tiles of points: which axes get a dimension of their own, and how long its sides are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.backends.triton.templates import captured, emitted


def only(function: Callable[..., Any], *args: torch.Tensor) -> str:
    """The text of the only function."""
    (made,) = emitted(captured(function, args)).functions
    return made.text


def test_reads_along_another_axis_get_a_second_tile_dimension() -> None:
    text = only(lambda x, y: x.t() + y, torch.zeros(96, 64), torch.zeros(64, 96))
    assert "[:, None]" in text
    assert "[None, :]" in text


@pytest.mark.parametrize(
    ("shape", "high", "wide"),
    [((1 << 20, 8), 8, 512), ((1 << 20, 4), 4, 1024), ((65536, 100), 64, 64), ((300, 8), 8, 64)],
)
def test_a_short_side_of_such_a_tile_makes_the_other_one_long(
    shape: tuple[int, int], high: int, wide: int
) -> None:
    text = only(lambda x: x.t().contiguous() + 1, torch.zeros(shape))
    assert f"tl.arange(0, {high})[:, None]" in text
    assert f"tl.arange(0, {wide})[None, :]" in text


def test_three_neighbours_are_no_side_of_a_tile() -> None:
    text = only(lambda x: x.t().contiguous() + 1, torch.zeros(65536, 3))
    assert "None" not in text
