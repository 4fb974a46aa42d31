"""Convolution and attention kernels with epilogues, against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from aot.ir.dtypes import BFLOAT16, BOOL, FLOAT32
from aot.ir.kernels import Stage, TemplateKernel
from aot.ir.loops import reads
from aot.ir.nests import Axis, View
from aot.ir.origin import NO_ORIGIN
from aot.ir.scalar import binary, cast, const
from aot.ir.templates import Attention, Conv
from aot.ir.tensors import Dim
from aot.symbolic import as_expr, dim, var
from tests.backends.kernel_runner import GraphMaker, Program, axes, nest
from tests.settings import seeded


def view(name, sizes, index=lambda *v: v):
    made = tuple(Axis(var(f"v{k}"), as_expr(s)) for k, s in enumerate(sizes))
    return View(name, made, tuple(index(*(a.symbol for a in made))))


def template(maker, kind, operands, out, nests, **attrs):
    call = kind("t", out, NO_ORIGIN, **operands, **attrs)
    read = [v.buffer for v in operands.values()]
    read += [r for n in nests for r in reads(n) if r != out.buffer]
    inner = nests[0].axes if nests else ()
    stages = (Stage(inner, (), inner, inner[-1], tuple(nests)),) if nests else ()
    written = [s.buffer for n in nests for s in n.stores] or [out.buffer]
    local = (out.buffer,) if nests else ()
    name = f"k{len(maker.kernels)}"
    maker.kernels.append(
        TemplateKernel(name, call, stages, local, tuple(dict.fromkeys(read)), tuple(written))
    )


def channels_last(shape):
    _, c, *spatial = shape
    steps, running = [], c
    for s in reversed(spatial):
        steps.insert(0, running)
        running = running * s
    return [running, 1, *steps]


CASES = {
    "plain3x3": {"c": 32, "o": 40, "k": (3, 3), "padding": (1, 1)},
    "strided1x1": {"c": 24, "o": 64, "k": (1, 1), "stride": (2, 2)},
    "rgb7x7": {"c": 3, "o": 20, "k": (7, 7), "stride": (2, 2), "padding": (3, 3)},
    "grouped": {"c": 32, "o": 24, "k": (3, 3), "groups": 2, "padding": (1, 1)},
    "dilated": {"c": 16, "o": 16, "k": (3, 3), "dilation": (2, 2), "padding": (2, 2)},
    "depthwise": {"c": 48, "o": 48, "k": (3, 3), "groups": 48, "padding": (1, 1)},
    "one": {"c": 17, "o": 8, "k": (5,), "padding": (2,)},
    "three": {"c": 4, "o": 8, "k": (3, 3, 3), "padding": (1, 0, 1)},
}


@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_convolutions_with_bias_relu_and_residual(layout):
    rng = np.random.default_rng(seeded(1))
    maker = GraphMaker((Dim("s0", 0, 9, 2, (0, 0, 1, 0)),))
    s, shapes = dim("s0"), {}
    for name, case in CASES.items():
        k = case["k"]
        ones = (1,) * len(k)
        attrs = {
            "stride": case.get("stride", ones),
            "padding": case.get("padding", (0,) * len(k)),
            "dilation": case.get("dilation", ones),
            "groups": case.get("groups", 1),
        }
        size = (11, 13, 6)[: len(k)]
        out = [
            (n + 2 * p - d * (m - 1) - 1) // t + 1
            for n, p, d, m, t in zip(
                size, attrs["padding"], attrs["dilation"], k, attrs["stride"], strict=True
            )
        ]
        x_shape, y_shape = [s, case["c"], *size], [s, case["o"], *out]
        w_shape = [case["o"], case["c"] // attrs["groups"], *k]
        strides = channels_last if layout == "channels_last" else lambda _: None
        shapes[name] = (x_shape, w_shape, y_shape)
        maker.buffer(f"x_{name}", FLOAT32, x_shape, strides(x_shape))
        maker.buffer(f"w_{name}", FLOAT32, w_shape, kind="weight")
        maker.buffer(f"b_{name}", FLOAT32, [case["o"]])
        maker.buffer(f"r_{name}", FLOAT32, y_shape, strides(y_shape))
        maker.buffer(f"t_{name}", FLOAT32, y_shape, kind="temp")
        result = maker.output(f"y_{name}", FLOAT32, y_shape, strides(y_shape))
        loops = axes(*y_shape)
        at = [a.symbol for a in loops]
        value = binary("add", maker.read(f"t_{name}", *at), maker.read(f"b_{name}", at[1]))
        value = binary("add", value, maker.read(f"r_{name}", *at))
        value = binary("maximum", value, const(0.0, FLOAT32))
        template(
            maker,
            Conv,
            {"x": view(f"x_{name}", x_shape), "w": view(f"w_{name}", w_shape)},
            view(f"t_{name}", y_shape),
            [nest("e", loops, [], (result, at, value))],
            **attrs,
        )
    program = Program(maker.graph())
    texts = {f.name: f.text for f in program.emitted.functions}
    assert ("depthwise" in texts["k5"]) == (layout == "channels_last")
    for batch in (0, 1, 3):
        inputs = {}
        for name, (x_shape, w_shape, y_shape) in shapes.items():
            inputs[f"x_{name}"] = rng.normal(size=(batch, *x_shape[1:])).astype("f4")
            inputs[f"w_{name}"] = (rng.normal(size=w_shape) / 5).astype("f4")
            inputs[f"b_{name}"] = rng.normal(size=w_shape[0]).astype("f4")
            inputs[f"r_{name}"] = rng.normal(size=(batch, *y_shape[1:])).astype("f4")
        program.check(inputs, {"s0": batch}, rtol=1e-5, atol=2e-5)


def test_weights_that_the_model_computes_and_half_inputs():
    rng = np.random.default_rng(seeded(2))
    maker = GraphMaker()
    x_shape, w_shape, y_shape = [2, 20, 9, 9], [24, 10, 3, 3], [2, 24, 7, 7]
    attrs = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 2}
    inputs = {}
    for dtype in (FLOAT32, BFLOAT16):
        for kind in ("input", "weight"):
            name = f"{dtype}{kind}"
            maker.buffer(f"x{name}", dtype, x_shape, channels_last(x_shape))
            maker.buffer(f"w{name}", dtype, w_shape, kind=kind)
            inputs[f"x{name}"] = rng.normal(size=x_shape).astype(dtype.numpy)
            inputs[f"w{name}"] = (rng.normal(size=w_shape) / 5).astype(dtype.numpy)
            out = maker.output(f"y{name}", FLOAT32, y_shape, channels_last(y_shape))
            operands = {"x": view(f"x{name}", x_shape), "w": view(f"w{name}", w_shape)}
            template(maker, Conv, operands, view(out, y_shape), [], **attrs)
    program = Program(maker.graph())
    assert len(program.emitted.graph.derived) == 2
    program.check(inputs, rtol=1e-4, atol=1e-4)


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
