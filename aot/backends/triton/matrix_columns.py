"""Small matrices by columns: each is a tensor of its own, whose rows lie across lanes.

Steps are written out, so that a column is found by its name; rows are exchanged between lanes by
`tl.gather`. `device/linalg.py` has the same as loops over tiles, for larger matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from aot.backends.triton.text import joined, taken_apart

LIMIT = 32
"""Rows and columns of the largest matrices that are taken by columns."""

LEAST = 8
"""Of the smallest."""

ROUTINES = frozenset(
    ("small_cholesky", "small_lu", "small_solve", "small_inverse", "small_triangular")
)
"""Device functions that have such a form."""

STATEMENTS = 640
"""Updates of columns that a kernel has, about: with more, compilers take minutes."""

HEAD = "args, load_a, load_b, finish, program, right, record"


def right_columns(size: int, wanted: int) -> int:
    """Columns of right-hand sides that are solved for at once, for matrices of a size."""
    room = max(1, (STATEMENTS - size * size // 2) // (2 * size))
    return min(wanted, 1 << (room.bit_length() - 1))


@dataclass(frozen=True)
class Columns:
    """The statements of one routine on matrices of a size.

    Attributes:
        line: Takes each statement.
        rows: Of a matrix, as `columns`.
        matrices: Of a program.
        high: Rows of a tile, as `wide` its columns and `right` those of right-hand sides.
        kind: The text of the elements' type.
        options: Of the call.
    """

    line: Callable[[str], None]
    rows: int
    columns: int
    matrices: int
    high: int
    wide: int
    right: int
    kind: str
    options: frozenset[str]

    @property
    def _shape(self) -> str:
        return f"[{self.matrices}, {self.high}]"

    def write(self, function: str) -> None:
        """The body of the function."""
        line = self.line
        line(f"m = program * {self.matrices} + tl.arange(0, {self.matrices})")
        line(f"i = tl.zeros({self._shape}, tl.int32) + tl.arange(0, {self.high})[None, :]")
        sizes = f"{self.rows}, {self.high}, {self.wide}"
        line(f"a = matrix_tile(args, load_a, m, 0, {self.columns}, {sizes})")
        self._split("a", "a", self.wide)
        {
            "small_cholesky": self._cholesky,
            "small_lu": self._lu,
            "small_solve": self._solve,
            "small_inverse": self._inverse,
            "small_triangular": self._triangular,
        }[function]()

    # ---- tiles and columns ----

    def _split(self, tile: str, prefix: str, count: int) -> None:
        """Names the columns of a tile."""
        halves = ", 2" * (count.bit_length() - 1)
        self.line(f"{tile}_ = tl.reshape({tile}, [{self.matrices}, {self.high}{halves}])")
        for number, name in enumerate(taken_apart(self.line, f"{tile}_", count)):
            self.line(f"{prefix}{number} = {name}")

    def _joined(self, prefix: str, count: int) -> str:
        """A tile of columns."""
        columns = joined([f"{prefix}{number}" for number in range(count)])
        return f"tl.reshape({columns}, [{self.matrices}, {self.high}, {count}])"

    def _from(self, name: str, lane: str | int) -> str:
        """What a lane has, for all lanes."""
        text = f"tl.full({self._shape}, {lane}, tl.int32)" if isinstance(lane, int) else lane
        return f"tl.gather({name}, {text}, 1)"

    def _keep(self, prefix: str, count: int, first: str, start: str, columns: str) -> None:
        values = self._joined(prefix, count)
        self.line(
            f"keep_rows(args, finish, m, {first}, {start}, {columns}, record, place, {values}, "
            f"{self.rows})"
        )

    # ---- factorizations ----

    def _factor(self) -> None:
        """L and U with rows exchanged; see `lower_upper`. Lane l{k} had row k, pivot d{k}."""
        line, count = self.line, min(self.rows, self.columns)
        line("place = i")
        line(f"number = tl.arange(0, {self.wide})[None, :]")
        line(f"exchanges = tl.zeros([{self.matrices}, {self.wide}], tl.int32)")
        line(f"info = tl.zeros([{self.matrices}, 1], tl.int32)")
        for k in range(count):
            stays = f'tl.where(place == {k}, float("inf"), -1.0)'
            line(f"size = tl.where(a{k} == a{k}, tl.abs(a{k}), {stays})")
            line(f"size = tl.where((place >= {k}) & (i < {self.rows}), size, -2.0)")
            line("most = tl.max(size, 1)[:, None]")
            line(f"key = tl.where(size == most, place * {self.high} + i, {self.high**2})")
            line("key = tl.min(key, 1)[:, None]")
            line(f"first = key // {self.high}")
            line(f"l{k} = tl.zeros({self._shape}, tl.int32) + key % {self.high}")
            line(f"exchanges = tl.where(number == {k}, first + 1, exchanges)")
            line(f"place = tl.where(i == l{k}, {k}, tl.where(place == {k}, first, place))")
            line(f"d{k} = {self._from(f'a{k}', f'l{k}')}")
            line(f"failed = tl.max(tl.where(d{k} == 0, 1, 0), 1)[:, None] > 0")
            line(f"info = tl.where((info == 0) & failed, {k + 1}, info)")
            line(f"below = (place > {k}) & (d{k} != 0)")
            line(f"factor = exact_quotient(a{k}, tl.where(d{k} == 0, 1, d{k}))")
            for j in range(k + 1, self.columns):
                row = self._from(f"a{j}", f"l{k}")
                line(f"a{j} = tl.where(below, a{j} - factor * {row}, a{j})")
            line(f"a{k} = tl.where(below, factor, a{k})")

    def _keep_factors(self) -> None:
        self.line(f"a = {self._joined('a', self.wide)}")
        self.line(
            "after = keep_factors(args, finish, m, record, a, place, exchanges, info, "
            f"{self.kind}, {self.rows}, {self.columns})"
        )

    def _cholesky(self) -> None:
        line, n = self.line, self.columns
        line(f"info = tl.zeros({self._shape}, tl.int32)")
        for k in range(n):
            line(f"pivot = {self._from(f'a{k}', k)}")
            line("going = (info == 0) & (pivot > 0)")
            line(f"info = tl.where((info == 0) & ((pivot > 0) == 0), {k + 1}, info)")
            line("root = exact_root(tl.where(going, pivot, 1))")
            line(f"factor = tl.where(i == {k}, root, exact_quotient(a{k}, root))")
            line(f"factor = tl.where((i >= {k}) & going, factor, 0)")
            line(f"a{k} = tl.where((i >= {k}) & going, factor, a{k})")
            for j in range(k + 1, n):
                line(f"a{j} = a{j} - factor * {self._from('factor', j)}")
        for k in range(self.wide):
            line(f"a{k} = tl.where(i >= {k}, a{k}, 0)")
        line(f"place = tl.arange(0, {self.high})[None, :]")
        self._keep("a", self.wide, "0", "0", str(n))
        line("info = tl.max(info, 1)[:, None]")
        line(f"keep_info(args, finish, m, {self.rows * n}, record, info, {self.kind})")

    def _lu(self) -> None:
        self._factor()
        self._keep_factors()

    # ---- right-hand sides ----

    def _substitute(self, count: int, *, upper: bool, unit: bool, lanes: bool) -> None:
        """x{r} of T X = x for r < count; see `substituted`. `lanes`: rows lie where l{k} says."""
        line, n = self.line, self.columns
        for turn in range(n):
            k = n - 1 - turn if upper else turn
            lane: str | int = f"l{k}" if lanes else k
            if not unit and not lanes:
                line(f"d{k} = {self._from(f'a{k}', k)}")
            last = turn + 1 == n
            if last and unit:
                return
            line(f"later = place {'<' if upper else '>'} {k}")
            for r in range(count):
                line(f"row = {self._from(f'x{r}', lane)}")
                if not unit:
                    line(f"row = exact_quotient(row, d{k})")
                own = f"x{r}" if unit else f"tl.where(place == {k}, row, x{r})"
                line(f"x{r} = tl.where(later, x{r} - a{k} * row, {own})")

    def _right(
        self, first: str, *solved: tuple[bool, bool], lanes: bool, given: bool = True
    ) -> None:
        """Solves for some columns of right-hand sides at a time, and stores what is X.

        `given`: they are b's; else those of the identity.
        """
        count = "right" if given else str(self.columns)
        self.line(f"for start in range(0, {count}, {self.right}):")
        inner = replace(self, line=lambda text: self.line(f"    {text}"))
        if given:
            sizes = f"{self.rows}, {self.high}, {self.right}"
            inner.line(f"x = matrix_tile(args, load_b, m, start, right, {sizes})")
            inner._split("x", "x", self.right)
        else:
            for r in range(self.right):
                inner.line(f"x{r} = tl.where(i == start + {r}, 1.0, 0.0).to({self.kind})")
        for upper, unit in solved:
            inner._substitute(self.right, upper=upper, unit=unit, lanes=lanes)
        inner._keep("x", self.right, first, "start", count)

    def _solve(self) -> None:
        self._factor()
        self._keep_factors()
        self._right("after", (False, True), (True, False), lanes=True)

    def _inverse(self) -> None:
        self._factor()
        self._right("0", (False, True), (True, False), lanes=True, given=False)
        after = self.rows * self.columns
        self.line(f"keep_info(args, finish, m, {after}, record, info, {self.kind})")

    def _triangular(self) -> None:
        self.line("place = i")
        upper, unit = "upper" in self.options, "unit" in self.options
        self._right("0", (upper, unit), lanes=False)
