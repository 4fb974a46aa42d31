"""Packing of weights: layouts, padding, inverses."""

import ml_dtypes
import numpy as np
import pytest

from aot.backends.cpp import packing

TYPES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int8, np.int64]


def matrix(k, n, dtype):
    return np.arange(k * n).reshape(k, n).astype(dtype)


def unpacked_matmul(packed, k, n):
    """The inverse of `pack_matmul_weight`: the K x N matrix."""
    panels = packed.shape[0]
    if packed.dtype.name == "bfloat16":
        packed = packed.transpose(0, 1, 3, 2).reshape(panels, 2 * packed.shape[1], packing.PANEL)
    flat = packed.transpose(1, 0, 2).reshape(packed.shape[1], panels * packing.PANEL)
    return np.ascontiguousarray(flat[:k, :n])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("k", "n"), [(1, 1), (7, 5), (16, 16), (33, 40), (1100, 17), (0, 5), (5, 0)]
)
def test_matmul_round_trip(k, n, dtype):
    values = matrix(k, n, dtype)
    packed = packing.pack_matmul_weight(values)
    assert packed.shape == packing.packed_matmul_shape(k, n, values.dtype)
    assert packed.dtype == values.dtype and packed.flags.c_contiguous
    np.testing.assert_array_equal(unpacked_matmul(packed, k, n), values)


def test_matmul_layout():
    values = matrix(3, 20, np.float32)
    packed = packing.pack_matmul_weight(values)
    assert packed[1, 2, 3] == values[2, 19]
    assert not packed[1, :, 4:].any()


def test_bfloat16_layout_is_pairs_of_k():
    values = matrix(3, 4, ml_dtypes.bfloat16)
    packed = packing.pack_matmul_weight(values)
    assert packed[0, 0, 3, 1] == values[1, 3] and packed[0, 1, 2, 0] == values[2, 2]
    assert not packed[0, 1, :, 1].any()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("k", "n"), [(40, 50), (1100, 17), (1, 3), (33, 16), (2, 1), (0, 4), (4, 0)]
)
def test_matmul_takes_transposed_views(k, n, dtype):
    values = matrix(n, k, dtype)
    np.testing.assert_array_equal(
        packing.pack_matmul_weight(values.T),
        packing.pack_matmul_weight(np.ascontiguousarray(values.T)),
    )


def test_matmul_rejects_other_ranks():
    with pytest.raises(ValueError, match="2 dimensions"):
        packing.pack_matmul_weight(np.zeros((2, 3, 4), np.float32))


def unpacked(packed, shape):
    """The inverse of `pack_conv_weight`; `shape` is the weight's (OC, IC/groups, *kernel)."""
    groups, oc, ic, kernel = packed.shape[0], shape[0], shape[1], shape[2:]
    walked = packing.packed_channels(ic, packed.dtype)
    k, per = walked * int(np.prod(kernel)), oc // groups
    rows = [unpacked_matmul(packed[g], k, per).T for g in range(groups)]
    last = np.concatenate(rows).reshape(oc, *kernel, walked)
    assert not last[..., ic:].astype(np.float32).any()
    return np.moveaxis(last[..., :ic], -1, 1)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize(
    ("shape", "groups"),
    [((8, 3, 7, 7), 1), ((36, 5, 3, 3), 2), ((4, 2, 5), 4), ((17, 3, 1, 2, 3), 1)],
)
def test_convolution_round_trip(shape, groups, dtype):
    values = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    packed = packing.pack_conv_weight(values, groups)
    assert packed.shape[0] == groups
    np.testing.assert_array_equal(unpacked(packed, shape), values)


def test_convolution_layout():
    values = np.arange(40 * 3 * 2 * 5).reshape(40, 3, 2, 5).astype(np.float32)
    packed = packing.pack_conv_weight(values, 2).reshape(2, 2, 2, 5, 3, 16)
    assert packed[1, 1, 1, 4, 2, 3] == values[20 + 16 + 3, 2, 1, 4]


def test_convolution_rejects_uneven_groups():
    with pytest.raises(ValueError, match="groups"):
        packing.pack_conv_weight(np.zeros((5, 1, 1), np.float32), 2)


def test_planes_layout():
    values = np.arange(6 * 2 * 9).reshape(6, 2, 3, 3).astype(np.float32)
    packed = packing.pack_planes_weight(values, 2)
    assert packed.shape == (2, 18, 3) and packed[1, 9 + 5, 2] == values[5, 1, 1, 2]


@pytest.mark.parametrize(("dtype", "row"), [(np.float32, 5), (ml_dtypes.bfloat16, 32)])
def test_rows_are_whole_lines_of_bfloat16(dtype, row):
    values = np.arange(15).reshape(3, 5, 1, 1).astype(dtype)
    packed = packing.pack_rows(values)
    assert packed.shape == (3, row)
    assert np.array_equal(packed[:, :5], values[:, :, 0, 0])
    assert not packed[:, 5:].astype(np.float32).any()


def test_planes_reject_uneven_groups():
    with pytest.raises(ValueError, match="groups"):
        packing.pack_planes_weight(np.zeros((5, 1, 1), np.float32), 2)


def test_depthwise_layout():
    values = np.arange(6 * 9).reshape(6, 1, 3, 3).astype(np.float32)
    packed = packing.pack_depthwise_weight(values)
    assert packed.shape == (9, 6) and packed[5, 4] == values[4, 0, 1, 2]


def test_depthwise_rejects_full_convolutions():
    with pytest.raises(ValueError, match="depthwise"):
        packing.pack_depthwise_weight(np.zeros((4, 2, 3, 3), np.float32))


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize(("down", "across"), [(2, 2), (4, 2), (2, 4), (4, 4)])
def test_winograd_of_one_output_and_channel(down: int, across: int, step: int) -> None:
    weight = np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)
    packed = packing.pack_winograd_weight(weight, down, across, step, 1)
    g, h = (np.array(packing.FILTERS[n][s].rows) for n, s in ((down, step), (across, 1)))
    assert packed.shape == (len(g) * len(h), 1, 1, 16)
    expected = (g @ weight[0, 0].astype(np.float64) @ h.T).astype(np.float32)
    found = packed[:, 0, 0, 0].reshape(len(g), len(h))
    np.testing.assert_array_max_ulp(found, expected, 1)
    assert not packed[..., 1:].any()


def test_winograd_of_other_kernels_is_refused() -> None:
    with pytest.raises(ValueError, match=r"3 by 3, got shape \(1, 1, 5, 5\)"):
        packing.pack_winograd_weight(np.zeros((1, 1, 5, 5), np.float32), 2, 2)
