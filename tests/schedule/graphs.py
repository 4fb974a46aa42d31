"""Loop graphs for the tests of passes and scheduling, built like lowerings build them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from aot.ir.dtypes import BOOL, FLOAT32, DType
from aot.ir.flow import Outline, Straight
from aot.ir.interpreter import interpret_kernels, interpret_loops
from aot.ir.kernels import KernelGraph
from aot.ir.loops import LoopGraph
from aot.ir.machine import CrossedTile, Machine
from aot.ir.origin import Origin
from aot.ir.scalar import Node, binary, const, index_value, reduce_, unary, where
from aot.ir.templates import (
    Attention,
    AttentionSupport,
    Conv,
    ConvSupport,
    LibraryCall,
    Matmul,
    MatmulSupport,
    Scan,
    Support,
)
from aot.ir.tensors import Dim, Signature, TensorGraph, TensorType, Tree
from aot.ir.verify import verify_kernels, verify_loops
from aot.link.derive import DerivedStore
from aot.lowering.builder import GraphBuilder, Tensor, identity_view
from aot.passes import pipeline
from aot.symbolic import Expr, as_expr, dim, row_major_strides
from tests.settings import seeded

DEVICE = Machine(
    local_bytes=256 << 10,
    grain_bytes=64 << 10,
    templates=(
        MatmulSupport(Matmul),
        ConvSupport(Conv),
        AttentionSupport(Attention),
        Support(Scan),
        Support(LibraryCall),
    ),
)
BARE = replace(DEVICE, templates=())
"""The same without a template."""

TILES = replace(BARE, local_buffers=False, crossed=CrossedTile(), gathers=True, units=64)
"""One that keeps values in registers, as a GPU does."""

S0 = dim("s0")
BATCH = Dim("s0", 0, 64, 3, (0, 0, 1, 0), "batch")
Size = int | Expr
Body = Callable[..., Sequence[Tensor]]


def make_graph(
    body: Body,
    inputs: Mapping[str, Sequence[Size]],
    weights: Mapping[str, Sequence[Size]] | None = None,
    dims: Sequence[Dim] = (),
    dtypes: Mapping[str, DType] | None = None,
) -> LoopGraph:
    """The graph of `body(builder, *input tensors, *weight tensors)`, which returns the outputs."""
    shapes = {**inputs, **(weights or {})}
    types: dict[str, TensorType] = {}
    for name, shape in shapes.items():
        sizes = tuple(as_expr(s) for s in shape)
        dtype = (dtypes or {}).get(name, FLOAT32)
        types[name] = TensorType(dtype, sizes, row_major_strides(sizes))
    origin = tuple((name, name) for name in weights or {})
    start = TensorGraph(
        "test", tuple(dims), tuple(inputs), origin, (), (), types, Signature((), Tree("leaf", 0))
    )
    builder = GraphBuilder(start)
    builder.origin = Origin("model.py", 1, "aten.test")
    results = body(builder, *(builder.value(name) for name in shapes))
    names = []
    for k, tensor in enumerate(results):
        names.append(f"result{k}")
        builder.bind_result(names[-1], tensor)
        types[names[-1]] = TensorType(tensor.dtype, tensor.shape, row_major_strides(tensor.shape))
    builder.graph = replace(start, outputs=tuple(names))
    return builder.finish()


def pointwise(
    builder: GraphBuilder, shape: Sequence[Size], body: Callable[[tuple[Expr, ...]], Node]
) -> Tensor:
    """A float32 tensor computed from its index."""
    return builder.pointwise([as_expr(s) for s in shape], FLOAT32, body)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    *,
    scale: float = 0.5,
    causal: bool = False,
) -> Tensor:
    """The template call that attends."""
    call = partial(
        Attention,
        q=identity_view(q),
        k=identity_view(k),
        v=identity_view(v),
        mask=None if mask is None else identity_view(mask),
        scale=scale,
        causal=causal,
    )
    return q.builder.template(call, q.shape, q.dtype)


def scan(x: Tensor, combine: str = "sum") -> Tensor:
    """The template call of running results along rows."""
    return x.builder.template(partial(Scan, x=identity_view(x), combine=combine), x.shape, x.dtype)


def matmul(builder: GraphBuilder, a: Tensor, b: Tensor) -> Tensor:
    """The matmul template."""
    return builder.template(
        partial(Matmul, a=identity_view(a), b=identity_view(b)), (a.shape[0], b.shape[1]), a.dtype
    )


def unary_op(op: str, x: Tensor) -> Tensor:
    """op(x)."""
    return x.builder.pointwise(x.shape, x.dtype, lambda at: unary(op, x.load(at)))


def binary_op(op: str, a: Tensor, b: Tensor) -> Tensor:
    """op(a, b), b broadcast to a's shape."""
    body = lambda at: binary(op, a.load(at), b.load_broadcast(at))  # noqa: E731
    return a.builder.pointwise(a.shape, a.dtype, body)


def reduce_op(kind: str, x: Tensor, axis: int, keep: bool = False) -> Tensor:
    """The reduction of x along one axis."""
    axis %= x.rank
    rest = [s for k, s in enumerate(x.shape) if k != axis]
    shape = [as_expr(1) if k == axis else s for k, s in enumerate(x.shape)] if keep else rest

    def body(at: tuple[Expr, ...], r: tuple[Expr, ...]) -> Node:
        others = list(at)
        if keep:
            others.pop(axis)
        others.insert(axis, r[0])
        return reduce_(kind, x.load(others))

    return x.builder.reduction(shape, [x.shape[axis]], [(x.dtype, body)])[0]


def transpose(x: Tensor, a: int, b: int) -> Tensor:
    """x with two dimensions exchanged."""
    order = list(range(x.rank))
    order[a], order[b] = order[b], order[a]
    shape = [x.shape[k] for k in order]

    def body(at: tuple[Expr, ...]) -> Node:
        own: list[Expr] = [as_expr(0)] * x.rank
        for place, k in enumerate(order):
            own[k] = at[place]
        return x.load(own)

    return x.builder.pointwise(shape, x.dtype, body)


def concatenate(a: Tensor, b: Tensor, axis: int) -> Tensor:
    """a and b joined along one axis, with guarded reads."""
    first = a.shape[axis]
    shape = [s + b.shape[k] if k == axis else s for k, s in enumerate(a.shape)]

    def body(at: tuple[Expr, ...]) -> Node:
        left = binary("lt", index_value(at[axis]), index_value(first))
        right = binary("ge", index_value(at[axis] - first), index_value(as_expr(0)))
        moved = [i - first if k == axis else i for k, i in enumerate(at)]
        return where(left, a.load(at, left), b.load(moved, right))

    return a.builder.pointwise(shape, a.dtype, body)


def softmax(x: Tensor) -> Tensor:
    """Softmax over the last dimension."""
    top = reduce_op("max", x, -1, keep=True)
    exps = unary_op("exp", binary_op("sub", x, top))
    return binary_op("div", exps, reduce_op("sum", exps, -1, keep=True))


def layer_norm(x: Tensor) -> Tensor:
    """Normalisation of the last dimension, without weights."""
    size = const(float(int(x.shape[-1])), FLOAT32)

    def scaled(t: Tensor) -> Tensor:
        return t.builder.pointwise(t.shape, t.dtype, lambda at: binary("div", t.load(at), size))

    mean = scaled(reduce_op("sum", x, -1, keep=True))
    centred = binary_op("sub", x, mean)
    variance = scaled(reduce_op("sum", binary_op("mul", centred, centred), -1, keep=True))
    return binary_op("div", centred, unary_op("sqrt", variance))


_NO_FRAME = TensorGraph("test", (), (), (), (), (), {}, Signature((), Tree("leaf", 0)))


def run_passes(graph: LoopGraph, device: Machine = DEVICE) -> LoopGraph:
    """All passes over a model without control flow; invariants checked after each."""

    def check(_name: str, loops: Outline[LoopGraph], _seconds: float) -> None:
        assert loops.only is not None
        verify_loops(loops.only)

    done = pipeline.run_passes(Outline(_NO_FRAME, (Straight(graph),)), device, check).only
    assert done is not None
    return done


def random_inputs(
    graph: LoopGraph | KernelGraph, sizes: Mapping[str, int] | None = None, seed: int = 0
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """(inputs by name, weights by FQN), small random values."""
    rng = np.random.default_rng(seeded(seed))
    values = {dim(k): v for k, v in (sizes or {}).items()}
    made: dict[str, dict[str, np.ndarray]] = {"input": {}, "weight": {}}
    for buffer in graph.buffers.values():
        if buffer.kind == "temp":
            continue
        shape = tuple(int(s.xreplace(values)) for s in buffer.shape)
        array = rng.integers(-4, 5, shape) / 4
        if buffer.dtype == BOOL or buffer.dtype.is_integral:
            array = rng.integers(0, 2, shape)
        made[buffer.kind][buffer.fqn or buffer.name] = array.astype(buffer.dtype.numpy)
    return made["input"], made["weight"]


class _Weights:
    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._arrays = arrays

    def names(self) -> tuple[str, ...]:
        return tuple(self._arrays)

    def array(self, fqn: str) -> np.ndarray:
        return self._arrays[fqn]


def interpret(
    graph: LoopGraph | KernelGraph,
    inputs: Mapping[str, np.ndarray],
    weights: Mapping[str, np.ndarray],
    sizes: Mapping[str, int] | None = None,
) -> tuple[np.ndarray, ...]:
    """The graph's outputs, with derived weights computed as the package builder does."""
    store = DerivedStore(_Weights(weights), graph.derived, graph.buffers, {})
    run = interpret_loops if isinstance(graph, LoopGraph) else interpret_kernels
    return run(graph, inputs, store.array, sizes or {})  # type: ignore[arg-type]


def check_same(
    before: LoopGraph,
    after: LoopGraph | KernelGraph,
    sizes: Mapping[str, int] | None = None,
    tolerance: float = 1e-5,
) -> None:
    """Both graphs compute the same for random inputs; `after` keeps its invariants."""
    (verify_loops if isinstance(after, LoopGraph) else verify_kernels)(after)  # type: ignore[operator]
    inputs, weights = random_inputs(before, sizes)
    expected = interpret(before, inputs, weights, sizes)
    actual = interpret(after, inputs, weights, sizes)
    for want, got in zip(expected, actual, strict=True):
        assert want.shape == got.shape
        assert want.dtype == got.dtype
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
