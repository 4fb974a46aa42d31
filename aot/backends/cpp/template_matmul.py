"""Matrix products: a call of aot/tmpl/matmul.h with the epilogue as a function object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from aot.backends.cpp.context import KernelContext
from aot.backends.cpp.gemm_heuristic import MatmulBlocking, matmul_blocking
from aot.backends.cpp.kernel import NAME, EmittedKernel, make_context, open_template
from aot.backends.cpp.operands import (
    SHARED_TABLES,
    Strided,
    fixed,
    greatest,
    outer_coordinates,
    pack_weight,
    shared_tables,
    strided,
    template_type,
)
from aot.backends.cpp.packing import packed_matmul_shape
from aot.backends.cpp.pieces_heuristic import piece_lines
from aot.backends.cpp.text import index_text
from aot.backends.cpp.tile import (
    COLUMN,
    ROW,
    TileSpace,
    added_field,
    emit_epilogue,
    ending_flags,
    epilogue_nests,
    results_of,
    tile_context,
    tile_space,
)
from aot.backends.cpp.values import Body
from aot.ir.dtypes import BFLOAT16, FLOAT16, DType
from aot.ir.hints import hints_of
from aot.ir.kernel_facts import argument_buffers, template_call
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.ir.nests import Axis, Buffer, DerivedWeight, View
from aot.ir.templates.matmul import Matmul
from aot.symbolic import Expr, ceil_div, depends_on, integer, is_int, product


@dataclass(frozen=True)
class _Product:
    """One matmul kernel, taken apart.

    `packed`: B is a weight, packed beforehand; else it is packed at run time.
    `matrix`: elements between the packed matrices of a batch, 0 when all share one.
    """

    kernel: TemplateKernel
    context: KernelContext
    space: TileSpace
    batch: tuple[Axis, ...]
    k: Expr
    a: Strided
    b: Strided
    a_view: View
    b_view: View
    a_dtype: DType
    b_dtype: DType
    blocking: MatmulBlocking
    packed: bool
    matrix: int

    @property
    def m(self) -> Expr:
        """Rows of a matrix of results."""
        return self.space.rows.extent

    @property
    def n(self) -> Expr:
        """Columns of a matrix of results."""
        return self.space.columns.extent

    @property
    def b_argument(self) -> str:
        """The buffer that holds B."""
        return self.kernel.argument(self.b_view.buffer)

    @property
    def compute(self) -> DType:
        """The type of accumulators and tiles."""
        return self.a_dtype.compute

    @property
    def tables(self) -> tuple[str, ...]:
        """As `EmittedKernel`'s."""
        return shared_tables(self.compute, heights_known=is_int(self.m))

    def at_batch(self, operand: Strided) -> Expr:
        """Where the operand's matrix of the current batch element begins."""
        offset = operand.offset
        for axis, stride in zip(self.batch, operand.strides, strict=False):
            offset = offset + axis.symbol * stride
        return offset.expand()

    def text(self, expr: Expr) -> str:
        """A size or offset in C++."""
        return index_text(expr, self.context.names)


def emit_matmul(kernel: TemplateKernel, graph: KernelGraph) -> EmittedKernel:
    """The function of a kernel whose template is a matmul."""
    p = _take_apart(kernel, graph)
    body, sizes = open_template(kernel, graph, p.context)
    writer = body.writer
    row_tiles, column_tiles = ceil_div(p.m, p.blocking.mb), ceil_div(p.n, p.blocking.nb)
    writer.line(f"const int64_t row_tiles = {p.text(row_tiles)};")
    if p.batch:
        writer.line(f"const int64_t per_batch = row_tiles * ({p.text(column_tiles)});")
        with body.scope("for (int64_t unit = begin; unit < end;)"):
            writer.line("const int64_t batch = unit / per_batch;")
            writer.line("const int64_t first = unit - batch * per_batch;")
            writer.line("const int64_t last = aot::imin(per_batch, first + end - unit);")
            writer.line("unit += last - first;")
            outer_coordinates(writer, "batch", p.batch, p.context.names)
            _one_matrix(body, p)
    else:
        writer.line("const int64_t first = begin, last = end;")
        _one_matrix(body, p)
    return EmittedKernel(
        writer.text(),
        argument_buffers(kernel),
        sizes,
        product((*(a.extent for a in p.batch), row_tiles, column_tiles)),
        integer(p.blocking.scratch_bytes),
        head=_config(p),
        headers=("aot/tmpl/matmul.h",),
        grain=p.blocking.grain,
        tables=p.tables,
    )


def _take_apart(kernel: TemplateKernel, graph: KernelGraph) -> _Product:
    call, buffers = template_call(kernel, Matmul), graph.buffers
    a_view, b_view = call.a, call.b
    *batch, row, column = call.output.axes
    axes = {axis.symbol: axis.symbol for axis in batch}
    space = tile_space(row.extent, column.extent, {**axes, row.symbol: ROW, column.symbol: COLUMN})
    a_dtype, b_dtype = buffers[a_view.buffer].dtype, buffers[b_view.buffer].dtype
    context = tile_context(make_context(kernel, graph), space, a_dtype.compute)
    names = {axis.symbol: f"b{k}" for k, axis in enumerate(batch)}
    context = replace(
        context,
        names={**context.names, **names},
        ranges=context.ranges.with_extents(
            {**context.ranges.extents, **{axis.symbol: axis.extent for axis in batch}}
        ),
    )
    a = strided(call, a_view, buffers, context.ranges)
    packed = kernel.packed is not None
    matrix = _matrix_elements(call, b_dtype) if packed else 0
    b = strided(call, b_view, buffers, context.ranges)
    hints = hints_of(graph.dims)
    k = a_view.axes[-1].extent
    blocking = matmul_blocking(
        hints.value(row.extent),
        hints.value(column.extent),
        hints.value(k),
        m_max=None if is_int(row.extent) else greatest(row.extent, context.ranges),
        accumulator_bytes=a_dtype.compute.itemsize,
        a_bytes=a_dtype.itemsize,
        b_bytes=b_dtype.itemsize,
        a_contiguous=a.strides[-1] == 1,
        b_packed=packed,
        k_fixed=is_int(k),
        may_turn=_may_turn(a, a_dtype, b_dtype, (row.extent, column.extent, k), packed),
        float16=a_dtype == b_dtype == FLOAT16,
        halves=a_dtype == b_dtype and a_dtype in (FLOAT16, BFLOAT16),
        b_across=not packed and _along(b, turned=True) == "kAcross",
        n_varies=not is_int(column.extent),
    )
    return _Product(
        kernel,
        context,
        space,
        tuple(batch),
        k,
        a,
        b,
        a_view,
        b_view,
        a_dtype,
        b_dtype,
        blocking,
        packed,
        matrix,
    )


def _may_turn(
    a: Strided, a_dtype: DType, b_dtype: DType, sizes: Sequence[Expr], packed: bool
) -> bool:
    """The twin of `matmul_may_turn` in aot/tmpl/matmul.h."""
    fixed_sizes = all(is_int(size) and int(size) > 0 for size in sizes)
    own = a_dtype == b_dtype == a_dtype.compute and a_dtype.is_float
    return fixed_sizes and own and not packed and _along(a, turned=False) == "kAcross"


def _along(operand: Strided, *, turned: bool) -> str:
    """What neighbours in memory are, of A's (row, k) or, `turned`, of B's (k, column)."""
    across, depth = operand.strides[-2:]
    if turned:
        across, depth = depth, across
    if depth == 1:
        return "kDepth"
    return "kAcross" if across == 1 else "kAny"


def pack_matmul(kernel: TemplateKernel, graph: KernelGraph) -> tuple[Buffer, DerivedWeight]:
    """The buffer for the packed form of a weight B, and how it is computed."""
    view = template_call(kernel, Matmul).b
    buffer = graph.buffers[view.buffer]
    *batch, k, n = view.axes
    shape = _packed_shape(view, buffer.dtype)
    if not _is_batch(view):
        # A batch that shares one matrix packs it once.
        return pack_weight(buffer, View(view.buffer, (k, n), view.index), "pack_matmul", shape)
    count = prod(int(axis.extent) for axis in batch)
    return pack_weight(buffer, view, "pack_matmul", (count, *shape))


def _matrix_elements(call: Matmul, dtype: DType) -> int:
    """Elements between the packed matrices of a batch, 0 when all share one."""
    return prod(_packed_shape(call.b, dtype)) if _is_batch(call.b) else 0


def _packed_shape(view: View, dtype: DType) -> tuple[int, ...]:
    k, n = view.axes[-2:]
    return packed_matmul_shape(int(k.extent), int(n.extent), dtype.numpy)


def _is_batch(view: View) -> bool:
    """True when the matrices of a batch differ."""
    symbols = [axis.symbol for axis in view.axes[:-2]]
    return any(depends_on(e, symbols) for e in view.index)


def _config(p: _Product) -> str:
    q = p.blocking
    nests = epilogue_nests(p.kernel, p.space, p.context)
    values = {"M": fixed(p.m), "N": fixed(p.n), "K": fixed(p.k)}
    values.update({"MB": q.mb, "NB": q.nb, "MC": q.mc, "NC": q.nc, "KB": q.kb})
    lines = [
        f"struct {NAME}_config : aot::tmpl::MatmulConfig {{",
        f"  using A = {template_type(p.a_dtype)};",
        f"  using B = {template_type(p.b_dtype)};",
        *(f"  static constexpr int64_t {name} = {value};" for name, value in values.items()),
        f"  static constexpr bool COPY_A = {'true' if q.copy_a else 'false'};",
        f"  static constexpr bool STRIDED_B = {'true' if q.strided_b else 'false'};",
        *["  static constexpr bool BATCH = true;"] * bool(p.batch and q.strided_b),
        *_alongs(p),
        *ending_flags(nests, p.context),
        *[f"  static constexpr int64_t PACKED = {q.packed};"] * (q.packed > 0),
        *([] if q.pieces is None else piece_lines(q.pieces)),
        *[SHARED_TABLES] * len(p.tables),
        "};",
    ]
    return "\n".join(["namespace {", *lines, "}", ""])


def _alongs(p: _Product) -> list[str]:
    """What operands' neighbours in memory are, where kernels may read them in place."""
    found = {"A": _along(p.a, turned=False)}
    if not p.packed:
        found["B"] = _along(p.b, turned=True)
    kind = "aot::tmpl::Along"
    return [f"  static constexpr {kind} {k}_ALONG = {kind}::{v};" for k, v in found.items()]


def _one_matrix(body: Body, p: _Product) -> None:
    writer, text = body.writer, p.text
    config = f"{NAME}_config"
    nests = epilogue_nests(p.kernel, p.space, p.context)
    emit_epilogue(body, nests, p.space, p.compute)
    pointers = p.context.pointers
    a_type, b_type = template_type(p.a_dtype), template_type(p.b_dtype)
    a_offset = p.at_batch(p.a)
    b_strides = tuple(integer(0) for _ in p.b.strides) if p.packed else p.b.strides
    b_offset = p.at_batch(p.b)
    b_pointer = f"{pointers[p.b_argument]} + ({text(b_offset)})"
    if p.packed:
        b_pointer = pointers[p.b_argument] + (f" + batch * {p.matrix}" if p.matrix else "")
    results = results_of(nests, p.context, COLUMN, p.batch[-1].symbol if p.batch else None)
    writer.line(f"aot::tmpl::MatmulArgs<{config}> call;")
    for name, value in {
        "a": f"reinterpret_cast<const {a_type}*>({pointers[p.a_view.buffer]} + ({text(a_offset)}))",
        "a_batch": "0",
        "a_row": text(p.a.strides[-2]),
        "a_col": text(p.a.strides[-1]),
        "b": f"reinterpret_cast<const {b_type}*>({b_pointer})",
        "b_batch": "0",
        "b_row": text(b_strides[-2]),
        "b_col": text(b_strides[-1]),
        "m": text(p.m),
        "n": text(p.n),
        "k": text(p.k),
        **results,
        **added_field(nests, p.context),
        **_next_matrices(p, results),
    }.items():
        writer.line(f"call.{name} = {value};")
    writer.line("aot::tmpl::matmul(call, first, last, args->scratch, epilogue);")


def _next_matrices(p: _Product, results: dict[str, str]) -> dict[str, str]:
    """From a matrix of the innermost batch axis to the next one, while there is one to come."""
    if not p.batch or p.packed:
        return {}
    inner = len(p.batch) - 1
    found = {"a_next": p.text(p.a.strides[inner]), "b_next": p.text(p.b.strides[inner])}
    if "out_next" in results:
        found["out_next"] = results["out_next"]
    fields = {name: f"unit < end ? {step} : 0" for name, step in found.items()}
    return {**fields, "follows": "unit - (last - first) > begin"}
