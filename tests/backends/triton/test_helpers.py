"""Device functions of our own, in the interpreter, against Python's in double precision."""

from __future__ import annotations

import math

import numpy as np
import torch

from aot.backends.triton.compile import compile_kernels
from tests.backends.triton.templates import captured, emitted
from tests.conformance.executors import interpret_triton


def test_erf_is_right_to_two_units_in_the_last_place():
    steps = torch.cat([torch.linspace(-5, 5, 4001), torch.logspace(-30, 30, 200)])
    (found,) = interpret_triton(captured(torch.erf, (steps,)), (steps,))
    exact = np.array([math.erf(float(x)) for x in steps])
    unit = np.spacing(np.abs(exact).astype(np.float32))
    assert (np.abs(found - exact) <= 2 * unit).all()


def test_erf_at_the_ends():
    ends = torch.tensor([math.inf, -math.inf, math.nan, 0.0, -0.0, 3e38])
    (found,) = interpret_triton(captured(torch.erf, (ends,)), (ends,))
    np.testing.assert_array_equal(found, np.array([1, -1, math.nan, 0, 0, 1], np.float32))
    assert list(np.signbit(found[3:5])) == [False, True]


def test_functions_with_loops_take_numbers_too():
    """A kernel of one element has numbers where others have blocks, which Triton does not mix."""

    def model(n, m, x):
        polynomial = torch.special.laguerre_polynomial_l(x, n.float())
        return torch.gcd(n, m), polynomial, torch.special.gammainc(x, x + 1)

    numbers = (torch.tensor(12), torch.tensor(18), torch.tensor(0.5))
    functions = emitted(captured(model, numbers)).functions
    assert [image.data[:4] for image in compile_kernels(functions, "sm_90", 2, None)] == [
        b"\x7fELF" for _ in functions
    ]
