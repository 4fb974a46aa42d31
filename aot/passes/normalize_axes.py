"""Axis normalisation: loops are split where an index divides them, and loops of one turn go.

After it, a nest that reads through a reshape has affine indices wherever the sizes allow, so that
different iteration spaces over the same elements can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from aot.ir.loops import LoopGraph
from aot.ir.nests import Axis, LoopNest
from aot.ir.rewrite import index_nodes, simplify_indices, split_axis, substitute_axes
from aot.ir.templates.base import LoopOp
from aot.symbolic import (
    Expr,
    FloorDiv,
    Modulo,
    Symbol,
    exact_quotient,
    integer,
    is_multiple,
    terms,
    var,
)

MAX_SPLITS = 8
"""Splits of one nest; reshapes that need more keep their divisions."""


def normalize_axes(graph: LoopGraph) -> LoopGraph:
    """The graph with every nest's axes split and dropped as described above."""
    ops = tuple(_normalize(graph, op) if isinstance(op, LoopNest) else op for op in graph.ops)
    return graph if _same(ops, graph.ops) else replace(graph, ops=ops)


def _same(a: tuple[LoopOp, ...], b: tuple[LoopOp, ...]) -> bool:
    return all(x is y for x, y in zip(a, b, strict=True))


def _normalize(graph: LoopGraph, nest: LoopNest) -> LoopNest:
    nest = drop_unit_axes(nest)
    nest = simplify_indices(nest, graph.ranges(*nest.axes, *nest.reduction))
    for _ in range(MAX_SPLITS):
        split = find_split(nest)
        if split is None:
            break
        axis, inner = split
        nest = cut_axis(nest, axis, inner)
        nest = simplify_indices(nest, graph.ranges(*nest.axes, *nest.reduction))
    return nest


def drop_unit_axes(nest: LoopNest) -> LoopNest:
    """The nest without axes of extent 1."""
    units = [a for a in (*nest.axes, *nest.reduction) if a.extent == 1]
    if nest.reduction and all(a.extent == 1 for a in nest.reduction):
        units.remove(nest.reduction[0])  # a reducing nest keeps a reduction axis
    if not units:
        return nest
    mapping = {a.symbol: integer(0) for a in units}
    axes = tuple(a for a in nest.axes if a not in units)
    reduction = tuple(a for a in nest.reduction if a not in units)
    return substitute_axes(nest, mapping, axes, reduction)


def find_split(nest: LoopNest) -> tuple[Axis, Expr] | None:
    """An axis that an index divides (`i // d`, `i % d`), and d: the extent of its inner part."""
    by_symbol = {a.symbol: a for a in (*nest.axes, *nest.reduction)}
    for expr in index_nodes(nest):
        for part in _divisions(expr):
            dividend, divisor = part.args
            for symbol in _whole_symbols(dividend):
                axis = by_symbol.get(symbol)
                if axis is None:
                    continue
                if axis.extent != divisor and is_multiple(axis.extent, divisor):
                    return axis, divisor
    return None


def _divisions(expr: Expr) -> Iterable[Expr]:
    if isinstance(expr, (FloorDiv, Modulo)):
        yield expr
    for a in expr.args:
        yield from _divisions(a)


def _whole_symbols(dividend: Expr) -> list[Symbol]:
    """Symbols that are a term of the dividend with coefficient 1."""
    return [t for t in terms(dividend) if t.is_Symbol]


def cut_axis(nest: LoopNest, axis: Axis, inner: Expr) -> LoopNest:
    """The nest with `axis` replaced by (extent / inner, inner).

    Raises:
        ValueError: `inner` does not visibly divide the extent.
    """
    quotient = exact_quotient(axis.extent, inner)
    if quotient is None:
        raise ValueError(f"{nest.name}: {inner} does not divide {axis.extent}")
    taken = {str(a.symbol) for a in (*nest.axes, *nest.reduction)}
    outer_name, inner_name = _fresh_names(str(axis.symbol), taken)
    return split_axis(nest, axis, (Axis(var(outer_name), quotient), Axis(var(inner_name), inner)))


def _fresh_names(base: str, taken: set[str]) -> tuple[str, str]:
    serial = 0
    while f"{base}_{serial}" in taken or f"{base}_{serial + 1}" in taken:
        serial += 2
    return f"{base}_{serial}", f"{base}_{serial + 1}"
