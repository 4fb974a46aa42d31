"""Blocks of convolutions: they fit, cover, fill a device, and yield to what was measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from aot.backends.triton.conv_tiling import (
    ConvSize,
    candidates,
    channel_parts,
    conv_tile,
    problem,
    steps,
    taps_at_once,
)
from aot.backends.triton.gpu import GPUS
from aot.backends.triton.tuning import NOTHING, Measurement, as_config
from aot.ir.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64
from aot.symbolic import integer

RESNET = (
    # rows, columns, taps, channels of the network's convolutions on one image
    (12544, 64, 49, 3),
    (3136, 64, 9, 64),
    (3136, 256, 1, 64),
    (784, 128, 9, 128),
    (784, 512, 1, 128),
    (196, 256, 9, 256),
    (196, 1024, 1, 256),
    (49, 512, 9, 512),
    (49, 2048, 1, 512),
)


@pytest.mark.parametrize("size", RESNET, ids=str)
def test_small_images_still_fill_the_device(size: tuple[int, int, int, int]) -> None:
    rows, columns, taps, channels = size
    conv = ConvSize(rows, columns, 1, taps, channels, FLOAT16, last=True)
    tile = conv_tile(conv, GPUS["sm_90"])
    programs = -(-rows // tile.rows) * -(-columns // tile.columns)
    assert programs >= 90


@pytest.mark.parametrize("arch", ("sm_86", "sm_90"))
@pytest.mark.parametrize("dtype", (FLOAT16, BFLOAT16, FLOAT32))
@pytest.mark.parametrize("batch", (1, 32, 256))
@pytest.mark.parametrize("size", RESNET, ids=str)
def test_blocks_fit_and_cover(
    size: tuple[int, int, int, int], batch: int, dtype: Any, arch: str
) -> None:
    rows, columns, taps, channels = size
    conv = ConvSize(batch * rows, columns, 1, taps, channels, dtype, last=True)
    tile = conv_tile(conv, GPUS[arch])
    held = (tile.rows + tile.columns) * tile.depth * dtype.itemsize * tile.stages
    assert held <= GPUS[arch].shared_bytes
    assert steps(conv, tile) * tile.depth >= taps * channels
    assert tile.flat or tile.depth <= 2 * channels


def test_large_convolutions_take_large_blocks() -> None:
    tile = conv_tile(ConvSize(100352, 256, 1, 9, 256, FLOAT16, last=True), GPUS["sm_90"])
    assert tile.rows * tile.columns >= 128 * 128


def test_short_programs_do_not_have_a_multiprocessor_for_themselves() -> None:
    """What a block of 128 x 256 begins and ends with would be all to be seen of four steps."""
    short = conv_tile(ConvSize(250632, 256, 1, 1, 224, FLOAT16, last=True), GPUS["sm_90"])
    assert short.rows * short.columns <= 128 * 128
    deep = conv_tile(ConvSize(42632, 1024, 1, 4, 192, FLOAT16, last=True), GPUS["sm_90"])
    assert deep.rows * deep.columns == 128 * 256


def test_steps_are_deep_where_there_are_many() -> None:
    conv = ConvSize(110592, 64, 1, 27, 464, BFLOAT16, last=True)
    assert conv_tile(conv, GPUS["sm_90"]).depth >= 64


def test_steps_of_narrow_blocks_are_hidden_by_other_programs() -> None:
    """Fewer blocks in flight make room for three of them, where these have more than one each."""
    gpu, half = GPUS["sm_90"], FLOAT16
    for many in (
        ConvSize(103684, 64, 1, 25, 448, half, last=True),
        ConvSize(43218, 64, 8, 9, 64, half, last=True),
    ):
        tile = conv_tile(many, gpu)
        assert (tile.rows, tile.columns, tile.depth, tile.stages) == (128, 64, 64, 3)
    few = conv_tile(ConvSize(32768, 64, 1, 27, 456, half, last=True), gpu)
    assert few.rows == 256 and few.stages == 5
    wide = conv_tile(ConvSize(12544, 411, 1, 9, 376, half, last=True), gpu)
    assert wide.columns == 128 and wide.stages == 5


def test_exact_products_take_blocks_whose_digits_registers_hold() -> None:
    """Several programs on a multiprocessor; two warps where channels are read one by one."""
    tile = conv_tile(ConvSize(84050, 40, 1, 1, 216, FLOAT32, last=True), GPUS["sm_90"])
    assert (tile.rows, tile.columns, tile.stages) == (64, 64, 3)
    apart = conv_tile(ConvSize(32768, 29, 1, 1, 489, FLOAT32, last=True), GPUS["sm_90"])
    assert apart.warps == 2


def test_depths_of_exact_products_are_cut_where_the_device_is_idle() -> None:
    deep = ConvSize(4096, 64, 1, 27, 128, FLOAT32, last=True)
    assert channel_parts(deep, GPUS["sm_90"]) > 1
    assert channel_parts(replace(deep, rows=1 << 18), GPUS["sm_90"]) == 1


def test_what_was_measured_goes_first() -> None:
    conv = ConvSize(3136, 64, 1, 9, 64, FLOAT16, last=True)
    gpu = GPUS["sm_90"]
    plain = conv_tile(conv, gpu)
    other = next(t for t in candidates(conv, gpu) if t.rows != plain.rows)
    row = Measurement(problem(conv), "sm_90", tuple(as_config(other).items()), 3.0)
    tuned = replace(gpu, tuning=NOTHING.adding([row]))
    assert conv_tile(conv, tuned) == other
    near = replace(conv, rows=2000)
    assert conv_tile(near, tuned) == other
    assert conv_tile(replace(conv, taps=49), tuned) == conv_tile(replace(conv, taps=49), gpu)


@pytest.mark.parametrize("channels", (25, 27, 9))
def test_addresses_of_single_elements_stay_in_registers(channels: int) -> None:
    """Blocks of 256 x 128 in steps of 64 pairs of tap and channel had them in memory."""
    conv = ConvSize(89042, 83, 1, 25, channels, FLOAT16, last=True)
    for tile in candidates(conv, GPUS["sm_90"]):
        lanes = 32 * tile.warps
        addresses = tile.rows * tile.depth // lanes if tile.flat else 0
        assert tile.rows * tile.columns // lanes + 2 * addresses <= 160
    vectors = list(candidates(replace(conv, channels=32), GPUS["sm_90"]))
    assert any((t.rows, t.columns, t.depth) == (256, 128, 64) for t in vectors)


def test_what_registers_round_has_another_program_beside_it() -> None:
    """While one rounds, the other multiplies: 367 us by deep steps, of which one fits, 247."""
    size = ConvSize(39200, 46, 4, 25, 64, FLOAT32, last=True, rounded=True)
    tile = conv_tile(size, GPUS["sm_90"])
    held = (tile.stages - 1) * (tile.rows + tile.columns) + tile.columns
    assert 2 * held * tile.depth * 4 <= GPUS["sm_90"].shared_bytes


def test_what_is_rounded_in_memory_is_copied_by_eight_warps() -> None:
    size = ConvSize(40328, 64, 1, 9, 368, FLOAT32, last=True, rounded=True, ready=True)
    tile = conv_tile(size, GPUS["sm_90"])
    assert (tile.rows, tile.columns, tile.warps, tile.stages) == (128, 64, 8, 4)


def test_pointwise_convolutions_of_float64_take_blocks_that_share_a_multiprocessor() -> None:
    size = ConvSize(86528, 128, 1, 1, 128, FLOAT64, last=False)
    tile = conv_tile(size, GPUS["sm_90"])
    assert (tile.rows, tile.columns, tile.warps) == (64, 64, 4)


@pytest.mark.parametrize(
    ("taps", "channels", "points", "at_once"),
    [
        ((7, 7), (1, 8), 1, 49),
        ((3, 3), (8, 5), 1, 9),
        ((5, 5), (8, 5), 1, 5),
        ((3, 5, 5), (7, 1), 1, 25),
        ((3, 5, 5), (8, 1), 1, 5),
        ((3, 3), (8, 8), 8, 1),
        ((64, 64), (1, 1), 1, 64),
    ],
)
def test_so_many_taps_are_written_out_as_triton_takes_seconds_for(
    taps: tuple[int, ...], channels: tuple[int, int], points: int, at_once: int
) -> None:
    assert taps_at_once([integer(n) for n in taps], *channels, points) == at_once
