"""Index expressions as text of every language: Python reads them back."""

from __future__ import annotations

import pytest

from aot.backends.cpp.text import index_text as cpp
from aot.backends.triton.text import index_text as triton
from aot.symbolic import Expr, FloorDiv, Modulo, dim, evaluate, var

I, N, M = var("i0"), dim("s0"), dim("s1")  # noqa: E741  as loop variables are called
NAMES = {I: "i0", N: "s0", M: "s1"}
VALUES = {"i0": 1000, "s0": 7, "s1": 3}


@pytest.mark.parametrize(
    "expr",
    [
        FloorDiv(I, 8 * N),
        Modulo(I, N * M),
        FloorDiv(I, N**2),
        Modulo(FloorDiv(I, M * N), 2 * M),
        FloorDiv(I, FloorDiv(N, M)),
        FloorDiv(I, N) * 8 * M + Modulo(I, N),
    ],
)
def test_a_divisor_that_is_a_product_is_one_operand(expr: Expr) -> None:
    by_name = {symbol: VALUES[name] for symbol, name in NAMES.items()}
    expected = evaluate(expr, by_name)
    for text in (cpp(expr, NAMES), triton(expr, NAMES)):
        plain = text.replace("int64_t{", "(").replace("}", ")")
        python = plain.replace("//", "/").replace("/", "//")
        assert eval(python, dict(VALUES)) == expected, text
