"""Integers in the order of floats: what sorting and the search for extrema compare."""

from __future__ import annotations

from aot.ir.dtypes import DType
from aot.ir.scalar import Node, binary, const, make, unary, where


def order_key(value: Node, held: DType, *, equal_zeros: bool) -> Node:
    """A float as an integer of the type `held` (as wide) in the same order; NaN is greatest.

    `equal_zeros`: -0.0 and 0.0 have one key; else -0.0 comes first, and `from_order_key` gives
    each back.
    """
    zero = const(0.0, value.dtype)
    plain = where(binary("eq", value, zero), zero, value) if equal_zeros else value
    bits = make("bitcast", held, plain)
    greatest = const(greatest_key(held), held)
    sign = binary("shr", bits, const(8 * held.itemsize - 1, held))
    turned = binary("xor", bits, binary("and", sign, greatest))
    return where(unary("isnan", value), greatest, turned)


def from_order_key(key: Node, dtype: DType) -> Node:
    """The float of a key that `order_key` made with zeros apart; any NaN comes back as one."""
    held = key.dtype
    sign = binary("shr", key, const(8 * held.itemsize - 1, held))
    bits = binary("xor", key, binary("and", sign, const(greatest_key(held), held)))
    return make("bitcast", dtype, bits)


def greatest_key(held: DType) -> int:
    """The key of NaN: the greatest number of the type."""
    return (1 << (8 * held.itemsize - 1)) - 1
