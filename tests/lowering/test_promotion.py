"""Promotion equals PyTorch's for every pair of types and kinds of operands."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from aot.ir.dtypes import (
    ALL_DTYPES,
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    INT32,
    INT64,
    UINT8,
    DType,
)
from aot.ir.tensors import Signature, TensorGraph, Tree
from aot.lowering.builder import GraphBuilder, Tensor
from aot.lowering.promotion import number, promote, promote_float, scalar_dtype, wrap_integer
from aot.symbolic import as_expr

BUILDER = GraphBuilder(TensorGraph("g", (), (), (), (), (), {}, Signature((), Tree("leaf", 0))))
JOINED = (FLOAT32, FLOAT16, BFLOAT16, INT64, INT32, UINT8)
KINDS = [*((d, rank) for d in ALL_DTYPES for rank in (0, 1)), True, 3, 2.5]


def _ours(kind: Any) -> Any:
    if not isinstance(kind, tuple):
        return kind
    return Tensor("x", kind[0], (as_expr(2),) * kind[1], BUILDER)


def _torch(kind: Any) -> Any:
    if not isinstance(kind, tuple):
        return kind
    return torch.ones((2,) * kind[1], dtype=getattr(torch, kind[0].name))


@pytest.mark.parametrize("first", KINDS, ids=str)
def test_promotes_as_torch(first: Any) -> None:
    for second in KINDS:
        if not (isinstance(first, tuple) or isinstance(second, tuple)):
            continue
        try:
            expected = torch.result_type(_torch(first), _torch(second))
        except RuntimeError:  # torch joins wide unsigned and float8 types with few others
            continue
        assert f"torch.{promote(_ours(first), _ours(second))}" == str(expected), second


def test_three_operands_join_within_their_priority() -> None:
    for a, b, c in itertools.product(JOINED, repeat=3):
        tensors = [_torch((d, 1)) for d in (a, b, c)]
        expected = (tensors[0] + tensors[1] + tensors[2]).dtype
        ours = promote(*(_ours((d, 1)) for d in (a, b, c)))
        assert f"torch.{ours}" == str(expected)


def test_true_division_of_integers_is_float32() -> None:
    assert promote_float(_ours((INT64, 1)), 2) == FLOAT32
    assert promote_float(_ours((BOOL, 1)), True) == FLOAT32


def test_a_size_counts_as_an_integer() -> None:
    assert scalar_dtype(as_expr(3)) == INT64
    assert promote(_ours((FLOAT32, 1)), as_expr(3)) == FLOAT32


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [(-1, UINT8, 255), (300, UINT8, 44), (2**63, INT64, -(2**63)), (5, INT64, 5)],
)
def test_numbers_wrap(value: int, dtype: DType, expected: int) -> None:
    assert wrap_integer(value, dtype) == expected
    assert number(value, dtype).attr == expected


def test_nothing_to_promote() -> None:
    with pytest.raises(ValueError, match="nothing to promote"):
        promote(None)
