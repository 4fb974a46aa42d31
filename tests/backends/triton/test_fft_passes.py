"""Passes of Fourier transforms: digits of a call, and how results become one tensor."""

from __future__ import annotations

import numpy as np
import pytest

from aot.backends.triton.fft_passes import fft_digits, is_row, joined
from aot.ir.templates import Fft
from tests.ir.templates.test_fft import graph_of


def call_of(points: int, inner: int) -> Fft:
    (call,) = (op for op in graph_of(points, inner).ops if isinstance(op, Fft))
    return call


@pytest.mark.parametrize(
    ("points", "inner", "digits"), [(16, 1, (16,)), (1024, 1, (8, 4, 8, 4)), (30, 3, (2, 15))]
)
def test_both_sizes_of_a_row_have_digits_of_their_own(
    points: int, inner: int, digits: tuple[int, ...]
) -> None:
    call = call_of(points, inner)
    assert fft_digits(call) == digits
    assert is_row(call) == (inner == 1)


@pytest.mark.parametrize("count", [1, 2, 8])
def test_the_number_of_a_tensor_is_read_from_the_last_dimensions(count: int) -> None:
    class Language:
        @staticmethod
        def join(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            return np.stack([a, b], -1)

    values = {f"x{k}": np.full(3, k) for k in range(count)}
    made = eval(joined(list(values)), {"tl": Language}, values)
    np.testing.assert_array_equal(np.reshape(made, (3, count)), [range(count)] * 3)
