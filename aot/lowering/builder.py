"""The define-by-run side of lowering: tensors as functions of an index, collected into nests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from aot.ir.dtypes import FLOAT32, DType
from aot.ir.loops import LoopGraph
from aot.ir.nests import Axis, Buffer, LoopNest, Store, View, numbered_axes
from aot.ir.origin import NO_ORIGIN, Origin
from aot.ir.rewrite import rename_buffers
from aot.ir.scalar import Node, bound_index, check_index, index_value, load
from aot.ir.templates.base import LoopOp, TemplateCall, operand_dtype
from aot.ir.tensors import Mutation, TensorGraph, TensorOp, TensorType
from aot.symbolic import Expr, Ranges, Symbol, dim, row_major_strides, var

PointBody = Callable[[tuple[Expr, ...]], Node]
ReductionBody = Callable[[tuple[Expr, ...], tuple[Expr, ...]], Node]


@dataclass(frozen=True)
class Tensor:
    """A value during lowering: a buffer of the graph being built. Immutable."""

    buffer: str
    dtype: DType
    shape: tuple[Expr, ...]
    builder: GraphBuilder

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def load(self, index: Sequence[Expr], mask: Node | None = None) -> Node:
        """The element at `index` (one expression per dimension; may hold `indirect` symbols)."""
        return load(self.buffer, self.dtype, index, self.builder.binds, mask)

    def load_broadcast(self, index: Sequence[Expr], mask: Node | None = None) -> Node:
        """The element at `index` of a shape that this tensor broadcasts to (right-aligned)."""
        own = index[len(index) - self.rank :]
        zero = self.builder.zero
        picked = [zero if size == 1 else i for i, size in zip(own, self.shape, strict=True)]
        return self.load(picked, mask)


class GraphBuilder:
    """Collects buffers and operations while one TensorGraph is lowered; then `finish`."""

    def __init__(self, graph: TensorGraph) -> None:
        self.graph = graph
        self.zero: Expr = var("zero") * 0
        self.one: Expr = self.zero + 1
        self.origin: Origin = NO_ORIGIN
        self.binds: dict[Symbol, Node] = {}
        self.ranges = Ranges({}, {dim(d.name): (d.minimum, d.maximum) for d in graph.dims})
        self._buffers: dict[str, Buffer] = {}
        self._ops: list[LoopOp] = []
        self._values: dict[str, Tensor] = {}
        for name in graph.inputs:
            self._declare(name, graph.types[name], "input", "")
        for kind, fqns in (("weight", graph.weights), ("state", graph.states)):
            for name, fqn in fqns:
                self._declare(name, graph.types[name], kind, fqn)

    def _declare(self, name: str, type_: TensorType, kind: str, fqn: str) -> None:
        strides = type_.strides if kind == "input" else row_major_strides(type_.shape)
        self._buffers[name] = Buffer(name, type_.dtype, type_.shape, strides, kind, fqn)
        self._values[name] = Tensor(name, type_.dtype, type_.shape, self)

    def value(self, name: str) -> Tensor:
        """The tensor of a value of the tensor graph. Raises KeyError when not lowered yet."""
        return self._values[name]

    def bind_result(self, name: str, tensor: Tensor) -> None:
        """Names an operator's result."""
        self._values[name] = tensor

    def declare_results(self, op: TensorOp) -> None:
        """Buffers for the results of an operator that could not be lowered; nothing writes them."""
        for name in op.outputs:
            if name is not None:
                type_ = self.graph.types[name]
                self.bind_result(name, self._new_buffer(type_.shape, type_.dtype))

    def _new_buffer(self, shape: Sequence[Expr], dtype: DType) -> Tensor:
        number = len(self._buffers)
        # A model's input may be called buf3 too.
        while f"{self.graph.prefix}buf{number}" in self._buffers:
            number += 1
        name = f"{self.graph.prefix}buf{number}"
        self._buffers[name] = Buffer(name, dtype, tuple(shape), None, "temp")
        return Tensor(name, dtype, tuple(shape), self)

    def empty(self, shape: Sequence[Expr], dtype: DType) -> Tensor:
        """A tensor that nests made by `scatter` write."""
        return self._new_buffer(shape, dtype)

    def indirect(self, value: Node, size: Expr, wrap: bool = True) -> Expr:
        """A symbol that stands for an integer value used as an index into a dimension of `size`."""
        return self.bound(check_index(value, size, wrap))

    def bound(self, value: Node) -> Expr:
        """A symbol that stands for an int64 value, which is an index already."""
        symbol = var(f"u{len(self.binds)}")
        self.binds[symbol] = value
        return symbol

    def index_node(self, expr: Expr) -> Node:
        """An index expression (loop variables, sizes, indirect symbols) as an int64 value."""
        return index_value(expr, self.binds)

    def pointwise(self, shape: Sequence[Expr], dtype: DType, body: PointBody) -> Tensor:
        """A tensor whose element at an index is `body(index)`; the body must give `dtype`."""
        return self.pointwise_many(shape, [(dtype, body)])[0]

    def pointwise_many(
        self, shape: Sequence[Expr], outputs: Sequence[tuple[DType, PointBody]]
    ) -> tuple[Tensor, ...]:
        """Several tensors of one shape computed in one nest."""
        axes = numbered_axes("i", shape)
        index = tuple(a.symbol for a in axes)
        return self._emit(axes, (), shape, [(dtype, body(index)) for dtype, body in outputs])

    def reduction(
        self,
        shape: Sequence[Expr],
        reduced: Sequence[Expr],
        outputs: Sequence[tuple[DType, ReductionBody]],
    ) -> tuple[Tensor, ...]:
        """Tensors of `shape`, each element computed from a reduction over the shape `reduced`.

        A body gets (index, reduction index) and returns a value built on `scalar.reduce_` nodes.
        """
        axes, reduction = numbered_axes("i", shape), numbered_axes("r", reduced)
        index = tuple(a.symbol for a in axes)
        rindex = tuple(a.symbol for a in reduction)
        values = [(dtype, body(index, rindex)) for dtype, body in outputs]
        return self._emit(axes, reduction, shape, values)

    def _emit(
        self,
        axes: tuple[Axis, ...],
        reduction: tuple[Axis, ...],
        shape: Sequence[Expr],
        values: Sequence[tuple[DType, Node]],
    ) -> tuple[Tensor, ...]:
        results, stores = [], []
        for dtype, node in values:
            if node.dtype != dtype:
                raise ValueError(f"{self.origin}: body gives {node.dtype}, not {dtype}")
            tensor = self._new_buffer(shape, dtype)
            stores.append(Store(tensor.buffer, tuple(a.symbol for a in axes), node))
            results.append(tensor)
        name = self._op_name("n")
        self._ops.append(LoopNest(name, axes, reduction, tuple(stores), self.origin))
        return tuple(results)

    def _op_name(self, kind: str) -> str:
        return f"{self.graph.prefix}{kind}{len(self._ops)}"

    def scatter(
        self, target: Tensor, axes_shape: Sequence[Expr], store: Callable[[tuple[Expr, ...]], Store]
    ) -> None:
        """Appends a nest over `axes_shape` that writes into `target`."""
        axes = numbered_axes("i", axes_shape)
        made = store(tuple(a.symbol for a in axes))
        self._ops.append(LoopNest(self._op_name("n"), axes, (), (made,), self.origin))

    def update(
        self,
        base: Tensor,
        axes_shape: Sequence[Expr],
        index: Callable[[tuple[Expr, ...]], Sequence[Expr]],
        value: PointBody,
        mode: str = "set",
    ) -> Tensor:
        """`base` with the elements at `index(point)` replaced by `value(point)`.

        The points are those of `axes_shape`; indices may hold `indirect` symbols. Points that
        share an index must give the same value, or all join the element by `mode`.
        """
        axes = numbered_axes("i", axes_shape)
        point = tuple(a.symbol for a in axes)
        result = self._new_buffer(base.shape, base.dtype)
        place, binds = bound_index(index(point), self.binds)
        store = Store(result.buffer, place, value(point), mode, binds, base.buffer)
        self._ops.append(LoopNest(self._op_name("n"), axes, (), (store,), self.origin))
        return result

    def template(
        self, call: Callable[[str, View, Origin], TemplateCall], shape: Sequence[Expr], dtype: DType
    ) -> Tensor:
        """The result of a template call of that shape; `call` makes it of name, output, origin."""
        out = self._new_buffer(shape, dtype)
        made = call(self._op_name("t"), identity_view(out), self.origin)
        if made.kind in self.graph.tf32 and operand_dtype(made, self._buffers) == FLOAT32:
            made = made.rounded_as_eager(self.graph.dims)
        self._ops.append(made)
        return out

    def view(self, tensor: Tensor, shape: Sequence[Expr], index: PointIndex) -> View:
        """`tensor` seen with another shape, for a template's operand: index maps new to own."""
        axes = numbered_axes("v", shape)
        return View(tensor.buffer, axes, tuple(index(tuple(a.symbol for a in axes))))

    def finish(self) -> LoopGraph:
        """The loop graph of everything lowered so far."""
        graph = self.graph
        values = [self._values[name] for name in graph.outputs]
        changed = [self._values[m.value] for m in graph.mutations]
        # New values of states first: an output that is the same value becomes a copy of it.
        taken: set[str] = set()
        self.origin = NO_ORIGIN
        kept = [self._own(value, taken) for value in changed]
        outputs = tuple(self._own(value, taken) for value in values)
        targets = [self._values[m.target].buffer for m in graph.mutations]
        if graph.prefix:
            outputs = self._name_outputs(outputs)
        return LoopGraph(
            graph.name,
            graph.dims,
            dict(self._buffers),
            tuple(self._ops),
            graph.inputs,
            outputs,
            tuple(graph.types[name].strides for name in graph.outputs),
            graph.signature,
            graph.relations,
            mutations=tuple(Mutation(t, v) for t, v in zip(targets, kept, strict=True)),
        )

    def _own(self, tensor: Tensor, taken: set[str]) -> str:
        """A temporary that is this result and no other: a copy, unless the tensor's buffer is one.

        `taken`: buffers that are results already; grows.
        """
        if self._buffers[tensor.buffer].kind != "temp" or tensor.buffer in taken:
            tensor = self.pointwise(tensor.shape, tensor.dtype, tensor.load)
        taken.add(tensor.buffer)
        return tensor.buffer

    def _name_outputs(self, outputs: tuple[str, ...]) -> tuple[str, ...]:
        """Renames the buffers of a part's results as their values: other parts read these names."""
        names = dict(zip(outputs, self.graph.outputs, strict=True))
        self._ops = [rename_buffers(op, names) for op in self._ops]
        self._buffers = {
            names.get(old, old): replace(b, name=names.get(old, old))
            for old, b in self._buffers.items()
        }
        return self.graph.outputs


PointIndex = Callable[[tuple[Expr, ...]], Sequence[Expr]]


def identity_view(tensor: Tensor) -> View:
    """The whole tensor with its own axes."""
    axes = numbered_axes("v", tensor.shape)
    return View(tensor.buffer, axes, tuple(a.symbol for a in axes))
