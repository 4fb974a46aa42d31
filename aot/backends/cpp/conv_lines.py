"""Pointwise convolutions of pairs whose channels are neighbours: lines of pixels times the weight.

Where a few k's of bfloat16 make a result, what follows the products takes as long as they do. So
pixels that lie evenly are rows of a product, which ends where its sums are (matmul_shallow.h).
"""

from __future__ import annotations

from aot.backends.cpp.conv_parts import Convolution, Made, follow_each_other, write_products
from aot.backends.cpp.gemm_heuristic import MatmulBlocking, matmul_blocking
from aot.backends.cpp.kernel import NAME
from aot.backends.cpp.operands import SHARED_TABLES, shared_tables, template_type
from aot.backends.cpp.streaming import streamed_buffers
from aot.backends.cpp.tile import (
    COLUMN,
    added_field,
    added_to_columns,
    ending_flags,
    epilogue_nests,
    results_of,
    stored_as,
)
from aot.backends.cpp.values import Body
from aot.ir.dtypes import BFLOAT16, FLOAT16
from aot.ir.kernels import KernelGraph
from aot.symbolic import Expr, integer, is_int, product

_MOST_CHANNELS = 256
_LEAST_PIXELS = 16
"""What shallow products have; and a line, beside which its beginning is little."""


def is_line_product(c: Convolution, graph: KernelGraph) -> bool:
    """Whether lines of pixels lie evenly, and results are only rounded and stored."""
    q, pair = c.shape, c.dtype == c.w_dtype == BFLOAT16
    if not (c.packed and pair and q.kernel == (1, 1, 1) and q.padding == (0, 0, 0)):
        return False
    if q.groups > 1 or q.ic > _MOST_CHANNELS or c.space.turned or c.planes or c.x.strides[1] != 1:
        return False
    if not is_int(c.pixels) or _line(c) < _LEAST_PIXELS or streamed_buffers(c.kernel, graph):
        return False
    nests = epilogue_nests(c.kernel, c.space, c.context)
    rounded = stored_as(nests, c.context, c.dtype.compute, COLUMN) == BFLOAT16
    return rounded or added_to_columns(nests, c.context, BFLOAT16) is not None


def line_product(body: Body, c: Convolution) -> Made:
    """Writes the call for each line, to which `epilogue` gets its pixels among all."""
    pixels, blocking = _line(c), _blocking(c)
    nests = epilogue_nests(c.kernel, c.space, c.context)
    tables = shared_tables(c.dtype.compute, heights_known=True)
    rows, columns = -(-pixels // blocking.mb), -(-c.shape.oc // blocking.nb)
    lines = int(c.pixels) // pixels
    ends = results_of(nests, c.context, COLUMN)
    ends["out"] = f"reinterpret_cast<char*>({ends['out']}) + line * {pixels} * {ends['out_row']}"
    write_products(
        body,
        c,
        "line",
        str(rows * columns),
        str(pixels),
        "int64_t m0, int64_t m1, int64_t c0, int64_t c1",
        {**_operands(c, lines), **ends, **added_field(nests, c.context)},
    )
    return Made(
        _config(c, blocking, [*ending_flags(nests, c.context), *[SHARED_TABLES] * len(tables)]),
        "aot/tmpl/matmul.h",
        product((integer(lines), integer(rows * columns))),
        integer(blocking.scratch_bytes),
        blocking.grain,
        tables,
    )


def _steps(c: Convolution) -> tuple[Expr, ...]:
    """What pixels of results are apart in the input: images, planes, lines and those of a line."""
    outer = zip(c.x_steps, c.shape.stride, strict=True)
    return (c.x.strides[0], *((step * stride).expand() for step, stride in outer))


def _line(c: Convolution) -> int:
    """Pixels that lie evenly: all of them, or those of a row."""
    steps = _steps(c)
    if follow_each_other(steps, (c.images, *c.out), steps[-1]):
        return int(c.pixels)
    return int(c.out[-1])


def _blocking(c: Convolution) -> MatmulBlocking:
    size, halves = c.dtype.itemsize, c.dtype in (FLOAT16, BFLOAT16)
    return matmul_blocking(
        _line(c), c.shape.oc, c.shape.ic, a_bytes=size, b_bytes=size, halves=halves
    )


def _config(c: Convolution, q: MatmulBlocking, flags: list[str]) -> str:
    values = {"M": _line(c), "N": c.shape.oc, "K": c.shape.ic}
    values |= {"MB": q.mb, "NB": q.nb, "MC": q.mc, "NC": q.nc, "KB": q.kb}
    kind = template_type(c.dtype)
    lines = [
        f"struct {NAME}_config : aot::tmpl::MatmulConfig {{",
        f"  using A = {kind};",
        f"  using B = {kind};",
        *(f"  static constexpr int64_t {name} = {value};" for name, value in values.items()),
        "  static constexpr aot::tmpl::Along A_ALONG = aot::tmpl::Along::kDepth;",
        *flags,
        "};",
    ]
    return "\n".join(["namespace {", *lines, "}", ""])


def _operands(c: Convolution, lines: int) -> dict[str, str]:
    kind, steps = template_type(c.dtype), _steps(c)
    place = f"{c.context.pointers[c.x_view.buffer]} + ({c.text(c.x.offset)})"
    if lines > 1:
        high, deep = int(c.out[1]), int(c.out[1]) * int(c.out[0])
        place += f" + line % {high} * ({c.text(steps[2])})"
        place += f" + line % {deep} / {high} * ({c.text(steps[1])})"
        place += f" + line / {deep} * ({c.text(steps[0])})"
    return {
        "a": f"reinterpret_cast<const {kind}*>({place})",
        "a_batch": "0",
        "a_row": c.text(steps[-1]),
        "a_col": "1",
        "b": c.weight(c.dtype),
        "b_batch": "0",
        "b_row": "0",
        "b_col": "0",
        "m": str(_line(c)),
        "n": str(c.shape.oc),
        "k": str(c.shape.ic),
    }
