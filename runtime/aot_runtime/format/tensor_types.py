"""Element types of what callers see: those of buffers and entries, and the complex ones."""

from __future__ import annotations

from aot_runtime.format.plan import DTYPE_BYTES

COMPLEX_PARTS = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
"""Complex types, which inputs, outputs and states have, and those of their parts.

Buffers and entries hold pairs of parts, in a last dimension of 2."""

TENSOR_DTYPES = (*DTYPE_BYTES, *COMPLEX_PARTS)
"""Element types of inputs, outputs and states."""


def complex_dtype(part: str) -> str:
    """The complex type with parts of a type."""
    return next(name for name, own in COMPLEX_PARTS.items() if own == part)


def tensor_dtype_bytes(dtype: str) -> int:
    """The size in bytes of an element of an input, output or state."""
    part = COMPLEX_PARTS.get(dtype)
    return DTYPE_BYTES[dtype] if part is None else 2 * DTYPE_BYTES[part]
