"""Quotients and roots without a branch, in the interpreter, beside NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aot.backends.triton.helpers import definitions
from tests.backends.triton.interpret import interpreter
from tests.settings import seeded

Array = np.ndarray[Any, Any]
COUNT = 4096
KINDS = {np.float32: "fp32", np.float64: "fp64"}


def results(call: str, kind: type, *operands: Array) -> list[Array]:
    """What `call`, of the first operands x, y, makes of them: two results u, v."""
    names = "xyzw"[: len(operands)]
    places = ", ".join(f"{name}_at" for name in (*names, *"uv"))
    loads = "".join(f"    {n} = tl.load({n}_at + i)\n" for n in names)
    body = (
        f"@triton.jit\ndef k({places}):\n    i = tl.arange(0, {COUNT})[None, :]\n{loads}"
        f"    u, v = {call}\n    tl.store(u_at + i, u)\n    tl.store(v_at + i, v)\n"
    )
    text = f"import triton\nimport triton.language as tl\n\n\n{definitions(body)}{body}"
    empty = np.zeros(COUNT, kind)
    buffers = [np.ascontiguousarray(x, kind) for x in (*operands, empty, empty)]
    request = {
        "functions": {"k": (text, [f"*{KINDS[kind]}"] * len(buffers))},
        "buffers": [x.tobytes() for x in buffers],
        "launches": [("k", list(range(len(buffers))), [], (1,))],
    }
    after, _ = interpreter().run(request)
    return [np.frombuffer(content, kind) for content in after[-2:]]


def numbers(kind: type, powers: int, *, seed: int) -> Array:
    """Of both signs, up to so many powers of two from 1."""
    drawn = np.random.default_rng(seeded(seed))
    signed = drawn.standard_normal(COUNT)
    return np.ldexp(signed, drawn.integers(-powers, powers, COUNT)).astype(kind)


def units(found: Array, exact: Array, kind: type) -> float:
    """The greatest error in units of the last place."""
    return float(
        np.abs((found.astype(np.longdouble) - exact) / np.spacing(exact.astype(kind))).max()
    )


@pytest.mark.parametrize("kind", KINDS)
def test_quotients_are_rounded_once(kind: type) -> None:
    """Of numbers whose quotients are in the middle of the range: LU's zeros come of that."""
    a, b = (numbers(kind, 60 if kind is np.float32 else 480, seed=s) for s in (1, 2))
    found, _ = results("near_quotient(x, y), x", kind, a, b)
    np.testing.assert_array_equal(found, a / b)


@pytest.mark.parametrize("kind", KINDS)
def test_quotients_at_the_ends(kind: type) -> None:
    most, least = np.finfo(kind).max, np.finfo(kind).smallest_subnormal
    ends = np.array([0.0, -0.0, 1, -3, np.inf, -np.inf, np.nan, most, least, -least], kind)
    a, b = (x.ravel() for x in np.meshgrid(ends, ends))
    a, b = (np.resize(x, COUNT) for x in (a, b))
    found, _ = results("near_quotient(x, y), x", kind, a, b)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found, a / b, rtol=4 * np.finfo(kind).eps, atol=least)


@pytest.mark.parametrize("kind", KINDS)
def test_roots_and_their_inverses(kind: type) -> None:
    a = np.abs(numbers(kind, 120 if kind is np.float32 else 1000, seed=3))
    root, inverse = results("near_root(x)", kind, a)
    exact = np.sqrt(a.astype(np.longdouble))
    assert units(root, exact, kind) <= 0.51
    assert units(inverse, 1 / exact, kind) <= 1.5
    ends = np.resize(np.array([0, np.inf, np.finfo(kind).max], kind), COUNT)
    root, inverse = results("near_root(x)", kind, ends)
    np.testing.assert_allclose(root, np.sqrt(ends), rtol=np.finfo(kind).eps)
    np.testing.assert_array_equal(inverse[:2], [np.inf, 0])


@pytest.mark.parametrize("kind", KINDS)
def test_complex_quotients_and_sizes(kind: type) -> None:
    powers = 50 if kind is np.float32 else 450
    a, b = (numbers(kind, 4, seed=s) + 1j * numbers(kind, 4, seed=s + 1) for s in (4, 6))
    near = np.ldexp(1.0, np.random.default_rng(seeded(8)).integers(-powers, powers, COUNT))
    a, b = a * near, b * near
    parts = [part.astype(kind) for part in (a.real, a.imag, b.real, b.imag)]
    re, im = results("near_complex_quotient(x, y, z, w)", kind, *parts)
    exact = (parts[0] + 1j * parts[1].astype(np.clongdouble)) / (
        parts[2] + 1j * parts[3].astype(np.clongdouble)
    )
    assert (np.abs(re + 1j * im - exact) <= 8 * np.finfo(kind).eps * np.abs(exact)).all()
    size, _ = results("near_size(x, y), x", kind, *parts[:2])
    assert units(size, np.abs(parts[0] + 1j * parts[1].astype(np.clongdouble)), kind) <= 2


@pytest.mark.parametrize("kind", KINDS)
def test_directions_are_of_length_one(kind: type) -> None:
    """A bias would make the columns longer that many rotations turn."""
    a, b = (numbers(kind, 20, seed=s) for s in (9, 10))
    c, s = results("direction(x, y, x * x + y * y, x == x)", kind, a, b)
    off = (c.astype(np.longdouble) ** 2 + s.astype(np.longdouble) ** 2) - 1
    assert np.abs(off).max() <= 4 * np.finfo(kind).eps
    assert abs(off.mean()) <= 0.1 * np.finfo(kind).eps
    c, s = results("direction(x, y, x * 0, x != x)", kind, a, b)
    assert (c == 1).all()
    assert (s == 0).all()
