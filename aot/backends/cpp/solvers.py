"""Calls of the host that cuSOLVER computes where a machine has it: what `aot/host` is told of them.

The library takes what LAPACK does; which of its functions make a record is in the header
`solver_routines.h`.
"""

from __future__ import annotations

from collections.abc import Mapping

from aot.backends.cpp.kernel import make_context
from aot.backends.cpp.operands import strided
from aot.ir.dtypes import FLOAT64
from aot.ir.kernel_facts import template_call
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.ir.nests import View
from aot.ir.templates.library import LibraryCall
from aot.symbolic import Expr, FloorDiv, integer

_COMPLEX = "complex_"

_FROM: Mapping[str, int] = {
    "cholesky": 105,
    "lu": 140,
    "solve": 140,
    "inverse": 140,
    "determinant": 140,
    "triangular": 200,
    "qr": 115,
    "reflections": 115,
    "lstsq": 115,
    "eigh": 170,
    "eigvalsh": 200,
    "svd": 210,
    "svdvals": 400,
    "eig": 400,
    "eigvals": 400,
}
"""Routines that `Solver` of the header has, of real and of complex matrices, and how many columns a
lone matrix has for which it is as fast as the host: an H200 and one thread of a Xeon beside it, in
float64. Triangular systems, eigenvalues alone and those of general matrices are guesses."""

_COMPLEX_FROM = 0.6
"""The same of complex matrices, beside real ones: of those the host needs three times as long."""

_OPTIONS = ("upper", "unit", "back")
"""Of calls, in the order of the header's fields."""

_NONE = (integer(-1), *(integer(0),) * 4)
"""Of an operand that a call has not."""


def solver_routine(kernel: TemplateKernel, graph: KernelGraph) -> str:
    """The fields of a SolverRoutine of device_call.h; "" where the library has none."""
    call = template_call(kernel, LibraryCall)
    name = call.routine.name.removeprefix(_COMPLEX)
    if call.routine.library.name != "linalg" or name not in _FROM:
        return ""
    doubles = graph.buffers[call.a.buffer].dtype == FLOAT64
    letter = ("SD", "CZ")[_is_complex(call)][doubles]
    options = [str(option in call.options).lower() for option in _OPTIONS]
    least = round(_FROM[name] * (_COMPLEX_FROM if _is_complex(call) else 1))
    return ", ".join((f"&aot_host::Solver::{name}", f"'{letter}'", *options, str(least)))


def solver_numbers(kernel: TemplateKernel, graph: KernelGraph) -> tuple[Expr, ...]:
    """The fields of `Numbers` of device_call.h after the kernel's own.

    The batch, a record's elements, sizes of a matrix and of right-hand sides; then of each operand
    its place among the kernel's reads, its first element, and its strides.
    """
    call = template_call(kernel, LibraryCall)
    batch, record = (axis.extent for axis in call.output.axes)
    sizes = call.sizes
    rows = FloorDiv(sizes.m, integer(2)) if _is_complex(call) else sizes.m
    a, a_im = _parts(kernel, graph, call.a, call.a_im)
    b, b_im = _parts(kernel, graph, call.b, call.b_im) if call.b is not None else (_NONE, _NONE)
    return (batch, record, rows, sizes.n, sizes.r, *a, *b, *a_im, *b_im)


def _is_complex(call: LibraryCall) -> bool:
    return call.routine.name.startswith(_COMPLEX)


Operand = tuple[Expr, ...]


def _parts(
    kernel: TemplateKernel, graph: KernelGraph, view: View, imaginary: View | None
) -> tuple[Operand, Operand]:
    """An operand's real parts, and imaginary ones, which are below them or come apart."""
    real = _operand(kernel, graph, view)
    if imaginary is not None:
        return real, _operand(kernel, graph, imaginary)
    if not _is_complex(template_call(kernel, LibraryCall)):
        return real, _NONE
    which, offset, batch, row, column = real
    half = FloorDiv(view.axes[1].extent, integer(2))
    return real, (which, offset + half * row, batch, row, column)


def _operand(kernel: TemplateKernel, graph: KernelGraph, view: View) -> Operand:
    ranges = make_context(kernel, graph).ranges
    place = strided(template_call(kernel, LibraryCall), view, graph.buffers, ranges)
    which = integer(kernel.reads.index(view.buffer))
    return which, place.offset, *place.strides
