"""The rules of scalar expressions: operand counts and types, node by node."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aot.ir.dtypes import BOOL, INT64
from aot.ir.operations import OPERATIONS, Operation
from aot.ir.scalar import (
    Access,
    IndexCheck,
    IndexValue,
    Node,
)

Rule = Callable[[Node], bool]


def _same(count: int) -> Rule:
    return lambda n: len(n.args) == count and all(a.dtype == n.dtype for a in n.args)


def _test(count: int) -> Rule:
    return lambda n: (
        len(n.args) == count and n.dtype == BOOL and len({a.dtype for a in n.args}) == 1
    )


def _rule(row: Operation) -> Rule:
    return _test(row.arity) if row.test else _same(row.arity)


def _where(n: Node) -> bool:
    if len(n.args) != 3:
        return False
    condition, a, b = n.args
    return condition.dtype == BOOL and a.dtype == n.dtype == b.dtype


def _load(n: Node) -> bool:
    if not isinstance(n.attr, Access):
        return False
    bound = n.args[: len(n.attr.binds)]
    rest = n.args[len(n.attr.binds) :]
    masks = [BOOL] if n.attr.masked else []
    return all(a.dtype == INT64 for a in bound) and [a.dtype for a in rest] == masks


def stays_inside(bound: Node) -> bool:
    """True of a value that data decide and that may be part of an index: it has been bounded."""
    if bound.op == "cast":
        return bound.dtype == INT64 and stays_inside(bound.args[0])
    if bound.op != "minimum":
        return bound.op == "check_index"
    low, last = bound.args
    last = last.args[0] if last.op == "cast" else last
    least = low.args[1] if low.op == "maximum" else low
    positive = least.op == "const" and isinstance(least.attr, int) and least.attr >= 0
    return positive and last.op in ("const", "index") and not last.args


def _index(n: Node) -> bool:
    if not isinstance(n.attr, IndexValue) or n.dtype != INT64:
        return False
    return len(n.args) == len(n.attr.binds) and all(a.dtype == INT64 for a in n.args)


def _check_index(n: Node) -> bool:
    whole = isinstance(n.attr, IndexCheck) and n.dtype == INT64
    return whole and len(n.args) == 1 and n.args[0].dtype == INT64


def _bitcast(n: Node) -> bool:
    return len(n.args) == 1 and n.args[0].dtype.itemsize == n.dtype.itemsize


def _reduce(n: Node) -> bool:
    if len(n.args) != 1:
        return False
    arg = n.args[0].dtype
    if n.attr in ("argmin", "argmax"):
        return n.dtype == INT64
    return n.dtype == arg and (n.attr not in ("any", "all") or arg == BOOL)


RULES: Mapping[str, Rule] = {
    **{name: _rule(row) for name, row in OPERATIONS.items()},
    "const": lambda n: not n.args and isinstance(n.attr, (bool, int, float)),
    "index": _index,
    "load": _load,
    "cast": lambda n: len(n.args) == 1,
    "bitcast": _bitcast,
    "where": _where,
    "check_index": _check_index,
    "reduce": _reduce,
}
"""Operation -> whether a node of it has the operands and types that it must have."""


def node_problem(node: Node) -> str:
    """What is wrong with a node's operands or types; "" for nothing."""
    if RULES[node.op](node):
        return ""
    operands = ", ".join(str(a.dtype) for a in node.args)
    return f"{node.op}({operands}) -> {node.dtype} [{node.attr}] is not well formed"
