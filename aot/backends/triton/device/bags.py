"""Reductions over bags: runs of points whose ends are data, each point a row of a matrix."""

import triton
import triton.language as tl


@triton.jit
def walk_bags(
    args,
    bounds,
    load,
    finish,
    program,
    across,
    points,
    combine,
    KIND: tl.constexpr,
    NEUTRAL: tl.constexpr,
    BAGS: tl.constexpr,
    COLUMNS: tl.constexpr,
    STEP: tl.constexpr,
):
    """Reduces BAGS bags, COLUMNS columns of them, point by point in order.

    bounds(args, m): where bags m begin and end; both 0 beyond the last bag.
    load(args, p, n): the elements of points p at columns n; any beyond the last point.
    finish(args, m, n, reduced): stores what results become.
    across: blocks of columns. points: how many there are; bags are cut to those.
    combine(a, b): one result of two of the type KIND; NEUTRAL changes none.
    STEP: points whose elements are read before the first of them is used.
    """
    m = (program // across) * BAGS + tl.arange(0, BAGS)[:, None]
    n = (program % across) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    begin, end = bounds(args, m)
    begin, end = tl.maximum(begin, 0), tl.minimum(end, points)
    longest = tl.max(tl.max(end - begin, 1), 0)
    reduced = tl.full([BAGS, COLUMNS], NEUTRAL, KIND)
    for start in range(0, longest, STEP):
        first = begin + start
        values = ()
        for turn in tl.static_range(STEP):
            values += (load(args, tl.where(first + turn < end, first + turn, points), n).to(KIND),)
        for turn in tl.static_range(STEP):
            reduced = tl.where(first + turn < end, combine(reduced, values[turn]), reduced)
    finish(args, m, n, reduced)


@triton.jit
def spread_bags(
    args,
    bounds,
    load,
    total,
    finish,
    program,
    points,
    combine,
    KIND: tl.constexpr,
    NEUTRAL: tl.constexpr,
    BAGS: tl.constexpr,
    POINTS: tl.constexpr,
):
    """Reduces BAGS bags of rows of one element, POINTS points of each at once.

    load(args, p, n): as above; points are rows, flat. total(args, values): values (BAGS, POINTS)
    reduced along points. The order in a bag is that of a tree, the same one in every run.
    """
    m = program * BAGS + tl.arange(0, BAGS)[:, None]
    n = tl.full([1, 1], 0, tl.int32)
    begin, end = bounds(args, m)
    begin, end = tl.maximum(begin, 0), tl.minimum(end, points)
    longest = tl.max(tl.max(end - begin, 1), 0)
    reduced = tl.full([BAGS, POINTS], NEUTRAL, KIND)
    for start in range(0, longest, POINTS):
        p = begin + start + tl.arange(0, POINTS)[None, :]
        inside = p < end
        flat = tl.reshape(tl.where(inside, p, points), [BAGS * POINTS, 1])
        values = tl.reshape(load(args, flat, n), [BAGS, POINTS]).to(KIND)
        reduced = tl.where(inside, combine(reduced, values), reduced)
    finish(args, m, n, total(args, reduced)[:, None])
