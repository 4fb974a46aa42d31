"""Convolutions: a call of a template with a fused epilogue.

The templates are aot/tmpl/conv.h, depthwise.h, planes.h and winograd.h.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd, prod

from aot.backends.cpp.context import KernelContext
from aot.backends.cpp.conv_ends import ends
from aot.backends.cpp.conv_heuristic import (
    PATCH_PIXELS,
    ConvBlocking,
    ConvShape,
    by_planes,
    conv_blocking,
    needs_patch,
    planes_blocking,
    turned_planes,
    varying_planes,
)
from aot.backends.cpp.conv_lines import is_line_product, line_product
from aot.backends.cpp.conv_parts import (
    IMAGE,
    Convolution,
    Made,
    image_lines,
    is_even,
    scratch_check,
    triple,
)
from aot.backends.cpp.conv_product import image_product, is_image_product
from aot.backends.cpp.gemm_heuristic import PANEL
from aot.backends.cpp.kernel import (
    NAME,
    EmittedKernel,
    kernel_ranges,
    make_context,
    open_template,
)
from aot.backends.cpp.operands import (
    SHARED_TABLES,
    Strided,
    fixed,
    pack_weight,
    shared_tables,
    strided,
    template_type,
)
from aot.backends.cpp.packing import packed_channels, packed_matmul_shape, row_elements
from aot.backends.cpp.text import Writer
from aot.backends.cpp.tile import (
    COLUMN,
    ROW,
    TileSpace,
    along_rows,
    cut_at,
    cut_of,
    emit_epilogue,
    epilogue_nests,
    tile_context,
    tile_space,
)
from aot.backends.cpp.values import Body
from aot.backends.cpp.winograd_heuristic import weights, winograd_blocking, winograd_tile
from aot.errors import InternalError
from aot.ir.dtypes import BFLOAT16, FLOAT32, DType
from aot.ir.hints import hints_of
from aot.ir.kernel_facts import argument_buffers, template_call
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.ir.nests import Buffer, DerivedWeight, View
from aot.ir.templates.conv import Conv
from aot.symbolic import (
    Expr,
    FloorDiv,
    Modulo,
    ceil_div,
    integer,
    is_int,
    product,
    substitute,
    unravel,
)

_DEPTHWISE_COLUMNS = 16
_DEPTHWISE_TURN = 64
_DEPTHWISE_CHANNELS = 512
_UNIT_MACS = 600_000
# Phases that turned tiles may have side by side: those that divide every vector.
_SPREADS = (2, 4)
# Dimensions of an image.
_FLAT = 2


def emit_conv(kernel: TemplateKernel, graph: KernelGraph) -> EmittedKernel:
    """The function of a kernel whose template is a convolution."""
    c = _take_apart(kernel, graph, packed=kernel.packed is not None)
    body, sizes = open_template(kernel, graph, c.context)
    writer = body.writer
    nests = epilogue_nests(kernel, c.space, c.context)
    emit_epilogue(body, nests, c.space, c.dtype.compute, lines=image_lines(c))
    if is_image_product(c):
        made = image_product(body, c, graph)
    elif is_line_product(c, graph):
        made = line_product(body, c)
    elif c.planes and c.packed:
        made = _planes(body, c, graph)
    elif c.tile is not None and c.packed:
        made = _winograd(body, c, c.tile, graph)
    else:
        made = _depthwise(body, c) if c.depthwise else _general(body, c, graph)
    return EmittedKernel(
        writer.text(),
        argument_buffers(kernel),
        sizes,
        made.work,
        made.scratch,
        head=made.config,
        headers=(made.header,),
        grain=made.grain,
        tables=made.tables,
    )


def _ints(values: Sequence[int], missing: int) -> tuple[int, int, int]:
    filled = (*[missing] * (3 - len(values)), *[int(v) for v in values])
    return filled[0], filled[1], filled[2]


def _take_apart(kernel: TemplateKernel, graph: KernelGraph, *, packed: bool) -> Convolution:
    call, buffers = template_call(kernel, Conv), graph.buffers
    x_view, w_view = call.x, call.w
    shape = _shape(call, w_view)
    batch, _, *spatial = call.output.axes
    out = [a.extent for a in spatial]
    dtype = buffers[x_view.buffer].dtype
    made = make_context(kernel, graph)
    x = strided(call, x_view, buffers, made.ranges)
    w_dtype = buffers[w_view.buffer].dtype
    last = x.strides[1] == 1
    lone = shape.groups > 1 and shape.ic == shape.oc == 1 and not last
    shape, x, inputs = _without_gaps(shape, x, [a.extent for a in x_view.axes[2:]])
    shape, x, inputs, out = _joined(shape, x, inputs, out)
    hints = hints_of(graph.dims)
    sizes = [hints.value(e) for e in (batch.extent, *out)]
    high, long = sizes[-2] if len(out) > 1 else 1, sizes[-1]
    depthwise = _is_depthwise(shape, x)
    # Few channels beside each other are turned before, tiles of Winograd's are stored as they are.
    planes = last and not depthwise and turned_planes(shape, high, long, dots=dtype == BFLOAT16)
    plain = last and not planes and dtype == w_dtype == FLOAT32 and len(out) == _FLAT
    tile = winograd_tile(shape, *sizes) if plain else None
    patch = needs_patch(shape, last, dtype != dtype.compute)
    turned = patch or not (planes or tile)
    space, context = _space(kernel, made, shape, dtype.compute, turned=turned)
    if space.turned:
        # Planes read channels that are contiguous element by element, pairs go as tiles.
        planes, tile = planes and dtype != BFLOAT16, None
    if not last:
        planes = x.strides[-1] == 1 and (space.turned or lone)
        planes = planes and by_planes(shape, long, dots=dtype == BFLOAT16)
    spread = 1
    if packed and space.turned and not planes and (call.phases or 1) > 1 and shape.groups == 1:
        spread, space, context = _spread(kernel, made, shape, dtype.compute, space, context)
    return Convolution(
        kernel,
        context,
        space,
        spread,
        shape,
        batch.extent,
        product((batch.extent, *out)),
        triple(inputs, integer(1)),
        triple(out, integer(1)),
        x,
        strided(call, w_view, buffers, context.ranges),
        x_view,
        w_view,
        dtype,
        w_dtype,
        packed,
        packed and w_dtype == dtype and depthwise,
        planes and w_dtype == dtype,
        tile,
    )


def _without_gaps(
    shape: ConvShape, x: Strided, inputs: Sequence[Expr]
) -> tuple[ConvShape, Strided, list[Expr]]:
    """A convolution over each dimension's elements that some tap reads, where they lie evenly.

    `inputs` are the input's spatial extents. A stride of 2 with one tap reads every second row:
    that is a stride of 1 over rows twice as far apart, of which no others are copied. Columns
    that are neighbours in memory stay so.
    """
    strides, extents = list(x.strides), list(inputs)
    stride, dilation, padding = list(shape.stride), list(shape.dilation), list(shape.padding)
    for axis in range(3 - len(extents), 3):
        at = axis - 3
        one = shape.kernel[axis] == 1
        step = stride[axis] if one else gcd(stride[axis], dilation[axis])
        if step == 1 or padding[axis] % step or strides[at] == 1:
            continue
        extents[at] = ceil_div(extents[at], step)
        strides[at] = (strides[at] * step).expand()
        stride[axis] //= step
        dilation[axis] = 1 if one else dilation[axis] // step
        padding[axis] //= step
    found = replace(
        shape,
        stride=_ints(stride, 1),
        dilation=_ints(dilation, 1),
        padding=_ints(padding, 0),
    )
    return found, replace(x, strides=tuple(strides)), extents


def _joined(
    shape: ConvShape, x: Strided, inputs: list[Expr], out: list[Expr]
) -> tuple[ConvShape, Strided, list[Expr], list[Expr]]:
    """Short rows that follow each other evenly, with one tap, as one: blocks hold more pixels."""
    while len(out) > 1:
        taps = (shape.kernel[1:], shape.stride[1:], shape.padding[1:])
        sizes = (*inputs[-2:], *out[-2:])
        step, inner = x.strides[-2:]
        if taps != ((1, 1), (1, 1), (0, 0)) or not all(is_int(e) for e in sizes):
            break
        long = int(out[-2]) * int(out[-1])
        if inputs[-2:] != out[-2:] or step != inner * inputs[-1] or long > PATCH_PIXELS:
            break
        inputs, out = [*inputs[:-2], integer(long)], [*out[:-2], integer(long)]
        x = replace(x, strides=(*x.strides[:-2], inner))
        shape = replace(
            shape,
            kernel=_ints(shape.kernel[:2], 1),
            stride=_ints(shape.stride[:2], 1),
            dilation=_ints(shape.dilation[:2], 1),
            padding=_ints(shape.padding[:2], 0),
        )
    return shape, x, inputs, out


def _space(
    kernel: TemplateKernel,
    made: KernelContext,
    shape: ConvShape,
    compute: DType,
    *,
    turned: bool,
    spread: int = 1,
) -> tuple[TileSpace, KernelContext]:
    """How tiles lie in the output: turned, if that is asked for and all stores run along pixels.

    `spread`: so many phases of each pixel are neighbours in a turned tile, as `_phase_last` has
    them among the columns.
    """
    call = template_call(kernel, Conv)
    batch, channel, *spatial = call.output.axes
    out = [a.extent for a in spatial]
    out[-1] = (out[-1] * spread).expand()
    if turned:  # rows are the pixels of one image
        image = integer(0) if is_int(batch.extent, 1) else IMAGE
        rows, places = product(out), (image, *unravel(ROW, out))
        made = replace(
            made,
            names={**made.names, IMAGE: "image"},
            ranges=made.ranges.with_extents({**made.ranges.extents, IMAGE: batch.extent}),
        )
    else:
        rows, places = product((batch.extent, *out)), unravel(ROW, (batch.extent, *out))
    column, columns = COLUMN, channel.extent
    if spread > 1:
        per, phase = _channels_of(call), Modulo(places[-1], integer(spread))
        column, columns = _phase_last(COLUMN, phase, per, spread), integer(int(columns) // spread)
        places = (*places[:-1], FloorDiv(places[-1], integer(spread)))
    axes = {batch.symbol: places[0], channel.symbol: column}
    axes.update({a.symbol: place for a, place in zip(spatial, places[1:], strict=True)})
    aligned = shape.groups == 1 or shape.oc % PANEL == 0
    space = replace(tile_space(rows, columns, axes, aligned=aligned), turned=turned)
    context = tile_context(made, space, compute)
    nests = epilogue_nests(kernel, space, context)
    if turned and spread == 1 and along_rows(nests, context):
        return space, context
    cut = cut_at(space, int(out[-1])) if spread > 1 else cut_of(nests, space)
    if cut is not None:
        space = replace(space, cut=cut)
        context = tile_context(made, space, compute)
    if spread > 1:
        return space, context
    if turned and not along_rows(epilogue_nests(kernel, space, context), context, cut):
        return _space(kernel, made, shape, compute, turned=False)
    return space, context


def _channels_of(call: Conv) -> int:
    """Output channels of a transposed convolution, whose phases `call` computes."""
    return int(call.w.axes[0].extent) // (call.phases or 1)


def _phase_last(column: Expr, phase: Expr, per: int, spread: int) -> Expr:
    """The output (…, phase, channel of `per`) that is at column (…, channel), phase `phase`."""
    outer = FloorDiv(column, integer(per)) * spread + phase
    return outer * per + Modulo(column, integer(per))


def _spread(
    kernel: TemplateKernel,
    made: KernelContext,
    shape: ConvShape,
    compute: DType,
    space: TileSpace,
    context: KernelContext,
) -> tuple[int, TileSpace, KernelContext]:
    """Turned tiles whose rows have the phases of a pixel side by side, where stores run so.

    They are those along the last dimension: outputs (phase, channel) of a transposed convolution.
    """
    call = template_call(kernel, Conv)
    for spread in _SPREADS:
        if (call.phases or 1) % spread or not is_int(call.output.axes[-1].extent):
            continue
        found, inside = _space(kernel, made, shape, compute, turned=True, spread=spread)
        nests = epilogue_nests(kernel, found, inside)
        if found.turned and along_rows(nests, inside, found.cut, most=1):
            return spread, found, inside
    return 1, space, context


def _shape(call: Conv, w_view: View) -> ConvShape:
    outputs, inputs, *kernel = [a.extent for a in w_view.axes]
    if not all(is_int(e) for e in (outputs, inputs, *kernel)):
        raise InternalError(f"{call.name}: a convolution's weight has a dynamic size")
    groups = int(call.groups)
    return ConvShape(
        groups,
        int(inputs),
        int(outputs) // groups,
        _ints([int(k) for k in kernel], 1),
        _ints(call.stride, 1),
        _ints(call.dilation, 1),
        _ints(call.padding, 0),
    )


def _is_depthwise(shape: ConvShape, x: Strided) -> bool:
    """True where each channel, of contiguous ones, is a group of its own."""
    return shape.ic == 1 and shape.oc == 1 and shape.groups > 1 and x.strides[1] == 1


def pack_conv(kernel: TemplateKernel, graph: KernelGraph) -> tuple[Buffer, DerivedWeight]:
    """The buffer for the packed form of a weight, and how it is computed."""
    call, buffers = template_call(kernel, Conv), graph.buffers
    view, buffer, shape = call.w, buffers[call.w.buffer], _shape(call, call.w)
    taps = prod(shape.kernel)
    parts = _take_apart(kernel, graph, packed=True)
    if parts.tile is not None:
        down, across = parts.tile
        strides = parts.shape.stride[1:]
        made = (weights(parts.shape, parts.tile), -(-shape.oc // PANEL), shape.ic, PANEL)
        lines = {"down": down, "across": across}
        lines |= {"stride_down": strides[0], "stride_across": strides[1]}
        return pack_weight(buffer, view, "pack_winograd", made, tuple(lines.items()))
    if is_image_product(parts):
        return pack_weight(
            buffer, view, "pack_rows", (shape.oc, row_elements(shape.ic, buffer.dtype.numpy))
        )
    if parts.planes:
        groups = (("groups", shape.groups),)
        depth = taps * shape.ic
        return pack_weight(buffer, view, "pack_planes", (shape.groups, depth, shape.oc), groups)
    x = strided(call, call.x, buffers, kernel_ranges(kernel, graph))
    if buffer.dtype == buffers[call.x.buffer].dtype and _is_depthwise(shape, x):
        return pack_weight(buffer, view, "pack_depthwise", (taps, shape.groups))
    if parts.spread > 1:
        outputs, spread = view.axes[0].symbol, integer(parts.spread)
        column, phase = FloorDiv(outputs, spread), Modulo(outputs, spread)
        place = _phase_last(column, phase, _channels_of(call), parts.spread)
        view = replace(view, index=tuple(substitute(e, {outputs: place}) for e in view.index))
    channels = packed_channels(shape.ic, buffer.dtype.numpy)
    matrix = packed_matmul_shape(taps * channels, shape.oc, buffer.dtype.numpy)
    sizes = (shape.groups, *matrix)
    return pack_weight(buffer, view, "pack_conv", sizes, (("groups", shape.groups),))


def _config(base: str, c: Convolution, types: Sequence[str], values: dict[str, int]) -> str:
    q = c.shape
    for letter, numbers in (
        ("K", q.kernel),
        ("S", q.stride),
        ("D", q.dilation),
        ("P", q.padding),
    ):
        values.update({letter + axis: n for axis, n in zip("DHW", numbers, strict=True)})
    lines = [f"struct {NAME}_config : aot::tmpl::{base} {{", *types]
    lines += [f"  static constexpr int64_t {name} = {value};" for name, value in values.items()]
    return "\n".join(["namespace {", *lines, "};", "}", ""])


def _assign(writer: Writer, fields: dict[str, str]) -> None:
    for name, value in fields.items():
        writer.line(f"call.{name} = {value};")


def _fields(c: Convolution) -> dict[str, str]:
    """Fields that both templates' arguments have."""
    kind = template_type(c.dtype)
    pointer = c.context.pointers[c.x_view.buffer]
    sd, sh, sw = (c.text(e) for e in c.x_steps)
    d, h, w = (c.text(e) for e in c.sizes)
    od, oh, ow = (c.text(e) for e in c.out)
    place = f"{pointer} + ({c.text(c.x.offset)})"
    return {
        "x": f"reinterpret_cast<const {kind}*>({place})",
        "sn": c.text(c.x.strides[0]),
        "sd": sd,
        "sh": sh,
        "sw": sw,
        "n": c.text(c.images),
        "d": d,
        "h": h,
        "wd": w,
        "od": od,
        "oh": oh,
        "ow": ow,
    }


def _depthwise(body: Body, c: Convolution) -> Made:
    writer = body.writer
    kind = template_type(c.dtype)
    types = [f"  using A = {kind};"]
    if c.space.turned:
        types.append("  static constexpr bool TURNED = true;")
    config = _config("DepthwiseConfig", c, types, {"C": c.shape.groups})
    writer.line(f"aot::tmpl::DepthwiseArgs<{NAME}_config> call;")
    weight = c.weight(c.dtype)
    _assign(writer, {**_fields(c), "w": weight})
    writer.line("aot::tmpl::depthwise(call, begin, end, args->scratch, epilogue);")
    channels = -(-c.shape.groups // PANEL) * PANEL
    width = min(channels, _DEPTHWISE_CHANNELS) + PANEL
    pixels = _DEPTHWISE_TURN if c.space.turned else _DEPTHWISE_COLUMNS
    elements = width * pixels
    if c.space.turned:
        elements += width * (pixels + PANEL)
    work = product((c.images, c.out[0], c.out[1]))
    row = c.shape.groups * prod(c.shape.kernel)
    macs = row * (int(c.out[2]) if is_int(c.out[2]) else 64)
    return Made(
        config,
        "aot/tmpl/depthwise.h",
        work,
        integer(elements * c.dtype.compute.itemsize),
        max(1, _UNIT_MACS // 4 // macs),
    )


def _planes(body: Body, c: Convolution, graph: KernelGraph) -> Made:
    writer, hints = body.writer, hints_of(graph.dims)
    kind, compute = template_type(c.dtype), c.dtype.compute
    choose = planes_blocking if is_int(c.out[2]) else varying_planes
    blocking = choose(
        c.shape,
        hints.value(c.out[1]),
        hints.value(c.out[2]),
        accumulator_bytes=compute.itemsize,
        narrow=c.dtype != compute,
        last=c.x.strides[1] == 1 and not c.space.turned,
    )
    values = {"G": c.shape.groups, "IC": c.shape.ic, "OC": c.shape.oc}
    values.update({"ROWS": blocking.rows, "COLS": blocking.columns})
    values |= {"BUNDLE": blocking.bundle} if blocking.last else {"IB": blocking.inputs}
    tile = "LAST" if blocking.last else "LONE"
    flags = [] if c.space.turned else [f"  static constexpr bool {tile} = true;"]
    config = _config("PlanesConfig", c, [f"  using A = {kind};", *flags], values)
    writer.line(f"aot::tmpl::PlanesArgs<{NAME}_config> call;")
    weight = c.weight(c.dtype)
    _assign(writer, {**_fields(c), "sc": c.text(c.x.strides[1]), "w": weight})
    writer.line("aot::tmpl::planes(call, begin, end, args->scratch, epilogue);")
    steps = ceil_div(c.out[1], blocking.rows)
    bundles = -(-c.shape.groups // blocking.bundle)
    work = product((c.images, integer(bundles), c.out[0], steps))
    scratch = integer(blocking.scratch_bytes)
    return Made(config, "aot/tmpl/planes.h", work, scratch, blocking.grain)


def _winograd(body: Body, c: Convolution, tile: tuple[int, int], graph: KernelGraph) -> Made:
    writer, hints = body.writer, hints_of(graph.dims)
    blocking = winograd_blocking(c.shape, tile, *(hints.value(e) for e in (c.images, *c.out[1:])))
    kind, padding = template_type(c.dtype), c.shape.padding
    values = {"IC": c.shape.ic, "OC": c.shape.oc, "PH": padding[1], "PW": padding[2]}
    values |= {"ROWS": blocking.rows, "COLS": blocking.columns, "NB": blocking.nb}
    down = c.images * ceil_div(c.out[1], tile[0])
    across = ceil_div(c.out[2], tile[1])
    values |= {"DOWN": fixed(down), "ACROSS": fixed(across)}
    lines = [f"struct {NAME}_config : aot::tmpl::WinogradConfig {{", f"  using A = {kind};"]
    lines += [f"  static constexpr int TH = {tile[0]}, TW = {tile[1]};"]
    if c.shape.stride[1:] != (1, 1):
        lines += ["  static constexpr int SH = {}, SW = {};".format(*c.shape.stride[1:])]
    lines += [f"  static constexpr int64_t {name} = {value};" for name, value in values.items()]
    config = "\n".join(["namespace {", *lines, "};", "}", ""])
    writer.line(f"aot::tmpl::WinogradArgs<{NAME}_config> call;")
    weight = c.weight(c.dtype)
    fields = {n: v for n, v in _fields(c).items() if n not in {"sd", "d", "od"}}
    _assign(writer, {**fields, "w": weight})
    writer.line("aot::tmpl::winograd(call, begin, end, args->scratch, epilogue);")
    rows, columns = ceil_div(down, blocking.rows), ceil_div(across, blocking.columns)
    work = product((rows, columns, integer(-(-c.shape.oc // blocking.nb))))
    scratch = integer(-(-blocking.scratch_bytes // 64) * 64)
    return Made(config, "aot/tmpl/winograd.h", work, scratch, blocking.grain)


def _general(body: Body, c: Convolution, graph: KernelGraph) -> Made:
    hints = hints_of(graph.dims)
    stored = c.w_dtype if c.packed else c.dtype.compute
    blocking = conv_blocking(
        c.shape,
        hints.value(c.pixels),
        hints.value(c.out[2]),
        channels_contiguous=c.x.strides[1] == 1,
        accumulator_bytes=c.dtype.compute.itemsize,
        a_bytes=c.dtype.itemsize,
        b_bytes=stored.itemsize,
        pairs=c.dtype == stored == BFLOAT16,
        turned=c.space.turned,
        spread=c.spread,
        floats=c.dtype == stored == FLOAT32,
        plane=hints.value(c.out[1]) * hints.value(c.out[2]),
        even=is_even(c),
        varies=not is_int(c.out[2]),
    )
    writer = body.writer
    values = {"G": c.shape.groups, "IC": c.shape.ic, "OC": c.shape.oc}
    values.update({"MB": blocking.mb, "NB": blocking.nb, "MC": blocking.mc, "NC": blocking.nc})
    values.update({"KB": blocking.kb, "ROWS": blocking.rows, "PIXELS": fixed(c.pixels)})
    values |= {"COLS": blocking.columns} if blocking.columns else {}
    values |= {"COLUMNS": fixed(c.out[2])} if blocking.patch else {}
    pieces = blocking.pieces
    if pieces is not None:
        values.update(pieces.values)
    # Rows of a patch end anywhere, and so do images of turned tiles.
    known = is_int(c.pixels) and not (blocking.patch or blocking.turned)
    tables = shared_tables(c.dtype.compute, heights_known=known)
    flags, fields = ends(c, blocking, graph)
    types = [
        f"  using A = {template_type(c.dtype)};",
        f"  using B = {template_type(stored)};",
        f"  static constexpr bool PATCH = {'true' if blocking.patch else 'false'};",
        *["  static constexpr bool TURNED = true;"] * blocking.turned,
        *["  static constexpr bool EVEN = true;"] * blocking.even,
        *[f"  static constexpr int64_t SPREAD = {c.spread};"] * (c.spread > 1),
        *["  static constexpr bool PIECES = true;"] * (pieces is not None),
        *["  static constexpr bool GATHERED = true;"] * blocking.gathered,
        *flags,
        *[SHARED_TABLES] * len(tables),
    ]
    scratch = _scratch(c, blocking)
    writer.line(f"aot::tmpl::ConvArgs<{NAME}_config> call;")
    writer.line(scratch_check(f"{NAME}_config", blocking))
    weight = c.weight(stored)
    if not c.packed:
        weight = _pack_at_run_time(writer, c, stored, scratch)
        scratch = scratch + _packed_elements(c) * stored.itemsize
    _assign(writer, {**_fields(c), "sc": c.text(c.x.strides[1]), "w": weight})
    _assign(writer, fields)
    writer.line("aot::tmpl::conv(call, begin, end, args->scratch, epilogue);")
    tiles = -(-c.shape.oc // blocking.nb)
    work = product((integer(c.shape.groups * tiles), ceil_div(c.pixels, blocking.mb)))
    config = _config("ConvConfig", c, types, values)
    return Made(config, "aot/tmpl/conv.h", work, scratch, blocking.grain, tables)


def _scratch(c: Convolution, blocking: ConvBlocking) -> Expr:
    columns = (c.out[2] - 1) * c.shape.stride[2] + (c.shape.kernel[2] - 1) * c.shape.dilation[2] + 1
    total = (blocking.scratch_base + columns * blocking.scratch_per_column).expand()
    return (ceil_div(total, 64) * 64).expand()


def _packed_elements(c: Convolution) -> int:
    taps = prod(c.shape.kernel)
    return c.shape.groups * -(-c.shape.oc // PANEL) * PANEL * taps * c.shape.ic


def _pack_at_run_time(writer: Writer, c: Convolution, stored: DType, scratch: Expr) -> str:
    """Packs a weight that is computed by the model into scratch; the pointer's name."""
    kind = template_type(stored)
    place = f"static_cast<char*>(args->scratch) + ({c.text(scratch)})"
    writer.line(f"{kind}* const packed = reinterpret_cast<{kind}*>({place});")
    steps = [c.w.strides[0], c.w.strides[1], *triple(c.w.strides[2:], integer(0))]
    source = f"{c.context.pointers[c.w_argument]} + ({c.text(c.w.offset)})"
    kernel = ", ".join(str(k) for k in c.shape.kernel)
    strides = ", ".join(c.text(s) for s in steps)
    writer.line(
        f"aot::pack_conv({source}, {c.shape.groups}, {c.shape.oc}, {c.shape.ic}, {kernel}, "
        f"{strides}, packed);"
    )
    return "packed"
