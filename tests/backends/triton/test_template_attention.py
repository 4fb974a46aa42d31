"""Attention: values through Triton's interpreter, tiles, what is refused, and machine code."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch.nn import functional as F

from aot.backends.triton import attention_tile as tiles
from aot.backends.triton.attention_tile import (
    HEAD_SIZE,
    AttentionSize,
    AttentionTile,
    attention_tile,
    candidates,
    in_pairs,
    problem,
)
from aot.backends.triton.compile import compile_kernels
from aot.backends.triton.gpu import GPUS, Gpu
from aot.backends.triton.template_attention import column_pieces
from aot.backends.triton.tuning import NOTHING, Measurement, as_config
from aot.ir.dtypes import BFLOAT16, FLOAT32
from aot.options import default_cache_dir, environment
from tests.backends.triton.templates import (
    captured,
    check_close,
    emitted,
    machine_code,
    qkv,
    template_kinds,
    tensors,
)
from tests.settings import seeded

BF16, F16 = torch.bfloat16, torch.float16
sdpa = F.scaled_dot_product_attention
causal = partial(sdpa, is_causal=True)


def seen(shape, hidden=()):
    """A bool mask; rows of `hidden` see nothing."""
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(seeded(5))) > 0.5
    for row in hidden:
        mask[..., row, :] = False
    return mask


def masked(q, k, v, mask):
    return sdpa(q, k, v, attn_mask=mask)


def grouped(q, k, v, mask=None):
    return sdpa(q, k, v, attn_mask=mask, enable_gqa=True)


def grouped_causal(q, k, v):
    return sdpa(q, k, v, is_causal=True, enable_gqa=True)


def layers(q, k, v):
    """Heads inside rows, as projections leave them."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return torch.relu(sdpa(q, k, v).transpose(1, 2).flatten(2)) + 1


CASES = {
    "whole blocks": (sdpa, qkv(1, 2, 128, 192, 64, dtype=BF16)),
    "odd sizes": (sdpa, qkv(2, 3, 37, 50, 33, 20)),
    "one key": (sdpa, qkv(1, 2, 5, 1, 8)),
    "a single head of large size": (sdpa, qkv(1, 1, 20, 40, HEAD_SIZE, dtype=F16)),
    "causal": (causal, qkv(1, 2, 300, 300, 128, dtype=BF16)),
    "causal, whole blocks": (causal, qkv(1, 4, 256, 256, 128, dtype=BF16)),
    "causal, an odd number of tiles": (causal, qkv(1, 2, 320, 320, 128, dtype=BF16)),
    "causal, fewer whole blocks": (causal, qkv(1, 4, 300, 128, 64, dtype=BF16)),
    "causal, more keys": (causal, qkv(1, 3, 40, 90, 16)),
    "causal, fewer keys": (causal, qkv(1, 3, 90, 40, 16)),
    "negative scale": (partial(causal, scale=-0.4), qkv(2, 3, 70, 50, 33, 20)),
    "no scale": (partial(sdpa, scale=0.0), qkv(1, 1, 20, 30, 16)),
    "added mask": (masked, (*qkv(2, 3, 37, 50, 24), *tensors((2, 1, 37, 50)))),
    "added mask of halves": (
        masked,
        (*qkv(1, 4, 130, 200, 64, dtype=BF16), *tensors((4, 130, 200), dtype=BF16)),
    ),
    "added mask of keys": (
        masked,
        (*qkv(1, 8, 130, 200, 64, dtype=BF16), *tensors((1, 200), dtype=BF16)),
    ),
    "bool mask of keys": (
        masked,
        (*qkv(2, 8, 256, 300, 64, dtype=BF16), seen((2, 1, 1, 300))),
    ),
    "bool mask, rows that see nothing": (
        masked,
        (*qkv(2, 3, 37, 150, 24), seen((2, 1, 37, 150), hidden=(0, 36))),
    ),
    "groups": (grouped, qkv(2, 6, 70, 40, 16, shared=2)),
    "groups, causal": (grouped_causal, qkv(2, 6, 40, 40, 16, shared=3)),
    "few queries of groups": (grouped, qkv(2, 8, 7, 90, 32, shared=2, dtype=BF16)),
    "few queries, causal": (grouped_causal, qkv(2, 8, 7, 90, 32, shared=2, dtype=BF16)),
    "one query, masked": (
        grouped,
        (*qkv(1, 8, 1, 90, 64, shared=2, dtype=BF16), *tensors((1, 90), dtype=BF16)),
    ),
    "transposed, with an epilogue": (layers, tensors(*[(2, 40, 3, 64)] * 3, dtype=F16)),
}


PAIRED = ("causal", "causal, whole blocks", "causal, an odd number of tiles")
"""Cases whose programs, when there are many, take two tiles each."""


@pytest.fixture(params=("few", "many"))
def programs(request, monkeypatch):
    """Whether heads are as few as in these cases, or so many that tiles are large and in pairs."""
    if request.param == "many":
        monkeypatch.setattr(tiles, "_least", lambda gpu: 1)
        monkeypatch.setattr(Gpu, "units", 1)
    return request.param


@pytest.mark.parametrize("name", CASES)
def test_values(name, programs):
    function, args = CASES[name]
    model = captured(function, args)
    assert template_kinds(model) == ["attention"]
    if name in PAIRED:
        assert ("PAIRED=True" in emitted(model).functions[0].text) == (programs == "many")
    check_close(model, function, args)


QUERIES, KEYS = torch.export.Dim("queries", min=1), torch.export.Dim("keys", min=1)


@pytest.mark.parametrize("dtype", (torch.float32, BF16))
@pytest.mark.parametrize("sizes", ((130, 200), (1, 1), (64, 128), (200, 3)))
def test_values_at_other_sizes(sizes, dtype, programs):
    example = qkv(1, 4, 140, 260, 32, shared=2, dtype=dtype)
    dims = ({2: QUERIES}, {2: KEYS}, {2: KEYS})
    model = captured(grouped, example, dims)
    check_close(model, grouped, qkv(1, 4, *sizes, 32, shared=2, dtype=dtype))


def test_an_epilogue_is_part_of_the_kernel():
    args = tensors(*[(2, 40, 3, 64)] * 3, dtype=F16)
    source = emitted(captured(layers, args))
    assert len(source.launches) == 1
    assert source.functions[0].text.count("tl.store(") == 1


@pytest.mark.parametrize(
    "args",
    (qkv(1, 1, 5, 9, HEAD_SIZE + 1), qkv(1, 2, 5, 9, 8, dtype=torch.float64)),
    ids=("large heads", "double precision"),
)
def test_what_the_template_does_not_take_becomes_nests(args):
    model = captured(sdpa, args)
    assert template_kinds(model) == []
    check_close(model, sdpa, args)


F64 = torch.float64
AS_PRODUCTS = {
    "double precision, causal": (grouped_causal, qkv(1, 4, 70, 70, 96, shared=2, dtype=F64)),
    "double precision, a bias of groups": (
        grouped,
        (*qkv(2, 4, 60, 90, 64, shared=2, dtype=F64), *tensors((2, 1, 60, 90), dtype=F64)),
    ),
    "double precision, rows that see nothing": (
        masked,
        (*qkv(1, 2, 37, 150, 40, dtype=F64), seen((1, 1, 37, 150), hidden=(0, 36))),
    ),
    "one query": (grouped, qkv(1, 4, 1, 300, 64, shared=1, dtype=F64)),
    "values of another size": (sdpa, qkv(1, 2, 70, 70, 80, 40, dtype=F64)),
    "large heads in single precision": (grouped_causal, qkv(1, 4, 130, 130, 160, shared=2)),
    "transposed, with an epilogue": (layers, tensors(*[(1, 140, 3, 160)] * 3)),
}


@pytest.mark.parametrize("name", AS_PRODUCTS)
def test_as_two_products_and_a_softmax(name):
    function, args = AS_PRODUCTS[name]
    model = captured(function, args)
    assert template_kinds(model) == ["matmul", "matmul"]
    assert len(emitted(model).launches) == 3
    check_close(model, function, args)


def test_what_a_causal_mask_hides_is_not_multiplied():
    function, args = grouped_causal, qkv(1, 2, 300, 300, 160)
    model = captured(function, args)
    kinds = [re.findall(r"TRIANGLE='(\w+)'", f.text) for f in emitted(model).functions]
    assert [k for found in kinds for k in found] == ["output", "a"]
    check_close(model, function, args)


def test_large_heads_stay_where_scores_are_few_or_memory_is_not_known():
    assert template_kinds(captured(sdpa, qkv(1, 4, 100, 512, 160))) == ["attention"]
    assert template_kinds(captured(sdpa, qkv(1, 4, 512, 512, 128))) == ["attention"]
    dims = ({2: QUERIES}, {2: KEYS}, {2: KEYS})
    dynamic = captured(sdpa, qkv(1, 4, 512, 512, 160), dims)
    assert template_kinds(dynamic) == ["attention"]


def test_whole_blocks_have_no_masks():
    text = emitted(captured(sdpa, qkv(4, 16, 256, 256, 64, dtype=BF16))).functions[0].text
    assert ", mask=" not in text
    assert "EDGE=0," in text
    assert "load_mask=None," in text
    assert "sees=None," in text


def size(heads=64, queries=2048, keys=2048, depth=128, dtype=BFLOAT16, is_causal=True):
    return AttentionSize(heads, queries, keys, depth, dtype, is_causal)


def test_tiles_follow_the_sizes():
    gpu = GPUS["sm_90"]
    assert attention_tile(size(), gpu).rows == 64
    assert attention_tile(replace(size(), depth=96), gpu).rows == 128
    assert attention_tile(size(), GPUS["sm_80"]).rows == 128
    assert attention_tile(size(heads=12, queries=128), gpu).rows < 64
    assert attention_tile(size(queries=4), gpu).packed
    assert attention_tile(size(queries=40), gpu).rows < 80
    assert attention_tile(size(keys=20), gpu).keys == 32


@pytest.mark.parametrize(("depth", "masked", "stages"), [(160, 0, 3), (160, 1, 2), (64, 2, 3)])
def test_blocks_of_masks_leave_room_for_two_programs(depth, masked, stages):
    masked = replace(size(depth=depth, is_causal=False), masked=masked)
    assert attention_tile(masked, GPUS["sm_90"]).stages == stages


def test_masks_of_numbers_have_higher_tiles():
    gpu, halves = GPUS["sm_90"], size(depth=32, is_causal=False)
    numbers, flags = (attention_tile(replace(halves, masked=n), gpu) for n in (2, 1))
    assert (numbers.rows, numbers.warps) == (128, 8)
    assert flags.rows == 64
    wide = replace(halves, depth=96)
    numbers, flags = (attention_tile(replace(wide, masked=n), gpu) for n in (2, 1))
    assert (numbers.rows, flags.rows, flags.warps) == (64, 128, 4)


def test_masked_tiles_are_halved_where_two_at_a_time_end_sooner():
    def tile(heads, **more):
        wide = size(heads=heads, queries=1200, keys=1200, is_causal=False)
        return attention_tile(replace(wide, masked=1, **more), GPUS["sm_90"])

    assert tile(16) == AttentionTile(64, 64, 4, 2)  # 160 tiles of 128 on 132 multiprocessors
    assert tile(13).rows == tile(26).rows == tile(16, queries=1024).rows == 128


def test_numbers_of_masks_that_no_vector_loads_have_small_tiles():
    def tile(masked, *, loose):
        wide = size(heads=32, queries=2429, keys=2429, dtype=FLOAT32, is_causal=False)
        return attention_tile(replace(wide, masked=masked, loose=loose), GPUS["sm_90"])

    assert tile(4, loose=True) == AttentionTile(16, 64, 4, 2)
    assert tile(4, loose=False).rows == tile(1, loose=True).rows == tile(0, loose=False).rows == 128
    packed = attention_tile(size(queries=4, dtype=FLOAT32, is_causal=False), GPUS["sm_90"])
    assert (packed.packed, packed.keys, packed.stages) == (True, 64, 1)


def test_a_mask_is_loose_where_its_rows_are():
    def rows(keys):
        args = (*qkv(2, 16, 1024, keys, 128), torch.zeros(2, 1, 1024, keys))
        (function,) = emitted(captured(masked, args)).functions
        return int(re.findall(r"ROWS=(\d+)", function.text)[0])

    assert rows(1001) < rows(1000)


def test_tiles_alone_are_halved_where_two_at_a_time_end_sooner():
    def tile(heads, **more):
        wide = size(heads=heads, queries=2072, keys=2072, depth=192, is_causal=False)
        return attention_tile(replace(wide, **more), GPUS["sm_90"])

    assert (tile(8).rows, tile(8).keys) == (64, 32)  # 136 tiles of 128 on 132 multiprocessors
    assert tile(7).rows == tile(8, masked=2).rows == 128


def test_keys_at_the_edge_have_masks_of_their_own_shape():
    """What one loop carries in a shape, the next one must not set in another."""
    args = (*qkv(1, 5, 1, 600, 32), torch.zeros(1, 1, 1, 600))
    functions = emitted(captured(masked, args)).functions
    edges = [re.findall(r"KEYS=(\d+).*?EDGE=(\d+)", f.text, re.DOTALL) for f in functions]
    assert any(keys != edge != "0" for found in edges for keys, edge in found)
    assert compile_kernels(functions, "sm_90", 2, default_cache_dir(environment()))


def test_masks_that_queries_share_are_small():
    def stages(*shape):
        args = (*qkv(4, 16, 1024, 1024, 160, dtype=torch.bfloat16), torch.ones(shape).bool())
        model = captured(torch.nn.functional.scaled_dot_product_attention, args)
        (function,) = emitted(model).functions
        return dict(function.options)["num_stages"]

    assert stages(1, 1, 1, 1024) == 3
    assert stages(1, 1, 1024, 1024) == 2


@pytest.mark.parametrize("is_causal", (True, False))
def test_large_heads_of_float32_are_two_pieces_of_tiles_whose_digits_stay_in_registers(is_causal):
    gpu, single = GPUS["sm_90"], size(depth=192, dtype=FLOAT32, is_causal=is_causal)
    assert column_pieces(192, FLOAT32) == (128, 64)
    assert column_pieces(160, FLOAT32) == (128, 32)
    tile = attention_tile(single, gpu)
    assert (tile.rows, tile.keys, tile.warps) == (32, 32, 4)
    low = attention_tile(replace(single, depth=160), gpu)
    assert (low.rows, low.keys, low.warps) == (16, 64, 4)
    assert column_pieces(256, FLOAT32) == (128, 128)
    assert column_pieces(200, FLOAT32) == (128, 128)
    assert column_pieces(128, FLOAT32) == (128, 0)
    assert column_pieces(256, BFLOAT16) == (256, 0)
    tile = attention_tile(replace(single, depth=256), gpu)
    assert (tile.rows, tile.keys, tile.warps, tile.stages) == (32, 64, 8, 2)


def test_many_causal_tiles_go_in_pairs():
    gpu = GPUS["sm_90"]
    tile = attention_tile(size(), gpu)
    assert in_pairs(size(), tile, gpu)
    assert not in_pairs(size(is_causal=False), tile, gpu)
    assert not in_pairs(size(heads=8), tile, gpu)
    assert not in_pairs(size(heads=2000, queries=tile.rows), tile, gpu)


@pytest.mark.parametrize("depth", [64, 80, 96, 192])
def test_tiles_that_share_a_multiprocessor_otherwise_go_alone(depth):
    """Many that take turns, one that waits for itself, and heads in two pieces."""
    gpu, problem_size = GPUS["sm_90"], replace(size(), depth=depth)
    assert not in_pairs(problem_size, attention_tile(problem_size, gpu), gpu)


def test_what_was_measured_goes_first():
    gpu = GPUS["sm_90"]
    plain = attention_tile(size(), gpu)
    other = next(t for t in candidates(size()) if t.keys == 128)
    assert other != plain
    row = Measurement(problem(size()), "sm_90", tuple(as_config(other).items()), 3.0)
    tuned = replace(gpu, tuning=NOTHING.adding([row]))
    assert attention_tile(size(), tuned) == other
    assert attention_tile(size(heads=48), tuned) == other
    assert attention_tile(size(is_causal=False), tuned) == plain


CODE = {
    "causal": (causal, qkv(1, 16, 2048, 2048, 128, dtype=BF16)),
    "masked": (
        masked,
        (*qkv(8, 12, 512, 512, 64, dtype=BF16), torch.ones(8, 1, 512, 512, dtype=torch.bool)),
    ),
    "keys masked": (
        masked,
        (*qkv(8, 12, 512, 512, 64, dtype=BF16), torch.ones(8, 1, 1, 512, dtype=torch.bool)),
    ),
    "odd length": (sdpa, qkv(32, 12, 197, 197, 64, dtype=F16)),
    "short": (sdpa, qkv(1, 12, 128, 128, 64, dtype=BF16)),
    "large heads": (causal, qkv(1, 16, 2048, 2048, 256, dtype=BF16)),
    "single precision": (causal, qkv(1, 12, 512, 512, 128)),
    "single precision, many": (causal, qkv(4, 12, 512, 512, 64)),
}


SPILLED = 16
"""Bytes a thread may keep in memory: a few words across a whole loop, as the assembler likes."""


@pytest.mark.parametrize("arch", ("sm_80", "sm_90"))
@pytest.mark.parametrize("name", CODE)
def test_machine_code(name, arch):
    function, args = CODE[name]
    code = machine_code(captured(function, args), "attention", arch)
    assert code.local_bytes <= SPILLED
    assert code.uses_tensor_cores
    if name != "keys masked":  # an element or two of the mask for each thread
        assert code.vector_loads >= 0.8 * code.loads


def test_single_precision_without_fast_tensor_cores():
    function, args = CODE["single precision"]
    code = machine_code(captured(function, args), "attention", "sm_86")
    assert code.local_bytes <= SPILLED
    assert not code.uses_tensor_cores


@pytest.mark.parametrize(("columns", "pieces"), [(40, (32, 16)), (72, (64, 16)), (96, (64, 32))])
def test_columns_between_powers_of_two_are_multiplied_in_two_blocks(columns, pieces):
    args = qkv(1, 2, 70, 100, columns, dtype=torch.bfloat16)

    def attend(q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    model = captured(attend, args)
    (text,) = [f.text for f in emitted(model).functions]
    assert f"DEPTH={pieces[0]},\n        MORE_DEPTH={pieces[1]}" in text
    check_close(model, attend, args)


def test_columns_of_float32_and_near_a_power_are_one_block():
    assert column_pieces(80, FLOAT32) == (64, 16)
    assert column_pieces(40, FLOAT32) == (64, 0)
    assert column_pieces(120, BFLOAT16) == (128, 0)
    assert column_pieces(20, BFLOAT16) == (32, 0)


@pytest.mark.parametrize("depth", (80, 256))
def test_the_last_keys_of_floats_leave_registers_to_the_others(depth):
    """Of so many that scores are not stored: a few more keys than whole blocks."""
    shape = (2, 16, 4100, depth)
    arguments = tuple(torch.empty(shape) for _ in range(3))
    graph = captured(F.scaled_dot_product_attention, arguments)
    assert machine_code(graph, "attention", "sm_90").local_bytes < 2048 * (depth > 128) + 64
