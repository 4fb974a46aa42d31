"""Rewriting nests: what is renamed, split and simplified, and what stays the same object."""

from __future__ import annotations

import pytest

from aot.ir.dtypes import FLOAT32, INT64
from aot.ir.loops import bases
from aot.ir.nests import Axis, LoopNest, Store, View
from aot.ir.origin import Origin
from aot.ir.printer import op_lines
from aot.ir.rewrite import (
    in_parts,
    rename_buffers,
    simplify_indices,
    split_axis,
    substitute_axes,
    with_roots,
)
from aot.ir.scalar import binary, check_index, load
from aot.ir.templates.scan import Scan
from aot.symbolic import FloorDiv, Modulo, Ranges, as_expr, var
from tests.ir.nests import I0, axes, nest, row_sums

OUTER, INNER = Axis(var("o"), as_expr(3)), Axis(var("p"), as_expr(4))


def text(changed: LoopNest) -> str:
    return " ".join(op_lines(changed)).partition("  #")[0]


def plain() -> LoopNest:
    return nest(axes(i0=12), load("x", FLOAT32, (I0,)))


def test_equal_roots_leave_the_nest_alone() -> None:
    one = plain()
    assert with_roots(one, one.roots) is one
    other = with_roots(one, [binary("add", one.roots[0], one.roots[0])])
    assert text(other) == "n0 = nest(i0<12) { y[i0] = x[i0] + x[i0] }"


def test_bound_values_of_stores_are_roots_too() -> None:
    position = check_index(load("p", INT64, (I0,)), as_expr(12))
    store = Store("y", (var("t0"),), load("x", FLOAT32, (I0,)), binds=((var("t0"), position),))
    scatter = LoopNest("n0", tuple(axes(i0=12)), (), (store,), Origin())
    renamed = rename_buffers(scatter, {"p": "q", "y": "z"})
    assert "q[i0]" in text(renamed) and "z[" in text(renamed) and "p[" not in text(renamed)


def test_the_base_of_an_update_is_renamed() -> None:
    store = Store("y", (I0,), load("x", FLOAT32, (I0,)), base="b")
    update = LoopNest("n0", tuple(axes(i0=12)), (), (store,), Origin())
    renamed = rename_buffers(update, {"b": "result", "y": "z"})
    assert bases(renamed) == {"z": "result"}


def test_buffers_of_nests_and_templates_are_renamed() -> None:
    assert (
        text(rename_buffers(plain(), {"x": "a", "y": "b"})) == "n0 = nest(i0<12) { b[i0] = a[i0] }"
    )
    view = View("x", tuple(axes(i0=12)), (I0,))
    call = Scan("c", View("y", view.axes, view.index), Origin(), x=view, combine="sum")
    renamed = rename_buffers(call, {"x": "a", "y": "b"})
    assert isinstance(renamed, Scan)
    assert (renamed.x.buffer, renamed.output.buffer) == ("a", "b")


def test_an_axis_in_parts() -> None:
    (axis,) = axes(i0=12)
    assert in_parts((axis, OUTER), axis, (INNER,)) == (INNER, OUTER)
    cut = split_axis(plain(), axis, (OUTER, INNER))
    assert text(cut) == "n0 = nest(o<3, p<4) { y[p + 4*o] = x[p + 4*o] }"
    assert split_axis(cut, axis, (OUTER, INNER)) is cut


def test_a_reduced_axis_in_parts() -> None:
    (sums,) = (op for op in row_sums().ops if isinstance(op, LoopNest))
    (axis,) = sums.reduction
    two = Axis(var("q"), as_expr(2))
    rest = Axis(var("r"), axis.extent / 2)
    cut = split_axis(sums, axis, (rest, two))
    assert cut.reduction == (rest, two) and cut.axes == sums.axes


def test_axes_may_become_any_expression() -> None:
    (axis,) = axes(i0=12)
    flipped = substitute_axes(plain(), {axis.symbol: 11 - OUTER.symbol}, (OUTER,), ())
    assert text(flipped) == "n0 = nest(o<3) { y[(-1)*o + 11] = x[(-1)*o + 11] }"


@pytest.mark.parametrize(
    ("index", "simple"),
    [
        (FloorDiv(4 * OUTER.symbol + INNER.symbol, as_expr(4)), "x[o]"),
        (Modulo(4 * OUTER.symbol + INNER.symbol, as_expr(4)), "x[p]"),
    ],
)
def test_indices_are_simplified_by_the_ranges_of_axes(index: object, simple: str) -> None:
    value = load("x", FLOAT32, (index,))  # type: ignore[arg-type]
    point = (OUTER.symbol, INNER.symbol)
    one = LoopNest("n0", (OUTER, INNER), (), (Store("y", point, value),), Origin())
    ranges = Ranges({a.symbol: a.extent for a in (OUTER, INNER)})
    changed = simplify_indices(one, ranges)
    assert simple in text(changed)
    assert simplify_indices(changed, ranges) is changed
