"""Which OpInfo samples the sweep leaves out, and which results it cannot compare: data.

Left out is what a later version will package (sparse tensors), what eager has on other devices
alone, and what is no forward operator of the API. Everything else counts, packaged or refused;
what has several right results is compared in what they have in common (`rebuilt.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import torch

DTYPES: Mapping[str, torch.dtype] = {
    name: getattr(torch, name)
    for name in (
        *("float32", "bfloat16", "int64", "bool", "complex64"),
        *("float64", "float16", "complex128", "complex32"),
        *("int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64"),
        *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"),
    )
}
"""The types of the sweep, by name."""

OUT_OF_SCOPE: Mapping[str, str] = {
    "sparse": r"sparse_.*|to_sparse",
    "gradients": r"max_pool2d_with_indices_backward",
    "other devices": r"jiterator_.*|bmm_triton_optimized|torch__scaled_mm_v2",
}
"""Reason -> pattern of OpInfo names (`OpInfo.formatted_name`), matched as a whole."""

UNDEFINED_VALUES = re.compile(r"empty|empty_like|empty_strided|empty_permuted|new_empty.*")
"""Operators whose results are any memory: only types and shapes are compared."""


ANY_OF_EQUALS: Mapping[str, int] = {
    "argsort": 1,
    "kthvalue": 2,
    "median": 1,
    "mode": 1,
    "nanmedian": 1,
    "sort": 1,
    "topk": 2,
}
"""Operators whose last result is the position of the first, of any one where several elements are
equal (PyTorch documents no choice); and which argument of theirs is `dim`, by default the last."""


def out_of_scope(name: str) -> str:
    """Why an operator's samples do not count; "" when they do."""
    for reason, pattern in OUT_OF_SCOPE.items():
        if re.fullmatch(pattern, name, re.VERBOSE):
            return reason
    return ""


def other_overflow(op: str, tensors: Sequence[torch.Tensor], results: Sequence[object]) -> str:
    """Why results are eager's on this processor alone; "" when they are not.

    Products of 8-bit numbers that are greater than any such are NaN where oneDNN has matrix units
    for them, and the greatest number on other processors, on GPUs and in ours.
    """
    if op != "torch__scaled_mm" or any(t.float().isnan().any() for t in tensors):
        return ""
    odd = (r for r in results if isinstance(r, torch.Tensor) and r.dtype.itemsize == 1)
    lost = any(bool(r.float().isnan().any()) for r in odd)
    return "8-bit products overflow to NaN on this processor" if lost else ""


def foreign_type(tensor: torch.Tensor) -> str:
    """Why a tensor is out of scope; "" when it is not."""
    if tensor.is_quantized:
        return "quantised"
    return "" if tensor.layout is torch.strided else "sparse"


def foreign_device(leaf: object) -> str:
    """Why a case with this argument is out of scope; "" when it is not.

    Where there is a GPU, some samples of random numbers name it, though they are those of the CPU:
    another generator draws the numbers, and a package has one device.
    """
    named = isinstance(leaf, torch.device) or (isinstance(leaf, str) and leaf == "cuda")
    return "another device" if named and torch.device(leaf).type != "cpu" else ""
