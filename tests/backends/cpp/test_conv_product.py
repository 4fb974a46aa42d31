"""Pointwise convolutions as the weight times each image, against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from aot.backends.cpp.conv_product import reads_in_place
from aot.ir.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64
from aot.ir.scalar import binary, cast, const
from aot.ir.templates import Conv
from aot.ir.tensors import Dim
from aot.symbolic import dim
from tests.backends.cpp.template_calls import template, view
from tests.backends.kernel_runner import GraphMaker, Program, axes, nest
from tests.settings import seeded

ATTRS = {"dilation": (1, 1), "groups": 1}
PLACE = {"stride": (1, 1), "padding": (0, 0)}


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64, BFLOAT16, FLOAT16], ids=lambda d: d.name)
def test_channels_that_lie_apart_are_not_turned(dtype):
    """With and without an epilogue, by few outputs and by more than a tile has, of odd channels."""
    rng = np.random.default_rng(seeded(1))
    maker, inputs = GraphMaker((Dim("s0", 0, 9, 2, (0, 0, 1, 0)),)), {}
    s, compute = dim("s0"), dtype.compute
    for name, channels, outputs, kind in (
        ("few", 9, 5, "weight"),
        ("many", 40, 150, "weight"),
        ("own", 17, 20, "input"),
    ):
        x_shape, y_shape = [s, channels, 7, 13], [s, outputs, 7, 13]
        w_shape = [outputs, channels, 1, 1]
        maker.buffer(f"x_{name}", dtype, x_shape)
        maker.buffer(f"w_{name}", dtype, w_shape, kind=kind)
        maker.buffer(f"b_{name}", dtype, [outputs])
        maker.buffer(f"t_{name}", compute, y_shape, kind="temp")
        result = maker.output(f"y_{name}", dtype, y_shape)
        loops = axes(*y_shape)
        at = [a.symbol for a in loops]
        bias = cast(maker.read(f"b_{name}", at[1]), compute)
        value = binary("add", maker.read(f"t_{name}", *at), bias)
        value = cast(binary("maximum", value, const(0.0, compute)), dtype)
        operands = {"x": view(f"x_{name}", x_shape), "w": view(f"w_{name}", w_shape)}
        stages = [nest("e", loops, [], (result, at, value))]
        template(maker, Conv, operands, view(f"t_{name}", y_shape), stages, **PLACE, **ATTRS)
        inputs[f"w_{name}"] = (rng.normal(size=w_shape) / 5).astype(dtype.numpy)
        inputs[f"b_{name}"] = rng.normal(size=outputs).astype(dtype.numpy)
    program = Program(maker.graph())
    for function in program.emitted.functions:
        assert "tmpl::matmul(" in function.text and "tmpl::conv(" not in function.text
    assert {d.recipe for d in program.emitted.graph.derived} == {"pack_rows"}
    near = 1e-5 if dtype.itemsize > 2 else 2e-2
    for batch in (0, 1, 3):
        for name, channels in (("few", 9), ("many", 40), ("own", 17)):
            x = rng.normal(size=(batch, channels, 7, 13))
            inputs[f"x_{name}"] = x.astype(dtype.numpy)
        program.check(inputs, {"s0": batch}, rtol=near, atol=2 * near)


def test_plain_results_are_written_where_they_belong():
    rng = np.random.default_rng(seeded(2))
    maker = GraphMaker()
    x_shape, w_shape, y_shape = [2, 24, 5, 9], [30, 24, 1, 1], [2, 30, 5, 9]
    maker.buffer("x", FLOAT32, x_shape)
    maker.buffer("w", FLOAT32, w_shape, kind="weight")
    out = maker.output("y", FLOAT32, y_shape)
    operands = {"x": view("x", x_shape), "w": view("w", w_shape)}
    template(maker, Conv, operands, view(out, y_shape), [], **PLACE, **ATTRS)
    program = Program(maker.graph())
    (function,) = program.emitted.functions
    assert "PLAIN = true" in function.text
    inputs = {"x": rng.normal(size=x_shape).astype("f4"), "w": rng.normal(size=w_shape)}
    inputs["w"] = (inputs["w"] / 5).astype("f4")
    program.check(inputs, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=lambda d: d.name)
@pytest.mark.parametrize(("channels", "outputs"), [(9, 36), (40, 170)])
def test_few_channels_of_neighbours_are_turned_in_the_place_of_results(dtype, channels, outputs):
    """Channels last, as many images as there are, an image's rows one behind the other."""
    rng = np.random.default_rng(seeded(3))
    maker, s = GraphMaker((Dim("s0", 0, 9, 2, (0, 0, 1, 0)),)), dim("s0")
    x_shape, y_shape = [s, channels, 7, 13], [s, outputs, 7, 13]
    w_shape = [outputs, channels, 1, 1]
    maker.buffer("x", dtype, x_shape, strides=[7 * 13 * channels, 1, 13 * channels, channels])
    maker.buffer("w", dtype, w_shape, kind="weight")
    out = maker.output("y", dtype, y_shape)
    operands = {"x": view("x", x_shape), "w": view("w", w_shape)}
    template(maker, Conv, operands, view(out, y_shape), [], **PLACE, **ATTRS)
    program = Program(maker.graph())
    (function,) = program.emitted.functions
    assert "tmpl::matmul(" in function.text
    assert f"call.b_row = 1;\n    call.b_col = {channels};" in function.text
    inputs = {"w": (rng.normal(size=w_shape) / 5).astype(dtype.numpy)}
    for batch in (0, 1, 3):
        x = rng.normal(size=(batch, 7, 13, channels)).astype(dtype.numpy)
        inputs["x"] = x.transpose(0, 3, 1, 2)
        program.check(inputs, {"s0": batch}, rtol=1e-5, atol=2e-5)


def test_others_are_not_products():
    """A stride along a row, padding, and results or many inputs of neighbouring channels."""
    maker = GraphMaker()
    cases = (
        ("strided", {"stride": (1, 2), "padding": (0, 0)}, [1, 40, 6, 6], False),
        ("padded", {"stride": (1, 1), "padding": (0, 1)}, [1, 40, 6, 14], False),
        ("last", PLACE, [1, 40, 6, 12], True),
        ("many", PLACE, [1, 40, 6, 12], False),
    )
    for name, place, y_shape, last in cases:
        near = [40 * 6 * 12, 1, 40 * 12, 40] if name == "many" else None
        maker.buffer(f"x{name}", FLOAT32, [1, 40, 6, 12], near)
        maker.buffer(f"w{name}", FLOAT32, [40, 40, 1, 1], kind="weight")
        strides = [y_shape[1] * y_shape[2] * y_shape[3], 1, y_shape[1] * y_shape[3], y_shape[1]]
        out = maker.output(f"y{name}", FLOAT32, y_shape, strides if last else None)
        operands = {"x": view(f"x{name}", [1, 40, 6, 12]), "w": view(f"w{name}", [40, 40, 1, 1])}
        template(maker, Conv, operands, view(out, y_shape), [], **place, **ATTRS)
    for function in Program(maker.graph()).emitted.functions:
        assert "tmpl::matmul(" not in function.text


@pytest.mark.parametrize(
    ("outputs", "channels", "step", "expected"),
    [
        (256, 139, 4096 * 4, False),  # all lines in one set
        (32, 139, 4096 * 4, True),
        (112, 64, 4776 * 8, True),  # a set each
        (256, 512, 723 * 4, False),
    ],
)
def test_lines_that_share_sets_are_copied_for_many_outputs(outputs, channels, step, expected):
    assert reads_in_place(outputs, channels, step) == expected
