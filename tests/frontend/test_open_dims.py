"""How dimensions that shall be open are given to torch.export."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import _prims_common
from torch.export import Dim

from aot.errors import AotError
from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.frontend.open_dims import as_hints, is_bounded, least_size, traceable, unasked_layouts
from tests.calls import Calls
from tests.conformance.executors import interpret_lowered


def test_named_dimensions_become_hints_with_their_bounds() -> None:
    n = Dim("n", max=9)
    (hint,) = as_hints([{0: n}])[0].values()
    assert (hint.min, hint.max) == (None, 9)
    derived = [{0: n}, {0: 2 * n}]
    assert as_hints(derived) is derived


def test_the_least_size_that_was_asked_for() -> None:
    assert least_size(Dim("n")) == 0
    assert least_size(Dim("n", min=3)) == 3
    assert least_size(Dim.DYNAMIC) == 0
    assert least_size(Dim.DYNAMIC(min=1)) == 1
    assert least_size(4) is None


def test_ranges_of_which_every_size_is_asked_for() -> None:
    n = Dim("n", max=9)
    assert is_bounded(n)
    assert is_bounded(n + 1)
    assert not is_bounded(2 * n)
    assert not is_bounded(Dim("n"))


@pytest.mark.parametrize("least", [0, 1])
def test_two_names_for_one_size_keep_its_least(least: int) -> None:
    spec = {"args": ({0: Dim("a", min=least)}, {0: Dim("b", min=least)})}
    both = torch.randn(6, 4), torch.randn(6, 4)
    captured = capture_module(Calls(torch.add), both, dynamic_shapes=spec)
    assert [d.minimum for d in ingest(captured)[0].dims] == [least]


def test_a_dimension_one_longer_than_another_has_the_range_of_that() -> None:
    n = Dim("n", min=1, max=9)
    spec = {"args": ({0: n}, {0: n + 1})}
    given = torch.randn(4, 3), torch.randn(5, 3)
    model = Calls(lambda x, y: x + y[1:])
    captured = capture_module(model, given, dynamic_shapes=spec)
    assert [(d.minimum, d.maximum) for d in ingest(captured)[0].dims] == [(1, 9)]


def test_an_example_of_one_row_is_repeated() -> None:
    (x,), kwargs = traceable(((torch.ones(1, 3),), {}), {(0, 0): Dim("n")}, {})
    assert x.shape == (2, 3) and not kwargs


def test_sizes_are_enlarged_as_far_as_their_range_goes() -> None:
    wanted = {(0, 0): Dim("n"), (0, 1): Dim("m", max=10)}
    (x,), _ = traceable(((torch.tensor([[1, 2], [3, 4]]),), {}), wanted, {2: 64})
    assert x.shape == (64, 10)
    assert x[:3, :3].tolist() == [[1, 2, 1], [3, 4, 3], [1, 2, 1]]


@pytest.mark.parametrize("like", [torch.ones(2, 3), torch.ones(3, 2).mT, torch.ones(1)])
def test_layouts_of_known_sizes_are_torch_s(like: torch.Tensor) -> None:
    own = _prims_common.is_contiguous
    with unasked_layouts():
        assert _prims_common.is_contiguous is not own
        assert _prims_common.is_contiguous(like) == like.is_contiguous()
    assert _prims_common.is_contiguous is own


def test_a_result_of_few_elements_is_not_asked_for_its_layout() -> None:
    spec = {"args": ({0: Dim("n", min=2, max=6)},)}
    model = Calls(lambda x: x[1:] - x[:-1])
    captured = capture_module(model, (torch.arange(4.0),), dynamic_shapes=spec)
    (found,) = interpret_lowered(captured, (torch.tensor([1.0, 5.0]),))
    np.testing.assert_array_equal(found, [4.0])


def _moved(x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros_like(x)
    y[:, 1:] = x[:, :-1]
    y[:, 0] = 2
    return y


def _added(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, 1:] += 1
    y[:, :-1].copy_(y[:, 1:] * 2)
    return y


@pytest.mark.parametrize("write", [_moved, _added])
def test_what_is_copied_into_a_part_bounds_no_size(
    write: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    spec = {"args": ({1: Dim("n", min=1, max=9)},)}
    captured = capture_module(Calls(write), (torch.randn(2, 5),), dynamic_shapes=spec)
    assert [(d.minimum, d.maximum) for d in ingest(captured)[0].dims] == [(1, 9)]
    for n in (1, 2, 3, 9):
        x = torch.arange(2.0 * n).reshape(2, n)
        np.testing.assert_array_equal(interpret_lowered(captured, (x,))[0], write(x))


def test_a_copy_into_repeated_elements_is_refused_at_open_sizes_too() -> None:
    spec = {"args": ({0: Dim("n", min=2, max=9)},)}
    repeated = Calls(lambda x: torch.zeros(1).expand(x.shape[0]).copy_(x))
    with pytest.raises(AotError, match="the model itself fails"):
        capture_module(repeated, (torch.randn(5),), dynamic_shapes=spec)


@pytest.mark.parametrize(
    ("least", "call"),
    [
        (1, lambda x: x.topk(max(1, x.shape[0] // 2), 0)[0]),
        (1, lambda x: x[: max(1, x.shape[0] // 2)] * 2),
        (0, lambda x: torch.zeros(max(2, x.shape[0] // 3)) + x.sum()),
    ],
)
def test_extrema_hold_at_sizes_that_torch_skips(
    least: int, call: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    spec = {"args": ({0: Dim("n", min=least, max=9)},)}
    captured = capture_module(Calls(call), (torch.randn(8),), dynamic_shapes=spec)
    for n in range(least, 10):
        x = torch.arange(float(n))
        np.testing.assert_array_equal(interpret_lowered(captured, (x,))[0], call(x))


def test_windows_of_a_padded_length() -> None:
    def windows(x: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.pad(x, (0, 0, 0, -x.shape[1] % 4))
        return y.view(y.shape[0], -1, 4, 3).sum(2)

    spec = {"args": ({0: Dim("b", min=1, max=9), 1: Dim("n", min=1, max=9)},)}
    captured = capture_module(Calls(windows), (torch.randn(2, 5, 3),), dynamic_shapes=spec)
    for n in (1, 4, 7):
        x = torch.arange(3.0 * n).reshape(1, n, 3)
        np.testing.assert_array_equal(interpret_lowered(captured, (x,))[0], windows(x))


def test_sizes_of_a_dict_that_a_catch_all_takes() -> None:
    n = Dim("n", min=1, max=9)
    given = {"x": torch.randn(3, 2), "y": torch.randn(3, 4)}
    model = Calls(lambda d: d["x"].sum(1) + d["y"].sum(1))
    captured = capture_module(model, (given,), dynamic_shapes=(({"x": {0: n}, "y": {0: n}},),))
    assert [(d.minimum, d.maximum) for d in ingest(captured)[0].dims] == [(1, 9)]
