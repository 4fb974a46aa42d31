"""Pointwise convolutions of pairs as products of lines of pixels, against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from aot.ir.dtypes import BFLOAT16, FLOAT32
from aot.ir.scalar import binary, cast, const
from aot.ir.templates import Conv
from tests.backends.cpp.template_calls import template, view
from tests.backends.kernel_runner import GraphMaker, Program, axes, nest
from tests.settings import seeded

CASES = {
    "lines": ((2, 8, 5, 36), 40, (1, 2)),  # of a stride along rows: 18 pixels each
    "planes": ((2, 24, 3, 7, 40), 33, (1, 2, 1)),  # of an odd number of rows, and of outputs
    "images": ((3, 17, 6, 20), 21, (1, 1)),  # of odd channels; all pixels lie evenly
    "row": ((2, 40, 60), 150, (3,)),
}


def last(shape):
    """Strides of a shape whose channels are neighbours."""
    step, found = shape[1], [0] * len(shape)
    found[1] = 1
    for k in (*range(len(shape) - 1, 1, -1), 0):
        found[k] = step
        step *= shape[k]
    return found


def convolution(maker, inputs, rng, name, *, added, bounded=False):
    """One of CASES, with a bias or without."""
    x_shape, outputs, stride = CASES[name]
    y_shape = [x_shape[0], outputs]
    y_shape += [-(-size // step) for size, step in zip(x_shape[2:], stride, strict=True)]
    w_shape = [outputs, x_shape[1], *[1] * len(stride)]
    maker.buffer(f"x_{name}", BFLOAT16, x_shape, last(x_shape))
    maker.buffer(f"w_{name}", BFLOAT16, w_shape, kind="weight")
    maker.buffer(f"b_{name}", BFLOAT16, [outputs])
    maker.buffer(f"t_{name}", FLOAT32, y_shape, last(y_shape), kind="temp")
    result = maker.output(f"y_{name}", BFLOAT16, y_shape, last(y_shape))
    loops = axes(*y_shape)
    at = [a.symbol for a in loops]
    value = maker.read(f"t_{name}", *at)
    if added:
        value = binary("add", value, cast(maker.read(f"b_{name}", at[1]), FLOAT32))
    if bounded:
        value = binary("maximum", value, const(0.0, FLOAT32))
    stages = [nest("e", loops, [], (result, at, cast(value, BFLOAT16)))]
    operands = {"x": view(f"x_{name}", x_shape), "w": view(f"w_{name}", w_shape)}
    flat = {"padding": (0,) * len(stride), "dilation": (1,) * len(stride), "groups": 1}
    template(maker, Conv, operands, view(f"t_{name}", y_shape), stages, stride=stride, **flat)
    for buffer, shape in (("x", x_shape), ("w", w_shape), ("b", [outputs])):
        inputs[f"{buffer}_{name}"] = rng.normal(size=shape).astype(BFLOAT16.numpy)


@pytest.mark.parametrize("added", [False, True], ids=["alone", "with a bias"])
def test_lines_of_pixels_are_products_that_end_where_their_sums_are(added):
    rng, maker, inputs = np.random.default_rng(seeded(1)), GraphMaker(), {}
    for name in CASES:
        convolution(maker, inputs, rng, name, added=added)
    program = Program(maker.graph())
    for function in program.emitted.functions:
        assert "tmpl::matmul(" in function.text
        assert ("call.addend" in function.text) == added
        assert "ROUNDED = true" in function.text
    program.check(inputs, {}, rtol=2e-2, atol=4e-2)


def test_other_epilogues_get_tiles():
    rng, maker, inputs = np.random.default_rng(seeded(2)), GraphMaker(), {}
    convolution(maker, inputs, rng, "lines", added=True, bounded=True)
    program = Program(maker.graph())
    (function,) = program.emitted.functions
    assert "tmpl::conv(" in function.text
    program.check(inputs, {}, rtol=2e-2, atol=4e-2)
