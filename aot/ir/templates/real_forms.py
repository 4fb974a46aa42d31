"""Routines of complex matrices, and of determinants, by those that every device has.

X + iY acts on pairs of parts as [[X, -Y], [Y, X]]: inverses and solutions are those of such real
matrices. With the parts side by side, each element x + iy a block [[x, -y], [y, x]], triangles stay
triangles where the diagonal is real. A Hermitian matrix' factor is then the real factor of such
blocks, and a triangular system is one of them when its rows are divided by the diagonal.

Operands' imaginary parts come apart; a record has all real parts of a result before the imaginary
ones (`general_linalg.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from aot.ir.dtypes import FLOAT64
from aot.ir.nests import Axis, LoopNest, Store, View
from aot.ir.scalar import Node, binary, cast, const, index_value, load, reduce_, unary, where
from aot.ir.templates.base import LoopOp
from aot.ir.templates.builder import NestBuilder
from aot.ir.templates.library import LibraryCall, LibraryRoutine, Sizes
from aot.ir.templates.linalg import ROUTINES
from aot.ir.templates.matmul import Matmul
from aot.symbolic import Expr, FloorDiv, Modulo, integer, var

_TWO = integer(2)


def _same(info: Node) -> Node:
    return info


class _Form:
    """What the forms of one call declare."""

    def __init__(self, call: LibraryCall, builder: NestBuilder) -> None:
        self.call = call
        self.builder = builder
        self.dtype = builder.dtype(call.output.buffer).compute
        self.ops: list[LoopOp] = []

    def element(self, view: View | None, row: Expr, column: Expr, batch: Expr) -> Node:
        """Of an operand."""
        assert view is not None
        places = zip((a.symbol for a in view.axes), (batch, row, column), strict=True)
        return self.builder.load(view, dict(places))

    def matrices(
        self,
        name: str,
        like: View,
        columns: Expr,
        body: Callable[[Expr, Expr, Expr], Node],
        times: int = 2,
    ) -> View:
        """New matrices with `times` as many rows as `like`, of body(batch, row, column)."""
        batch, row, column = like.axes
        rows = (times * row.extent).expand()
        axes = (batch, Axis(row.symbol, rows), Axis(column.symbol, columns))
        point = tuple(a.symbol for a in axes)
        dtype = self.builder.dtype(like.buffer)
        temp = self.builder.temp(f"{self.call.name}_{name}", dtype, tuple(a.extent for a in axes))
        store = Store(temp, point, cast(body(*point), dtype))
        self.ops.append(LoopNest(temp, axes, (), (store,), self.call.origin))
        return View(temp, axes, point)

    def called(
        self, routine: LibraryRoutine, a: View, b: View | None = None, options: tuple[str, ...] = ()
    ) -> tuple[View, Sizes]:
        """Records of another routine."""
        row, place = self.call.output.axes
        sizes = Sizes(a.axes[1].extent, a.axes[2].extent, self.call.sizes.r)
        width = routine.record(sizes)
        name, dtype = f"{self.call.name}_real", self.builder.dtype(self.call.output.buffer)
        self.builder.temp(name, dtype, (row.extent, width))
        output = View(name, (row, Axis(place.symbol, width)), (row.symbol, place.symbol))
        self.ops.append(LibraryCall(name, output, self.call.origin, a, routine, b, options=options))
        return output, sizes

    def read(self, records: View, place: Expr, mask: Node | None = None) -> Node:
        """The element of a record at that place."""
        return self.builder.load(records, {records.axes[1].symbol: place}, mask)

    def done(self, value: Node, reduction: tuple[Axis, ...] = ()) -> list[LoopOp]:
        """All of it, once the record's element at a place is known."""
        call = self.call
        store = call.stored(value, self.builder)
        nest = LoopNest(call.name, call.output.axes, reduction, (store,), call.origin)
        return [*self.ops, nest]

    def parts(
        self,
        records: View,
        count: Expr,
        place: Expr,
        info: Expr | None = None,
        last: Callable[[Node], Node] = _same,
    ) -> list[LoopOp]:
        """Records of `count` numbers, and behind them perhaps last(info)."""
        column = index_value(self.call.output.axes[1].symbol)
        if info is None:
            return self.done(self.read(records, place))
        inside = binary("lt", column, index_value(count))
        value = self.read(records, place, inside)
        return self.done(where(inside, value, last(self.read(records, info))))


def _always(value: Node) -> Callable[[Expr, Expr, Expr], Node]:
    """Of a matrix: the value at its own place."""
    return lambda batch, row, column: value


def _lt(a: Expr, b: Expr) -> Node:
    return binary("lt", index_value(a), index_value(b))


def _eq(a: Expr, b: Expr) -> Node:
    return binary("eq", index_value(a), index_value(b))


def _alternating(place: Expr, n: Expr, columns: Expr) -> tuple[Expr, Expr]:
    """Of an element of a record of parts: its row where those of either part alternate; column."""
    row = FloorDiv(place, columns)
    return Modulo(row, n) * 2 + FloorDiv(row, n), Modulo(place, columns)


def _blocks(form: _Form, over_diagonal: bool) -> View:
    """Each element as a block of 2 x 2; the diagonal counts as real, or is what rows are over."""
    a, n = form.call.a, form.call.sizes.n

    def body(batch: Expr, row: Expr, column: Expr) -> Node:
        i, j = FloorDiv(row, _TWO), FloorDiv(column, _TWO)
        re, im = (form.element(part, i, j, batch) for part in (a, form.call.a_im))
        if over_diagonal:
            re, im = _over(form, (re, im), batch, i)
        own = const(0.0, im.dtype)
        im = where(_eq(i, j), own, im)
        below, right = Modulo(row, _TWO), Modulo(column, _TWO)
        signed = where(_lt(below, right), unary("neg", im), im)
        return where(_eq(below, right), re, signed)

    return form.matrices("blocks", a, 2 * n, body)


def _over(form: _Form, z: tuple[Node, Node], batch: Expr, i: Expr) -> tuple[Node, Node]:
    """z over the matrix' element (i, i)."""
    re, im = z
    c, d = (form.element(part, i, i, batch) for part in (form.call.a, form.call.a_im))

    def products(op: str, p: Node, q: Node) -> Node:
        return binary(op, binary("mul", p, c), binary("mul", q, d))

    size = products("add", c, d)
    return binary("div", products("add", re, im), size), binary(
        "div", products("sub", im, re), size
    )


def cholesky(call: LibraryCall, builder: NestBuilder) -> list[LoopOp]:
    """By the factor of blocks."""
    form, n = _Form(call, builder), call.sizes.n
    records, sizes = form.called(ROUTINES["cholesky"], _blocks(form, over_diagonal=False))
    row, column = _alternating(call.output.axes[1].symbol, n, n)
    info, _ = ROUTINES["cholesky"].place("info", sizes)

    def halved(value: Node) -> Node:
        half = binary("mul", binary("add", value, const(1.0, value.dtype)), const(0.5, value.dtype))
        return unary("floor", half)

    return form.parts(records, 2 * n * n, row * (2 * n) + column * 2, info, halved)


def triangular(call: LibraryCall, builder: NestBuilder) -> list[LoopOp]:
    """By blocks; what is divided by the diagonal has ones there."""
    assert call.b is not None
    form, given, (n, r) = _Form(call, builder), call.b, (call.sizes.n, call.sizes.r)
    unit = "unit" in call.options

    def body(batch: Expr, row: Expr, column: Expr) -> Node:
        i = FloorDiv(row, _TWO)
        re, im = (form.element(part, i, column, batch) for part in (given, call.b_im))
        if not unit:
            re, im = _over(form, (re, im), batch, i)
        return where(_eq(Modulo(row, _TWO), integer(0)), re, im)

    sides = form.matrices("rows", given, r, body)
    options = tuple(sorted({*call.options, "unit"}))
    matrices = _blocks(form, over_diagonal=not unit)
    records, _ = form.called(ROUTINES["triangular"], matrices, sides, options)
    row, column = _alternating(call.output.axes[1].symbol, n, r)
    return form.parts(records, 2 * n * r, row * r + column)


def _doubled(form: _Form) -> View:
    """[[X, -Y], [Y, X]]."""
    a, n = form.call.a, form.call.sizes.n

    def body(batch: Expr, row: Expr, column: Expr) -> Node:
        below, right = (unary("not", _lt(i, n)) for i in (row, column))
        at = Modulo(row, n), Modulo(column, n), batch
        re, im = (form.element(part, *at) for part in (a, form.call.a_im))
        other = where(right, unary("neg", im), im)
        return where(binary("eq", below, right), re, other)

    return form.matrices("doubled", a, 2 * n, body)


def inverse(call: LibraryCall, builder: NestBuilder) -> list[LoopOp]:
    """By the inverse of real matrices of twice the size, of which the left half is read."""
    form, n = _Form(call, builder), call.sizes.n
    records, sizes = form.called(ROUTINES["inverse"], _doubled(form))
    place = call.output.axes[1].symbol
    info, _ = ROUTINES["inverse"].place("info", sizes)
    at = FloorDiv(place, n) * (2 * n) + Modulo(place, n)
    return form.parts(records, 2 * n * n, at, info)


def solve(call: LibraryCall, builder: NestBuilder) -> list[LoopOp]:
    """By the solution of real systems of twice the size."""
    form, (n, r) = _Form(call, builder), (call.sizes.n, call.sizes.r)
    assert call.b is not None

    def body(batch: Expr, row: Expr, column: Expr) -> Node:
        at = Modulo(row, n), column, batch
        re, im = (form.element(part, *at) for part in (call.b, call.b_im))
        return where(_lt(row, n), re, im)

    sides = form.matrices("sides", call.b, r, body)
    records, sizes = form.called(ROUTINES["solve"], _doubled(form), sides)
    (first, _), (info, _) = (ROUTINES["solve"].place(part, sizes) for part in ("x", "info"))
    return form.parts(records, 2 * n * r, first + call.output.axes[1].symbol, info)


def determinant(call: LibraryCall, builder: NestBuilder) -> list[LoopOp]:
    """By the product of the pivots of real matrices."""
    form, n = _Form(call, builder), call.sizes.n
    records, sizes = form.called(ROUTINES["lu"], call.a)
    (lu, _), (pivots, _) = (ROUTINES["lu"].place(part, sizes) for part in ("lu", "pivots"))
    k = var("pivot")
    value = form.read(records, lu + k * (n + 1))
    chosen, own = form.read(records, pivots + k), cast(index_value(k + 1), form.dtype)
    stays = binary("eq", chosen, own)

    def signed(x: Node) -> Node:
        return where(stays, x, unary("neg", x))

    found = (
        reduce_("prod", signed(value)),
        reduce_("prod", signed(unary("sign", value))),
        reduce_("sum", unary("log", unary("abs", value))),
    )
    place = call.output.axes[1].symbol
    after = where(_eq(place, integer(1)), found[1], found[2])
    return form.done(where(_eq(place, integer(0)), found[0], after), (Axis(k, n),))


def least_squares(call: LibraryCall, builder: NestBuilder) -> list[LoopOp]:
    """By singular values, of no fewer rows than columns.

    Those count that are more than a rounding, times the rows, times the greatest.
    """
    form, (m, n, r) = _Form(call, builder), (call.sizes.m, call.sizes.n, call.sizes.r)
    batch, _, column = call.a.axes
    records, sizes = form.called(ROUTINES["svd"], call.a)
    names = ("values", "ut", "vt")
    values, left, right = (ROUTINES["svd"].place(name, sizes)[0] for name in names)
    k, i = var("value"), var("element")
    least = (2.0**-52 if form.dtype == FLOAT64 else 2.0**-23) * int(m)
    greatest = form.read(records, values)

    def counts(which: Expr) -> Node:
        bound = binary("mul", const(least, greatest.dtype), greatest)
        return binary("lt", bound, form.read(records, values + which))

    assert call.b is not None
    sides = (batch, Axis(k, sizes.n), Axis(column.symbol, r))
    point = tuple(axis.symbol for axis in sides)
    temp = builder.temp(f"{call.name}_sides", form.dtype, tuple(axis.extent for axis in sides))
    term = binary(
        "mul",
        form.read(records, left + k * m + i),
        form.element(call.b, i, column.symbol, batch.symbol),
    )
    share = binary("div", reduce_("sum", term), form.read(records, values + k))
    value = where(counts(k), share, const(0.0, share.dtype))
    store = Store(temp, point, cast(value, form.dtype))
    form.ops.append(LoopNest(temp, sides, (Axis(i, m),), (store,), call.origin))
    place = call.output.axes[1].symbol
    at, row = (batch.symbol, k, Modulo(place, r)), Modulo(FloorDiv(place, r), n)  # of the rank: any
    own = load(temp, form.dtype, at)
    x = reduce_("sum", binary("mul", form.read(records, right + k * n + row), own))
    rank = reduce_("sum", cast(counts(k), form.dtype))
    return form.done(where(_lt(place, n * r), x, rank), (Axis(k, sizes.n),))


def singular_values(call: LibraryCall, builder: NestBuilder) -> list[LoopOp]:
    """By those of real matrices of twice the size, each of which is there twice."""
    form, n, m = _Form(call, builder), call.sizes.n, FloorDiv(call.sizes.m, _TWO)

    def body(batch: Expr, row: Expr, column: Expr) -> Node:
        return _of_both(form, form.call.a, (row, column), (m, n), batch)

    return _every_other(form, "svdvals", form.matrices("doubled", call.a, 2 * n, body, times=1))


def hermitian_values(call: LibraryCall, builder: NestBuilder) -> list[LoopOp]:
    """The same of eigenvalues; of X and Y the lower triangles count."""
    form, n = _Form(call, builder), call.sizes.n

    def body(batch: Expr, row: Expr, column: Expr) -> Node:
        value = _of_both(form, form.call.a, (row, column), (n, n), batch)
        i = Modulo(row, n)
        turned = form.element(
            call.a, Modulo(column, n) + n, i, batch
        )  # of Y, where its place is above
        beside = binary("and", unary("not", _lt(row, n)), _lt(column, n))
        above, own = _lt(i, column), _eq(i, column)
        imaginary = where(above, unary("neg", turned), value)
        imaginary = where(own, const(0.0, value.dtype), imaginary)
        return where(beside, imaginary, value)

    return _every_other(form, "eigvalsh", form.matrices("doubled", call.a, 2 * n, body, times=1))


def _of_both(
    form: _Form, x: View, at: tuple[Expr, Expr], sizes: tuple[Expr, Expr], batch: Expr
) -> Node:
    """Of [[X, -Y], [Y, X]], where X lies above Y in `x`."""
    (row, column), (m, n) = at, sizes
    below, right = (unary("not", _lt(i, size)) for i, size in zip(at, sizes, strict=True))
    i, j = Modulo(row, m), Modulo(column, n)
    re, im = (form.element(x, i + first, j, batch) for first in (integer(0), m))
    return where(binary("eq", below, right), re, where(right, unary("neg", im), im))


def _every_other(form: _Form, routine: str, matrices: View) -> list[LoopOp]:
    records, _ = form.called(ROUTINES[routine], matrices)
    return form.done(form.read(records, 2 * form.call.output.axes[1].symbol))


SQUARINGS = 24
"""That the exponential of a matrix may need; `squared` does no more."""

TERMS = 16
"""Of the exponential's series, behind the identity."""


class _Powers:
    """Matrices of a batch, and products of them, as nests; those of both parts where complex."""

    def __init__(self, call: LibraryCall, builder: NestBuilder, parts: int) -> None:
        self.form, self.parts, n = _Form(call, builder), parts, call.sizes.n
        batch, row, column = call.a.axes
        self.axes = batch, Axis(row.symbol, n), column
        self.depth = Axis(var("squared_depth"), n)

    def stored(self, name: str, values: list[Node]) -> list[View]:
        """New matrices."""
        form, made = self.form, []
        shape, point = tuple(a.extent for a in self.axes), tuple(a.symbol for a in self.axes)
        for k, value in enumerate(values):
            temp = form.builder.temp(f"{form.call.name}_{name}_{k}", form.dtype, shape)
            store = Store(temp, point, value)
            form.ops.append(LoopNest(temp, self.axes, (), (store,), form.call.origin))
            made.append(View(temp, self.axes, point))
        return made

    def read(self, views: list[View]) -> list[Node]:
        """Elements of matrices."""
        return [self.form.builder.load(view, {}) for view in views]

    def product(self, name: str, a: list[View], b: list[View]) -> list[Node]:
        """Elements of a product."""

        def real(which: str, p: View, q: View) -> Node:
            return self._real_product(f"{name}_{which}", p, q)

        if self.parts == 1:
            return [real("re", a[0], b[0])]
        return [
            binary("sub", real("re", a[0], b[0]), real("im", a[1], b[1])),
            binary("add", real("one", a[0], b[1]), real("other", a[1], b[0])),
        ]

    def _real_product(self, name: str, a: View, b: View) -> Node:
        form, axes = self.form, (*a.axes[:-1], b.axes[-1])
        (first, i, j), depth = axes, replace(self.depth, extent=a.axes[-1].extent)
        point, extents = tuple(x.symbol for x in axes), tuple(x.extent for x in axes)
        temp = form.builder.temp(f"{form.call.name}_{name}", form.dtype, extents)
        left = View(a.buffer, (first, i, depth), (point[0], point[1], depth.symbol))
        right = View(b.buffer, (first, depth, j), (point[0], depth.symbol, point[2]))
        output = View(temp, axes, point)
        form.ops.append(Matmul(temp, output, form.call.origin, left, right))
        return form.builder.load(output, {})

    def squarings(self, parts: list[View]) -> list[LoopOp]:
        """Records of matrices, squared as often as b says; each takes or leaves a square.

        Of complex ones a square is one product: [[X, -Y], [Y, X]] times X above Y.
        """
        form, batch, n = self.form, self.axes[0], self.form.call.sizes.n
        times = form.element(form.call.b, integer(0), integer(0), batch.symbol)

        def above(b: Expr, i: Expr, j: Expr) -> Node:
            found = [form.element(view, Modulo(i, n), j, b) for view in parts]
            return found[0] if self.parts == 1 else where(_lt(i, n), *found)

        x = form.matrices("squared", parts[0], n, above, times=self.parts)
        for k in range(SQUARINGS):
            left = x if self.parts == 1 else self._joined(f"joined{k}", x)
            new, old = self._real_product(f"square{k}", left, x), form.builder.load(x, {})
            wanted = binary("lt", const(float(k), times.dtype), times)
            x = form.matrices(f"squared{k}", x, n, _always(where(wanted, new, old)), times=1)
        place = form.call.output.axes[1].symbol
        return form.done(form.element(x, FloorDiv(place, n), Modulo(place, n), batch.symbol))

    def _joined(self, name: str, x: View) -> View:
        """[[X, -Y], [Y, X]], where X lies above Y."""
        form, n = self.form, self.form.call.sizes.n

        def body(b: Expr, i: Expr, j: Expr) -> Node:
            return _of_both(form, x, (i, j), (n, n), b)

        return form.matrices(name, x, (2 * n).expand(), body, times=1)


def squared(call: LibraryCall, builder: NestBuilder) -> list[LoopOp]:
    """By products as often as any matrix may need."""
    parts = 2 if call.routine.name.startswith("complex") else 1
    powers, n = _Powers(call, builder, parts), call.sizes.n
    batch, row, column = (a.symbol for a in powers.axes)
    start = [powers.form.element(call.a, row + part * n, column, batch) for part in range(parts)]
    return powers.squarings(powers.stored("start", start))


def exponential(call: LibraryCall, builder: NestBuilder) -> list[LoopOp]:
    """By `TERMS` terms of the series, four at a time from the last on, and squares."""
    parts = 1 if call.a_im is None else 2
    powers = _Powers(call, builder, parts)
    batch, row, column = (a.symbol for a in powers.axes)
    given = [call.a] if call.a_im is None else [call.a, call.a_im]
    x = powers.stored("x", [powers.form.element(part, row, column, batch) for part in given])
    zero, one = (const(value, powers.form.dtype) for value in (0.0, 1.0))
    powers_of = [[where(_eq(row, column), one, zero), zero][:parts], powers.read(x)]
    x2 = powers.stored("x2", powers.product("xx", x, x))
    x3 = powers.stored("x3", powers.product("xxx", x2, x))
    x4 = powers.stored("x4", powers.product("xxxx", x2, x2))
    powers_of += [powers.read(view) for view in (x2, x3, x4)]
    found: list[View] | None = None
    for first in range(TERMS - 4, -1, -4):
        terms = powers_of[: 4 if found else 5]
        made = powers.product(f"step{first}", found, x4) if found else [zero] * parts
        for k, term in enumerate(terms):
            share = const(1.0 / math.factorial(first + k), powers.form.dtype)
            made = [
                binary("add", old, binary("mul", new, share))
                for old, new in zip(made, term, strict=True)
            ]
        found = powers.stored(f"sum{first}", made)
    assert found is not None
    return powers.squarings(found)
