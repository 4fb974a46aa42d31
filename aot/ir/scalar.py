"""Scalar expressions: what a loop body computes for one point of its iteration space.

Nodes are interned: identity is equality. They are authored define-by-run by the lowerings, stored
once as data, and interpreted with `fold`, which calls a table (an "algebra") once per node.

Semantics, for every node: arithmetic wraps for integers, follows IEEE 754 for floats; a node of a
half dtype is a float32 value that is rounded where it is stored or cast; bool is 0 or 1.
Integer `floordiv` and `mod` round towards minus infinity; by zero they give 0.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from aot.ir.dtypes import BOOL, INT32, INT64, DType
from aot.ir.operations import OPERATIONS, TESTS
from aot.symbolic import Expr, Symbol, substitute, var

T = TypeVar("T")


OTHER = frozenset("const index load cast bitcast where check_index reduce".split())
"""Operations that have more than operands, or operands of several types."""

OPS = OTHER | OPERATIONS.keys()
REDUCTIONS = frozenset("sum prod xor min max any all argmin argmax".split())


@dataclass(frozen=True)
class Access:
    """One element of a buffer: one index expression per dimension of the buffer.

    `binds`: symbols of `index` that stand for values computed in the body (indirect indexing); the
    node's leading args are those values (int64, already checked with `check_index`).
    `masked`: the node's last arg is a bool; where it is false nothing is read and the value is 0.
    """

    buffer: str
    index: tuple[Expr, ...]
    binds: tuple[Symbol, ...] = ()
    masked: bool = False


@dataclass(frozen=True)
class IndexValue:
    """An index expression as an int64 value; `binds` as in Access."""

    expr: Expr
    binds: tuple[Symbol, ...] = ()


@dataclass(frozen=True)
class IndexCheck:
    """Bounds of `check_index`: `size` of the dimension; negative values wrap when `wrap`."""

    size: Expr
    wrap: bool


class Node:
    """A scalar expression. Build with `make` or the functions below, never directly.

    attr by op: const -> the Python value; index -> IndexValue; load -> Access; reduce -> the kind
    (REDUCTIONS; the arg is the value at one point of the reduction domain; argmin/argmax give the
    row-major linear index within the domain, NaN first, ties to the first); check_index ->
    IndexCheck.
    """

    __slots__ = ("__weakref__", "args", "attr", "dtype", "op")

    op: str
    dtype: DType
    args: tuple[Node, ...]
    attr: Hashable

    def __init__(self, op: str, dtype: DType, args: tuple[Node, ...], attr: Hashable) -> None:
        self.op, self.dtype, self.args, self.attr = op, dtype, args, attr

    def __repr__(self) -> str:
        return f"Node({self.op}, {self.dtype}, {self.attr!r}, {len(self.args)} args)"


_interned: WeakValueDictionary[tuple[Any, ...], Node] = WeakValueDictionary()


def make(op: str, dtype: DType, *args: Node, attr: Hashable = None) -> Node:
    """The one node of these parts.

    Raises:
        ValueError: The op is unknown.
    """
    if op not in OPS:
        raise ValueError(f"unknown scalar op {op!r}")
    key = (op, dtype.name, tuple(id(a) for a in args), attr_key(attr))
    node = _interned.get(key)
    if node is None:
        node = _interned[key] = Node(op, dtype, args, attr)
    return node


def attr_key(attr: Hashable) -> Hashable:
    """What tells constants apart: -0.0 == 0.0 and 1 == 1.0 == True in Python."""
    return (type(attr).__name__, repr(attr)) if isinstance(attr, (float, int)) else attr


def const(value: float | int | bool, dtype: DType) -> Node:
    """A constant."""
    cast = float if dtype.is_float else bool if dtype == BOOL else int
    return make("const", dtype, attr=cast(value))


def unary(op: str, x: Node) -> Node:
    """op(x): same dtype, or bool for the tests."""
    return make(op, BOOL if op in TESTS else x.dtype, x)


def binary(op: str, a: Node, b: Node) -> Node:
    """op(a, b) for operands of one dtype; bool for comparisons.

    Raises:
        ValueError: The operands are of different dtypes.
    """
    if a.dtype != b.dtype:
        raise ValueError(f"{op}: operands are {a.dtype} and {b.dtype}")
    return make(op, BOOL if op in TESTS else a.dtype, a, b)


def where(condition: Node, a: Node, b: Node) -> Node:
    """Selects a or b. Both are evaluated; reads that must not happen are masked loads.

    Raises:
        ValueError: The condition is no bool, or `a` and `b` are of different dtypes.
    """
    if condition.dtype != BOOL or a.dtype != b.dtype:
        raise ValueError(f"where: {condition.dtype} ? {a.dtype} : {b.dtype}")
    return a if a is b else make("where", a.dtype, condition, a, b)


def cast(x: Node, dtype: DType) -> Node:
    """X in another dtype: floats to integers truncate, anything to bool is `!= 0`."""
    if x.dtype == dtype:
        return x
    if x.op == "const":
        return const(x.attr, dtype) if _exact(x.attr, dtype) else make("cast", dtype, x)  # type: ignore[arg-type]
    return make("cast", dtype, x)


def _exact(value: Any, dtype: DType) -> bool:
    if dtype.is_float or dtype == BOOL:
        return True
    return float(value).is_integer() and abs(value) < 2 ** (8 * dtype.itemsize - 1)


def check_index(x: Node, size: Expr, wrap: bool = True) -> Node:
    """A safe int64 index into a dimension of `size`.

    Negative values wrap when `wrap`; what is out of range is clamped and flags a fault.
    """
    return make("check_index", INT64, cast(x, INT64), attr=IndexCheck(size, wrap))


def clamp_index(x: Node, last: Expr, *, narrow: bool) -> Node:
    """An int64 index between 0 and `last`: the value itself in tables that the compiler makes.

    What such a table holds when a kernel runs is trusted no more than other data, and has no line
    of the model to blame: nothing is flagged. `narrow`: `last` fits 32 bits, in which it is done.
    """
    dtype = INT32 if narrow else INT64
    most = cast(index_value(last), dtype)
    return cast(binary("minimum", binary("maximum", cast(x, dtype), const(0, dtype)), most), INT64)


def reduce_(kind: str, value: Node, dtype: DType | None = None) -> Node:
    """The reduction of `value` over the nest's reduction axes.

    Raises:
        ValueError: The kind of reduction is unknown.
    """
    if kind not in REDUCTIONS:
        raise ValueError(f"unknown reduction {kind!r}")
    result = (
        INT64 if kind in ("argmin", "argmax") else BOOL if kind in ("any", "all") else value.dtype
    )
    return make("reduce", dtype or result, value, attr=kind)


def bound_symbol(position: int) -> Symbol:
    """The symbol t<position> that stands for a node's bound value."""
    return var(f"t{position}")


def _canonical_binds(
    exprs: Iterable[Expr], binds: Mapping[Symbol, Node]
) -> tuple[tuple[Expr, ...], tuple[Symbol, ...], tuple[Node, ...]]:
    """Renames indirect symbols to t0, t1, … in order of first appearance."""
    renaming: dict[Symbol, Symbol] = {}
    nodes: list[Node] = []
    by_node: dict[int, Symbol] = {}
    ordered = list(exprs)
    for expr in ordered:
        for symbol in sorted(expr.free_symbols & binds.keys(), key=str):
            if symbol in renaming:
                continue
            node = binds[symbol]
            if id(node) not in by_node:
                by_node[id(node)] = bound_symbol(len(nodes))
                nodes.append(node)
            renaming[symbol] = by_node[id(node)]
    renamed = tuple(substitute(e, renaming) for e in ordered)
    return renamed, tuple(bound_symbol(k) for k in range(len(nodes))), tuple(nodes)


def load(
    buffer: str,
    dtype: DType,
    index: Iterable[Expr],
    binds: Mapping[Symbol, Node] | None = None,
    mask: Node | None = None,
) -> Node:
    """Reads one element; `binds` gives the nodes of indirect symbols, `mask` guards the read."""
    exprs, symbols, nodes = _canonical_binds(index, binds or {})
    args = (*nodes, mask) if mask is not None else nodes
    return make("load", dtype, *args, attr=Access(buffer, exprs, symbols, mask is not None))


def bound_index(
    index: Iterable[Expr], binds: Mapping[Symbol, Node]
) -> tuple[tuple[Expr, ...], tuple[tuple[Symbol, Node], ...]]:
    """An index with its indirect symbols named as in a load, and their nodes: a store's."""
    exprs, symbols, nodes = _canonical_binds(index, binds)
    return exprs, tuple(zip(symbols, nodes, strict=True))


def index_value(expr: Expr, binds: Mapping[Symbol, Node] | None = None) -> Node:
    """An index expression as an int64 value."""
    if expr.is_Integer:
        return const(int(expr), INT64)
    (renamed,), symbols, nodes = _canonical_binds((expr,), binds or {})
    if nodes and renamed == symbols[0]:
        return nodes[0]
    return make("index", INT64, *nodes, attr=IndexValue(renamed, symbols))


def postorder(roots: Iterable[Node]) -> tuple[Node, ...]:
    """Every node below `roots` once, arguments before users, in a deterministic order."""
    return _postorder(tuple(roots))


@lru_cache(maxsize=1 << 13)  # of a kernel's bodies, the scheduler asks one question after another
def _postorder(roots: tuple[Node, ...]) -> tuple[Node, ...]:
    seen: set[int] = set()
    order: list[Node] = []
    stack: list[tuple[Node, bool]] = [(r, False) for r in reversed(roots)]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend([(a, False) for a in reversed(node.args)])
    return tuple(order)


def fold(roots: Iterable[Node], visit: Callable[[Node, tuple[T, ...]], T]) -> list[T]:
    """Interprets nodes: `visit(node, values of its args)` once per node; the roots' values."""
    targets = list(roots)
    values: dict[int, T] = {}
    for node in postorder(targets):
        values[id(node)] = visit(node, tuple(values[id(a)] for a in node.args))
    return [values[id(r)] for r in targets]


def rebuild(roots: Iterable[Node], replace: Callable[[Node, tuple[Node, ...]], Node]) -> list[Node]:
    """Like `fold`, to nodes; `replace` may return `with_args(node, args)`."""
    return fold(roots, replace)


def with_args(node: Node, args: tuple[Node, ...]) -> Node:
    """The same operation on other arguments; the same node if nothing changed."""
    if all(a is b for a, b in zip(node.args, args, strict=True)):
        return node
    return make(node.op, node.dtype, *args, attr=node.attr)


def bind_map(node: Node) -> dict[Symbol, Node]:
    """Symbol -> node of a load's or index's bound values."""
    binds = node.attr.binds if isinstance(node.attr, (Access, IndexValue)) else ()
    return dict(zip(binds, node.args, strict=False))


def named_symbols(node: Node) -> frozenset[Symbol]:
    """Loop variables and sizes that the node itself names."""
    attr = node.attr
    if isinstance(attr, Access):
        return frozenset[Symbol]().union(*(e.free_symbols for e in attr.index)) - set(attr.binds)
    if isinstance(attr, IndexValue):
        return frozenset(attr.expr.free_symbols) - set(attr.binds)
    return frozenset()


def mask_of(node: Node) -> Node | None:
    """The mask of a masked load, else None."""
    return node.args[-1] if isinstance(node.attr, Access) and node.attr.masked else None


def substitute_index(
    roots: Iterable[Node],
    mapping: Mapping[Symbol, Expr],
    binds: Mapping[Symbol, Node] | None = None,
) -> list[Node]:
    """Replaces loop variables by expressions in every index below `roots`.

    The replacing expressions may hold indirect symbols; `binds` gives their nodes (their names
    must differ from t0, t1, …, which are local to each node).
    """
    outer = dict(binds or {})

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        attr = node.attr
        if not isinstance(attr, (Access, IndexValue)):
            return with_args(node, args)
        own = dict(zip(attr.binds, args, strict=False))
        if isinstance(attr, IndexValue):
            return index_value(substitute(attr.expr, mapping), {**outer, **own})
        index = [substitute(e, mapping) for e in attr.index]
        mask = args[-1] if attr.masked else None
        return load(attr.buffer, node.dtype, index, {**outer, **own}, mask)

    return rebuild(roots, visit)


def guard_loads(root: Node, mask: Node, known: Collection[Node] = ()) -> Node:
    """`root` with every load below it additionally guarded by `mask` (loads inside masks too).

    An index that is computed of what they give is checked where the mask is true only. `known`:
    nodes that are evaluated whatever the mask, which stay as they are.
    """

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        if node in known:
            return node
        attr = node.attr
        if isinstance(attr, IndexCheck) and not _is_read(args[0]):
            return with_args(node, (where(mask, args[0], const(0, INT64)),))
        if not isinstance(attr, Access):
            return with_args(node, args)
        own = dict(zip(attr.binds, args, strict=False))
        guard = binary("and", args[-1], mask) if attr.masked else mask
        return load(attr.buffer, node.dtype, attr.index, own, guard)

    return rebuild((root,), visit)[0]


def _is_read(x: Node) -> bool:
    """Whether it is what a load gives, which is 0 where it is guarded."""
    return x.op == "load" or (x.op == "cast" and x.args[0].op == "load")


def guarded(root: Node, mask: Node, known: Collection[Node] = ()) -> Node:
    """`root` where the mask is true, else 0; where it is false nothing but `known` is read."""
    inside = guard_loads(root, mask, known)
    return inside if inside.op == "load" else where(mask, inside, const(0, inside.dtype))


def loads(roots: Iterable[Node]) -> list[Node]:
    """The load nodes below `roots`, each once."""
    return [n for n in postorder(roots) if n.op == "load"]
