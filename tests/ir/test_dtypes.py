"""Element types: what each holds, and in which type arithmetic is done."""

from __future__ import annotations

import numpy as np
import pytest
from aot_runtime.format.container import ITEM_BYTES, TO_SAFETENSORS
from aot_runtime.format.plan import DTYPE_BYTES

from aot.ir.dtypes import (
    ALL_DTYPES,
    BFLOAT16,
    FLOAT8S,
    FLOAT32,
    INT16,
    UINT16,
    UINT64,
    DType,
)


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_every_table_has_every_type(dtype: DType) -> None:
    assert dtype.numpy.itemsize == dtype.itemsize == DTYPE_BYTES[dtype.name]
    assert ITEM_BYTES[TO_SAFETENSORS[dtype.name]] == dtype.itemsize


def test_narrow_floats_compute_in_float32() -> None:
    assert {d.compute for d in (*FLOAT8S, BFLOAT16)} == {FLOAT32}
    assert all(d.is_float8 for d in FLOAT8S)
    assert UINT16.compute == UINT16


def test_integers_end_where_numpys_do() -> None:
    for dtype in (UINT64, UINT16, INT16):
        info = np.iinfo(dtype.numpy)
        assert dtype.ends == (info.min, info.max)
