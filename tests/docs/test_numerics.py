"""docs/numerics.md says the bounds that the tests use."""

from __future__ import annotations

import math

import torch

from tests.backends.cpp.vec.test_math import ULPS
from tests.blocks import ROOT
from tests.comparing import FACTOR, TOLERANCE, roundings_of_sums

PAGE = (ROOT / "docs" / "numerics.md").read_text(encoding="utf-8")


def _bound(value: float) -> str:
    """A power of two as one, another number as Python writes it."""
    mantissa, exponent = math.frexp(value)
    return f"2^{exponent - 1}" if mantissa == 0.5 else str(value)


def _row(dtype: torch.dtype) -> str:
    name = str(dtype).removeprefix("torch.")
    summed = roundings_of_sums(torch.float64 if dtype == torch.complex128 else dtype)
    return f"| {name} | {_bound(TOLERANCE[dtype])} | {_bound(summed)} |"


def test_every_type_has_the_bounds_of_the_tests() -> None:
    wanted = [_row(dtype) for dtype in TOLERANCE]
    begin = PAGE.index("| type | of itself |")
    found = PAGE[begin:].partition("\n\n")[0].splitlines()[2:]
    assert sorted(found) == sorted(wanted)


def test_the_factors_of_the_text_are_those_of_the_tests() -> None:
    assert f"**{FACTOR:.0f} times eager's own error**" in PAGE
    assert f"| {ULPS:.0f} ulp of float32 and of float64" in PAGE
