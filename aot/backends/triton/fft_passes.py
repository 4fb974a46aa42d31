"""The statements of a Fourier transform's program: passes, a digit each, and what is between them.

Numbers are pairs of tensors (rows, positions, neighbours). Results of a pass are multiplied by
roots of unity, and change places such that the next digit's points are tensors of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from aot.backends.triton.context import KernelContext
from aot.backends.triton.fft_digits import Digit, Names, Transforms, number_text
from aot.backends.triton.text import Writer, joined, taken_apart
from aot.ir.dtypes import DType
from aot.ir.kernels import TemplateKernel
from aot.ir.templates.fft import WIDEST, Fft, digits_of
from aot.symbolic import is_int, power_above, substitute


@dataclass(frozen=True)
class FftTile:
    """A program's rows, or neighbours; how many points its tile has, and warps."""

    rows: int
    lanes: int
    points: int
    warps: int


def is_row(call: Fft) -> bool:
    """Whether points lie along the last axis: programs have rows."""
    return is_int(call.re.axes[2].extent, 1)


def fft_digits(call: Fft) -> tuple[int, ...]:
    """The digits of points' numbers, in the order of the passes."""
    first, second = call.sizes
    return (*digits_of(first, WIDEST), *(digits_of(second, WIDEST) if second > 1 else ()))


@dataclass(frozen=True)
class FftKernel:
    """One kernel, taken apart."""

    kernel: TemplateKernel
    call: Fft
    context: KernelContext
    dtype: DType
    tile: FftTile

    @property
    def is_row(self) -> bool:
        """Whether a program has rows."""
        return is_row(self.call)

    @cached_property
    def digits(self) -> tuple[int, ...]:
        """In the order of the passes."""
        return fft_digits(self.call)

    @property
    def count(self) -> int:
        """Digits of the first of both sizes."""
        return len(digits_of(self.call.sizes[0], WIDEST))

    @cached_property
    def are_pairs(self) -> bool:
        """Whether both parts of each number are neighbours."""
        re, im = self.call.re, self.call.im
        if im is None or im.buffer != re.buffer:
            return False
        axes = {own.symbol: other.symbol for own, other in zip(im.axes, re.axes, strict=True)}
        places = (
            self.context.offset(view.buffer, (substitute(e, axes) for e in view.index))
            for view in (re, im)
        )
        first, second = places
        return is_int((second - first).expand(), 1)

    @property
    def points(self) -> int:
        """Of a transform."""
        first, second = self.call.sizes
        return first * second

    def before(self, k: int) -> list[Digit]:
        """What a position of the tile is in pass k: digits not transformed yet, results' digits."""
        weight, later = self.points, []
        for size in self.digits:
            weight //= size
            later.append(Digit(size, weight))
        return [*later[k + 1 :], *self.results(k)]

    def results(self, k: int) -> list[Digit]:
        """The digits of results that k passes have made."""
        weight, made = 1, []
        for size in self.digits[:k]:
            made.append(Digit(size, weight))
            weight *= size
        return made[::-1]


_HALF = "(pair // 2)"


def _paired(number: str) -> str:
    """Where the parts of a number that is made of `_HALF` lie."""
    return "pair" if number == _HALF else f"({number}) * 2 + pair % 2"


class Passes:
    """Writes the statements of a program. Numbers are tensors (rows, positions, neighbours)."""

    def __init__(self, t: FftKernel, writer: Writer) -> None:
        self.t = t
        self.line = writer.line
        self.transforms = Transforms(writer.line)
        self.room = t.tile.points

    def write(self) -> None:
        """All passes, from loads to stores."""
        t, digits = self.t, self.t.digits
        if t.is_row:
            self.line(f"rows = first + tl.arange(0, {t.tile.rows})[:, None]")
        else:
            self.line(f"lanes = lane + tl.arange(0, {t.tile.lanes})[None, :]")
        x = self._paired() if t.are_pairs else self._loaded()
        for k, size in enumerate(digits):
            self.line(f"# digit {k}: {size}")
            x = self.transforms.transform(x)
            if k + 1 < len(digits):
                x = self._exchanged(k, self._twiddled(k, x))
        self._stored(x)

    def _shape(self, k: int) -> str:
        tile = self.t.tile
        return f"[{tile.rows}, {self._positions(k)}, {tile.lanes}]"

    def _positions(self, k: int) -> int:
        return self.room // power_above(self.t.digits[k])

    def _paired(self) -> list[Names]:
        """The points of the first pass, of which both parts are neighbours."""
        t, tile, count = self.t, self.t.tile, self._positions(0)
        if t.is_row:
            self.line(f"pair = tl.arange(0, {2 * count})[None, :]")
            number, test = number_text(_HALF, t.before(0))
            self.line(f"number = {_paired(number)}")
            scale = 2
        else:
            self.line(f"at0 = tl.arange(0, {count})[:, None]")
            number, test = number_text("at0", t.before(0))
            self.line(f"number = {number}")
            self.line(f"pairs = lane * 2 + tl.arange(0, {2 * tile.lanes})[None, :]")
            scale = 1
        found = []
        step = t.points // t.digits[0]
        for j in range(t.digits[0]):
            place = f"number + {j * step * scale}"
            if test:
                place = f"tl.where({test}, {place}, {t.points * scale})"
            where = f"rows, {place}" if t.is_row else f"{place}, pairs"
            shape = f"[{tile.rows}, {count}, {tile.lanes}, 2]"
            self.line(
                f"x{j}, w{j} = tl.split(tl.reshape(load_pairs(args, first, {where}), {shape}))"
            )
            found.append((f"w{j}", f"x{j}") if t.call.inverse else (f"x{j}", f"w{j}"))
        return found

    def _loaded(self) -> list[Names]:
        t = self.t
        axes = "[None, :]" if t.is_row else "[:, None]"
        self.line(f"at0 = tl.arange(0, {self._positions(0)}){axes}")
        number, test = number_text("at0", t.before(0))
        self.line(f"number = {number}")
        found = []
        step = t.points // t.digits[0]
        for j in range(t.digits[0]):
            place = f"number + {j * step}" if j else "number"
            if test:
                place = f"tl.where({test}, {place}, {t.points})"
            names = f"x{j}", f"w{j}"
            where = f"rows, {place}" if t.is_row else f"{place}, lanes"
            self.line(f"{names[0]} = tl.reshape(load_re(args, first, {where}), {self._shape(0)})")
            if t.call.im is not None:
                self.line(
                    f"{names[1]} = tl.reshape(load_im(args, first, {where}), {self._shape(0)})"
                )
            else:
                self.line(f"{names[1]} = tl.zeros_like({names[0]})")
            found.append((names[1], names[0]) if t.call.inverse else names)
        return found

    def _twiddled(self, k: int, x: list[Names]) -> list[Names]:
        """Results of pass k times roots: of the size that the digit is of, or of both."""
        t, (first, second) = self.t, self.t.call.sizes
        self.line(f"t{k} = tl.arange(0, {self._positions(k)})[None, :, None]")
        if k + 1 == t.count and second > 1:
            return self._turned(k, x)
        stage = first if k < t.count else second
        begin = 0 if k < t.count else t.count
        done = 1
        for size in t.digits[begin:k]:
            done *= size
        end = t.count if k < t.count else len(t.digits)
        rest, weight = [], stage // done // t.digits[k]
        for size in t.digits[k + 1 : end]:
            weight //= size
            rest.append(Digit(size, weight))
        passed = [Digit(d.size, 0) for d in t.before(k)[len(rest) :]]
        number, test = number_text(f"t{k}", [*rest, *passed])
        number = f"tl.where({test}, {number}, 0)" if test else number
        self.line(f"p{k} = {number}")
        table = "load_roots" if k < t.count else "load_others"
        powers: dict[int, Names] = {}
        made = [x[0]]
        for j in range(1, len(x)):
            powers[j] = self._power(j, k, done, table, powers)
            made.append(self._times(x[j], powers[j]))
        return made

    def _power(self, j: int, k: int, done: int, table: str, powers: Mapping[int, Names]) -> Names:
        """w^(j done p): from a table where j is a power of two, else a product."""
        low = j & -j
        if low != j:
            return self._times(powers[low], powers[j - low])
        place = f"p{k} * {j * done}"
        return self.transforms.fresh(f"{table}(args, 0, {place})", f"{table}(args, 1, {place})")

    def _turned(self, k: int, x: list[Names]) -> list[Names]:
        """Results times roots of n1 n2: of the point of the one size and that of the other."""
        t = self.t
        results = t.results(k)
        zeros = [Digit(d.size, 0) for d in t.before(k)[: len(t.digits) - k - 1]]
        point, test = number_text(f"t{k}", [*zeros, *results])
        weight, rest = t.call.sizes[1], []
        for size in t.digits[k + 1 :]:
            weight //= size
            rest.append(Digit(size, weight))
        column, _ = number_text(f"t{k}", [*rest, *(Digit(d.size, 0) for d in results)])
        self.line(f"row = tl.where({test}, {point}, 0)" if test else f"row = {point}")
        self.line(f"column = tl.where({test}, {column}, 0)" if test else f"column = {column}")
        step = t.call.sizes[0] // t.digits[k]
        made = []
        for j, y in enumerate(x):
            made.append(y)
            for place in self._table_rows(f"row + {j * step}"):
                made[-1] = self._times(made[-1], self._factor_at(place))
        return made

    def _row_factors(self, count: int, step: int) -> list[Names]:
        """What the tables say of `column` and each of the rows `row` + j step, j < count.

        That is what they say of `row` times what they say of j step, which is a product of at most
        four numbers: a few loads in place of one for each result.
        """
        first = self._factor_at(*self._table_rows("row"))
        factors, powers = [first], dict[int, Names]()
        for j in range(1, count):
            low = j & -j
            powers[j] = (
                self._factor_at(*self._known_rows(j * step))
                if low == j
                else self._times(powers[low], powers[j - low])
            )
            factors.append(self._times(first, powers[j]))
        return factors

    def _factor_at(self, *places: tuple[str, str]) -> Names:
        """The product of what tables say of rows and `column`."""
        first, *others = (
            self.transforms.fresh(*(f"{table}(args, {part}, {at}, column)" for part in range(2)))
            for table, at in places
        )
        for other in others:
            first = self._times(first, other)
        return first

    def _table_rows(self, row: str) -> list[tuple[str, str]]:
        """Tables and rows of them whose product is the factor of a row."""
        block, whole = self._blocks()
        if whole:
            return [("load_fine", f"({row})")]
        return [("load_fine", f"({row}) % {block}"), ("load_coarse", f"({row}) // {block}")]

    def _known_rows(self, row: int) -> list[tuple[str, str]]:
        """The same of a row that is known, and not 0: row 0 of a table is 1."""
        block, whole = self._blocks()
        if whole:
            return [("load_fine", str(row))]
        places = (("load_fine", row % block), ("load_coarse", row // block))
        return [(table, str(at)) for table, at in places if at]

    def _blocks(self) -> tuple[int, bool]:
        """Rows of the finer table, and whether it has all."""
        fine, coarse = self.t.call.fine, self.t.call.coarse
        assert fine is not None and coarse is not None
        return int(fine.axes[1].extent), is_int(coarse.axes[1].extent, 1)

    def _times(self, a: Names, b: Names) -> Names:
        return self.transforms.fresh(
            f"{a[0]} * {b[0]} - {a[1]} * {b[1]}", f"{a[0]} * {b[1]} + {a[1]} * {b[0]}"
        )

    def _exchanged(self, k: int, x: list[Names]) -> list[Names]:
        """The numbers of pass k + 1 from the results of pass k."""
        t, tile = self.t, self.t.tile
        own, following = power_above(t.digits[k]), power_above(t.digits[k + 1])
        before = 1
        for size in t.digits[:k]:
            before *= power_above(size)
        rest = self._positions(k) // following // before
        halves = ", 2" * (following.bit_length() - 1)
        shape = f"[{tile.rows}, {self._positions(k + 1)}, {tile.lanes}{halves}]"
        parts = []
        for c, part in enumerate(("re", "im")):
            whole = joined([y[c] for y in x] + [f"tl.zeros_like({x[0][c]})"] * (own - len(x)))
            self.line(f"{part} = {whole}")
            apart = f"[{tile.rows}, {following}, {rest}, {before}, {tile.lanes}, {own}]"
            self.line(f"{part} = tl.reshape({part}, {apart})")
            self.line(f"{part} = tl.permute({part}, (0, 2, 5, 3, 4, 1))")
            self.line(f"{part} = tl.reshape({part}, {shape})")
            self.line(f"{'xw'[c]}{k + 1}_ = {part}")
            parts.append(taken_apart(self.line, f"{'xw'[c]}{k + 1}_", following))
        return list(zip(parts[0], parts[1], strict=True))[: t.digits[k + 1]]

    def _stored(self, x: list[Names]) -> None:
        t, tile, last = self.t, self.t.tile, len(self.t.digits) - 1
        count, number = self._positions(last), t.results(last)
        step = t.points // t.digits[last]
        if t.is_row:
            self.line(f"pair = tl.arange(0, {2 * count})[None, :]")
            point, test = number_text(_HALF, number)
            self.line(f"point = {_paired(point)}")
            shape, most, scale = f"[{tile.rows}, {2 * count}]", 2 * t.points, 2
        else:
            self.line(f"at = tl.arange(0, {count})[:, None]")
            point, test = number_text("at", number)
            self.line(f"point = {point}")
            self.line(f"pair = lane * 2 + tl.arange(0, {2 * tile.lanes})[None, :]")
            shape, most, scale = f"[{count}, {2 * tile.lanes}]", t.points, 1
        factors = self._first_factors(count)
        for j, y in enumerate(x):
            re, im = self._times(y, factors[j]) if factors else y
            if t.call.inverse:
                re, im = im, re
            value = f"tl.reshape(tl.join({re}, {im}), {shape})"
            if t.call.scale != 1.0:
                value = f"{value} * {t.call.scale!r}"
            place = f"point + {j * step * scale}"
            if test:
                place = f"tl.where({test}, {place}, {most})"
            where = f"rows, {place}" if t.is_row else f"{place}, pair"
            self.line(f"finish(args, first, {where}, {value})")

    def _first_factors(self, count: int) -> list[Names]:
        """Where the call is the first step of a longer one, roots of that for each result."""
        t, fine = self.t, self.t.call.fine
        if fine is None or t.call.others is not None:
            return []
        point, test = number_text("turn", t.results(len(t.digits) - 1))
        self.line(f"turn = tl.arange(0, {count})[None, :, None]")
        self.line(f"row = tl.where({test}, {point}, 0)" if test else f"row = {point}")
        own = f"(lane + tl.arange(0, {t.tile.lanes})[None, None, :]) // each"
        self.line(f"column = tl.minimum({own}, {int(fine.axes[2].extent) - 1})")
        return self._row_factors(t.digits[-1], t.points // t.digits[-1])
