"""Attention by groups of warps: when it is taken, its machine code, and its values on a GPU.

Gluon has no interpreter: what the kernel computes is compared where there is a GPU.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from aot.backends.triton import attention_tile as tiles
from aot.backends.triton.attention_tile import (
    LEAST_GROUP_DEPTH,
    AttentionSize,
    attention_tile,
    candidates,
    in_groups,
    in_pairs,
    problem,
)
from aot.backends.triton.compile import compile_kernels
from aot.backends.triton.gpu import GPUS
from aot.backends.triton.tuning import NOTHING, Measurement, as_config
from aot.frontend.weights import to_array
from aot.ir.dtypes import BFLOAT16, FLOAT32
from tests.backends.triton.templates import captured, emitted, machine_code, qkv
from tests.comparing import complaint
from tests.conformance.executors import GPU, executor_named

BF16, F16 = torch.bfloat16, torch.float16
SIZE = AttentionSize(16, 16384, 16384, 128, BFLOAT16, True, copied=True)
LENGTH = 1124
"""Of a sequence whose last block of keys is not whole."""

grouped = partial(F.scaled_dot_product_attention, enable_gqa=True)
grouped_causal = partial(grouped, is_causal=True)


@pytest.fixture(autouse=True)
def _shorter(request, monkeypatch):
    """Short sequences are by groups, too, but where the rule itself is asked."""
    if "rule" not in request.fixturenames:
        short = {depth: (512, tile) for depth, (_, tile) in tiles._BY_GROUPS.items()}
        monkeypatch.setattr(tiles, "_BY_GROUPS", short)
        monkeypatch.setattr(tiles, "_CAUSAL", {})


def tokens_first(q, k, v):
    """Heads stand side by side in a token."""
    turned = [x.transpose(1, 2) for x in (q, k, v)]
    return F.scaled_dot_product_attention(*turned, is_causal=True, enable_gqa=True)


def text_of(function, args, arch="sm_90"):
    (text,) = [f.text for f in emitted(captured(function, args), arch).functions]
    return text


def is_by_groups(function, args):
    return "attention_by_groups(" in text_of(function, args)


@pytest.fixture
def rule():
    """The rule as it is."""


CHANGES = (
    {"copied": False},
    {"dtype": FLOAT32},
    {"keys": 700},
    {"queries": 700, "heads": 130},
    {"depth": LEAST_GROUP_DEPTH - 8},
    {"heads": 1},
)


def test_groups_are_for_long_sequences_of_halves(rule):
    gpu = GPUS["sm_90"]
    for depth, groups in ((64, 3), (80, 2), (128, 2), (192, 2), (256, 2)):
        size = replace(SIZE, depth=depth)
        tile = attention_tile(size, gpu)
        assert tile.groups == groups
    for change in CHANGES:
        other = replace(SIZE, **change)
        assert not in_groups(other, gpu)
        assert attention_tile(other, gpu).groups == 0
    assert in_groups(replace(SIZE, keys=2048, causal=False), gpu)


def test_tiles_go_in_pairs_where_these_fill_the_device(rule):
    """As many, or hardly fewer, as multiprocessors have turns; all causal, so all equally long."""
    gpu, tile = GPUS["sm_90"], attention_tile(SIZE, GPUS["sm_90"])
    for heads, queries, paired in ((64, 2048, True), (16, 2328, False), (1, 128, False)):
        size = replace(SIZE, heads=heads, queries=queries, keys=queries)
        assert in_pairs(size, tile, gpu) is paired
        wide = replace(size, causal=False, depth=256)
        assert not in_pairs(wide, attention_tile(wide, gpu), gpu)
    sooner = replace(SIZE, heads=64, queries=1400, keys=1400)
    assert in_groups(sooner, gpu)
    assert not in_groups(replace(sooner, heads=67, queries=1200, keys=1200), gpu)


def test_fewer_keys_do_under_a_causal_mask(rule):
    """Beginnings take less of rows that see half of the keys than tiles of `_HALF` do."""
    gpu, size = GPUS["sm_90"], replace(SIZE, depth=96, heads=64, queries=1739, keys=1739)
    assert in_groups(size, gpu)
    assert not in_groups(replace(size, queries=800, keys=800), gpu)
    assert not in_groups(replace(size, causal=False, depth=80, queries=1024, keys=1024), gpu)
    pairs = replace(SIZE, heads=256, queries=827, keys=827)
    assert in_groups(pairs, gpu)
    assert not in_groups(replace(pairs, queries=640, keys=640), gpu)


def test_causal_tiles_that_all_begin_at_once_are_computed_by_groups(rule):
    """The longest one decides; with more of them, those that begin later fill the device."""
    gpu = GPUS["sm_90"]
    for heads, groups in ((1, False), (2, True), (3, False), (4, True)):
        few = replace(SIZE, heads=heads, queries=8192, keys=8192, depth=72)
        assert in_groups(few, gpu) is groups
    # Otherwise twice as many tiles of half the queries share multiprocessors.
    assert not in_groups(replace(SIZE, heads=2, queries=8192, keys=8192), gpu)


def test_pairs_of_heads_of_192_pay_sooner_and_without_a_mask(rule):
    """A beginning and an end less, of which these have long ones."""
    gpu, heads = GPUS["sm_90"], replace(SIZE, depth=192, heads=256, queries=720, keys=720)
    for size in (heads, replace(heads, causal=False, queries=400, keys=400)):
        tile = attention_tile(size, gpu)
        assert in_groups(size, gpu)
        assert in_pairs(size, tile, gpu)
        assert (tile.groups, tile.stages) == (2, 2)
    for change in ({"queries": 400, "keys": 400}, {"depth": 128}, {"heads": 30}):
        assert not in_groups(replace(heads, **change), gpu)
    even = replace(SIZE, causal=False, heads=256, queries=1024, keys=1024)
    assert in_pairs(even, attention_tile(even, gpu), gpu)
    wider = replace(even, depth=160)
    assert not in_pairs(wider, attention_tile(wider, gpu), gpu)


@pytest.mark.parametrize(("heads", "keys", "groups"), [(8, 4888, 3), (32, 2392, 2)])
def test_rows_that_multiprocessors_end_with_decide_between_groups(heads, keys, groups):
    size = replace(SIZE, depth=80, heads=heads, queries=keys, keys=keys, causal=False)
    assert attention_tile(size, GPUS["sm_90"]).groups == groups


@pytest.mark.parametrize("arch", ("sm_80", "sm_100"))
def test_other_devices_have_none(arch):
    args = qkv(8, 8, LENGTH, LENGTH, 128, dtype=BF16)
    assert "attention(" in text_of(grouped_causal, args, arch)


def test_what_was_measured_of_copied_operands_is_for_those_alone():
    gpu = GPUS["sm_90"]
    fastest = next(tile for tile in candidates(SIZE) if tile.groups == 3)
    row = Measurement(problem(SIZE), "sm_90", tuple(as_config(fastest).items()), 3.0)
    tuned = replace(gpu, tuning=NOTHING.adding([row]))
    assert attention_tile(SIZE, tuned) == fastest
    assert attention_tile(replace(SIZE, copied=False), tuned).groups == 0


def test_what_descriptors_copy():
    args = qkv(8, 8, LENGTH, LENGTH, 128, shared=2, dtype=BF16)
    assert is_by_groups(grouped_causal, args)
    assert is_by_groups(tokens_first, [x.transpose(1, 2).contiguous() for x in args])
    mask = torch.ones(LENGTH, LENGTH, dtype=torch.bool)
    assert not is_by_groups(grouped, (*args, mask))
    # Rows of 71 halves start at odd addresses: they are copied before.
    odd = captured(grouped_causal, qkv(8, 8, 2 * LENGTH, 2 * LENGTH, 71, dtype=BF16))
    assert "attention_by_groups(" in "".join(f.text for f in emitted(odd).functions)
    assert not is_by_groups(lambda q, k, v: grouped(q, k, v, scale=-1.0), args)


def added(q, k, v, more):
    return grouped_causal(q, k, v) * more + more


def chosen(q, k, v, more):
    return torch.where(more > 0, grouped_causal(q, k, v), 0.5)


def placed(q, k, v, more):
    return grouped_causal(q, k, v) + torch.arange(q.shape[-1], device=q.device)


@pytest.mark.parametrize(("function", "taken"), [(added, True), (chosen, True), (placed, False)])
def test_epilogues(function, taken):
    """Numbers are part of the kernel; what Gluon has no words for is not."""
    args = qkv(8, 8, LENGTH, LENGTH, 128, dtype=BF16)
    model = captured(function, (*args, args[0].flip(0)))
    functions = emitted(model).functions
    assert [i.data[:4] for i in compile_kernels(functions, "sm_90", 1, None)] == [b"\x7fELF"]
    assert any("attention_by_groups(" in f.text for f in functions) is taken


@pytest.mark.parametrize(("least", "taken"), [(0, False), (2, True)])
def test_keys_there_must_be(least, taken):
    """A group of warps would wait for a first block forever."""
    length = torch.export.Dim("length", min=least, max=8192)
    args = qkv(8, 8, LENGTH, LENGTH, 128, dtype=BF16)
    model = captured(F.scaled_dot_product_attention, args, ({}, {2: length}, {2: length}))
    assert any("attention_by_groups(" in f.text for f in emitted(model).functions) is taken


def test_rows_beyond_the_last_query_are_not_stored():
    text = text_of(grouped_causal, qkv(8, 8, LENGTH, LENGTH, 128, dtype=F16))
    assert f"m_in = m < {LENGTH}" in text
    assert "mask=tl.broadcast_to(m_in, [m.shape[0], 128])" in text


@pytest.mark.parametrize("columns", (128, 192))
def test_powers_are_computed_while_products_run(columns):
    args = qkv(8, 8, LENGTH, LENGTH, columns, dtype=BF16)
    code = machine_code(captured(grouped_causal, args), "attention", "sm_90")
    names = " ".join(code.instructions)
    assert code.local_bytes == 0
    assert "HGMMA" in names
    assert "UTMALDG" in names
    assert "USETMAXREG" in names
    # Of the two groups each: a thread has half the powers of a row of 64 keys or 128.
    assert code.beside_products >= 2 * 32


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("dtype", (BF16, F16))
@pytest.mark.parametrize("size", (64, 80, 128, 192, 256))
@pytest.mark.parametrize("function", (grouped, grouped_causal, tokens_first))
def test_on_a_gpu(function, size, dtype):
    args = qkv(8, 8, LENGTH, LENGTH, size, shared=2, dtype=dtype)
    if function is tokens_first:
        args = tuple(x.transpose(1, 2).contiguous() for x in args)
    model = captured(function, args)
    assert is_by_groups(function, args)
    executor = executor_named(GPU)
    assert executor is not None
    (found,) = executor(model, args)
    there = tuple(x.cuda() for x in args)
    eager, exact = function(*there), function(*(x.double() for x in args))
    assert not np.isnan(to_array(exact)).any()
    assert not complaint(found, to_array(eager.cpu()), to_array(exact))


@pytest.mark.parametrize(
    ("heads", "keys", "depth", "rows"),
    [
        (1, 16384, 64, 128),  # 128 tiles in one turn, of 86 higher ones each is half as long again
        (8, 16384, 64, 192),
        (4, 5704, 128, 192),  # one turn, where lower ones take two
        (1, 11504, 128, 128),  # 90 tiles, which low ones without groups do not beat
    ],
)
def test_heights_of_tiles_follow_what_multiprocessors_end_with(heads, keys, depth, rows):
    size = AttentionSize(heads, keys, keys, depth, BFLOAT16, False, copied=True)
    assert in_groups(size, GPUS["sm_90"])
    assert attention_tile(size, GPUS["sm_90"]).rows == rows


@pytest.mark.parametrize(
    ("length", "depth", "causal", "taken"),
    [
        (1380, 48, True, False),
        (4096, 48, True, False),
        (1024, 48, False, False),
        (2048, 48, False, True),
        (2048, 40, True, False),
        (4096, 40, True, True),
        (2048, 40, False, True),
    ],
)
def test_small_heads_are_by_groups_of_long_sequences_alone(rule, length, depth, causal, taken):
    """Their tiles of 64 rows, three of them on a multiprocessor, wait for less than one of 192."""
    size = AttentionSize(128, length, length, depth, BFLOAT16, causal, copied=True)
    assert in_groups(size, GPUS["sm_90"]) == taken
