"""Matrix products by groups of warps: one warp copies blocks of the operands, the groups multiply.

What `matmul_by_copies` computes, written in Gluon, as attention is (`attention_groups.py`). Each of
GROUPS groups of four warps has ROWS rows of a block, and all of its COLUMNS and MORE columns, whose
sums stay in its registers; the second operand's columns are shared. While a group's epilogue runs,
the others multiply, and the next block's operands arrive.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from aot.backends.triton.device.attention_groups import (
    barriers,
    copy_block,
    stored_layout,
    tile_layout,
)
from aot.backends.triton.device.matmul import block_of


@gluon.jit
def matmul_by_groups(
    args,
    origins,
    finish,
    program,
    left,
    right,
    batches,
    down,
    across,
    depth,
    GROUPS: gl.constexpr,
    ROWS: gl.constexpr,
    COLUMNS: gl.constexpr,
    MORE: gl.constexpr,
    DEPTH: gl.constexpr,
    STAGES: gl.constexpr,
    GROUP: gl.constexpr,
    SEATS: gl.constexpr,
    LEFT_FLIPPED: gl.constexpr,
    RIGHT_FLIPPED: gl.constexpr,
    REGISTERS: gl.constexpr,
):
    """As `matmul_by_copies`: SEATS programs take one block after the other.

    left, right: (address, rows, columns, elements from row to row) of the operands' matrices.
    DEPTH: of a step, of which STAGES are copied ahead of their use. REGISTERS: of a thread that
    multiplies. Rows of results start where a thread can store eight columns at once.
    """
    a = places_for(left, STAGES * GROUPS, ROWS, DEPTH, LEFT_FLIPPED)
    b = places_for(right, STAGES, COLUMNS, DEPTH, RIGHT_FLIPPED)
    more = b
    if MORE:
        more = places_for(right, STAGES, MORE, DEPTH, RIGHT_FLIPPED)
    sources = (matrix_from(left, a), matrix_from(right, b), matrix_from(right, more))
    ready, free = barriers(STAGES, 1), barriers(STAGES, GROUPS)
    fence_async_shared()
    places = (a, b, more, ready, free)
    shape = (batches, down, across, depth)
    mine = (args, program, shape, places)
    hooks: gl.constexpr = (origins, finish)
    sizes: gl.constexpr = (GROUPS, MORE, GROUP, SEATS, LEFT_FLIPPED, RIGHT_FLIPPED)
    if GROUPS == 3:
        gl.warp_specialize(
            [
                (multiply_blocks, (mine, 0, hooks, sizes)),
                (multiply_blocks, (mine, 1, hooks, sizes)),
                (multiply_blocks, (mine, 2, hooks, sizes)),
                (copy_blocks, (mine, sources, hooks, sizes)),
            ],
            [4, 4, 1],
            [REGISTERS, REGISTERS, 24],
        )
    else:
        gl.warp_specialize(
            [
                (multiply_blocks, (mine, 0, hooks, sizes)),
                (multiply_blocks, (mine, 1, hooks, sizes)),
                (copy_blocks, (mine, sources, hooks, sizes)),
            ],
            [4, 1],
            [REGISTERS, 24],
        )


@gluon.jit
def places_for(
    matrix,
    COUNT: gl.constexpr,
    WIDTH: gl.constexpr,
    DEPTH: gl.constexpr,
    FLIPPED: gl.constexpr,
):
    """Shared memory for COUNT blocks of a matrix, as it lies in memory."""
    base, _rows, _columns, _step = matrix
    dtype: gl.constexpr = base.dtype.element_ty
    first: gl.constexpr = DEPTH if FLIPPED else WIDTH
    last: gl.constexpr = WIDTH if FLIPPED else DEPTH
    L: gl.constexpr = gl.NVMMASharedLayout.get_default_for([first, last], dtype)
    return gl.allocate_shared_memory(dtype, [COUNT, first, last], L)


@gluon.jit
def matrix_from(matrix, blocks):
    """What copies blocks of a matrix: 0 is read beyond its ends."""
    base, rows, columns, step = matrix
    block: gl.constexpr = [blocks.shape[1], blocks.shape[2]]
    return tma.make_tensor_descriptor(base, [rows, columns], [step, 1], block, blocks.layout)


@gluon.jit
def block_at(args, origins: gl.constexpr, number, shape, GROUP: gl.constexpr):
    """(batch, row and column of a block, where its matrices begin) of the block's number."""
    _batches, down, across, _depth = shape
    batch = number // (down * across)
    row, column = block_of(number % (down * across), down, across, GROUP)
    if origins is None:  # noqa: SIM108  (both are evaluated otherwise)
        begin = (0, 0, 0, 0)
    else:
        begin = origins(args, batch)
    return batch, row, column, begin


@gluon.jit
def copy_blocks(mine, sources, hooks: gl.constexpr, sizes: gl.constexpr):
    """Copies blocks of both operands, each as soon as there is room."""
    args, program, shape, places = mine
    a, b, more, ready, free = places
    a_from, b_from, more_from = sources
    batches, down, across, depth = shape
    GROUPS: gl.constexpr = sizes[0]
    MORE: gl.constexpr = sizes[1]
    LEFT_FLIPPED: gl.constexpr = sizes[4]
    RIGHT_FLIPPED: gl.constexpr = sizes[5]
    STAGES: gl.constexpr = b.shape[0]
    ROWS: gl.constexpr = a.shape[2] if LEFT_FLIPPED else a.shape[1]
    DEPTH: gl.constexpr = a.shape[1] if LEFT_FLIPPED else a.shape[2]
    COLUMNS: gl.constexpr = b.shape[2] if RIGHT_FLIPPED else b.shape[1]
    size: gl.constexpr = (
        DEPTH * (GROUPS * ROWS + COLUMNS + MORE) * (a.dtype.primitive_bitwidth // 8)
    )
    at = 0
    for number in range(program, batches * down * across, sizes[3]):
        _, row, column, begin = block_at(args, hooks[0], number, shape, sizes[2])
        a_row, a_column, b_row, b_column = begin
        m, n = row * (GROUPS * ROWS), column * (COLUMNS + MORE)
        for k in range(0, depth, DEPTH):
            slot = at % STAGES
            mbarrier.wait(free.index(slot), ((at // STAGES) & 1) ^ 1)
            mbarrier.expect(ready.index(slot), size)
            for group in gl.static_range(GROUPS):
                along = m + group * ROWS
                place = a.index(slot * GROUPS + group)
                copy_piece(
                    a_from, a_row, a_column, along, k, ready.index(slot), place, LEFT_FLIPPED
                )
            place = b.index(slot)
            copy_piece(b_from, b_row, b_column, n, k, ready.index(slot), place, RIGHT_FLIPPED)
            if MORE:
                place = more.index(slot)
                along = n + COLUMNS
                copy_piece(
                    more_from, b_row, b_column, along, k, ready.index(slot), place, RIGHT_FLIPPED
                )
            at += 1


@gluon.jit
def copy_piece(source, row, column, along, deep, ready, place, FLIPPED: gl.constexpr):
    """Copies a block of the matrix that begins at (row, column) of a source."""
    if FLIPPED:
        copy_block(source, [row + deep, column + along], ready, place)
    else:
        copy_block(source, [row + along, column + deep], ready, place)


@gluon.jit
def multiply_blocks(mine, NUMBER: gl.constexpr, hooks: gl.constexpr, sizes: gl.constexpr):
    """Computes the rows of one group, of one block after the other."""
    args, program, shape, places = mine
    a, b, more, ready, free = places
    batches, down, across, depth = shape
    GROUPS: gl.constexpr = sizes[0]
    MORE: gl.constexpr = sizes[1]
    LEFT_FLIPPED: gl.constexpr = sizes[4]
    RIGHT_FLIPPED: gl.constexpr = sizes[5]
    STAGES: gl.constexpr = b.shape[0]
    ROWS: gl.constexpr = a.shape[2] if LEFT_FLIPPED else a.shape[1]
    DEPTH: gl.constexpr = a.shape[1] if LEFT_FLIPPED else a.shape[2]
    COLUMNS: gl.constexpr = b.shape[2] if RIGHT_FLIPPED else b.shape[1]
    REST: gl.constexpr = more.shape[2] if RIGHT_FLIPPED else more.shape[1]
    steps = (depth + DEPTH - 1) // DEPTH
    done = 0
    for number in range(program, batches * down * across, sizes[3]):
        acc = gl.zeros([ROWS, COLUMNS], gl.float32, tile_layout(COLUMNS))
        rest = gl.zeros([ROWS, REST], gl.float32, tile_layout(REST))
        for turn in range(0, steps):
            at = done + turn
            slot = at % STAGES
            mbarrier.wait(ready.index(slot), (at // STAGES) & 1)
            first = a.index(slot * GROUPS + NUMBER)
            if LEFT_FLIPPED:
                first = first.permute((1, 0))
            acc = product_begun(first, b.index(slot), acc, RIGHT_FLIPPED)
            if MORE:
                rest = product_begun(first, more.index(slot), rest, RIGHT_FLIPPED)
                acc, rest = warpgroup_mma_wait(2, [acc, rest])
            else:
                acc = warpgroup_mma_wait(1, [acc])
            mbarrier.arrive(free.index((at + STAGES - 1) % STAGES), pred=turn > 0)
        done += steps
        if MORE:
            acc, rest = warpgroup_mma_wait(0, [acc, rest])
        else:
            acc = warpgroup_mma_wait(0, [acc])
        mbarrier.arrive(free.index((done - 1) % STAGES))
        batch, row, column, _ = block_at(args, None, number, shape, sizes[2])
        m, n = row * (GROUPS * ROWS) + NUMBER * ROWS, column * (COLUMNS + MORE)
        finish_columns(args, hooks[1], batch, m, n, acc)
        if MORE:
            finish_columns(args, hooks[1], batch, m, n + COLUMNS, rest)


@gluon.jit
def product_begun(first, second, acc, FLIPPED: gl.constexpr):
    """Begins the product of two blocks, added to what there is."""
    if not FLIPPED:
        second = second.permute((1, 0))
    return warpgroup_mma(first, second, acc, is_async=True)


@gluon.jit
def finish_columns(args, finish: gl.constexpr, batch, row, column, acc):
    """Stores what a tile becomes: threads have neighbouring columns of it then."""
    L: gl.constexpr = stored_layout(acc.shape[0], acc.shape[1])
    acc = gl.convert_layout(acc, L)
    m = row + gl.arange(0, acc.shape[0], gl.SliceLayout(1, L))[:, None]
    n = column + gl.arange(0, acc.shape[1], gl.SliceLayout(0, L))[None, :]
    finish(args, batch, m, n, acc)
