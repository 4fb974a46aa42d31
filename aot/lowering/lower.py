"""From ATen operators to loop nests: the tensor graph's operators, in order, through their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aot import errors
from aot.ir.flow import Outline
from aot.ir.loops import LoopGraph
from aot.ir.origin import Origin
from aot.ir.tensors import TensorGraph, TensorOp
from aot.lowering import families
from aot.lowering.builder import GraphBuilder
from aot.lowering.complex_parts import FORMULA
from aot.lowering.registry import CannotLower, Row, lower_op


def supported_operators() -> tuple[str, ...]:
    """Every ATen overload with a lowering, sorted."""
    return tuple(sorted(name for name in families.rows() if name.startswith("aten.")))


def lower(graph: TensorGraph) -> LoopGraph:
    """The loop graph of `graph`, one nest (or a few) for each operator.

    Raises:
        InternalError: The graph has control flow.
        UnsupportedOperators: Operators have no lowering, or else calls that theirs does not cover;
            the error lists all of these with their model lines.
    """
    rows = families.rows()
    ops = [op for op in graph.ops if isinstance(op, TensorOp)]
    if len(ops) != len(graph.ops):
        raise errors.InternalError(f"{graph.name} has control flow: it is to be outlined first")
    missing = [(op, _missing(op)) for op in ops if op.target not in rows]
    if missing:
        raise _unsupported(missing)
    builder = GraphBuilder(graph)
    refused = _lower_all(rows, builder, ops)
    if refused:
        raise _unsupported(refused)
    return builder.finish()


def lower_outline(outline: Outline[TensorGraph]) -> Outline[LoopGraph]:
    """Every part of a model lowered.

    Raises:
        UnsupportedOperators: As `lower`, for all parts at once.
    """
    missing: list[errors.MissingOperator] = []

    def part(graph: TensorGraph) -> LoopGraph | None:
        try:
            return lower(graph)
        except errors.UnsupportedOperators as error:
            missing.extend(error.missing)
            return None

    parts = outline.map(part)
    if missing:
        raise errors.UnsupportedOperators(missing)
    return parts.map(_present)


def _present(part: LoopGraph | None) -> LoopGraph:
    assert part is not None
    return part


def _lower_all(
    rows: Mapping[str, Row], builder: GraphBuilder, ops: Sequence[TensorOp]
) -> list[tuple[TensorOp, str]]:
    """Lowers in order; the refused calls with their reasons.

    A refused call's results become buffers that nothing writes, so that the rest is still tried.
    """
    refused = []
    for op in ops:
        try:
            lower_op(rows, builder, op)
        except CannotLower as reason:
            refused.append((op, str(reason)))
            builder.declare_results(op)
    return refused


def _unsupported(calls: Sequence[tuple[TensorOp, str]]) -> errors.UnsupportedOperators:
    """The error of these calls, grouped by operator and reason."""
    grouped: dict[tuple[str, str], list[Origin]] = {}
    for op, reason in calls:
        places = grouped.setdefault((op.target.removeprefix(FORMULA), reason), [])
        if op.origin not in places:
            places.append(op.origin)
    return errors.UnsupportedOperators(
        [
            errors.MissingOperator(target, tuple(_public(o) for o in places), reason)
            for (target, reason), places in grouped.items()
        ]
    )


_INSTEAD: Mapping[str, str] = {
    "aten.binomial.default": "its numbers are drawn where torch.binomial is called: package the "
    "model, not a program that was exported before",
}
"""Operators without a row -> why, and what its author can do."""

_OF_COMPLEX = "on complex numbers: write it with x.real and x.imag"


def _missing(op: TensorOp) -> str:
    """Why there is no row; "" where the operator's name says it all."""
    instead = _OF_COMPLEX if op.target.startswith(FORMULA) else ""
    return _INSTEAD.get(op.target.removeprefix(FORMULA), instead)


def _public(origin: Origin) -> errors.Origin:
    return errors.Origin(origin.file, origin.line, origin.operator, origin.code)
