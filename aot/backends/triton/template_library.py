"""Calls of routines of libraries, with a fused epilogue.

A program takes one small matrix, or several, in registers; larger ones are refused. Up to 32 rows
and columns the statements are written by `matrix_columns.py` and its neighbours, else the routines
are those of `device/linalg.py` and `device/orthogonal.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from aot.backends.triton import matrix_reflections, matrix_rotations, matrix_spectra
from aot.backends.triton.body import Body
from aot.backends.triton.context import KernelContext, TileDim, Value, make_context
from aot.backends.triton.dot import finish_tile, with_ranges
from aot.backends.triton.gpu import Gpu
from aot.backends.triton.hooks import Hooks
from aot.backends.triton.kernel import NAME, EmittedKernel, line_grid, program_id
from aot.backends.triton.matrix_columns import HEAD, Columns, MatrixOperand, right_columns
from aot.backends.triton.matrix_columns import LIMIT as MOST_COLUMNS
from aot.backends.triton.text import Writer, index_text, value_type
from aot.backends.triton.tiling import WARP
from aot.errors import InternalError
from aot.ir.dtypes import FLOAT32, FLOAT64, DType
from aot.ir.hints import Hints
from aot.ir.kernel_facts import template_call
from aot.ir.kernels import KernelGraph, Stage, TemplateKernel
from aot.ir.nests import Axis, Buffer, LoopNest, Store, View
from aot.ir.scalar import Access, load, loads, substitute_index
from aot.ir.templates.library import LibraryCall
from aot.symbolic import (
    Expr,
    Symbol,
    ceil_div,
    integer,
    is_int,
    power_above,
    product,
    substitute,
    var,
)

_PLACE = var("matrix_place")

LIMIT = 64
"""Rows and columns of the largest matrices that a program holds."""


@dataclass(frozen=True)
class SmallRoutine:
    """What there is for a routine.

    Attributes:
        function: The device function of tiles; "" where there is only the form by columns.
        by_columns: What writes that; None where there is none.
        below: Rows of the first operand below the matrix.
        turned: Whether tiles are of transposed matrices.
        across: Whether it is the matrices' columns that lie across lanes.
        parts: Of a number: 2 of complex ones.
        tiles: Of the matrix' size that it holds.
        with_right: Whether right-hand sides lie across the same lanes, all at once.
        multiplies: Whether tiles are multiplied, which have 16 rows at least.
        options: That it has in any case.
        registers: Of a thread at most, by those that a matrix and its basis take; else any number.
        shared: Tiles of the matrix' size that warps share where a thread has no room; 0: none do.
    """

    function: str = ""
    by_columns: Callable[[Columns], object] | None = None
    below: int = 0
    turned: bool = False
    across: bool = False
    parts: int = 1
    tiles: int = 1
    with_right: bool = False
    multiplies: bool = False
    options: tuple[str, ...] = ()
    registers: tuple[tuple[int, int], ...] = ()
    shared: int = 0


_VALUES = ("values",)
_QR = SmallRoutine("small_qr", matrix_reflections.qr, across=True)
_REFLECTIONS = SmallRoutine("small_reflections", matrix_reflections.reflections, 1, across=True)
_EIGH_REGISTERS = ((64, 128), (128, 168))
_EIGH = SmallRoutine(
    "small_eigh", matrix_spectra.eigh, across=True, tiles=3, registers=_EIGH_REGISTERS
)
"""A sweep's rotations wait for each other, so that more programs on a multiprocessor are worth some
numbers in memory: 10^4 matrices of 32^2 float32 took 1167 us on an H200, with at most 168 registers
944, 128 885, 104 945, 80 1051; of float64 2219, with 168 1914, 128 2004. Of complex64, whose steps
take more beside a matrix and its basis, 1590, with 168 1704, and of complex128 4122 and 6652."""
_SVD = SmallRoutine("small_svd", matrix_rotations.svd, turned=True, across=True, tiles=3, shared=3)

_EXPONENTIAL = SmallRoutine("small_exponential", multiplies=True)

_REAL: Mapping[str, SmallRoutine] = {
    "cholesky": SmallRoutine("small_cholesky", Columns.cholesky),
    "lu": SmallRoutine("small_lu", Columns.lu),
    "solve": SmallRoutine("small_solve", Columns.solve),
    "inverse": SmallRoutine("small_inverse", Columns.inverse, tiles=2),
    "determinant": SmallRoutine("", Columns.determinant),
    "order": SmallRoutine("small_order"),
    "triangular": SmallRoutine("small_triangular", Columns.triangular),
    "qr": _QR,
    "reflections": _REFLECTIONS,
    "eigh": _EIGH,
    "eigvalsh": replace(_EIGH, tiles=2, options=_VALUES, registers=()),
    "svd": _SVD,
    "svdvals": replace(_SVD, tiles=2, options=_VALUES, shared=2),
    "exponential": _EXPONENTIAL,
    "lstsq": SmallRoutine("", matrix_reflections.lstsq, across=True, with_right=True),
}

_COMPLEX: Mapping[str, SmallRoutine] = {
    "cholesky": SmallRoutine("", Columns.cholesky),
    "lu": SmallRoutine("", Columns.lu),
    "solve": SmallRoutine("", Columns.complex_solve),
    "inverse": SmallRoutine("", Columns.inverse),
    "determinant": SmallRoutine("", Columns.determinant),
    "triangular": SmallRoutine("", Columns.triangular),
    **{
        name: replace(_REAL[name], function="")
        for name in ("qr", "reflections", "eigvalsh", "svd", "svdvals", "lstsq")
    },
    "eigh": replace(_EIGH, function="", registers=_EIGH_REGISTERS[:1]),
    "exponential": replace(_EXPONENTIAL, options=("complex",)),
}

_ROUTINES: Mapping[str, SmallRoutine] = {
    **_REAL,
    **{f"complex_{name}": replace(routine, parts=2) for name, routine in _COMPLEX.items()},
}
"""By the routine's name."""

_ROTATING = ("small_eigh", "small_svd")
"""Functions that want to know the rounding of the elements' type. Threads that hold the same number
of a matrix decide by it how often they turn, so all must compute it alike: a product that is fused
with the sum of two threads' products is exact in the one and rounded in the other."""

_ROUNDING = {FLOAT32: 2.0**-23, FLOAT64: 2.0**-52}

_RIGHT = 32
"""Columns of a right-hand side that are solved for at once, at most."""

_THREAD_WORDS = 32
"""Of 32 bits of a program's matrices in a thread, at most: steps need as many again, and more."""

_TURNED_WORDS = 16
"""The same of matrices whose rows are rotated: there, twice as many again."""

_SPREAD_WORDS = 8
"""The same where a program has several matrices."""

_WARPS = 16

_MULTIPLIED = 16
"""Rows of the least matrices that `tl.dot` takes."""

_COLUMN_WARPS = 4
"""Of a program whose matrices of few rows are taken by columns: a warp has rows for each of its
lanes. From 16 rows on a program is one warp, so that none waits for another's."""


_ROOM = 192
"""Registers of a thread for its numbers: what is left of 255 is for the others."""


@dataclass(frozen=True)
class MatrixTile:
    """Matrices of a program, their rows and columns, columns of b at once, and warps.

    `shares`: of these, that share a matrix' rows.
    """

    matrices: int
    rows: int
    columns: int
    right: int
    warps: int
    shares: int = 1


def takes_small(call: LibraryCall, buffers: Mapping[str, Buffer], hints: Hints) -> str:
    """Why there is no kernel for a call; "" where there is."""
    dtype = buffers[call.a.buffer].dtype
    if dtype not in (FLOAT32, FLOAT64):
        return f"its routines take no {dtype}"
    routine = _routine(call)
    if routine is None:
        return "there is no kernel for it"
    if not all(is_int(s) for s in (call.sizes.m, call.sizes.n)):
        return "a program holds matrices whose sizes are known when it is compiled"
    limit = LIMIT if routine.function and not routine.multiplies else MOST_COLUMNS
    if max(_matrix(call, routine)) > limit:
        return f"a program holds matrices of up to {limit} x {limit}"
    if routine.with_right and not _fits_right(call, routine):
        return f"a program holds at most {limit} right-hand sides, of no more columns than rows"
    return ""


def left_to_host(call: LibraryCall, buffers: Mapping[str, Buffer]) -> bool:
    """Whether the host computes a call that `takes_small` refuses.

    Not what would be products of matrices of any size, nor what other routines make together that
    there are kernels for.
    """
    if buffers[call.a.buffer].dtype not in (FLOAT32, FLOAT64):
        return False
    routine = _routine(call)
    return call.routine.instead is None or (routine is not None and not routine.multiplies)


def _fits_right(call: LibraryCall, routine: SmallRoutine) -> bool:
    rows, columns = _matrix(call, routine)
    return rows >= columns and is_int(call.sizes.r) and int(call.sizes.r) <= MOST_COLUMNS


def _routine(call: LibraryCall) -> SmallRoutine | None:
    known = call.routine.library.name == "linalg"
    return _ROUTINES.get(call.routine.name) if known else None


def _chosen(call: LibraryCall) -> SmallRoutine:
    routine = _routine(call)
    if routine is None:
        raise InternalError(f"{call.name}: no kernel for {call.routine!r}")
    return routine


def _matrix(call: LibraryCall, routine: SmallRoutine) -> tuple[int, int]:
    """Rows and columns of a matrix."""
    return int(call.sizes.m) // routine.parts - routine.below, int(call.sizes.n)


def matrix_tile(call: LibraryCall, dtype: DType, hints: Hints, gpu: Gpu) -> MatrixTile:
    """The tiles of a call."""
    routine = _chosen(call)
    if _by_columns(call, routine):
        return _column_tile(call, routine, dtype, hints)
    if routine.multiplies:
        return _product_tile(max(_MULTIPLIED, power_above(int(call.sizes.n))), routine, dtype)
    sizes = _matrix(call, routine)
    rows, columns = (power_above(max(1, s)) for s in (sizes[::-1] if routine.turned else sizes))
    right = min(_RIGHT, power_above(max(1, hints.value(call.sizes.r))))
    held = rows * (routine.tiles * columns + (right if call.b is not None else 0))
    words = held * dtype.itemsize // 4
    batch = max(1, hints.value(call.output.axes[0].extent))
    several = max(1, _SPREAD_WORDS * WARP // power_above(words))
    several = min(several, power_above(max(1, batch // gpu.units)))
    most = _TURNED_WORDS if routine.function in _ROTATING else _THREAD_WORDS
    warps = max(1, min(_WARPS, power_above(words) // (most * WARP)))
    return MatrixTile(several, rows, columns, right, warps)


def _product_tile(size: int, routine: SmallRoutine, dtype: DType) -> MatrixTile:
    """A tile of matrices that are multiplied.

    Tensor cores take real ones in float64, and the layout of their results spreads warps over the
    matrices of a program: of a single matrix each of several warps would find all of it.
    """
    if size == _MULTIPLIED:
        return MatrixTile(4, size, size, 1, 4)
    return MatrixTile(1, size, size, 1, 1 if dtype == FLOAT64 and routine.parts == 1 else 8)


def _column_tile(
    call: LibraryCall, routine: SmallRoutine, dtype: DType, hints: Hints
) -> MatrixTile:
    """Lanes and tensors in place of rows and columns."""
    rows, columns = _matrix(call, routine)
    rows += routine.below
    lanes, words = (columns, rows) if routine.across else (rows, columns)
    if routine.with_right:
        lanes = max(lanes, int(call.sizes.r))
        words = max(words, lanes)
    lanes, words = (power_above(max(2, size)) for size in (lanes, words))
    wanted = columns if call.b is None else power_above(max(1, hints.value(call.sizes.r)))
    warps = 1 if routine.across or lanes >= WARP // 2 else _COLUMN_WARPS
    held = routine.shared * words * routine.parts * dtype.itemsize // 4
    if lanes == WARP and held > _ROOM:
        shares = power_above(-(-held // _ROOM))
        return MatrixTile(1, lanes, words, 1, shares, shares)
    return MatrixTile(warps * WARP // lanes, lanes, words, right_columns(columns, wanted), warps)


def _by_columns(call: LibraryCall, routine: SmallRoutine) -> bool:
    """Whether each column of a matrix is a tensor of its own."""
    return routine.by_columns is not None and max(_matrix(call, routine)) <= MOST_COLUMNS


def emit_library(
    kernel: TemplateKernel, graph: KernelGraph, hints: Hints, gpu: Gpu
) -> EmittedKernel:
    """The kernel of a call of a routine and its epilogue."""
    call = template_call(kernel, LibraryCall)
    parts = (axis for axes in _part_axes(call).values() for axis in axes)
    context = with_ranges(make_context(kernel, graph, gpu), parts)
    dtype = graph.buffers[call.a.buffer].dtype
    tile = matrix_tile(call, dtype, hints, gpu)
    routine = _chosen(call)
    batch, column = call.output.axes
    hooks = Hooks(context)
    for role, view in call.operands:
        _write_load(hooks, f"load_{role}", view, dtype, tile)
    _write_finish(hooks, kernel, call, tile)
    arguments = {
        "program": program_id(context),
        "right": index_text(call.sizes.r, context.names),
        "record": index_text(column.extent, context.names),
    }
    programs = line_grid(ceil_div(batch.extent, tile.matrices))
    options = {"num_warps": tile.warps}
    if _by_columns(call, routine):
        arguments |= {f"load_{role}": "None" for role in _ROLES if f"load_{role}" not in hooks}
        held = 2 * routine.parts * tile.columns * dtype.itemsize // 4
        if most := dict(routine.registers).get(held):
            options["maxnreg"] = most
        emitted = hooks.emit(kernel, f"{NAME}_matrices", arguments, programs, options)
        text = _column_statements(kernel, call, context, dtype, tile)
        own = f"@triton.jit\ndef {NAME}_matrices({HEAD}):\n{text}\n\n"
        return replace(emitted, function=own + emitted.function)
    arguments |= {
        "KIND": value_type(dtype),
        "ROWS": str(int(call.sizes.m)),
        "COLUMNS": str(int(call.sizes.n)),
        "MATRICES": str(tile.matrices),
        "HIGH": str(tile.rows),
        "WIDE": str(tile.columns),
        "RIGHT": str(tile.right),
        **{option.upper(): "True" for option in (*routine.options, *call.options)},
    }
    if routine.function in _ROTATING:
        arguments["ROUNDING"] = str(_ROUNDING[dtype])
        options["enable_fp_fusion"] = False
    if call.b is None:
        arguments["load_b"] = "None"
    return hooks.emit(kernel, routine.function, arguments, programs, options)


_ROLES = ("a", "a_im", "b", "b_im")


def _column_statements(
    kernel: TemplateKernel,
    call: LibraryCall,
    context: KernelContext,
    dtype: DType,
    tile: MatrixTile,
) -> str:
    """The body of the function of a routine by columns."""
    routine = _chosen(call)
    writer = Writer()
    rows, columns = _matrix(call, routine)
    views = dict(call.operands)
    operands = {
        role: MatrixOperand(
            int(view.axes[1].extent) // 2
            if routine.parts == 2 and f"{role}_im" not in views
            else None,
            _is_turned(context, view.buffer, view.index, view.axes[1].symbol, view.axes[2].symbol),
        )
        for role, view in views.items()
    }
    own = Columns(
        writer.line,
        rows,
        columns,
        tile.matrices,
        tile.rows,
        tile.columns,
        tile.right,
        value_type(dtype),
        routine.parts,
        frozenset((*routine.options, *call.options)),
        operands,
        _turned_parts(kernel, call, context),
        _ROUNDING[dtype],
        tile.shares,
    )
    own.begin()
    assert routine.by_columns is not None
    routine.by_columns(own)
    return writer.text()


def _is_turned(
    context: KernelContext, buffer: str, index: tuple[Expr, ...], row: Symbol, column: Symbol
) -> bool:
    """Whether elements of a column are nearer in memory than those of a row."""
    offset = context.offset(buffer, index)
    origin = {row: integer(0), column: integer(0)}
    here = substitute(offset, origin)
    below, right = (
        (substitute(offset, {**origin, s: integer(1)}) - here).expand() for s in (row, column)
    )
    return is_int(below) and is_int(right) and 0 < int(below) < int(right)


def _turned_parts(
    kernel: TemplateKernel, call: LibraryCall, context: KernelContext
) -> frozenset[int]:
    """Parts of records, by number, whose columns a stage stores in one piece."""
    found = set[int]()
    shapes = list(call.routine.parts(call.sizes).values())
    nests = [(s, n) for s in kernel.stages if s.inner != call.output.axes for n in s.nests]
    for stage, nest in nests:
        _, columns = stage.inner
        start = _part_start(call, stage, nest)
        store = nest.stores[0]
        offset = context.offset(store.buffer, store.index)
        for number in _parts_between(call, start, start + columns.extent):
            if len(shapes[number]) != 2 or not is_int(shapes[number][1]):
                continue
            first = substitute(offset, {columns.symbol: integer(0)})
            right, below = (
                (substitute(offset, {columns.symbol: step}) - first).expand()
                for step in (integer(1), shapes[number][1])
            )
            if is_int(below) and is_int(right) and 0 < int(below) < int(right):
                found.add(number)
    return frozenset(found)


def _write_finish(
    hooks: Hooks, kernel: TemplateKernel, call: LibraryCall, tile: MatrixTile
) -> None:
    """The hook that stores elements of records, and what nests make of the part they belong to."""
    batch, column = call.output.axes
    whole = tuple(stage for stage in kernel.stages if stage.inner == call.output.axes)
    parameters = ("m", "n", "values", "PART: tl.constexpr", "row=None", "column=None")
    with hooks.function("finish", *parameters) as body:
        body.take_dim(TileDim("m", (batch,), tile.matrices, 0, width="m.shape[0]"))
        body.wide_stores = True
        if whole or call.output.buffer in kernel.writes:
            body.take_dim(TileDim("n", (column,), 1, 0, scattered=True, width="n.shape[0]"))
            finish_tile(body, replace(kernel, stages=whole), "values", frozenset(("m", "n")))
        nests = [(s, nest) for s in kernel.stages if s not in whole for nest in s.nests]
        for number, (stage, nest) in enumerate(nests):
            _write_part(body, call, stage, nest, f"n{number}")
        body.writer.line("return")


def _name_places(
    body: Body, symbols: tuple[Symbol, Symbol], place: str, width: str, dim: str
) -> None:
    """Names the row and the column of a place among rows of some width, where nobody knows them."""
    row, column = (body.fresh("i") for _ in symbols)
    body.writer.line(f"{row} = ({place}) // ({width}) if row is None else row")
    body.writer.line(f"{column} = ({place}) % ({width}) if column is None else column")
    for symbol, name in zip(symbols, (row, column), strict=True):
        body.name_axis(symbol, name, dim)


def _part_axes(call: LibraryCall) -> dict[int, tuple[Axis, Axis]]:
    """Axes of the parts that are matrices of known sizes, but rows of which dividing is cheap."""
    found = {}
    for number, shape in enumerate(call.routine.parts(call.sizes).values()):
        if len(shape) == 2 and all(map(is_int, shape)) and power_above(int(shape[1])) != shape[1]:
            names = (var(f"part{number}_{k}") for k in range(2))
            row, column = (Axis(s, size) for s, size in zip(names, shape, strict=True))
            found[number] = row, column
    return found


def _write_part(body: Body, call: LibraryCall, stage: Stage, nest: LoopNest, name: str) -> None:
    """What a nest makes of the columns of records that it reads, `name` the number of each."""
    rows, columns = stage.inner
    start, known = _part_start(call, stage, nest), _part_axes(call)
    touched = _parts_between(call, start, start + columns.extent)
    plain = [number for number in touched if number not in known]
    for numbers in (*([plain] if plain else []), *([n] for n in touched if n in known)):
        with body.loop(f"if {' or '.join(f'PART == {k}' for k in numbers)}"):
            first, count = (index_text(e, body.context.names) for e in (start, columns.extent))
            body.writer.line(f"{name} = tl.where(n >= {first}, n - ({first}), {count})")
            body.take_dim(TileDim(name, (columns,), 1, 0, scattered=True, width="n.shape[0]"))
            body.name_axis(rows.symbol, "m", "m")
            view, dtype = call.output, body.context.buffers[call.output.buffer].dtype
            body.define_buffer(view.buffer, Value("values", dtype, frozenset(("m", name))))
            place: dict[Symbol, Expr] = {}
            if numbers[0] in known:
                row, column = known[numbers[0]]
                before = (_part_bounds(call)[numbers[0]] - start).expand()
                width = index_text(column.extent, body.context.names)
                at = f"{name} - ({index_text(before, body.context.names)})"
                _name_places(body, (row.symbol, column.symbol), at, width, name)
                place = {columns.symbol: before + row.symbol * column.extent + column.symbol}
            for store in nest.stores:
                body.store(_placed(store, place))


def _placed(store: Store, place: Mapping[Symbol, Expr]) -> Store:
    """The store with symbols in terms of others."""
    if not place:
        return store
    index = tuple(substitute(e, place) for e in store.index)
    (value, *bound) = substitute_index((store.value, *(n for _, n in store.binds)), place)
    binds = tuple((s, n) for (s, _), n in zip(store.binds, bound, strict=True))
    return replace(store, index=index, value=value, binds=binds)


def _part_bounds(call: LibraryCall) -> list[Expr]:
    """The columns of a record where its parts begin, in order, and where the last one ends."""
    sizes = map(product, call.routine.parts(call.sizes).values())
    return list(accumulate(sizes, lambda a, b: (a + b).expand(), initial=integer(0)))


def _part_start(call: LibraryCall, stage: Stage, nest: LoopNest) -> Expr:
    """The column of a record where what a nest reads begins."""
    _, columns = stage.inner
    for node in loads(nest.roots):
        access = node.attr
        if isinstance(access, Access) and access.buffer == call.output.buffer:
            return substitute(access.index[1], {columns.symbol: integer(0)})
    raise InternalError(f"{call.name}: {nest.name} reads no part of its records")


def _parts_between(call: LibraryCall, start: Expr, end: Expr) -> list[int]:
    """Numbers of the parts of a record that may have columns from `start` to `end`."""
    found = []
    for number, (first, last) in enumerate(pairwise(_part_bounds(call))):
        before, after = (last - start).expand(), (end - first).expand()
        if not any(is_int(e) and int(e) <= 0 for e in (before, after)):
            found.append(number)
    return found


def _write_load(hooks: Hooks, name: str, view: View, dtype: DType, tile: MatrixTile) -> None:
    """The hook that reads elements of matrices: their numbers are flat, row by row."""
    batch, row, column = view.axes
    with hooks.function(name, "m", "n", "row=None", "column=None") as body:
        body.take_dim(TileDim("m", (batch,), tile.matrices, 0, width="m.shape[0]"))
        points = Axis(_PLACE, product((row.extent, column.extent)))
        body.take_dim(TileDim("n", (points,), 1, 0, scattered=True, width="n.shape[0]"))
        width = index_text(column.extent, body.context.names)
        _name_places(body, (row.symbol, column.symbol), "n", width, "n")
        value = body.value(load(view.buffer, dtype, view.index))
        body.writer.line(f"return {body.padded(value, frozenset(('m', 'n')))}")
