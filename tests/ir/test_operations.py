"""Every scalar operation has a text in every backend."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aot.backends.cpp import ops as cpp
from aot.backends.triton import ops as triton
from aot.errors import InternalError
from aot.ir.dtypes import BOOL, FLOAT16, FLOAT32, FLOAT64, INT64, DType
from aot.ir.operations import ROWS, Operation

WHOLE = frozenset("bitnot and or xor shl shr gcd".split())
"""Of integers and bools alone."""

TEXTS: dict[str, Callable[[str, DType, list[str]], str]] = {
    "cpp": lambda op, dtype, args: cpp.operation(op, dtype, args, "1"),
    "triton": triton.operation,
}


@pytest.mark.parametrize("backend", TEXTS)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_it_names_its_operands(row: Operation, backend: str) -> None:
    operands = ["first", "second", "third"][: row.arity]
    for dtype in (INT64,) if row.name in WHOLE else (FLOAT16, FLOAT32, FLOAT64):
        text = TEXTS[backend](row.name, dtype, operands)
        assert all(operand in text for operand in operands), text


@pytest.mark.parametrize("backend", TEXTS)
def test_what_bools_have_not_is_refused(backend: str) -> None:
    with pytest.raises(InternalError, match="has no exp of bool"):
        TEXTS[backend]("exp", BOOL, ["x"])
