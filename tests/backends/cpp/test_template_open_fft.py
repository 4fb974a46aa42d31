"""Transforms of a length that only a run knows: factors, chirps, rows and neighbours."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import aot_runtime
import numpy as np
import pytest
import torch
from torch import fft
from torch.export import Dim

import aot
from aot.backends.cpp.backend import CppBackend
from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.lowering.lower import lower_outline
from aot.lowering.outline import outline
from aot.options import Target
from aot.schedule.fusion import fuse
from aot.schedule.join import join
from aot.symbolic import dim, evaluate
from tests.backends.kernel_runner import Program
from tests.calls import Calls
from tests.schedule.graphs import run_passes
from tests.settings import seeded

LEVEL = "x86-64-v3"
POINTS = (3, 4, 12, 17, 26, 34, 63, 64, 65, 67, 77, 100, 127, 254, 1001, 2018, 2197, 4096)
LONG = (100_000, 131_072, 99_991)
"""Points whose factors are in two tables, and a prime."""

CASES: dict[str, Callable[..., Any]] = {
    "rows": fft.ifft,
    "real rows": lambda z: fft.rfft(z.real),
    "real rows, whole": lambda z: fft.fft(z.real),
    "rows back": lambda z: fft.irfft(z, n=2 * z.shape[1] - 1),
    "rows back, even": lambda z: fft.irfft(z, n=2 * z.shape[1]),
    "an epilogue": lambda z: torch.view_as_real(fft.fft(z)) * 2 + 1,
    "neighbours": lambda z: fft.fft(z.t().contiguous(), dim=0),
    "neighbours turned": lambda z: fft.fft(z.t(), dim=0) * 2,
    "real neighbours": lambda z: fft.rfft(z.real.t(), dim=0),
    "neighbours back": lambda z: fft.irfft(z.t(), n=2 * z.shape[1], dim=0),
    "neighbours back, with an epilogue": lambda z: fft.irfft(z.t(), n=z.shape[1], dim=0).relu(),
}


def numbers(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seeded(sum(shape)))
    return torch.randn(shape, generator=generator, dtype=torch.complex64)


def packaged(names: Sequence[str], dtype: torch.dtype, levels: str, path: Path) -> None:
    def every(z: torch.Tensor) -> list[torch.Tensor]:
        return [CASES[name](z) for name in names]

    shapes = (({0: Dim("rows", max=64), 1: Dim("points", min=3)},),)
    given = (numbers(3, 24).to(dtype),)
    targets = [f"cpu:{levels}"]
    aot.package(
        Calls(every), given, path=path, golden=False, targets=targets, dynamic_shapes=shapes
    )


def test_results_are_those_of_eager_in_float64(tmp_path: Path) -> None:
    path = tmp_path / "fft.pkg"
    packaged(list(CASES), torch.complex64, "x86-64-v3", path)
    model = aot_runtime.load(path)
    for rows, points in (*((5, n) for n in POINTS), (19, 40), *((2, n) for n in LONG)):
        assert_near(model, list(CASES), numbers(rows, points), 1e-6)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_kernels_leave_alone_what_is_behind_their_scratch(dtype: torch.dtype) -> None:
    """How much they take follows from factors, which the bytes that are declared do not know."""
    machine = CppBackend().machine(Target("cpu", (LEVEL,)))

    def every(z: torch.Tensor) -> list[torch.Tensor]:
        return [CASES[name](z) for name in ("rows back, even", "neighbours", "real neighbours")]

    shapes = (({0: Dim("rows", max=64), 1: Dim("points", min=3)},),)
    model = capture_module(Calls(every), (numbers(3, 24).to(dtype),), dynamic_shapes=shapes)
    parts = lower_outline(outline(ingest(model)[0]))
    program = Program(
        join(parts.map(lambda part: fuse(run_passes(part, machine), machine))), levels=(LEVEL,)
    )
    rows, points = (dim(d.name) for d in program.graph.dims)
    draw = random.Random(seeded())
    for n in (*range(3, 40), *POINTS, *(draw.randrange(40, 9000) for _ in range(12)), 16_411):
        sizes = {rows: 9, points: n}
        given = {}
        for name in program.graph.inputs:
            buffer = program.graph.buffers[name]
            shape = [int(evaluate(size, sizes)) for size in buffer.shape]
            given[name] = np.ones(shape, buffer.dtype.name)
        _, fault = program.run(LEVEL, given, {str(s): value for s, value in sizes.items()})
        assert fault == 0  # and that it wrote nowhere else is asserted there


def test_so_are_those_in_float64_and_of_narrow_vectors(tmp_path: Path) -> None:
    names, path = ["rows back, even", "neighbours"], tmp_path / "fft.pkg"
    packaged(names, torch.complex128, "x86-64-v2", path)
    model = aot_runtime.load(path)
    for points in (*POINTS, LONG[0]):
        assert_near(model, names, numbers(3, points).to(torch.complex128), 1e-14)


def assert_near(model: Any, names: Sequence[str], z: torch.Tensor, bound: float) -> None:
    for name, ours in zip(names, model(z.numpy()), strict=True):
        made, exact = np.asarray(ours), CASES[name](z.to(torch.complex128)).numpy()
        assert made.shape == exact.shape, name
        error = np.abs(made - exact).max()
        assert error <= bound * np.abs(exact).max(), (name, tuple(z.shape), error)
