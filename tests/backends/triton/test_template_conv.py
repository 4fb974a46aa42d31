"""Convolutions: values through Triton's interpreter, the order of operands, and machine code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from aot.backends.base import EmittedGraph
from aot.backends.triton.backend import TritonBackend
from aot.backends.triton.compile import compile_kernels
from aot.frontend.capture import Captured, capture_module
from aot.frontend.ingest import ingest
from aot.frontend.weights import to_array
from aot.ir.kernels import KernelGraph
from aot.ir.templates import Conv
from aot.lowering.lower import lower
from aot.options import Target, default_cache_dir, environment
from aot.schedule.fusion import fuse
from aot.symbolic import integer
from tests.backends.emitting import emit
from tests.backends.triton.disassembly import MachineCode, disassemble
from tests.conformance.executors import interpret_triton
from tests.launches import calls_of
from tests.schedule.graphs import run_passes
from tests.settings import seeded

HALF = torch.float16
ARCHS = ("sm_80", "sm_90")
Shape = tuple[int, ...]

_CLASSES = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
_LAST = {2: torch.channels_last, 3: torch.channels_last_3d}


class Model(nn.Module):
    """A convolution, then `after` of its result and the other inputs."""

    def __init__(self, conv: nn.Module, after: Callable[..., Any] | None = None) -> None:
        super().__init__()
        self.conv = conv
        self.after = after

    def forward(self, x: torch.Tensor, *others: torch.Tensor) -> Any:
        y = self.conv(x)
        return self.after(y, *others) if self.after else y


def model(
    inputs: int,
    outputs: int,
    kernel: Any,
    dtype: torch.dtype = torch.float32,
    after: Callable[..., Any] | None = None,
    rank: int = 2,
    **settings: Any,
) -> Model:
    torch.manual_seed(seeded(3))
    conv = _CLASSES[rank](inputs, outputs, kernel, **settings)
    return Model(conv, after).to(dtype).eval()


def tensor(*shape: int, dtype: torch.dtype = torch.float32, last: bool = False) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seeded(len(shape)))
    made = torch.randn(*shape, generator=generator).to(dtype)
    return made.contiguous(memory_format=_LAST[len(shape) - 2]) if last else made


def half(*shape: int) -> torch.Tensor:
    return tensor(*shape, dtype=HALF, last=True)


CASES: dict[str, Callable[[], tuple[Model, tuple[torch.Tensor, ...]]]] = {
    "pointwise kernel, residual": lambda: (
        model(32, 48, 1, HALF, lambda y, r: F.relu(y + r)),
        (half(2, 32, 7, 7), half(2, 48, 7, 7)),
    ),
    "one tap": lambda: (model(24, 40, 1, HALF), (tensor(2, 24, 6, 16, dtype=HALF),)),
    "one tap, odd channels": lambda: (model(17, 12, 1), (tensor(1, 17, 5, 24),)),
    "channels in blocks": lambda: (model(64, 32, 3, HALF, padding=1), (half(1, 64, 9, 9),)),
    "channels no block": lambda: (model(40, 20, 3, HALF, padding=1), (half(1, 40, 9, 9),)),
    "image, channels last": lambda: (
        model(3, 64, 7, HALF, F.relu, stride=2, padding=3),
        (half(2, 3, 33, 33),),
    ),
    "image, channels first": lambda: (
        model(3, 64, 7, stride=2, padding=3),
        (tensor(1, 3, 21, 33),),
    ),
    "patches": lambda: (model(3, 40, 8, HALF, stride=8), (tensor(2, 3, 32, 32, dtype=HALF),)),
    "one channel": lambda: (model(1, 5, 3, padding=1), (tensor(2, 1, 13, 13),)),
    "one output": lambda: (model(24, 1, 3, padding=1), (tensor(2, 24, 13, 13),)),
    "paddings and dilations differ": lambda: (
        model(16, 24, (3, 2), dilation=(2, 3), padding=(2, 0)),
        (tensor(2, 16, 13, 13),),
    ),
    "same padding of an even kernel": lambda: (
        model(8, 6, 4, padding="same"),
        (tensor(2, 8, 5, 6),),
    ),
    "padding wider than the kernel": lambda: (model(8, 6, 2, padding=4), (tensor(1, 8, 3, 3),)),
    "bfloat16": lambda: (
        model(64, 64, 3, torch.bfloat16, padding=1),
        (tensor(1, 64, 9, 9, dtype=torch.bfloat16),),
    ),
    "groups": lambda: (
        model(32, 48, 3, HALF, padding=1, groups=4),
        (half(2, 32, 9, 9),),
    ),
    "groups of odd sizes": lambda: (
        model(30, 35, 3, padding=1, groups=5),
        (tensor(2, 30, 9, 9, last=True),),
    ),
    "depthwise": lambda: (
        model(24, 24, 3, HALF, F.silu, padding=1, groups=24),
        (half(2, 24, 13, 13),),
    ),
    "depthwise, two outputs each": lambda: (
        model(24, 48, 5, stride=2, padding=2, groups=24),
        (tensor(2, 24, 13, 13),),
    ),
    "depthwise, channels first, stored last": lambda: (
        model(
            24,
            24,
            3,
            HALF,
            lambda y: y.contiguous(memory_format=torch.channels_last),
            padding=1,
            groups=24,
        ),
        (tensor(2, 24, 13, 13, dtype=HALF),),
    ),
    "depthwise, channels last, stored first": lambda: (
        model(24, 24, 3, padding=1, stride=2, groups=24, after=lambda y: y.contiguous() + 1),
        (tensor(2, 24, 13, 13, last=True),),
    ),
    "depthwise, one dimension": lambda: (
        model(20, 20, 5, rank=1, padding=2, stride=2, groups=20),
        (tensor(2, 20, 33),),
    ),
    "depthwise, many taps": lambda: (
        model(20, 20, 9, padding=4, groups=20),
        (tensor(1, 20, 7, 7),),
    ),
    "groups of two inputs": lambda: (
        model(12, 18, 3, groups=6),
        (tensor(1, 12, 7, 7),),
    ),
    "few channels": lambda: (
        model(8, 8, 3, padding=1, after=lambda y, r: F.relu(y) + r),
        (tensor(2, 8, 9, 11), tensor(2, 8, 9, 11)),
    ),
    "few channels, channels last": lambda: (model(5, 7, 2, HALF, stride=2), (half(2, 5, 9, 8),)),
    "few channels, three dimensions": lambda: (
        model(4, 2, 3, torch.bfloat16, rank=3, padding=(1, 0, 2), dilation=(1, 1, 2)),
        (tensor(1, 4, 4, 5, 6, dtype=torch.bfloat16),),
    ),
    "one channel, one dimension": lambda: (model(1, 1, 16, rank=1), (tensor(1, 1, 300),)),
    "one dimension": lambda: (model(16, 24, 3, rank=1, padding=1), (tensor(2, 16, 33),)),
    "three dimensions": lambda: (
        model(16, 8, (3, 1, 2), HALF, rank=3, padding=(1, 0, 1)),
        (half(1, 16, 5, 6, 7),),
    ),
}


def kernels_of(captured: Captured) -> KernelGraph:
    machine = TritonBackend().machine(Target("cuda", ("sm_90",)))
    return fuse(run_passes(lower(ingest(captured)[0]), machine), machine)


def emitted(module: Model, *args: torch.Tensor, arch: str = "sm_90") -> EmittedGraph:
    kernels = kernels_of(capture_module(module, args))
    return emit(TritonBackend(), kernels, Target("cuda", (arch,)))


def is_narrow(module: Model, x: torch.Tensor) -> bool:
    """Whether threads sum a convolution by themselves."""
    return any("conv_narrow(" in f.text for f in emitted(module, x).functions)


def check(captured: Captured, module: Model, args: tuple[torch.Tensor, ...]) -> None:
    """Against the model in double precision; results are rounded once, to the model's dtype."""
    (found,) = interpret_triton(captured, args)
    with torch.no_grad():
        exact = module.double()(*[a.double() for a in args]).numpy()
    step = torch.finfo(args[0].dtype).eps
    assert found.shape == exact.shape
    error = np.abs(to_float(found) - exact)
    assert error.max() <= step * (np.abs(exact).max() + 4), error.max()


def to_float(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64)


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    module, args = CASES[name]()
    captured = capture_module(module, args)
    assert any(call.kind == "conv" for call in calls_of(kernels_of(captured)))
    check(captured, module, args)


BATCH = torch.export.Dim("batch", min=1, max=64)
HEIGHT, WIDTH = torch.export.Dim("height", min=4), torch.export.Dim("width", min=4)


@pytest.mark.parametrize("shape", ((2, 3, 13, 14), (1, 3, 4, 9), (5, 3, 20, 5)))
def test_few_channels_at_other_sizes(shape: Shape) -> None:
    module = model(3, 4, 3, after=torch.tanh, padding=1, stride=2)
    dims = ({0: BATCH, 2: HEIGHT, 3: WIDTH},)
    captured = capture_module(module, (tensor(4, 3, 10, 10),), dynamic_shapes=dims)
    check(captured, module, (tensor(*shape),))


@pytest.mark.parametrize("groups", (1, 16))
@pytest.mark.parametrize("shape", ((2, 16, 13, 14), (1, 16, 4, 9), (3, 16, 20, 5)))
def test_values_at_other_sizes(shape: Shape, groups: int) -> None:
    module = model(16, 32, 3, HALF, F.relu, padding=1, stride=2, groups=groups)
    dims = ({0: BATCH, 2: HEIGHT, 3: WIDTH},)
    captured = capture_module(module, (half(4, 16, 10, 10),), dynamic_shapes=dims)
    check(captured, module, (tensor(*shape, dtype=HALF),))


def test_weights_of_inputs_are_read_too() -> None:
    """A weight that is no constant is laid out at run time."""

    class Computed(nn.Module):
        def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return F.conv2d(x, w * 2, padding=1)

    args = (tensor(2, 16, 7, 7), tensor(8, 16, 3, 3))
    (found,) = interpret_triton(capture_module(Computed(), args), args)
    np.testing.assert_allclose(found, to_array(Computed()(*args)), rtol=0, atol=1e-4)


def test_few_channels_are_read_where_they_lie() -> None:
    """One launch and no stored weight, whichever order operands have."""
    for last in (False, True):
        source = emitted(model(8, 8, 3), tensor(1, 8, 9, 9, last=last))
        assert len(source.launches) == 1
        assert not source.graph.derived
        assert "conv_narrow(" in source.functions[0].text


@pytest.mark.parametrize("stride", [1, 2])
def test_depthwise_data_is_read_where_it_lies(stride: int) -> None:
    """One launch, whichever order operands have; neighbours are places where channels are not."""
    for last, columns in ((False, 1), (True, 32)):
        module = model(24, 24, 3, padding=1, stride=stride, groups=24)
        source = emitted(module, tensor(2, 24, 13, 13, last=last))
        assert len(source.launches) == 1
        assert f"COLUMNS={columns}," in source.functions[0].text


def test_odd_channels_of_groups_have_zeros_behind_them() -> None:
    x = tensor(2, 2 * 29, 32, 40, dtype=HALF, last=True)
    module = model(2 * 29, 2 * 64, 3, HALF, padding=1, groups=2)
    captured = capture_module(module, (x,))
    (call,) = calls_of(kernels_of(captured))
    assert call.x.axes[1].extent == 2 * 32
    assert call.w.axes[1].extent == 32
    check(captured, module, (x,))


@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("dtype", [HALF, torch.bfloat16, torch.float32])
def test_deep_convolutions_of_few_results_are_groups_of_channels(
    last: bool, dtype: torch.dtype
) -> None:
    module = model(256, 40, 3, dtype, F.relu, padding=1, stride=2)
    x = tensor(1, 256, 9, 9, dtype=dtype, last=last)
    captured = capture_module(module, (x,))
    (call,) = calls_of(kernels_of(captured))
    assert call.parts == call.groups > 1
    assert call.w.axes[1].extent * call.parts == 256
    stored = kernels_of(captured).buffers[call.output.buffer]
    assert (stored.strides[1] == 1) == last
    check(captured, module, (x,))


def test_convolutions_of_many_results_stay_whole() -> None:
    captured = capture_module(model(256, 64, 3, HALF, padding=1), (half(8, 256, 64, 64),))
    (call,) = calls_of(kernels_of(captured))
    assert call.groups == 1


def test_inputs_whose_channels_lie_apart_are_copied_where_places_are_no_vectors() -> None:
    """Phases of a transposed convolution lie side by side along rows, and are stored so."""
    for side, launches in ((8, 1), (64, 1), (63, 2)):
        conv = nn.ConvTranspose2d(16, 96, 3, stride=3).to(HALF)
        assert len(emitted(Model(conv), half(1, 16, side, side).contiguous()).launches) == launches
        last = emitted(Model(conv.to(memory_format=torch.channels_last)), half(1, 16, side, side))
        assert len(last.launches) == 1


@pytest.mark.parametrize("last", [True, False])
def test_phases_that_lie_side_by_side_are_neighbours_of_a_tile(last: bool) -> None:
    """Nine phases of 12 outputs, where a channel's places lie together; else a phase's channels."""
    conv = nn.ConvTranspose2d(16, 12, 3, stride=3).to(HALF)
    module = Model(conv.to(memory_format=torch.channels_last) if last else conv)
    x = tensor(2, 16, 5, 6, dtype=HALF, last=last)
    captured = capture_module(module, (x,))
    text = emitted(module, x).functions[-1].text
    assert ("n % 9 * (12) + n // 9" in text) != last
    check(captured, module, (x,))


def test_a_group_is_a_number_of_the_grid() -> None:
    source = emitted(model(32, 64, 3, HALF, groups=2), tensor(1, 32, 9, 9, dtype=HALF, last=True))
    assert "group=tl.program_id(1)," in source.functions[-1].text


def test_where_few_channels_end() -> None:
    x = tensor(1, 8, 9, 9)
    assert is_narrow(model(8, 32, 3), x)
    assert not is_narrow(model(8, 33, 3), x)
    assert not is_narrow(model(8, 9, 3, stride=2), x)
    assert not is_narrow(model(8, 9, 3, HALF), x.half())
    assert not is_narrow(model(9, 8, 3), tensor(1, 9, 9, 9))


GROUPS: dict[str, tuple[Callable[[], Model], torch.Tensor]] = {
    "a step of channels": (lambda: model(14, 20, 3, HALF, groups=2), half(1, 14, 9, 9)),
    "steps of channels, channels last": (
        lambda: model(40, 8, (3, 2), padding=2, groups=2, bias=True),
        tensor(2, 40, 11, 7, last=True),
    ),
    "a prime number of them, and a stride": (
        lambda: model(26, 6, 3, HALF, F.relu, stride=2, padding=1, groups=2),
        tensor(1, 26, 9, 11, dtype=HALF),
    ),
    "in three dimensions, dilated": (
        lambda: model(24, 6, 2, rank=3, dilation=2, padding=1, groups=3),
        tensor(1, 24, 5, 6, 7),
    ),
}


@pytest.mark.parametrize("name", GROUPS)
def test_few_outputs_of_a_group_are_summed_by_threads(name: str) -> None:
    """Each reads a place's neighbour places beside its neighbours: channels lie first."""
    module, x = GROUPS[name][0](), GROUPS[name][1]
    assert "conv_narrow(" in emitted(module, x).functions[-1].text
    check(capture_module(module, (x,)), module, (x,))


@pytest.mark.parametrize(
    ("inputs", "outputs", "dtype", "narrow"),
    [
        (7, 16, HALF, True),
        (7, 17, HALF, False),
        (9, 6, HALF, True),
        (9, 7, HALF, False),
        (16, 4, HALF, False),  # whole vectors
        (2, 4, HALF, False),  # so few products that each point adds up its own
        (15, 16, torch.float32, True),
        (17, 8, torch.float32, True),
        (17, 9, torch.float32, False),
        (32, 4, torch.float32, True),
        (32, 5, torch.float32, False),
        (7, 4, torch.float64, False),
    ],
)
def test_where_narrow_ends(inputs: int, outputs: int, dtype: torch.dtype, narrow: bool) -> None:
    module = model(2 * inputs, 2 * outputs, 3, dtype, groups=2)
    assert is_narrow(module, tensor(1, 2 * inputs, 9, 9, dtype=dtype)) == narrow


@pytest.mark.parametrize(
    ("inputs", "outputs", "dtype", "stride", "narrow"),
    [
        (43, 4, HALF, 1, False),
        (11, 4, HALF, 1, False),
        (9, 4, HALF, 1, True),
        (39, 4, torch.float32, 1, True),
        (43, 4, HALF, 2, True),  # each of an input's elements is used a fourth as often
        (54, 6, torch.float32, 1, False),
        (54, 4, torch.float32, 1, True),  # threads sum so few outputs of vectors, too
    ],
)
def test_deep_groups_are_worth_zeros_that_fill_vectors(
    inputs: int, outputs: int, dtype: torch.dtype, stride: int, narrow: bool
) -> None:
    """256 pairs of tap and channel are deep, of float32 1024."""
    module = model(2 * inputs, 2 * outputs, 5, dtype, groups=2, padding=2, stride=stride)
    assert is_narrow(module, tensor(1, 2 * inputs, 120, 120, dtype=dtype)) == narrow


def test_places_of_narrow_groups_are_made_neighbours() -> None:
    module = model(14, 20, 3, HALF, groups=2)
    first, last = tensor(1, 14, 9, 9, dtype=HALF), half(1, 14, 9, 9)
    assert len(emitted(module, first).launches) == 1
    assert len(emitted(module, last).launches) == 2


def test_not_a_number_stays_where_taps_see_it() -> None:
    module, x = model(2, 2, 3, padding=1), tensor(1, 2, 9, 9)
    x[0, 1, 4, 4] = float("nan")
    (found,) = interpret_triton(capture_module(module, (x,)), (x,))
    np.testing.assert_array_equal(np.isnan(found), to_array(module(x).isnan()))
    assert np.isnan(found).sum() == 18


def test_epilogues_and_batch_norm_make_one_kernel() -> None:
    torch.manual_seed(seeded())
    conv = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32))
    module = Model(conv, lambda y, r: F.relu(y + r)).to(HALF).eval()
    source = emitted(module, half(1, 16, 8, 8), half(1, 32, 8, 8))
    assert len(source.launches) == 1
    assert source.functions[0].text.count("tl.store(") == 1


def test_a_raw_result_that_others_read_is_stored() -> None:
    args = (half(1, 16, 8, 8),)
    module = model(16, 16, 3, HALF, lambda y: (y, y.mean(0, keepdim=True) + y), padding=1)
    captured = capture_module(module, args)
    found = interpret_triton(captured, args)
    y = module.conv(args[0])
    for got, expected in zip(found, module(*args), strict=True):
        assert np.abs(to_float(got) - to_float(to_array(expected))).max() < 4e-3, y.shape


def test_weights_are_stored_as_they_are_walked() -> None:
    def weight_shape(module: Model, *args: torch.Tensor) -> Shape:
        graph = emitted(module, *args).graph
        (call,) = calls_of(graph)
        return tuple(int(s) for s in graph.buffers[dict(call.operands)["w"].buffer].shape)

    assert weight_shape(model(64, 32, 3, HALF), half(1, 64, 8, 8)) == (32, 3, 3, 64)
    assert weight_shape(model(3, 32, 7, HALF), half(1, 3, 8, 8)) == (7, 7, 3, 32)
    first = tensor(1, 3, 8, 8, dtype=HALF)
    assert weight_shape(model(3, 32, 7, HALF), first) == (3, 7, 7, 32)
    # Loads are of four elements of float32.
    single = model(68, 32, 3, torch.float32)
    assert weight_shape(single, torch.zeros(1, 68, 8, 8)) == (32, 3, 3, 68)
    assert weight_shape(model(68, 32, 3, HALF), half(1, 68, 8, 8)) == (3, 3, 68, 32)
    depthwise = model(24, 24, 3, HALF, groups=24)
    assert weight_shape(depthwise, half(1, 24, 8, 8)) == (3, 3, 1, 24)


def test_a_weight_in_order_is_not_stored_twice() -> None:
    graph = emitted(model(64, 32, 1, HALF), half(1, 64, 8, 8)).graph
    assert not graph.derived
    patches = emitted(model(3, 40, 8, HALF, stride=8), tensor(2, 3, 32, 32, dtype=HALF)).graph
    assert not patches.derived


def test_masks_only_where_taps_leave_the_input() -> None:
    inside = emitted(model(128, 64, 3, HALF), half(1, 128, 10, 10)).functions[0].text
    assert "mask=" not in _load_of_x(inside)
    outside = (
        emitted(model(128, 64, 3, HALF, padding=(1, 0)), half(1, 128, 8, 10)).functions[0].text
    )
    load = _load_of_x(outside)
    assert "place0" in load and "place1" not in load


def _load_of_x(text: str) -> str:
    (load,) = re.findall(r"_load_x\(.*\n(?:    .*\n)*?    return (tl\.load.*)", text)
    return load


@pytest.mark.parametrize(("inputs", "outputs", "groups"), [(24, 20, 1), (16, 24, 2), (8, 8, 8)])
def test_double_precision(inputs: int, outputs: int, groups: int) -> None:
    """As a product on tensor cores, and directly where groups are tiny."""
    module = model(inputs, outputs, 3, torch.float64, padding=1, groups=groups)
    args = (tensor(1, inputs, 7, 6, dtype=torch.float64),)
    captured = capture_module(module, args)
    assert [call.kind for call in calls_of(kernels_of(captured))] == ["conv"]
    (found,) = interpret_triton(captured, args)
    np.testing.assert_allclose(found, to_array(module(*args)), rtol=0, atol=1e-14)


@pytest.fixture(autouse=True)
def rounded_when_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Convolutions of these tests are so small that none would be rounded."""
    monkeypatch.setattr("aot.ir.templates.conv_rounding.ROUNDED_FLOPS", 1)


@contextmanager
def rounding() -> Iterator[None]:
    """As torch is set by default; tests are exact otherwise."""
    torch.backends.cudnn.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = False


def nearest(x: torch.Tensor) -> torch.Tensor:
    """Rounded to TF32, in double precision."""
    bits = x.contiguous().view(torch.int32)
    return ((bits + 0x1000) & -0x2000).view(torch.float32).double()


def test_single_precision_is_rounded_to_nearest_where_torch_lets_eager_do_so() -> None:
    module, args = model(24, 40, 3, bias=False), (tensor(1, 24, 8, 9),)
    with rounding():
        captured = capture_module(module, args)
    exactly = capture_module(module, args)
    assert captured.tf32 == ("conv",) and exactly.tf32 == ()
    (found,), (digits,) = interpret_triton(captured, args), interpret_triton(exactly, args)
    weight = next(module.parameters())
    expected = F.conv2d(nearest(args[0]), nearest(weight.detach())).numpy()
    exact = F.conv2d(args[0].double(), weight.detach().double()).numpy()
    scale = np.abs(exact).max()
    assert np.abs(found - expected).max() < 2e-6 * scale
    assert np.abs(digits - exact).max() < 2e-6 * scale < np.abs(expected - exact).max()


def test_not_a_number_survives_rounding() -> None:
    module, x = model(24, 40, 1, bias=False), tensor(1, 24, 4, 4)
    x[0, 3, 1, 1], x[0, 3, 2, 2] = float("nan"), float("inf")
    bits = x.view(torch.int32)
    bits[0, 5, 3, 3] = 0x7FFFFFFF  # as GPUs make it
    with rounding():
        captured = capture_module(module, (x,))
    (found,) = interpret_triton(captured, (x,))
    np.testing.assert_array_equal(np.isfinite(found), to_array(module(x).isfinite()))


def test_channels_that_fill_no_vectors_get_zeros_behind_them() -> None:
    """Where each is used often: the copy that puts channels last has room for them."""
    large = emitted(model(75, 128, 3, padding=1), tensor(1, 75, 64, 64))
    assert "76 channels" in [d.verdict for d in large.graph.decisions]
    half = emitted(model(75, 128, 3, HALF, padding=1), tensor(1, 75, 64, 64, dtype=HALF))
    assert "80 channels" in [d.verdict for d in half.graph.decisions]
    small = emitted(model(75, 128, 3, padding=1), tensor(1, 75, 8, 8))
    assert not [d for d in small.graph.decisions if d.stage == "split"]


def test_values_of_odd_channels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Conv, "flops", lambda self: integer(1 << 40))
    for dtype in (torch.float32, HALF):
        module = model(21, 72, 3, dtype, F.relu, padding=1)
        args = (tensor(2, 21, 7, 6, dtype=dtype),)
        captured = capture_module(module, args)
        assert "24 channels" in [d.verdict for d in kernels_of(captured).decisions]
        check(captured, module, args)


@cache
def machine_code(name: str, arch: str) -> MachineCode:
    module, args = CODE[name]()
    (source,) = [f for f in emitted(module, *args, arch=arch).functions if "conv_" in f.text]
    (image,) = compile_kernels([source], arch, 1, default_cache_dir(environment()))
    return disassemble(image, arch)


CODE: dict[str, Callable[[], tuple[Model, tuple[torch.Tensor, ...]]]] = {
    "many channels": lambda: (
        model(64, 64, 3, HALF, F.relu, padding=1),
        (half(32, 64, 28, 28),),
    ),
    "small image": lambda: (model(256, 256, 3, HALF, padding=1), (half(1, 256, 7, 7),)),
    "image": lambda: (model(3, 64, 7, HALF, stride=2, padding=3), (half(1, 3, 224, 224),)),
    "four channels": lambda: (model(4, 64, 3, HALF, padding=1), (half(4, 4, 64, 64),)),
    "patches": lambda: (
        model(3, 256, 16, HALF, stride=16),
        (tensor(8, 3, 224, 224, dtype=HALF),),
    ),
    "single precision": lambda: (model(64, 64, 3, padding=1), (tensor(1, 64, 28, 28, last=True),)),
    "double precision": lambda: (
        model(64, 64, 3, torch.float64, padding=1),
        (tensor(1, 64, 28, 28, last=True, dtype=torch.float64),),
    ),
    "depthwise": lambda: (
        model(64, 64, 3, HALF, padding=1, groups=64),
        (half(1, 64, 28, 28),),
    ),
    "eight channels": lambda: (model(8, 8, 3, padding=1), (tensor(1, 8, 512, 512),)),
}


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", CODE)
def test_machine_code(name: str, arch: str) -> None:
    code = machine_code(name, arch)
    assert code.local_bytes == 0
    assert code.uses_tensor_cores == (name not in ("depthwise", "eight channels"))
    # Three channels are no vector, and few are read where they lie: taps begin anywhere.
    if name not in ("image", "eight channels"):
        assert 2 * code.vector_loads >= code.loads > 0


@pytest.mark.slow
def test_large_blocks_use_the_instructions_of_warp_groups() -> None:
    assert any(i.startswith("HGMMA") for i in machine_code("many channels", "sm_90").instructions)
