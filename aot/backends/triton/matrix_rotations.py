"""Singular values of small matrices: columns lie across lanes, and are turned.

One-sided Jacobi: in round r of a sweep lanes i and i ^ r make a pair, whose columns are made
orthogonal, so that all pairs of a round turn at once, and rounds 1 to lanes - 1 meet every pair.
A column is in one lane, so that products of columns need nothing of other lanes but the partner's.
(Brent and Luk, The solution of singular-value and symmetric eigenvalue problems on multiprocessor
arrays, SIAM J. Sci. Stat. Comput. 1985.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from aot.backends.triton.matrix_columns import Columns
from aot.backends.triton.matrix_numbers import LaneNumber

SWEEPS = 40
"""At most."""


def _inside(c: Columns, depth: int = 1) -> Columns:
    """The same statements, in a loop."""
    line: Callable[[str], None] = c.line
    return replace(c, line=lambda text: line("    " * depth + text))


def _rows(c: Columns, name: str) -> list[LaneNumber]:
    """Each lane's column, or a share of it."""
    count = c.rows if c.shares == 1 else c.words // c.shares
    return [c.numbers.named(f"{name}{k}") for k in range(count)]


def scale(c: Columns, which: str) -> None:
    """Loads columns w0, w1, ...; sizes of tiny and huge ones have squares then."""
    z, line = c.numbers, c.line
    c.load("a", "w", c.words, c.rows, which=which, across=True)
    line(f"finite = tl.full({c.shape}, 1, tl.int32)")
    line(f"most = tl.zeros({c.shape}, {c.kind})")
    for x in _rows(c, "w"):
        line(f"size = {z.rough(x)}")
        line("finite = tl.where(size < float('inf'), finite, 0)")
        line("most = tl.where(size > most, size, most)")
    c.over_shares("min", "finite")
    c.over_shares("max", "most")
    line("finite = lanes_least(finite)")
    line("most = lanes_most(most)")
    line("scale, back = powers_near(most)")
    for k, x in enumerate(_rows(c, "w")):
        z.let(f"w{k}", z.times_real(z.let("x", z.masked("finite != 0", x)), "back"))


def keep_values(c: Columns, values: str, *, down: bool) -> None:
    """Stores what each lane has, in order; sets `rank` and `wrong`."""
    c.line(f"rank = lanes_before({values}, {c.columns}, {down})")
    c.line("wrong = finite == 0")
    c.line(f"shown = tl.where(wrong, float('nan'), {values} * scale)")
    c.line(
        f"keep_part(args, finish, m, rank[:, :, None], rank[:, :, None] < {c.columns}, record, "
        f"shown[:, :, None].to({c.kind}), 0)"
    )


def _squares(c: Columns, name: str) -> None:
    """The square of each column's length."""
    z = c.numbers
    c.line(f"{name} = {z.total(name, [z.square(x) for x in _rows(c, 'w')])}")
    c.over_shares("sum", name)


def _rotate(c: Columns, vectors: bool) -> None:
    """Makes columns w orthogonal; `vectors`: and turns v along."""
    line = c.line
    line("sweep = 0")
    line("going = 1")
    line(f"while (sweep < {SWEEPS}) & (going > 0):")
    line(f"    turned = tl.zeros({c.shape}, tl.int32)")
    line(f"    for r in range(1, {c.lanes}):")
    _round(_inside(c, 2), vectors)
    line("    going = tl.max(tl.max(turned, 1), 0)")
    line("    sweep += 1")


def _round(c: Columns, vectors: bool) -> None:
    z, line = c.numbers, c.line
    line("beside = i ^ r")
    line("first = tl.minimum(i, beside)")
    for k, x in enumerate(_rows(c, "w")):
        z.let(f"p{k}", z.from_lane(x, "beside"))
    _squares(c, "own")
    line("other = tl.gather(own, beside, 1)")
    terms = [(z.conjugate(x), p) for x, p in zip(_rows(c, "w"), _rows(c, "p"), strict=True)]
    # Sums of products round as their order says, so one of the two lanes speaks for both.
    between = z.sum("between", terms)
    for part in between:
        c.over_shares("sum", part)
    z.let("between", z.from_lane(between, "first"))
    if c.parts == 2:
        line("between_im = tl.where(i > beside, -between_im, between_im)")
        line("size = near_size(between_re, between_im)")
    else:
        line("size = tl.abs(between)")
    # What sums of so many products are wrong by anyway.
    least = c.rounding**2 / 4 * max(c.rows, 4)
    line(f"turns = size * size > {least} * (own * other)")
    line("turned |= turns.to(tl.int32)")
    # c is 1 - less: a cosine that is rounded makes all columns longer, or shorter, with each turn.
    line(f"cosine, sine = turning(own, other, {'size' if c.parts == 2 else 'between'}, r, turns)")
    line("less = sine * sine * near_inverse(cosine + 1)")
    s: LaneNumber = ("sine",)
    if c.parts == 2:
        # Quotients of 0 take longer.
        line("share = near_quotient(tl.where(turns, sine, 1), tl.where(turns, size, 1))")
        line("sine = tl.where(turns, share, 0)")
        s = z.let("turning", ("sine * between_re", "-sine * between_im"))
    for k, p in enumerate(_rows(c, "p")):
        _turn(c, f"w{k}", p, s)
    if vectors:
        for k in range(_basis_rows(c)):
            _turn(c, f"v{k}", z.let("p", z.from_lane(z.named(f"v{k}"), "beside")), s)


def _basis_rows(c: Columns) -> int:
    """Rows of the basis that a thread has."""
    return c.columns if c.shares == 1 else c.lanes // c.shares


def _turn(c: Columns, name: str, p: LaneNumber, s: LaneNumber) -> None:
    z = c.numbers
    rest = z.let("rest", tuple(f"{x} - less * {x}" for x in z.named(name)))
    z.let(name, z.minus(rest, s, p))


def svd(c: Columns) -> None:
    """Singular values of matrices, and U^T and V^H but for "values"."""
    z, line, (m, n) = c.numbers, c.line, (c.rows, c.columns)
    vectors = "values" not in c.options
    scale(c, "ALL")
    if vectors:
        mine = f"(i - tl.arange(0, {c.shares})[:, None] * {c.lanes // c.shares})"
        for k in range(_basis_rows(c)):
            own = mine if c.shares > 1 else "i"
            z.let(f"v{k}", z.real(f"tl.where({own} == {k}, 1.0, 0.0).to({c.kind})"))
    _rotate(c, vectors)
    _squares(c, "own")
    line("length, _ = near_root(own)")
    line("whole = tl.where(length == 0, 1, length)")
    if c.shares > 1:  # what follows is of a matrix, and no longer of its shares
        for name in ("length", "finite", "scale"):
            line(f"{name} = tl.max({name}, 0)[None, :]")
        line(f"i = tl.arange(0, {c.lanes})[None, :]")
    keep_values(c, "length", down=True)
    line("row = rank[:, :, None]")
    if not vectors:
        return
    line("longest = lanes_most(length)")
    line(f"missing = (length <= {c.rounding**2} * longest) & (i < {n}) & (finite != 0)")
    for k, x in enumerate(_rows(c, "w")):
        z.let(f"w{k}", z.over_real(x, "whole"))
    tiles = [c.tile("w", c.words, side) for side in range(c.parts)]
    line(f"u = {tiles[0]}")
    if c.parts == 1:
        line(f"u = completed_rows(u, missing, {m})")
    else:
        line(f"u_im = {tiles[1]}")
        line(f"u, u_im = completed_complex_rows(u, u_im, missing, {m})")
    _keep_side(c, ("u", "u_im"), (n, n, m), 1, c.words)
    for k in range(_basis_rows(c)):
        z.let(f"v{k}", z.conjugate(z.named(f"v{k}")))
    for k in range(_basis_rows(c), c.lanes // c.shares):
        z.let(f"v{k}", z.real(f"tl.zeros({c.shape}, {c.kind})"))
    sides = [c.tile("v", c.lanes, side) for side in range(c.parts)]
    _keep_side(c, sides, (n + c.parts * n * m, n, n), 1 + c.parts, c.lanes)


def _keep_side(
    c: Columns,
    tiles: list[str] | tuple[str, ...],
    sizes: tuple[int, int, int],
    part: int,
    words: int,
) -> None:
    """Stores rows of vectors by rank; `sizes`: where the first part begins, rows and columns."""
    first, rows, columns = sizes
    c.line(f"column = tl.arange(0, {words})[None, None, :]")
    for side in range(c.parts):
        there = first + side * rows * columns
        c.line(f"shown = tl.where(wrong[:, :, None], float('nan'), {tiles[side]})")
        c.line(
            f"keep_part(args, finish, m, {there} + row * {columns} + column, "
            f"(row < {rows}) & (column < {columns}), record, shown, {part + side}, "
            f"{part + side in c.turned})"
        )
