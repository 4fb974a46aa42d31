"""QR of small matrices, and products with its reflections: columns lie across lanes.

A reflection's vector is taken out of one lane, element by element; then each lane has what it needs
to reflect its own column. Conventions are LAPACK's geqrf and ormqr.
"""

from __future__ import annotations

from aot.backends.triton.matrix_columns import Columns, Lane, of_letter
from aot.backends.triton.matrix_numbers import LaneNumber

WRITTEN = 8
"""Tensors of the largest matrices whose steps are written out: they are long."""


def _take_vector(c: Columns, names: list[str], live: list[str], lane: Lane) -> None:
    """Sets h0, h1, ... to what a lane has."""
    z = c.numbers
    for q, (name, alive) in enumerate(zip(names, live, strict=True)):
        value = z.from_lane(z.named(name), lane)
        z.let(f"h{q}", z.masked(alive, value) if alive else value)


def _scale_vector(c: Columns, count: int) -> None:
    """Makes it the vector behind its 1: of its length `norm`, and where it `turns`."""
    z = c.numbers
    over = begin_reflection(c, z.named("h0"))
    for q in range(1, count):
        z.let(f"h{q}", z.product(z.named(f"h{q}"), over))


def _reflector(c: Columns, names: list[str], live: list[str], lane: Lane) -> None:
    """Sets h0, h1, ...: the vector, behind its 1; beta, tau and `turns`, for all lanes."""
    z, line, count = c.numbers, c.line, len(names)
    _take_vector(c, names, live, lane)
    first = z.named("h0")
    line(f"most = {z.rough(first)}")
    behind = [f"tl.abs({part})" for part in first[1:]]
    behind += [z.rough(z.named(f"h{q}")) for q in range(1, count)]
    line(f"rest = {z.most('rest', behind or ['most * 0'])}")
    line("turns = rest != 0")
    line("most = larger(most, rest)")
    line("power, back = powers_near(most)")
    parts = [z.let(f"part{q}", z.times_real(z.named(f"h{q}"), "back")) for q in range(count)]
    line(f"norm, _ = near_root({z.total('norm', [z.square(part) for part in parts])})")
    line("norm *= power")
    _scale_vector(c, count)


def begin_reflection(c: Columns, first: LaneNumber) -> LaneNumber:
    """Sets beta, tau and `over`, by which a vector is multiplied so that its first is 1.

    Of its `first` element, its length `norm`, and where it `turns` at all.
    """
    z, line = c.numbers, c.line
    line(f"beta = tl.where({first[0]} < 0, norm, -norm)")
    line("safe = tl.where(turns, beta, 1)")
    less = (f"(beta - {first[0]})", *(f"(-{part})" for part in first[1:]))
    z.let("tau", z.masked("turns", z.over_real(less, "safe")))
    apart = z.let("over", z.where("turns", (f"({first[0]} - beta)", *first[1:]), z.real("1.0")))
    return z.over("over", z.real(f"tl.full({c.shape}, 1.0, {c.kind})"), apart, near=True)


def along(c: Columns, names: list[str]) -> LaneNumber:
    """Sets `along` to the product of the vector's adjoint and each lane's column."""
    z = c.numbers
    terms = [(z.named(name), z.conjugate(z.named(f"h{q}"))) for q, name in enumerate(names)]
    return z.sum("along", terms, unit=True)


def reflect(c: Columns, names: list[str], by: LaneNumber, *, conjugate: bool = False) -> None:
    """Takes the vector, or its `conjugate`, times `by` from each lane's column."""
    z = c.numbers
    own = z.named(names[0])
    z.let(names[0], tuple(f"{x} - {y}" for x, y in zip(own, by, strict=True)))
    for q in range(1, len(names)):
        h = z.named(f"h{q}")
        z.let(names[q], z.minus(z.named(names[q]), z.conjugate(h) if conjugate else h, by))


def _reflect_columns(c: Columns, k: Lane, names: list[str], live: list[str]) -> None:
    """A step of `qr`."""
    z, line = c.numbers, c.line
    _reflector(c, names, live, k)
    by = z.let("by", z.product(z.conjugate(z.named("tau")), along(c, names)))
    by = z.let("by", z.masked(f"(i > {k}) & turns", by))
    reflect(c, names, by)
    line(f"here = (i == {k}) & turns")
    z.let(names[0], z.where("here", z.real("beta"), z.named(names[0])))
    for q in range(1, len(names)):
        both = f"here & {live[q]}" if live[q] else "here"
        z.let(names[q], z.where(both, z.named(f"h{q}"), z.named(names[q])))
    z.let("taus", z.where(f"i == {k}", z.named("tau"), z.named("taus")))


def qr(c: Columns) -> None:
    """R and below it the reflections, and their taus."""
    z, (m, n) = c.numbers, (c.rows, c.columns)
    count = min(m, n)
    c.load("a", "a", c.words, m, across=True)
    z.let("taus", z.real(f"tl.zeros({c.shape}, {c.kind})"))
    c.walk("a", m, count, _reflect_columns, WRITTEN)
    _keep_across(c, "a", str(n), "0")
    for side, value in enumerate(z.named("taus")):
        first, part = c.parts * m * n + side * count, c.parts + side
        c.keep_lanes(f"tl.gather({value}, i, 1)", count, first, part)


def _keep_across(c: Columns, name: str, columns: str, start: str) -> None:
    """Stores columns from `start` on, a lane each."""
    c.line(f"column = {start} + tl.arange(0, {c.lanes})[None, :, None]")
    c.line(f"row = tl.arange(0, {c.words})[None, None, :]")
    for side in range(c.parts):
        there = f"{side * c.rows} * {columns} + row * {columns} + column"
        c.line(
            f"keep_part(args, finish, m, {there}, (row < {c.rows}) & (column < {columns}), record, "
            f"{c.tile(name, c.words, side)}, {side}, {side not in c.turned})"
        )


def reflections(c: Columns) -> None:
    """Products of reflections with b; their factors are a's last row."""
    m, back = c.rows, "back" in c.options
    count = min(m, c.columns)
    c.load("a", "a", c.words, m + 1, across=True)
    c.line(f"for start in range(0, right, {c.lanes}):")
    inner = c.inside()
    z = inner.numbers
    inner.load("b", "x", c.words, m, start="start", columns="right", across=True)
    for turn in range(count):
        k = turn if back else count - 1 - turn
        for j in range(k + 1, m):
            z.let(f"h{j - k}", z.from_lane(z.named(f"a{j}"), k))
        tau = z.let("tau", z.from_lane(z.named(f"a{m}"), k))
        names = [f"x{j}" for j in range(k, m)]
        by = z.let("by", z.product(z.conjugate(tau) if back else tau, along(inner, names)))
        reflect(inner, names, by)
    _keep_across(inner, "x", "right", "start")


# ---- least squares ----


def lstsq(c: Columns) -> None:
    """X of least norm that makes A X - B least, and A's rank; A has no fewer rows than columns.

    The column with the longest rest comes next, so that pivots sink, and the first that is nothing
    beside the greatest ends the rank.
    """
    line, (m, n) = c.line, (c.rows, c.columns)
    c.load("a", "a", c.words, m, across=True)
    c.load("b", "x", c.words, m, columns="right", across=True)
    line(f"order = tl.full({c.shape}, {c.lanes}, tl.int32)")
    line("chosen_at = i")
    line(f"rank = tl.zeros({c.shape}, tl.int32)")
    line(f"largest = tl.zeros({c.shape}, {c.kind})")
    line(f"pivots = tl.full({c.shape}, 1.0, {c.kind})")
    back = _scale_down(c)
    c.walk("ax", m, n, _reduce_longest, WRITTEN)
    _substitute_back(c)
    _least_norm(c)
    for k in range(n):
        c.numbers.let(f"x{k}", c.numbers.times_real(c.numbers.named(f"x{k}"), back))
    line(f"row = tl.reshape(tl.gather(chosen_at, i, 1), [{c.matrices}, 1, {c.lanes}])")
    line(f"column = tl.arange(0, {c.lanes})[None, :, None]")
    for side in range(c.parts):
        line(
            f"keep_part(args, finish, m, {side * n} * right + row * right + column, "
            f"(row < {n}) & (column < right), record, {c.tile('x', c.lanes, side)}, {side}, "
            f"{side not in c.turned})"
        )
    line("rank = tl.max(tl.gather(rank, i, 1), 1)[:, None]")
    line(f"keep_info(args, finish, m, {c.parts * n} * right, record, rank, {c.kind}, {c.parts})")


def _scale_down(c: Columns) -> str:
    """Multiplies a by a power of two near 1 / its greatest element: squares have room then."""
    z = c.numbers
    rows = [z.named(f"a{k}") for k in range(c.rows)]
    c.line(f"most = {z.most('most', [z.rough(x) for x in rows])}")
    c.line("power, back = powers_near(lanes_most(most))")
    for k, x in enumerate(rows):
        z.let(f"a{k}", z.times_real(x, "back"))
    return "back"


def _reduce_longest(c: Columns, k: Lane, names: list[str], live: list[str]) -> None:
    """A step of `lstsq`: the chosen lane's column becomes one of R.

    It is reflected even where it is nothing but its first element: nobody sees these signs.
    """
    z, line = c.numbers, c.line
    squares = [
        f"tl.where({alive}, {z.square(z.named(name))}, 0)" if alive else z.square(z.named(name))
        for name, alive in zip(names, live, strict=True)
    ]
    line(f"length = {z.total('length', squares)}")
    line("length = tl.where(length == length, length, float('inf'))")
    line(f"length = tl.where((order == {c.lanes}) & (i < {c.columns}), length, -1.0)")
    line(f"chosen = {c.greatest}(length, i)")
    line(f"order = tl.where(i == chosen, {k}, order)")
    line(f"chosen_at = tl.where(i == {k}, chosen, chosen_at)")
    _take_vector(c, names, live, "chosen")
    line("norm, _ = near_root(tl.gather(length, chosen, 1))")
    line("turns = norm != 0")
    _scale_vector(c, len(names))
    line("beta = tl.where(turns, beta, 0)")
    for side in (names, of_letter("x", names)):
        by = z.let("by", z.product(z.conjugate(z.named("tau")), along(c, side)))
        reflect(c, side, by)
    line(f"largest = tl.where({k} == 0, tl.abs(beta), largest)")
    least = c.rounding * max(c.rows, c.columns)
    line(f"counts = (rank == {k}) & (tl.abs(beta) > {least} * largest)")
    line("rank = tl.where(counts, rank + 1, rank)")
    line(f"pivots = tl.where(i == {k}, tl.where(counts, beta, 1), pivots)")


def _substitute_back(c: Columns) -> None:
    """X of R X = x for the first `rank` rows, and likewise for R's columns behind these."""
    line, n = c.line, c.columns
    line(f"inverses = near_quotient(tl.full({c.shape}, 1.0, {c.kind}), pivots)")
    line("loose = order >= rank")
    line("first = tl.min(tl.min(rank, 1), 0)")
    _substitute(c, "x")
    line(f"if first < {n}:")
    _substitute(c.inside(), "a", "loose")


def _substitute(c: Columns, name: str, which: str = "") -> None:
    """The same of lanes' columns x0, x1, ..., or of `which` lanes' own."""
    z, line = c.numbers, c.line
    for k in range(c.columns - 1, -1, -1):
        line(f"inverse = tl.gather(inverses, {z.lane(k)}, 1)")
        line(f"lane = tl.gather(chosen_at, {z.lane(k)}, 1)")
        line(f"counts = rank > {k}")
        own = z.named(f"{name}{k}")
        solved = z.let("solved", z.times_real(z.let("own", z.masked("counts", own)), "inverse"))
        z.let(f"{name}{k}", z.if_live(which, solved, own))
        for j in range(k):
            row = z.let("row", z.from_lane(z.named(f"a{j}"), "lane"))
            changed = z.minus(z.named(f"{name}{j}"), row, solved)
            z.let(f"{name}{j}", z.if_live(which, changed, z.named(f"{name}{j}")))


def _least_norm(c: Columns) -> None:
    """Takes what lies along the solutions of R X = 0 from X: their basis is made orthonormal."""
    line, n = c.line, c.columns
    line(f"for k in range(first, {n}):")
    inner = c.inside()
    z, line = inner.numbers, inner.line
    line("lane = tl.gather(chosen_at, i * 0 + k, 1)")
    line("counts = rank <= k")
    for j in range(n):
        own = z.named(f"a{j}")
        line(f"{own[0]} = tl.where(loose & (order == {j}) & (k == first), -1.0, {own[0]})")
    for j in range(n):
        z.let(f"h{j}", z.from_lane(z.named(f"a{j}"), "lane"))
    line(f"norm = {z.total('norm', [z.square(z.named(f'h{j}')) for j in range(n)])}")
    line("norm = tl.where(norm == 0, 1, norm)")
    for letter, which in (("x", "counts"), ("a", "counts & (order > k)")):
        pairs = [(z.named(f"{letter}{j}"), z.conjugate(z.named(f"h{j}"))) for j in range(n)]
        z.let("along", z.over_real(z.masked(which, z.sum("along", pairs)), "norm"))
        for j in range(n):
            own = z.named(f"{letter}{j}")
            z.let(f"{letter}{j}", z.minus(own, z.named(f"h{j}"), z.named("along")))
