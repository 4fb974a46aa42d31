"""Numbers in the text of kernels: real and complex arithmetic, evaluated by Python."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from aot.backends.triton.matrix_numbers import LaneNumber, LaneNumbers

TRITON = SimpleNamespace(fma=lambda a, b, x: a * b + x)
VALUES = {"a": 2.0 - 1.0j, "b": -0.5 + 3.0j, "x": 1.25 + 0.75j}


def evaluated(make: str, parts: int) -> complex:
    numbers = LaneNumbers(lambda text: None, "[1, 1]", parts, "tl.float64")
    named = {name: numbers.named(name) for name in VALUES}
    places: dict[str, float] = {}
    for name, value in VALUES.items():
        places |= dict(zip(named[name], (value.real, value.imag), strict=False))
    arguments = {"product": "ab", "plus": "xab", "minus": "xab"}[make]
    found: LaneNumber = getattr(numbers, make)(*(named[name] for name in arguments))
    re, *im = (eval(text, {"tl": TRITON}, places) for text in found)
    return complex(re, im[0] if im else 0.0)


@pytest.mark.parametrize("parts", (1, 2))
def test_products_and_sums(parts: int) -> None:
    a, b, x = (v if parts == 2 else v.real for v in VALUES.values())
    assert evaluated("product", parts) == a * b
    assert evaluated("plus", parts) == x + a * b
    assert evaluated("minus", parts) == x - a * b


def test_both_parts_are_set_at_once() -> None:
    lines: list[str] = []
    numbers = LaneNumbers(lines.append, "[1, 1]", 2, "tl.float64")
    numbers.let("a", numbers.product(numbers.named("a"), numbers.named("b")))
    assert lines == ["a_re, a_im = a_re * b_re - a_im * b_im, a_re * b_im + a_im * b_re"]
