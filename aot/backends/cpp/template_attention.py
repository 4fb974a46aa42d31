"""Attention: a call of aot/tmpl/attention.h with the mask and a fused epilogue."""

from __future__ import annotations

from dataclasses import dataclass, replace

from aot.backends.cpp.attention_heuristic import AttentionBlocking, attention_blocking
from aot.backends.cpp.context import KernelContext
from aot.backends.cpp.kernel import NAME, EmittedKernel, make_context, open_template
from aot.backends.cpp.operands import (
    SHARED_TABLES,
    fixed,
    greatest,
    shared_tables,
    strided,
    template_type,
)
from aot.backends.cpp.text import Writer, index_text, literal
from aot.backends.cpp.tile import (
    COLUMN,
    ROW,
    TILE,
    TileSpace,
    emit_epilogue,
    epilogue_nests,
    tile_context,
    tile_space,
)
from aot.backends.cpp.values import Body
from aot.errors import InternalError
from aot.ir.dtypes import BOOL, DType
from aot.ir.hints import hints_of
from aot.ir.kernel_facts import argument_buffers, template_call
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.ir.nests import LoopNest, Store, View
from aot.ir.scalar import binary, cast, const, load, where
from aot.ir.templates.attention import Attention
from aot.symbolic import Expr, FloorDiv, ceil_div, integer, is_int, product, substitute

_EPILOGUE = (
    "const auto {name} = [=](int64_t b, int64_t h, int64_t m0, int64_t m1, "
    "const {element}* tile, int64_t ld)"
)
_MASK = (
    "const auto mask = [=](int64_t b, int64_t h, int64_t m0, int64_t m1, int64_t n0, int64_t n1, "
    "{element}* tile, int64_t ld)"
)


@dataclass(frozen=True)
class _Attention:
    """One attention kernel, taken apart."""

    kernel: TemplateKernel
    graph: KernelGraph
    call: Attention
    context: KernelContext
    space: TileSpace
    dtype: DType
    blocking: AttentionBlocking
    group: Expr

    def text(self, expr: Expr) -> str:
        """A size or offset in C++."""
        return index_text(expr, self.context.names)


def emit_attention(kernel: TemplateKernel, graph: KernelGraph) -> EmittedKernel:
    """The function of a kernel whose template is attention."""
    t = _take_apart(kernel, graph)
    body, sizes = open_template(kernel, graph, t.context)
    writer = body.writer
    has_mask = _emit_mask(body, t)
    nests = epilogue_nests(kernel, t.space, t.context)
    lines = (f"constexpr int64_t n0 = 0, n1 = {t.blocking.dv};",)
    emit_epilogue(body, nests, t.space, t.dtype.compute, _EPILOGUE, lines)
    _emit_call(writer, t, has_mask)
    return EmittedKernel(
        writer.text(),
        argument_buffers(kernel),
        sizes,
        _work(t),
        integer(t.blocking.scratch_bytes),
        head=_config(t),
        headers=("aot/tmpl/attention.h",),
        grain=t.blocking.grain,
        tables=shared_tables(t.dtype.compute, heights_known=is_int(t.call.output.axes[2].extent)),
    )


def _work(t: _Attention) -> Expr:
    batch, heads, queries, _ = t.call.output.axes
    if t.blocking.hb > 1:
        return product((batch.extent, FloorDiv(heads.extent, integer(t.blocking.hb))))
    return product((batch.extent, heads.extent, ceil_div(queries.extent, t.blocking.qb)))


def _take_apart(kernel: TemplateKernel, graph: KernelGraph) -> _Attention:
    call = template_call(kernel, Attention)
    q_view, k_view = call.q, call.k
    batch, heads, queries, columns = call.output.axes
    d, dv = q_view.axes[3].extent, columns.extent
    if not is_int(d) or not is_int(dv):
        raise InternalError(f"{call.name}: the size of an attention head is dynamic")
    axes = {a.symbol: a.symbol for a in (batch, heads)}
    axes.update({queries.symbol: ROW, columns.symbol: COLUMN})
    space = tile_space(queries.extent, dv, axes)
    dtype = graph.buffers[q_view.buffer].dtype
    context = tile_context(make_context(kernel, graph), space, dtype.compute)
    outer = {batch.symbol: batch.extent, heads.symbol: heads.extent}
    context = replace(
        context,
        names={**context.names, batch.symbol: "b", heads.symbol: "h"},
        ranges=context.ranges.with_extents({**context.ranges.extents, **outer}),
    )
    hints = hints_of(graph.dims)
    group = FloorDiv(heads.extent, k_view.axes[1].extent)
    blocking = attention_blocking(
        hints.value(queries.extent),
        hints.value(k_view.axes[2].extent),
        int(d),
        int(dv),
        heads=max(hints.value(product((batch.extent, heads.extent))), 1),
        group=int(group) if is_int(group) else 1,
        queries_max=(None if is_int(queries.extent) else greatest(queries.extent, context.ranges)),
        accumulator_bytes=dtype.compute.itemsize,
        a_bytes=dtype.itemsize,
    )
    return _Attention(kernel, graph, call, context, space, dtype, blocking, group)


def _emit_mask(body: Body, t: _Attention) -> bool:
    """Writes the function object that masks a tile of scores; False when there is no mask."""
    view = t.call.mask
    if view is None:
        return False
    compute = t.dtype.compute
    keys = t.call.k.axes[2].extent
    space = tile_space(t.space.rows.extent, keys, t.space.axes)
    context = replace(
        t.context, ranges=t.context.ranges.with_extents({**t.context.ranges.extents, COLUMN: keys})
    )
    score = load(TILE, compute, (ROW, COLUMN))
    seen = load(view.buffer, t.graph.buffers[view.buffer].dtype, _mask_index(t, view))
    if seen.dtype == BOOL:
        value = where(seen, score, const(float("-inf"), compute))
    else:
        value = binary("add", score, cast(seen, compute))
    store = Store(TILE, (ROW, COLUMN), value)
    nest = LoopNest("mask", (space.rows, space.columns), (), (store,), t.call.origin)
    inner = Body(context, body.writer)
    emit_epilogue(inner, [nest], space, compute, _MASK)
    return True


def _mask_index(t: _Attention, view: View) -> tuple[Expr, ...]:
    batch, heads, *_ = t.call.output.axes
    targets = (batch.symbol, heads.symbol, ROW, COLUMN)
    mapping = {a.symbol: target for a, target in zip(view.axes, targets, strict=True)}
    return tuple(substitute(e, mapping) for e in view.index)


def _config(t: _Attention) -> str:
    q, sq = t.blocking, fixed(t.call.output.axes[2].extent)
    sizes = {"D": q.d, "DV": q.dv, "SQ": sq, "QB": q.qb, "HB": q.hb, "KB": q.kb}
    causal = "true" if t.call.causal else "false"
    lines = [
        f"struct {NAME}_config : aot::tmpl::AttentionConfig {{",
        f"  using A = {template_type(t.dtype)};",
        *(f"  static constexpr int64_t {name} = {value};" for name, value in sizes.items()),
        f"  static constexpr bool CAUSAL = {causal};",
        *[SHARED_TABLES] * (sq < 0),
        "};",
    ]
    return "\n".join(["namespace {", *lines, "}", ""])


def _emit_call(writer: Writer, t: _Attention, has_mask: bool) -> None:
    kind = template_type(t.dtype)
    fields: dict[str, str] = {}
    for role, view in t.call.operands[:3]:
        at = strided(t.call, view, t.graph.buffers, t.context.ranges)
        if at.strides[3] != 1 and not is_int(view.axes[3].extent, 1):
            raise InternalError(f"{t.call.name}: {role}'s last dimension is not contiguous")
        place = f"{t.context.pointers[view.buffer]} + ({t.text(at.offset)})"
        fields[role] = f"reinterpret_cast<const {kind}*>({place})"
        for name, stride in zip(("batch", "head", "row"), at.strides, strict=False):
            fields[f"{role}_{name}"] = t.text(stride)
    batch, heads, queries, _ = t.call.output.axes
    fields.update(
        {
            "batch": t.text(batch.extent),
            "heads": t.text(heads.extent),
            "group": t.text(t.group),
            "sq": t.text(queries.extent),
            "sk": t.text(t.call.k.axes[2].extent),
            "scale": literal(float(t.call.scale), t.dtype.compute),
        }
    )
    writer.line(f"aot::tmpl::AttentionArgs<{NAME}_config> call;")
    for name, value in fields.items():
        writer.line(f"call.{name} = {value};")
    mask = "mask" if has_mask else "aot::tmpl::NoMod{}"
    writer.line(f"aot::tmpl::attention(call, begin, end, args->scratch, {mask}, epilogue);")
