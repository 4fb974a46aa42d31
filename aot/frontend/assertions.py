"""The model's assertions: of tensors, and of sizes that it measures; positions that it measures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch

from aot.frontend.sizes import Sizes
from aot.ir.dtypes import BOOL
from aot.ir.origin import Origin
from aot.ir.tensors import (
    Assertion,
    Dim,
    GraphOp,
    SizeRelation,
    TensorOp,
    TensorType,
    ValueRef,
)
from aot.symbolic import as_expr

ASSERTIONS = ("aten._assert", "aten.sym_constrain", "aten._functional_sym_constrain")
"""How their names begin. Those of sizes that inputs bind say what guards say already."""

_OF_VALUES = ("aten._assert_async", "aten._assert_scalar", "aten._functional_assert")
"""Those whose first argument must hold; the others say what types and ranges say already."""

_RELATIONS = {
    "GreaterThan": ("<=", True),
    "StrictGreaterThan": ("<", True),
    "LessThan": ("<=", False),
    "StrictLessThan": ("<", False),
    "Equality": ("==", False),
}
"""sympy's class -> our relation, and whether its sides are exchanged."""


class AssertionReader(Protocol):
    """What reading an assertion needs of the reader of the graph.

    `overstated`: torch's symbols with upper bounds that are too low.
    """

    types: dict[str, TensorType]
    ops: list[GraphOp]
    sizes: Sizes
    values: dict[str, Any]
    measured: list[Dim]
    overstated: set[tuple[str, str]]
    prefix: str


def read_assertion(
    reader: AssertionReader, node: torch.fx.Node, origin: Origin
) -> tuple[SizeRelation, ...]:
    """Adds an assertion of a tensor to the operators; gives those of measured sizes."""
    if not str(node.target).startswith(_OF_VALUES):
        return ()
    if not node.args or not isinstance(node.args[0], torch.fx.Node):
        return ()
    condition = node.args[0]
    message = str(node.args[1]) if len(node.args) > 1 else "it is false"
    known, value = condition.meta.get("val"), reader.values.get(condition.name)
    if isinstance(known, torch.SymBool):
        if not any(str(s) in reader.sizes.measured for s in known.node.expr.free_symbols):
            return ()
        if tuple(str(side) for side in known.node.expr.args) in reader.overstated:
            return ()
        if type(known.node.expr).__name__ in _RELATIONS:
            return (_relation(reader, known.node.expr, message, origin),)
    if isinstance(value, ValueRef):
        reader.ops.append(Assertion(_truth(reader, node, value, origin), message, origin))
    return ()


def _truth(reader: AssertionReader, node: torch.fx.Node, value: ValueRef, origin: Origin) -> str:
    """A bool without dimensions that says whether the value is not 0."""
    type_ = reader.types[value.name]
    if type_.dtype == BOOL and not type_.shape:
        return value.name
    name = f"{reader.prefix}{node.name}.holds"
    reader.types[name] = TensorType(BOOL, (), ())
    reader.ops.append(TensorOp("aten.any.default", (value,), (), (name,), origin))
    return name


def _relation(reader: AssertionReader, expr: Any, message: str, origin: Origin) -> SizeRelation:
    relation, exchanged = _RELATIONS[type(expr).__name__]
    left, right = (reader.sizes.foreign(side) for side in expr.args)
    if exchanged:
        left, right = right, left
    place = f", at {origin.place}" if origin.place else ""
    text = f"an assertion of the model fails: {message}{place}"
    return SizeRelation(left, relation, right, text)


_POSITIONS = {
    "aten.select.int": 1,
    "aten.select_copy.int": 1,
    "aten.select_scatter.default": 2,
    "aten.narrow.default": 1,
    "aten.narrow_copy.default": 1,
}
"""Operators that take a position: where their dimension stands, followed by the position."""


def position_relations(
    reader: AssertionReader, target: str, args: Sequence[Any], origin: Origin
) -> tuple[SizeRelation, ...]:
    """That a measured position lies in its dimension, as eager checks at each call."""
    place = _POSITIONS.get(target)
    if place is None:
        return ()
    position = as_expr(args[place + 1])
    length = args[place + 2] if "narrow" in target else 1
    if not {d.name for d in reader.measured} & {str(s) for s in position.free_symbols}:
        return ()
    size = reader.types[args[0].name].shape[args[place]]
    text = f"a position that the model computes is out of range, at {origin.place}"
    return (
        SizeRelation(as_expr(0), "<=", position, text),
        SizeRelation(position + length, "<=", size, text),
    )
