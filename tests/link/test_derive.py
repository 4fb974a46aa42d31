"""Derived weights: what is kept of them, and parts that are the whole."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from aot.backends.cpp import operands
from aot.backends.cpp.operands import pack_weight, packing_recipes
from aot.backends.cpp.packing import packed_matmul_shape
from aot.ir.dtypes import DTYPES
from aot.ir.nests import Axis, Buffer, DerivedWeight, View
from aot.ir.weights import Recipe, WeightSpec
from aot.link.derive import DerivedStore
from aot.symbolic import integer, row_major_strides, var


class Store:
    """One weight."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def names(self) -> tuple[str, ...]:
        return ("w",)

    def specs(self) -> tuple[WeightSpec, ...]:
        return ()

    def array(self, fqn: str) -> np.ndarray:
        assert fqn == "w"
        return self._array


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize(("k", "n"), [(7, 50), (16, 16), (300, 33), (1, 1), (5, 0)])
@pytest.mark.parametrize("turned", [False, True])
def test_parts_of_a_packed_matrix_are_the_whole(
    dtype: str, k: int, n: int, *, turned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operands, "_PART_BYTES", 2048)
    shape = (n, k) if turned else (k, n)
    bits = np.arange(k * n).reshape(shape)
    values = bits.astype(DTYPES[dtype].numpy)
    sizes = tuple(integer(s) for s in shape)
    source = Buffer("w", DTYPES[dtype], sizes, row_major_strides(sizes), "weight", "w")
    axes = (Axis(var("a0"), integer(k)), Axis(var("a1"), integer(n)))
    index = tuple(a.symbol for a in (reversed(axes) if turned else axes))
    packed = packed_matmul_shape(k, n, values.dtype)
    buffer, derived = pack_weight(source, View("w", axes, index), "pack_matmul", packed)
    buffers = {"w": source, buffer.name: buffer}
    store = DerivedStore(Store(values), [derived], buffers, packing_recipes())
    parts = list(store.parts(buffer.name))
    whole = store.array(buffer.name)
    assert whole.shape == packed
    assert b"".join(p.tobytes() for p in parts) == whole.tobytes()
    assert all(p.shape[1:] == packed[1:] for p in parts)
    assert len(parts) > 1 or packed[0] <= 1 or k < 16


def test_only_what_others_derive_from_is_kept() -> None:
    made: list[int] = []

    def whole(source: np.ndarray, **params: Any) -> np.ndarray:
        made.append(params["by"])
        return source + params["by"]

    def parts(source: np.ndarray, **params: Any) -> Iterator[np.ndarray]:
        yield whole(source, **params)

    derived = [
        DerivedWeight("read", "add", ("w",), (("by", 1),)),
        DerivedWeight("last", "add", ("read",), (("by", 2),)),
    ]
    store = DerivedStore(Store(np.zeros(3)), derived, {}, {"add": Recipe(whole, parts)})
    for _ in range(2):
        np.testing.assert_array_equal(store.array("last"), np.full(3, 3.0))
        (part,) = store.parts("read")
        np.testing.assert_array_equal(part, np.ones(3))
    assert made == [1, 2, 2]
