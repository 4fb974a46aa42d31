"""Matrix products of float64 by groups of warps: the largest products that tensor cores have of it.

One warp copies blocks as `matmul_by_groups` has them copied; groups of four warps multiply by 16 x
8 x 16 (sm_90), where Triton has 8 x 8 x 4. Of each operand a warp holds 32 rows, or columns, of a
step in registers: a thread 16 numbers, a unit, which it reads from shared memory two by two and
without conflicts of banks. Which of a unit's rows, columns and places of the depth a thread has
follows from how the operand lies there: the depth's order is free, as long as both have the same.
Of the result a unit has 16 rows by 32 columns of each warp.

Units of both operands and of the result are seen as tensors of one shape, so that PTX takes them
element by element: (warps down, warps across, numbers of a thread, threads of a warp).
"""

import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier

from aot.backends.triton.device.attention_groups import barriers
from aot.backends.triton.device.matmul import steps_wanted
from aot.backends.triton.device.matmul_groups import (
    copy_blocks,
    matrix_from,
    places_for,
    turn_of,
    turns_of,
    work_of,
)


@gluon.jit
def matmul_of_doubles(
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
    DEPTH: gl.constexpr,
    STAGES: gl.constexpr,
    GROUP: gl.constexpr,
    SEATS: gl.constexpr,
    LEFT_FLIPPED: gl.constexpr,
    RIGHT_FLIPPED: gl.constexpr,
    REGISTERS: gl.constexpr,
    CUT: gl.constexpr,
    wanted=None,
):
    """As `matmul_by_groups`, of float64: ROWS and COLUMNS are multiples of 64, DEPTH of 16.

    CUT: the last step of the depth may reach into another matrix of a batch. Steps are so many that
    no compiler unrolls the loop over them (`leave`). wanted: see `matmul`.
    """
    a = places_for(left, STAGES * GROUPS, ROWS, DEPTH, LEFT_FLIPPED, PLANES=False)
    b = places_for(right, STAGES, COLUMNS, DEPTH, RIGHT_FLIPPED, PLANES=False)
    b_from = matrix_from(right, b, batches)
    sources = (matrix_from(left, a, batches), b_from, b_from)
    ready, free = barriers(STAGES, 1), barriers(STAGES, GROUPS)
    fence_async_shared()
    shape = (batches, down, across, (depth + DEPTH - 1) // DEPTH)
    work = work_of(program, shape, SEATS, 0)
    mine = (args, program, shape, (a, b, b, ready, free), work, depth)
    hooks: gl.constexpr = (origins, finish, wanted)
    sizes: gl.constexpr = (GROUPS, 0, GROUP, SEATS, LEFT_FLIPPED, RIGHT_FLIPPED, 0, CUT)
    if GROUPS == 3:
        gl.warp_specialize(
            [
                (multiply_doubles, (mine, 0, hooks, sizes)),
                (multiply_doubles, (mine, 1, hooks, sizes)),
                (multiply_doubles, (mine, 2, hooks, sizes)),
                (copy_blocks, (mine, sources, hooks, sizes)),
            ],
            [4, 4, 1],
            [REGISTERS, REGISTERS, 24],
        )
    else:
        gl.warp_specialize(
            [
                (multiply_doubles, (mine, 0, hooks, sizes)),
                (multiply_doubles, (mine, 1, hooks, sizes)),
                (copy_blocks, (mine, sources, hooks, sizes)),
            ],
            [4, 1],
            [REGISTERS, 24],
        )


@gluon.jit
def multiply_doubles(mine, NUMBER: gl.constexpr, hooks: gl.constexpr, sizes: gl.constexpr):
    """Computes the rows of one group, of one block after the other."""
    args, program, shape, places, work, depth = mine
    a, b, _more, ready, free = places
    GROUPS: gl.constexpr = sizes[0]
    LEFT_FLIPPED: gl.constexpr = sizes[4]
    RIGHT_FLIPPED: gl.constexpr = sizes[5]
    CUT: gl.constexpr = sizes[7]
    STAGES: gl.constexpr = b.shape[0]
    ROWS: gl.constexpr = a.shape[2] if LEFT_FLIPPED else a.shape[1]
    COLUMNS: gl.constexpr = b.shape[2] if RIGHT_FLIPPED else b.shape[1]
    DEPTH: gl.constexpr = a.shape[1] if LEFT_FLIPPED else a.shape[2]
    done = 0
    for turn in range(0, turns_of(work, 0)):
        batch, row, column, _begin, steps = turn_of(turn, program, work, shape, sizes)
        steps = steps_wanted(args, hooks[2], batch, steps, 1)
        none = gl.zeros([2, 2, 16, 32], gl.float64, unit_layout())
        acc = (none,) * (ROWS * COLUMNS // 2048)
        whole = steps - 1 if CUT else steps
        for step in range(0, whole):
            first, second = blocks_of(done + step, a, b, ready, free, NUMBER, step > 0)
            acc = step_added(acc, first, second, 0, LEFT_FLIPPED, RIGHT_FLIPPED, CUT=False)
        if CUT:
            rest = depth - whole * DEPTH
            first, second = blocks_of(done + whole, a, b, ready, free, NUMBER, whole > 0)
            acc = step_added(acc, first, second, rest, LEFT_FLIPPED, RIGHT_FLIPPED, CUT=True)
        done += steps
        # Copies by descriptors do not wait for loads that are under way, and the assembler may move
        # products, which do, behind the barrier: not so those of an earlier turn of the loop.
        fence_async_shared()
        leave(free.index((done - 1) % STAGES), read=True)
        m, n = row * (GROUPS * ROWS) + NUMBER * ROWS, column * COLUMNS
        for k in gl.static_range(len(acc)):
            at_m, at_n = m + k // (COLUMNS // 64) * 32, n + k % (COLUMNS // 64) * 64
            finish_unit(args, hooks[1], batch, at_m, at_n, acc[k], LEFT_FLIPPED, RIGHT_FLIPPED)


@gluon.jit
def blocks_of(at, a, b, ready, free, NUMBER: gl.constexpr, others):
    """A group's blocks of a step, once they are there; it leaves those before, if any."""
    STAGES: gl.constexpr = b.shape[0]
    GROUPS: gl.constexpr = a.shape[0] // STAGES
    slot = at % STAGES
    leave(free.index((at + STAGES - 1) % STAGES), others)
    mbarrier.wait(ready.index(slot), (at // STAGES) & 1)
    return a.index(slot * GROUPS + NUMBER), b.index(slot)


@gluon.jit
def leave(free, read):
    """Says, if it has been `read`, that a block may be overwritten: all warps have come here.

    In the next turn of a loop all products of the turn before have begun, with what they read.
    """
    tl.debug_barrier()
    mbarrier.arrive(free, pred=read)


@gluon.jit
def step_added(
    acc,
    first,
    second,
    depth,
    LEFT_FLIPPED: gl.constexpr,
    RIGHT_FLIPPED: gl.constexpr,
    CUT: gl.constexpr,
):
    """Units of the result and a step's products; CUT: of the first `depth` alone."""
    DEPTH: gl.constexpr = first.shape[0] if LEFT_FLIPPED else first.shape[1]
    for k in gl.static_range(0, DEPTH, 16):
        left = first.slice(k, 16, 0 if LEFT_FLIPPED else 1)
        right = second.slice(k, 16, 0 if RIGHT_FLIPPED else 1)
        acc = products_added(acc, left, right, depth - k, LEFT_FLIPPED, RIGHT_FLIPPED, CUT)
    return acc


@gluon.jit
def products_added(
    acc,
    first,
    second,
    depth,
    LEFT_FLIPPED: gl.constexpr,
    RIGHT_FLIPPED: gl.constexpr,
    CUT: gl.constexpr,
):
    """The same of 16 of a step.

    Units are in the order of rows, 32 at a time, and of columns, 64 at a time.
    """
    ROWS: gl.constexpr = first.shape[1] if LEFT_FLIPPED else first.shape[0]
    WIDTH: gl.constexpr = (second.shape[1] if RIGHT_FLIPPED else second.shape[0]) // 64
    lefts, rights = (), ()
    for k in gl.static_range(ROWS // 64):
        lefts = lefts + (operand_unit(first, k, 0, depth, LEFT_FLIPPED, CUT),)  # noqa: RUF005
    for k in gl.static_range(WIDTH):
        rights = rights + (operand_unit(second, k, 1, depth, RIGHT_FLIPPED, CUT),)  # noqa: RUF005
    sums = ()
    for p in gl.static_range(ROWS // 64):
        upper, lower = (), ()
        for q in gl.static_range(WIDTH):
            one, two = gl.inline_asm_elementwise(
                products_text(),
                products_operands(),
                [acc[2 * p * WIDTH + q], acc[(2 * p + 1) * WIDTH + q], lefts[p], rights[q]],
                dtype=(gl.float64, gl.float64),
                is_pure=False,
                pack=16,
            )
            upper, lower = upper + (one,), lower + (two,)  # noqa: RUF005
        sums = sums + upper + lower
    return sums


@gluon.constexpr_function
def products_text():
    """PTX of the products of a unit of either operand, added to two units of the result."""
    lines = []
    for down in range(2):
        for across in range(4):
            at = 16 * down + 4 * across
            places = (range(at, at + 4), range(64 + 8 * down, 72 + 8 * down))
            places += (range(80 + 4 * across, 84 + 4 * across), range(32 + at, 36 + at))
            words = ["{" + ", ".join(f"${k}" for k in place) + "}" for place in places]
            name = "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64"
            lines.append(f"{name} {', '.join(words)};")
    return "\n".join(lines)


@gluon.constexpr_function
def products_operands():
    """What PTX takes: results are written while operands are still to be read."""
    return ",".join(["=&d"] * 32 + ["d"] * 64)


@gluon.constexpr_function
def unit_layout():
    """How threads hold a unit."""
    registers = [[0, 0, step, 0] for step in (1, 2, 4, 8)]
    lanes = [[0, 0, 0, step] for step in (1, 2, 4, 8, 16)]
    return gl.DistributedLinearLayout(
        registers, lanes, [[0, 1, 0, 0], [1, 0, 0, 0]], [], [2, 2, 16, 32]
    )


@gluon.constexpr_function
def lines_of(side, flipped):
    """Bits of a row's or column's number among 64: (those of a thread's numbers, lanes, warps).

    side: 0 for rows, of which a thread has two in a product, and of two products; 1 for columns, of
    those of four. Rows that are contiguous in memory (`flipped`) it has in pairs, which it reads at
    once: tensor cores want these side by side, other neighbours they want apart. Lanes: such that
    those that read at the same time read from different banks.
    """
    if side == 0:
        return ([0, 5], [3, 1, 2], 4) if flipped else ([3, 5], [1, 2, 0], 4)
    return ([2, 4], [0, 3, 1], 5) if flipped else ([3, 4], [1, 2, 0], 5)


@gluon.constexpr_function
def operand_bits(side, flipped):
    """For a unit's warp, its numbers, highest bit first, and its lanes: ("m" or "k", bit)."""
    own, lanes, warp = lines_of(side, flipped)
    places = [("k", 2), ("k", 3)]
    numbers = [("m", own[0]), *places, ("m", own[1])]
    if side == 1:
        numbers = [*places, ("m", own[0]), ("m", own[1])]
    threads = [("k", 0), ("k", 1), *(("m", bit) for bit in lanes)]
    return [("m", warp), *numbers[::-1], *threads[::-1]]


@gluon.constexpr_function
def operand_layout(side, flipped):
    """How threads read 64 rows, or columns, by 16 of the depth."""
    bases = [[1 << b, 0] if kind == "m" else [0, 1 << b] for kind, b in operand_bits(side, flipped)]
    warps = [[0, 0], bases[0]] if side == 0 else [bases[0], [0, 0]]
    return gl.DistributedLinearLayout(bases[4:0:-1], bases[:4:-1], warps, [], [64, 16])


@gluon.constexpr_function
def operand_order(side, flipped):
    """The order in which bits of (64, 16) are those of a unit."""
    return [5 - b if kind == "m" else 9 - b for kind, b in operand_bits(side, flipped)]


@gluon.jit
def operand_unit(
    block,
    place,
    SIDE: gl.constexpr,
    depth,
    FLIPPED: gl.constexpr,
    CUT: gl.constexpr,
):
    """A unit of an operand: `place` counts 64 rows, or columns, of a block in shared memory."""
    L: gl.constexpr = operand_layout(SIDE, FLIPPED)
    if FLIPPED:
        piece = block.slice(place * 64, 64, 1).permute((1, 0)).load(L)
    else:
        piece = block.slice(place * 64, 64, 0).load(L)
    if CUT:
        k = gl.arange(0, 16, gl.SliceLayout(0, L))[None, :]
        piece = tl.where(k < depth, piece, 0.0)
    N: gl.constexpr = operand_order(SIDE, FLIPPED)
    bits = gl.reshape(piece, [2] * 10)
    bits = gl.permute(bits, (N[0], N[1], N[2], N[3], N[4], N[5], N[6], N[7], N[8], N[9]))
    unit = gl.reshape(bits, [2, 16, 32])
    unit = gl.convert_layout(unit, gl.SliceLayout(1 - SIDE, unit_layout()), assert_trivial=True)
    return gl.expand_dims(unit, 1 - SIDE)


@gluon.constexpr_function
def result_bits(left_flipped, right_flipped):
    """For each bit of a unit of the result, by its shape: ("m" or "n", bit) of 32 x 64."""
    down, down_lanes, warp_down = lines_of(0, left_flipped)
    across, across_lanes, warp_across = lines_of(1, right_flipped)
    numbers = [("n", across_lanes[0]), ("m", down[0]), ("n", across[0]), ("n", across[1])]
    lanes = [("n", across_lanes[1]), ("n", across_lanes[2]), *(("m", b) for b in down_lanes)]
    return [("m", warp_down), ("n", warp_across), *numbers[::-1], *lanes[::-1]]


@gluon.constexpr_function
def result_layout(left_flipped, right_flipped):
    """How threads hold a unit of the result."""
    bits = result_bits(left_flipped, right_flipped)
    bases = [[1 << b, 0] if kind == "m" else [0, 1 << b] for kind, b in bits]
    return gl.DistributedLinearLayout(
        bases[5:1:-1], bases[:5:-1], [bases[1], bases[0]], [], [32, 64]
    )


@gluon.constexpr_function
def result_order(left_flipped, right_flipped):
    """The order in which bits of a unit are those of (32, 64)."""
    bits = result_bits(left_flipped, right_flipped)
    rows = [bits.index(("m", b)) for b in (4, 3, 2, 1, 0)]
    return rows + [bits.index(("n", b)) for b in (5, 4, 3, 2, 1, 0)]


@gluon.jit
def finish_unit(
    args,
    finish: gl.constexpr,
    batch,
    row,
    column,
    acc,
    LEFT_FLIPPED: gl.constexpr,
    RIGHT_FLIPPED: gl.constexpr,
):
    """Stores what a unit of the result becomes, from where threads have it."""
    L: gl.constexpr = result_layout(LEFT_FLIPPED, RIGHT_FLIPPED)
    N: gl.constexpr = result_order(LEFT_FLIPPED, RIGHT_FLIPPED)
    bits = gl.reshape(acc, [2] * 11)
    bits = gl.permute(bits, (N[0], N[1], N[2], N[3], N[4], N[5], N[6], N[7], N[8], N[9], N[10]))
    tile = gl.convert_layout(gl.reshape(bits, [32, 64]), L, assert_trivial=True)
    m = row + gl.arange(0, 32, gl.SliceLayout(1, L))[:, None]
    n = column + gl.arange(0, 64, gl.SliceLayout(0, L))[None, :]
    finish(args, batch, m, n, tile)
