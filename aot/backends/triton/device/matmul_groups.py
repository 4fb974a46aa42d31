"""Matrix products by groups of warps: one warp copies blocks of the operands, the groups multiply.

What `matmul_by_copies` computes, written in Gluon, as attention is (`attention_groups.py`). Each of
GROUPS groups of four warps has ROWS rows of a block, and all of its COLUMNS and MORE columns, whose
sums stay in its registers; the second operand's columns are shared. While a group's epilogue runs,
the others multiply, and the next block's operands arrive.

Blocks that are no multiple of the programs leave some of these without work at the end. So what is
left after the last whole turn of all programs can be cut into parts of the depth. Programs that
read the same rows, or columns, along the longer side are a team, which has a line of blocks or a
part of one: they read these at the same time, as all teams read the same depth of the other
operand, which caches then give once. All but the last part of a block leave their sums in memory
and say so; the program of the last one adds them up and stores the block. It waits for programs of
lower numbers alone, which have started before it, however few run at a time.
"""

import triton.language as tl
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
from aot.backends.triton.device.matmul import block_of, steps_wanted


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
    PLANES: gl.constexpr,
    PARTS: gl.constexpr,
    STORED: gl.constexpr,
    sums,
    marks,
):
    """As `matmul_by_copies`: SEATS programs take one block after the other.

    left, right: (address, rows, columns, elements from row to row) of the operands' matrices, and
    elements from matrix to matrix: those of a batch are PLANES where a step may reach beyond one.
    DEPTH: of a step, of which STAGES are copied ahead of their use. REGISTERS: of a thread that
    multiplies. STORED: what results a thread stores at once, of `finish_block`.
    PARTS: of a block at most, which programs share at the end; 0: none does, and there are no
    sums: where programs leave those of a block, float32, and
    marks: zeros, which say what has been left, one for each group of each program.
    """
    a = places_for(left, STAGES * GROUPS, ROWS, DEPTH, LEFT_FLIPPED, PLANES)
    b = places_for(right, STAGES, COLUMNS, DEPTH, RIGHT_FLIPPED, PLANES)
    more = b
    if MORE:
        more = places_for(right, STAGES, MORE, DEPTH, RIGHT_FLIPPED, PLANES)
    a_from, b_from = matrix_from(left, a, batches), matrix_from(right, b, batches)
    sources = (a_from, b_from, matrix_from(right, more, batches))
    ready, free = barriers(STAGES, 1), barriers(STAGES, GROUPS)
    fence_async_shared()
    places = (a, b, more, ready, free)
    shape = (batches, down, across, (depth + DEPTH - 1) // DEPTH)
    work = work_of(program, shape, SEATS, PARTS)
    mine = (args, program, shape, places, work, (sums, marks))
    hooks: gl.constexpr = (origins, finish, None)
    sizes: gl.constexpr = (GROUPS, MORE, GROUP, SEATS, LEFT_FLIPPED, RIGHT_FLIPPED, PARTS, STORED)
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
def teams_of(shape, SEATS: gl.constexpr):
    """(programs of a team, teams, lines of blocks in all) where programs share blocks.

    A line has as many blocks as the shorter side of the product has, a team a program for each.
    """
    batches, down, across, _steps = shape
    short = tl.minimum(down, across)
    return short, SEATS // short, batches * tl.maximum(down, across)


@gluon.jit
def work_of(program, shape, SEATS: gl.constexpr, PARTS: gl.constexpr):
    """(whole blocks of a program, parts of the block behind them, 0 for none, and its part)."""
    batches, down, across, steps = shape
    if PARTS:
        short, teams, lines = teams_of(shape, SEATS)
        team = program // short
        whole = lines // teams
        rest = lines - whole * teams
        parts = tl.minimum(tl.minimum(PARTS, steps), teams // tl.maximum(rest, 1))
        # Nothing is shared where programs are enough for one part of each line alone.
        parts = tl.where(team < rest * parts, parts, 0)
        whole = tl.where(team < teams, whole, 0)
        part = team % tl.maximum(parts, 1)
    else:
        whole = (batches * down * across - program + SEATS - 1) // SEATS
        parts, part = 0, 0
    return whole, parts, part


@gluon.jit
def turns_of(work, PARTS: gl.constexpr):
    """Blocks that a program computes, or parts of them."""
    turns, parts, _part = work
    if PARTS:
        turns += tl.where(parts > 0, 1, 0)
    return turns


@gluon.jit
def turn_of(turn, program, work, shape, sizes: gl.constexpr):
    """(batch, row and column of a turn's block, its first step, the one behind its last)."""
    whole, parts, part = work
    _batches, down, across, steps = shape
    GROUP: gl.constexpr = sizes[2]
    SEATS: gl.constexpr = sizes[3]
    if sizes[6]:
        short, teams, _lines = teams_of(shape, SEATS)
        team, member = program // short, program % short
        cut = turn == whole
        parts = tl.maximum(parts, 1)
        line = turn * teams + tl.where(cut, team // parts, team)
        begin = tl.where(cut, part * steps // parts, 0)
        end = tl.where(cut, (part + 1) * steps // parts, steps)
        long = tl.maximum(down, across)
        batch, place = line // long, line % long
        row = tl.where(across <= down, place, member)
        column = tl.where(across <= down, member, place)
    else:
        number = program + turn * SEATS
        batch = number // (down * across)
        row, column = block_of(number % (down * across), down, across, GROUP)
        begin, end = 0, steps
    return batch, row, column, begin, end


@gluon.jit
def places_for(
    matrix,
    COUNT: gl.constexpr,
    WIDTH: gl.constexpr,
    DEPTH: gl.constexpr,
    FLIPPED: gl.constexpr,
    PLANES: gl.constexpr,
):
    """Shared memory for COUNT blocks of a matrix, as it lies in memory; of planes, one each."""
    base, _rows, _columns, _step, _apart = matrix
    dtype: gl.constexpr = base.dtype.element_ty
    first: gl.constexpr = DEPTH if FLIPPED else WIDTH
    last: gl.constexpr = WIDTH if FLIPPED else DEPTH
    if PLANES:
        L: gl.constexpr = gl.NVMMASharedLayout.get_default_for([1, first, last], dtype)
        blocks = gl.allocate_shared_memory(dtype, [COUNT, 1, first, last], L)
    else:
        L: gl.constexpr = gl.NVMMASharedLayout.get_default_for([first, last], dtype)
        blocks = gl.allocate_shared_memory(dtype, [COUNT, first, last], L)
    return blocks


@gluon.jit
def matrix_from(matrix, blocks, batches):
    """What copies blocks of a matrix: 0 is read beyond its ends, of planes beyond each one's."""
    base, rows, columns, step, apart = matrix
    if blocks.rank == 4:
        block: gl.constexpr = [1, blocks.shape[2], blocks.shape[3]]
        source = tma.make_tensor_descriptor(
            base, [batches, rows, columns], [apart, step, 1], block, blocks.layout
        )
    else:
        block: gl.constexpr = [blocks.shape[1], blocks.shape[2]]
        source = tma.make_tensor_descriptor(base, [rows, columns], [step, 1], block, blocks.layout)
    return source


@gluon.jit
def block_at(blocks, number):
    """One of the blocks in shared memory, without the dimension of planes."""
    block = blocks.index(number)
    if blocks.rank == 4:
        block = block.reshape([block.shape[1], block.shape[2]])
    return block


@gluon.jit
def origins_of(args, origins: gl.constexpr, batch):
    """Where the matrices of an element of the batch begin: row and column of both."""
    if origins is None:  # noqa: SIM108  (both are evaluated otherwise)
        begin = (0, 0, 0, 0)
    else:
        begin = origins(args, batch)
    return begin


@gluon.jit
def copy_blocks(mine, sources, hooks: gl.constexpr, sizes: gl.constexpr):
    """Copies blocks of both operands, each as soon as there is room."""
    args, program, shape, places, work, _left = mine
    a, b, more, ready, free = places
    a_from, b_from, more_from = sources
    GROUPS: gl.constexpr = sizes[0]
    MORE: gl.constexpr = sizes[1]
    LEFT_FLIPPED: gl.constexpr = sizes[4]
    RIGHT_FLIPPED: gl.constexpr = sizes[5]
    STAGES: gl.constexpr = b.shape[0]
    ROWS: gl.constexpr = a.shape[-1] if LEFT_FLIPPED else a.shape[-2]
    DEPTH: gl.constexpr = a.shape[-2] if LEFT_FLIPPED else a.shape[-1]
    COLUMNS: gl.constexpr = b.shape[-1] if RIGHT_FLIPPED else b.shape[-2]
    size: gl.constexpr = (
        DEPTH * (GROUPS * ROWS + COLUMNS + MORE) * (a.dtype.primitive_bitwidth // 8)
    )
    at = 0
    for turn in range(0, turns_of(work, sizes[6])):
        batch, row, column, first, last = turn_of(turn, program, work, shape, sizes)
        last = steps_wanted(args, hooks[2], batch, last, 1)
        a_row, a_column, b_row, b_column = origins_of(args, hooks[0], batch)
        a_at, b_at = (batch, a_row, a_column), (batch, b_row, b_column)
        m, n = row * (GROUPS * ROWS), column * (COLUMNS + MORE)
        for step in range(first, last):
            k = step * DEPTH
            slot = at % STAGES
            mbarrier.wait(free.index(slot), ((at // STAGES) & 1) ^ 1)
            mbarrier.expect(ready.index(slot), size)
            for group in gl.static_range(GROUPS):
                along = m + group * ROWS
                place = a.index(slot * GROUPS + group)
                copy_piece(a_from, a_at, along, k, ready.index(slot), place, LEFT_FLIPPED)
            place = b.index(slot)
            copy_piece(b_from, b_at, n, k, ready.index(slot), place, RIGHT_FLIPPED)
            if MORE:
                place = more.index(slot)
                along = n + COLUMNS
                copy_piece(more_from, b_at, along, k, ready.index(slot), place, RIGHT_FLIPPED)
            at += 1


@gluon.jit
def copy_piece(source, origin, along, deep, ready, place, FLIPPED: gl.constexpr):
    """Copies a block of the matrix that begins at (plane, row, column) of a source."""
    plane, row, column = origin
    if FLIPPED:
        row, column = row + deep, column + along
    else:
        row, column = row + along, column + deep
    if place.rank == 3:
        copy_block(source, [plane, row, column], ready, place)
    else:
        copy_block(source, [row, column], ready, place)


@gluon.jit
def multiply_blocks(mine, NUMBER: gl.constexpr, hooks: gl.constexpr, sizes: gl.constexpr):
    """Computes the rows of one group, of one block after the other."""
    args, program, shape, places, work, left = mine
    a, b, more, ready, free = places
    steps = shape[3]
    GROUPS: gl.constexpr = sizes[0]
    MORE: gl.constexpr = sizes[1]
    LEFT_FLIPPED: gl.constexpr = sizes[4]
    RIGHT_FLIPPED: gl.constexpr = sizes[5]
    STAGES: gl.constexpr = b.shape[0]
    ROWS: gl.constexpr = a.shape[-1] if LEFT_FLIPPED else a.shape[-2]
    COLUMNS: gl.constexpr = b.shape[-1] if RIGHT_FLIPPED else b.shape[-2]
    PARTS: gl.constexpr = sizes[6]
    BITS: gl.constexpr = b.dtype.primitive_bitwidth
    REST: gl.constexpr = more.shape[-1] if RIGHT_FLIPPED else more.shape[-2]
    done = 0
    for turn in range(0, turns_of(work, PARTS)):
        batch, row, column, begin, end = turn_of(turn, program, work, shape, sizes)
        acc = gl.zeros([ROWS, COLUMNS], gl.float32, tile_layout(COLUMNS, BITS))
        rest = gl.zeros([ROWS, REST], gl.float32, tile_layout(REST, BITS))
        for step in range(begin, end):
            at = done + step - begin
            slot = at % STAGES
            mbarrier.wait(ready.index(slot), (at // STAGES) & 1)
            first = block_at(a, slot * GROUPS + NUMBER)
            if LEFT_FLIPPED:
                first = first.permute((1, 0))
            acc = product_begun(first, block_at(b, slot), acc, RIGHT_FLIPPED)
            if MORE:
                rest = product_begun(first, block_at(more, slot), rest, RIGHT_FLIPPED)
                acc, rest = warpgroup_mma_wait(2, [acc, rest])
            else:
                acc = warpgroup_mma_wait(1, [acc])
            mbarrier.arrive(free.index((at + STAGES - 1) % STAGES), pred=step > begin)
        done += end - begin
        if MORE:
            acc, rest = warpgroup_mma_wait(0, [acc, rest])
        else:
            acc = warpgroup_mma_wait(0, [acc])
        mbarrier.arrive(free.index((done - 1) % STAGES))
        m, n = row * (GROUPS * ROWS) + NUMBER * ROWS, column * (COLUMNS + MORE)
        if PARTS:
            if end < steps:
                leave_sums(left, program * GROUPS + NUMBER, acc, rest, MORE)
            elif begin > 0:
                acc, rest = with_sums(left, mine, NUMBER, acc, rest, sizes)
        if end == steps:
            finish_block(args, hooks[1], batch, m, n, acc, sizes[7])
            if MORE:
                finish_block(args, hooks[1], batch, m, n + COLUMNS, rest, sizes[7])


@gluon.jit
def sums_at(left, place, acc, SIZE: gl.constexpr, FIRST: gl.constexpr):
    """Where a group's sums of some columns lie, of SIZE sums that it leaves in all."""
    L: gl.constexpr = tile_layout(acc.shape[1])
    m = gl.arange(0, acc.shape[0], gl.SliceLayout(1, L))[:, None]
    n = gl.arange(0, acc.shape[1], gl.SliceLayout(0, L))[None, :]
    return left[0] + place.to(gl.int64) * SIZE + (FIRST + m * acc.shape[1] + n)


@gluon.jit
def leave_sums(left, place, acc, rest, MORE: gl.constexpr):
    """Leaves sums where the program that stores the block looks for them, and says so."""
    SIZE: gl.constexpr = acc.shape[0] * (acc.shape[1] + MORE)
    gl.store(sums_at(left, place, acc, SIZE, 0), acc)
    if MORE:
        gl.store(sums_at(left, place, rest, SIZE, acc.shape[0] * acc.shape[1]), rest)
    tl.debug_barrier()
    tl.atomic_add(left[1] + place, 1, sem="release")


@gluon.jit
def with_sums(left, mine, NUMBER: gl.constexpr, acc, rest, sizes: gl.constexpr):
    """The sums of a block with those that were left of its earlier steps."""
    _args, program, shape, _places, work, _left = mine
    GROUPS: gl.constexpr = sizes[0]
    MORE: gl.constexpr = sizes[1]
    SIZE: gl.constexpr = acc.shape[0] * (acc.shape[1] + MORE)
    short, _teams, _lines = teams_of(shape, sizes[3])
    for before in range(1, work[1]):
        place = (program - before * short) * GROUPS + NUMBER
        ready = tl.atomic_add(left[1] + place, 0, sem="acquire")
        while ready < 1:
            ready = tl.atomic_add(left[1] + place, 0, sem="acquire")
        # Other multiprocessors wrote it: this one's own cache may have what was there before.
        acc += gl.load(sums_at(left, place, acc, SIZE, 0), cache_modifier=".cg")
        if MORE:
            AT: gl.constexpr = acc.shape[0] * acc.shape[1]
            rest += gl.load(sums_at(left, place, rest, SIZE, AT), cache_modifier=".cg")
    return acc, rest


@gluon.jit
def product_begun(first, second, acc, FLIPPED: gl.constexpr):
    """Begins the product of two blocks, added to what there is; float32 is rounded before."""
    if not FLIPPED:
        second = second.permute((1, 0))
    return warpgroup_mma(first, second, acc, is_async=True)


@gluon.jit
def finish_block(args, finish: gl.constexpr, batch, row, column, acc, STORED: gl.constexpr):
    """Stores what a tile becomes: threads have what lies side by side of it then.

    STORED: "columns": eight of them, "rows": four of these, or what starts anywhere, one by one:
    "single columns", "single rows".
    """
    L: gl.constexpr = layout_of(acc.shape[0], acc.shape[1], STORED)
    acc = gl.convert_layout(acc, L)
    m = row + gl.arange(0, acc.shape[0], gl.SliceLayout(1, L))[:, None]
    n = column + gl.arange(0, acc.shape[1], gl.SliceLayout(0, L))[None, :]
    finish(args, batch, m, n, acc)


@gluon.constexpr_function
def layout_of(rows, columns, stored):
    """How threads hold a tile that is stored: warps have the sixteen rows that they had.

    These lie side by side in all lanes of a column, or else sixteen columns do. No more than two
    bits of a place change between lanes and registers: beyond that the exchange is no shuffle, and
    takes shared memory.
    """
    if stored == "columns":
        return stored_layout(rows, columns)
    wider = [[0, step] for step in (16, 32, 64, 128) if step < columns]
    higher = [[step, 0] for step in (64, 128) if step < rows]
    if stored == "rows":
        registers = [[1, 0], [2, 0], [0, 8]]
        lanes = [[4, 0], [8, 0], [0, 1], [0, 2], [0, 4]]
    elif stored == "single rows":
        registers = [[0, 1], [0, 2], [0, 8]]
        lanes = [[1, 0], [2, 0], [4, 0], [8, 0], [0, 4]]
    else:
        registers = [[1, 0], [2, 0], [8, 0]]
        lanes = [[0, 1], [0, 2], [0, 4], [0, 8], [4, 0]]
    return gl.DistributedLinearLayout(
        registers + wider + higher, lanes, [[16, 0], [32, 0]], [], [rows, columns]
    )
