"""Concatenations of many parts as packages, against eager: widths, types, layouts, sizes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import aot_runtime
import numpy as np
import pytest
import torch
from torch.export import Dim

import aot
from tests.calls import Calls
from tests.levels import target_of
from tests.settings import seeded

WIDTHS = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 32, 33, 63, 64, 65, 100, 600, 0, 1, 2)
TYPES = (torch.float32, torch.bfloat16, torch.float64, torch.int8, torch.int64, torch.bool)


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seeded(sum(shape)))
    return torch.randint(0, 100, shape, generator=generator).to(dtype)


def array(x: torch.Tensor) -> np.ndarray:
    return (x.float() if x.dtype == torch.bfloat16 else x).numpy()


def check(
    tmp_path: Path, levels: tuple[str, ...], function: Callable[..., Any], *parts: torch.Tensor
) -> aot.BuildReport:
    """What eager gives, on each of the levels, on one thread and on three."""
    module, path = Calls(function), tmp_path / "m.pkg"
    targets = [target_of(*levels)]
    report = aot.package(module, parts, path=path, golden=False, targets=targets)
    expected = module(*parts)
    for isa in levels:
        for threads in (1, 3):
            found = aot_runtime.load(path, isa=isa, num_threads=threads)(*parts)
            np.testing.assert_array_equal(array(torch.as_tensor(found)), array(expected))
    return report


def kinds(report: aot.BuildReport) -> list[str]:
    return [kernel.kind for kernel in report.programs[0].kernels]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_parts_of_all_widths_and_types(
    tmp_path: Path, a_level: tuple[str, ...], dtype: torch.dtype
) -> None:
    parts = [numbers(37, width, dtype=dtype) for width in WIDTHS]
    check(tmp_path, a_level, lambda *x: torch.cat(x, 1), *parts)


def test_parts_along_the_first_and_a_middle_dimension(
    tmp_path: Path, a_level: tuple[str, ...]
) -> None:
    def function(*x: torch.Tensor) -> torch.Tensor:
        flat = [torch.cat(x, d).flatten() for d in range(3)]
        return torch.cat([*flat, torch.stack(x, 0).flatten(), torch.stack(x, 2).flatten()])

    check(tmp_path, a_level, function, *(numbers(3, 5, 7) + k for k in range(20)))


def test_parts_whose_columns_lie_apart(tmp_path: Path, a_level: tuple[str, ...]) -> None:
    parts = [numbers(70, 40).T if k % 2 else numbers(40, 140)[:, ::2] for k in range(12)]
    check(tmp_path, a_level, lambda *x: torch.cat(x, 1), *parts)
    check(tmp_path, a_level, lambda *x: torch.cat([y.T for y in x], 1), *parts)


def test_types_are_promoted_and_readers_fused(tmp_path: Path, a_level: tuple[str, ...]) -> None:
    def function(*x: torch.Tensor) -> torch.Tensor:
        return torch.cat(x, 1).mul(2).add(1).T.contiguous()

    parts = [numbers(33, 6, dtype=(torch.int32, torch.float32)[k % 2]) for k in range(10)]
    report = check(tmp_path, a_level, function, *parts)
    assert kinds(report) == ["pointwise"] * 5 + ["concat"]


def test_computed_parts(tmp_path: Path, a_level: tuple[str, ...]) -> None:
    parts = [numbers(50, 3) + k for k in range(66)]
    many = check(tmp_path, a_level, lambda *x: torch.cat([y.relu() * 2 for y in x], 1), *parts)
    assert kinds(many)[-1] == "concat"
    few = check(tmp_path, a_level, lambda *x: torch.cat([y.relu() * 2 for y in x], 1), *parts[:20])
    assert kinds(few) == ["pointwise"]


def test_dynamic_sizes(tmp_path: Path) -> None:
    path, rows, width = tmp_path / "m.pkg", Dim("rows", min=0), Dim("width", min=0)
    module = Calls(lambda *x: torch.cat(x, 1))
    shapes = [{0: rows, 1: width} if k % 3 else {0: rows} for k in range(30)]
    aot.package(
        module,
        tuple(numbers(4, 5) for _ in shapes),
        path=path,
        dynamic_shapes={"args": tuple(shapes)},
        golden=False,
        targets=[target_of()],
    )
    model = aot_runtime.load(path, num_threads=2)
    for m, n in ((1, 1), (70, 40), (3, 0), (0, 3), (17, 700)):
        parts = [numbers(m, n if k % 3 else 5) for k in range(30)]
        np.testing.assert_array_equal(np.asarray(model(*parts)), module(*parts).numpy())
