"""Images of bytes resized along both axes, as packages: every bit as eager's, on all levels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import aot_runtime
import numpy as np
import pytest
import torch
from torch.export import Dim
from torch.nn import functional as F

import aot
from tests.calls import Calls
from tests.levels import target_of
from tests.settings import seeded

MODES = [("bilinear", True), ("bilinear", False), ("bicubic", True), ("bicubic", False)]


def image(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seeded(sum(shape)))
    return torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)


def resize(
    size: tuple[int, int], mode: str = "bilinear", antialias: bool = True
) -> Callable[..., Any]:
    return lambda x: F.interpolate(x, size=size, mode=mode, antialias=antialias)


Check = Callable[..., Any]


@pytest.fixture
def check(tmp_path: Path, levels: tuple[str, ...]) -> Check:
    """Compares with what eager gives for each input, the first of which is the example."""

    def checked(function: Callable[..., Any], *inputs: torch.Tensor) -> aot.BuildReport:
        module, path = Calls(function), tmp_path / "m.pkg"
        targets = [target_of(*levels)]
        report = aot.package(module, inputs[:1], path=path, golden=False, targets=targets)
        for isa in levels:
            for threads in (1, 3):
                model = aot_runtime.load(path, isa=isa, num_threads=threads)
                for x in inputs:
                    np.testing.assert_array_equal(np.asarray(model(x)), module(x).numpy())
        return report

    return checked


def kinds(report: aot.BuildReport) -> list[str]:
    return [kernel.kind for kernel in report.programs[0].kernels]


@pytest.mark.parametrize(("mode", "antialias"), MODES)
def test_modes_and_layouts(
    tmp_path: Path, levels: tuple[str, ...], mode: str, antialias: bool
) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        last = x.contiguous(memory_format=torch.channels_last)
        sizes = ((19, 70), (60, 23), (61, 67))
        return tuple(
            F.interpolate(y, size=size, mode=mode, antialias=antialias)
            for y in (x, last)
            for size in sizes
        )

    module, x = Calls(function), image(2, 3, 41, 53)
    path = tmp_path / "m.pkg"
    targets = [target_of(*levels)]
    report = aot.package(module, (x,), path=path, golden=False, targets=targets)
    assert kinds(report).count("resample_bytes") == 6
    for isa in levels:
        found = aot_runtime.load(path, isa=isa, num_threads=2)(x)
        for ours, eager in zip(found, module(x), strict=True):
            np.testing.assert_array_equal(np.asarray(ours), eager.numpy())


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5])
def test_pixels_of_any_number_of_elements(check: Check, channels: int) -> None:
    x = image(2, channels, 37, 29).contiguous(memory_format=torch.channels_last)
    assert kinds(check(resize((18, 40)), x)) == ["resample_bytes"]


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (2, 3), (70, 300)])
def test_small_and_long_images(check: Check, shape: tuple[int, int]) -> None:
    check(resize((7, 33)), image(1, 3, *shape))


def test_parts_of_larger_images(check: Check) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x[1:, :, 3:-5, 2:-7], size=(20, 31), mode="bilinear", antialias=True)

    check(function, image(3, 3, 50, 60))
    last = image(3, 3, 50, 60).contiguous(memory_format=torch.channels_last)
    check(function, last)


def test_what_lies_apart_is_copied_first(check: Check) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x[..., ::2].mT, size=(20, 31), mode="bilinear", antialias=True)

    check(function, image(2, 3, 40, 60))


def test_axes_of_which_one_alone_fits_float32(check: Check) -> None:
    """The factors are not those of the sizes: one axis has weights whose sums are above 2^24."""

    def function(x: torch.Tensor) -> torch.Tensor:
        antialiased = torch.ops.aten._upsample_bilinear2d_aa
        return antialiased(x, (3, 3), True, 1.7, 0.9)

    report = check(function, image(2, 3, 10, 20))
    assert kinds(report) == ["resample_bytes"]


def test_readers_are_computed_with_it(check: Check) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        small = F.interpolate(x, size=(24, 24), mode="bilinear", antialias=True)
        return (small.float() - 100.0) * torch.tensor([0.5, 2.0, 3.0]).view(3, 1, 1)

    for x in (image(2, 3, 50, 44), image(2, 3, 50, 44).to(memory_format=torch.channels_last)):
        assert kinds(check(function, x)) == ["resample_bytes"]


def test_sizes_that_are_known_at_a_run(tmp_path: Path) -> None:
    shapes = {"x": {0: Dim("n", max=8), 2: Dim("h", min=2, max=400), 3: Dim("w", min=2, max=400)}}
    module = _Small()
    path = tmp_path / "m.pkg"
    x = image(2, 3, 50, 60)
    own = [target_of()]
    aot.package(module, (x,), path=path, golden=False, dynamic_shapes=shapes, targets=own)
    model = aot_runtime.load(path, num_threads=2)
    for shape in ((1, 3, 2, 2), (2, 3, 50, 60), (3, 3, 333, 17), (1, 3, 31, 400)):
        y = image(*shape)
        np.testing.assert_array_equal(np.asarray(model(y)), module(y).numpy())


class _Small(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, size=(32, 40), mode="bilinear", antialias=True)
