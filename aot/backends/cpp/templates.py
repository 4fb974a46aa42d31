"""The C++ backend's templates, a row a kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aot.backends.cpp.conv_heuristic import PLANE_COLUMNS
from aot.backends.cpp.kernel import EmittedKernel
from aot.backends.cpp.template_attention import emit_attention
from aot.backends.cpp.template_bags import emit_bags
from aot.backends.cpp.template_concat import emit_concat
from aot.backends.cpp.template_conv import emit_conv, pack_conv
from aot.backends.cpp.template_fft import emit_fft, takes_fft
from aot.backends.cpp.template_library import emit_library, takes_routine
from aot.backends.cpp.template_matmul import emit_matmul, pack_matmul
from aot.backends.cpp.template_open_fft import emit_open_fft
from aot.backends.cpp.template_recurrence import SHARED, emit_recurrence, pack_recurrence
from aot.backends.cpp.template_resample_bytes import emit_resample_bytes
from aot.backends.cpp.template_rows import emit_argsort, emit_scan
from aot.errors import InternalError
from aot.ir.hints import Hints
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.ir.nests import Buffer, DerivedWeight, View
from aot.ir.templates import (
    Argsort,
    ArgsortSupport,
    Attention,
    AttentionSupport,
    Bags,
    BagsSupport,
    Concat,
    ConcatSupport,
    Conv,
    ConvSupport,
    Fft,
    LibraryCall,
    Matmul,
    MatmulSupport,
    OpenFft,
    RealFft,
    Recurrence,
    RecurrenceSupport,
    ResampleBytes,
    Scan,
    ScanSupport,
    Support,
    TemplateCall,
)


@dataclass(frozen=True)
class PackedOperand:
    """An operand that kernels read in a layout of their own where it is a weight.

    Attributes:
        view: The operand's view in a call.
        pack: The buffer for the packed form in a kernel, and how it is computed.
    """

    view: Callable[[Any], View]
    pack: Callable[[TemplateKernel, KernelGraph], tuple[Buffer, DerivedWeight]]


@dataclass(frozen=True)
class Template:
    """A kind of template call that there is C++ for.

    Attributes:
        support: What the kind's kernels take and like.
        emit: The function of a kernel with such a call.
        weight: The operand that is packed when the package is built, if any.
        finishes_once: It calls epilogues once for each element, however work is divided.
    """

    support: Support[Any]
    emit: Callable[[TemplateKernel, KernelGraph], EmittedKernel]
    weight: PackedOperand | None = None
    finishes_once: bool = False


def template_of(kernel: TemplateKernel) -> Template:
    """What there is for the kernel's template call.

    Raises:
        InternalError: No row of TEMPLATES is for the call's kind.
    """
    row = TEMPLATES.get(type(kernel.template))
    if row is None:
        kind = kernel.template.kind
        raise InternalError(f"{kernel.name}: the C++ backend has no template {kind!r}")
    return row


def _takes_conv(call: Conv, buffers: Mapping[str, Buffer], _: Hints) -> str:
    """Depthwise kernels have a packed weight; else nests are better."""
    computed = call.is_depthwise and buffers[call.w.buffer].kind != "weight"
    return "a depthwise weight that is computed" if computed else ""


def _conv_weight(call: Conv) -> View:
    return call.w


def _right(call: Matmul) -> View:
    return call.b


def _states_weight(call: Recurrence) -> View:
    return call.weight


_ROWS = (
    Template(AttentionSupport(Attention), emit_attention),
    Template(BagsSupport(Bags), emit_bags),
    Template(ConcatSupport(Concat), emit_concat),
    Template(
        ConvSupport(Conv, _takes_conv, row=PLANE_COLUMNS),
        emit_conv,
        PackedOperand(_conv_weight, pack_conv),
        finishes_once=True,
    ),
    Template(Support(Fft, takes_fft), emit_fft),
    Template(Support(RealFft, takes_fft), emit_fft),
    Template(Support(OpenFft, takes_fft), emit_open_fft),
    Template(Support(LibraryCall, takes_routine), emit_library),
    Template(
        MatmulSupport(Matmul, lone_rows=True),
        emit_matmul,
        PackedOperand(_right, pack_matmul),
        finishes_once=True,
    ),
    Template(
        RecurrenceSupport(Recurrence, spread=SHARED),
        emit_recurrence,
        PackedOperand(_states_weight, pack_recurrence),
    ),
    Template(Support(ResampleBytes), emit_resample_bytes),
    Template(ScanSupport(Scan, places=8), emit_scan),
    Template(ArgsortSupport(Argsort, skips=True), emit_argsort),
)
TEMPLATES: Mapping[type[TemplateCall], Template] = {row.support.kind: row for row in _ROWS}
