"""Short reductions: a lane for each result, the reduction's points one after the other.

Windows of pooling and resizing, small groups, sums of few rows: nothing is combined across threads,
and what does not vary from point to point (checks, tables, addresses) is emitted once.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from aot.backends.triton.body import Body
from aot.backends.triton.context import KernelContext, TileDim, Value
from aot.backends.triton.ops import conversion
from aot.backends.triton.reduction import Reduction, reductions_of
from aot.backends.triton.text import Writer, index_text
from aot.ir.dtypes import INT64
from aot.ir.kernels import Stage
from aot.ir.scalar import Node, substitute_index
from aot.symbolic import Expr, Symbol, constant_and_rest, integer, substitute


class ShortBody(Body):
    """A body of straight-line code: addresses share what does not vary, and are always valid.

    Dimensions in `_clamped` repeat their last point beyond their end, so that reads need no masks.
    """

    def __init__(self, context: KernelContext, writer: Writer) -> None:
        super().__init__(context, writer, 2)
        self._clamped: set[str] = set()
        self._bases: dict[tuple[str, str, frozenset[str]], str] = {}

    def open_clamped(self, dim: TileDim, start: str, *, apart: bool) -> None:
        """Like open_dim. `apart`: the compiler is not to give a thread several neighbours."""
        lanes = f"tl.arange(0, {dim.block}){'[:, None]' if dim.position == 0 else '[None, :]'}"
        if self.context.wide:
            lanes += ".to(tl.int64)"
        text = f"{start} + {lanes}"
        self.writer.line(
            f"{dim.name} = tl.max_contiguous({text}, (1, 1))" if apart else f"{dim.name} = {text}"
        )
        if not dim.is_exact:
            points = index_text(dim.points, self._names)
            self.writer.line(f"{dim.name}_in = {dim.name} < {points}")
            self.writer.line(f"{dim.name} = tl.minimum({dim.name}, {points} - 1)")
            self._clamped.add(dim.name)
        self._dims[dim.name] = dim
        self._decode(dim)

    def read(
        self,
        buffer: str,
        index: Iterable[Expr],
        binds: Mapping[Symbol, Value] | None = None,
        guard: Value | None = None,
    ) -> Value:
        """The expression that reads an element; its address is a shared one plus a constant."""
        constant, varying = constant_and_rest(self.context.offset(buffer, index))
        text, dims = self.index(varying, binds or {})
        whole = dims | guard.dims if guard is not None else dims
        masks = self.masks(d for d in whole if d not in self._clamped)
        if guard is not None:
            masks.append(guard.text)
        address = self._shared(buffer, text, dims, whole)
        if constant != 0:
            address += f" + {index_text(constant, {})}"
        loaded = f"tl.load({address}{self._mask_argument(masks, whole)})"
        return Value(loaded, self.context.buffers[buffer].dtype, whole)

    def _shared(self, buffer: str, offset: str, dims: frozenset[str], whole: frozenset[str]) -> str:
        key = (buffer, offset, whole)
        if key not in self._bases:
            name = self.fresh("q")
            self.writer.line(f"{name} = {self._address(buffer, offset, dims, whole)}")
            self._bases[key] = name
        return self._bases[key]


def emit_stage(body: Body, stage: Stage) -> None:
    """Writes a stage: its reductions point by point, then what it stores."""
    found = {r.node: r for n in stage.nests for r in reductions_of(n)}
    reductions = list(found.values())
    running: list[_Running | None] = [None] * len(reductions)
    extents = [range(int(a.extent)) for a in stage.order]
    for point in itertools.product(*extents):
        at = {a.symbol: integer(k) for a, k in zip(stage.order, point, strict=True)}
        values = substitute_index([r.value for r in reductions], at)
        for k, (r, node) in enumerate(zip(reductions, values, strict=True)):
            place = substitute(r.position, at) if r.is_arg else integer(0)
            running[k] = _combined(body, r, running[k], node, place)
    for r, last in zip(reductions, running, strict=True):
        if last is not None:
            body.define(r.node, _finished(body, r, last))
    for nest in stage.nests:
        for store in nest.stores:
            value = body.value(store.value)
            if nest.reduction:
                body.define_buffer(store.buffer, value)
            if store.buffer in body.context.pointers:
                body.store(store)


@dataclass(frozen=True)
class _Running:
    """A reduction's value so far. `place`: the position that it is from (arg-reductions)."""

    text: str
    place: str
    dims: frozenset[str]


def _combined(
    body: Body, r: Reduction, before: _Running | None, node: Node, place: Expr
) -> _Running:
    value = body.value(node)
    text = value.text
    if value.dtype.compute != r.dtype:
        text = conversion(f"({text})", value.dtype, r.dtype)
    here = f"tl.full([], {int(place)}, tl.int32)"
    if before is None:
        return _Running(text, here, value.dims)
    dims = before.dims | value.dims
    name = body.fresh("acc")
    if r.is_arg:
        where = body.fresh("at")
        pair = f"{before.text}, {before.place}, {text}, {here}"
        body.writer.line(f"{name}, {where} = {r.combine}({pair})")
        return _Running(name, where, dims)
    signs = {"plus": "+", "times": "*", "either": "|", "both": "&"}
    if r.combine in signs:
        body.writer.line(f"{name} = {before.text} {signs[r.combine]} {text}")
    else:
        body.writer.line(f"{name} = {r.combine}({before.text}, {text})")
    return _Running(name, "", dims)


def _finished(body: Body, r: Reduction, last: _Running) -> Value:
    if r.is_arg:
        spread = f"{last.place} + tl.zeros({body.shape(last.dims)}, tl.int32)"
        return body.name(f"({spread}).to(tl.int64)", INT64, last.dims)
    if r.node.dtype.compute == r.dtype:
        return Value(last.text, r.node.dtype, last.dims)
    return body.name(conversion(last.text, r.dtype, r.node.dtype), r.node.dtype, last.dims)
