"""Small nests and graphs, built by hand."""

from __future__ import annotations

from collections.abc import Sequence

from aot.ir.dtypes import FLOAT32, DType
from aot.ir.loops import LoopGraph
from aot.ir.nests import Axis, Buffer, LoopNest, Store
from aot.ir.origin import Origin
from aot.ir.scalar import Node, load, reduce_
from aot.ir.templates.base import LoopOp
from aot.ir.tensors import Dim, Signature, Tree
from aot.symbolic import Expr, as_expr, dim, var

I0, I1, I2, R0 = var("i0"), var("i1"), var("i2"), var("r0")
S0 = dim("s0")
DIM = Dim("s0", 0, 64, 3, (0, 0, 1, 0), "batch")


def axes(**extents: int | Expr) -> tuple[Axis, ...]:
    """Axes by name: axes(i0=3, i1=4)."""
    return tuple(Axis(var(name), as_expr(size)) for name, size in extents.items())


def nest(
    loops: Sequence[Axis],
    value: Node,
    reduction: Sequence[Axis] = (),
    name: str = "n0",
    buffer: str = "y",
    index: Sequence[Expr] | None = None,
) -> LoopNest:
    """A nest with one store, at its own axes unless `index` is given."""
    at = tuple(a.symbol for a in loops) if index is None else tuple(index)
    store = Store(buffer, at, value)
    return LoopNest(name, tuple(loops), tuple(reduction), (store,), Origin("model.py", 7, "aten.x"))


def buffer(name: str, *shape: int | Expr, kind: str = "temp", dtype: DType = FLOAT32) -> Buffer:
    """A buffer without strides."""
    return Buffer(name, dtype, tuple(as_expr(s) for s in shape), None, kind)


def graph(buffers: Sequence[Buffer], ops: Sequence[LoopOp], output: str = "y") -> LoopGraph:
    """A loop graph with the dim s0 and one output."""
    known = {b.name: b for b in buffers}
    strides = tuple(as_expr(1) for _ in known[output].shape)
    return LoopGraph(
        "hand",
        (DIM,),
        known,
        tuple(ops),
        tuple(b.name for b in buffers if b.kind == "input"),
        (output,),
        (strides,),
        Signature((), Tree("leaf", 0)),
    )


def row_sums() -> LoopGraph:
    """y[i0] = sum(x[i0, r0]) over 4 columns, and z = y + y."""
    x = load("x", FLOAT32, (I0, R0))
    total = nest(axes(i0=S0), reduce_("sum", x), axes(r0=4))
    return graph([buffer("x", S0, 4, kind="input"), buffer("y", S0)], [total])
