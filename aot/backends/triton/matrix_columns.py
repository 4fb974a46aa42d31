"""Small matrices by columns: each is a tensor of its own, whose rows lie across lanes.

Steps are written out, so that a column is found by its name; rows are exchanged between lanes by
`tl.gather`. `device/linalg.py` has the same as loops over tiles, for larger matrices. Complex
columns are two tensors (`matrix_numbers.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from aot.backends.triton.matrix_numbers import LaneNumber, LaneNumbers
from aot.backends.triton.text import joined, taken_apart, value_type
from aot.backends.triton.tiling import WARP
from aot.ir.dtypes import FLOAT64

LIMIT = 32
"""Rows and columns of the largest matrices that are taken by columns."""

STATEMENTS = 768
"""Updates of columns that a kernel has, about."""

WRITTEN = 64
"""Tensors of the largest matrices all of whose steps are written out: loops are shorter, but steps
have the same names then, so that all tensors move."""

UNROLLED = 16
"""Columns of the largest matrices that are inverted so."""

KEPT = 2.0**-100
"""A part of any number that rounds away when it is subtracted."""

DOUBLE = value_type(FLOAT64)
"""Elements of which the assembler predicates no products: it selects halves of their results."""

PHASE = 8
"""Steps of larger ones that are a loop."""

TRIANGLES = ("ALL", "LOWER", "UPPER", "MIRRORED")
"""What is read of a matrix, by the number that `matrix_tile` has for it."""

Lane = str | int
"""A lane or a step: a number, or its text."""

ColumnStep = Callable[["Columns", Lane, list[str], list[str]], None]
"""See `Columns.walk`."""

HEAD = "args, load_a, load_a_im, load_b, load_b_im, finish, program, right, record"


def right_columns(size: int, wanted: int) -> int:
    """Columns of right-hand sides that are solved for at once, for matrices of a size."""
    room = max(1, (STATEMENTS - size * size // 2) // max(1, 2 * size))
    return min(wanted, 1 << (room.bit_length() - 1))


def of_letter(letter: str, names: list[str]) -> list[str]:
    """The tensors of the same numbers with another prefix."""
    return [f"{letter}{name[1:]}" for name in names]


@dataclass(frozen=True)
class MatrixOperand:
    """How an operand lies in memory.

    Attributes:
        above: Rows of it above those of its imaginary parts; None: these are an operand apart.
        turned: Whether neighbours in memory are those of a column.
    """

    above: int | None = None
    turned: bool = False


@dataclass(frozen=True)
class Columns:
    """The statements of one routine on matrices of a size.

    Attributes:
        line: Takes each statement.
        rows: Of a matrix, as `columns`.
        matrices: Of a program.
        lanes: Of a matrix in a tile, as `words` the numbers of each.
        right: Columns of right-hand sides at once.
        kind: The text of the elements' type.
        parts: Of a number: 2 of complex ones.
        options: Of the call.
        operands: By role.
        turned: Parts of a record, by number, of which neighbours in memory are those of a column.
        rounding: Of the elements' type: its greatest relative error twice.
        shares: Warps that have the numbers of a lane, consecutive ones each; of one matrix.
    """

    line: Callable[[str], None]
    rows: int
    columns: int
    matrices: int
    lanes: int
    words: int
    right: int
    kind: str
    parts: int
    options: frozenset[str]
    operands: dict[str, MatrixOperand]
    turned: frozenset[int]
    rounding: float
    shares: int = 1

    @cached_property
    def shape(self) -> str:
        """Of a tensor."""
        return f"[{self.matrices * self.shares}, {self.lanes}]"

    @cached_property
    def greatest(self) -> str:
        """The device function that finds the greatest of a row's lanes."""
        return "greatest_of_warp" if self.lanes == WARP and self.matrices == 1 else "greatest"

    @cached_property
    def numbers(self) -> LaneNumbers:
        """Statements on numbers."""
        return LaneNumbers(self.line, self.shape, self.parts, self.kind)

    def begin(self) -> None:
        """Numbers of the program's matrices, and of lanes."""
        self.line(f"m = program * {self.matrices} + tl.arange(0, {self.matrices})")
        self.line(f"i = tl.zeros({self.shape}, tl.int32) + tl.arange(0, {self.lanes})[None, :]")

    def inside(self) -> Columns:
        """The same statements, in a loop."""
        return replace(self, line=lambda text: self.line(f"    {text}"))

    # ---- tiles and their tensors ----

    def load(
        self,
        role: str,
        name: str,
        count: int,
        rows: int,
        *,
        start: str = "0",
        columns: str | None = None,
        which: str = "ALL",
        across: bool = False,
    ) -> None:
        """Sets name0, name1, ... to columns from `start` on, or to rows where lanes are `across`.

        `which`: of the elements (`TRIANGLES`).
        """
        operand = self.operands[role]
        total = rows if operand.above is None else 2 * operand.above
        for part, variable in enumerate(self.numbers.named(name)):
            stacked = part == 1 and operand.above is not None
            hook = f"load_{role}" if part == 0 or stacked else f"load_{role}_im"
            first = operand.above if stacked and operand.above is not None else 0
            triangle = TRIANGLES.index(which)
            self.line(
                f"{variable} = matrix_tile(args, {hook}, m, {start}, {columns or self.columns}, "
                f"{rows}, {self.lanes}, {count}, {first}, {total}, {triangle}, {across}, "
                f"{operand.turned}).to({self.kind})"
            )
            if part == 1 and which == "MIRRORED":
                self.line(f"{variable} = hermitian_part({variable})")
        for variable in self.numbers.named(name):
            self._split(variable, name, count)

    def _split(self, tile: str, prefix: str, count: int) -> None:
        """Names the tensors of a tile."""
        if self.shares > 1:
            count //= self.shares
            parts = f"[{self.lanes}, {self.shares}, {count}]"
            self.line(f"{tile} = tl.permute(tl.reshape({tile}, {parts}), 1, 0, 2)")
        halves = ", 2" * (count.bit_length() - 1)
        rows = self.matrices * self.shares
        self.line(f"{tile}_ = tl.reshape({tile}, [{rows}, {self.lanes}{halves}])")
        suffix = tile.removeprefix(prefix)
        for number, name in enumerate(taken_apart(self.line, f"{tile}_", count)):
            self.line(f"{prefix}{number}{suffix} = {name}")

    def tile(self, prefix: str, count: int, part: int) -> str:
        """A tile of a part of numbers: (matrices, lanes, count)."""
        share = count // self.shares
        names = [self.numbers.named(f"{prefix}{k}")[part] for k in range(share)]
        whole = f"[{self.matrices}, {self.lanes}, {count}]"
        if self.shares == 1:
            return f"tl.reshape({joined(names)}, {whole})"
        shares = f"tl.reshape({joined(names)}, [{self.shares}, {self.lanes}, {share}])"
        return f"tl.reshape(tl.permute({shares}, 1, 0, 2), {whole})"

    def over_shares(self, how: str, name: str) -> None:
        """Makes what each share has found of a lane the same for all of them.

        how: a reduction of Triton's.
        """
        if self.shares > 1:
            self.line(f"{name} = tl.{how}({name}, 0)[None, :]")
            self.line(f"{name} = tl.broadcast_to({name}, {self.shape})")

    def keep(self, prefix: str, count: int, columns: str, part: int, **places: str) -> None:
        """Stores tensors as the columns from places["start"] on of a part of records.

        `places`: also `first`, where the part begins, and `row`, which one each lane has.
        """
        first, start, row = (
            places.get(k, v) for k, v in (("first", "0"), ("start", "0"), ("row", "i"))
        )
        for side in range(self.parts):
            there = first if side == 0 else f"{first} + {self.rows} * {columns}"
            self.line(
                f"keep_rows(args, finish, m, {there}, {start}, {columns}, record, {row}, "
                f"{self.tile(prefix, count, side)}, {self.rows}, {part + side}, "
                f"{part in self.turned})"
            )

    def keep_info(self, first: int, part: int) -> None:
        """Stores where steps ended."""
        self.line("info = tl.max(info, 1)[:, None]")
        self.line(f"keep_info(args, finish, m, {first}, record, info, {self.kind}, {part})")

    def keep_lanes(self, value: str, count: int, first: int, part: int) -> None:
        """Stores a real number of each of the first lanes, in their order."""
        self.line(f"where = tl.arange(0, {self.lanes})[None, :, None]")
        self.line(
            f"keep_part(args, finish, m, {first} + where, where < {count}, record, "
            f"({value})[:, :, None].to({self.kind}), {part})"
        )

    # ---- steps ----

    def walk(
        self, prefixes: str, words: int, count: int, step: ColumnStep, written: int = WRITTEN
    ) -> None:
        """step(columns, k, names, live) for k < count, of the tensors p0, ... from k on.

        Of large matrices several steps are a loop, each of the same text: the first tensor is
        always that of the step, the others move up, and it goes behind them. live[q]: the text of
        whether names[q] is not yet behind; "" where it never is. `prefixes`: letters, whose tensors
        move alike; names are those of the first. `written`: tensors up to which there is no loop.
        """
        names = [f"{prefixes[0]}{j}" for j in range(words)]
        if words * self.parts <= written:
            for k in range(count):
                step(self, k, names[k:], [""] * (words - k))
            return
        for base in range(0, count, PHASE):
            size, mine = min(PHASE, count - base), names[base:]
            wide = len(mine)
            self.line(f"for t in range({size}):")
            inner = self.inside()
            inner.line(f"k = {base} + t")
            live = [f"(t < {wide - q})" if q > wide - size else "" for q in range(wide)]
            step(inner, "k", mine, live)
            for letter in prefixes:
                inner.move_up(of_letter(letter, mine))
            names[base:] = mine[wide - size :] + mine[: wide - size]
        for letter in prefixes:
            ordered = [f"{letter}{j}" for j in range(words)]
            self.rename(ordered, of_letter(letter, names))

    def move_up(self, names: list[str]) -> None:
        """Each tensor has what the next one had, and the last one what the first one had."""
        self.rename(names, [*names[1:], names[0]])

    def rename(self, names: list[str], others: list[str]) -> None:
        """Sets numbers to others, all at once."""
        z = self.numbers
        new, old = ([part for x in side for part in z.named(x)] for side in (names, others))
        self.line(f"{', '.join(new)} = {', '.join(old)}")

    # ---- Cholesky ----

    def cholesky(self) -> None:
        """Factors of the lower triangles; see `lower_factor`."""
        n, z, line = self.columns, self.numbers, self.line
        self.load("a", "a", self.words, self.rows, which="LOWER")
        line(f"info = tl.zeros({self.shape}, tl.int32)")
        self.walk("a", n, n, Columns._take_root)
        for k in range(self.words):
            z.let(f"a{k}", z.masked(f"i >= {k}", z.named(f"a{k}")))
        self.keep("a", self.words, str(n), 0)
        self.keep_info(self.parts * n * n, self.parts)

    def _take_root(self, k: Lane, names: list[str], live: list[str]) -> None:
        """A step of `cholesky`."""
        z, line, own = self.numbers, self.line, self.numbers.named(names[0])
        line(f"pivot = {z.from_lane(own, k)[0]}")
        line("going = (info == 0) & (pivot > 0)")
        line(f"info = tl.where((info == 0) & ((pivot > 0) == 0), {k} + 1, info)")
        if self.kind == DOUBLE:
            line("root = exact_root(tl.where(going, pivot, 1))")
            # The inverse of a root is in range.
            line(f"inverse = exact_quotient(tl.full({self.shape}, 1.0, {self.kind}), root)")
        else:
            line("root, inverse = near_root(tl.where(going, pivot, 1))")
        factor = z.let("factor", z.times_real(own, "inverse"))
        factor = z.let("factor", z.where(f"i == {k}", z.real("root"), factor))
        factor = z.let("factor", z.masked(f"(i >= {k}) & going", factor))
        z.let(names[0], z.where(f"(i >= {k}) & going", factor, own))
        for q in range(1, len(names)):
            other = z.let("other", z.conjugate(z.from_lane(factor, self.lane_after(k, q))))
            changed = z.minus(z.named(names[q]), factor, other)
            z.let(names[q], z.if_live(live[q], changed, z.named(names[q])))

    def lane_after(self, k: Lane, q: int) -> Lane:
        """Lane k + q; any lane where there is none."""
        return k + q if isinstance(k, int) else f"({k} + {q}) % {self.lanes}"

    # ---- L U ----

    def load_for_pivots(self) -> None:
        """Sets a0, a1, ...: lanes that have no row have ones, as quotients of 0 take longer."""
        z = self.numbers
        self.load("a", "a", self.words, self.rows)
        if self.rows < self.lanes:
            one = z.real(f"tl.full({self.shape}, 1.0, {self.kind})")
            for k in range(self.columns):
                z.let(f"a{k}", z.where(f"i < {self.rows}", z.named(f"a{k}"), one))

    def begin_pivots(self) -> None:
        """Rows are where they were: `place` says whose place each has, `order` the way back."""
        self.line("place = i")
        self.line("order = i")
        self.line("pivots = i + 1")
        self.line(f"info = tl.zeros({self.shape}, tl.int32)")

    def choose_pivot(self, k: Lane, own: LaneNumber) -> LaneNumber:
        """The lane `chosen` of step k, the place `first` of its row before, and the pivot.

        It is the first of equal ones in the order of places; a NaN at the place itself stays.
        """
        line, z = self.line, self.numbers
        line(f"size = {z.rough(own)}")
        line(f"size = tl.where(size == size, size, tl.where(place == {k}, float('inf'), -1.0))")
        line(f"size = tl.where((place >= {k}) & (i < {self.rows}), size, -2.0)")
        line(f"key = place * {self.lanes} + i")
        line(f"key = {self.greatest}(size, key)")
        line(f"first = key // {self.lanes}")
        line(f"chosen = key % {self.lanes}")
        line(f"pivots = tl.where(i == {k}, first + 1, pivots)")
        line(f"other = {z.from_lane(('order',), f'i * 0 + {k}')[0]}")
        line(f"order = tl.where(i == {k}, chosen, tl.where(i == first, other, order))")
        line(f"place = tl.where(i == chosen, {k}, tl.where(place == {k}, first, place))")
        pivot = z.let("pivot", z.from_lane(own, "chosen"))
        line(f"failed = {z.is_zero(pivot)}")
        line(f"info = tl.where((info == 0) & failed, {k} + 1, info)")
        return pivot

    def factor(self, after: Callable[[Columns, Lane], None] | None = None) -> None:
        """L and U of a.

        `after` is called in each step, once `chosen`, `first`, `pivot` are set: that is for whom
        pivots are all. Rows that have been one may become anything then, without a selection.
        """
        count = min(self.rows, self.columns)
        self.load_for_pivots()
        self.begin_pivots()

        def step(c: Columns, k: Lane, names: list[str], live: list[str]) -> None:
            z = c.numbers
            own = z.named(names[0])
            pivot = c.choose_pivot(k, own)
            source, below = "chosen", ""
            if after:
                after(c, k)
            else:
                below = "below"
                c.line(f"below = (place > {k}) & (failed == 0)")
            safe = z.let("safe", z.where("failed", z.real("1.0"), pivot))
            factor = z.over("factor", own, safe, near=after is not None)
            if below:
                z.let(names[0], z.where(below, factor, own))
            if below and c.kind == DOUBLE:
                source, below = c.keep_where(below, factor, source), ""
            for name, alive in zip(names[1:], live[1:], strict=True):
                row = z.let("row", z.from_lane(z.named(name), source))
                changed = z.minus(z.named(name), factor, row)
                conditions = " & ".join(each for each in (below, alive) if each)
                z.let(name, z.if_live(conditions, changed, z.named(name)))

        self.walk("a", self.columns, count, step)

    def keep_where(self, condition: str, factor: LaneNumber, lane: str) -> str:
        """Has lanes keep what they have where a condition fails; gives whose row they read.

        x - factor row is x there without a selection for each x: the row is the lane's own, and the
        factor so small that x (1 - factor) rounds to x, also where x is -0 or no number. Of complex
        numbers with one infinite part the other becomes NaN.
        """
        z = self.numbers
        z.let("factor", z.where(condition, factor, z.real(f"-{KEPT}")))
        self.line(f"source = tl.where({condition}, {lane}, i)")
        return "source"

    def exchange_rows(self, prefix: str, count: int) -> None:
        """Takes rows to the lanes of their places."""
        # Lanes ask for their own: the search for a layout of the rows ends where that is known, and
        # not with the first step.
        self.line("order = tl.gather(order, i, 1)")
        for k in range(count):
            self.numbers.let(
                f"{prefix}{k}", self.numbers.from_lane(self.numbers.named(f"{prefix}{k}"), "order")
            )

    def lu(self) -> int:
        """Factors, exchanges, the rows' order and info; gives where the next part begins."""
        m, n, count = self.rows, self.columns, min(self.rows, self.columns)
        self.factor()
        self.exchange_rows("a", n)
        self.keep("a", self.words, str(n), 0)
        first = self.parts * m * n
        # A lane's own number of an exchange: what is stored is no longer a chain of steps.
        self.keep_lanes("tl.gather(pivots, i, 1)", count, first, self.parts)
        self.keep_lanes("order", m, first + count, self.parts + 1)
        self.line("info = tl.gather(info, i, 1)")
        self.keep_info(first + count + m, self.parts + 2)
        return first + count + m + 1

    def determinant(self) -> None:
        """The determinant, its direction, and the logarithm of its size."""
        z = self.numbers
        for name in ("det", "kept"):
            z.let(name, z.real(f"tl.full({self.shape}, 1.0, {self.kind})"))

        def after(c: Columns, k: Lane) -> None:
            z = c.numbers
            c.line(f"flip = tl.where(first == {k}, 1.0, -1.0).to({self.kind})")
            whole = z.let("whole", z.times_real(z.named("pivot"), "flip"))
            z.let("det", z.product(z.named("det"), whole))
            z.let("kept", z.where(f"i == {k}", whole, z.named("kept")))

        self.factor(after)
        kept = z.named("kept")
        size = "near_size" if self.parts == 2 else "tl.abs"
        self.line(f"size = {size}({', '.join(kept)})")
        sign = z.let("sign", z.over_real(kept, "tl.where(size == 0, 1, size)"))
        for bit in range(self.lanes.bit_length() - 1):
            other = z.let("other", z.from_lane(sign, f"(i ^ {1 << bit})"))
            sign = z.let("sign", z.product(sign, other))
        self.line("logs = lanes_sum(tl.log(size))")
        for k, value in enumerate((*z.named("det"), *sign, "logs")):
            self.keep_lanes(f"tl.gather({value}, i, 1)", 1, k, k)

    # ---- right-hand sides ----

    def invert_diagonal(self) -> None:
        """Sets `inverse` to what each row is multiplied by."""
        z, n = self.numbers, self.columns
        z.let("diagonal", z.real(f"tl.full({self.shape}, 1.0, {self.kind})"))
        for k in range(n):
            z.let("diagonal", z.where(f"i == {k}", z.named(f"a{k}"), z.named("diagonal")))
        one = z.real(f"tl.full({self.shape}, 1.0, {self.kind})")
        z.over("inverse", one, z.named("diagonal"))

    def substitute(self, count: int, *, upper: bool, unit: bool) -> None:
        """x{r} of T X = x for r < count, T a triangle of a."""
        z, n = self.numbers, self.columns
        for turn in range(n - 1):
            k = n - 1 - turn if upper else turn
            for r in range(count):
                x = z.named(f"x{r}")
                own = x if unit else z.let("own", z.product(x, z.named("inverse")))
                row = z.let("row", z.from_lane(own, k))
                changed = z.minus(x, z.named(f"a{k}"), row)
                z.let(f"x{r}", z.where(f"i {'<' if upper else '>'} {k}", changed, x))
        if not unit:
            for r in range(count):
                z.let(f"x{r}", z.product(z.named(f"x{r}"), z.named("inverse")))

    def solve_for(self, first: str, part: int, *solved: tuple[bool, bool], exchanged: bool) -> None:
        """Solves for some columns of right-hand sides at a time, and stores what is X."""
        if any(not unit for _, unit in solved):
            self.invert_diagonal()
        self.line(f"for start in range(0, right, {self.right}):")
        inner = self.inside()
        inner.load("b", "x", self.right, self.columns, start="start", columns="right")
        if exchanged:
            inner.exchange_rows("x", self.right)
        for upper, unit in solved:
            inner.substitute(self.right, upper=upper, unit=unit)
        inner.keep("x", self.right, "right", part, first=first, start="start")

    def solve(self) -> None:
        """L and U of real matrices, and X of A X = B."""
        first = self.lu()
        self.solve_for(str(first), 4, (False, True), (True, False), exchanged=True)

    def complex_solve(self) -> None:
        """X of A X = B, and info behind it."""
        self.factor()
        self.exchange_rows("a", self.columns)
        self.solve_for("0", 0, (False, True), (True, False), exchanged=True)
        self.line("info = tl.gather(info, i, 1)")
        self.keep_info_behind(f"2 * {self.columns} * right")

    def keep_info_behind(self, first: str) -> None:
        """As `keep_info`, behind X."""
        self.line("info = tl.max(info, 1)[:, None]")
        self.line(f"keep_info(args, finish, m, {first}, record, info, {self.kind}, 2)")

    def triangular(self) -> None:
        """X of T X = B."""
        upper, unit = "upper" in self.options, "unit" in self.options
        which = "UPPER" if upper else "LOWER"
        self.load("a", "a", self.words, self.rows, which=which)
        self.solve_for("0", 0, (upper, unit), exchanged=False)

    # ---- inverses ----

    def _clear_column(self, k: Lane, names: list[str]) -> None:
        """Step k; the first of the columns is its own."""
        z, line = self.numbers, self.line
        own = z.named(names[0])
        pivot = self.choose_pivot(k, own)
        safe = z.let("safe", z.where("failed", z.real("1.0"), pivot))
        one = z.real(f"tl.full({self.shape}, 1.0, {self.kind})")
        inverse = z.over("inverse", one, safe)
        factor = z.let("factor", tuple(f"-({part})" for part in z.product(own, inverse)))
        line("here = i == chosen")
        factor = z.let("factor", z.where("here", inverse, factor))
        for name in names[1:]:
            row = z.let("row", z.from_lane(z.named(name), "chosen"))
            rest = z.let("rest", z.masked("here == 0", z.named(name)))
            z.let(name, z.plus(rest, factor, row))
        z.let(names[0], factor)

    def inverse(self) -> None:
        """Inverses, by Gauss and Jordan's elimination in place.

        Step k makes column k that of the identity; what it would have made of the identity's own
        column takes its place. Rows stay where they are, so the inverse' columns are exchanged.
        """
        n, line = self.columns, self.line
        self.load_for_pivots()
        self.begin_pivots()
        if n <= UNROLLED:
            for k in range(n):
                self._clear_column(k, [f"a{(k + j) % n}" for j in range(n)])
        else:  # the column of a step is always a0: the others move up, and it goes behind them
            line(f"for k in range({n}):")
            inner, names = self.inside(), [f"a{j}" for j in range(n)]
            inner._clear_column("k", names)
            inner.move_up(names)
        self.exchange_rows("a", n)
        line("row = tl.arange(0, " + f"{self.lanes})[None, :, None]")
        line(f"column = tl.reshape(order, [{self.matrices}, 1, {self.lanes}])")
        line(f"inside = (row < {n}) & (column < {n})")
        for side in range(self.parts):
            line(
                f"keep_part(args, finish, m, {side * n * n} + row * {n} + column, inside, record, "
                f"{self.tile('a', self.words, side)}, {side}, {side in self.turned})"
            )
        self.keep_info(self.parts * n * n, self.parts)
