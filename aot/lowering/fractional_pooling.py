"""Maxima of windows whose places random numbers decide (Graham, Fractional Max-Pooling, 2014)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aot.ir.dtypes import INT64
from aot.ir.scalar import Node, cast, reduce_
from aot.lowering import exprs as e
from aot.lowering.builder import Tensor
from aot.lowering.promotion import size_node
from aot.lowering.registry import Call
from aot.lowering.rows import REGISTRY
from aot.symbolic import Expr, as_expr, product, unravel


@dataclass(frozen=True)
class _Windows:
    """Where windows along one spatial dimension begin: `channel` is that of the random numbers."""

    x: Tensor
    samples: Tensor
    size: Expr
    kernel: Expr
    out: Expr
    channel: int

    def starts(self) -> Tensor:
        """(n, c, out): the beginnings, computed in x's type as eager does."""
        builder, dtype = self.x.builder, self.x.dtype

        def rounded(value: Node) -> Node:
            return cast(cast(value, dtype), dtype.compute)

        def point(at: tuple[Expr, ...]) -> Node:
            sample = cast(self.samples.load((*at[:2], as_expr(self.channel))), dtype.compute)
            last = self.size - self.kernel
            parts = size_node(builder, self.out - 1, dtype.compute)
            step = rounded(e.div(size_node(builder, last, dtype.compute), e.maximum(parts, 1.0)))
            place = rounded(e.add(size_node(builder, at[2], dtype.compute), sample))
            begin = e.sub(*(cast(rounded(e.mul(v, step)), INT64) for v in (place, sample)))
            is_last = e.eq(builder.index_node(at[2]), builder.index_node(self.out - 1))
            return e.select(is_last, builder.index_node(last), begin)

        return builder.pointwise((*self.samples.shape[:2], self.out), INT64, point)


@REGISTRY.row("aten.fractional_max_pool2d.default", "aten.fractional_max_pool3d.default")
def fractional_max_pool(
    call: Call, x: Tensor, kernel: Sequence[Any], out: Sequence[Any], samples: Tensor
) -> tuple[Tensor | None, ...]:
    """(the greatest value of each window, its position in the plane)."""
    spatial, builder = len(kernel), call.builder
    lead = x.rank - spatial
    sizes = x.shape[lead:]
    taps = tuple(as_expr(k) for k in kernel)
    # The random numbers' last dimension: (width, height) for planes, (time, height, width) for
    # volumes.
    channels = (1, 0) if spatial == 2 else (0, 1, 2)
    windows = [
        _Windows(x, samples, size, tap, as_expr(o), channel)
        for size, tap, o, channel in zip(sizes, taps, out, channels, strict=True)
    ]
    starts = [w.starts() for w in windows]

    def start(k: int, at: Sequence[Expr]) -> Node:
        batch = at[:2] if lead == 2 else (as_expr(0), at[0])
        return starts[k].load((*batch, at[lead + k]))

    def value(at: tuple[Expr, ...], tap: tuple[Expr, ...]) -> Node:
        places = [
            builder.indirect(start(k, at), sizes[k] - taps[k] + 1, wrap=False) + tap[k]
            for k in range(spatial)
        ]
        return x.load((*at[:lead], *places))

    def greatest(at: tuple[Expr, ...], tap: tuple[Expr, ...]) -> Node:
        return reduce_("max", value(at, tap))

    def position(at: tuple[Expr, ...], tap: tuple[Expr, ...]) -> Node:
        chosen = builder.indirect(reduce_("argmax", value(at, tap)), product(taps), wrap=False)
        offsets = [builder.index_node(t) for t in unravel(chosen, taps)]
        found = e.add(start(0, at), offsets[0])
        for k in range(1, spatial):
            place = e.add(start(k, at), offsets[k])
            found = e.add(e.mul(found, builder.index_node(sizes[k])), place)
        return found

    shape = (*x.shape[:lead], *(w.out for w in windows))
    outputs = [(x.dtype, greatest)]
    if call.op.outputs[1] is not None:
        outputs.append((INT64, position))
    made = builder.reduction(shape, taps, outputs)
    return (*made, *(None for _ in call.op.outputs[len(made) :]))
