"""The interpreter's table of scalar operations."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from aot.ir import special
from aot.ir.dtypes import BFLOAT16, BOOL, FLOAT32, INT8, INT16, INT32, UINT8
from aot.ir.numpy_ops import constant, convert, reinterpret
from aot.ir.operations import OPERATIONS
from aot.ir.scalar import OPS
from aot.ir.verify_nodes import RULES


def test_every_scalar_operation_has_a_rule() -> None:
    assert set(RULES) == OPS


@pytest.mark.parametrize(
    ("op", "a", "b", "expected"),
    [
        ("floordiv", [7, -7, 7, -7, 5], [2, 2, -2, -2, 0], [3, -4, -4, 3, 0]),
        ("mod", [7, -7, 7, -7, 5], [2, 2, -2, -2, 0], [1, 1, -1, -1, 0]),
        ("truncdiv", [7, -7, 7, -7, -5], [2, 2, -2, -2, 0], [3, -3, -3, 3, 0]),
        ("fmod", [7, -7, 7, -7], [2, 2, -2, -2], [1, -1, 1, -1]),
        ("pow", [2, -1, -1, 3, 0], [5, -3, -2, -1, 0], [32, -1, 1, 0, 1]),
    ],
)
def test_integer_arithmetic(op, a, b, expected) -> None:
    with np.errstate(all="ignore"):
        result = OPERATIONS[op].meaning(np.array(a, np.int32), np.array(b, np.int32))
    assert result.dtype == np.int32
    np.testing.assert_array_equal(result, expected)


def test_sign_of_nan_is_zero() -> None:
    x = np.array([np.nan, -2.0, 0.0, 3.0], np.float32)
    np.testing.assert_array_equal(OPERATIONS["sign"].meaning(x), [0, -1, 0, 1])


def test_fma_rounds_once() -> None:
    a = np.float32(1 + 2.0**-12)
    exact = float(a) * float(a) - float(np.float32(float(a) * float(a)))
    product = np.float32(a * a)
    result = OPERATIONS["fma"].meaning(np.array(a), np.array(a), np.array(-product))
    assert result == np.float32(exact) != 0.0


def test_constants_and_casts() -> None:
    assert constant(300, UINT8) == 44
    assert constant(1.0 + 2.0**-9, BFLOAT16) == 1.0
    np.testing.assert_array_equal(convert(np.array([-1.7, 1.7], "f4"), INT32), [-1, 1])
    np.testing.assert_array_equal(convert(np.array([0.0, np.nan], "f4"), BOOL), [False, True])
    assert convert(np.array(300, np.int64), INT8) == 44


def test_reinterpreting_a_half_type() -> None:
    bits = reinterpret(np.array([1.0, -2.0], np.float32), BFLOAT16, INT16)
    np.testing.assert_array_equal(bits, np.array([0x3F80, 0xC000], np.uint16).view(np.int16))
    back = reinterpret(bits, INT16, BFLOAT16)
    np.testing.assert_array_equal(back, [1.0, -2.0])
    assert back.dtype == FLOAT32.numpy


POINTS = (-25.3, -3.7, -1.0, -0.4, -1e-3, 0.0, 1e-5, 0.3, 0.999, 1.0, 2.5, 9.0, 31.0, 100.0)
REFERENCES = {
    "erf": mpmath.erf,
    "erfc": mpmath.erfc,
    "i0": lambda x: mpmath.besseli(0, x),
    "i1": lambda x: mpmath.besseli(1, x),
    "i0e": lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)),
    "i1e": lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)),
    "lgamma": lambda x: mpmath.log(abs(mpmath.gamma(x))),
    "digamma": mpmath.digamma,
    "erfinv": mpmath.erfinv,
}


@pytest.mark.parametrize("name", REFERENCES)
def test_special_functions(name: str) -> None:
    poles = name in ("lgamma", "digamma")
    points = [p for p in POINTS if not (poles and p <= 0 and p == int(p))]
    points = [p for p in points if not (name == "erfinv" and abs(p) >= 1)]
    actual = getattr(special, name)(np.array(points))
    expected = [float(REFERENCES[name](mpmath.mpf(p))) for p in points]
    np.testing.assert_allclose(actual, expected, rtol=2e-13, atol=1e-15)


def test_special_functions_at_the_edges() -> None:
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(
            special.erfinv(np.array([-1.0, 1.0, 1.5])), [-np.inf, np.inf, np.nan]
        )
        np.testing.assert_array_equal(special.lgamma(np.array([0.0, -3.0])), [np.inf, np.inf])
        np.testing.assert_array_equal(special.digamma(np.array([0.0, -2.0])), [-np.inf, np.nan])
        np.testing.assert_array_equal(special.i0(np.array([np.inf, np.nan])), [np.inf, np.nan])
