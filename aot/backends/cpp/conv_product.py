"""Pointwise convolutions whose results' pixels are neighbours: the weight times each image.

Where pixels are neighbours in the input, too, vectors of them are read and stored as they lie:
nothing is turned. Where channels are (channels last), the input is turned as it is packed, which is
less to do than turning results that are more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from aot.backends.cpp.conv_parts import Convolution, Made, follow_each_other, write_products
from aot.backends.cpp.gemm_heuristic import MatmulBlocking, matmul_blocking
from aot.backends.cpp.kernel import NAME
from aot.backends.cpp.operands import SHARED_TABLES, fixed, shared_tables, template_type
from aot.backends.cpp.packing import row_elements
from aot.backends.cpp.tile import ROW, epilogue_nests, is_plain, results_of
from aot.backends.cpp.values import Body
from aot.ir.hints import hints_of
from aot.ir.kernels import KernelGraph
from aot.symbolic import Expr, ceil_div, integer, is_int, product

_MOST_TURNED, _TIMES_AS_MANY = 64, 4
"""Channels of an input that is turned in the place of its results, which are so many times more."""
_FEW_OUTPUTS = 32
_MOST_OF_A_SET = 4
_LINE, _SETS = 64, 64
"""Bytes of a line of the first level of cache, and its sets, as all levels' machines have them."""


def reads_in_place(outputs: int, channels: int, step: int) -> bool:
    """Whether pixels are multiplied where they lie, channels `step` bytes apart.

    Every strip of outputs reads a line of each channel again: where there are several strips, and
    many of these lines share a set of the cache, the pixels of a unit are copied as panels.
    """
    sets = Counter(k * step // _LINE % _SETS for k in range(channels))
    return outputs <= _FEW_OUTPUTS or max(sets.values(), default=0) <= _MOST_OF_A_SET


def is_image_product(c: Convolution) -> bool:
    """Whether an image's pixels are evenly spaced, results' neighbours, and few results turned."""
    if not (c.is_pointwise and c.shape.groups == 1 and c.space.turned and c.spread == 1):
        return False
    if c.dtype != c.w_dtype:
        return False
    if follow_each_other(c.x_steps, c.out, integer(1)):
        return bool(c.x.strides[-1] == 1)
    return _turns_input(c) and follow_each_other(c.x_steps, c.out, c.x_steps[2])


def _turns_input(c: Convolution) -> bool:
    """Whether channels of pixels are neighbours, and few beside those of the results.

    Deep sums take so long that turning what they become does not show, and go faster by pixels.
    """
    own = c.dtype.compute == c.dtype and c.dtype.is_float
    few = c.shape.ic <= _MOST_TURNED and c.shape.oc >= _TIMES_AS_MANY * c.shape.ic
    return own and few and bool(c.x.strides[1] == 1)


def image_product(body: Body, c: Convolution, graph: KernelGraph) -> Made:
    """Writes the call for each image; `epilogue` gets its pixels turned, as `planes` gives them."""
    pixels, blocking = c.space.rows.extent, _blocking(c, graph)
    nests = epilogue_nests(c.kernel, c.space, c.context)
    tables = shared_tables(c.dtype.compute, heights_known=True)
    rows, columns = -(-c.shape.oc // blocking.mb), ceil_div(pixels, blocking.nb)
    write_products(
        body,
        c,
        "image",
        f"{rows} * ({c.text(columns)})",
        c.text(pixels),
        "int64_t c0, int64_t c1, int64_t m0, int64_t m1",
        {**_operands(c), **results_of(nests, c.context, ROW)},
    )
    step = hints_of(graph.dims).value(c.x.strides[1])
    config = _config(
        c,
        blocking,
        step,
        plain=is_plain(nests, c.context, c.dtype.compute, ROW),
        shared=bool(tables),
    )
    return Made(
        config,
        "aot/tmpl/matmul.h",
        product((c.images, integer(rows), columns)),
        integer(blocking.scratch_bytes),
        blocking.grain,
        tables,
    )


def _blocking(c: Convolution, graph: KernelGraph) -> MatmulBlocking:
    return matmul_blocking(
        c.shape.oc,
        hints_of(graph.dims).value(c.space.rows.extent),
        c.shape.ic,
        accumulator_bytes=c.dtype.compute.itemsize,
        a_bytes=c.dtype.itemsize,
        b_bytes=c.dtype.itemsize,
        a_contiguous=c.packed or c.w.strides[1] == 1,
        b_packed=False,
        n_varies=not is_int(c.space.rows.extent),
    )


def _config(c: Convolution, q: MatmulBlocking, step: int, *, plain: bool, shared: bool) -> str:
    """`step`: elements between channels, or about so many."""
    values = {"M": c.shape.oc, "N": fixed(c.space.rows.extent), "K": c.shape.ic}
    values |= {"MB": q.mb, "NB": q.nb, "MC": q.mc, "NC": q.nc, "KB": q.kb, "PACKED": q.packed}
    kind, along = template_type(c.dtype), "aot::tmpl::Along"
    near = reads_in_place(c.shape.oc, c.shape.ic, step * c.dtype.itemsize)
    across = "kDepth" if _turns_input(c) else "kAcross" if near else "kAny"
    lines = [
        f"struct {NAME}_config : aot::tmpl::MatmulConfig {{",
        f"  using A = {kind};",
        f"  using B = {kind};",
        *(f"  static constexpr int64_t {name} = {value};" for name, value in values.items()),
        f"  static constexpr bool COPY_A = {'true' if q.copy_a else 'false'};",
        "  static constexpr bool STRIDED_B = true;",
        f"  static constexpr bool PLAIN = {'true' if plain else 'false'};",
        f"  static constexpr {along} A_ALONG = {along}::{'kAny' if q.copy_a else 'kDepth'};",
        f"  static constexpr {along} B_ALONG = {along}::{across};",
        *[SHARED_TABLES] * shared,
        "};",
    ]
    return "\n".join(["namespace {", *lines, "}", ""])


def _operands(c: Convolution) -> dict[str, str]:
    kind, text = template_type(c.dtype), c.text
    strides: Sequence[Expr] = c.w.strides[:2]
    weight = c.context.pointers[c.w_argument]
    if c.packed:
        strides = (integer(row_elements(c.shape.ic, c.dtype.numpy)), integer(1))
    else:
        weight += f" + ({text(c.w.offset)})"
    place = f"{c.context.pointers[c.x_view.buffer]} + ({text(c.x.offset)})"
    return {
        "a": f"reinterpret_cast<const {kind}*>({weight})",
        "a_batch": "0",
        "a_row": text(strides[0]),
        "a_col": text(strides[1]),
        "b": f"reinterpret_cast<const {kind}*>({place}) + image * ({text(c.x.strides[0])})",
        "b_batch": "0",
        "b_row": text(c.x.strides[1]),
        "b_col": text(c.x_steps[2]),
        "m": str(c.shape.oc),
        "n": text(c.space.rows.extent),
        "k": str(c.shape.ic),
    }
