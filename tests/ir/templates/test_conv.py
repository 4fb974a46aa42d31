"""Convolutions: what they mean, cost and want of memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from aot.ir.dtypes import FLOAT16, FLOAT32, FLOAT64, DType
from aot.ir.hints import Hints
from aot.ir.interpreter import run_nest
from aot.ir.nests import Buffer, LoopNest
from aot.ir.origin import NO_ORIGIN
from aot.ir.templates import Conv, ConvSupport
from aot.ir.templates.base import Split
from aot.ir.templates.builder import NestBuilder
from aot.ir.templates.conv import Narrow
from aot.ir.templates.conv_rounding import Filters
from aot.ir.templates.matmul import AlignedRows
from aot.symbolic import dim
from tests.ir.templates.views import strides, view

PLAIN, LAST = (256, 64, 8, 1), (256, 1, 32, 4)
"""Strides of (1, 4, 8, 8) as numbered, and with channels innermost."""

NO_DIMS = Hints({})


def conv(outputs: int, channels: int, groups: int = 1, taps: int = 3) -> Conv:
    """A convolution of 8 x 8 pixels."""
    x, w = view(1, channels, 8, 8), view(outputs, channels // groups, taps, taps)
    return Conv("c", view(1, outputs, 6, 6), NO_ORIGIN, x, w, (1, 1), (0, 0), (1, 1), groups)


@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_its_meaning_is_that_of_torch(spatial: int) -> None:
    x, w = torch.randn(2, 4, *[9] * spatial).double(), torch.randn(6, 2, *[3] * spatial).double()
    parameters = {"stride": 2, "padding": 1, "dilation": 2}
    function = [F.conv1d, F.conv2d, F.conv3d][spatial - 1]
    expected = function(x, w, groups=2, **parameters)
    steps = ((v,) * spatial for v in parameters.values())
    call = Conv(
        "t", view(*expected.shape), NO_ORIGIN, view(*x.shape), view(*w.shape), *steps, groups=2
    )
    result = call.interpret({"x": x.numpy(), "w": w.numpy()}, expected.shape)
    np.testing.assert_allclose(result, expected, atol=1e-12)


def test_its_operations_are_outputs_by_taps_and_channels_of_a_group() -> None:
    assert int(conv(6, 4, groups=2).flops()) == 2 * 6 * 36 * 2 * 9


def order(call: Conv, role: str, support: ConvSupport, known: tuple[int, ...] | None) -> list[int]:
    """Dimensions of an operand in the order in which the template walks them."""
    given = {} if known is None else {"x": strides(*known)}
    walk = call.walk(role, support, given)
    assert walk is not None
    axes = {"x": call.x.axes, "w": call.w.axes, "output": call.output.axes}[role]
    return [axes.index(axis) for axis in walk]


def test_images_have_channels_where_the_device_likes_them() -> None:
    call = conv(16, 16)
    for role in ("x", "output"):
        assert order(call, role, ConvSupport(Conv), None) == [0, 2, 3, 1]
        assert order(call, role, ConvSupport(Conv, channels_last=False), None) == [0, 1, 2, 3]


def test_weights_are_walked_as_the_input_is() -> None:
    in_place = ConvSupport(Conv, in_place=True, vector=8)
    assert order(conv(16, 16), "w", in_place, None) == [0, 2, 3, 1]
    # Rows of depth that are no whole vectors: outputs fastest.
    assert order(conv(16, 3), "w", in_place, (192, 64, 8, 1)) == [1, 2, 3, 0]
    assert order(conv(16, 3), "w", in_place, (192, 1, 24, 3)) == [2, 3, 1, 0]
    assert order(conv(16, 16), "w", ConvSupport(Conv), None) == [0, 1, 2, 3]


def test_what_it_cannot_read_in_place() -> None:
    in_place, many = ConvSupport(Conv, in_place=True, vector=8), conv(16, 16)
    apart = {"x": strides(1024, 64, 8, 1), "w": strides(144, 9, 3, 1)}
    assert "not contiguous" in many.misfit("x", in_place, apart, NO_DIMS)
    assert "another order" in many.misfit(
        "w", in_place, {**apart, "x": strides(1024, 1, 128, 16)}, NO_DIMS
    )
    few = {"x": strides(192, 64, 8, 1)}
    assert conv(16, 3).misfit("x", in_place, few, NO_DIMS) == ""


def test_few_planes_have_vectors_along_their_rows() -> None:
    """Three colours fill no vector: they are planes, whatever order the image is stored in."""
    few, support = conv(3, 3, groups=3), ConvSupport(Conv, row=6)
    for role in ("x", "output"):
        assert order(few, role, support, None) == [0, 1, 2, 3]
        assert order(conv(8, 8, groups=8), role, support, None) == [0, 2, 3, 1]
    first, last = strides(*PLAIN), strides(*LAST)
    assert few.misfit("x", support, {"x": first, "output": last}, NO_DIMS) == ""
    assert "no vectors" in few.misfit("x", support, {"x": last, "output": last}, NO_DIMS)


def test_packing_takes_any_order_but_of_depthwise_inputs() -> None:
    packing = ConvSupport(Conv)
    assert conv(16, 16).packs("w", packing) and not conv(16, 16).packs("x", packing)
    depthwise = conv(8, 8, groups=8)
    assert "not contiguous" in depthwise.misfit("x", packing, {"x": strides(*PLAIN)}, NO_DIMS)
    assert depthwise.misfit("x", packing, {"x": strides(*LAST)}, NO_DIMS) == ""
    rows = ConvSupport(Conv, row=6)
    first, last = strides(*PLAIN), strides(*LAST)
    assert depthwise.misfit("x", rows, {"x": first, "output": first}, NO_DIMS) == ""
    apart = strides(512, 128, 16, 2)
    for support, x, output in ((rows, first, last), (rows, apart, first), (packing, first, first)):
        assert "not contiguous" in depthwise.misfit(
            "x", support, {"x": x, "output": output}, NO_DIMS
        )
    assert "not contiguous" in depthwise.misfit("x", rows, {"x": first, "output": None}, NO_DIMS)
    long = dim("s0")  # a dynamic row is as long as it is typically
    dynamic = replace(depthwise, output=view(1, 8, 6, long))
    assert dynamic.misfit("x", rows, {"x": first, "output": first}, Hints({long: 6})) == ""
    assert dynamic.misfit("x", rows, {"x": first, "output": first}, Hints({long: 5})) != ""
    longer = ConvSupport(Conv, row=7)
    assert "not contiguous" in depthwise.misfit("x", longer, {"x": first, "output": first}, NO_DIMS)
    assert conv(4, 4).misfit("x", packing, {"x": strides(*PLAIN)}, NO_DIMS) == ""


def is_rounded(
    channels: int,
    side: int,
    groups: int = 1,
    phases: int | None = None,
    *,
    last: bool | None = None,
    outputs: int | None = None,
    taps: int = 3,
    step: int = 1,
    stride: int = 1,
) -> bool:
    """Whether eager is taken to round a convolution, 3 x 3, of as many outputs."""
    own = outputs or channels
    x, w = view(1, channels, side, side), view(own, channels // groups, taps, taps)
    out, moves = view(1, own, side - 2, side - 2), (stride, stride)
    steps = (step, step)
    call = Conv("c", out, NO_ORIGIN, x, w, moves, (0, 0), steps, groups, phases=phases, last=last)
    return call.rounded_as_eager(()).rounding == "tf32"


def test_eager_rounds_neither_small_ones_nor_few_channels_nor_many_phases() -> None:
    assert is_rounded(64, 180) and not is_rounded(64, 150)
    assert not is_rounded(14, 2000, outputs=64) and is_rounded(14, 2000, outputs=64, last=True)
    assert is_rounded(64, 2000, taps=1) and not is_rounded(64, 2000, taps=1, stride=2)


def test_transposed_ones_by_their_phases_and_outputs() -> None:
    assert is_rounded(64, 210, phases=4, outputs=256) and is_rounded(
        64, 300, phases=4, outputs=1024
    )
    assert not is_rounded(64, 300, phases=4, outputs=40)  # ten of each phase
    assert is_rounded(64, 900, phases=27, outputs=27 * 96, taps=1)
    assert not is_rounded(64, 300, phases=27, outputs=27 * 97, taps=1)
    assert not is_rounded(64, 300, phases=27, outputs=27 * 64, taps=2)
    patch = {"phases": 4, "taps": 1, "outputs": 4 * 75}
    assert is_rounded(64, 900, **patch) and not is_rounded(64, 900, **patch, last=True)


def test_groups_by_their_pairs_where_channels_come_first() -> None:
    assert is_rounded(128, 200, groups=2) and not is_rounded(128, 110, groups=2)
    assert not is_rounded(64, 300, groups=2) and is_rounded(64, 300, groups=2, last=True)
    assert not is_rounded(28, 600, groups=2, outputs=800)
    assert is_rounded(160, 200, groups=2) and is_rounded(160, 200)


def test_groups_of_volumes() -> None:
    def found(inputs: int, outputs: int, *, last: bool) -> bool:
        filters = Filters((outputs * 2, inputs, 3, 3, 3), 2, 0, (1,) * 3, (1,) * 3, last)
        return not filters.is_exact

    assert found(5, 8, last=True) and not found(4, 8, last=True)
    assert found(11, 8, last=False) and not found(10, 8, last=False)
    assert found(108, 20, last=True) and not found(138, 20, last=True)


def test_eager_rounds_few_deep_groups_whose_channels_are_innermost() -> None:
    """Of more than 64 channels those of many outputs, and those whose taps lie far apart."""

    def found(channels: int, outputs: int, taps: int, step: int = 1) -> bool:
        return is_rounded(channels, 256, groups=2, last=True, outputs=outputs, taps=taps, step=step)

    assert found(128, 128, 3) and not found(176, 128, 3) and found(176, 160, 3)
    assert not found(176, 108, 5) and found(176, 108, 7) and found(176, 108, 5, step=2)
    assert not found(176, 128, 3, step=2)


def test_places_are_vectors_of_single_taps_where_channels_lie_apart() -> None:
    """Nothing is copied there, unless rows of places are no vectors, or other places are seen."""
    support = ConvSupport(Conv, in_place=True, vector=8, channels_last=True)

    def misfit(side: int, taps: int = 1, stride: int = 1, dtype: DType = FLOAT16) -> str:
        x, w = view(2, 64, side, side), view(32, 64, taps, taps)
        call = Conv(
            "c", view(2, 32, side, side), NO_ORIGIN, x, w, (stride, stride), (0, 0), (1, 1), 1
        )
        return call.misfit(
            "x",
            support.of_type(dtype),
            {"x": strides(64 * side * side, side * side, side, 1)},
            NO_DIMS,
        )

    assert misfit(16) == misfit(12, dtype=FLOAT32) == ""
    assert all(misfit(*found) for found in ((12,), (14, 1, 1, FLOAT32), (12, 1, 1, FLOAT64)))
    assert all("not contiguous" in found for found in (misfit(15), misfit(16, 3), misfit(16, 1, 2)))


def before(call: Conv, kind: str = "temp", dtype: DType = FLOAT32, uses: int = 256) -> Split | None:
    """What is done before a call whose buffer is of a kind and a type."""
    shape = tuple(axis.extent for axis in call.x.axes)
    builder = NestBuilder({"b": Buffer("b", dtype, shape, None, kind)}, {})
    few = Narrow(inputs=4, outputs=4)
    support = ConvSupport(
        Conv, narrow_of=(("float32", few),), prepared_uses=uses, prepared_blocks=4
    )
    return call.split(builder, support, 1, NO_DIMS)


@pytest.mark.parametrize(
    ("channels", "whole"), [(17, 24), (18, None), (25, 32), (26, 32), (9, None)]
)
def test_channels_of_halves_that_are_no_words_have_more_zeros_behind_them(
    channels: int, whole: int | None
) -> None:
    call = conv(32, channels)
    shape = tuple(axis.extent for axis in call.x.axes)
    builder = NestBuilder({"b": Buffer("b", FLOAT16, shape, None, "temp")}, {})
    rows = AlignedRows(bytes=16, least_uses=1, least_work=1)
    found = call.split(builder, ConvSupport(Conv, vector=8, rows=rows), 1, NO_DIMS)
    assert (found and found.choice) == (None if whole is None else f"{whole} channels")


def prepared(found: Split | None) -> tuple[str, ...]:
    """The roles of operands that are rounded before."""
    if found is None:
        return ()
    (call,) = (op for op in found.ops if isinstance(op, Conv))
    return call.prepared


def test_operands_are_rounded_before_where_tensor_cores_would_cut_them_off() -> None:
    exact = conv(32, 16)
    call = replace(exact, precision="tf32")
    assert prepared(before(call)) == ("x", "w")
    assert prepared(before(call, uses=32 * 9 + 1)) == ()
    assert prepared(before(call, kind="weight", uses=32 * 9 + 1)) == ("w",)
    assert prepared(before(replace(call, stride=(2, 2)))) == ()
    assert before(exact) is None and before(call, uses=0) is None
    assert before(call, dtype=FLOAT64) is None
    # Names that choosing layouts gives to what it stores anew are left to it.
    found = before(call, kind="weight", uses=32 * 9 + 1)
    assert found is not None and [op.w.buffer for op in found.ops if isinstance(op, Conv)] != [
        "c_w"
    ]
    # Where a thread sums by itself, and where no other group has an element's uses.
    assert before(replace(conv(4, 4), precision="tf32"), uses=1) is None
    assert before(replace(conv(32, 16, groups=2), precision="tf32"), uses=1) is None


def test_a_single_tap_rounds_by_itself_what_few_blocks_of_outputs_read() -> None:
    few, many = (replace(conv(outputs, 16, taps=1), precision="tf32") for outputs in (512, 1024))
    assert prepared(before(few)) == () and prepared(before(many)) == ("x", "w")


def test_what_is_rounded_before_is_the_nearest_of_11_bits() -> None:
    found = before(replace(conv(32, 16), precision="tf32"))
    assert found is not None
    nest = found.ops[0]
    assert isinstance(nest, LoopNest)
    x = np.random.default_rng(0).standard_normal((1, 16, 8, 8)).astype(np.float32)
    x[0, 0, 0, :4] = np.inf, -np.inf, np.nan, -0.0
    x.view(np.int32)[0, 0, 0, 4] = 0x7FFFFFFF
    (store,) = nest.stores
    arrays = {"b": x, store.buffer: np.zeros((1, 8, 8, 16), np.float32)}
    run_nest(nest, arrays, {})
    made = arrays[store.buffer].transpose(0, 3, 1, 2)
    near = np.ldexp(np.rint(np.ldexp(np.frexp(x)[0], 11)), np.frexp(x)[1] - 11)
    finite = np.isfinite(x)
    np.testing.assert_array_equal(made[finite], near[finite])
    np.testing.assert_array_equal(made[~finite], x[~finite])
