"""Text that several templates write."""

from __future__ import annotations

import struct

import pytest

from aot.backends.triton.text import joined, literal, taken_apart
from aot.ir.dtypes import FLOAT32, FLOAT64


def test_tensors_are_taken_apart_in_the_order_in_which_they_are_joined() -> None:
    assert joined(["a0", "a1", "a2", "a3"]) == "tl.join(tl.join(a0, a2), tl.join(a1, a3))"
    lines: list[str] = []
    assert taken_apart(lines.append, "x", 4) == ["xee", "xoe", "xeo", "xoo"]
    assert lines == ["xe, xo = tl.split(x)", "xee, xeo = tl.split(xe)", "xoe, xoo = tl.split(xo)"]


@pytest.mark.parametrize("number", (0.1, -(2.0**-0.5), 1e-300))
def test_numbers_of_doubles_are_given_by_their_bits_where_a_cast_would_round_them(
    number: float,
) -> None:
    """Triton makes float32 of a number before it casts it."""
    text = literal(number, FLOAT64, gluon=True)
    bits = int(text.removeprefix("tl.cast(").split(",")[0])
    assert struct.unpack("<d", struct.pack("<q", bits)) == (number,)
    assert text.endswith(".to(tl.float64, bitcast=True)")
    assert literal(0.5, FLOAT64, gluon=True) == "tl.cast(0.5, tl.float64)"
    assert "bitcast" not in literal(0.1, FLOAT32, gluon=True) + literal(0.1, FLOAT64)
