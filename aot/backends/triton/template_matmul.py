"""Matrix products on tensor cores, with fused epilogues.

The functions are those of `device/matmul.py`. Where the GPU copies whole blocks by descriptors
(TMA) and there are many blocks, programs stay and take one block after the other; of halves and of
float64 groups of warps do where that is faster (`device/matmul_groups.py`, `matmul_doubles.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from aot.backends.triton.context import KernelContext, TileDim, make_context
from aot.backends.triton.dot import (
    Operand,
    columns_with_room,
    finish_tile,
    open_batch,
    operand,
    precision,
    sums_type,
    with_ranges,
)
from aot.backends.triton.dot_tiling import (
    FEW_ROWS,
    GROUP_DEPTH,
    GROUP_REGISTERS,
    DotTile,
    Size,
    dot_tile,
    exchanged,
    is_exchanged,
    is_few,
    line_step,
)
from aot.backends.triton.dot_times import LINE
from aot.backends.triton.gluon import stores_vectors, takes_epilogue
from aot.backends.triton.gpu import Gpu
from aot.backends.triton.hooks import Hooks, places
from aot.backends.triton.kernel import GLUON, TRITON, EmittedKernel, line_grid, program_id
from aot.backends.triton.template_gemv import emit_gemv, is_vector_product
from aot.backends.triton.text import index_text
from aot.backends.triton.unwanted import write_wanted
from aot.errors import InternalError
from aot.ir.dtypes import FLOAT32, FLOAT64, DType
from aot.ir.hints import Hints, is_dear
from aot.ir.kernel_facts import template_call
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.ir.nests import Axis, Buffer
from aot.ir.templates.matmul import Matmul
from aot.symbolic import (
    Expr,
    Minimum,
    Symbol,
    affine_coefficients,
    ceil_div,
    coefficient_of,
    exact_quotient,
    integer,
    is_int,
    is_multiple,
    product,
    row_major_strides,
    substitute,
)

GROUP = 8
"""Blocks of rows that programs of neighbouring numbers take turns in."""

VECTOR = 8
"""Elements of the widest loads of halves."""

ALIGNED = 16
"""Bytes that a descriptor's strides and start are multiples of."""


LEAST_COPIED = 64
"""Rows of the lowest tile whose blocks descriptors copy."""

_Side = tuple[Operand, Axis]
"""An operand, and the axis of the result that it has."""


@dataclass(frozen=True)
class Copied:
    """An operand as a descriptor sees it: a matrix of `rows` x `columns`, contiguous along these.

    `start`: elements before the first one. `flipped`: the depth is not its contiguous dimension.
    `origin`: the row and the column where one product's matrix begins, over the axes of the batch.
    `planes`: how many matrices, and elements from one to the next: the descriptor has them as a
    dimension of its own, and what lies behind a matrix' last row is nothing.
    """

    buffer: str
    rows: Expr
    columns: Expr
    stride: Expr
    start: Expr
    flipped: bool
    origin: tuple[Expr, Expr]
    planes: tuple[Expr, Expr] | None = None


def emit_matmul(
    kernel: TemplateKernel, graph: KernelGraph, hints: Hints, gpu: Gpu
) -> EmittedKernel:
    """The kernel of a matmul template and its epilogue."""
    call = template_call(kernel, Matmul)
    left, right, context = _operands(kernel, graph, gpu)
    if is_vector_product(call, right, context):
        return emit_gemv(kernel, context, left, right, hints)
    dtype = graph.buffers[left.buffer].dtype
    batch = call.output.axes[:-2]
    sides, tile, stored = _chosen(kernel, call, (left, right), context, hints, gpu)
    (left, row), (right, column) = sides
    rows, columns = _stored(kernel, row, column, tile, context)
    blocks = ceil_div(row.extent, tile.rows), ceil_div(column.extent, tile.columns)
    count = product((*(a.extent for a in batch), *blocks))
    hooks = Hooks(context, GLUON if tile.groups else TRITON)
    _write_finish(hooks, kernel, tuple(batch), (rows, columns))
    down, across, depth = (index_text(e, context.names) for e in (*blocks, left.depth.extent))
    arguments = {
        **{"down": down, "across": across, "depth": depth},
        **{"ROWS": str(tile.rows), "COLUMNS": str(tile.columns), "DEPTH": str(tile.depth)},
        "GROUP": str(GROUP),
    }
    sums = {
        "PRECISION": precision(dtype, split=gpu.splits_floats, rounded=call.precision),
        "SUMS": sums_type(dtype),
        "TRIANGLE": repr(call.triangle),
    }
    options = {"num_warps": tile.warps, "num_stages": tile.stages}
    if tile.groups and dtype == FLOAT64:
        grid = line_grid(Minimum(count, integer(gpu.multiprocessors)))
        arguments |= _by_groups_of_doubles(hooks, tile, sides, tuple(batch), context, gpu)
        arguments |= write_wanted(hooks, kernel)
        return hooks.emit(kernel, "matmul_of_doubles", arguments, grid, options, early=False)
    deep = hints.value(left.depth.extent)
    copied = _copied(sides, batch, context, tile.depth) if _copies(dtype, tile, deep, gpu) else None
    few = is_few(tile, hints.value(count), gpu)
    if copied is not None and (tile.groups or not few or any(_is_cut(m) for m in copied)):
        seats = gpu.multiprocessors * tile.resident
        arguments |= by_copies(context, tile, copied, seats)
        arguments["batches"] = index_text(product([a.extent for a in batch]), context.names)
        if batch and copied[0].planes is None:
            _write_origins(hooks, tuple(batch), copied)
        else:
            arguments["origins"] = "None"
        grid = line_grid(Minimum(count, integer(seats)))
        if tile.groups:
            arguments |= by_groups(context, tile, copied) | {"STORED": stored}
            arguments |= _left_sums(kernel, call, tile, context)
            grid = line_grid(integer(seats)) if tile.shared else grid
            return hooks.emit(kernel, "matmul_by_groups", arguments, grid, options, early=False)
        arguments |= (
            sums | write_wanted(hooks, kernel) | {"PLANES": str(copied[0].planes is not None)}
        )
        return hooks.emit(kernel, "matmul_by_copies", arguments, grid, options, early=False)
    depths = TileDim("k", (left.depth,), tile.depth, 1), TileDim("k", (right.depth,), tile.depth, 0)
    # What may be stored beyond the operands is not in them.
    own = replace(rows, axes=(row,)), replace(columns, axes=(column,))
    _load(hooks, "load_left", left, tuple(batch), (own[0], depths[0]))
    _load(hooks, "load_right", right, tuple(batch), (depths[1], own[1]))
    arguments |= sums | places(context, product(blocks) if batch else None)
    arguments |= write_wanted(hooks, kernel)
    return hooks.emit(kernel, "matmul", arguments, line_grid(count), options, early=False)


def _write_finish(
    hooks: Hooks, kernel: TemplateKernel, batch: tuple[Axis, ...], dims: tuple[TileDim, TileDim]
) -> None:
    """The function that stores what becomes of a tile of results."""
    with hooks.function("finish", "batch", "m", "n", "acc") as body:
        open_batch(body, batch, "batch")
        for dim in dims:
            body.take_dim(dim)
        finish_tile(body, kernel, "acc", frozenset(("m", "n")))


def _stored(
    kernel: TemplateKernel, row: Axis, column: Axis, tile: DotTile, context: KernelContext
) -> tuple[TileDim, TileDim]:
    """Rows and columns of a result's tile; of what lies side by side all that may be stored."""
    widths = ("m.shape[0]", "n.shape[1]") if tile.groups else ("", "")
    down, across = (Axis(a.symbol, columns_with_room(kernel, a, context)) for a in (row, column))
    rows = TileDim("m", (down,), tile.rows, 0, width=widths[0])
    return rows, TileDim("n", (across,), tile.columns, 1, width=widths[1])


def fills_processors(kernel: TemplateKernel, graph: KernelGraph, gpu: Gpu) -> bool:
    """Whether a program takes a processor for itself: not where a vector is multiplied."""
    _, right, context = _operands(kernel, graph, gpu)
    return not is_vector_product(template_call(kernel, Matmul), right, context)


def matmul_workspace(
    kernel: TemplateKernel, graph: KernelGraph, hints: Hints, gpu: Gpu
) -> Buffer | None:
    """Where programs that share blocks leave the sums of their parts; None where none do."""
    call = template_call(kernel, Matmul)
    if call.marks is None:
        return None
    left, right, context = _operands(kernel, graph, gpu)
    if is_vector_product(call, right, context):
        return None
    _, tile, _ = _chosen(kernel, call, (left, right), context, hints, gpu)
    if not tile.shared:
        return None
    shape = integer(gpu.multiprocessors), integer(tile.rows * tile.columns)
    return Buffer(f"{kernel.name}_workspace", FLOAT32, shape, row_major_strides(shape), "temp")


def _left_sums(
    kernel: TemplateKernel, call: Matmul, tile: DotTile, context: KernelContext
) -> dict[str, str]:
    """Where programs leave sums, and the marks of what they have left."""
    if not tile.shared or call.marks is None:
        return {"PARTS": "0", "sums": "None", "marks": "None"}
    sums, marks = context.pointers[kernel.workspace], context.pointers[call.marks.buffer]
    return {"PARTS": str(tile.shared), "sums": sums, "marks": marks}


def _chosen(
    kernel: TemplateKernel,
    call: Matmul,
    operands: tuple[Operand, Operand],
    context: KernelContext,
    hints: Hints,
    gpu: Gpu,
) -> tuple[tuple[_Side, _Side], DotTile, str]:
    """The operands in the order in which they are multiplied, each with its axis, and the tile.

    And how groups of warps store results: STORED of `finish_block`.
    """
    row, column = call.output.axes[-2:]
    first, second = (operands[0], row), (operands[1], column)
    dear = is_dear(n for s in kernel.stages for nest in s.nests for n in nest.roots)
    if call.triangle is None and _is_exchanged(first, second, context, hints, gpu):
        first, second = second, first
    size = _size(kernel, call, (first, second), context, hints)
    if call.triangle is None and is_exchanged(size, gpu, dear=dear):
        other = exchanged(size)
        return (second, first), dot_tile(other, gpu, dear=dear), '"rows"'
    return (first, second), dot_tile(size, gpu, dear=dear), '"columns"'


def _operands(
    kernel: TemplateKernel, graph: KernelGraph, gpu: Gpu
) -> tuple[Operand, Operand, KernelContext]:
    call = template_call(kernel, Matmul)
    left, right = operand(call, "a"), operand(call, "b")
    return left, right, with_ranges(make_context(kernel, graph, gpu), (left.depth, right.depth))


def _size(
    kernel: TemplateKernel,
    call: Matmul,
    sides: tuple[_Side, _Side],
    context: KernelContext,
    hints: Hints,
) -> Size:
    (left, row), (right, column) = sides
    dtype = context.buffers[left.buffer].dtype
    batch = call.output.axes[:-2]
    return Size(
        hints.some([row]),
        hints.some([column]),
        hints.some([left.depth]),
        hints.some(batch),
        dtype,
        _is_turned(right, context),
        (_line_step(left, row, context), _line_step(right, column, context)),
        copied=all(_matrix(source, axis, batch, context) is not None for source, axis in sides),
        grouped=takes_epilogue(kernel) and _is_grouped(kernel, sides, batch, context, hints),
        single=(_is_single(left, row, context), _is_single(right, column, context)),
        cut=any(_is_cut_short(source, axis, context) for source, axis in sides),
        marked=call.marks is not None,
    )


def _is_grouped(
    kernel: TemplateKernel,
    sides: tuple[_Side, _Side],
    batch: tuple[Axis, ...],
    context: KernelContext,
    hints: Hints,
) -> bool:
    """Whether groups of warps can copy both operands, and store the result."""
    dtype = context.buffers[sides[0][0].buffer].dtype
    if dtype == FLOAT64:
        return _pair(sides, batch, context) is not None
    if dtype.itemsize != 2 or not stores_vectors(kernel, context):
        return False
    return _copied(sides, batch, context, GROUP_DEPTH) is not None


def _is_turned(source: Operand, context: KernelContext) -> bool:
    """True where an operand's depth is not contiguous."""
    return coefficient_of(context.offset(source.buffer, source.index), source.depth.symbol) != 1


def _beside(source: Operand, axis: Axis, offset: Expr) -> Axis | None:
    """The axis along which elements of an operand lie beside each other."""
    return next((a for a in (axis, source.depth) if coefficient_of(offset, a.symbol) == 1), None)


def _is_single(source: Operand, axis: Axis, context: KernelContext) -> bool:
    """True where blocks are read element by element: not known to begin at even ones.

    Nor, of halves, to end there. Of float32, where rows that begin so end matters not: it lies in
    shared memory as vectors do, in all banks.
    """
    offset = context.offset(source.buffer, source.index)
    beside = _beside(source, axis, offset)
    if beside is None:
        return True
    steps = [coefficient_of(offset, s) for s in offset.free_symbols - {beside.symbol}]
    start = substitute(offset, dict.fromkeys(offset.free_symbols, integer(0)))
    ends = (beside.extent,) if context.buffers[source.buffer].dtype.itemsize == 2 else ()
    return not all(e is not None and is_multiple(e, 2) for e in (*steps, start, *ends))


def _is_cut_short(source: Operand, axis: Axis, context: KernelContext) -> bool:
    """True where a row of an operand ends within a vector."""
    offset = context.offset(source.buffer, source.index)
    each = ALIGNED // context.buffers[source.buffer].dtype.itemsize
    along = _beside(source, axis, offset)
    return along is not None and not is_multiple(along.extent, each)


def _is_exchanged(
    left: _Side, right: _Side, context: KernelContext, hints: Hints, gpu: Gpu
) -> bool:
    """Whether the product is computed as the transposed one, of the operands in the other order.

    Asynchronous products of float32 want the second operand's depth contiguous in shared memory.
    Of one whose depth is not, vectors are turned on the way there, and single elements are copied
    all into one bank; those of the first operand come in the order in which they are read. 8
    products of 32 x 2048 by 2048 x 3169 took 709 us, 64 of 1024 x 1024 by 1024 x 64 176, so 126.
    Not where the first one's would be those single elements: 32 of 512 x 2481 by 2481 x 39 took 471
    us, by tiles for that 160, in the order in which they are 144.
    """
    splits = context.buffers[left[0].buffer].dtype == FLOAT32 and gpu.async_dots
    few = min(hints.value(axis.extent) for _, axis in (left, right)) <= FEW_ROWS
    if not splits or few or _is_turned(left[0], context) or _is_single(*left, context):
        return False
    return _is_turned(right[0], context)


def _line_step(source: Operand, axis: Axis, context: KernelContext) -> int:
    """`line_step` of the distance of an operand's rows; a whole line where it is not known."""
    offset = context.offset(source.buffer, source.index)
    steps = [coefficient_of(offset, s) for s in (axis.symbol, source.depth.symbol)]
    known = [int(s) for s in steps if s is not None and is_int(s) and int(s) not in (0, 1)]
    return line_step(known[0] * context.buffers[source.buffer].dtype.itemsize) if known else LINE


def _load(
    hooks: Hooks,
    name: str,
    source: Operand,
    batch: tuple[Axis, ...],
    dims: tuple[TileDim, TileDim],
) -> None:
    """Writes the function that reads a block of an operand."""
    names = [dim.name for dim in dims]
    with hooks.function(name, "batch", *names) as body:
        open_batch(body, batch, "batch")
        for dim in dims:
            body.take_dim(dim)
        block = body.read(source.buffer, source.index)
        body.writer.line(f"return {body.padded(block, frozenset(names))}")


def _copies(dtype: DType, tile: DotTile, depth: int, gpu: Gpu) -> bool:
    """Whether blocks of a tile are better copied by descriptors.

    Those of float64 are read with conflicts of shared memory's banks then. Where float32 has a step
    of the `depth` alone, storing results takes the time, and few programs that stay do that slower
    than many: 15276 x 21 by 21 x 12642 took 615 us on an H200, so 327.
    """
    if dtype.itemsize == 4 and depth <= tile.depth:
        return False
    narrow = dtype.itemsize == 2 or (dtype.itemsize == 4 and gpu.splits_floats)
    return gpu.copies_blocks and tile.rows >= LEAST_COPIED and narrow


def _copied(
    sides: tuple[_Side, _Side], batch: Sequence[Axis], context: KernelContext, depth: int
) -> tuple[Copied, Copied] | None:
    """Both operands as descriptors see them; None where they cannot be copied by descriptors.

    Of a batch the last step of the depth, of `depth` each, must not reach into what lies behind:
    then each matrix is a plane. Where all end together there is nothing behind, and 0 is read.
    """
    found = _pair(sides, batch, context)
    if _is_whole(sides, depth) or (found is not None and all(_ends_together(m) for m in found)):
        return found
    return _pair(sides, batch, context, planes=bool(batch))


def _ends_together(matrix: Copied) -> bool:
    """Whether the products of a batch begin at one place of the depth, and so end at its end."""
    return is_int(matrix.origin[0 if matrix.flipped else 1], 0)


def _is_whole(sides: tuple[_Side, _Side], depth: int) -> bool:
    """Whether the depth is so many steps of `depth` each, as far as is known."""
    extent = sides[0][0].depth.extent
    return is_multiple(extent, depth)


def _pair(
    sides: tuple[_Side, _Side],
    batch: Sequence[Axis],
    context: KernelContext,
    *,
    planes: bool = False,
) -> tuple[Copied, Copied] | None:
    """The same, whatever a last step reaches into, or each matrix as a plane."""
    if context.wide:
        return None
    axes = tuple(batch)
    first, second = (_matrix(source, axis, axes, context, planes=planes) for source, axis in sides)
    return None if first is None or second is None else (first, second)


def _matrix(
    source: Operand,
    axis: Axis,
    batch: tuple[Axis, ...],
    context: KernelContext,
    *,
    planes: bool = False,
) -> Copied | None:
    offset = context.offset(source.buffer, source.index)
    symbols: tuple[Symbol, ...] = (axis.symbol, source.depth.symbol, *(a.symbol for a in batch))
    solved = affine_coefficients(offset, symbols)
    if solved is None:
        return None
    (along, deep, *apart), start = solved
    each = ALIGNED // context.buffers[source.buffer].dtype.itemsize
    if not all(context.ranges.nonnegative(e) for e in (start, along, deep, *apart)):
        return None
    if not is_multiple(start, each):
        return None
    if deep == 1 and is_multiple(along, each):
        rows, columns, stride, flipped = axis.extent, source.depth.extent, along, False
    elif along == 1 and is_multiple(deep, each):
        rows, columns, stride, flipped = source.depth.extent, axis.extent, deep, True
    else:
        return None
    found = Copied(source.buffer, rows, columns, stride, start, flipped, (integer(0), integer(0)))
    return _in_planes(found, batch, apart, each) if planes else _in_line(found, batch, apart, each)


def _in_planes(
    matrix: Copied, batch: tuple[Axis, ...], apart: Sequence[Expr], each: int
) -> Copied | None:
    """The matrices of a batch, a plane each."""
    step = apart[-1]
    if is_int(step, 0) or not is_multiple(step, each) or not _is_one(batch, apart):
        return None
    return replace(matrix, planes=(product([a.extent for a in batch]), step))


def _in_line(
    matrix: Copied, batch: tuple[Axis, ...], apart: Sequence[Expr], each: int
) -> Copied | None:
    """The matrices of a batch as parts of one, each behind or beside the one before."""
    (down, right), rows, columns = matrix.origin, matrix.rows, matrix.columns
    for one, step in zip(batch, apart, strict=True):
        if is_int(matrix.stride, 0):
            return None
        moved, rest = _divided(step, matrix.stride)
        # Copies that begin within a vector of float64 ended in an illegal instruction.
        if (rest != 0 and moved != 0) or not is_multiple(rest, each):
            return None
        down, right = down + product((one.symbol, moved)), right + product((one.symbol, rest))
        rows = rows + product((one.extent - 1, moved))
        columns = columns + product((one.extent - 1, rest))
    return replace(matrix, rows=rows, columns=columns, origin=(down, right))


def _divided(step: Expr, stride: Expr) -> tuple[Expr, Expr]:
    """Whole strides of a step, and what is left of it."""
    if is_int(step) and is_int(stride):
        moved, rest = divmod(int(step), int(stride))
        return integer(moved), integer(rest)
    whole = exact_quotient(step, stride)
    return (integer(0), step) if whole is None else (whole, integer(0))


def _is_one(batch: tuple[Axis, ...], apart: Sequence[Expr]) -> bool:
    """Whether the axes of a batch are one: each walks on where the next one ends."""
    pairs = zip(apart, apart[1:], batch[1:], strict=False)
    return all(step == product((inner, axis.extent)) for step, inner, axis in pairs)


def _is_cut(matrix: Copied) -> bool:
    """Whether plain loads would test where rows end within vectors; else they serve few blocks."""
    return not is_multiple(matrix.columns, VECTOR)


def _write_origins(hooks: Hooks, batch: tuple[Axis, ...], copied: tuple[Copied, Copied]) -> None:
    """Writes the function that says where the matrices of one product begin."""
    with hooks.function("origins", "batch") as body:
        open_batch(body, batch, "batch")
        places = [body.index(e, {})[0] for matrix in copied for e in matrix.origin]
        body.writer.line(f"return {', '.join(places)}")


def by_copies(
    context: KernelContext, tile: DotTile, copied: tuple[Copied, Copied], seats: int
) -> dict[str, str]:
    """What `matmul_by_copies` and `matmul_by_groups` are given besides."""
    left, right = copied
    return {
        "program": program_id(context),
        "left": _descriptor(context, left, tile.rows, tile.depth),
        "right": _descriptor(context, right, tile.columns, tile.depth),
        "SEATS": str(seats),
        "LEFT_FLIPPED": str(left.flipped),
        "RIGHT_FLIPPED": str(right.flipped),
    }


def by_groups(
    context: KernelContext, tile: DotTile, copied: tuple[Copied, Copied]
) -> dict[str, str]:
    """What `matmul_by_groups` is given in place of descriptors, and of the tile's sizes."""
    left, right = (
        f"({', '.join((*_described(context, m), _plane_step(context, m)))})" for m in copied
    )
    columns, more = tile.pieces
    return {
        **{"left": left, "right": right},
        **{"GROUPS": str(tile.groups), "ROWS": str(tile.rows // tile.groups)},
        **{"COLUMNS": str(columns), "MORE": str(more), "STAGES": str(tile.stages)},
        "REGISTERS": str(GROUP_REGISTERS[tile.groups]),
        "PLANES": str(copied[0].planes is not None),
    }


def _by_groups_of_doubles(
    hooks: Hooks,
    tile: DotTile,
    sides: tuple[_Side, _Side],
    batch: tuple[Axis, ...],
    context: KernelContext,
    gpu: Gpu,
) -> dict[str, str]:
    """What `matmul_of_doubles` is given besides, and the function that says where batches begin."""
    copied = _pair(sides, batch, context)
    if copied is None:
        raise InternalError("groups of warps multiply what descriptors cannot copy")
    given = by_copies(context, tile, copied, gpu.multiprocessors) | by_groups(context, tile, copied)
    given |= {"CUT": str(bool(batch) and not _is_whole(sides, tile.depth)), "origins": "None"}
    given["batches"] = index_text(product([a.extent for a in batch]), context.names)
    if batch:
        _write_origins(hooks, batch, copied)
        del given["origins"]
    return {name: text for name, text in given.items() if name not in ("MORE", "PLANES")}


def _plane_step(context: KernelContext, matrix: Copied) -> str:
    """Elements from plane to plane; 0 of a matrix that is all there is."""
    return "0" if matrix.planes is None else index_text(matrix.planes[1], context.names)


def _described(context: KernelContext, matrix: Copied) -> tuple[str, str, str, str]:
    """Address, rows, columns and step from row to row, as text."""
    rows, columns, stride, start = (
        index_text(e, context.names)
        for e in (matrix.rows, matrix.columns, matrix.stride, matrix.start)
    )
    pointer = context.pointers[matrix.buffer]
    return pointer if start == "0" else f"{pointer} + {start}", rows, columns, stride


def _descriptor(context: KernelContext, matrix: Copied, width: int, depth: int) -> str:
    base, rows, columns, stride = _described(context, matrix)
    shape, strides = f"{rows}, {columns}", f"{stride}, 1"
    block = f"{depth}, {width}" if matrix.flipped else f"{width}, {depth}"
    if matrix.planes is not None:
        count, step = (index_text(e, context.names) for e in matrix.planes)
        shape, strides, block = f"{count}, {shape}", f"{step}, {strides}", f"1, {block}"
    return (
        f"tl.make_tensor_descriptor({base}, shape=[{shape}], "
        f"strides=[{strides}], block_shape=[{block}])"
    )
