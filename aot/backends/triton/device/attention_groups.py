"""Attention by groups of warps: one copies keys and values, the others multiply and compute powers.

What `attention` computes, written in Gluon, the level below Triton that names groups of warps,
barriers and products that run on (Shah et al., FlashAttention-3, NeurIPS 2024). A group of four
warps has ROWS queries. While its product of powers and values runs, it computes the powers of the
next block, whose scores were multiplied before; products of the other groups fill what is left.
Blocks are walked from the last one, where rows end, to the first.

Of the constants: GROUPS groups share what is copied, STAGES blocks of KEYS keys at a time, with
columns in pieces as in `attention`. REGISTERS: of a thread that multiplies. WIDE: rows of
results start where a thread can store eight columns at once.
"""

import triton  # noqa: F401
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

# Triton renamed it after 3.6.
copy_block = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared


@gluon.jit
def attention_by_groups(
    args,
    locate,
    load_q,
    place_k,
    place_v,
    finish,
    program,
    keys,
    SCALE: gl.constexpr,
    CAUSAL: gl.constexpr,
    PAIRED: gl.constexpr,
    GROUPS: gl.constexpr,
    ROWS: gl.constexpr,
    DEPTH: gl.constexpr,
    MORE_DEPTH: gl.constexpr,
    VALUE: gl.constexpr,
    MORE_VALUE: gl.constexpr,
    KEYS: gl.constexpr,
    STAGES: gl.constexpr,
    REGISTERS: gl.constexpr,
    WIDE: gl.constexpr,
):
    """Computes GROUPS times ROWS queries of one head.

    locate(args, program), load_q(args, pair, m, c) and finish(args, pair, part, m, n, acc, top,
    total): as of `attention`. place_k(args, pair) and place_v(args, pair): (address of the first
    element of a head, its columns, elements from row to row).
    """
    pair, part, tile, other = locate(args, program)
    tiles = tl.minimum(tile - other + 1, 2) if PAIRED else 1
    k_base, depth, k_step = place_k(args, pair)
    v_base, width, v_step = place_v(args, pair)
    dtype: gl.constexpr = k_base.dtype.element_ty
    q, more_q = room(dtype, GROUPS, ROWS, DEPTH, MORE_DEPTH)
    k, more_k = room(dtype, STAGES, KEYS, DEPTH, MORE_DEPTH)
    v, more_v = room(dtype, STAGES, KEYS, VALUE, MORE_VALUE)
    ready_k, free_k = barriers(STAGES, 1), barriers(STAGES, GROUPS)
    ready_v, free_v = barriers(STAGES, 1), barriers(STAGES, GROUPS)
    fence_async_shared()
    copied = (k, more_k, v, more_v, ready_k, free_k, ready_v, free_v)
    mine = (args, pair, part, tile, other, tiles, keys, q, more_q, copied)
    sources = ((k_base, keys, depth, k_step), (v_base, keys, width, v_step))
    hooks: gl.constexpr = (load_q, finish)
    sizes: gl.constexpr = (SCALE, CAUSAL, MORE_DEPTH, VALUE, MORE_VALUE, WIDE)
    share_out(mine, sources, hooks, sizes, GROUPS, REGISTERS)


@gluon.jit
def walked(tile, keys, ROWS: gl.constexpr, KEYS: gl.constexpr, CAUSAL: gl.constexpr):
    """(blocks of keys that a tile walks, those of them at the edge)."""
    first = tile * ROWS
    end = keys
    whole = keys // KEYS
    if CAUSAL:
        end = tl.minimum(keys, first + ROWS)
        whole = tl.minimum(whole, (first + 1) // KEYS)
    blocks = (end + KEYS - 1) // KEYS
    return blocks, blocks - whole


@gluon.jit
def share_out(
    mine,
    sources,
    hooks: gl.constexpr,
    sizes: gl.constexpr,
    GROUPS: gl.constexpr,
    REGISTERS: gl.constexpr,
):
    """Has each group multiply, and one warp more copy."""
    if GROUPS == 3:
        gl.warp_specialize(
            [
                (multiply, (mine, 0, hooks, sizes)),
                (multiply, (mine, 1, hooks, sizes)),
                (multiply, (mine, 2, hooks, sizes)),
                (copy_all, (mine, sources, sizes)),
            ],
            [4, 4, 1],
            [REGISTERS, REGISTERS, 24],
        )
    else:
        gl.warp_specialize(
            [
                (multiply, (mine, 0, hooks, sizes)),
                (multiply, (mine, 1, hooks, sizes)),
                (copy_all, (mine, sources, sizes)),
            ],
            [4, 1],
            [REGISTERS, 24],
        )


@gluon.jit
def room(
    dtype: gl.constexpr,
    COUNT: gl.constexpr,
    ROWS: gl.constexpr,
    FIRST: gl.constexpr,
    MORE: gl.constexpr,
):
    """Shared memory for COUNT blocks of ROWS rows, in two pieces of columns, or one twice."""
    L: gl.constexpr = gl.NVMMASharedLayout.get_default_for([ROWS, FIRST], dtype)
    first = gl.allocate_shared_memory(dtype, [COUNT, ROWS, FIRST], L)
    more = first
    if MORE:
        M: gl.constexpr = gl.NVMMASharedLayout.get_default_for([ROWS, MORE], dtype)
        more = gl.allocate_shared_memory(dtype, [COUNT, ROWS, MORE], M)
    return first, more


@gluon.jit
def described(source, blocks):
    """What copies blocks of a matrix: 0 is read beyond its ends."""
    base, rows, columns, step = source
    block: gl.constexpr = [blocks.shape[1], blocks.shape[2]]
    return tma.make_tensor_descriptor(base, [rows, columns], [step, 1], block, blocks.layout)


@gluon.jit
def barriers(COUNT: gl.constexpr, ARRIVALS: gl.constexpr):
    """COUNT barriers that let through who waits after so many arrivals."""
    made = gl.allocate_shared_memory(gl.int64, [COUNT, 1], mbarrier.MBarrierLayout())
    for k in gl.static_range(COUNT):
        mbarrier.init(made.index(k), count=ARRIVALS)
    return made


@gluon.jit
def copy_all(mine, sources, sizes: gl.constexpr):
    """Copies all blocks of keys and values, each as soon as there is room.

    What copies them is made here, while groups load queries, and that of values once the first keys
    are under way: each takes a microsecond or more.
    """
    _args, _pair, _part, tile, other, tiles, keys, q, _more_q, copied = mine
    k, more_k, v, more_v, ready_k, free_k, ready_v, free_v = copied
    CAUSAL: gl.constexpr = sizes[1]
    MORE_DEPTH: gl.constexpr = sizes[2]
    MORE_VALUE: gl.constexpr = sizes[4]
    ROWS: gl.constexpr = q.shape[0] * q.shape[1]
    k_from = described(sources[0], k)
    more_k_from = described(sources[0], more_k) if MORE_DEPTH else k_from
    blocks, _edge = walked(tile, keys, ROWS, k.shape[1], CAUSAL)
    row = (blocks - 1) * k.shape[1]
    copy_pieces(0, row, k_from, more_k_from, k, more_k, ready_k, free_k, MORE_DEPTH)
    v_from = described(sources[1], v)
    more_v_from = described(sources[1], more_v) if MORE_VALUE else v_from
    done = 0
    for number in range(0, tiles):
        blocks, _edge = walked(tl.where(number == 0, tile, other), keys, ROWS, k.shape[1], CAUSAL)
        for turn in range(0, blocks):
            row = (blocks - 1 - turn) * k.shape[1]
            at = done + turn
            if at > 0:
                copy_pieces(at, row, k_from, more_k_from, k, more_k, ready_k, free_k, MORE_DEPTH)
            copy_pieces(at, row, v_from, more_v_from, v, more_v, ready_v, free_v, MORE_VALUE)
        done += blocks


@gluon.jit
def copy_pieces(turn, row, first_from, more_from, first, more, ready, free, MORE: gl.constexpr):
    """Copies a block of rows, once all groups have left its place."""
    STAGES: gl.constexpr = first.shape[0]
    slot = turn % STAGES
    mbarrier.wait(free.index(slot), ((turn // STAGES) & 1) ^ 1)
    size: gl.constexpr = (
        first.shape[1] * (first.shape[2] + MORE) * (first.dtype.primitive_bitwidth // 8)
    )
    mbarrier.expect(ready.index(slot), size)
    copy_block(first_from, [row, 0], ready.index(slot), first.index(slot))
    if MORE:
        copy_block(more_from, [row, first.shape[2]], ready.index(slot), more.index(slot))


@gluon.jit
def multiply(mine, GROUP: gl.constexpr, hooks: gl.constexpr, sizes: gl.constexpr):
    """Computes the rows of one group, of one tile after the other."""
    args, pair, part, tile, other, tiles, keys, q, more_q, copied = mine
    k, _, v, more_v, _, _, ready_v, free_v = copied
    CAUSAL: gl.constexpr = sizes[1]
    MORE_DEPTH: gl.constexpr = sizes[2]
    VALUE: gl.constexpr = sizes[3]
    MORE_VALUE: gl.constexpr = sizes[4]
    WIDE: gl.constexpr = sizes[5]
    STAGES: gl.constexpr = v.shape[0]
    ROWS: gl.constexpr = q.shape[0] * q.shape[1]
    done = 0
    for number in range(0, tiles):
        at = tl.where(number == 0, tile, other)
        blocks, _edge = walked(at, keys, ROWS, k.shape[1], CAUSAL)
        seen, edge = walked(at * q.shape[0] + GROUP, keys, q.shape[1], k.shape[1], CAUSAL)
        row = at * ROWS + GROUP * q.shape[1]
        store_q(args, hooks[0], pair, row, q.index(GROUP), 0)
        if MORE_DEPTH:
            store_q(args, hooks[0], pair, row, more_q.index(GROUP), q.shape[2])
        fence_async_shared()
        if CAUSAL:
            leave_unseen(done, blocks - seen, copied)
        done += blocks
        own = (q.index(GROUP), more_q.index(GROUP), row, keys, done - seen, seen, edge)
        acc, more, power, total = all_but_the_last_values(own, copied, sizes)
        last = (done - 1) % STAGES
        mbarrier.wait(ready_v.index(last), ((done - 1) // STAGES) & 1)
        weight = weights(total)
        acc = last_values(power, v.index(last), acc, weight)
        finish_piece(args, hooks[1], pair, part, row, 0, acc, v.dtype, WIDE)
        if MORE_VALUE:
            more = last_values(power, more_v.index(last), more, weight)
            finish_piece(args, hooks[1], pair, part, row, VALUE, more, v.dtype, WIDE)
        mbarrier.arrive(free_v.index(last))


@gluon.jit
def leave_unseen(done, blocks, copied):
    """Leaves blocks that only rows of other groups see."""
    k, _, _, _, ready_k, free_k, ready_v, free_v = copied
    STAGES: gl.constexpr = k.shape[0]
    for turn in range(0, blocks):
        slot = (done + turn) % STAGES
        phase = ((done + turn) // STAGES) & 1
        mbarrier.wait(ready_k.index(slot), phase)
        mbarrier.arrive(free_k.index(slot))
        mbarrier.wait(ready_v.index(slot), phase)
        mbarrier.arrive(free_v.index(slot))


@gluon.jit
def all_but_the_last_values(own, copied, sizes: gl.constexpr):
    """(sums of values, those of the second piece, the last block's powers, their sums)."""
    q, more_q, row, keys, done, blocks, edge = own
    k, more_k, v, more_v, ready_k, free_k, ready_v, free_v = copied
    SCALE: gl.constexpr = sizes[0]
    CAUSAL: gl.constexpr = sizes[1]
    MORE_DEPTH: gl.constexpr = sizes[2]
    MORE_VALUE: gl.constexpr = sizes[4]
    ROWS: gl.constexpr = q.shape[0]
    KEYS: gl.constexpr = k.shape[1]
    STAGES: gl.constexpr = k.shape[0]
    VALUE: gl.constexpr = v.shape[2]
    REST: gl.constexpr = more_v.shape[2]
    SCORE: gl.constexpr = tile_layout(KEYS)
    ACC: gl.constexpr = tile_layout(VALUE)
    MORE: gl.constexpr = tile_layout(REST)
    POWER: gl.constexpr = gl.DotOperandLayout(0, ACC, 2)
    top = gl.full([ROWS], float("-inf"), gl.float32, gl.SliceLayout(1, SCORE))
    total = gl.zeros([ROWS, 8], gl.float32, tile_layout(8))
    acc = gl.zeros([ROWS, VALUE], gl.float32, ACC)
    more = gl.zeros([ROWS, REST], gl.float32, MORE)
    none = gl.zeros([ROWS, KEYS], gl.float32, SCORE)
    place = done % STAGES
    mbarrier.wait(ready_k.index(place), (done // STAGES) & 1)
    begun = scores_begun(q, more_q, k.index(place), more_k.index(place), none, MORE_DEPTH)
    score = warpgroup_mma_wait(0, [begun])
    mbarrier.arrive(free_k.index(place))
    if edge > 0:
        score = seen_scores(score, row, (blocks - 1) * KEYS, keys, CAUSAL)
    power, change, top, total = group_powers(score, top, total, SCALE)
    power = gl.convert_layout(power.to(k.dtype), POWER)
    place = (done + 1) % STAGES
    mbarrier.wait(ready_k.index(place), ((done + 1) // STAGES) & 1, pred=blocks > 1)
    for turn in range(1, blocks):
        slot = (done + turn) % STAGES
        before = (done + turn - 1) % STAGES
        begun = scores_begun(q, more_q, k.index(slot), more_k.index(slot), none, MORE_DEPTH)
        mbarrier.wait(ready_v.index(before), ((done + turn - 1) // STAGES) & 1)
        weighed = warpgroup_mma(power, v.index(before), acc, is_async=True)
        if MORE_VALUE:
            also = gl.convert_layout(power, gl.DotOperandLayout(0, MORE, 2))
            weighed_more = warpgroup_mma(also, more_v.index(before), more, is_async=True)
        score = warpgroup_mma_wait(2 if MORE_VALUE else 1, [begun])
        mbarrier.arrive(free_k.index(slot))
        if turn < edge:
            score = seen_scores(score, row, (blocks - 1 - turn) * KEYS, keys, CAUSAL)
        next_power, change, top, total = group_powers(score, top, total, SCALE)
        next_power = gl.convert_layout(next_power.to(k.dtype), POWER)
        # A branch: the assembler would else move the wait for the product before the powers.
        after = done + turn + 1
        more_come = turn + 1 < blocks
        mbarrier.wait(ready_k.index(after % STAGES), (after // STAGES) & 1, pred=more_come)
        acc, power = warpgroup_mma_wait(0, [weighed, power])
        if MORE_VALUE:
            more = changed(warpgroup_mma_wait(0, [weighed_more]), change)
        mbarrier.arrive(free_v.index(before))
        acc = changed(acc, change)
        power = next_power
    return acc, more, power, total


@gluon.constexpr_function
def tile_layout(columns, bits=16):
    """How a group's threads hold a tile of the result of a product of numbers of so many bits."""
    return gl.NVMMADistributedLayout([3, 0], [4, 1], [16, columns, 256 // bits])


@gluon.jit
def changed(acc, factor):
    """A tile with its rows multiplied by factors."""
    return acc * gl.convert_layout(factor, gl.SliceLayout(1, acc.type.layout))[:, None]


@gluon.jit
def weights(total):
    """What sums are multiplied by at the end; 0 for rows that see no key."""
    sums = gl.sum(total, 1)
    return tl.where(sums == 0.0, 0.0, 1.0 / sums)


@gluon.jit
def last_values(power, v, acc, weight):
    """The rows of the result, of a piece of columns: with the last block's values."""
    A: gl.constexpr = acc.type.layout
    acc = warpgroup_mma(gl.convert_layout(power, gl.DotOperandLayout(0, A, 2)), v, acc)
    return changed(acc, weight)


@gluon.jit
def finish_piece(
    args, finish: gl.constexpr, pair, part, row, first, acc, dtype: gl.constexpr, WIDE: gl.constexpr
):
    """Stores a piece of columns; WIDE: rounded as operands are, so that threads exchange less."""
    ROWS: gl.constexpr = acc.shape[0]
    COLUMNS: gl.constexpr = acc.shape[1]
    L: gl.constexpr = stored_layout(ROWS, COLUMNS) if WIDE else acc.type.layout
    if WIDE:
        acc = gl.convert_layout(acc.to(dtype), L).to(gl.float32)
    m = row + gl.arange(0, ROWS, gl.SliceLayout(1, L))[:, None]
    n = first + gl.arange(0, COLUMNS, gl.SliceLayout(0, L))[None, :]
    finish(args, pair, part, m, n, acc, None, None)


@gluon.constexpr_function
def stored_layout(rows, columns):
    """How threads hold a tile of a product that is stored: eight columns each, side by side.

    Warps have the rows that they had, so that only their own threads exchange elements. As tensor
    cores leave it, a thread has pairs of columns, and a store fills half of what memory writes at
    once.
    """
    narrow = columns == 16
    registers = [[0, 1], [0, 2], [0, 4]] + ([] if narrow else [[8, 0]])
    registers += [[0, step] for step in (32, 64, 128) if step < columns]
    registers += [[step, 0] for step in (64, 128) if step < rows]
    lanes = [[0, 8], [8, 0] if narrow else [0, 16], [1, 0], [2, 0], [4, 0]]
    return gl.DistributedLinearLayout(registers, lanes, [[16, 0], [32, 0]], [], [rows, columns])


@gluon.jit
def store_q(args, load_q: gl.constexpr, pair, row, room_q, first):
    """Reads a group's queries into shared memory, in the columns from `first` on."""
    COLUMNS: gl.constexpr = room_q.shape[1]
    B: gl.constexpr = gl.BlockedLayout([1, 8], [256 // COLUMNS, COLUMNS // 8], [4, 1], [1, 0])
    m = row + gl.arange(0, room_q.shape[0], gl.SliceLayout(1, B))[:, None]
    c = first + gl.arange(0, COLUMNS, gl.SliceLayout(0, B))[None, :]
    room_q.store(load_q(args, pair, m, c))


@gluon.jit
def scores_begun(q, more_q, k, more_k, none, MORE_DEPTH: gl.constexpr):
    """Begins the products of a group's queries and a block of keys."""
    begun = warpgroup_mma(q, k.permute((1, 0)), none, use_acc=False, is_async=True)
    if MORE_DEPTH:
        begun = warpgroup_mma(more_q, more_k.permute((1, 0)), begun, is_async=True)
    return begun


@gluon.jit
def seen_scores(score, row, start, keys, CAUSAL: gl.constexpr):
    """Scores of a block at the edge: without those that rows do not see."""
    S: gl.constexpr = score.type.layout
    m = row + gl.arange(0, score.shape[0], gl.SliceLayout(1, S))[:, None]
    k = start + gl.arange(0, score.shape[1], gl.SliceLayout(0, S))[None, :]
    seen = (k < keys) & (m >= k) if CAUSAL else k < keys
    return tl.where(seen, score, float("-inf"))


@gluon.jit
def group_powers(score, top, total, SCALE: gl.constexpr):
    """As `powers`: sums are kept in the 8 columns after which a thread's own repeat."""
    best = tl.maximum(top, tl.max(score, 1) * SCALE)
    shift = tl.where(best == float("-inf"), 0.0, best)
    power = tl.exp2(score * SCALE - shift[:, None])
    change = tl.exp2(top - shift)
    sums = gl.sum(gl.reshape(power, [power.shape[0], power.shape[1] // 8, 8]), 1)
    each = gl.convert_layout(change, gl.SliceLayout(1, total.type.layout))
    total = total * each[:, None] + gl.convert_layout(sums, total.type.layout)
    return power, change, best, total
