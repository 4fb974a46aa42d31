"""Scans and sorts as packages, against eager: ties, NaN, all dtypes, every dimension, odd sizes."""

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
from aot.backends.registry import backend_for
from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.frontend.weights import to_array
from aot.options import Target
from tests.backends.emitting import emit
from tests.conformance.executors import scheduled
from tests.levels import target_of
from tests.settings import SETTINGS, seeded

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
FLOATS = (torch.float32, torch.float64, torch.float16)


class Several(torch.nn.Module):
    """The results of several functions of one input: one package for many cases."""

    def __init__(self, functions: list[Callable[[torch.Tensor], Any]]) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, x: torch.Tensor) -> list[Any]:
        return [f(x) for f in self.functions]


def tied(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Many equal values; floats with NaN, infinities and both zeros."""
    torch.manual_seed(seeded())
    x = torch.randint(0, 20, shape).to(dtype)
    if not dtype.is_floating_point:
        return x
    x = x - 10
    flat = x.view(-1)
    for value in (float("nan"), float("inf"), -float("inf"), -0.0, 0.0):
        flat[torch.randint(0, flat.numel(), (max(flat.numel() // 20, 1),))] = value
    return x


def flat(nested: Any) -> list[np.ndarray]:
    if isinstance(nested, (list, tuple)):
        return [a for n in nested for a in flat(n)]
    return [np.asarray(nested)]


Check = Callable[..., None]


@pytest.fixture
def check(tmp_path: Path, levels: tuple[str, ...]) -> Check:
    """Compares a package of some functions with eager, for each input, on the test's levels."""

    def checked(functions: list[Callable], *inputs: torch.Tensor) -> None:
        module = Several(functions)
        path = tmp_path / "m.pkg"
        targets = [target_of(*levels)]
        aot.package(module, (inputs[0],), path=path, golden=False, targets=targets)
        for isa in levels:
            model = aot_runtime.load(path, isa=isa)
            for x in inputs:
                for ours, eager in zip(flat(model(to_array(x))), flat(module(x)), strict=True):
                    np.testing.assert_array_equal(ours, eager)

    return checked


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_sorting_is_exact_with_ties_and_nan(check: Check, dtype: torch.dtype) -> None:
    check(
        [
            lambda x: torch.sort(x, stable=True),
            lambda x: torch.sort(x, dim=0, descending=True, stable=True),
            lambda x: torch.sort(x, dim=1, stable=True)[0],
            lambda x: torch.argsort(x, dim=-1, stable=True),
        ],
        tied((3, 70, 5), dtype),
    )


def test_the_first_few_of_many_and_of_few(check: Check) -> None:
    torch.manual_seed(seeded())
    distinct = torch.randperm(5000).view(5, 1000).float()  # eager's choice among ties is free
    check(
        [
            lambda x: torch.topk(x, 1),
            lambda x: torch.topk(x, 10),
            lambda x: torch.topk(x, 10, largest=False),
            lambda x: torch.topk(x, 32),
            lambda x: torch.topk(x, 32, largest=False),
            lambda x: torch.topk(x, 400),
            lambda x: torch.topk(x, 3, dim=0),
        ],
        distinct,
        torch.arange(5000.0).view(5, 1000),
        -torch.arange(5000.0).view(5, 1000),
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_first_few_of_values_that_tie_and_of_no_numbers(
    check: Check, dtype: torch.dtype
) -> None:
    """Their values: which of equal ones is chosen is free."""
    x = tied((6, 701), dtype)
    x[0] = float("nan")
    x[1, 3:] = float("nan")
    functions = [
        lambda x, k=k, largest=largest: torch.topk(x, k, largest=largest)[0]
        for k in (5, 16, 40)
        for largest in (False, True)
    ]
    check(functions, x)


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_ranks_of_long_rows(check: Check, dtype: torch.dtype) -> None:
    """Whole digits are equal, or none: values that tie, that are near and that are far apart."""
    torch.manual_seed(seeded())
    tied_rows = tied((2, 5000), dtype)
    spread = torch.randn(2, 5000).mul(1e4 if dtype.is_floating_point else 100).to(dtype)
    near = torch.arange(5000).flip(0).expand(2, 5000).to(dtype).contiguous()
    check(
        [
            lambda x: torch.sort(x, stable=True)[0].kthvalue(1700)[0],
            lambda x: x.kthvalue(1700)[0],
            lambda x: x.kthvalue(5000)[0],
            lambda x: x.median(1)[0],
            lambda x: x.median(),
        ],
        tied_rows,
        spread,
        near,
    )


@pytest.mark.parametrize("dtype", [torch.int16, torch.int64, *FLOATS])
def test_ranks_of_long_rows_side_by_side(check: Check, dtype: torch.dtype) -> None:
    """Several are copied at a time, the last ones fewer."""
    spread = torch.randn(4100, 37, generator=torch.Generator().manual_seed(seeded()))
    scale = 1e4 if dtype.is_floating_point else 100
    check(
        [
            lambda x: x.median(0)[0],
            lambda x: x.kthvalue(1700, 0)[0],
            lambda x: x[:, :2].median(0)[0],
        ],
        tied((4100, 37), dtype),
        spread.mul(scale).to(dtype),
    )


@pytest.mark.parametrize("dtype", [*INTEGERS, torch.bool])
def test_integer_scans_are_exact(check: Check, dtype: torch.dtype) -> None:
    check(
        [
            lambda x: torch.cumsum(x, 0),
            lambda x: torch.cumsum(x, 1) - 1,
            lambda x: torch.cumsum(x, -1),
            lambda x: torch.cumprod(x, -1),
        ],
        tied((3, 7, 5), dtype),
    )


def test_scans_of_dynamic_sizes(tmp_path: Path) -> None:
    n = Dim("n", min=0, max=1000)
    inputs = [torch.randn(5, size) for size in (33, 0, 1, 16, 257)]
    module = Several([lambda x: torch.cumsum(x * 2, 1)])
    path = tmp_path / "m.pkg"
    settings = {"dynamic_shapes": ({1: n},), "golden": False, "targets": [target_of()]}
    aot.package(module, (inputs[0],), path=path, **settings)
    model = aot_runtime.load(path)
    for x in inputs:
        exact = torch.cumsum(x.double() * 2, 1).numpy()
        np.testing.assert_allclose(model(x.numpy())[0], exact, rtol=1e-6, atol=1e-6)


def test_empty_rows_and_scalars(check: Check) -> None:
    check([torch.sort, lambda x: torch.cumsum(x, 1)], torch.zeros(4, 0))
    check([torch.sort, lambda x: torch.cumsum(x, 0)], torch.tensor(3.0))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int32, torch.uint8])
def test_scans_of_short_rows_end_with_the_row(check: Check, dtype: torch.dtype) -> None:
    """The vector that holds a row's last elements also holds the next row's first ones."""
    functions = [
        lambda x: torch.cumsum(x, 1),
        lambda x: torch.cumsum(x[:, :5], 1),
        lambda x: torch.cumsum(x[:, 3:4], 1),
        lambda x: torch.cumsum(x[:, 1:], 1),
    ]
    x = tied((9, 17), dtype)
    if dtype.is_floating_point:
        x[4, 5:] = float("nan")
    check(functions, x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.int32])
def test_many_short_rows_are_scanned_together(check: Check, dtype: torch.dtype) -> None:
    """Rows of known widths, one by one or in one or two vectors; the last rows are not a unit."""
    functions = [
        *(lambda x, n=n: torch.cumsum(x[:, :n].contiguous(), 1) for n in (1, 3, 5, 6, 8, 11, 16)),
        lambda x: torch.cumsum(x[:, 1:13:2], 1),
        lambda x: torch.cumsum(x.view(-1, 20), 1) + 1,
        lambda x: torch.cumprod(x[:, 2:9], 1),
    ]
    x = tied((131, 20), dtype)
    if dtype.is_floating_point:
        x[7], x[9] = -0.0, float("nan")
    check(functions, x)


NEIGHBOURS = ((9, 16), (40, 67), (3, 64), (17, 4100), (45, 5))
"""Columns, and rows that lie side by side: fewer than a vector more than a block, and many."""


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, torch.bool])
@pytest.mark.parametrize("shape", NEIGHBOURS)
def test_scans_of_rows_side_by_side(
    check: Check, dtype: torch.dtype, shape: tuple[int, int]
) -> None:
    functions = [
        lambda x: torch.cumsum(x, 0),
        lambda x: torch.cumsum(x, 0).T + 1,
        lambda x: torch.cumprod(x, 0),
    ]
    check(functions, tied(shape, dtype))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_scans_of_few_rows_of_halves_are_exact(check: Check, dtype: torch.dtype) -> None:
    """Fewer rows than a block has go by vectors, which widen halves; 37 are no whole vectors."""
    torch.manual_seed(seeded())
    x = torch.randint(-3, 4, (3, 37)).float()
    check([lambda x: x.to(dtype).cumsum(1).float()], x)


def test_rows_side_by_side_are_lanes() -> None:
    """Unless there are few, or a result is not."""
    target = Target("cpu", (SETTINGS.level,))
    backend = backend_for(target)

    def lanes(function: Callable, *shape: int) -> bool:
        graph, _ = ingest(capture_module(Several([function]), (torch.zeros(shape),)))
        emitted = emit(backend, scheduled(graph, backend.machine(target)), target)
        (text,) = (f.text for f in emitted.functions if "ScanConfig" in f.text)
        return "LANES" in text

    assert lanes(lambda x: torch.cumsum(x, 0), 40, 67)
    assert lanes(lambda x: torch.cumsum(x, 0) * 2, 40, 67)
    assert lanes(lambda x: torch.cumsum(x, 0), 40, 4)
    assert not lanes(lambda x: torch.cumsum(x, 0), 40, 3)
    assert not lanes(lambda x: torch.cumsum(x, 1), 40, 67)
    assert not lanes(lambda x: torch.cumsum(x, 0).T.contiguous(), 40, 67)


def test_running_sums_of_logarithms_side_by_side(tmp_path: Path) -> None:
    x = torch.randn(50, 67, generator=torch.Generator().manual_seed(seeded()))
    x[3, 5], x[0, 6] = float("nan"), -float("inf")
    path = tmp_path / "m.pkg"
    sums = Several([lambda x: torch.logcumsumexp(x, 0)])
    aot.package(sums, (x,), path=path, golden=False, targets=[target_of()])
    exact = torch.logcumsumexp(x.double(), 0).numpy()
    np.testing.assert_allclose(aot_runtime.load(path)(x.numpy())[0], exact, rtol=1e-6, atol=1e-6)


def test_a_rank_is_found_in_rows_of_any_length(check: Check) -> None:
    """Counted, by pivots, by digits: of many equal ones, of ordered ones and of the least keys."""
    torch.manual_seed(seeded())
    ranks = (
        lambda x: torch.median(x, -1)[0],
        lambda x: torch.kthvalue(x, 2 * x.shape[1] // 3, -1)[0],
        lambda x: torch.kthvalue(x, x.shape[1], -1)[0],
    )
    for size in (16, 17, 40, 301, 4096):
        x = torch.randn(6, size)
        x[1], x[2], x[3] = 3.0, torch.arange(size), -torch.arange(size)
        x[4] = (x[4] * 4).round()
        check(list(ranks), x)
        check(list(ranks), (1000 * x).long())


def test_a_rank_is_found_where_pivots_leave_almost_all(check: Check) -> None:
    """Rows that are made against the choice of pivots, so that they are given up."""
    size = 1500
    row = _against_pivots(size, (size - 1) // 2)
    assert sorted(row) != row
    x = torch.tensor([row, row[::-1]], dtype=torch.float64)
    check([lambda x: torch.median(x, -1), lambda x: torch.kthvalue(x, 500, -1)], x)


def _against_pivots(size: int, rank: int) -> list[int]:
    """Numbers among which each pivot is one of the least (McIlroy: A killer adversary, 1999).

    Asserts that select.h gives them up.
    """
    values: list[int] = [size] * size  # the greatest: not decided yet
    decided, tried = 0, 0

    def less(a: int, b: int) -> bool:
        nonlocal decided, tried
        if values[a] == values[b] == size and a != b:
            values[a if a == tried else b] = decided
            decided += 1
        if values[a] == size:
            tried = a
        elif values[b] == size:
            tried = b
        return values[a] < values[b]

    def middle(a: int, b: int, c: int) -> int:
        low, high = (a, b) if less(a, b) else (b, a)
        top = high if less(high, c) else c
        return low if less(top, low) else top

    keys, steps = list(range(size)), 0
    while len(keys) > 128:
        steps += len(keys)
        tenth = len(keys) // 10
        threes = [
            keys[3 * k * tenth + tenth : 3 * k * tenth + 3 * tenth + 1 : tenth] for k in (0, 1, 2)
        ]
        pivot = middle(*(middle(*three) for three in threes))
        below = [k for k in keys if less(k, pivot)]
        above = [k for k in keys if less(pivot, k)]
        if rank < len(below):
            keys = below
        elif rank >= len(keys) - len(above):
            rank -= len(keys) - len(above)
            keys = above
        else:
            break
    assert steps > 12 * size
    rest = iter(range(decided, size))
    return [next(rest) if value == size else value for value in values]


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, torch.bfloat16])
def test_places_of_extrema_in_short_and_long_rows_and_across(
    check: Check, dtype: torch.dtype
) -> None:
    """The last of equal ones, of rows that rise, fall and tie; whole vectors, and what is left."""
    both = [
        lambda x: torch.cummax(x, -1),
        lambda x: torch.cummin(x, 0),
        lambda x: torch.cummin(x.flip(-1), -1),
    ]
    for shape in ((37, 22), (5, 1100), (300, 3)):
        x = tied(shape, dtype)
        x[1] = torch.arange(shape[1]).clamp(max=100).to(dtype)
        x[2] = x[1].flip(0)
        check([lambda x: [r.to(torch.float64) for f in both for r in f(x)]], x)


@pytest.mark.parametrize(
    "dtype", [torch.int16, torch.bfloat16, torch.uint8, torch.int32, torch.float64]
)
def test_places_and_extrema_of_rows_are_one_kernel(dtype: torch.dtype) -> None:
    """It reads the row once: what stands at a place is the extremum."""
    target = Target("cpu", (SETTINGS.level,))
    backend = backend_for(target)
    x = torch.zeros((9, 300), dtype=dtype)
    graph, _ = ingest(capture_module(Several([lambda x: torch.cummax(x, 1)]), (x,)))
    (function,) = emit(backend, scheduled(graph, backend.machine(target)), target).functions
    assert "aot::tmpl::places(" in function.text
