"""Attention of odd heads, whose rows registers carry to shared memory."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from aot.backends.triton.templates import TEMPLATES
from aot.frontend.weights import to_array
from aot.ir.templates import Attention
from tests.backends.triton.disassembly import unwritten_registers
from tests.backends.triton.templates import (
    captured,
    check_close,
    emitted,
    kernels_of,
    machine_code,
    qkv,
)
from tests.comparing import complaint
from tests.conformance.executors import GPU, executor_named
from tests.launches import calls_of
from tests.settings import seeded

BF16, F16 = torch.bfloat16, torch.float16
MASKS = ("none", "causal", "seen", "bias")


def attend(kind):
    """The function; heads of keys and values serve several of the queries."""

    def function(q, k, v, *mask):
        return F.scaled_dot_product_attention(
            q, k, v, *mask, is_causal=kind == "causal", enable_gqa=True
        )

    return function


def arguments(kind, size, length, dtype, batch=2, heads=4):
    """Queries, keys and values of that size, a mask behind them where the kind has one."""
    generator = torch.Generator().manual_seed(seeded(7))
    numbers = torch.randn(batch, 1, length, length, generator=generator)
    seen = (numbers < 0.8).index_fill(-1, torch.tensor([0]), True)
    masks = {"seen": (seen,), "bias": (numbers.to(dtype),)}
    return (*qkv(batch, heads, length, length, size, shared=1, dtype=dtype), *masks.get(kind, ()))


@pytest.mark.parametrize("kind", ("seen", "bias"))
def test_masks_of_odd_rows_are_copied_first(kind, monkeypatch):
    """As those of many scores are."""
    row = TEMPLATES[Attention]
    often = replace(row.support, mask_rows=replace(row.support.mask_rows, least_scores=1))
    monkeypatch.setitem(TEMPLATES, Attention, replace(row, support=often))
    function, args = attend(kind), arguments(kind, 33, 83, BF16)
    model = captured(function, args)
    assert len(emitted(model).launches) == 2
    check_close(model, function, args)


def test_two_heads_that_share_a_mask_are_worth_its_copy():
    """Of a single one there are too few scores."""
    for heads in (1, 2):
        model = captured(attend("bias"), arguments("bias", 40, 1501, BF16, batch=1, heads=heads))
        assert len(emitted(model).launches) == heads


@pytest.mark.parametrize("kind", ("seen", "bias"))
def test_masks_of_odd_rows_are_read_in_words(kind):
    """Copied ahead of their use; only at the edge by single numbers, into registers."""
    code = machine_code(
        captured(attend(kind), arguments(kind, 40, 1559, BF16)), "attention", "sm_90"
    )
    single = sum(n for name, n in code.instructions.items() if re.match(r"LDG\.E\.U(8|16)", name))
    assert single <= 32
    assert code.local_bytes == 0


@pytest.fixture
def worth(monkeypatch):
    """A copy of queries, keys and values is worth its time however few they are."""
    row = TEMPLATES[Attention]
    rows = replace(row.support.head_rows, least_uses=1, least_work=1)
    monkeypatch.setitem(
        TEMPLATES, Attention, replace(row, support=replace(row.support, head_rows=rows))
    )


@pytest.mark.usefixtures("worth")
@pytest.mark.parametrize("dtype", (BF16, torch.float32))
@pytest.mark.parametrize("kind", ("none", "causal"))
def test_odd_heads_get_zeros_behind_them(kind, dtype):
    """The result has none: only its own columns are stored."""
    function, args = attend(kind), arguments(kind, 37, 83, dtype)
    model = captured(function, args)
    (call,) = calls_of(kernels_of(model))
    assert [v.axes[-1].extent for v in (call.q, call.k, call.v)] == [40] * 3
    assert call.output.axes[-1].extent == 37
    check_close(model, function, args)


@pytest.mark.usefixtures("worth")
def test_so_do_those_of_sequences_of_any_length():
    args = qkv(1, 2, 40, 40, 37, dtype=BF16)
    length = torch.export.Dim("length", min=2, max=500)
    function = attend("causal")
    model = captured(function, args, ({2: length},) * 3)
    (call,) = calls_of(kernels_of(model))
    assert call.q.axes[-1].extent == 40
    check_close(model, function, args)


@pytest.mark.usefixtures("worth")
def test_rows_at_odd_addresses_are_copied():
    """As heads have that are a part of longer rows."""

    def function(q, k, v):
        return F.scaled_dot_product_attention(q[..., :32], k[..., 1:33], v[..., :32])

    args = qkv(2, 2, 50, 70, 37, dtype=BF16)
    model = captured(function, args)
    graph = kernels_of(model)
    (call,) = calls_of(graph)
    read = [graph.buffers[v.buffer] for v in (call.q, call.k, call.v)]
    assert all(int(s) % 8 == 0 for b in read for s in b.strides[:-1])
    check_close(model, function, args)


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize(("size", "length"), [(71, 83), (33, 50), (97, 70)])
def test_values(kind, size, length):
    function, args = attend(kind), arguments(kind, size, length, BF16)
    check_close(captured(function, args), function, args)


ODD = list(itertools.product((71, 65, 33, 97), MASKS))


@pytest.mark.parametrize(("size", "kind"), [(71, "bias"), (71, "none"), (33, "seen")])
def test_no_register_is_read_before_it_is_written(size, kind):
    """As ptxas 12.8 had it: a descriptor of the second block of values was what a register held."""
    args = arguments(kind, size, 1584, BF16)
    code = machine_code(captured(attend(kind), args), "attention", "sm_90")
    assert code.uses_tensor_cores
    assert code.unwritten == ()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("dtype", (BF16, F16, torch.float32))
@pytest.mark.parametrize(("size", "kind"), ODD)
def test_on_a_gpu(size, kind, dtype):
    function = attend(kind)
    args = arguments(kind, size, 1584, dtype)
    executor = executor_named(GPU)
    assert executor is not None
    (found,) = executor(captured(function, args), args)
    there = tuple(x.cuda() for x in args)
    eager, exact = function(*there), function(*(x.double() for x in args[:3]), *masks_of(args))
    assert not np.isnan(to_array(exact)).any()
    assert not complaint(found, to_array(eager.cpu()), to_array(exact))


def masks_of(args):
    """The mask in double precision, if there is one of numbers."""
    return tuple(m.double() if m.dtype.is_floating_point else m for m in args[3:])


UNWRITTEN = """
        /*0010*/                   ULDC.64 UR24, c[0x0][0x208] ;
        /*0190*/                   UIADD3 UR34, UP0, UR34, 0x20, URZ ;
        /*01a0*/              @!P0 LDG.E.U16 R81, desc[UR24][R46.64+0x80] ;
        /*12a0*/                   UIADD3.X UR35, UR35, -0x3ffffff0, URZ, UP0, !UPT ;
        /*12b0*/                   UIADD3 UR38, UP1, UR34, 0x20, URZ ;
.L_x_0:
        /*1300*/                   UMOV UR5, UR60 ;
"""


def test_registers_that_nothing_has_written_are_seen():
    assert list(unwritten_registers(UNWRITTEN)) == ["UR34", "UR35"]
    mended = UNWRITTEN.replace("UP0, UR34", "UP0, URZ").replace("UR35, UR35", "UR35, URZ")
    assert list(unwritten_registers(mended)) == []
