"""QR of small matrices, and products with its reflections: columns lie across lanes.

A reflection's vector is taken out of one lane, element by element; then each lane has what it needs
to reflect its own column. Conventions are LAPACK's geqrf and ormqr.
"""

from __future__ import annotations

from dataclasses import replace

from aot.backends.triton.matrix_columns import Columns
from aot.backends.triton.matrix_numbers import Number


def _reflector(c: Columns, k: int, lane: str | int) -> None:
    """Sets h{k}, ...: the vector, behind its 1; beta, tau and `turns`, for all lanes."""
    z, line, m = c.numbers, c.line, c.rows
    for j in range(k, m):
        z.let(f"h{j}", z.from_lane(z.named(f"a{j}"), lane))
    first = z.named(f"h{k}")
    line(f"most = {z.rough(first)}")
    below = first[1] if c.parts == 2 else f"tl.zeros({c.shape}, {c.kind})"
    line(f"rest = tl.abs({below})")
    for j in range(k + 1, m):
        line(f"rest = larger(rest, {z.rough(z.named(f'h{j}'))})")
    line("turns = rest != 0")
    line("most = larger(most, rest)")
    line("power, back = powers_near(most)")
    for j in range(k, m):
        part = z.let("part", z.times_real(z.named(f"h{j}"), "back"))
        line(f"norm = {'' if j == k else 'norm + '}{z.square(part)}")
    line("norm = exact_root(norm) * power")
    line(f"beta = tl.where({first[0]} < 0, norm, -norm)")
    line("safe = tl.where(turns, beta, 1)")
    less = (f"beta - {first[0]}", *(f"-{part}" for part in first[1:]))
    z.let("tau", z.masked("turns", z.over_real(tuple(f"({part})" for part in less), "safe")))
    scale = z.let("scale", z.where("turns", (f"({first[0]} - beta)", *first[1:]), z.real("1.0")))
    scale = z.over("scale", z.real(f"tl.full({c.shape}, 1.0, {c.kind})"), scale)
    for j in range(k + 1, m):
        z.let(f"h{j}", z.product(z.named(f"h{j}"), scale))


def _along(c: Columns, name: str, k: int) -> Number:
    """Sets `along` to the product of the vector's adjoint and each lane's column."""
    z = c.numbers
    z.let("along", z.named(f"{name}{k}"))
    for j in range(k + 1, c.rows):
        h = z.conjugate(z.named(f"h{j}"))
        z.let("along", z.plus(z.named("along"), h, z.named(f"{name}{j}")))
    return z.named("along")


def _reflect(c: Columns, name: str, k: int, by: Number) -> None:
    """Takes the vector times `by` from each lane's column."""
    z = c.numbers
    own = z.named(f"{name}{k}")
    z.let(f"{name}{k}", tuple(f"{x} - {y}" for x, y in zip(own, by, strict=True)))
    for j in range(k + 1, c.rows):
        own = z.named(f"{name}{j}")
        z.let(f"{name}{j}", z.minus(own, z.named(f"h{j}"), by))


def qr(c: Columns) -> None:
    """R and below it the reflections, and their taus."""
    z, line, (m, n) = c.numbers, c.line, (c.rows, c.columns)
    count = min(m, n)
    c.load("a", "a", c.words, m, across=True)
    z.let("taus", z.real(f"tl.zeros({c.shape}, {c.kind})"))
    for k in range(count):
        _reflector(c, k, k)
        by = z.let("by", z.product(z.conjugate(z.named("tau")), _along(c, "a", k)))
        by = z.let("by", z.masked(f"(i > {k}) & turns", by))
        _reflect(c, "a", k, by)
        line(f"here = (i == {k}) & turns")
        z.let(f"a{k}", z.where("here", z.real("beta"), z.named(f"a{k}")))
        for j in range(k + 1, m):
            z.let(f"a{j}", z.where("here", z.named(f"h{j}"), z.named(f"a{j}")))
        z.let("taus", z.where(f"i == {k}", z.named("tau"), z.named("taus")))
    _keep_across(c, "a", c.words, f"{n}", 0, m)
    for side, value in enumerate(z.named("taus")):
        c.keep_lanes(
            f"tl.gather({value}, i, 1)", count, c.parts * m * n + side * count, c.parts + side
        )


def _keep_across(c: Columns, name: str, words: int, columns: str, part: int, rows: int) -> None:
    """Stores columns from `start` on, a lane each."""
    c.line(
        "column = start + tl.arange(0, " + f"{c.lanes})[None, :, None]"
        if name == "x"
        else f"column = tl.arange(0, {c.lanes})[None, :, None]"
    )
    c.line(f"row = tl.arange(0, {words})[None, None, :]")
    for side in range(c.parts):
        there = f"{side} * {rows} * {columns} + row * {columns} + column"
        c.line(
            f"keep_part(args, finish, m, {there}, (row < {rows}) & (column < {columns}), record, "
            f"{c.tile(name, words, side)}, {part + side}, {part + side not in c.turned})"
        )


def reflections(c: Columns) -> None:
    """Products of reflections with b; their factors are a's last row."""
    z, m = c.numbers, c.rows
    count, back = min(m, c.columns), "back" in c.options
    c.load("a", "a", c.words, m + 1, across=True)
    c.line(f"for start in range(0, right, {c.lanes}):")
    line = c.line
    inner = replace(c, line=lambda text: line(f"    {text}"))
    z = inner.numbers
    inner.load("b", "x", c.words, m, start="start", columns="right", across=True)
    for turn in range(count):
        k = turn if back else count - 1 - turn
        for j in range(k + 1, m):
            z.let(f"h{j}", z.from_lane(z.named(f"a{j}"), k))
        tau = z.let("tau", z.from_lane(z.named(f"a{m}"), k))
        along = _along(inner, "x", k)
        by = z.let("by", z.product(z.conjugate(tau) if back else tau, along))
        _reflect(inner, "x", k, by)
    _keep_across(inner, "x", c.words, "right", 0, m)
