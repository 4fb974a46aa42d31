"""Which strides cover memory densely."""

from __future__ import annotations

import pytest

from aot.ir.layouts import is_dense
from aot.symbolic import as_expr


@pytest.mark.parametrize(
    ("shape", "strides", "dense"),
    [
        ((2, 3), (3, 1), True),
        ((2, 3), (1, 2), True),
        ((2, 3), (0, 1), False),
        ((2, 3), (6, 2), False),
        ((1, 3), (77, 1), True),
        ((), (), True),
    ],
)
def test_dense_strides(shape, strides, dense: bool) -> None:
    assert is_dense(tuple(map(as_expr, shape)), tuple(map(as_expr, strides))) is dense
