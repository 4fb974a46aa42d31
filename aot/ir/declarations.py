"""What a compiled function declares: the memory that it may touch, as expressions of its sizes.

A declaration names no dim of a model. Its variables are numbered in the order of first use, so
launches that differ in names alone have equal declarations, and share a function where its text is
equal too. A launch says what its variables stand for (`Launch.values`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from aot_runtime.format.declarations import Declaration, Declared, DeclaredBuffer, Variable

from aot.errors import InternalError
from aot.ir.kernels import Grid, Kernel, KernelGraph, Launch, WorkUnits, kernel_ops
from aot.ir.layouts import element_span
from aot.ir.nests import LoopNest
from aot.ir.templates.base import TemplateCall
from aot.ir.tensors import SizeRelation
from aot.symbolic import Expr, Symbol, as_expr, dim, encode, integer, product, substitute


@dataclass(frozen=True)
class Reach:
    """What a function touches of a buffer around the element that a size argument names.

    `before`: elements ahead of it. `after`: elements from it on.
    """

    buffer: str
    before: int
    after: Expr


def declare(
    graph: KernelGraph,
    kernel: Kernel,
    launch: Launch,
    reaches: Mapping[int, Reach] | None = None,
) -> tuple[Declaration, tuple[Expr, ...]]:
    """The declaration of a launch's function, and what its variables stand for in the launch.

    Args:
        graph: Has the buffers, the dims and what is known of these.
        kernel: What is launched: says which buffers it reads and writes.
        launch: With its arguments; `function` and `values` are of no interest.
        reaches: Size arguments, by position, that say where in a buffer the kernel's part begins.
            They are variables of their own, so kernels of several parts share a function.

    Raises:
        InternalError: An expression has a symbol that is no dim.
    """
    variables = _Variables(graph)
    sizes: list[Expr] = []
    parts: dict[str, tuple[Expr, Reach]] = {}
    for position, size in enumerate(launch.sizes):
        reach = (reaches or {}).get(position)
        if reach is None:
            sizes.append(variables.take(size))
            continue
        sizes.append(variables.add(Variable(reach.before, None), as_expr(size)))
        parts[reach.buffer] = (sizes[-1], reach)
    work, scratch, grid = _amounts(variables, launch)
    declared = []
    for name in launch.buffers:
        buffer = graph.buffers[name]
        dtype, elements = buffer.dtype, element_span(buffer.shape, buffer.strides)
        begin, reach = parts.get(name, (integer(0), None))
        end = begin + variables.take(elements if reach is None else reach.after)
        size = product((end, integer(dtype.itemsize)))
        declared.append(DeclaredBuffer(dtype.name, _plain(size), access_of(kernel, name)))
    relations = tuple(
        (_plain(variables.take(r.left)), r.relation, _plain(variables.take(r.right)))
        for r in _known_of(variables.dims(), variables.certain(graph.relations))
    )
    made = Declaration(
        tuple(variables.ranges),
        relations,
        tuple(_plain(size) for size in sizes),
        tuple(declared),
        work,
        scratch,
        grid,
    )
    return made, tuple(variables.values)


def _amounts(
    variables: _Variables, launch: Launch
) -> tuple[Declared, Declared, tuple[Declared, Declared, Declared] | None]:
    """(work units, bytes of scratch, program instances); 0 or None for what a launch has not."""

    def counted(expr: Expr) -> Declared:
        return _plain(variables.take(as_expr(expr)))

    def counted_when(expr: Expr) -> Declared:
        """What there is to do, or nothing: a variable says which, whatever decides it."""
        if launch.when == 1:
            return counted(expr)
        amount = variables.take(as_expr(expr))
        return _plain(amount * variables.add(Variable(0, 1), launch.when))

    match launch.over:
        case Grid(x, y, z):
            return 0, 0, (counted_when(x), counted(y), counted(z))
        case WorkUnits(units, _, scratch):
            return counted_when(units), counted(scratch), None


def access_of(kernel: Kernel, name: str) -> str:
    """How a kernel uses a buffer: "read", "write" or "update".

    A workspace counts as written: what the kernel reads there it has written itself.
    """
    ops = tuple(kernel_ops(kernel))
    if any(name in _changed(op) for op in ops if isinstance(op, TemplateCall)):
        return "update"
    if name not in kernel.writes:
        return "read"
    added = any(
        store.buffer == name and store.conflicts
        for op in ops
        if isinstance(op, LoopNest)
        for store in op.stores
    )
    return "update" if added or name in kernel.reads else "write"


def _changed(call: TemplateCall) -> frozenset[str]:
    """Buffers of the operands that the call's kernel writes, too."""
    return frozenset(view.buffer for role, view in call.operands if role in call.changes)


class _Variables:
    """Variables in the order of first use: their ranges and what they stand for."""

    def __init__(self, graph: KernelGraph) -> None:
        self.ranges: list[Variable] = []
        self.values: list[Expr] = []
        self._graph = graph.name
        self._names: dict[Symbol, Symbol] = {}
        self._measured = {dim(d.name) for d in graph.dims if d.source is None}
        self._known = {
            dim(d.name): Variable(d.minimum, d.maximum, d.multiple_of) for d in graph.dims
        }

    def add(self, variable: Variable, value: Expr) -> Symbol:
        """A new variable that stands for this value."""
        self.ranges.append(variable)
        self.values.append(value)
        return dim(f"v{len(self.ranges) - 1}")

    def take(self, expr: Expr) -> Expr:
        """The expression over variables instead of dims.

        Raises:
            InternalError: A symbol in the expression is no dim of the graph.
        """
        for symbol in sorted(expr.free_symbols - self._names.keys(), key=str):
            if symbol not in self._known:
                raise InternalError(f"{symbol} in {expr} is no dim of {self._graph}")
            self._names[symbol] = self.add(self._known[symbol], symbol)
        return substitute(expr, self._names)

    def dims(self) -> frozenset[Symbol]:
        """The dims that there are variables for."""
        return frozenset(self._names)

    def certain(self, relations: Iterable[SizeRelation]) -> Sequence[SizeRelation]:
        """Relations without those of measured dims that the launch does not name.

        It may run before such a dim is read, when nothing is known of it.
        """
        later = self._measured - self._names.keys()
        return [r for r in relations if not later & (r.left.free_symbols | r.right.free_symbols)]


def _known_of(dims: frozenset[Symbol], relations: Iterable[SizeRelation]) -> Sequence[SizeRelation]:
    """The relations that say something of these dims, through other dims too."""
    left = list(relations)
    found: dict[SizeRelation, None] = {}
    while True:
        new = [r for r in left if dims & (r.left.free_symbols | r.right.free_symbols)]
        if not new:
            return [r for r in relations if r in found]
        found.update(dict.fromkeys(new))
        left = [r for r in left if r not in found]
        dims = dims.union(*(r.left.free_symbols | r.right.free_symbols for r in new))


def _plain(expr: Expr) -> Declared:
    return _frozen(encode(expr))


def _frozen(encoded: object) -> Declared:
    if isinstance(encoded, list | tuple):
        return tuple(_frozen(e) for e in encoded)
    if isinstance(encoded, int | str):
        return encoded
    raise InternalError(f"{encoded!r} is no expression")
