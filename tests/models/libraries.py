"""Libraries of models, imported also where their compiled parts do not fit the torch that is here.

scripts/setup installs torchvision, torchaudio and timm into a folder of their own: built for
another torch, they cannot be imported as they are, which would break transformers beside them.
"""

from __future__ import annotations

import importlib
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import torch

FOLDER = Path(sys.prefix) / "models"
"""Where scripts/setup puts them; a library that is installed as usual is found before it."""

_OPERATORS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
"""Operators of torchvision's compiled part that its Python gives fake kernels at its import."""


@cache
def library(name: str) -> ModuleType:
    """The library, imported."""
    if FOLDER.is_dir() and str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    # transformers imports both where it finds them.
    _prepare_torchvision()
    _prepare_torchaudio()
    return importlib.import_module(name)


@cache
def _prepare_torchvision() -> torch.library.Library | None:
    """Declares what the compiled part would, where it does not load; the value is to be kept."""
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        declared = torch.library.Library("torchvision", "FRAGMENT")
        for schema in _OPERATORS:
            if not hasattr(torch.ops.torchvision, schema.partition("(")[0]):
                declared.define(schema)
        return declared
    return None


@cache
def _prepare_torchaudio() -> None:
    """Imports it without its compiled part, which holds filters and alignment but no model."""
    try:
        importlib.import_module("torchaudio")
    except OSError:
        name = "torchaudio._extension"
        absent = ModuleType(name)
        absent.__dict__.update(_IS_TORCHAUDIO_EXT_AVAILABLE=False, fail_if_no_align=lambda f: f)
        sys.modules[name] = absent
