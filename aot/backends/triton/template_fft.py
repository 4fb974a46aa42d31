"""Fourier transforms, with a fused epilogue: a program holds some transforms in registers.

A pass transforms a digit of the points' numbers (`fft_digits.py`); between two passes, points
change places through shared memory. Where neighbours lie along `inner`, a program has a few of
them; else it has a few rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from aot.backends.triton.body import Body
from aot.backends.triton.context import KernelContext, TileDim, make_context
from aot.backends.triton.dot import finish_tile, with_ranges
from aot.backends.triton.fft_digits import Digit, Names, Transforms, digits_of, number_text, padded
from aot.backends.triton.gpu import Gpu
from aot.backends.triton.hooks import Hooks
from aot.backends.triton.kernel import NAME, EmittedKernel, line_grid, program_id
from aot.backends.triton.text import Writer, index_text
from aot.backends.triton.tiling import WARP, power_above
from aot.ir.dtypes import FLOAT32, FLOAT64, DType
from aot.ir.hints import Hints
from aot.ir.kernel_facts import template_call
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.ir.nests import Axis, Buffer, View
from aot.ir.scalar import load
from aot.ir.templates.fft import Fft
from aot.symbolic import ceil_div, coefficient_of, integer, is_int, product, substitute, var

_WIDEST = 16
"""Points of the widest digit that is a power of two."""

_MOST_BYTES = 1 << 16
"""Of a program's numbers."""

_LEAST_LANES = 32
"""Bytes of neighbours that a program reads at least: what memory moves at once."""

_LANES = 128
"""Bytes of neighbours that a program reads where there is room."""

_EACH = 16
"""Numbers of a thread, about."""

_POINT, _LANE, _PAIR = var("fft_point"), var("fft_lane"), var("fft_pair")


@dataclass(frozen=True)
class FftTile:
    """A program's rows, or neighbours; how many points its tile has, and warps."""

    rows: int
    lanes: int
    points: int
    warps: int


def takes_fft(call: Fft, buffers: Mapping[str, Buffer], hints: Hints) -> str:
    """Why there is no kernel for a call; "" where there is."""
    dtype = buffers[call.re.buffer].dtype
    if dtype not in (FLOAT32, FLOAT64):
        return f"its kernels take no {dtype}"
    least = 1 if _is_row(call) else _LEAST_LANES // (2 * dtype.itemsize)
    if padded(_digits(call)) * least * 2 * dtype.itemsize > _MOST_BYTES:
        return "its points do not fit into a program"
    return ""


def _is_row(call: Fft) -> bool:
    return is_int(call.re.axes[2].extent, 1)


def _digits(call: Fft) -> tuple[int, ...]:
    first, second = call.sizes
    return (*digits_of(first, _WIDEST), *(digits_of(second, _WIDEST) if second > 1 else ()))


def fft_tile(call: Fft, dtype: DType, hints: Hints, gpu: Gpu) -> FftTile:
    """What a program has of a call."""
    points = padded(_digits(call))
    number = 2 * dtype.itemsize
    outer, _, inner = (max(1, hints.value(a.extent)) for a in call.re.axes)
    if _is_row(call):
        lanes, rows = 1, max(1, 1024 // points)
        rows = min(rows, power_above(max(1, outer // gpu.multiprocessors)))
    else:
        lanes = max(_LEAST_LANES // number, min(_LANES // number, _MOST_BYTES // number // points))
        lanes, rows = min(lanes, power_above(inner)), 1
    warps = max(1, min(16, points * lanes * rows // (WARP * _EACH)))
    return FftTile(rows, lanes, points, warps)


@dataclass(frozen=True)
class _Fft:
    """One kernel, taken apart."""

    kernel: TemplateKernel
    call: Fft
    context: KernelContext
    dtype: DType
    tile: FftTile

    @property
    def is_row(self) -> bool:
        """Whether a program has rows."""
        return _is_row(self.call)

    @cached_property
    def digits(self) -> tuple[int, ...]:
        """In the order of the passes."""
        return _digits(self.call)

    @property
    def count(self) -> int:
        """Digits of the first of both sizes."""
        return len(digits_of(self.call.sizes[0], _WIDEST))

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


def emit_fft(kernel: TemplateKernel, graph: KernelGraph, hints: Hints, gpu: Gpu) -> EmittedKernel:
    """The kernel of a Fourier transform and its epilogue."""
    call = template_call(kernel, Fft)
    dtype = graph.buffers[call.re.buffer].dtype
    context = make_context(kernel, graph, gpu)
    outer, point, inner = call.re.axes
    pairs = product((inner.extent, integer(2)))
    axes = (Axis(_POINT, point.extent), Axis(_LANE, inner.extent), Axis(_PAIR, pairs))
    context = with_ranges(context, (*axes, *call.output.axes))
    t = _Fft(kernel, call, context, dtype, fft_tile(call, dtype, hints, gpu))
    hooks = Hooks(context)
    if t.are_pairs:
        _write_pairs(hooks, t)
    else:
        for role in ("re", "im"):
            view: View | None = getattr(call, role)
            if view is not None:
                _write_load(hooks, t, view, f"load_{role}")
    _write_tables(hooks, t)
    _write_finish(hooks, t)
    writer = Writer()
    _Passes(t, writer).write(hooks)
    names = [name for name in _HOOKS if name in hooks]
    program = program_id(context)
    if t.is_row:
        programs = ceil_div(outer.extent, t.tile.rows)
        place = {"first": f"{program} * {t.tile.rows}", "lane": "0"}
    else:
        blocks = ceil_div(inner.extent, t.tile.lanes)
        text = index_text(blocks, context.names)
        programs = product((outer.extent, blocks))
        place = {
            "first": f"{program} // ({text})",
            "lane": f"{program} % ({text}) * {t.tile.lanes}",
        }
    head = f"@triton.jit\ndef {NAME}_transform(args, {', '.join(names)}, first, lane):\n"
    emitted = hooks.emit(
        kernel, f"{NAME}_transform", place, line_grid(programs), {"num_warps": t.tile.warps}
    )
    return replace(emitted, function=f"{head}{writer.text()}\n\n{emitted.function}")


_HOOKS = ("load_pairs", "load_re", "load_im", "load_roots", "load_others", "load_fine", "load_coarse", "finish")


def _write_load(hooks: Hooks, t: _Fft, view: View, name: str) -> None:
    """The hook that reads a part of points: of rows, or of neighbours of an element of outer."""
    outer, point, inner = view.axes
    with hooks.function(name, "first", "m", "n") as body:
        points = TileDim("n", (point,), t.tile.points, 1, scattered=True, width="n.shape[1]")
        if t.is_row:
            body.take_dim(TileDim("m", (outer,), t.tile.rows, 0, width="m.shape[0]"))
            body.take_dim(points)
            body.name_axis(inner.symbol, "0", None)
        else:
            body.name_axis(outer.symbol, "first", None)
            body.take_dim(replace(points, name="m", position=0, width="m.shape[0]"))
            body.take_dim(TileDim("n", (inner,), t.tile.lanes, 1, width="n.shape[1]"))
        value = body.value(load(view.buffer, t.dtype, view.index))
        body.writer.line(f"return {body.padded(value, frozenset(('m', 'n')))}")


def _write_pairs(hooks: Hooks, t: _Fft) -> None:
    """The hook that reads both parts of numbers, which are neighbours."""
    view = t.call.re
    outer, point, inner = view.axes
    with hooks.function("load_pairs", "first", "m", "n") as body:
        if t.is_row:
            pairs = Axis(_PAIR, integer(2 * t.points))
            body.take_dim(TileDim("m", (outer,), t.tile.rows, 0, width="m.shape[0]"))
            body.take_dim(TileDim("n", (pairs,), 1, 1, scattered=True, width="n.shape[1]"))
            body.name_axis(inner.symbol, "0", None)
            symbol = point.symbol
        else:
            pairs = Axis(_PAIR, t.context.ranges.extents[_PAIR])
            body.name_axis(outer.symbol, "first", None)
            body.take_dim(TileDim("m", (point,), 1, 0, scattered=True, width="m.shape[0]"))
            body.take_dim(TileDim("n", (pairs,), 2 * t.tile.lanes, 1, width="n.shape[1]"))
            symbol = inner.symbol
        body.name_axis(symbol, "(n // 2)", "n")
        offset = t.context.offset(view.buffer, view.index)
        beside = coefficient_of(offset, symbol) == 2
        text, _ = body.index(substitute(offset, {symbol: integer(0)}) if beside else offset, {})
        own = "n" if beside else "n % 2"
        both = ("m", "n")
        shape, masks = body.shape(both), " & ".join(body.masks(both))
        pointer = f"{t.context.pointers[view.buffer]} + tl.broadcast_to(({text}) + {own}, {shape})"
        masked = f", mask=tl.broadcast_to({masks}, {shape}), other=0" if masks else ""
        body.writer.line(f"return tl.load({pointer}{masked})")


def _write_tables(hooks: Hooks, t: _Fft) -> None:
    """The hooks that read numbers of tables: of a power, or of a row and a column."""
    call = t.call
    for name, table in (("roots", call.roots), ("others", call.others)):
        if table is not None:
            power, part = (a.symbol for a in table.axes)
            _write_table(hooks, t, f"load_{name}", table, {power: "at", part: "part"})
    for name, table in (("fine", call.fine), ("coarse", call.coarse)):
        if table is not None:
            part, row, column = (a.symbol for a in table.axes)
            _write_table(
                hooks, t, f"load_{name}", table, {part: "part", row: "at", column: "column"}
            )


def _write_table(hooks: Hooks, t: _Fft, name: str, table: View, names: Mapping[object, str]) -> None:
    own = [text for text in ("at", "column") if text in names.values()]
    with hooks.function(name, "part", *own) as body:
        for symbol, text in names.items():
            body.name_axis(symbol, text, None)  # type: ignore[arg-type]
        text, _ = body.index(t.context.offset(table.buffer, table.index), {})
        body.writer.line(f"return tl.load({t.context.pointers[table.buffer]} + ({text}))")


def _write_finish(hooks: Hooks, t: _Fft) -> None:
    """The hook that stores results: of rows, of neighbours, or one by one for an epilogue."""
    row, column = t.call.output.axes
    both = frozenset(("m", "n"))
    with hooks.function("finish", "first", "m", "n", "values") as body:
        if t.is_row:
            body.take_dim(TileDim("m", (row,), t.tile.rows, 0, width="m.shape[0]"))
            body.take_dim(TileDim("n", (column,), 1, 1, scattered=True, width="n.shape[1]"))
            finish_tile(body, t.kernel, "values", both)
            return
        pairs = index_text(t.context.ranges.extents[_PAIR], t.context.names)
        body.name_axis(row.symbol, "first", None)
        points = Axis(_POINT, integer(t.points))
        if any(stage.nests for stage in t.kernel.stages):
            body.writer.line(f"at = tl.where((m < {t.points}) & (n < {pairs}), m * ({pairs}) + n, "
                             f"{t.points} * ({pairs}))")
            body.writer.line("values = tl.reshape(values, [1, m.shape[0] * n.shape[1]])")
            body.writer.line("n = tl.reshape(at, [1, m.shape[0] * n.shape[1]])")
            body.take_dim(TileDim("n", (column,), 1, 1, scattered=True, width="n.shape[1]"))
            finish_tile(body, t.kernel, "values", frozenset(("n",)))
            return
        lanes = Axis(_PAIR, t.context.ranges.extents[_PAIR])
        body.take_dim(TileDim("m", (points,), 1, 0, scattered=True, width="m.shape[0]"))
        body.take_dim(TileDim("n", (lanes,), 2 * t.tile.lanes, 1, width="n.shape[1]"))
        body.writer.line(f"at = m * ({pairs}) + n")
        body.name_axis(column.symbol, "at", "n")
        finish_tile(body, t.kernel, "values", both)


class _Passes:
    """Writes the statements of a program. Numbers are tensors (rows, positions, neighbours)."""

    def __init__(self, t: _Fft, writer: Writer) -> None:
        self.t = t
        self.line = writer.line
        self.transforms = Transforms(writer.line)
        self.room = t.tile.points

    def write(self, hooks: Hooks) -> None:
        """All passes, from loads to stores."""
        t, digits = self.t, self.t.digits
        if t.is_row:
            self.line(f"rows = first + tl.arange(0, {t.tile.rows})[:, None]")
        else:
            self.line(f"lanes = lane + tl.arange(0, {t.tile.lanes})[None, :]")
        x = self._paired() if t.are_pairs else self._loaded("load_im" in hooks)
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
            number, test = number_text("(pair // 2)", t.before(0))
            self.line("number = pair" if number == "(pair // 2)" else f"number = ({number}) * 2 + pair % 2")
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

    def _loaded(self, has_im: bool) -> list[Names]:
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
            if has_im:
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

    def _power(
        self, j: int, k: int, done: int, table: str, powers: Mapping[int, Names]
    ) -> Names:
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
        return [
            self._times_factors(y, f"row + {j * step}", "column") for j, y in enumerate(x)
        ]

    def _times_factors(self, x: Names, row: str, column: str) -> Names:
        """Times what both tables say."""
        fine, coarse = self.t.call.fine, self.t.call.coarse
        assert fine is not None and coarse is not None
        block = int(fine.axes[1].extent)
        whole = is_int(coarse.axes[1].extent, 1)
        rows = [("load_fine", f"({row})" if whole else f"({row}) % {block}")]
        if not whole:
            rows.append(("load_coarse", f"({row}) // {block}"))
        for table, at in rows:
            factor = self.transforms.fresh(
                *(f"{table}(args, {part}, {at}, {column})" for part in range(2))
            )
            x = self._times(x, factor)
        return x

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
            joined = _joined([y[c] for y in x] + [f"tl.zeros_like({x[0][c]})"] * (own - len(x)))
            self.line(f"{part} = {joined}")
            apart = f"[{tile.rows}, {following}, {rest}, {before}, {tile.lanes}, {own}]"
            self.line(f"{part} = tl.reshape({part}, {apart})")
            self.line(f"{part} = tl.permute({part}, (0, 2, 5, 3, 4, 1))")
            self.line(f"{part} = tl.reshape({part}, {shape})")
            parts.append(self._split(part, f"{'xw'[c]}{k + 1}_", following))
        return list(zip(parts[0], parts[1], strict=True))[: t.digits[k + 1]]

    def _split(self, name: str, prefix: str, count: int) -> list[str]:
        if count == 1:
            return [name]
        even, odd = f"{prefix}e", f"{prefix}o"
        self.line(f"{even}, {odd} = tl.split({name})")
        sides = self._split(even, even, count // 2), self._split(odd, odd, count // 2)
        return [sides[k % 2][k // 2] for k in range(count)]

    def _stored(self, x: list[Names]) -> None:
        t, tile, last = self.t, self.t.tile, len(self.t.digits) - 1
        count, number = self._positions(last), t.results(last)
        step = t.points // t.digits[last]
        if t.is_row:
            self.line(f"pair = tl.arange(0, {2 * count})[None, :]")
            point, test = number_text("(pair // 2)", number)
            self.line("point = pair" if point == "(pair // 2)" else f"point = ({point}) * 2 + pair % 2")
            shape, most, scale = f"[{tile.rows}, {2 * count}]", 2 * t.points, 2
        else:
            self.line(f"at = tl.arange(0, {count})[:, None]")
            point, test = number_text("at", number)
            self.line(f"point = {point}")
            self.line(f"pair = lane * 2 + tl.arange(0, {2 * tile.lanes})[None, :]")
            shape, most, scale = f"[{count}, {2 * tile.lanes}]", t.points, 1
        for j, y in enumerate(x):
            y = self._factored(y, j * step, count)
            re, im = (y[1], y[0]) if t.call.inverse else y
            value = f"tl.reshape(tl.join({re}, {im}), {shape})"
            if t.call.scale != 1.0:
                value = f"{value} * {t.call.scale!r}"
            place = f"point + {j * step * scale}"
            if test:
                place = f"tl.where({test}, {place}, {most})"
            where = f"rows, {place}" if t.is_row else f"{place}, pair"
            self.line(f"finish(args, first, {where}, {value})")

    def _factored(self, y: Names, add: int, count: int) -> Names:
        """Where the call is the first step of a longer one, results times roots of that."""
        t, fine = self.t, self.t.call.fine
        if fine is None or t.call.others is not None:
            return y
        last = len(t.digits) - 1
        if add == 0:
            point, test = number_text("turn", t.results(last))
            inner = index_text(t.call.re.axes[2].extent, t.context.names)
            each = f"(({inner}) // {int(fine.axes[2].extent)})"
            self.line(f"turn = tl.arange(0, {count})[None, :, None]")
            self.line(f"row = tl.where({test}, {point}, 0)" if test else f"row = {point}")
            self.line(
                f"column = tl.minimum((lane + tl.arange(0, {t.tile.lanes})[None, None, :]) // {each}, "
                f"{int(fine.axes[2].extent) - 1})"
            )
        return self._times_factors(y, f"row + {add}", "column")


def _joined(names: Sequence[str]) -> str:
    """One tensor of several, their number in its last dimensions."""
    if len(names) == 1:
        return names[0]
    return f"tl.join({_joined(names[0::2])}, {_joined(names[1::2])})"
