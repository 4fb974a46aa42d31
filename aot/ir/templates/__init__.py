"""Kinds of templates, one file each: operations that a backend may have a designed kernel for."""

from __future__ import annotations

from aot.ir.templates.argsort import Argsort, ArgsortSupport
from aot.ir.templates.attention import Attention, AttentionSupport, KeyParts
from aot.ir.templates.base import Support, TemplateCall
from aot.ir.templates.conv import Conv, ConvSupport
from aot.ir.templates.matmul import Matmul, MatmulSupport
from aot.ir.templates.resample import Resample
from aot.ir.templates.resample2 import Resample2, Resample2Support, Walks
from aot.ir.templates.scan import Scan

__all__ = [
    "Argsort",
    "ArgsortSupport",
    "Attention",
    "AttentionSupport",
    "Conv",
    "ConvSupport",
    "KeyParts",
    "Matmul",
    "MatmulSupport",
    "Resample",
    "Resample2",
    "Resample2Support",
    "Scan",
    "Support",
    "TemplateCall",
    "Walks",
]
