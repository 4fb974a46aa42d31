"""Attention in one pass over the keys.

A program keeps a block of queries and walks blocks of keys: the softmax is computed online, from a
running maximum and sum of each row (Dao et al., FlashAttention, NeurIPS 2022; Dao,
FlashAttention-2, ICLR 2024). Exponentials are powers of two of scores that carry the factor
log2(e); under a mask that is added, their differences carry it: the mask's lowest number must not
become an infinity, since a row of such numbers is the mean of all values.
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
    VALUE: tl.constexpr,
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
    load_first_mask(args, pair, m, k): the same of the first block, where blocks are read ahead of
    their use: small ones, which nothing pipelines. sees(args, m, k): whether rows see keys at the
    edge; None if all do. finish(args, pair, part, m, n, acc, top, total): stores what rows become.

    Scores are multiplied by SCALE, LATE together with the exponential. The mask is ADDED to them,
    or says which of them count. CAUSAL: queries see the keys up to their own position. PACKED: rows
    are those of several heads. PARTS: programs walk `part_keys` keys each. KEYS: those of a step.
    EDGE: those of a step at the edge, 0 if there is none. WHOLE: there are other steps. LANES:
    columns that a row's sum is kept in, or 0.
    """
    pair, part, first, second = locate(args, program)
    # The tile in the middle is its own partner: it is computed once.
    turns = tl.minimum(first - second + 1, 2) if PAIRED else 1
    for turn in range(0, turns):
        tile = tl.where(turn == 0, first, second) if PAIRED else first
        m = tile * ROWS + tl.arange(0, ROWS)[:, None]
        c = tl.arange(0, DEPTH)[None, :]
        n = tl.arange(0, VALUE)[None, :]
        q = load_q(args, pair, m, c)
        top = tl.full([ROWS], float("-inf"), tl.float32)
        total = tl.zeros([ROWS, LANES] if LANES else [ROWS], tl.float32)
        acc = tl.zeros([ROWS, VALUE], tl.float32)
        begin, whole, end = key_range(
            tile, part, queries, keys, part_keys, ROWS, KEYS, CAUSAL, PACKED, PARTS
        )
        if WHOLE:
            if load_first_mask is not None:
                seen = load_first_mask(args, pair, m, begin + tl.arange(0, KEYS)[None, :])
            for start in range(begin, whole, KEYS):
                k = start + tl.arange(0, KEYS)[:, None]
                transposed = tl.trans(load_k(args, pair, k, c, EDGE=False))
                score = scores(q, transposed, SCALE, LATE, PRECISION)
                if load_first_mask is not None:
                    score = with_mask(score, seen, ADDED)
                    after = tl.minimum(start + KEYS, whole - KEYS) + tl.arange(0, KEYS)[None, :]
                    seen = load_mask(args, pair, m, after, EDGE=False)
                elif load_mask is not None:
                    columns = start + tl.arange(0, KEYS)[None, :]
                    score = with_mask(score, load_mask(args, pair, m, columns, EDGE=False), ADDED)
                power, change, top = powers(score, top, SCALE, LATE, ADDED)
                total = add_powers(total, power, change, LANES)
                v = load_v(args, pair, k, n, EDGE=False)
                acc = values_added(acc * change[:, None], power, v, PRECISION)
        if EDGE:
            for start in range(whole, end, EDGE):
                k = start + tl.arange(0, EDGE)[:, None]
                columns = start + tl.arange(0, EDGE)[None, :]
                transposed = tl.trans(load_k(args, pair, k, c, EDGE=True))
                score = scores(q, transposed, SCALE, LATE, PRECISION)
                if load_mask is not None:
                    score = with_mask(score, load_mask(args, pair, m, columns, EDGE=True), ADDED)
                if sees is not None:
                    score = tl.where(sees(args, m, columns), score, float("-inf"))
                power, change, top = powers(score, top, SCALE, LATE, ADDED)
                total = add_powers(total, power, change, LANES)
                v = load_v(args, pair, k, n, EDGE=True)
                acc = values_added(acc * change[:, None], power, v, PRECISION)
        total = tl.sum(total, 1) if LANES else total
        if PARTS:
            top = top if ADDED else top * 0.6931471805599453
        else:
            weight = tl.where(total == 0.0, 0.0, 1.0 / total)
            acc = acc * weight[:, None]
        finish(args, pair, part, m, n, acc, top[:, None], total[:, None])


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
def scores(q, transposed, SCALE: tl.constexpr, LATE: tl.constexpr, PRECISION: tl.constexpr):
    """Products of queries and keys; unless LATE, they carry their factor."""
    score = tl.dot(q, transposed, input_precision=PRECISION)
    return score if LATE else score * SCALE


@triton.jit
def values_added(acc, power, v, PRECISION: tl.constexpr):
    """`acc` and the values of a block, weighted."""
    return tl.dot(power.to(v.dtype), v, acc, input_precision=PRECISION)


@triton.jit
def with_mask(score, seen, ADDED: tl.constexpr):
    """Scores under a mask: of numbers, which are ADDED, or of what is seen."""
    return score + seen.to(tl.float32) if ADDED else tl.where(seen, score, float("-inf"))


@triton.jit
def powers(score, top, SCALE: tl.constexpr, LATE: tl.constexpr, ADDED: tl.constexpr):
    """(exponentials of scores, what they change those before by, the new greatest scores)."""
    best = tl.max(score, 1)
    best = tl.maximum(top, best * SCALE if LATE else best)
    # While everything was -inf, any finite shift leaves the exponentials 0.
    shift = tl.where(best == float("-inf"), 0.0, best)
    power = (score * SCALE if LATE else score) - shift[:, None]
    change = top - shift
    if ADDED:
        power, change = power * 1.4426950408889634, change * 1.4426950408889634
    return tl.exp2(power), tl.exp2(change), best


@triton.jit
def add_powers(total, power, change, LANES: tl.constexpr):
    """The sums of exponentials, in LANES columns: threads then exchange none inside the loop."""
    if LANES:
        shape: tl.constexpr = [power.shape[0], power.shape[1] // LANES, LANES]
        total = total * change[:, None] + tl.sum(tl.reshape(power, shape), 1)
    else:
        total = total * change + tl.sum(power, 1)
    return total
