"""Reductions over bags as packages, against eager: widths, types, layouts, levels, sizes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import aot_runtime
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

import aot
from tests.levels import target_of
from tests.settings import seeded

WIDTHS = {
    torch.float32: (1, 3, 8, 17, 31, 64, 100, 300),
    torch.float64: (3, 40),
    torch.float16: (5, 100),
    torch.bfloat16: (64,),
}
STARTS = torch.tensor([0, 0, 3, 30, 30])


class Several(torch.nn.Module):
    """The results of one function for several groups of inputs: one package for many cases."""

    def __init__(self, function: Callable[..., torch.Tensor], groups: int) -> None:
        super().__init__()
        self.function = function
        self.groups = groups

    def forward(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        each = len(inputs) // self.groups
        return [self.function(*inputs[k : k + each]) for k in range(0, each * self.groups, each)]


def whole(*shape: int, low: int = -9, high: int = 9) -> torch.Tensor:
    """Whole numbers: their sums are exact in every order."""
    generator = torch.Generator().manual_seed(seeded(sum(shape)))
    return torch.randint(low, high, shape, generator=generator)


def check(
    tmp_path: Path,
    levels: tuple[str, ...],
    function: Callable[..., Any],
    groups: list[tuple[Any, ...]],
) -> None:
    """Each group of inputs gives what eager gives, on each of the levels."""
    module, inputs = Several(function, len(groups)), [x for group in groups for x in group]
    path = tmp_path / "m.pkg"
    targets = [target_of(*levels)]
    aot.package(module, tuple(inputs), path=path, golden=False, targets=targets)
    expected = module(*inputs)
    for isa in levels:
        found = aot_runtime.load(path, isa=isa)(*inputs)
        for ours, eager in zip(found, expected, strict=True):
            np.testing.assert_array_equal(np.asarray(ours), eager.numpy())


def test_rows_of_all_widths_and_types(tmp_path: Path, a_level: tuple[str, ...]) -> None:
    def function(weight: torch.Tensor, rows: torch.Tensor, starts: torch.Tensor) -> Any:
        return F.embedding_bag(rows, weight, starts, mode="sum").double()

    rows = whole(50, low=0, high=20)
    tables = [whole(20, w).to(dtype) for dtype, widths in WIDTHS.items() for w in widths]
    check(tmp_path, a_level, function, [(table, rows, STARTS) for table in tables])


def test_extrema_and_rows_that_do_not_count(tmp_path: Path, a_level: tuple[str, ...]) -> None:
    def function(weight: torch.Tensor, rows: torch.Tensor, starts: torch.Tensor) -> Any:
        return F.embedding_bag(rows, weight, starts, mode="max", padding_idx=3)

    rows = whole(50, low=0, high=20)
    check(tmp_path, a_level, function, [(whole(20, w).float(), rows, STARTS) for w in (1, 5, 40)])


def test_a_table_whose_rows_are_columns_of_memory(tmp_path: Path, a_level: tuple[str, ...]) -> None:
    def function(weight: torch.Tensor, rows: torch.Tensor, factors: torch.Tensor) -> Any:
        return F.embedding_bag(rows, weight.T, mode="sum", per_sample_weights=factors)

    rows, factors = whole(6, 9, low=0, high=20), whole(6, 9).float()
    check(tmp_path, a_level, function, [(whole(w, 20).float(), rows, factors) for w in (1, 5, 40)])


def test_runs_of_rows(tmp_path: Path, a_level: tuple[str, ...]) -> None:
    def function(x: torch.Tensor, lengths: torch.Tensor) -> Any:
        kinds = ("sum", "mean", "max", "min", "prod")
        found = [torch.segment_reduce(x, k, lengths=lengths, unsafe=True) for k in kinds]
        return torch.stack(found)

    lengths = torch.tensor([1, 0, 2, 4])
    x = whole(7, 21, low=1, high=4).float()
    x[2, 3] = float("nan")
    check(tmp_path, a_level, function, [(x, lengths), (x[:, 0].contiguous(), lengths)])


class Summed(torch.nn.Module):
    """Bags of dynamic numbers of rows, points and bags."""

    def forward(self, weight: torch.Tensor, rows: Any, starts: Any) -> torch.Tensor:
        return F.embedding_bag(rows, weight, starts, mode="sum")


def test_dynamic_sizes_and_threads(tmp_path: Path) -> None:
    path = tmp_path / "m.pkg"
    shapes = ({0: Dim("rows"), 1: Dim("width")}, {0: Dim("points", min=0)}, {0: Dim("bags")})
    example = (whole(20, 24).float(), whole(50, low=0, high=20), STARTS)
    settings = {"dynamic_shapes": shapes, "golden": False, "targets": [target_of()]}
    aot.package(Summed(), example, path=path, **settings)
    for threads in (1, 3):
        model = aot_runtime.load(path, num_threads=threads)
        for count, width, points, number in ((2, 3, 1, 1), (9, 70, 0, 3), (400, 33, 9000, 500)):
            weight = whole(count, width).float()
            rows = whole(points, low=0, high=count)
            starts = torch.linspace(0, points, number + 1)[:number].long()
            found = model(weight.numpy(), rows.numpy(), starts.numpy())
            np.testing.assert_array_equal(found, Summed()(weight, rows, starts).numpy())


WRONG = {
    "a row beyond the table": ([0, 20, 1], [0, 1, 2]),
    "a row below it": ([0, -1, 1], [0, 1, 2]),
    "an offset beyond the rows": ([0, 1, 2], [0, 1, 4]),
    "a bag that ends before it begins": ([0, 1, 2], [0, 2, 1]),
    "an offset below the first row": ([0, 1, 2], [-1, 1, 2]),
}


def test_what_is_out_of_range_is_an_error(tmp_path: Path) -> None:
    path, weight = tmp_path / "m.pkg", whole(20, 4).float()
    right = torch.tensor([0, 1, 2])
    given = (weight, right, right.clone())
    aot.package(Summed(), given, path=path, golden=False, targets=[target_of()])
    model = aot_runtime.load(path)
    for rows, starts in WRONG.values():
        with pytest.raises(aot_runtime.InvalidArgument, match="index"):
            model(weight.numpy(), np.array(rows), np.array(starts))
        model(weight.numpy(), right.numpy(), right.numpy())
