"""Digits of points' numbers, and small transforms as text."""

from __future__ import annotations

import numpy as np
import pytest

from aot.backends.triton.fft_digits import Digit, Transforms, number_text
from tests.settings import seeded


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 9, 15, 16, 25, 27, 31])
def test_transforms_are_what_numpy_says(n: int) -> None:
    rng = np.random.default_rng(seeded(n))
    x = rng.standard_normal((2, n))
    lines: list[str] = []
    names = Transforms(lines.append).transform([(f"x{j}", f"w{j}") for j in range(n)])
    values = {f"{'xw'[c]}{j}": x[c, j] for c in range(2) for j in range(n)}
    exec("\n".join(lines), {}, values)
    found = [complex(values[re], values[im]) for re, im in names]
    np.testing.assert_allclose(found, np.fft.fft(x[0] + 1j * x[1]), atol=1e-13)


def test_numbers_of_positions_skip_what_is_padded() -> None:
    text, test = number_text("p", [Digit(3, 1), Digit(5, 3)])
    numbers = [eval(text, {"p": p}) for p in range(32) if eval(test, {"p": p})]
    assert sorted(numbers) == list(range(15))


def test_a_position_that_is_its_number_stays_as_it_is() -> None:
    assert number_text("p", [Digit(8, 4), Digit(4, 1)]) == ("p", "")
    assert number_text("p", [Digit(8, 1), Digit(4, 8)]) != ("p", "")
