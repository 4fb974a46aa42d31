"""What torch's settings let eager do with float32 on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

_ALLOWED: Mapping[str, Callable[[], str]] = {
    "conv": lambda: torch.backends.cudnn.conv.fp32_precision,  # type: ignore[attr-defined]
    "matmul": lambda: torch.backends.cuda.matmul.fp32_precision,
}
"""The setting of each kind of template. Older ones (`allow_tf32`, `set_float32_matmul_precision`)
write these, too."""


def rounded_kinds() -> tuple[str, ...]:
    """Kinds of templates whose float32 operands eager may round to TF32, as torch is set now.

    By default convolutions, not products.
    """
    return tuple(kind for kind, setting in _ALLOWED.items() if setting() == "tf32")
