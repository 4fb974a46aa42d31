"""Calls of routines of libraries: a call of aot/linalg/routine.h with a fused epilogue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from aot.backends.cpp.context import KernelContext
from aot.backends.cpp.kernel import NAME, EmittedKernel, make_context, open_template
from aot.backends.cpp.operands import strided, template_type
from aot.backends.cpp.record_epilogues import emit_record_epilogues
from aot.backends.cpp.text import index_text
from aot.backends.cpp.tile import COLUMN, ROW, tile_context, tile_space
from aot.ir.dtypes import FLOAT32, FLOAT64, DType
from aot.ir.hints import Hints, hints_of
from aot.ir.kernel_facts import argument_buffers, template_call
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.ir.nests import Buffer, View
from aot.ir.templates.library import LibraryCall, Sizes
from aot.symbolic import (
    Expr,
    FloorDiv,
    Maximum,
    Minimum,
    as_expr,
    ceil_div,
    integer,
    is_int,
    product,
)

SMALL = 33
"""kSmall in aot/linalg/lanes.h: matrices up to this size are computed side by side."""

_GROUP = 16
"""Elements of a batch that a work unit takes where their matrices are small: whole vectors of every
level."""

_VECTOR, _PANEL = 64, 16
"""Bytes of the widest vector, and columns of a panel (kPanel in aot/tmpl/simd.h)."""

_DEPTH = 256
"""kDepth in aot/linalg/product.h."""

_REFLECTIONS = 64
"""kReflections in aot/linalg/large_qr.h."""

_BLOCK, _TURNED = 32, 64
"""kBlock in aot/linalg/tridiagonal.h, kTurned in aot/linalg/turn_back.h."""

_PENDING, _SHIFTS, _WINDOW, _STRIP = 32, 64, 128, 256
"""kPending in aot/linalg/hessenberg.h, kMostShifts and kStrip in sweep.h, kWindow in
multishift.h."""

_EXCHANGED = 32
"""kExchanged in aot/linalg/lstsq.h."""

_EIG_ALONE = 75
"""kAlone in aot/linalg/large_eig.h: matrices up to this size go another way."""

_VECTORS = 32
"""Numbers for each row of a matrix, at most, beside matrices: diagonals, taus, orders of rows."""

_FEW_SIDES = 4
"""Right-hand sides of triangular systems that are solved where T lies; kFew in triangular.h."""

_READ_IN_ORDER = 8192
"""Bytes of the largest triangles that are read in the order in which they are used."""

_UNIT_FLOPS = 1 << 16
"""That are worth a thread."""

MatrixSizes = tuple[tuple[Expr, Expr], ...]
"""Rows and columns of each."""


@dataclass(frozen=True)
class Workspace:
    """The scratch memory of a routine, beside its records.

    Attributes:
        lanes: Elements of one matrix of those that are computed side by side.
            None where small ones are computed alone, too.
        single: Matrices (rows, columns) of an element of the batch that is computed alone.
        words: Numbers of 32 bits that it needs there.
        falls_back: Whether one of several side by side may have to be computed alone.
    """

    lanes: Callable[[Sizes], Expr] | None
    single: Callable[[Sizes], MatrixSizes]
    words: Callable[[Sizes], Expr]
    falls_back: bool = False


@dataclass(frozen=True)
class RoutineKernel:
    """What there is for a routine.

    Attributes:
        name: Of the class in `header`.
        header: Of its library.
        workspace: What it needs beside its records.
        options: That its configuration has in any case.
    """

    name: str
    header: str
    workspace: Workspace
    options: tuple[str, ...] = ()

    @property
    def is_stacked(self) -> bool:
        """Whether imaginary parts lie below real ones, and small matrices side by side."""
        return _STACKED in self.options


_STACKED = "stacked"


def _nothing(s: Sizes) -> Expr:
    return integer(0)


def _single(matrices: Callable[[Sizes], MatrixSizes]) -> Workspace:
    """Of what is always computed alone."""
    return Workspace(None, matrices, _nothing)


def _times(parts: int, *shapes: tuple[Expr, Expr]) -> MatrixSizes:
    """Matrices of real numbers, or of complex ones, which are two."""
    return tuple((parts * rows, columns) for rows, columns in shapes)


def _turning(parts: int, rows: Expr, columns: Expr) -> MatrixSizes:
    """Reflections as one (`Joined` in large_qr.h), and what it is applied by."""
    count = integer(_REFLECTIONS)
    joined = (rows, count), (count, rows), (count + 1, count)
    return _times(parts, *joined, (2 * count, columns))


def _qr(parts: int) -> Callable[[Sizes], MatrixSizes]:
    """Of `large_qr`; operands of complex matrices have twice their rows."""

    def single(s: Sizes) -> MatrixSizes:
        count = integer(_REFLECTIONS)
        columns = (parts * count, s.m), (integer(parts), s.n)
        return (s.m, s.n), *columns, *_turning(parts, s.m, s.n)

    return single


def _reflecting(parts: int) -> Callable[[Sizes], MatrixSizes]:
    """Of `large_reflections`."""
    return lambda s: ((s.m, s.n), (s.m, s.r), *_turning(parts, s.m, s.r))


_FACTORS = Workspace(_nothing, lambda s: ((s.m, s.n),), lambda s: s.m + s.n)


def _least_squares(parts: int) -> Workspace:
    """Of `LeastSquares` in lstsq.h; operands of complex matrices have twice their rows."""

    def single(s: Sizes) -> MatrixSizes:
        n, m = s.n, FloorDiv(s.m, integer(parts))
        longer, wider = as_expr(Maximum(m, n)), as_expr(Maximum(m, s.r))
        rows = (integer(_EXCHANGED + 2), n), (integer(_VECTORS), longer)
        matrices = (n, m), (n, m), (longer, s.r), *rows, (integer(_REFLECTIONS), n)
        turning, product = _turning(parts, longer, wider), (integer(2 * _DEPTH), n)
        return *_times(parts, *matrices), *turning, product

    def lanes(s: Sizes) -> Expr:
        return s.m * (s.n + s.r + 1) + (3 + 2 * parts) * s.n + 1

    return Workspace(lanes, single, _nothing, falls_back=True)


def _turned_back(parts: int, width: Expr, vectors: Expr) -> MatrixSizes:
    """A block of reflections by rows and by columns (`TurnedBlock`), and what it is applied by."""
    count = integer(_TURNED)
    block = (width, count), (count, width), (count + 1, count)
    return _times(parts, *block, (2 * vectors, count))


def _tridiagonal(parts: int) -> Callable[[Sizes], MatrixSizes]:
    """Of `LargeEigh` without vectors."""

    def single(s: Sizes) -> MatrixSizes:
        waiting = (integer(3 * _BLOCK), s.n), (s.n, integer(2 * _BLOCK))
        return *_times(parts, (s.n, s.n), *waiting), (integer(_VECTORS), s.n)

    return single


def _symmetric(parts: int) -> Callable[[Sizes], MatrixSizes]:
    """Of `LargeEigh`."""

    def single(s: Sizes) -> MatrixSizes:
        both = [(s.n, s.n)] * (2 + parts)
        return *_tridiagonal(parts)(s), *both, *_turned_back(parts, s.n, s.n)

    return single


def _bidiagonal(parts: int) -> Callable[[Sizes], MatrixSizes]:
    """Of `LargeSvd` without vectors; operands of complex matrices have twice their rows."""

    def single(s: Sizes) -> MatrixSizes:
        wide = integer(2 * _BLOCK)
        waiting = (parts * (wide + 1), s.n), (s.m, wide), (integer(parts), s.m + wide)
        return (s.m, s.n), *waiting, (integer(_VECTORS), s.n)

    return single


def _singular(parts: int) -> Callable[[Sizes], MatrixSizes]:
    """Of `LargeSvd`."""

    def single(s: Sizes) -> MatrixSizes:
        more = s.n + 1
        both = *[(s.n, s.m)] * 2, *[(more, more)] * (1 + parts), (s.n, s.n)
        return *_bidiagonal(parts)(s), *both, *_turned_back(parts, s.m, s.n)

    return single


def _square_and_rows(s: Sizes) -> Expr:
    """Of `steps_lanes` in eigh.h."""
    return s.n * s.n + 5 * s.n


def _complex_square_and_rows(s: Sizes) -> Expr:
    return 2 * s.n * s.n + 7 * s.n


def _columns(s: Sizes) -> Expr:
    return s.m * s.n


def _columns_and_rows(rows: int) -> Callable[[Sizes], Expr]:
    """Of `singular_values_lanes` in svdvals_lanes.h, `begin_with_squares` in svd_start.h."""
    return lambda s: s.m * s.n + rows * s.n


def _apart(*matrices: tuple[Callable[[Sizes], Expr], Callable[[Sizes], Expr]]) -> Workspace:
    """Of what is always computed alone: its matrices' rows and columns."""

    def single(s: Sizes) -> MatrixSizes:
        return tuple((rows(s), columns(s)) for rows, columns in matrices)

    return _single(single)


def _alone_routine(name: str, header: str, workspace: Workspace, *own: str) -> RoutineKernel:
    return RoutineKernel(name, f"aot/linalg/{header}.h", workspace, ("alone", *own))


def _m(s: Sizes) -> Expr:
    return s.m


def _n(s: Sizes) -> Expr:
    return s.n


def _both_parts(s: Sizes) -> Expr:
    return 2 * s.n


def _numbers(s: Sizes) -> Expr:
    return 2 * s.r


def _eig(parts: int, vectors: bool) -> Workspace:
    """Of `LargeEig` in large_eig.h, or of small matrices: real ones side by side as in eig.h."""

    def single(s: Sizes) -> MatrixSizes:
        n, few = s.n, integer(_VECTORS)
        if is_int(n) and int(n) <= _EIG_ALONE:
            return *[(parts * n, n)] * 3, (2 * n, n), (few, n)
        pending, turned = integer(_PENDING), integer(_TURNED)
        reach = integer(3 * _SHIFTS - 3)
        blocks = 6 * pending + turned, n
        columns = (n, 3 * pending + 3 * turned)
        windows = (integer(2 * _WINDOW + 2), integer(_WINDOW)), (2 * reach, reach)
        strips = (reach, integer(_STRIP)), (integer(_STRIP), reach)
        few_numbers = integer(_PENDING + 2 + _TURNED + 1), turned
        shared = blocks, columns, few_numbers, *windows, *strips
        found = (parts * n, n), (few, n), *((parts * rows, wide) for rows, wide in shared)
        if not vectors:
            return found
        made = n, parts * n + 3 * _PANEL
        return *found, (parts * n, n), made, made

    if parts == 2:
        return _single(single)
    squares = 5 if vectors else 1
    return Workspace(lambda s: squares * s.n * s.n + 8 * s.n, single, _nothing, falls_back=True)


def _stacked(name: str, header: str, workspace: Workspace, *own: str) -> RoutineKernel:
    """Of complex matrices whose imaginary parts lie below the real ones."""
    return RoutineKernel(name, f"aot/linalg/{header}.h", workspace, (_STACKED, *own))


_STACKED_ROUTINES: Mapping[tuple[str, str], RoutineKernel] = {
    ("linalg", "complex_qr"): _stacked(
        "ComplexQr", "complex_qr", Workspace(_nothing, _qr(2), _nothing)
    ),
    ("linalg", "complex_reflections"): _stacked(
        "ComplexReflections", "complex_qr", Workspace(_columns, _reflecting(2), _nothing)
    ),
    ("linalg", "complex_eigh"): _stacked(
        "ComplexEigh",
        "complex_spectral",
        Workspace(_complex_square_and_rows, _symmetric(2), _nothing),
    ),
    ("linalg", "complex_eigvalsh"): _stacked(
        "ComplexEigh",
        "complex_spectral",
        Workspace(_complex_square_and_rows, _tridiagonal(2), _nothing),
        "values",
    ),
    ("linalg", "complex_svd"): _stacked(
        "ComplexSvd", "complex_spectral", Workspace(_columns_and_rows(8), _singular(2), _nothing)
    ),
    ("linalg", "complex_svdvals"): _stacked(
        "ComplexSvd",
        "complex_spectral",
        Workspace(_columns_and_rows(4), _bidiagonal(2), _nothing),
        "values",
    ),
}

_MATRIX, _COMPLEX_MATRIX = (_n, _n), (_n, _both_parts)
_GENERAL: Mapping[tuple[str, str], RoutineKernel] = {
    ("linalg", "squared"): _alone_routine("Squared", "squared", _apart(*[_MATRIX] * 2)),
    ("linalg", "complex_squared"): _alone_routine(
        "ComplexSquared", "squared", _apart(*[(_m, _n)] * 2)
    ),
    ("linalg", "lstsq"): RoutineKernel("Lstsq", "aot/linalg/lstsq.h", _least_squares(1)),
    ("linalg", "complex_lstsq"): _stacked("ComplexLstsq", "lstsq", _least_squares(2)),
    ("linalg", "eig"): RoutineKernel("Eig", "aot/linalg/eig.h", _eig(1, vectors=True)),
    ("linalg", "eigvals"): RoutineKernel(
        "Eig", "aot/linalg/eig.h", _eig(1, vectors=False), ("values",)
    ),
    ("linalg", "complex_eig"): _alone_routine("ComplexEig", "complex_eig", _eig(2, vectors=True)),
    ("linalg", "complex_eigvals"): _alone_routine(
        "ComplexEig", "complex_eig", _eig(2, vectors=False), "values"
    ),
    ("linalg", "ldl"): _alone_routine("Ldl", "ldl", _apart(_MATRIX)),
    ("linalg", "complex_ldl"): _alone_routine("ComplexLdl", "ldl", _apart(_COMPLEX_MATRIX)),
    ("linalg", "ldl_solve"): _alone_routine("LdlSolve", "ldl", _apart((_n, _numbers))),
    ("linalg", "complex_ldl_solve"): _alone_routine(
        "ComplexLdlSolve", "ldl", _apart((_n, _numbers))
    ),
}


def _of_both(
    name: str, kernel: str, header: str, workspace: Workspace, *own: str
) -> dict[tuple[str, str], RoutineKernel]:
    """A routine that is written once, for real and for complex matrices.

    A workspace counts complex rows as an operand does: s.m is twice s.n where these are square.
    `own`: options of the complex one.
    """
    place = f"aot/linalg/{header}.h"
    real = RoutineKernel(kernel, place, workspace)
    return {
        ("linalg", name): real,
        ("linalg", f"complex_{name}"): replace(real, options=("complex", *own)),
    }


def _factors(s: Sizes) -> Expr:
    """Elements of what `factor_lanes` in lu.h gives."""
    return s.m * s.n + s.n + s.m + 1


_SYSTEM = Workspace(
    lambda s: _factors(s) + s.m * s.r, lambda s: ((s.m, s.n), (s.m, s.r)), lambda s: s.m + s.n
)
_EIGH_HEADER, _SVD_HEADER = "aot/linalg/eigh.h", "aot/linalg/svd.h"
_EIGENVALUES = Workspace(_square_and_rows, _tridiagonal(1), _nothing)
_SINGULAR_VALUES = Workspace(_columns_and_rows(4), _bidiagonal(1), _nothing)
_SQUARE = Workspace(_factors, lambda s: ((s.m, s.n), (s.m, s.n)), lambda s: s.m + s.n)
ROUTINE_KERNELS: Mapping[tuple[str, str], RoutineKernel] = {
    **_of_both(
        "cholesky", "Cholesky", "cholesky", Workspace(_nothing, lambda s: ((s.m, s.n),), _nothing)
    ),
    **_of_both("lu", "Lu", "lu", _FACTORS),
    **_of_both("determinant", "Determinant", "lu", _SQUARE),
    **_of_both("solve", "Solve", "lu", _SYSTEM, "solution"),
    **_of_both("inverse", "Inverse", "lu", _SQUARE),
    **_of_both(
        "triangular",
        "SolveTriangular",
        "lu",
        Workspace(_columns, lambda s: ((s.m, s.r),), _nothing),
    ),
    ("linalg", "order"): RoutineKernel(
        "Order", "aot/linalg/lu.h", Workspace(_nothing, lambda s: (), _nothing)
    ),
    ("linalg", "qr"): RoutineKernel("Qr", "aot/linalg/qr.h", Workspace(_nothing, _qr(1), _nothing)),
    ("linalg", "reflections"): RoutineKernel(
        "Reflections", "aot/linalg/qr.h", Workspace(_columns, _reflecting(1), _nothing)
    ),
    ("linalg", "eigh"): RoutineKernel(
        "Eigh", _EIGH_HEADER, Workspace(_square_and_rows, _symmetric(1), _nothing)
    ),
    ("linalg", "eigvalsh"): RoutineKernel("Eigh", _EIGH_HEADER, _EIGENVALUES, ("values",)),
    ("linalg", "svd"): RoutineKernel(
        "Svd", _SVD_HEADER, Workspace(_columns_and_rows(6), _singular(1), _nothing)
    ),
    ("linalg", "svdvals"): RoutineKernel("Svd", _SVD_HEADER, _SINGULAR_VALUES, ("values",)),
    **_STACKED_ROUTINES,
    **_GENERAL,
}
"""What there is for each routine, by its library and its name."""


def takes_routine(call: LibraryCall, buffers: Mapping[str, Buffer], hints: Hints) -> str:
    """Why there is no kernel for a call; "" where there is."""
    dtype = buffers[call.a.buffer].dtype
    if dtype not in (FLOAT32, FLOAT64):
        return f"its routines take no {dtype}"
    if (call.routine.library.name, call.routine.name) not in ROUTINE_KERNELS:
        return "there is no kernel for it"
    return ""


@dataclass(frozen=True)
class _Call:
    """A kernel with a call, and what its text is made from."""

    kernel: TemplateKernel
    graph: KernelGraph
    call: LibraryCall
    context: KernelContext
    dtype: DType

    @property
    def routine(self) -> RoutineKernel:
        """What is called."""
        own = ROUTINE_KERNELS[self.call.routine.library.name, self.call.routine.name]
        return alone_if_few(self.call, own, self.dtype)

    @property
    def group(self) -> int:
        """Elements of the batch of a work unit."""
        hints = hints_of(self.graph.dims)
        sides = _sides(self.call, self.routine)
        return _GROUP if max(hints.value(s) for s in sides) <= SMALL else 1

    @property
    def units(self) -> Expr:
        """How many work units there are."""
        return ceil_div(self.call.output.axes[0].extent, self.group)

    @property
    def grain(self) -> int:
        """Work units that are worth a thread, at the sizes of the example."""
        hints = hints_of(self.graph.dims)
        flops = hints.value(self.call.routine.flops(self.call.sizes)) * self.group
        return max(1, _UNIT_FLOPS // max(flops, 1))

    def text(self, expr: Expr) -> str:
        """A size or offset in C++."""
        return index_text(expr, self.context.names)

    def fields(self) -> dict[str, str]:
        """The arguments of the template."""
        call = self.call
        sizes = {"m": call.sizes.m, "n": call.sizes.n, "r": call.sizes.r}
        batch, record = (axis.extent for axis in call.output.axes)
        if call.b is not None:
            sizes["b_rows"] = call.b.axes[1].extent
        found = {
            name: self.text(e) for name, e in {**sizes, "batch": batch, "record": record}.items()
        }
        for role, view in call.operands:
            found |= self._operand(role, view)
        return found

    def _operand(self, role: str, view: View) -> dict[str, str]:
        place = strided(self.call, view, self.graph.buffers, self.context.ranges)
        pointer = f"{self.context.pointers[view.buffer]} + ({self.text(place.offset)})"
        names = (f"{role}_batch", f"{role}_row", f"{role}_col")
        strides = dict(zip(names, map(self.text, place.strides), strict=True))
        return {role: f"reinterpret_cast<const {template_type(self.dtype)}*>({pointer})", **strides}

    def config(self) -> str:
        """What the template is compiled for."""
        chosen = (*self.routine.options, *self.call.options)
        options = [f"  static constexpr bool {o.upper()} = true;" for o in chosen]
        lines = [
            f"struct {NAME}_config : aot::linalg::RoutineConfig {{",
            f"  using A = {template_type(self.dtype)};",
            f"  static constexpr int64_t GROUP = {self.group};",
            *options,
            "};",
        ]
        return "\n".join(["namespace {", *lines, "}", ""])


def alone_if_few(call: LibraryCall, own: RoutineKernel, dtype: DType) -> RoutineKernel:
    """A routine; of triangular systems of few right-hand sides one that solves each alone.

    Each number of a triangle is used once for each: turning matrices side by side takes longer.
    What is more than two pages comes from memory sooner side by side, from as many places at once.
    """
    n, r = call.sizes.n, call.sizes.r
    if own.name != "SolveTriangular" or dtype != FLOAT64 or not (is_int(n) and is_int(r)):
        return own
    held = (2 if "complex" in own.options else 1) * int(n) ** 2 * dtype.itemsize
    if int(r) > _FEW_SIDES or int(n) < 2 * _FEW_SIDES or held > _READ_IN_ORDER:
        return own
    alone = replace(own.workspace, lanes=None)
    return replace(own, workspace=alone, options=(*own.options, "alone"))


def emit_library(kernel: TemplateKernel, graph: KernelGraph) -> EmittedKernel:
    """The function of a kernel whose template is a call of a routine."""
    call = template_call(kernel, LibraryCall)
    row, column = call.output.axes
    dtype = graph.buffers[call.a.buffer].dtype
    space = tile_space(row.extent, column.extent, {row.symbol: ROW, column.symbol: COLUMN})
    context = tile_context(make_context(kernel, graph), space, dtype)
    t = _Call(kernel, graph, call, context, dtype)
    body, sizes = open_template(kernel, graph, context)
    writer = body.writer
    taken = emit_record_epilogues(body, kernel, call, space, dtype)
    config = f"{NAME}_config"
    writer.line(f"aot::linalg::RoutineArgs<{config}> call{{}};")
    for name, value in t.fields().items():
        writer.line(f"call.{name} = {value};")
    routine = f"aot::linalg::{t.routine.name}<{config}>"
    given = ", ".join(("call, begin, end, args->scratch", *taken))
    writer.line(f"aot::linalg::routine<{routine}>({given});")
    return EmittedKernel(
        writer.text(),
        argument_buffers(kernel),
        sizes,
        t.units,
        scratch_bytes(call, t.routine, dtype.itemsize),
        head=t.config(),
        headers=(t.routine.header, "aot/linalg/routine.h"),
        grain=t.grain,
    )


def scratch_bytes(call: LibraryCall, routine: RoutineKernel, itemsize: int) -> Expr:
    """Bytes of scratch: records, the routine's own, and what products of its matrices take."""
    sizes, everything, workspace = call.sizes, _sides(call, routine), routine.workspace
    if workspace.lanes is None:
        return _alone(call, workspace, sizes, itemsize)
    if all(is_int(s) for s in everything):
        small = max(int(s) for s in everything) <= SMALL
        alone = _alone(call, workspace, sizes, itemsize)
        if not small:
            return alone
        apart = _side_by_side(call, workspace, sizes, itemsize)
        return (apart + alone).expand() if workspace.falls_back else apart
    parts = 1 if call.a_im is None and not routine.is_stacked else 2
    m, n, r = (Minimum(s, integer(SMALL)) for s in everything)
    few = Sizes(parts * m, n, r)
    apart = _side_by_side(call, workspace, few, itemsize)
    return (apart + _alone(call, workspace, sizes, itemsize)).expand()


def _sides(call: LibraryCall, routine: RoutineKernel) -> tuple[Expr, Expr, Expr]:
    """Rows of a (of either part of complex numbers), its columns, and those of b."""
    rows = call.a.axes[1].extent
    own = FloorDiv(rows, integer(2)) if routine.is_stacked else rows
    return own, call.sizes.n, call.sizes.r


def _all(sizes: Sizes) -> tuple[Expr, Expr, Expr]:
    return sizes.m, sizes.n, sizes.r


def _side_by_side(call: LibraryCall, workspace: Workspace, sizes: Sizes, itemsize: int) -> Expr:
    assert workspace.lanes is not None
    record = call.routine.record(sizes)
    return _VECTOR * (record + _padded(record) + workspace.lanes(sizes) + 1)


def _alone(call: LibraryCall, workspace: Workspace, sizes: Sizes, itemsize: int) -> Expr:
    matrices = workspace.single(sizes)
    elements = [_padded(call.routine.record(sizes))]
    elements += [product((rows, _padded(columns) + _PANEL)) for rows, columns in matrices]
    greatest = as_expr(Maximum(*_all(sizes)))
    elements += [_DEPTH * (greatest + _padded(greatest))]  # of a product
    words = 2 * greatest + workspace.words(sizes)  # addresses of rows are two
    spare = _VECTOR * (len(elements) + 8)  # each begins a line of the cache
    return (itemsize * sum(elements, integer(0)) + 4 * words + spare).expand()


def _padded(size: Expr) -> Expr:
    return product((ceil_div(size, _PANEL), integer(_PANEL)))
