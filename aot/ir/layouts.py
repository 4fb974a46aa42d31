"""Strides without gaps."""

from __future__ import annotations

from dataclasses import replace

from aot.ir.tensors import TensorType
from aot.symbolic import Expr, Minimum, integer, is_int, product, row_major_strides


def is_dense(shape: tuple[Expr, ...], strides: tuple[Expr, ...]) -> bool:
    """True when some order of the dimensions gives exactly these strides (size 1: any stride)."""
    running: Expr = integer(1)
    left = [(size, t) for size, t in zip(shape, strides, strict=True) if size != 1]
    while left:
        found = next((k for k, (_, stride) in enumerate(left) if stride == running), None)
        if found is None:
            return False
        running = product((running, left[found][0]))
        left.pop(found)
    return True


def element_span(shape: tuple[Expr, ...], strides: tuple[Expr, ...] | None) -> Expr:
    """Elements of memory from a buffer's first element to behind its last.

    That is the product of the sizes, but for an input with other strides: repeated elements (stride
    0) and gaps.
    """
    if strides is None or is_dense(shape, strides):
        return product(shape)
    last: Expr = integer(0)
    there: Expr = integer(1)  # 0 where a size that only a run knows is 0
    for size, stride in zip(shape, strides, strict=True):
        last = last + product((size - 1, stride))
        there = there * (integer(min(int(size), 1)) if is_int(size) else Minimum(size, integer(1)))
    return product((last + 1, there))


def dense_or_row_major(type_: TensorType) -> TensorType:
    """The type with its own strides if they are dense, else with row-major ones."""
    if is_dense(type_.shape, type_.strides):
        return type_
    return replace(type_, strides=row_major_strides(type_.shape))
