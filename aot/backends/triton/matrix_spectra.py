"""Eigenvalues and vectors of small Hermitian matrices: by way of tridiagonal ones.

Columns lie across lanes while reflections make a matrix tridiagonal. Its values alone are found by
halving intervals, one value a lane, by the signs of Sturm's sequence (Givens; Wilkinson, The
Algebraic Eigenvalue Problem, 1965). With vectors it is implicit QL: all lanes find the rotations of
a sweep, and then each turns its own row of the basis, whose columns are tensors of their own.
"""

from __future__ import annotations

from aot.backends.triton.matrix_columns import Columns, Lane, of_letter
from aot.backends.triton.matrix_reflections import WRITTEN, along, begin_reflection, reflect
from aot.backends.triton.matrix_rotations import keep_values, scale

SWEEPS = 30
"""Of QL, at most, a row: LAPACK's."""

TOGETHER = 8
"""Rotations that are left out together where no matrix of a program has any of them."""

RESCALED = 4
"""Steps after which the sequence of a narrow type could leave its range."""


def eigh(c: Columns) -> None:
    """Eigenvalues of Hermitian matrices' lower triangles, and vectors but for "values"."""
    vectors = "values" not in c.options
    scale(c, "MIRRORED")
    _reduce(c, vectors)
    if vectors:
        _chase_all(c)
    else:
        _halve(c)
    keep_values(c, "diagonal", down=False)
    if vectors:
        _keep_vectors(c)


def _tiny(c: Columns) -> float:
    """Squares no greater than this are of numbers that are nothing beside 1, and inexact."""
    return 1e-30 if c.rounding > 1e-10 else 1e-280


def _reduce(c: Columns, vectors: bool) -> None:
    """Sets `diagonal` and `beside`, a number a lane; `vectors`: and columns q of the basis."""
    z, line, n = c.numbers, c.line, c.columns
    for name in ("diagonal", "beside"):
        line(f"{name} = tl.zeros({c.shape}, {c.kind})")
    if vectors:
        for k in range(c.words):
            z.let(f"q{k}", z.real(f"tl.where(i == {k}, 1.0, 0.0).to({c.kind})"))
    c.walk("wq" if vectors else "w", n, n - 1, _turn_both if vectors else _turn_one, WRITTEN)
    line(f"diagonal = tl.where(i == {n - 1}, {z.named(f'w{n - 1}')[0]}, diagonal)")


def _turn_both(c: Columns, k: Lane, names: list[str], live: list[str]) -> None:
    """A step of the reduction, and of the basis."""
    _turn_one(c, k, names, live)
    z, columns = c.numbers, of_letter("q", names[1:])
    terms = [(z.named(name), z.named(f"h{q}")) for q, name in enumerate(columns)]
    by = z.let("by", z.product(z.sum("by", terms, unit=True), z.named("tau")))
    reflect(c, columns, by, conjugate=True)


def _turn_one(c: Columns, k: Lane, names: list[str], live: list[str]) -> None:
    """A step of the reduction; lanes up to k, and those behind the matrix, have 0 throughout.

    The vector is taken from row k, whose elements lie across lanes: it is the same for all that way
    whatever rounding does to elements that mirror each other.
    """
    z, line, below = c.numbers, c.line, names[1:]
    own = z.named(names[0])
    line(f"diagonal = tl.where(i == {k}, {own[0]}, diagonal)")
    x = z.let("x", z.masked(f"i > {k}", z.conjugate(own)))
    for q in range(len(below)):
        z.let(f"h{q}", z.from_lane(x, c.lane_after(k, q + 1)))
    squares = [z.square(z.named(f"h{q}")) for q in range(1, len(below))]
    first = z.named("h0")
    line(f"rest = {z.total('rest', squares) if squares else 'diagonal * 0'}")
    crossed = f"rest + {first[1]} * {first[1]}" if c.parts == 2 else "rest"
    line(f"turns = {crossed} > {_tiny(c)}")
    line(f"norm, _ = near_root({z.square(first)} + rest)")
    begin_reflection(c, first)
    line(f"beside = tl.where(i == {k}, tl.where(turns, beta, {first[0]}), beside)")
    v = z.let("v", z.where(f"i == {k} + 1", z.real("1.0"), z.product(x, z.named("over"))))
    for q in range(1, len(below)):
        z.let(f"h{q}", z.product(z.named(f"h{q}"), z.named("over")))
    product = z.conjugate(along(c, below))
    p = z.let("p", z.masked(f"i > {k}", z.product(z.named("tau"), product)))
    dots = z.let("dot", z.product(z.conjugate(p), v))
    dot = z.let("dot", tuple(f"lanes_sum({part}) * -0.5" for part in dots))
    half = z.let("half", z.product(z.named("tau"), dot))
    p = z.let("p", z.plus(p, half, v))
    reflect(c, below, z.conjugate(p))
    for q, name in enumerate(below):
        row = z.let("row", z.from_lane(p, c.lane_after(k, q + 1)))
        z.let(name, z.minus(z.named(name), row, z.conjugate(v)))


def _chase_all(c: Columns) -> None:
    """Makes `diagonal` the eigenvalues, and columns q the vectors."""
    line, n = c.line, c.columns
    line("sweep = 0")
    line("going = 1")
    line(f"while (sweep < {SWEEPS * n}) & (going > 0):")
    inner = c.inside()
    line = inner.line
    line(f"after = tl.gather(diagonal, tl.minimum(i + 1, {c.lanes - 1}), 1)")
    small = f"{(c.rounding / 2) ** 2} * tl.abs(diagonal * after) + {c.rounding**4}"
    line(f"small = (beside * beside <= {small}) | (i >= {n - 1})")
    line("beside = tl.where(small, 0, beside)")
    line(f"low = lanes_least(tl.where(small, {c.lanes}, i))")
    line(f"high = lanes_least(tl.where(small & (i >= low), i, {c.lanes - 1}))")
    line(f"live = low < {c.lanes}")
    line("count = tl.max(tl.max(tl.where(live, high - low, 0), 1), 0)")
    line("bottom = tl.min(tl.min(low, 1), 0)")
    line("top = tl.max(tl.max(tl.where(live, high, 0), 1), 0)")
    line("going = count")
    _chase(inner)
    for base in range((n - 2) // TOGETHER * TOGETHER, -1, -TOGETHER):
        last = min(base + TOGETHER, n - 1)
        line(f"if (top > {base}) & (bottom < {last}):")
        _apply(inner.inside(), range(last - 1, base - 1, -1))
    line("sweep += 1")


def _chase(c: Columns) -> None:
    """A sweep of QL from `high` up to `low`: rotations `cosines`, `sines`, by the second column.

    Wilkinson's shift; the statements are those of EISPACK's tql2.
    """
    line = c.line
    line(f"at = tl.minimum(low, {c.lanes - 2})")
    line("corner = tl.gather(diagonal, at, 1)")
    line("between = tl.where(live, tl.gather(beside, at, 1), 1)")
    line("g = near_quotient(tl.gather(diagonal, at + 1, 1) - corner, between + between)")
    line("size, _ = near_root(g * g + 1)")
    line("upper = tl.gather(diagonal, high, 1)")
    line("g = upper - corner + near_quotient(between, g + tl.where(g < 0, -size, size))")
    line("cosine = tl.full(g.shape, 1.0, g.dtype)")
    line("sine = cosine")
    line("cosines = cosine")
    line("sines = cosine * 0")
    line("p = cosine * 0")
    # What is read of these a rotation has not changed yet: reading need not wait for it.
    line("diagonals, besides = diagonal, beside")
    line("k = tl.maximum(high - 1, 0)")
    line("own, between = tl.gather(diagonals, k, 1), tl.gather(besides, k, 1)")
    line("for t in range(count):")
    _chase_step(c.inside())
    line("here = (i == low) & live")
    line("diagonal = tl.where(here, diagonal - p, diagonal)")
    line("beside = tl.where(here, g, beside)")


def _chase_step(c: Columns) -> None:
    """Rotation t of a sweep, or none where a matrix of the program has had all of its own."""
    line, single = c.line, c.matrices == 1
    line("k = high - 1 - t")
    if not single:
        line("on = live & (k >= low)")
    line(f"here = (i == k + 1){'' if single else ' & on'}")
    line("k = tl.maximum(k - 1, 0)")
    line("own_next, between_next = tl.gather(diagonals, k, 1), tl.gather(besides, k, 1)")
    line("f = sine * between")
    line("b = cosine * between")
    line("square = f * f + g * g")
    line(f"known = square > {_tiny(c)}")
    line("cosine, sine = direction(g, f, square, known)")
    line("beside = tl.where(here & (t > 0), cosine * g + sine * f, beside)")
    line("rest = upper - p")
    line("turned = (own - rest) * sine + 2 * cosine * b")
    line("more = sine * turned")
    line("diagonal = tl.where(here, rest + more, diagonal)")
    line("cosines = tl.where(here, cosine, cosines)")
    line("sines = tl.where(here, sine, sines)")
    if single:
        line("g, p, upper = cosine * turned - b, more, own")
    else:
        line("g = tl.where(on, cosine * turned - b, g)")
        line("p = tl.where(on, more, p)")
        line("upper = tl.where(on, own, upper)")
    line("own, between = own_next, between_next")


def _apply(c: Columns, rotations: range) -> None:
    """Turns columns q and their neighbours."""
    z = c.numbers
    for k in rotations:
        lane = z.lane(k + 1)
        c.line(f"c, s = tl.gather(cosines, {lane}, 1), tl.gather(sines, {lane}, 1)")
        own, other = z.named(f"q{k}"), z.named(f"q{k + 1}")
        for x, y in zip(own, other, strict=True):
            c.line(f"{x}, {y} = c * {x} - s * {y}, s * {x} + c * {y}")


def _halve(c: Columns) -> None:
    """Makes `diagonal` the eigenvalues: lane i has the one with i smaller ones."""
    line, n = c.line, c.columns
    line(f"beside = tl.where(i < {n - 1}, beside, 0)")
    line("before = tl.where(i > 0, tl.gather(beside, tl.maximum(i - 1, 0), 1), 0)")
    line("radius = tl.abs(beside) + tl.abs(before)")
    for name, sign, end in (("low", "-", "inf"), ("high", "+", "-inf")):
        way = "lanes_least" if name == "low" else "lanes_most"
        line(f"{name} = {way}(tl.where(i < {n}, diagonal {sign} radius, float('{end}')))")
    line(f"radius = {8 * c.rounding} * tl.maximum(tl.abs(low), tl.abs(high))")
    line("low, high = low - radius, high + radius")
    for k in range(n):
        line(f"d{k} = tl.gather(diagonal, {c.numbers.lane(k)}, 1)")
    line("beside = beside * beside")
    for k in range(n - 1):
        line(f"e{k} = tl.gather(beside, {c.numbers.lane(k)}, 1)")
    line("going = 1")
    line("while going > 0:")
    inner = c.inside()
    line = inner.line
    line("middle = (low + high) * 0.5")
    _count_below(inner)
    line("below = count > i")
    line("high = tl.where(below, middle, high)")
    line("low = tl.where(below, low, middle)")
    line("most = tl.maximum(tl.abs(low), tl.abs(high))")
    line(f"wide = high - low > {c.rounding} * most + {c.rounding / 2**16}")
    line(f"going = tl.max(tl.max((wide & (i < {n})).to(tl.int32), 1), 0)")
    c.line("diagonal = (low + high) * 0.5")


def _count_below(c: Columns) -> None:
    """Sets `count`: how many eigenvalues are below `middle`.

    Determinants of leading parts, of which one that is 0 counts as of the other sign than the last
    one. Only their signs and quotients matter, so that powers of two keep them in range.
    """
    line = c.line
    line("before = tl.full(middle.shape, 1.0, middle.dtype)")
    line("count = tl.zeros(middle.shape, tl.int32)")
    for k in range(c.columns):
        if k == 0:
            line("here = d0 - middle")
        else:
            line(f"after = (d{k} - middle) * here - e{k - 1} * before")
            line("before, here = here, after")
        line(f"here = tl.where(here == 0, {-c.rounding / 8} * before, here)")
        line("count += ((here < 0) != (before < 0)).to(tl.int32)")
        if k % RESCALED == RESCALED - 1 and k < c.columns - 1:
            line("near, back = powers_near(tl.maximum(tl.abs(here), tl.abs(before)))")
            line("here, before = here * back, before * back")


def _keep_vectors(c: Columns) -> None:
    """Stores columns q by their values' order."""
    z, line, n = c.numbers, c.line, c.columns
    for k in range(c.words):
        own = z.named(f"q{k}")
        z.let(f"q{k}", z.where("wrong", tuple("float('nan')" for _ in own), own))
    line("row = i[:, :, None]")
    line(f"column = tl.reshape(tl.gather(rank, i, 1), [{c.matrices}, 1, {c.lanes}])")
    for side in range(c.parts):
        line(
            f"keep_part(args, finish, m, {n + side * n * n} + row * {n} + column, "
            f"(row < {n}) & (column < {n}), record, {c.tile('q', c.words, side)}, "
            f"{1 + side}, {1 + side in c.turned})"
        )
