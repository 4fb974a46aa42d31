"""Nests: axes by number, and which values a nest holds."""

from __future__ import annotations

from dataclasses import replace

from aot.ir.dtypes import FLOAT32, INT64
from aot.ir.nests import Store, numbered_axes
from aot.ir.scalar import bound_index, check_index, load
from aot.symbolic import as_expr, dim, var
from tests.ir.nests import I0, axes, nest


def test_axes_are_numbered_in_the_order_of_dimensions() -> None:
    made = numbered_axes("i", (as_expr(3), dim("s0")))
    assert [(str(a.symbol), a.extent) for a in made] == [("i0", 3), ("i1", dim("s0"))]


def test_values_that_stores_index_with_are_values_of_the_nest() -> None:
    value = load("x", FLOAT32, (I0,))
    row = check_index(load("p", INT64, (I0,)), as_expr(4))
    index, binds = bound_index((var("row"),), {var("row"): row})
    plain = nest(axes(i0=4), value)
    scatter = replace(plain, stores=(*plain.stores, Store("z", index, value, "add", binds)))
    assert plain.roots == (value,)
    assert scatter.roots == (value, value, row)
