"""The C++ backend's templates, a row a kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aot.backends.cpp.kernel import EmittedKernel
from aot.backends.cpp.template_attention import emit_attention
from aot.backends.cpp.template_conv import emit_conv
from aot.backends.cpp.template_matmul import emit_matmul
from aot.backends.cpp.template_rows import emit_argsort, emit_scan
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.ir.templates import (
    Argsort,
    ArgsortSupport,
    Attention,
    AttentionSupport,
    Conv,
    ConvSupport,
    Matmul,
    Scan,
    Support,
    TemplateCall,
)


@dataclass(frozen=True)
class Template:
    """A kind of template call that there is C++ for.

    Attributes:
        support: What the kind's kernels take and like.
        emit: The function of a kernel with such a call.
    """

    support: Support[Any]
    emit: Callable[[TemplateKernel, KernelGraph], EmittedKernel]


_ROWS = (
    Template(AttentionSupport(Attention), emit_attention),
    Template(ConvSupport(Conv), emit_conv),
    Template(Support(Matmul), emit_matmul),
    Template(Support(Scan), emit_scan),
    Template(ArgsortSupport(Argsort), emit_argsort),
)
TEMPLATES: Mapping[type[TemplateCall], Template] = {row.support.kind: row for row in _ROWS}
