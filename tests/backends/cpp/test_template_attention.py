"""Attention kernels with epilogues, against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from aot.ir.dtypes import BFLOAT16, BOOL, FLOAT32
from aot.ir.scalar import cast
from aot.ir.templates import Attention
from aot.ir.tensors import Dim
from aot.symbolic import as_expr, dim
from tests.backends.cpp.template_calls import template, view
from tests.backends.kernel_runner import GraphMaker, Program, axes, nest
from tests.settings import seeded


@pytest.mark.parametrize("dtype", [FLOAT32, BFLOAT16], ids=str)
def test_attention_with_masks_groups_and_merged_heads(dtype):
    rng = np.random.default_rng(seeded(3))
    s = dim("s0")
    maker = GraphMaker((Dim("s0", 0, 512, 40, (0, 1, 1, 0)),))
    bs, heads, kv, d, dv = 2, 4, 2, 24, 32
    maker.buffer("q", dtype, [bs, s, heads * d])
    maker.buffer("k", dtype, [bs, s, kv * d])
    maker.buffer("v", dtype, [bs, kv, s, dv])
    maker.buffer("fmask", FLOAT32, [bs, 1, 1, s])
    maker.buffer("bmask", BOOL, [s, s])
    split, joined = as_expr(d), as_expr(dv)
    zero = as_expr(0)
    masks = {
        "none": None,
        "float": view("fmask", [bs, heads, s, s], lambda b, h, i, j: (b, zero, zero, j)),
        "bool": view("bmask", [bs, heads, s, s], lambda b, h, i, j: (i, j)),
        "causal": None,
    }
    for name, mask in masks.items():
        maker.buffer(f"t{name}", dtype, [bs, heads, s, dv], kind="temp")
        out = maker.output(f"o{name}", FLOAT32, [bs, s, heads * dv])
        loops = axes(bs, heads, s, dv)
        b, h, i, c = (a.symbol for a in loops)
        value = cast(maker.read(f"t{name}", b, h, i, c), FLOAT32)
        operands = {
            "q": view("q", [bs, heads, s, d], lambda b, h, i, c: (b, i, h * split + c)),
            "k": view("k", [bs, kv, s, d], lambda b, h, i, c: (b, i, h * split + c)),
            "v": view("v", [bs, kv, s, dv]),
        }
        if mask is not None:
            operands["mask"] = mask
        merged = nest("e", loops, [], (out, [b, i, h * joined + c], value))
        template(
            maker,
            Attention,
            operands,
            view(f"t{name}", [bs, heads, s, dv]),
            [merged],
            scale=0.25,
            causal=name == "causal",
        )
    program = Program(maker.graph())
    for size in (0, 1, 5, 64, 201):
        inputs = {
            "q": rng.normal(size=(bs, size, heads * d)).astype(dtype.numpy),
            "k": rng.normal(size=(bs, size, kv * d)).astype(dtype.numpy),
            "v": rng.normal(size=(bs, kv, size, dv)).astype(dtype.numpy),
            "fmask": rng.normal(size=(bs, 1, 1, size)).astype("f4"),
            "bmask": rng.random((size, size)) < 0.7,
        }
        exact = dtype == FLOAT32
        program.check(
            inputs, {"s0": size}, rtol=1e-5 if exact else 2e-2, atol=1e-5 if exact else 2e-2
        )


@pytest.mark.parametrize("queries", [1, 3, 75, 139])
def test_constant_queries_are_cut_as_the_template_counts_them(queries):
    rng = np.random.default_rng(seeded(queries))
    maker = GraphMaker()
    shape = [1, 2, queries, 16]
    inputs = {}
    for name in "qkv":
        maker.buffer(name, FLOAT32, shape)
        inputs[name] = rng.normal(size=shape).astype("f4")
    out = maker.output("o", FLOAT32, shape)
    operands = {name: view(name, shape) for name in "qkv"}
    template(maker, Attention, operands, view(out, shape), [], scale=0.25, causal=False)
    program = Program(maker.graph())
    (function,) = program.emitted.functions
    assert f"SQ = {queries};" in function.text
    program.check(inputs, rtol=1e-5, atol=1e-5)
