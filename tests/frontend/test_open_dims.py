"""How dimensions that shall be open are given to torch.export."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import _prims_common
from torch.export import Dim

from aot.frontend.capture import capture_module
from aot.frontend.open_dims import as_hints, traceable, unasked_layouts, without_lower_bound
from tests.calls import Calls
from tests.conformance.executors import interpret_lowered


def test_named_dimensions_become_hints_with_their_bounds() -> None:
    n = Dim("n", max=9)
    (hint,) = as_hints([{0: n}])[0].values()
    assert (hint.min, hint.max) == (None, 9)
    derived = [{0: n}, {0: 2 * n}]
    assert as_hints(derived) is derived


def test_a_range_without_a_least_size() -> None:
    assert without_lower_bound(Dim("n"))
    assert not without_lower_bound(Dim("n", min=3))


def test_an_example_of_one_row_is_repeated() -> None:
    (x,), kwargs = traceable(((torch.ones(1, 3),), {}), {(0, 0): Dim("n")})
    assert x.shape == (2, 3) and not kwargs


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
