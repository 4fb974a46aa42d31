"""Special functions in float64 against mpmath; eager's own are less accurate than that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from aot.ir.dtypes import FLOAT32, FLOAT64
from aot.ir.numpy_ops import constant, convert
from aot.ir.operations import OPERATIONS
from aot.ir.scalar import Node, fold, load, postorder
from aot.lowering.gamma import TWO_OPERANDS, polygamma_body
from aot.lowering.polynomials import POLYNOMIALS
from aot.lowering.special import ONE_OPERAND

Array = np.ndarray[Any, Any]


def evaluated(body: Callable[..., Node], *values: Array) -> Array:
    """The body's value for operands in float64 or float32, as the interpreter computes it."""
    operands = {f"x{k}": v for k, v in enumerate(values)}
    dtype = FLOAT32 if values[0].dtype == np.float32 else FLOAT64

    def visit(node: Node, args: tuple[Array, ...]) -> Array:
        if node.op == "load":
            return operands[node.attr.buffer]
        if node.op == "const":
            return constant(node.attr, node.dtype)
        if node.op == "cast":
            return convert(*args, node.dtype)
        if node.op == "where":
            return np.where(*args)
        return OPERATIONS[node.op].meaning(*args)

    with np.errstate(all="ignore"):
        return fold([body(*(load(name, dtype, ()) for name in operands))], visit)[0]


EXACT: dict[str, tuple[Callable[[Any], Any], float, float]] = {
    "bessel_j0": (lambda x: mp.besselj(0, x), -40.0, 40.0),
    "bessel_j1": (lambda x: mp.besselj(1, x), -40.0, 40.0),
    "bessel_y0": (lambda x: mp.bessely(0, x), 0.01, 40.0),
    "bessel_y1": (lambda x: mp.bessely(1, x), 0.01, 40.0),
    "modified_bessel_k0": (lambda x: mp.besselk(0, x), 0.01, 40.0),
    "modified_bessel_k1": (lambda x: mp.besselk(1, x), 0.01, 40.0),
    "scaled_modified_bessel_k0": (lambda x: mp.exp(x) * mp.besselk(0, x), 0.01, 400.0),
    "scaled_modified_bessel_k1": (lambda x: mp.exp(x) * mp.besselk(1, x), 0.01, 400.0),
    "spherical_bessel_j0": (mp.sinc, -40.0, 40.0),
    "airy_ai": (mp.airyai, -20.0, 20.0),
    "erfcx": (lambda x: mp.exp(mp.mpf(x) ** 2) * mp.erfc(x), -5.0, 60.0),
    "log_ndtr": (lambda x: mp.log(mp.erfc(-mp.mpf(x) / mp.sqrt(2)) / 2), -30.0, 5.0),
    "ndtri": (lambda p: mp.sqrt(2) * mp.erfinv(2 * mp.mpf(p) - 1), 1e-9, 1 - 1e-9),
}


@pytest.mark.parametrize("name", ONE_OPERAND)
def test_float64_is_as_accurate_as_its_rounding_allows(name: str) -> None:
    function, low, high = EXACT[name]
    x = np.linspace(low, high, 41)
    with mp.workdps(35):
        exact = np.array([float(function(v)) for v in x.tolist()])
    # At zeros of a wave, and where x itself is rounded, only the absolute error means something.
    np.testing.assert_allclose(evaluated(ONE_OPERAND[name], x), exact, rtol=4e-13, atol=4e-15)


@pytest.mark.parametrize("name", ONE_OPERAND)
def test_float32_has_its_digits(name: str) -> None:
    function, low, high = EXACT[name]
    x = np.linspace(max(low, -25.0), min(high, 25.0), 61).astype(np.float32)
    with mp.workdps(35):
        exact = np.array([float(function(v)) for v in x.tolist()])
    found = evaluated(ONE_OPERAND[name], x)
    assert found.dtype == np.float32
    # At zeros of a wave its size says what float32 has digits of; a square has twice its error.
    np.testing.assert_allclose(found, exact, rtol=5e-6 if name == "log_ndtr" else 1.5e-6, atol=4e-7)


@pytest.mark.parametrize("name", ["bessel_j0", "modified_bessel_k0", "log_ndtr", "ndtri"])
def test_nothing_of_float32_is_evaluated_in_float64(name: str) -> None:
    body = ONE_OPERAND[name](load("x", FLOAT32, ()))
    assert all(n.dtype != FLOAT64 for n in postorder([body]))


@pytest.mark.parametrize("kind", "tuvw")
def test_low_degrees_of_float32_are_steps_in_float32(kind: str) -> None:
    body = POLYNOMIALS[f"chebyshev_polynomial_{kind}"]
    few = body(load("x", FLOAT32, ()), load("n", FLOAT32, ()))
    assert few.op == "where"
    assert all(n.dtype != FLOAT64 for n in postorder([few.args[1]]))
    x = np.linspace(-1.25, 1.25, 21).astype(np.float32)
    for n in (-1, 0, 1, 2, 5, 8, 9, 30):
        degree = np.full_like(x, n)
        exact = evaluated(body, x.astype(np.float64), degree.astype(np.float64))
        np.testing.assert_allclose(evaluated(body, x, degree), exact, rtol=5e-6, atol=5e-6)


@pytest.mark.parametrize("p", [1e-300, 1e-100, 1e-40, 1e-20])
def test_far_quantiles_of_the_normal_distribution(p: float) -> None:
    found = evaluated(ONE_OPERAND["ndtri"], np.array([p]))[0]
    with mp.workdps(40):
        assert float(mp.erfc(-mp.mpf(found) / mp.sqrt(2)) / 2 / p) == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_polygamma(n: int) -> None:
    x = np.array([-7.3, -0.4, 0.02, 0.6, 3.0, 40.0, 1e6])
    exact = [float(mp.polygamma(n, v)) for v in x.tolist()]
    found = evaluated(lambda v: polygamma_body(n, v), x)
    np.testing.assert_allclose(found, exact, rtol=1e-12)


def test_zeta() -> None:
    s = np.array([1.5, 2.0, 7.25, 30.0, 2.0, 3.0])
    q = np.array([0.1, 9.0, 120.5, 0.75, -5.5, -0.25])
    exact = [float(mp.zeta(a, b)) for a, b in zip(s.tolist(), q.tolist(), strict=True)]
    np.testing.assert_allclose(evaluated(TWO_OPERANDS["special_zeta"], s, q), exact, rtol=1e-12)


@pytest.mark.parametrize("a", [0.01, 0.7, 3.0, 9.9, 25.0, 180.0, 300.0, 2e3])
def test_incomplete_gamma_functions(a: float) -> None:
    x = a * np.array([0.3, 0.9, 1.0, 1.1, 1.5]) + 0.05
    shape = np.full_like(x, a)
    with mp.workdps(30):
        lower = [float(mp.gammainc(a, 0, v, regularized=True)) for v in x.tolist()]
    found = evaluated(TWO_OPERANDS["igamma"], shape, x)
    np.testing.assert_allclose(found, lower, rtol=2e-12, atol=1e-300)
    both = found + evaluated(TWO_OPERANDS["igammac"], shape, x)
    np.testing.assert_allclose(both, 1.0, rtol=1e-15)


def test_float32_has_its_digits_of_what_is_evaluated_in_float64() -> None:
    s = np.array([1.5, 2.0, 7.25, 30.0, 2.0, 3.0], np.float32)
    q = np.array([0.125, 9.0, 120.5, 0.75, -5.5, -0.25], np.float32)
    exact = [float(mp.zeta(a, b)) for a, b in zip(s.tolist(), q.tolist(), strict=True)]
    found = evaluated(TWO_OPERANDS["special_zeta"], s, q)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, exact, rtol=2e-7)
    p = np.array([1e-30, 1e-3, 0.1, 0.3, 0.5, 0.75, 0.999], np.float32)
    quantiles = [float(mp.sqrt(2) * mp.erfinv(2 * mp.mpf(v) - 1)) for v in p[1:].tolist()]
    found = evaluated(ONE_OPERAND["ndtri"], p)
    np.testing.assert_allclose(found[1:], quantiles, rtol=1e-6)
    assert found[0] == pytest.approx(-11.4640249, rel=1e-6)
    ends = evaluated(ONE_OPERAND["ndtri"], np.array([0, 1, -0.5, 2, np.nan], np.float32))
    np.testing.assert_array_equal(ends, [-np.inf, np.inf, np.nan, np.nan, np.nan])


def _laguerre(n: int, x: float) -> Any:
    terms = (mp.binomial(n, k) * (-mp.mpf(x)) ** k / mp.factorial(k) for k in range(n + 1))
    return mp.fsum(terms)


def _sines(n: int, x: float, sign: int) -> Any:
    """U(n) plus or minus U(n - 1): Chebyshev's polynomials of the fourth and third kind."""
    return mp.chebyu(n, x) + (sign * mp.chebyu(n - 1, x) if n else 0)


@pytest.mark.parametrize(
    ("name", "exact"),
    [
        ("chebyshev_polynomial_t", mp.chebyt),
        ("chebyshev_polynomial_u", mp.chebyu),
        ("chebyshev_polynomial_v", lambda n, x: _sines(n, x, -1)),
        ("chebyshev_polynomial_w", lambda n, x: _sines(n, x, 1)),
        ("hermite_polynomial_h", mp.hermite),
        ("laguerre_polynomial_l", _laguerre),
        ("legendre_polynomial_p", mp.legendre),
    ],
)
def test_polynomials(name: str, exact: Callable[[Any, Any], Any]) -> None:
    x = np.array([-1.5, -1.0, -0.8, -0.2, 0.0, 0.4, 0.9, 1.0, 2.5])
    for n in (0, 1, 4, 11, 30):
        with mp.workdps(40):
            expected = [float(exact(n, v)) for v in x.tolist()]
        found = evaluated(POLYNOMIALS[name], x, np.full_like(x, n))
        np.testing.assert_allclose(found, expected, rtol=2e-12, atol=1e-13)
