"""Attention in parts of its keys: values through Triton's interpreter, text, and machine code."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch.nn import functional as F

from aot.backends.triton import templates
from aot.backends.triton.attention_tile import HEAD_SIZE
from aot.ir.templates import Attention
from tests.backends.triton.templates import (
    captured,
    check_close,
    emitted,
    kernels_of,
    machine_code,
    qkv,
    tensors,
)
from tests.conformance.executors import interpret_triton
from tests.conftest import GoldenCheck
from tests.launches import calls_of
from tests.settings import seeded

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
sdpa = F.scaled_dot_product_attention


def grouped(q, k, v, mask=None, is_causal=False):
    return sdpa(q, k, v, attn_mask=mask, is_causal=is_causal, enable_gqa=True)


causal = partial(grouped, is_causal=True)


def repeated(q, k, v):
    """Heads of keys repeated for the queries that share them, as many models do it."""
    k, v = (
        x[:, :, None].expand(-1, -1, 4, -1, -1).reshape(1, 8, x.shape[2], x.shape[3])
        for x in (k, v)
    )
    return sdpa(q, k, v)


def cached(q, keys, values, k, v, position):
    """A step of a decoder: a new key in a cache, of which only the keys so far are seen."""
    keys, values = keys.index_copy(2, position, k), values.index_copy(2, position, v)
    seen = torch.arange(keys.shape[2]) <= position
    return grouped(q, keys, values, seen[None]), keys, values


def joined_heads(q, k, v):
    """Heads inside rows, with a residual: what follows is part of the combining kernel."""
    out = sdpa(q, k, v).transpose(1, 2).flatten(2)
    return torch.relu(out) + 1


def seen(keys, queries=1, unseen=(), hidden=()):
    """A bool mask (queries, keys); nobody sees keys `unseen`, rows `hidden` see nothing."""
    mask = torch.rand((queries, keys), generator=torch.Generator().manual_seed(seeded(5))) > 0.3
    mask[:, [k for k in unseen if k < keys]] = False
    mask[list(hidden)] = False
    return mask


def added(mask, lowest=-torch.inf, dtype=F32):
    """The mask as numbers that are added."""
    return torch.where(mask, 0.5, lowest).to(dtype)


LOWEST = torch.finfo(F32).min

CASES = {
    "float32": (grouped, qkv(1, 8, 1, 1024, 64, shared=2)),
    "float16": (grouped, qkv(1, 8, 1, 1024, 64, shared=2, dtype=F16)),
    "bfloat16": (grouped, qkv(1, 8, 1, 1024, 64, shared=2, dtype=BF16)),
    "heads of their own": (sdpa, qkv(2, 3, 1, 640, 128, dtype=BF16)),
    "odd sizes": (sdpa, qkv(2, 3, 2, 701, 33, 20)),
    "the largest heads": (sdpa, qkv(1, 1, 1, 530, HEAD_SIZE, dtype=F16)),
    "small heads": (sdpa, qkv(1, 2, 3, 1500, 5)),
    "more queries than a tile": (grouped, qkv(1, 4, 21, 600, 16, shared=2)),
    "a negative scale": (partial(sdpa, scale=-0.4), qkv(1, 2, 1, 600, 16)),
    "repeated heads": (repeated, qkv(1, 8, 1, 512, 32, shared=2)),
    "what follows": (joined_heads, qkv(1, 4, 3, 600, 16, dtype=F16)),
    "bool mask of keys, a part unseen": (
        grouped,
        (*qkv(1, 4, 1, 1024, 64, shared=2, dtype=BF16), seen(1024, unseen=range(128, 400))),
    ),
    "bool mask, rows and parts unseen": (
        sdpa,
        (*qkv(1, 2, 5, 700, 24), seen(700, 5, range(300), hidden=(0, 3))),
    ),
    "bool mask, nothing seen": (sdpa, (*qkv(1, 2, 1, 600, 16), seen(600, hidden=(0,)))),
    "added mask": (grouped, (*qkv(1, 4, 2, 600, 16, shared=2), *tensors((1, 4, 2, 600)))),
    "added mask, -inf for a part": (
        sdpa,
        (*qkv(1, 2, 1, 1024, 16), added(seen(1024, unseen=range(128, 400)))),
    ),
    "added mask, -inf for all": (sdpa, (*qkv(1, 2, 1, 600, 16), added(seen(600, hidden=(0,))))),
    "added mask, the lowest number for all": (
        sdpa,
        (*qkv(1, 2, 1, 600, 16), added(seen(600, hidden=(0,)), LOWEST)),
    ),
    "added mask, the lowest number for a part": (
        sdpa,
        (*qkv(1, 2, 1, 1024, 16), added(seen(1024, unseen=range(200)), LOWEST)),
    ),
    "causal": (causal, qkv(1, 2, 530, 530, 16, shared=1)),
    "causal, fewer queries than keys": (causal, qkv(1, 1, 520, 900, 16, dtype=BF16)),
    "causal, more queries than keys": (causal, qkv(1, 1, 700, 520, 16)),
    "a static cache": (
        cached,
        (
            *qkv(1, 4, 1, 512, 32, shared=2),
            *tensors((1, 2, 1, 32), (1, 2, 1, 32)),
            torch.tensor([200]),
        ),
    ),
}


def parts_of(model):
    """The attribute of every attention call."""
    calls = calls_of(kernels_of(model))
    return [dict(c.attributes).get("parts", 1) for c in calls if c.kind == "attention"]


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    function, args = CASES[name]
    model = captured(function, args)
    (parts,) = parts_of(model)
    assert parts > 1
    check_close(model, function, args)


@pytest.fixture
def small_parts(monkeypatch):
    """Parts of a few keys, so that small examples have some."""
    small = replace(templates.KEY_PARTS, least_keys=16, block=16, many_keys=32, fewest=2)
    row = templates.TEMPLATES[Attention]
    cut = replace(row, support=replace(row.support, parts=small))
    monkeypatch.setattr(templates, "TEMPLATES", {**templates.TEMPLATES, Attention: cut})


@pytest.mark.parametrize("name", [n for n in CASES if "causal" in n])
def test_causal_values_of_few_queries(name, small_parts):
    function, args = CASES[name]
    args = tuple(a[:, :, : a.shape[2] // 13] for a in args)
    model = captured(function, args)
    assert parts_of(model)[0] > 1
    check_close(model, function, args)


BATCH, KEYS = torch.export.Dim("batch", min=1), torch.export.Dim("keys", min=1)
SIZES = ((1, 1), (1, 15), (3, 16), (1, 127), (2, 200), (1, 1000))


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("dtype", (F32, BF16))
def test_values_at_other_sizes(sizes, dtype, small_parts):
    """Parts are as many as in the example: some are empty for fewer keys, long for more."""
    shape = {"heads": 4, "queries": 1, "size": 32, "shared": 2, "dtype": dtype}
    model = captured(grouped, qkv(2, keys=128, **shape), ({0: BATCH}, *[{0: BATCH, 2: KEYS}] * 2))
    assert parts_of(model) == [8]
    check_close(model, grouped, qkv(sizes[0], keys=sizes[1], **shape))


@pytest.mark.parametrize("sizes", SIZES)
def test_masked_values_at_other_sizes(sizes, small_parts):
    """The example's parts, under a mask of keys that differs between the batch's elements."""
    batch, keys = sizes
    example = (*qkv(2, 4, 1, 128, 16, shared=2), seen(128, 2)[:, None, None])
    dims = ({0: BATCH}, *[{0: BATCH, 2: KEYS}] * 2, {0: BATCH, 3: KEYS})
    args = (*qkv(batch, 4, 1, keys, 16, shared=2), seen(keys, batch, range(40))[:, None, None])
    check_close(captured(grouped, example, dims), grouped, args)


@pytest.mark.parametrize(
    "sizes", ((1, 1), (7, 7), (33, 33), (40, 200), (200, 40)), ids=lambda s: "x".join(map(str, s))
)
def test_causal_values_at_other_sizes(sizes, small_parts):
    queries = torch.export.Dim("queries", min=1)
    model = captured(causal, qkv(1, 2, 40, 90, 16), ({2: queries}, {2: KEYS}, {2: KEYS}))
    assert parts_of(model)[0] > 1
    check_close(model, causal, qkv(1, 2, *sizes, 16))


def test_nan_stays_where_eager_has_it():
    q, k, v = qkv(1, 2, 1, 600, 16)
    k[0, 0, 500, 3] = torch.nan
    v[0, 1, 20, 5] = torch.nan
    model = captured(sdpa, (q, k, v))
    (found,) = interpret_triton(model, (q, k, v))
    expected = torch.isnan(sdpa(q, k, v))
    assert torch.equal(torch.from_numpy(found).isnan(), expected)


@pytest.mark.parametrize(
    ("shapes", "parts"),
    [
        ({"heads": 32, "shared": 8, "keys": 1024}, 8),
        ({"heads": 32, "keys": 1024}, 8),
        ({"heads": 32, "keys": 4096}, 16),
        ({"heads": 32, "shared": 8, "keys": 32768}, 64),
        ({"heads": 32, "shared": 8, "keys": 1000}, 8),
        ({"heads": 32, "keys": 2500}, 14),
        ({"heads": 32, "shared": 8, "keys": 511}, 1),
        ({"batch": 16, "heads": 32, "shared": 8, "keys": 4096}, 1),
        ({"batch": 16, "heads": 32, "keys": 4096}, 1),
        ({"heads": 32, "queries": 512, "keys": 4096}, 1),
    ],
    ids=str,
)
def test_how_many_parts(shapes, parts):
    """As many as fill the device, of at least a block of keys."""
    sizes = {"batch": 1, "queries": 1, "size": 8, "dtype": BF16, **shapes}
    assert parts_of(captured(grouped, qkv(**sizes))) == [parts]


def test_repeated_heads_count_once():
    shared = parts_of(captured(grouped, qkv(1, 8, 1, 16384, 32, shared=2)))
    assert parts_of(captured(repeated, qkv(1, 8, 1, 16384, 32, shared=2))) == shared


def test_two_launches_with_what_follows():
    function, args = CASES["what follows"]
    source = emitted(captured(function, args))
    assert len(source.launches) == 2


def test_text(golden: GoldenCheck):
    example = (*qkv(1, 8, 1, 1000, 64, shared=2, dtype=BF16), seen(1000))
    functions = emitted(captured(grouped, example)).functions
    golden("attention_in_parts.txt", functions[0].text)


def test_single_precision_takes_few_keys_at_once():
    """What registers multiply they hold: more of them would go to memory."""
    code = machine_code(captured(grouped, qkv(1, 8, 1, 384, 32, shared=2)), "attention", "sm_90")
    assert code.local_bytes == 0


CODE = {
    "halves": (grouped, qkv(1, 32, 1, 4096, 128, shared=8, dtype=BF16)),
    "keys masked": (
        grouped,
        (*qkv(1, 32, 1, 4096, 128, shared=8, dtype=F16), torch.ones(1, 1, 1, 4096) > 0),
    ),
    "a mask added": (
        grouped,
        (*qkv(1, 32, 1, 1000, 64, shared=8, dtype=BF16), torch.ones(1, 1000, dtype=BF16)),
    ),
    "large heads": (sdpa, qkv(1, 8, 1, 4096, 256, dtype=BF16)),
    "single precision": (sdpa, qkv(1, 8, 1, 4096, 128)),
}


@pytest.mark.parametrize("arch", ("sm_80", "sm_90"))
@pytest.mark.parametrize("name", CODE)
def test_machine_code(name, arch):
    function, args = CODE[name]
    code = machine_code(captured(function, args), "attention", arch)
    assert code.local_bytes <= 16
    assert code.uses_tensor_cores
    if "mask" not in name:
        assert code.vector_loads >= 0.8 * code.loads
