"""Convolution kernels with epilogues, against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from aot.ir.dtypes import BFLOAT16, FLOAT32
from aot.ir.scalar import binary, const
from aot.ir.templates import Conv
from aot.ir.tensors import Dim
from aot.symbolic import FloorDiv, Modulo, dim, integer
from tests.backends.cpp.template_calls import template, view
from tests.backends.kernel_runner import GraphMaker, Program, axes, nest
from tests.settings import seeded


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
    "few": {"c": 6, "o": 9, "k": (3, 3), "groups": 3, "stride": (1, 2), "padding": (1, 3)},
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
    assert [name for name, text in texts.items() if "tmpl::planes(" in text] == (
        ["k6"] if layout == "channels_last" else ["k5", "k6", "k7"]
    )
    tiled = [name for name, text in texts.items() if "tmpl::winograd(" in text]
    assert tiled == (["k0"] if layout == "channels_last" else [])
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


@pytest.mark.parametrize("channels", [24, 48])
def test_results_with_contiguous_pixels_are_turned_wherever_the_input_lies(channels):
    """But for Winograd's tiles, which save more than stores along pixels do."""
    rng = np.random.default_rng(seeded(6))
    maker, inputs = GraphMaker(), {}
    attrs = {"stride": (1, 1), "dilation": (1, 1), "groups": 1}
    for name, k in (("one", 1), ("three", 3)):
        x_shape, w_shape, y_shape = [2, 32, 9, 11], [channels, 32, k, k], [2, channels, 9, 11]
        maker.buffer(f"x{name}", FLOAT32, x_shape, channels_last(x_shape))
        maker.buffer(f"w{name}", FLOAT32, w_shape, kind="weight")
        out = maker.output(f"y{name}", FLOAT32, y_shape)
        operands = {"x": view(f"x{name}", x_shape), "w": view(f"w{name}", w_shape)}
        template(maker, Conv, operands, view(out, y_shape), [], padding=(k // 2,) * 2, **attrs)
        inputs[f"x{name}"] = rng.normal(size=x_shape).astype("f4")
        inputs[f"w{name}"] = (rng.normal(size=w_shape) / 5).astype("f4")
    maker.buffer("xdepth", FLOAT32, [2, 32, 9, 11], channels_last([2, 32, 9, 11]))
    maker.buffer("wdepth", FLOAT32, [32, 1, 3, 3], kind="weight")
    out = maker.output("ydepth", FLOAT32, [2, 32, 9, 11])
    operands = {"x": view("xdepth", [2, 32, 9, 11]), "w": view("wdepth", [32, 1, 3, 3])}
    depth = {**attrs, "groups": 32, "padding": (1, 1)}
    template(maker, Conv, operands, view(out, [2, 32, 9, 11]), [], **depth)
    inputs["xdepth"] = rng.normal(size=(2, 32, 9, 11)).astype("f4")
    inputs["wdepth"] = rng.normal(size=(32, 1, 3, 3)).astype("f4")
    program = Program(maker.graph())
    one, three, depthwise = (f.text for f in program.emitted.functions)
    assert "tmpl::depthwise(" in depthwise and "TURNED = true" in depthwise
    assert "TURNED = true" in one and "PATCH = false" in one
    assert ("tmpl::winograd(" in three) == (channels >= 32)
    program.check(inputs, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("size", [(1, 3), (7, 7)])
def test_constant_pixels_are_cut_as_the_template_counts_them(size):
    rng = np.random.default_rng(seeded(5))
    maker = GraphMaker()
    x_shape, w_shape, y_shape = [1, 32, *size], [24, 32, 1, 1], [1, 24, *size]
    maker.buffer("x", FLOAT32, x_shape, channels_last(x_shape))
    maker.buffer("w", FLOAT32, w_shape, kind="weight")
    out = maker.output("y", FLOAT32, y_shape, channels_last(y_shape))
    attrs = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1}
    operands = {"x": view("x", x_shape), "w": view("w", w_shape)}
    template(maker, Conv, operands, view(out, y_shape), [], **attrs)
    program = Program(maker.graph())
    (function,) = program.emitted.functions
    assert f"PIXELS = {size[0] * size[1]};" in function.text
    assert "PATCH = false" in function.text
    inputs = {"x": rng.normal(size=x_shape).astype("f4"), "w": rng.normal(size=w_shape)}
    inputs["w"] = (inputs["w"] / 5).astype("f4")
    program.check(inputs, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("stride", "channels", "columns", "even"),
    [(1, 24, 12, True), (1, 32, 12, True), (1, 24, 13, False), (2, 24, 12, False)],
)
def test_pixels_that_lie_evenly_have_no_pointers(stride, channels, columns, even):
    """Of images that are 24 channels and 12 columns of such as have so many."""
    rng, maker = np.random.default_rng(seeded(9)), GraphMaker()
    x_shape, w_shape = [1, 24, 9, 12], [40, 24, 1, 1]
    y_shape = [1, 40, *(-(-n // stride) for n in x_shape[2:])]
    steps = channels_last([1, channels, 9, columns])
    maker.buffer("x", FLOAT32, x_shape, steps)
    maker.buffer("w", FLOAT32, w_shape, kind="weight")
    maker.output("y", FLOAT32, y_shape, channels_last(y_shape))
    operands = {"x": view("x", x_shape), "w": view("w", w_shape)}
    window = {"stride": (stride,) * 2, "padding": (0, 0), "dilation": (1, 1), "groups": 1}
    template(maker, Conv, operands, view("y", y_shape), [], **window)
    program = Program(maker.graph())
    (function,) = program.emitted.functions
    assert ("EVEN = true" in function.text) == even
    inputs = {
        "x": rng.normal(size=x_shape).astype("f4"),
        "w": rng.normal(size=w_shape).astype("f4"),
    }
    program.check(inputs, {}, rtol=1e-5, atol=1e-4)


def phases(maker, channels, stride, layout, depth=5, **known):
    """A convolution whose outputs are the phases of a transposed one, stored where these belong."""
    name = f"{channels}_{stride}_{layout}"
    x_shape, w_shape = [2, depth, 6, 19], [channels * stride * stride, depth, 1, 1]
    t_shape = [2, w_shape[0], 6, 19]
    y_shape = [2, channels, 6 * stride, 19 * stride]
    strides = channels_last if layout == "channels_last" else lambda _: None
    maker.buffer(f"x{name}", FLOAT32, x_shape, strides(x_shape))
    maker.buffer(f"w{name}", FLOAT32, w_shape, kind="weight")
    maker.buffer(f"t{name}", FLOAT32, t_shape, kind="temp")
    out = maker.output(f"y{name}", FLOAT32, y_shape, strides(y_shape))
    loops = axes(*t_shape)
    n, o, h, w = (a.symbol for a in loops)
    phase, channel = FloorDiv(o, integer(channels)), Modulo(o, integer(channels))
    place = [n, channel, h * stride + FloorDiv(o, integer(channels * stride))]
    place.append(w * stride + Modulo(phase, integer(stride)))
    template(
        maker,
        Conv,
        {"x": view(f"x{name}", x_shape), "w": view(f"w{name}", w_shape)},
        view(f"t{name}", t_shape),
        [nest("e", loops, [], (out, place, maker.read(f"t{name}", n, o, h, w)))],
        **{"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1, **known},
    )
    return name, {"x": x_shape, "w": w_shape}


def test_phases_of_transposed_convolutions_are_stored_in_runs():
    """Rows of 19 and runs of 5 channels are no multiples of any vector."""
    rng = np.random.default_rng(seeded(3))
    maker = GraphMaker()
    inputs = {}
    for layout in ("contiguous", "channels_last"):
        for channels, stride in ((5, 2), (3, 3), (16, 2)):
            name, shapes = phases(maker, channels, stride, layout)
            for role, shape in shapes.items():
                inputs[f"{role}{name}"] = rng.normal(size=shape).astype("f4")
    program = Program(maker.graph())
    for kernel in program.emitted.functions:
        assert "scatter" not in kernel.text, kernel.name
    program.check(inputs, rtol=1e-5, atol=2e-5)


def test_phases_lie_side_by_side_in_turned_tiles():
    """Where they divide a vector; with neighbouring channels they are runs as they are."""
    rng = np.random.default_rng(seeded(7))
    maker, inputs, spread = GraphMaker(), {}, []
    for layout in ("contiguous", "channels_last"):
        for channels, stride in ((21, 2), (3, 3), (5, 4)):
            known = {"phases": stride * stride, "depth": 40}  # of fewer, vectors run along pixels
            name, shapes = phases(maker, channels, stride, layout, **known)
            for role, shape in shapes.items():
                inputs[f"{role}{name}"] = rng.normal(size=shape).astype("f4")
            spread.append(stride if layout == "contiguous" and stride != 3 else 1)
    program = Program(maker.graph())
    for kernel, phase in zip(program.emitted.functions, spread, strict=True):
        assert (f"SPREAD = {phase};" in kernel.text) == (phase > 1), kernel.name
    program.check(inputs, rtol=1e-5, atol=2e-5)


def test_short_rows_of_one_tap_are_joined():
    """Up to a block's pixels, where they follow each other evenly: 5 rows of 7, not of 400."""
    rng = np.random.default_rng(seeded(8))
    maker, inputs = GraphMaker(), {}
    attrs = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1}
    for name, size in (("short", (5, 7)), ("long", (5, 400))):
        x_shape, y_shape = [2, 20, *size], [2, 24, *size]
        maker.buffer(f"x{name}", BFLOAT16, x_shape, channels_last(x_shape))
        maker.buffer(f"w{name}", BFLOAT16, [24, 20, 1, 1], kind="weight")
        out = maker.output(f"y{name}", FLOAT32, y_shape, channels_last(y_shape))
        operands = {"x": view(f"x{name}", x_shape), "w": view(f"w{name}", [24, 20, 1, 1])}
        template(maker, Conv, operands, view(out, y_shape), [], **attrs)
        inputs[f"x{name}"] = rng.normal(size=x_shape).astype(BFLOAT16.numpy)
        inputs[f"w{name}"] = (rng.normal(size=(24, 20, 1, 1)) / 5).astype(BFLOAT16.numpy)
    program = Program(maker.graph())
    short, long = (f.text for f in program.emitted.functions)
    assert "call.oh = 1;" in short and "call.ow = 35;" in short
    assert "call.oh = 5;" in long and "call.ow = 400;" in long
    program.check(inputs, rtol=1e-4, atol=1e-4)
