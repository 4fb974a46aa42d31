"""Kinds of templates, one file each: operations that a backend may have a designed kernel for."""

from __future__ import annotations

from aot.ir.templates.argsort import Argsort, ArgsortSupport, ByDigits
from aot.ir.templates.attention import Attention, AttentionSupport, HeadRows, KeyParts, MaskRows
from aot.ir.templates.bags import BagParts, Bags, BagsSupport
from aot.ir.templates.base import Parts, Support, TemplateCall
from aot.ir.templates.concat import Concat, ConcatSupport
from aot.ir.templates.conv import Conv, ConvSupport
from aot.ir.templates.digits import DigitCounts, DigitPlaces
from aot.ir.templates.fft import Fft
from aot.ir.templates.library import (
    HostCall,
    LibraryCall,
    LibraryRoutine,
    LibrarySupport,
    RoutineLibrary,
    Sizes,
)
from aot.ir.templates.matmul import Matmul, MatmulSupport
from aot.ir.templates.open_fft import OpenFft
from aot.ir.templates.real_fft import RealFft
from aot.ir.templates.recurrence import Recurrence, RecurrenceSupport, Spread
from aot.ir.templates.resample import Resample
from aot.ir.templates.resample2 import Resample2, Resample2Support, Walks
from aot.ir.templates.resample_bytes import ResampleBytes
from aot.ir.templates.scan import Scan, ScanSupport
from aot.ir.templates.true_places import TruePlaces, TruePlacesSupport

__all__ = [
    "Argsort",
    "ArgsortSupport",
    "Attention",
    "AttentionSupport",
    "BagParts",
    "Bags",
    "BagsSupport",
    "ByDigits",
    "Concat",
    "ConcatSupport",
    "Conv",
    "ConvSupport",
    "DigitCounts",
    "DigitPlaces",
    "Fft",
    "HeadRows",
    "HostCall",
    "KeyParts",
    "LibraryCall",
    "LibraryRoutine",
    "LibrarySupport",
    "MaskRows",
    "Matmul",
    "MatmulSupport",
    "OpenFft",
    "Parts",
    "RealFft",
    "Recurrence",
    "RecurrenceSupport",
    "Resample",
    "Resample2",
    "Resample2Support",
    "ResampleBytes",
    "RoutineLibrary",
    "Scan",
    "ScanSupport",
    "Sizes",
    "Spread",
    "Support",
    "TemplateCall",
    "TruePlaces",
    "TruePlacesSupport",
    "Walks",
]
