"""Attention in one pass over the keys.

A program keeps a block of queries and walks blocks of keys: the softmax is computed online, from a
running maximum and sum of each row (Dao et al., FlashAttention, NeurIPS 2022; Dao,
FlashAttention-2, ICLR 2024). Exponentials are powers of two of scores that carry the factor
log2(e); under a mask that is added, their differences carry it: the mask's lowest number must not
become an infinity, since a row of such numbers is the mean of all values.

Of `attention`'s constants: scores are multiplied by SCALE, LATE together with the exponential. The
mask is ADDED to them, or says which of them count. CAUSAL: queries see the keys up to their own
position. PACKED: rows are those of several heads. PARTS: programs walk `part_keys` keys each. KEYS:
those of a step. EDGE: those of a step at the edge, 0 if there is none. WHOLE: there are other
steps. LANES: columns that a row's sum is kept in, or 0. MORE_DEPTH, MORE_VALUE: columns of queries
and of values behind the first DEPTH and VALUE, multiplied by themselves, or 0: sizes between two
powers of two.
"""

import triton
import triton.language as tl


@triton.jit
def attention(
    args,
    locate,
    load_q,
    load_k,
    load_v,
    load_mask,
    load_first_mask,
    sees,
    finish,
    program,
    queries,
    keys,
    part_keys,
    SCALE: tl.constexpr,
    LATE: tl.constexpr,
    ADDED: tl.constexpr,
    CAUSAL: tl.constexpr,
    PACKED: tl.constexpr,
    PAIRED: tl.constexpr,
    PARTS: tl.constexpr,
    ROWS: tl.constexpr,
    DEPTH: tl.constexpr,
    MORE_DEPTH: tl.constexpr,
    VALUE: tl.constexpr,
    MORE_VALUE: tl.constexpr,
    KEYS: tl.constexpr,
    WHOLE: tl.constexpr,
    EDGE: tl.constexpr,
    LANES: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Computes a tile of ROWS queries of one head or, where PAIRED, a long tile and a short one.

    locate(args, program): (number of the head in the batch, part of the keys, tile, other tile).
    load_q(args, pair, m, c), load_k(args, pair, k, c, EDGE) and load_v(args, pair, k, n, EDGE):
    blocks of the operands, 0 beyond the end. load_mask(args, pair, m, k, EDGE): the mask, or None;
    load_first_mask(args, pair, m, k): the same of the first block, where small blocks are read
    ahead. sees(args, m, k): whether rows see keys at the edge; None if all do.
    finish(args, pair, part, m, n, acc, top, total): stores what rows become.
    """
    pair, part, first, second = locate(args, program)
    # The tile in the middle is its own partner: it is computed once.
    turns = tl.minimum(first - second + 1, 2) if PAIRED else 1
    for turn in range(0, turns):
        tile = tl.where(turn == 0, first, second) if PAIRED else first
        m = tile * ROWS + tl.arange(0, ROWS)[:, None]
        n = columns(VALUE)
        q = load_q(args, pair, m, columns(DEPTH))
        other_q = load_q(args, pair, m, columns(MORE_DEPTH) + DEPTH) if MORE_DEPTH else None
        top = tl.full([ROWS], float("-inf"), tl.float32)
        total = tl.zeros([ROWS, LANES] if LANES else [ROWS], tl.float32)
        acc = tl.zeros([ROWS, VALUE], tl.float32)
        if MORE_VALUE:
            more = tl.zeros([ROWS, MORE_VALUE], tl.float32)
        begin, whole, end = key_range(
            tile, part, queries, keys, part_keys, ROWS, KEYS, CAUSAL, PACKED, PARTS
        )
        if WHOLE:
            if load_first_mask is not None:
                seen = load_first_mask(args, pair, m, begin + columns(KEYS))
            for start in range(begin, whole, KEYS):
                k = start + tl.arange(0, KEYS)[:, None]
                score = scores(args, load_k, pair, k, q, other_q, SCALE, LATE, PRECISION, 0)
                if load_first_mask is not None:
                    score = with_mask(score, seen, ADDED)
                    after = tl.minimum(start + KEYS, whole - KEYS) + columns(KEYS)
                    seen = load_mask(args, pair, m, after, EDGE=False)
                elif load_mask is not None:
                    seen = load_mask(args, pair, m, start + columns(KEYS), EDGE=False)
                    score = with_mask(score, seen, ADDED)
                power, change, top, total = powers(score, top, total, SCALE, LATE, ADDED, LANES)
                acc = with_values(args, load_v, pair, k, 0, acc, power, change, PRECISION, 0)
                if MORE_VALUE:
                    more = with_values(
                        args, load_v, pair, k, VALUE, more, power, change, PRECISION, 0
                    )
        if EDGE:
            for start in range(edge_begin(whole, program, q.dtype), end, EDGE):
                k = start + tl.arange(0, EDGE)[:, None]
                score = scores(args, load_k, pair, k, q, other_q, SCALE, LATE, PRECISION, 1)
                if load_mask is not None:  # not `seen`, which a loop carries in another shape
                    edge = load_mask(args, pair, m, start + columns(EDGE), EDGE=True)
                    score = with_mask(score, edge, ADDED)
                if sees is not None:
                    score = tl.where(sees(args, m, start + columns(EDGE)), score, float("-inf"))
                power, change, top, total = powers(score, top, total, SCALE, LATE, ADDED, LANES)
                acc = with_values(args, load_v, pair, k, 0, acc, power, change, PRECISION, 1)
                if MORE_VALUE:
                    more = with_values(
                        args, load_v, pair, k, VALUE, more, power, change, PRECISION, 1
                    )
        total = tl.sum(total, 1) if LANES else total
        if PARTS:
            top = top if ADDED else top * 0.6931471805599453
        weight = 1.0 if PARTS else tl.where(total == 0.0, 0.0, 1.0 / total)[:, None]
        finish(args, pair, part, m, n, acc * weight, top[:, None], total[:, None])
        if MORE_VALUE:
            n = columns(MORE_VALUE) + VALUE
            finish(args, pair, part, m, n, more * weight, top[:, None], total[:, None])


@triton.jit
def edge_begin(whole, program, DTYPE: tl.constexpr):
    """Where steps at the edge begin; of float32 as a number that no compiler knows.

    Steps whose number it knows are no loop, and what they hold beside the loop of whole blocks
    spills: 8 heads of 256 with 6460 keys and a bias had 32 registers and 17 KB of a thread in
    memory, and took 184 ms on an H200 (eager 10); as a loop 255 registers and 0.8 KB.
    """
    return whole + (program >> 30) if tl.float32 == DTYPE else whole


@triton.jit
def key_range(
    tile,
    part,
    queries,
    keys,
    part_keys,
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
    CAUSAL: tl.constexpr,
    PACKED: tl.constexpr,
    PARTS: tl.constexpr,
):
    """(begin, whole, end) of the keys of a tile: blocks before `whole` are seen by all its rows.

    All parts but the last one with keys are whole blocks, so that what is left over is as long as
    without parts.
    """
    begin, end = 0, keys
    whole = keys // KEYS * KEYS
    if PARTS:
        begin = part * part_keys
        end = tl.minimum(keys, begin + part_keys)
        whole = tl.minimum(whole, end)
    if CAUSAL:
        first = 0 if PACKED else tile * ROWS
        last = queries - 1 if PACKED else (tile + 1) * ROWS - 1
        whole = tl.minimum(whole, (first + 1) // KEYS * KEYS)
        end = tl.minimum(end, last + 1)
    if PARTS:
        whole = tl.maximum(whole, begin)
    return begin, whole, end


@triton.jit
def columns(COUNT: tl.constexpr):
    """Numbers of columns, from 0."""
    return tl.arange(0, COUNT)[None, :]


@triton.jit
def scores(
    args,
    load_k,
    pair,
    k,
    q,
    other_q,
    SCALE: tl.constexpr,
    LATE: tl.constexpr,
    PRECISION: tl.constexpr,
    EDGE: tl.constexpr,
):
    """Products of queries (`other_q`: their columns behind those of `q`, or None) and keys."""
    block = load_k(args, pair, k, columns(q.shape[1]), EDGE=EDGE)
    score = tl.dot(q, tl.trans(block), input_precision=PRECISION)
    if other_q is not None:
        block = load_k(args, pair, k, columns(other_q.shape[1]) + q.shape[1], EDGE=EDGE)
        score = tl.dot(other_q, tl.trans(block), score, input_precision=PRECISION)
    return score if LATE else score * SCALE


@triton.jit
def with_values(
    args,
    load_v,
    pair,
    k,
    first,
    acc,
    power,
    change,
    PRECISION: tl.constexpr,
    EDGE: tl.constexpr,
):
    """What there was, changed, and a block's values in the columns from `first` on, weighted."""
    v = load_v(args, pair, k, columns(acc.shape[1]) + first, EDGE=EDGE)
    return tl.dot(power.to(v.dtype), v, acc * change[:, None], input_precision=PRECISION)


@triton.jit
def with_mask(score, seen, ADDED: tl.constexpr):
    """Scores under a mask: of numbers, which are ADDED, or of what is seen."""
    return score + seen.to(tl.float32) if ADDED else tl.where(seen, score, float("-inf"))


@triton.jit
def powers(
    score,
    top,
    total,
    SCALE: tl.constexpr,
    LATE: tl.constexpr,
    ADDED: tl.constexpr,
    LANES: tl.constexpr,
):
    """(exponentials of scores, what they change those before by, greatest scores, sums)."""
    best = tl.max(score, 1)
    best = tl.maximum(top, best * SCALE if LATE else best)
    # While everything was -inf, any finite shift leaves the exponentials 0.
    shift = tl.where(best == float("-inf"), 0.0, best)
    power = (score * SCALE if LATE else score) - shift[:, None]
    change = top - shift
    if ADDED:
        power, change = power * 1.4426950408889634, change * 1.4426950408889634
    power, change = tl.exp2(power), tl.exp2(change)
    return power, change, best, add_powers(total, power, change, LANES)


@triton.jit
def add_powers(total, power, change, LANES: tl.constexpr):
    """The sums of exponentials, in LANES columns: threads then exchange none inside the loop."""
    if LANES:
        shape: tl.constexpr = [power.shape[0], power.shape[1] // LANES, LANES]
        total = total * change[:, None] + tl.sum(tl.reshape(power, shape), 1)
    else:
        total = total * change + tl.sum(power, 1)
    return total
