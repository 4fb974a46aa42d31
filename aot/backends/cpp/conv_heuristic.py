"""Blocking of the CPU convolution template, chosen when the package is built."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from aot.backends.cpp.gemm_heuristic import PANEL, UNIT_MACS, MatmulBlocking, matmul_blocking
from aot.backends.cpp.packing import even
from aot.backends.cpp.pieces_heuristic import STRIP, Pieces, pieces_blocking

# Below this many channels a tap is too short a run of k, and kernel rows are joined in a patch.
_PATCH_CHANNELS = 16
PATCH_PIXELS = 448
"""Of a block whose input passes through scratch, or about so many."""
_POINTER_BYTES = 8
# Bytes of a panel of weights, and columns of output from which on rows of a patch have no pointers
# and are worth their copy (conv_rows.h).
_NEAR_PANEL = 32 * 1024
_ROW_COLUMNS = 14
# Of the patch under a piece of a row, which stays in the second level beside the weights.
_PIECE_BYTES = 128 * 1024
# Elements of gathered pixels, as in ConvShape of aot/tmpl/conv_call.h. Cycles of a pixel and of a
# step of k's: of a pair of panels in full tiles; to gather; to read a line of W, once a block.
_GATHERED_ELEMENTS = 1 << 17
_TILE_ROW = 16
_TILED, _GATHER, _WEIGHT_LINE = 2.0, 3.5, 3.0
# k's of a step; cycles of a dot product of pairs by a panel, and to gather a run that is too short
# for tiles.
_STEP_K, _DOT, _GATHERED_RUN = 32, 2.0, 4.0
# Pixels of a turned tile: four lines of cache of a channel, stored at once.
_TURN = 64
# Pixels and elements of input of a block of planes: in L1 or near it; in L2 while each row of input
# would otherwise be copied for more than so many rows of output.
_PLANE_PIXELS = 448
_PLANE_ELEMENTS = 16 * 1024
# Of a block where rows are wider than that and share lines of input: seven rows of them copy a line
# for 3 taps once and a third in place of three times. Measured at 512 and 1920 columns of 3 to 11
# taps: 0.65 to 0.9 of the time of blocks of one row.
_WIDE_COLUMNS = 64
_VARYING_COLUMNS = (_WIDE_COLUMNS, _WIDE_COLUMNS // 2)
_MOST_PLANE_ELEMENTS = 48 * 1024
_PLANE_COPIES = 2
# What makes the template of panels compute in vain or turn much for little: outputs of less than
# half a panel, or a short sum. Beyond _LONG_K its kernel's chains are the better ones.
_FEW_OUTPUTS = PANEL // 2
_SHORT_K = 32
_LONG_K = 320
# Waste of outputs from which on planes of longer sums are worth it, a few input channels at a time:
# of floats, of pairs, and of pairs that are not in groups, where tiles multiply them eight times as
# fast. A chunk's lines stay near; a channel's sums have so many products, at least.
_WASTE_OF_LONG = 2
_WASTE_OF_LONG_PAIRS = 4
_WASTE_OF_LONG_TILES = 16
_CHUNK_ELEMENTS = 8 * 1024
_CHUNK_K = 27
# What a unit of planes should have at least.
_PLANE_MACS = 150_000
# Input channels of a bundle of groups: whole lines of cache are turned.
_BUNDLE = 64
# What planes of turned channels take, in products of panels: for a product of theirs, and for an
# element that is turned; and the part of the panels' time that is worth it. Measured over 2 to 24
# outputs of 32 to 432 channels by 1 and 3 by 3 taps, with AVX2.
_PLANE_PRODUCT = 1.3
_TURNED_ELEMENT = 25
_WORTH = 0.9
# With dot products of pairs: products of panels for each that is wanted. Where tap rows are long
# enough for tiles (`kLeastRun` in aot/tmpl/conv.h) a machine may have these, which multiply eight
# times as fast: so many that neither machine is further from its best choice than the other.
_WASTE_OF_PAIRS = 2.2
_WASTE_OF_TILES = 4.2
_LEAST_RUN = 8
PLANE_COLUMNS = 8
"""Of outputs at least, for vectors along them to be better than vectors along channels."""
# Two strips of the highest: fewer pixels that lie evenly would not share what their strips fetch.
_EVEN_PIXELS = 28
# As PixelOrder in aot/tmpl/conv_order.h: k's of a pixel that must be outside the data for pixels to
# be put in an order, and what a block of them may take in L2, of results and pointers.
_LEAST_SAVED, _ORDERED_K, _ORDERED_ROW = 11, 128, 256
_MOSTLY = 0.5
_ORDERED_BYTES = 384 * 1024
# A strip of rows over all of K stays in L1 up to this K, and the weights of a block in L2.
_WHOLE_K = 640
# Of weights of one tap that stay in L1 while strips pass: it is not cut then.
_NEAR_TAP = 24 * 1024
_WHOLE_WEIGHT = 512 * 1024


@dataclass(frozen=True)
class ConvShape:
    """A convolution: channels of one group, and (depth, height, width) triples."""

    groups: int
    ic: int
    oc: int
    kernel: tuple[int, int, int]
    stride: tuple[int, int, int] = (1, 1, 1)
    dilation: tuple[int, int, int] = (1, 1, 1)
    padding: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True)
class ConvBlocking:
    """Template arguments of `aot::tmpl::conv` and what the plan needs to launch it.

    The fields are those of `ConvConfig` in aot/tmpl/conv.h; `grain` is the number of units worth
    a thread of their own. `pairs`: input and weight are bfloat16, multiplied in pairs.
    `turned`: the epilogue gets tiles whose pixels are contiguous; `spread`: so many phases of a
    pixel are neighbours there. `pieces`: tiles of bfloat16 multiply where there are some.
    `gathered`: pixels' taps are copied side by side for tiles. `even`: pixels are read as rows that
    lie evenly. `columns`: of a piece of a row, of whose input a patch is; 0: it is of whole rows.
    """

    shape: ConvShape
    mb: int
    nb: int
    mc: int
    nc: int
    kb: int
    rows: int
    patch: bool
    grain: int
    accumulator_bytes: int
    narrow_b: bool
    pairs: bool = False
    turned: bool = False
    spread: int = 1
    pieces: Pieces | None = None
    gathered: bool = False
    even: bool = False
    columns: int = 0

    def work(self, pixels: int) -> int:
        """Work units of a launch: groups * ceil(oc / nb) * ceil(pixels / mb)."""
        return self.shape.groups * -(-self.shape.oc // self.nb) * -(-pixels // self.mb)

    @property
    def scratch_base(self) -> int:
        """Bytes of scratch that do not depend on the input's width."""
        kd, kh, kw = self.shape.kernel
        taps = kd * kh * (1 if self.patch and self.shape.dilation[2] == 1 else kw)
        whole = -(-self.mc // PANEL) * PANEL if self.turned else self.mc
        width, pointers = self.nc, self.mc
        if self.pieces is not None:
            whole, width = max(whole, self.pieces.rows), max(width, self.pieces.columns)
            pointers = max(pointers, 2 * STRIP)
        table = -(-taps * pointers * _POINTER_BYTES // 64) * 64
        elements = whole * (width + PANEL)
        if self.turned:
            elements += self.nc * (_TURN * self.spread + PANEL)
        if self.narrow_b:
            elements += 4 * PANEL * self.kb
        if not self.patch:
            elements += self.shape.ic
        elements += self._under(self.columns) * self._column_elements if self.columns else 0
        pieces = 0 if self.pieces is None else self.pieces.scratch_bytes
        return table + pieces + self._gathered_bytes + elements * self.accumulator_bytes

    @property
    def _gathered_bytes(self) -> int:
        if not self.gathered:
            return 0
        row = (-(-even(self.shape.ic) * prod(self.shape.kernel) // 32) | 1) * 32
        rows = min(max(_GATHERED_ELEMENTS // row // 32 * 32, 32), -(-self.mc // 32) * 32)
        return rows * row * 2

    @property
    def scratch_per_column(self) -> int:
        """Bytes of scratch per column that a row of output reads (0 without a patch)."""
        if not self.patch or self.columns:
            return 0
        return self._column_elements * self.accumulator_bytes

    @property
    def _column_elements(self) -> int:
        """Elements of a patch's column."""
        kd, kh, _ = self.shape.kernel
        rows = (self.rows - 1) * self.shape.stride[1] + (kh - 1) * self.shape.dilation[1] + 1
        channels = even(self.shape.ic) if self.pairs else self.shape.ic
        return kd * rows * channels

    def _under(self, outputs: int) -> int:
        """Columns of input that so many outputs of a row read."""
        reach = (self.shape.kernel[2] - 1) * self.shape.dilation[2]
        return (outputs - 1) * self.shape.stride[2] + reach + 1

    def scratch_bytes(self, ow: int) -> int:
        """Bytes of scratch for rows of `ow` outputs: the twin of `conv_scratch` in conv.h."""
        return self.scratch_base + self._under(ow) * self.scratch_per_column


def needs_patch(shape: ConvShape, channels_contiguous: bool, narrow: bool) -> bool:
    """Whether input passes through scratch: other layouts, narrow types and few channels."""
    return not channels_contiguous or narrow or shape.ic < _PATCH_CHANNELS


def _by_rows(shape: ConvShape, ow: int, accumulator_bytes: int) -> bool:
    """Whether rows of a patch are worth copying channels that could be read where they are.

    They have no pointers, and strips that are as high as registers allow (conv_rows.h).
    """
    taps = prod(shape.kernel)
    near = shape.ic * taps * PANEL * accumulator_bytes <= _NEAR_PANEL
    return taps > 1 and near and ow >= _ROW_COLUMNS


def _piece(shape: ConvShape, ow: int, accumulator_bytes: int, *, endless: bool) -> int:
    """Output columns of a piece of a row, whose patch stays in the second level of cache.

    0: blocks have whole rows, as where these share rows of input, or are no longer, which those of
    `endless` ones may be at any time.
    """
    kd, kh, _ = shape.kernel
    column = shape.ic * shape.stride[2] * accumulator_bytes
    most = min(max(_PIECE_BYTES // column // _TURN * _TURN, _TURN), PATCH_PIXELS)
    return most if kd == kh == 1 and (ow > most or endless) else 0


def _depth_block(shape: ConvShape, base: MatmulBlocking, accumulator_bytes: int) -> int:
    """Of the sums of a pixel, how many are added at once: all, or all of a tap, where they fit."""
    if base.narrow_b:
        return base.kb
    k, column = shape.ic * prod(shape.kernel), base.nc * accumulator_bytes
    if k <= _WHOLE_K and k * column <= _WHOLE_WEIGHT:
        return max(k, base.kb)
    return max(shape.ic, base.kb) if shape.ic * column <= _NEAR_TAP else base.kb


def conv_blocking(
    shape: ConvShape,
    pixels: int,
    ow: int,
    *,
    channels_contiguous: bool = True,
    accumulator_bytes: int = 4,
    a_bytes: int | None = None,
    b_bytes: int | None = None,
    pairs: bool = False,
    turned: bool = False,
    spread: int = 1,
    floats: bool = False,
    plane: int = 0,
    even: bool = False,
    varies: bool = False,
) -> ConvBlocking:
    """Chooses the blocking of a convolution.

    `pixels` (output pixels of all images) and `ow` (output width) are the sizes, or typical ones.
    `channels_contiguous` is true when the input's channels have stride 1; sizes of stored elements
    are as in `matmul_blocking`; `pairs`: both operands are bfloat16;
    `turned`: the output's pixels are contiguous, and its channels are not; `spread`: phases of a
    pixel that are neighbours in turned tiles; `floats`: both operands are float32, which tiles of
    bfloat16 may multiply; `plane`: output pixels of a plane; `varies`: a row's length, in a run;
    `even`: the input has its pixels, which are `pixels` always, one after the other, of the type
    that is computed in, and a kernel has one position.
    """
    narrow_a = a_bytes is not None and a_bytes < accumulator_bytes
    k = shape.ic * prod(shape.kernel)
    patch = needs_patch(shape, channels_contiguous, narrow_a)
    base = matmul_blocking(
        pixels, shape.oc, k, accumulator_bytes=accumulator_bytes, b_bytes=b_bytes
    )
    pieced = floats and not turned
    if not (patch or base.narrow_b or varies) and _by_rows(shape, ow, accumulator_bytes):
        patch = not pieced or pieces_blocking(pixels, shape.oc, k // shape.ic, shape.ic) is None
    rows, columns, mb, mc, grain = 1, 0, base.mb, base.mb, base.grain
    if patch:
        columns = _piece(shape, ow, accumulator_bytes, endless=varies and plane == ow)
        rows, mb, mc, grain = _patched(columns, ow, min(base.nb, shape.oc) * k)
    elif not base.narrow_b and _ordered(shape, ow):
        mc = max(mc, min(pixels, _ordered_block(shape, base.nc, accumulator_bytes)))
    pieced = pieced and (patch or not _mostly_outside(shape, ow))
    joined = patch and shape.dilation[2] == 1
    run = shape.ic * (shape.kernel[2] if joined else 1)
    return ConvBlocking(
        shape=shape,
        mb=mb,
        nb=base.nb,
        mc=mc,
        nc=base.nc,
        kb=_depth_block(shape, base, accumulator_bytes),
        rows=rows,
        patch=patch,
        grain=grain,
        accumulator_bytes=accumulator_bytes,
        narrow_b=base.narrow_b,
        pairs=pairs,
        turned=turned,
        spread=spread,
        pieces=pieces_blocking(pixels, shape.oc, k // run, run) if pieced else None,
        gathered=pairs and channels_contiguous and _gathers(shape, ow, plane),
        even=even and not (patch or turned) and pixels >= _EVEN_PIXELS,
        columns=columns,
    )


def _patched(columns: int, ow: int, pixel_macs: int) -> tuple[int, int, int, int]:
    """Rows of output over a patch, pixels of a unit and of a block, and units that are joined.

    `columns`: of a piece of a row, 0 where a patch is under whole ones; `pixel_macs`: products of a
    pixel. A worker's units are joined to the rows of a patch again, so that one of few is enough.
    """
    rows = 1 if columns else max(1, PATCH_PIXELS // max(ow, 1))
    row = columns or max(ow, 1)
    mb = min(rows, -(-UNIT_MACS // (row * pixel_macs))) * row
    return rows, mb, min(rows * row, PATCH_PIXELS), max(1, UNIT_MACS // (mb * pixel_macs))


def _missed(shape: ConvShape, ow: int, dimension: int) -> float:
    """The part of a row's taps that are outside the data, were it along this dimension."""
    kernel, stride, step, padding = (
        each[dimension] for each in (shape.kernel, shape.stride, shape.dilation, shape.padding)
    )
    width = (ow - 1) * stride + (kernel - 1) * step + 1 - 2 * padding  # at least
    missed = ow * kernel
    for first in range(-padding, kernel * step - padding, step):
        begin, end = (min(max(-(-(edge - first) // stride), 0), ow) for edge in (0, width))
        missed -= max(end - begin, 0)
    return missed / max(ow * kernel, 1)


def _ordered(shape: ConvShape, ow: int) -> bool:
    """Whether pixels are put in the order of the taps that they miss, as `PixelOrder` does it."""
    k = shape.ic * prod(shape.kernel)
    return k >= _ORDERED_K and ow <= _ORDERED_ROW and _missed(shape, ow, 2) * k > _LEAST_SAVED


def _ordered_block(shape: ConvShape, columns: int, accumulator_bytes: int) -> int:
    """Pixels of a block by so many columns in such an order.

    Among more pixels there are more that miss the same taps: whole strips of them.
    """
    row = (columns + PANEL) * accumulator_bytes + prod(shape.kernel) * _POINTER_BYTES
    if shape.oc <= PANEL:
        row += shape.ic * accumulator_bytes  # which each tap reads again, for few products
    return _ORDERED_BYTES // row


def _mostly_outside(shape: ConvShape, ow: int) -> bool:
    """Whether most taps of a pixel are outside, if all its dimensions are about as long as a row.

    Tiles multiply them all; vectors, which leave them out, are then the faster ones.
    """
    return _ordered(shape, ow) and prod(1 - _missed(shape, ow, d) for d in range(3)) < _MOSTLY


def _gathers(shape: ConvShape, ow: int, plane: int) -> bool:
    """Whether tiles of gathered pixels take less than those of a row's, planes one by one.

    Or than dot products of pairs, which is how runs are multiplied that are too short for tiles.
    """
    if plane == 0 or prod(shape.kernel) == 1:
        return False
    pairs = -(-shape.oc // (2 * PANEL))
    run = even(shape.ic) * (shape.kernel[2] if shape.dilation[2] == 1 else 1)
    if run < _LEAST_RUN:
        k = even(shape.ic) * prod(shape.kernel)
        dots = k / 2 * -(-shape.oc // PANEL) * _DOT
        tiles = -(-k // _STEP_K) * pairs * _TILED + k // run * _GATHERED_RUN
        return tiles <= _WORTH * dots
    full = ow / (-(-ow // _TILE_ROW) * _TILE_ROW)
    block = min(plane, max(PATCH_PIXELS // ow, 1) * ow)
    lying = pairs * (_TILED / full + 2 * PANEL * _WEIGHT_LINE / block)
    return pairs * _TILED + _GATHER <= _WORTH * lying


@dataclass(frozen=True)
class PlanesBlocking:
    """Template arguments of `aot::tmpl::planes` and what the plan needs to launch it.

    `rows`, `columns`: the most output rows and columns of a block; `narrow`: elements are stored
    narrower than the type that is computed in, which has `accumulator_bytes`; `grain` as in
    `ConvBlocking`. `last`: channels of input and output are contiguous; then a block has `bundle`
    groups. `inputs`: input channels of a group that lines are copied of at a time.
    """

    shape: ConvShape
    rows: int
    columns: int
    accumulator_bytes: int
    narrow: bool
    grain: int
    last: bool = False
    bundle: int = 1
    inputs: int = -1

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch: the twin of `planes_scratch` in aot/tmpl/planes.h."""
        shape = self.shape
        taps = shape.ic * prod(shape.kernel)
        channels = PANEL if self.last else min(shape.oc, PANEL)
        elements = channels * (_panels(self.rows * self.columns) + PANEL)
        lines = shape
        if 0 < self.inputs < shape.ic:  # sums of two chunks
            elements, lines = 2 * elements, replace(shape, ic=self.inputs)
        elements += self.bundle * _plane_elements(lines, self.rows, self.columns)
        if self.narrow:
            elements += _panels(self.bundle * taps * shape.oc)
        if self.last:
            elements += _TURN * PANEL
        return elements * self.accumulator_bytes


def by_planes(shape: ConvShape, ow: int, *, dots: bool) -> bool:
    """Whether vectors should run along pixels, of rows that are typically `ow` outputs long.

    Pixels are contiguous. Where the machine has `dots`, as in `turned_planes`, panels that are half
    empty are as fast and take their products in fewer loads.
    """
    k = shape.ic * prod(shape.kernel)
    few = _waste(shape) >= _WASTE_OF_PAIRS if dots else shape.oc <= _FEW_OUTPUTS
    lone = shape.ic == shape.oc == 1
    pairs = _WASTE_OF_LONG_PAIRS if shape.groups > 1 else _WASTE_OF_LONG_TILES
    least = pairs if dots else _WASTE_OF_LONG
    long = k > _LONG_K and _waste(shape) < least
    return ow >= PLANE_COLUMNS and (lone or ((few or k <= _SHORT_K) and not long))


def _waste(shape: ConvShape) -> float:
    """What panels of pairs multiply beside what there is."""
    return _panels(shape.oc) / shape.oc * even(shape.ic) / shape.ic


def turned_planes(shape: ConvShape, oh: int, ow: int, *, dots: bool) -> bool:
    """Whether vectors should run along pixels although channels are contiguous.

    That is worth turning them where panels would multiply by zeros for the most part; less so
    where the machine has `dots`, instructions for the products of pairs. Rows that several blocks
    read are turned by each.
    """
    if ow < PLANE_COLUMNS:
        return False
    if dots:
        run = even(shape.ic) * (shape.kernel[2] if shape.dilation[2] == 1 else 1)
        return _waste(shape) >= (_WASTE_OF_TILES if run >= _LEAST_RUN else _WASTE_OF_PAIRS)
    taps, rows = prod(shape.kernel), planes_blocking(shape, oh, ow, last=True).rows
    turned = shape.kernel[0] * shape.stride[2] * _used_rows(shape, rows) / rows
    took = _PLANE_PRODUCT * shape.oc * taps + _TURNED_ELEMENT * turned
    return took <= _WORTH * _panels(shape.oc) * taps


def planes_blocking(
    shape: ConvShape,
    oh: int,
    ow: int,
    *,
    accumulator_bytes: int = 4,
    narrow: bool = False,
    last: bool = False,
) -> PlanesBlocking:
    """Chooses the blocking for planes of `oh` rows of `ow` outputs, or typical ones."""
    bundle = 1
    if last:
        bundle = min(max(1, PANEL // shape.oc), max(1, _BUNDLE // shape.ic), shape.groups)
    columns = min(max(ow, 1), _PLANE_PIXELS)
    if ow > _PLANE_PIXELS and shape.kernel[1] > shape.stride[1]:
        columns = _WIDE_COLUMNS
    rows = max(1, min(max(oh, 1), _PLANE_PIXELS // columns))
    inputs = shape.ic
    if not last and shape.ic * prod(shape.kernel) > _LONG_K and shape.oc <= PANEL:
        inputs = _chunk(shape, rows, columns)
    lines = replace(shape, ic=inputs)
    while rows > 1 and not _may_have(shape, rows, bundle * _plane_elements(lines, rows, columns)):
        rows -= 1
    rows = -(-max(oh, 1) // -(-max(oh, 1) // rows))  # of blocks alike
    macs = bundle * rows * columns * shape.oc * shape.ic * prod(shape.kernel)
    grain = max(1, _PLANE_MACS // macs)
    return PlanesBlocking(
        shape, rows, columns, accumulator_bytes, narrow, grain, last, bundle, inputs
    )


def varying_planes(
    shape: ConvShape,
    oh: int,
    ow: int,
    *,
    accumulator_bytes: int = 4,
    narrow: bool = False,
    last: bool = False,
) -> PlanesBlocking:
    """The same of rows that are typically `ow` outputs long and may be longer, and pieces then.

    Of pieces of several lengths, that of which the fewest elements are copied for an output.
    """

    def of(columns: int) -> PlanesBlocking:
        return planes_blocking(
            shape, oh, columns, accumulator_bytes=accumulator_bytes, narrow=narrow, last=last
        )

    def copied(blocking: PlanesBlocking) -> float:
        elements = _plane_elements(replace(shape, ic=1), blocking.rows, blocking.columns)
        return elements / (blocking.rows * blocking.columns)

    return min((of(max(ow, columns)) for columns in _VARYING_COLUMNS), key=copied)


def _chunk(shape: ConvShape, rows: int, columns: int) -> int:
    """Input channels at a time, near which lines of a block stay."""
    least = -(-_CHUNK_K // prod(shape.kernel))
    most = max(least, _CHUNK_ELEMENTS // _plane_elements(replace(shape, ic=1), rows, columns))
    return -(-shape.ic // -(-shape.ic // min(most, shape.ic)))


def _may_have(shape: ConvShape, rows: int, elements: int) -> bool:
    """Whether a block of planes may have so many rows, which read so many elements."""
    if elements <= _PLANE_ELEMENTS or elements > _MOST_PLANE_ELEMENTS:
        return elements <= _PLANE_ELEMENTS
    fewer = rows - 1
    copies = ((fewer - 1) * shape.stride[1] + (shape.kernel[1] - 1) * shape.dilation[1] + 1) / (
        fewer * shape.stride[1]
    )
    return copies > _PLANE_COPIES


def _plane_elements(shape: ConvShape, rows: int, columns: int) -> int:
    """Elements of the input that a block reads, as they lie in scratch."""
    kd, _, kw = shape.kernel
    used = _used_rows(shape, rows)
    reach = (kw - 1) * shape.dilation[2] // shape.stride[2] + 1
    line = shape.stride[2] * (_panels(columns) + _panels(reach))
    return shape.ic * kd * used * line


def _used_rows(shape: ConvShape, rows: int) -> int:
    """Rows of input under so many of output."""
    return (rows - 1) * shape.stride[1] + (shape.kernel[1] - 1) * shape.dilation[1] + 1


def _panels(elements: int) -> int:
    return -(-elements // PANEL) * PANEL
