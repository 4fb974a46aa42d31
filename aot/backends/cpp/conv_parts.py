"""A convolution kernel taken apart, and what its variants decide: parts of `template_conv`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aot.backends.cpp.context import KernelContext
from aot.backends.cpp.conv_heuristic import ConvBlocking, ConvShape
from aot.backends.cpp.kernel import NAME
from aot.backends.cpp.operands import Strided, template_type
from aot.backends.cpp.text import index_text
from aot.backends.cpp.tile import TileSpace
from aot.backends.cpp.values import Body
from aot.ir.dtypes import DType
from aot.ir.kernels import TemplateKernel
from aot.ir.nests import View
from aot.symbolic import Expr, integer, is_int, var

Triple = tuple[Expr, Expr, Expr]

IMAGE = var("tile_image")
"""The image that a turned tile is of."""


@dataclass(frozen=True)
class Convolution:
    """One convolution kernel, taken apart; sizes and strides as (depth, height, width).

    `packed`: the weight is packed beforehand; else it is packed at run time. `depthwise`: vectors
    run along channels of a group each; `planes`: along pixels. `tile`: outputs of a tile that
    is transformed. `spread`: phases of a pixel that are neighbours in turned tiles.
    """

    kernel: TemplateKernel
    context: KernelContext
    space: TileSpace
    spread: int
    shape: ConvShape
    images: Expr
    pixels: Expr
    sizes: Triple
    out: Triple
    x: Strided
    w: Strided
    x_view: View
    w_view: View
    dtype: DType
    w_dtype: DType
    packed: bool
    depthwise: bool
    planes: bool
    tile: tuple[int, int] | None

    @property
    def w_argument(self) -> str:
        """The buffer that holds the weight."""
        return self.kernel.argument(self.w_view.buffer)

    @property
    def x_steps(self) -> Triple:
        """The input's spatial strides."""
        return triple(self.x.strides[2:], integer(0))

    @property
    def is_pointwise(self) -> bool:
        """Whether each output sees the one place of the input that it lies at."""
        q = self.shape
        return q.kernel == q.stride == (1, 1, 1) and q.padding == (0, 0, 0)

    def text(self, expr: Expr) -> str:
        """A size or offset in C++."""
        return index_text(expr, self.context.names)

    def weight(self, dtype: DType) -> str:
        """Where the weight is in C++, as a pointer to elements of a type."""
        place = self.context.pointers[self.w_argument]
        return f"reinterpret_cast<const {template_type(dtype)}*>({place})"


def image_lines(c: Convolution) -> list[str]:
    """In a turned epilogue, pixels become those of their image."""
    if not c.space.turned or is_int(c.images, 1):
        return []
    pixels = c.text(c.space.rows.extent)
    return [
        f"const int64_t image = m0 / ({pixels});",
        f"m0 -= image * ({pixels});",
        f"m1 -= image * ({pixels});",
    ]


def write_products(
    body: Body,
    c: Convolution,
    part: str,
    units: str,
    pixels: str,
    ranges: str,
    fields: Mapping[str, str],
) -> None:
    """Writes the loop of a call's units, each of which is a product (matmul.h) of a part's pixels.

    Args:
        body: Where.
        c: The convolution, of whose pixels each part has so many.
        part: What a part is called in the text, as `fields` name it.
        units: Of a part.
        pixels: Of a part.
        ranges: How a product gives a tile's ranges to `epilogue`, which gets pixels among all as m.
        fields: Of a product's arguments, and their values.
    """
    writer, element = body.writer, template_type(c.dtype.compute)
    writer.line(f"const int64_t per_{part} = {units};")
    with body.scope("for (int64_t unit = begin; unit < end;)"):
        writer.line(
            f"const int64_t {part} = unit / per_{part}, first = unit - {part} * per_{part};"
        )
        writer.line(f"const int64_t last = aot::imin(per_{part}, first + end - unit);")
        writer.line("unit += last - first;")
        head = f"const auto of_{part} = [&](int64_t, {ranges}, const {element}* tile, int64_t ld)"
        with body.scope(head, "};"):
            at = f"{part} * ({pixels})"
            writer.line(f"epilogue(0, {at} + m0, {at} + m1, c0, c1, tile, ld);")
        writer.line(f"aot::tmpl::MatmulArgs<{NAME}_config> call;")
        for name, value in fields.items():
            writer.line(f"call.{name} = {value};")
        writer.line(f"aot::tmpl::matmul(call, first, last, args->scratch, of_{part});")


def follow_each_other(strides: Sequence[Expr], extents: Sequence[Expr], step: Expr) -> bool:
    """Whether places of these dimensions, the outermost first, lie `step` apart without gaps."""
    for stride, extent in zip(reversed(strides), reversed(extents), strict=True):
        if not (is_int(extent, 1) or stride == step):
            return False
        step = (step * extent).expand()
    return True


def is_even(c: Convolution) -> bool:
    """Whether pixels, a known number, lie evenly, each a row of channels that are neighbours."""
    if not (c.is_pointwise and is_int(c.pixels) and c.dtype.compute == c.dtype == c.w_dtype):
        return False
    strides = (c.x.strides[0], *c.x_steps)
    near = bool(c.x.strides[1] == 1)
    return near and follow_each_other(strides, (c.images, *c.out), c.x_steps[2])


@dataclass(frozen=True)
class Made:
    """What a variant decides: configuration text, header, launch numbers, shared tables."""

    config: str
    header: str
    work: Expr
    scratch: Expr
    grain: int
    tables: tuple[str, ...] = ()


def scratch_check(config: str, blocking: ConvBlocking) -> str:
    """A declaration that no compiler takes where `conv` needs more scratch than the plan gives."""
    size = f"aot::tmpl::conv_scratch<{config}>"
    fits = f"{size}(0) <= {blocking.scratch_base} && "
    fits += f"{size}(1) - {size}(0) <= {blocking.scratch_per_column}"
    return f'static_assert({fits}, "scratch");'


def triple(values: Sequence[Expr], missing: Expr) -> Triple:
    """Depth, height and width of what has one to three dimensions."""
    filled = (*[missing] * (3 - len(values)), *values)
    return filled[0], filled[1], filled[2]
