"""Calls of routines of libraries, with a fused epilogue.

`device/linalg.py` and `device/orthogonal.py` have the routines. A program takes one small matrix,
or several, in registers. Larger ones are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from aot.backends.triton.context import TileDim, make_context
from aot.backends.triton.dot import finish_tile
from aot.backends.triton.gpu import Gpu
from aot.backends.triton.hooks import Hooks
from aot.backends.triton.kernel import NAME, EmittedKernel, line_grid, program_id
from aot.backends.triton.matrix_columns import HEAD, LEAST, ROUTINES, Columns, right_columns
from aot.backends.triton.matrix_columns import LIMIT as MOST_COLUMNS
from aot.backends.triton.text import Writer, index_text, value_type
from aot.backends.triton.tiling import WARP, power_above
from aot.ir.dtypes import FLOAT32, FLOAT64, DType
from aot.ir.hints import Hints
from aot.ir.kernel_facts import template_call
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.ir.nests import Buffer, View
from aot.ir.scalar import load
from aot.ir.templates.library import LibraryCall
from aot.symbolic import ceil_div, is_int

LIMIT = 64
"""Rows and columns of the largest matrices that a program holds."""


@dataclass(frozen=True)
class SmallRoutine:
    """What there is for a routine.

    Attributes:
        function: The device function.
        below: Rows of the first operand below the matrix.
        turned: Whether tiles are of transposed matrices.
        tiles: Of the matrix' size that it holds.
        options: That it has in any case.
    """

    function: str
    below: int = 0
    turned: bool = False
    tiles: int = 1
    options: tuple[str, ...] = ()


_ROUTINES: Mapping[tuple[str, str], SmallRoutine] = {
    ("linalg", "cholesky"): SmallRoutine("small_cholesky"),
    ("linalg", "lu"): SmallRoutine("small_lu"),
    ("linalg", "solve"): SmallRoutine("small_solve"),
    ("linalg", "inverse"): SmallRoutine("small_inverse", tiles=2),
    ("linalg", "order"): SmallRoutine("small_order"),
    ("linalg", "triangular"): SmallRoutine("small_triangular"),
    ("linalg", "qr"): SmallRoutine("small_qr"),
    ("linalg", "reflections"): SmallRoutine("small_reflections", below=1),
    ("linalg", "eigh"): SmallRoutine("small_eigh", tiles=3),
    ("linalg", "eigvalsh"): SmallRoutine("small_eigh", tiles=2, options=("values",)),
    ("linalg", "svd"): SmallRoutine("small_svd", turned=True, tiles=3),
    ("linalg", "svdvals"): SmallRoutine("small_svd", turned=True, tiles=2, options=("values",)),
}
"""By the routine's library and name."""

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

_COLUMN_WARPS = 4
"""Of a program whose matrices are taken by columns: a warp has rows for each of its lanes."""


@dataclass(frozen=True)
class MatrixTile:
    """Matrices of a program, their rows and columns, columns of b at once, and warps."""

    matrices: int
    rows: int
    columns: int
    right: int
    warps: int


def takes_small(call: LibraryCall, buffers: Mapping[str, Buffer], hints: Hints) -> str:
    """Why there is no kernel for a call; "" where there is."""
    dtype = buffers[call.a.buffer].dtype
    if dtype not in (FLOAT32, FLOAT64):
        return f"its routines take no {dtype}"
    routine = _ROUTINES.get((call.routine.library.name, call.routine.name))
    if routine is None:
        return f"there is no kernel for {call.routine!r}"
    if not all(is_int(s) for s in (call.sizes.m, call.sizes.n)):
        return "a program holds matrices whose sizes are known when it is compiled"
    if max(_matrix(call, routine)) > LIMIT:
        return f"a program holds matrices of up to {LIMIT} x {LIMIT}"
    return ""


def _matrix(call: LibraryCall, routine: SmallRoutine) -> tuple[int, int]:
    """Rows and columns of a matrix, as a tile has them."""
    rows, columns = int(call.sizes.m) - routine.below, int(call.sizes.n)
    return (columns, rows) if routine.turned else (rows, columns)


def matrix_tile(call: LibraryCall, dtype: DType, hints: Hints, gpu: Gpu) -> MatrixTile:
    """The tiles of a call."""
    routine = _ROUTINES[call.routine.library.name, call.routine.name]
    rows, columns = (power_above(max(1, size)) for size in _matrix(call, routine))
    if _by_columns(call, routine):
        wanted = columns if call.b is None else power_above(max(1, hints.value(call.sizes.r)))
        right = right_columns(columns, wanted)
        return MatrixTile(_COLUMN_WARPS * WARP // rows, rows, columns, right, _COLUMN_WARPS)
    right = min(_RIGHT, power_above(max(1, hints.value(call.sizes.r))))
    held = rows * (routine.tiles * columns + (right if call.b is not None else 0))
    words = held * dtype.itemsize // 4
    batch = max(1, hints.value(call.output.axes[0].extent))
    several = max(1, _SPREAD_WORDS * WARP // power_above(words))
    several = min(several, power_above(max(1, batch // gpu.units)))
    most = _TURNED_WORDS if routine.function in _ROTATING else _THREAD_WORDS
    warps = max(1, min(_WARPS, power_above(words) // (most * WARP)))
    return MatrixTile(several, rows, columns, right, warps)


def _by_columns(call: LibraryCall, routine: SmallRoutine) -> bool:
    """Whether each column of a matrix is a tensor of its own."""
    sizes = _matrix(call, routine)
    return routine.function in ROUTINES and min(sizes) >= LEAST and max(sizes) <= MOST_COLUMNS


def emit_library(
    kernel: TemplateKernel, graph: KernelGraph, hints: Hints, gpu: Gpu
) -> EmittedKernel:
    """The kernel of a call of a routine and its epilogue."""
    call = template_call(kernel, LibraryCall)
    context = make_context(kernel, graph, gpu)
    dtype = graph.buffers[call.a.buffer].dtype
    tile = matrix_tile(call, dtype, hints, gpu)
    routine = _ROUTINES[call.routine.library.name, call.routine.name]
    batch, column = call.output.axes
    hooks = Hooks(context)
    for role, view in call.operands:
        _write_load(hooks, f"load_{role}", view, dtype, tile)
    with hooks.function("finish", "m", "n", "values") as body:
        body.take_dim(TileDim("m", (batch,), tile.matrices, 0, width="m.shape[0]"))
        body.take_dim(TileDim("n", (column,), 1, 0, scattered=True, width="n.shape[0]"))
        body.wide_stores = True
        finish_tile(body, kernel, "values", frozenset(("m", "n")))
    arguments = {
        "program": program_id(context),
        "right": index_text(call.sizes.r, context.names),
        "record": index_text(column.extent, context.names),
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
    if call.b is None:
        arguments["load_b"] = "None"
    programs = ceil_div(batch.extent, tile.matrices)
    if _by_columns(call, routine):
        given = {name: arguments[name] for name in ("program", "right", "record")}
        given |= {"load_b": "None"} if call.b is None else {}
        writer = Writer()
        wanted = frozenset((*routine.options, *call.options))
        sizes = (int(call.sizes.m), int(call.sizes.n), tile.matrices, tile.rows, tile.columns)
        Columns(writer.line, *sizes, tile.right, value_type(dtype), wanted).write(routine.function)
        emitted = hooks.emit(
            kernel, f"{NAME}_matrices", given, line_grid(programs), {"num_warps": tile.warps}
        )
        own = f"@triton.jit\ndef {NAME}_matrices({HEAD}):\n{writer.text()}\n\n"
        return replace(emitted, function=own + emitted.function)
    options = {"num_warps": tile.warps}
    if routine.function in _ROTATING:
        options["enable_fp_fusion"] = False
    return hooks.emit(kernel, routine.function, arguments, line_grid(programs), options)


def _write_load(hooks: Hooks, name: str, view: View, dtype: DType, tile: MatrixTile) -> None:
    """The hook that reads elements of matrices: their numbers are flat, row by row."""
    batch, row, column = view.axes
    with hooks.function(name, "m", "n") as body:
        body.take_dim(TileDim("m", (batch,), tile.matrices, 0, width="m.shape[0]"))
        body.take_dim(TileDim("n", (row, column), 1, 0, scattered=True, width="n.shape[0]"))
        value = body.value(load(view.buffer, dtype, view.index))
        body.writer.line(f"return {body.padded(value, frozenset(('m', 'n')))}")
