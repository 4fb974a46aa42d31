"""Operands of TF32 in memory: raised, they are rounded by what cuts them off, and still exact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from aot.ir.dtypes import FLOAT32
from aot.ir.hints import Hints
from aot.ir.interpreter import run_nest
from aot.ir.nests import Buffer, LoopNest
from aot.ir.scalar import Node, load
from aot.ir.templates import Conv
from aot.ir.templates.builder import NestBuilder
from aot.ir.templates.conv_rounding import Filters, as_tf32, lowered, raised, rounded_when
from aot.ir.tensors import Dim
from aot.symbolic import FloorDiv, Minimum, dim, integer, product
from tests.backends.kernel_runner import axes, nest
from tests.ir.templates.test_conv import conv
from tests.settings import seeded

SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, 3.4028235e38, -3.4028235e38, 1e-45, 2.0**-126]


def numbers() -> np.ndarray:
    drawn = np.random.default_rng(seeded()).standard_normal(1000) * 10.0 ** np.arange(-30, 30, 0.06)
    return np.concatenate([np.array(SPECIAL), drawn]).astype(np.float32)


def mapped(values: np.ndarray, *changes) -> np.ndarray:
    """What functions of an element make of them, one after the other."""
    (i,) = axes(len(values))
    value: Node = load("x", FLOAT32, (i.symbol,))
    for change in changes:
        value = change(value)
    arrays = {"x": values, "o": np.zeros_like(values)}
    run_nest(nest("n", (i,), [], ("o", (i.symbol,), value)), arrays, {})
    return arrays["o"]


def test_what_is_raised_and_cut_off_is_rounded_to_nearest() -> None:
    found = mapped(numbers(), raised).view(np.uint32) & np.uint32(0xFFFFE000)
    np.testing.assert_array_equal(found.view(np.float32), mapped(numbers(), as_tf32))


def test_what_is_raised_and_lowered_is_itself() -> None:
    x = numbers()
    np.testing.assert_array_equal(mapped(x, raised, lowered).view(np.int32), x.view(np.int32))
    bits = np.array([0x7FFFFFFF, -1, 0x7FC00000, 0x7F800001], np.int32)
    assert np.isnan(mapped(bits.view(np.float32), raised, lowered)).all()
    assert np.isnan(mapped(bits.view(np.float32), raised)).all()


def test_zeros_of_masks_and_margins_stay() -> None:
    assert mapped(np.zeros(3, np.float32), lowered).view(np.int32).tolist() == [0, 0, 0]


def by_size() -> Conv:
    """A convolution that rounds where a dim is at least 4, with both operands raised."""
    where = Minimum(integer(1), FloorDiv(dim("n"), integer(4)))
    call = replace(conv(32, 16), rounded_where=where, prepared=("x", "w"))
    return replace(call, x=replace(call.x, buffer="x"), w=replace(call.w, buffer="w"))


def test_it_computes_with_the_numbers_themselves() -> None:
    draw = np.random.default_rng(seeded())
    x, w = (draw.standard_normal(s).astype(np.float32) for s in ((1, 16, 8, 8), (32, 16, 3, 3)))
    up = {"x": mapped(x.ravel(), raised).reshape(x.shape)}
    up["w"] = mapped(w.ravel(), raised).reshape(w.shape)
    shape = (1, 32, 6, 6)
    wide = {role: array.astype(np.float64) for role, array in up.items()}
    found = by_size().interpret(wide, shape)
    exact = {"x": x.astype(np.float64), "w": w.astype(np.float64)}
    np.testing.assert_array_equal(found, conv(32, 16).interpret(exact, shape))
    buffers = {n: Buffer(n, FLOAT32, a.shape, None, "input") for n, a in up.items()}
    buffers["b"] = Buffer("b", FLOAT32, shape, None, "output")
    (loop,) = by_size().expand(NestBuilder(buffers, {}), None)
    assert isinstance(loop, LoopNest)
    arrays = {**up, "b": np.zeros(shape, np.float32)}
    run_nest(loop, arrays, {})
    np.testing.assert_allclose(arrays["b"], found, rtol=0, atol=1e-4)


def test_it_rounds_or_does_not_at_given_sizes() -> None:
    few, many = (by_size().at_hints(Hints({dim("n"): size})) for size in (3, 4))
    assert few.rounding is None and many.rounding == "tf32"
    assert few.prepared == many.prepared == ("x", "w") and few.rounds is many.rounds is None
    assert conv(4, 4).at_hints(Hints({})) == conv(4, 4)


@pytest.mark.parametrize(
    ("hint", "least", "most", "expected"),
    [(8, 1, None, "where"), (8, 8, 20, None), (8, 8, None, "where"), (10**6, 10**6, None, "tf32")],
)
def test_sizes_decide_where_they_may_be_of_both_kinds(
    hint: int, least: int, most: int | None, expected: str | None
) -> None:
    call = conv(64, 64)
    n = Dim("n", least, most, hint, (0, 0, 1, 0))
    images = replace(call.output.axes[0], extent=dim("n"))
    call = replace(call, output=replace(call.output, axes=(images, *call.output.axes[1:])))
    found = call.rounded_as_eager((n,))
    kind = "where" if found.rounds is not None else found.rounding
    assert kind == expected


def test_what_eager_never_rounds_has_no_sizes() -> None:
    flops = product((dim("n"), integer(10**12)))
    assert rounded_when(flops, Filters((64, 1, 3, 3), 64, 0, (1, 1), (1, 1), last=False)) == 0
    assert rounded_when(flops, Filters((64, 64, 3, 3), 1, 27, (1, 1), (1, 1), last=False)) == 0
    assert rounded_when(flops, Filters((64, 64, 3, 3), 1, 0, (1, 1), (1, 1), last=False)) != 0
