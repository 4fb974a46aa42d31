"""Packing as a loop nest gives the bits of the packing functions."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from aot.backends.cpp.operands import pack_weight, packing_recipes
from aot.backends.cpp.packing import FILTERS, packed_channels, packed_matmul_shape, row_elements
from aot.ir.dtypes import DTYPES
from aot.ir.interpreter import run_op
from aot.ir.nests import Axis, Buffer, View
from aot.symbolic import integer, row_major_strides, var
from tests.settings import seeded

TYPES = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16, "float64": np.float64}


def check(
    shape: tuple[int, ...],
    dtype: str,
    recipe: str,
    packed: tuple[int, ...],
    params: tuple[tuple[str, int], ...] = (),
    order: tuple[int, ...] | None = None,
) -> None:
    """Packs random values both ways. `order`: how the view permutes the weight's dimensions."""
    values = np.random.default_rng(seeded()).normal(size=shape).astype(TYPES[dtype])
    sizes = tuple(integer(n) for n in shape)
    source = Buffer("w", DTYPES[dtype], sizes, row_major_strides(sizes), "weight", "w")
    order = order or tuple(range(len(shape)))
    axes = tuple(Axis(var(f"a{k}"), sizes[k]) for k in order)
    index = tuple(axes[order.index(k)].symbol for k in range(len(shape)))
    buffer, derived = pack_weight(source, View("w", axes, index), recipe, packed, params)
    expected = packing_recipes()[recipe].whole(values, **dict(derived.params))
    arrays = {"w": values}
    (nest,) = derived.nests
    run_op(nest, {"w": source, buffer.name: buffer}, arrays, {})
    assert arrays[buffer.name].shape == expected.shape
    assert arrays[buffer.name].tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize(("k", "n"), [(1, 1), (7, 16), (8, 17), (5, 40)])
def test_matmul(k: int, n: int, dtype: str) -> None:
    shape = packed_matmul_shape(k, n, np.dtype(TYPES[dtype]))
    check((k, n), dtype, "pack_matmul", shape)
    check((n, k), dtype, "pack_matmul", shape, order=(1, 0))


def test_a_batch_of_matrices() -> None:
    shape = packed_matmul_shape(5, 18, np.dtype(np.float32))
    check((2, 3, 5, 18), "float32", "pack_matmul", (6, *shape))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("shape", "groups"), [((20, 3, 3, 3), 1), ((12, 2, 5), 3), ((4, 1, 2, 2, 3), 2)]
)
def test_convolutions(shape: tuple[int, ...], groups: int, dtype: str) -> None:
    outputs, channels, *kernel = shape
    element = np.dtype(TYPES[dtype])
    depth = packed_channels(channels, element) * int(np.prod(kernel))
    matrix = packed_matmul_shape(depth, outputs // groups, element)
    check(shape, dtype, "pack_conv", (groups, *matrix), (("groups", groups),))


@pytest.mark.parametrize(("shape", "groups"), [((6, 3, 2, 3), 2), ((5, 1, 4), 5)])
def test_convolutions_of_planes(shape: tuple[int, ...], groups: int) -> None:
    packed = (groups, int(np.prod(shape[1:])), shape[0] // groups)
    check(shape, "float32", "pack_planes", packed, (("groups", groups),))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rows(dtype: str) -> None:
    row = row_elements(5, np.dtype(TYPES[dtype]))
    check((7, 5, 1, 1), dtype, "pack_rows", (7, row))


def test_depthwise_convolutions() -> None:
    check((20, 1, 3, 2), "float32", "pack_depthwise", (6, 20))


@pytest.mark.parametrize("outputs", [16, 20])
@pytest.mark.parametrize(
    ("down", "across", "strides"),
    [(2, 2, (1, 1)), (4, 2, (1, 1)), (4, 4, (1, 1)), (4, 2, (2, 2)), (4, 2, (1, 2))],
)
def test_winograd(outputs: int, down: int, across: int, strides: tuple[int, int]) -> None:
    rows, columns = (len(FILTERS[n][s].rows) for n, s in zip((down, across), strides, strict=True))
    packed = (rows * columns, -(-outputs // 16), 16, 16)
    tile = (("down", down), ("across", across))
    tile += (("stride_down", strides[0]), ("stride_across", strides[1]))
    check((outputs, 16, 3, 3), "float32", "pack_winograd", packed, tile)
