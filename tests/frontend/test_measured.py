"""Sizes that the model measures, and assertions: what the graph holds, and what a run says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aot_runtime
import numpy as np
import pytest
import torch
from torch.export import Dim

from aot import driver
from aot.frontend.capture import Captured, capture_module
from aot.frontend.ingest import ingest
from aot.ir.tensors import Assertion, SizeRead, TensorOp
from aot.options import CPU_LEVELS, Target, from_environment
from tests.calls import Calls


def captured(function: Any, *args: torch.Tensor) -> Captured:
    return capture_module(Calls(function), args)


def package(path: Path, function: Any, *args: torch.Tensor) -> aot_runtime.Model:
    target = Target("cpu", (CPU_LEVELS[0],))
    options = from_environment(output=path, targets=(target,), golden=False)
    driver.build(captured(function, *args), options)
    return aot_runtime.load(path)


def test_a_size_that_nothing_needs_is_not_read() -> None:
    graph, _ = ingest(captured(lambda x: (x + 1, x.nonzero().sum())[0], torch.ones(3)))
    assert not graph.dims and not any(isinstance(op, SizeRead) for op in graph.ops)


def test_a_size_is_a_dim_without_a_source() -> None:
    graph, _ = ingest(captured(lambda x: x[x > 0], torch.ones(3, 4)))
    (measured,) = graph.dims
    assert (measured.source, measured.minimum, measured.maximum) == (None, 0, 12)
    assert graph.types[graph.outputs[0]].shape[0].free_symbols


def test_an_assertion_fails_the_run_with_the_models_line(tmp_path: Path) -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        torch._assert_async(x.sum() > 0, "the sum must be positive")
        return x * 2

    graph, _ = ingest(captured(forward, torch.ones(3)))
    assert [op.message for op in graph.ops if isinstance(op, Assertion)] == [
        "the sum must be positive"
    ]
    model = package(tmp_path / "m.pkg", forward, torch.ones(3))
    ones = np.ones(3, np.float32)
    np.testing.assert_array_equal(model(ones), ones * 2)
    with pytest.raises(aot_runtime.InvalidArgument, match="the sum must be positive") as caught:
        model(-ones)
    assert "test_measured.py" in caught.value.origin
    np.testing.assert_array_equal(model(ones), ones * 2)


def test_a_size_out_of_its_range_fails_the_run(tmp_path: Path) -> None:
    def forward(n: torch.Tensor) -> torch.Tensor:
        size = n.item()
        torch._check(size >= 1)
        torch._check(size <= 5)
        return torch.arange(size)

    model = package(tmp_path / "m.pkg", forward, torch.tensor(3))
    np.testing.assert_array_equal(model(np.array(5)), np.arange(5))
    for size in (-1, 0, 6):
        with pytest.raises(aot_runtime.ShapeMismatch, match=f"is {size}, allowed 1 to 5"):
            model(np.array(size))
    np.testing.assert_array_equal(model(np.array(1)), np.arange(1))


@pytest.mark.parametrize("beyond", [5, 10**12])
def test_a_measured_position_out_of_range_fails_the_run(tmp_path: Path, beyond: int) -> None:
    def forward(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return x[at.item()] * 2

    x = torch.arange(15.0).reshape(5, 3)
    model = package(tmp_path / "m.pkg", forward, x, torch.tensor(2))
    np.testing.assert_array_equal(model(x.numpy(), np.array(4)), x.numpy()[4] * 2)
    with pytest.raises(aot_runtime.ShapeMismatch, match="position that the model computes"):
        model(x.numpy(), np.array(beyond))


def test_an_assertion_that_no_relation_says_is_computed(tmp_path: Path) -> None:
    def forward(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        number = at.item()
        torch._check(number != 3)
        return x * number

    model = package(tmp_path / "m.pkg", forward, torch.ones(3), torch.tensor(2))
    ones = np.ones(3, np.float32)
    np.testing.assert_array_equal(model(ones, np.array(4)), ones * 4)
    with pytest.raises(aot_runtime.InvalidArgument, match="assertion") as caught:
        model(ones, np.array(3))
    assert "test_measured.py" in caught.value.origin


def test_a_number_may_have_any_sign(tmp_path: Path) -> None:
    def forward(x: torch.Tensor, number: torch.Tensor) -> Any:
        return x * number.item(), number.item() - 2

    model = package(tmp_path / "m.pkg", forward, torch.ones(3), torch.tensor(2))
    for number in (-7, 0, 3):
        scaled, less = model(np.ones(3, np.float32), np.array(number))
        np.testing.assert_array_equal(scaled, np.full(3, number, np.float32))
        assert less == number - 2


def test_a_mask_larger_than_what_it_selects_from(tmp_path: Path) -> None:
    model = package(tmp_path / "m.pkg", torch.masked_select, torch.ones(2), torch.ones(3, 2) > 0)
    x, mask = torch.tensor([1.0, 2.0]), torch.tensor([[True, True], [False, True], [True, False]])
    np.testing.assert_array_equal(model(x.numpy(), mask.numpy()), torch.masked_select(x, mask))
    # From 3 elements on, torch bounds the result's size, too low.
    model = package(tmp_path / "n.pkg", torch.masked_select, torch.ones(3), torch.ones(3, 3) > 0)
    x, mask = torch.arange(3.0), torch.tensor([[True, True, False]]).expand(3, 3).contiguous()
    np.testing.assert_array_equal(model(x.numpy(), mask.numpy()), torch.masked_select(x, mask))


def test_a_mask_without_dimensions_selects_all_or_nothing(tmp_path: Path) -> None:
    model = package(tmp_path / "m.pkg", torch.masked_select, torch.tensor(3.0), torch.tensor(True))
    assert model(np.float32(4), np.array(True)).tolist() == [4.0]
    assert model(np.float32(4), np.array(False)).tolist() == []


def test_sizes_decide_a_branch_and_give_numbers(tmp_path: Path) -> None:
    def forward(x: torch.Tensor) -> Any:
        n = x.shape[0]
        many = (n > 2) & (n * 3 != 12)
        return torch.cond(many, lambda x: x + 1, lambda x: x - 1, (x,)), n / 4, many

    made = capture_module(Calls(forward), (torch.ones(5),), dynamic_shapes=(({0: Dim("n")},),))
    options = from_environment(
        output=tmp_path / "m.pkg", targets=(Target("cpu", (CPU_LEVELS[0],)),), golden=False
    )
    driver.build(made, options)
    model = aot_runtime.load(tmp_path / "m.pkg")
    for n, step in ((1, -1), (2, -1), (3, 1), (4, -1), (9, 1)):
        moved, quarter, many = model(np.zeros(n, np.float32))
        np.testing.assert_array_equal(moved, np.full(n, step, np.float32))
        assert (float(quarter), bool(many)) == (n / 4, step > 0)


def test_a_mask_that_no_input_decides(tmp_path: Path) -> None:
    model = package(tmp_path / "m.pkg", lambda x: torch.combinations(x, 1), torch.arange(4))
    x = torch.tensor([4, 7, 1, 3])
    np.testing.assert_array_equal(model(x.numpy()), torch.combinations(x, 1))


def test_one_mask_has_one_size() -> None:
    def forward(x: torch.Tensor, y: torch.Tensor) -> Any:
        mask = x > 0
        return x[mask] * y[mask], mask.nonzero()

    graph, _ = ingest(captured(forward, torch.ones(3), torch.ones(3)))
    assert [d.name for d in graph.dims] == ["m0"]
    assert len([op for op in graph.ops if isinstance(op, SizeRead)]) == 1


def test_a_vector_is_flat_as_it_is() -> None:
    graph, _ = ingest(captured(torch.unique_consecutive, torch.ones(5)))
    assert not [op for op in graph.ops if isinstance(op, TensorOp) and "view" in op.target]


def test_distinct_elements_of_an_input_of_any_size(tmp_path: Path) -> None:
    def forward(x: torch.Tensor) -> Any:
        values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
        return values, inverse, counts, values[inverse]

    made = capture_module(Calls(forward), (torch.arange(5.0),), dynamic_shapes=(({0: Dim("n")},),))
    options = from_environment(
        output=tmp_path / "m.pkg", targets=(Target("cpu", (CPU_LEVELS[0],)),), golden=False
    )
    driver.build(made, options)
    model = aot_runtime.load(tmp_path / "m.pkg")
    for n in (0, 1, 2, 700, 100_000):
        x = torch.randint(0, 500, (n,), dtype=torch.float32)
        for actual, expected in zip(model(x.numpy()), forward(x), strict=True):
            np.testing.assert_array_equal(actual, expected)


def test_as_many_values_as_a_mask_selects(tmp_path: Path) -> None:
    def forward(x: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return x.index_put((x > 0,), values)

    model = package(tmp_path / "m.pkg", forward, torch.ones(4), torch.ones(2))
    x, values = np.array([1, -1, 2, -2], np.float32), np.array([7, 8], np.float32)
    np.testing.assert_array_equal(model(x, values), np.array([7, -1, 8, -2], np.float32))
    for wrong in (np.abs(x), np.array([1, -1, -2, -3], np.float32)):
        with pytest.raises(aot_runtime.InvalidArgument, match="index"):
            model(wrong, values)


def _sliced(x: torch.Tensor, at: torch.Tensor) -> Any:
    number = at.item()
    return x[:number], x[number:], x[1 : number + 1 : 2]


@pytest.mark.parametrize(
    ("forward", "positions"),
    [
        (_sliced, (4, 0, 8, 12, -3, -20)),
        (torch.tensor_split, ([2, 5], [5, 2], [0, 8], [-3, -1], [9, 20])),
        (lambda x, at: x[at.item()], (1, 7, 0, -1, -8)),
        (lambda x, at: x.narrow(0, at.item(), 2), (1, 6, 0, -2, -8)),
    ],
    ids=["slices", "tensor_split", "select", "narrow"],
)
def test_measured_positions_count_from_either_end(
    tmp_path: Path, forward: Any, positions: tuple[Any, ...]
) -> None:
    x = torch.arange(24.0).reshape(8, 3)
    model = package(tmp_path / "m.pkg", forward, x, torch.tensor(positions[0]))
    for position in positions:
        at = torch.tensor(position)
        got, want = model(x, at), forward(x, at)
        pairs = [(got, want)] if isinstance(want, torch.Tensor) else zip(got, want, strict=True)
        for ours, theirs in pairs:
            np.testing.assert_array_equal(ours, theirs)


def test_a_measured_slice_of_a_known_length_stays_inside(tmp_path: Path) -> None:
    def forward(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return x.narrow(0, at.item(), 2)

    x = torch.arange(8.0)
    model = package(tmp_path / "m.pkg", forward, x, torch.tensor(1))
    with pytest.raises(aot_runtime.ShapeMismatch, match="position that the model computes"):
        model(x.numpy(), np.array(7))
