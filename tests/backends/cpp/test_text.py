"""C++ literals and types of elements."""

from __future__ import annotations

import pytest

from aot.backends.cpp.text import lane_type, literal, memory_type, value_type
from aot.ir.dtypes import BOOL, FLOAT16, FLOAT32, INT64, UINT16, UINT32, UINT64, DType


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (-1, UINT64, "18446744073709551615ULL"),
        (1 << 62, UINT64, f"{1 << 62}LL"),
        (-1, UINT32, "4294967295LL"),
        (70000, UINT16, "4464"),
        (-(1 << 63), INT64, "INT64_MIN"),
        (float("-inf"), FLOAT32, "-__builtin_inff()"),
        (1, BOOL, "true"),
    ],
)
def test_a_literal_has_the_value_that_a_lane_holds(value: float, dtype: DType, text: str) -> None:
    assert literal(value, dtype) == text


def test_half_types_are_floats_in_registers() -> None:
    assert (lane_type(FLOAT16), memory_type(FLOAT16)) == ("float", "aot::f16")
    assert value_type(UINT32, "8") == "aot::Vec<uint32_t, 8>"
