"""A model that decides by numbers of sizes holds for the sizes that decide as the example does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import Dim

from aot.errors import DynamicShapeError
from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.ir.tensors import TensorGraph
from tests.calls import Calls

N = Dim("n", min=4, max=100)


def read(function: Callable[[torch.Tensor], Any], **dims: Any) -> TensorGraph:
    """The graph of a function of 37 x 9 with dynamic rows (n) or columns (m)."""
    spec = {axis: dims[name] for axis, name in enumerate("nm") if name in dims}
    captured = capture_module(
        Calls(function), (torch.ones(37, 9),), dynamic_shapes={"args": (spec,)}
    )
    return ingest(captured)[0]


@pytest.mark.parametrize(
    ("decide", "needed"),
    [
        (lambda x: x * (2 if x.shape[0] * 0.5 > 10 else 1), r"n >= 21, as it decides by 0.5 \*"),
        (lambda x: x * (2 if x.shape[0] ** 0.5 < 8 else 1), r"n <= 63, as it decides by"),
        (lambda x: x * min(x.shape[0] * 0.5, 10.0), r"n >= 21, as it decides by"),
        (lambda x: x * (2 if (x.shape[0] / 2).is_integer() else 1), r"n >= 37"),
        (lambda x: x * len(range(int(x.shape[0] * 0.5))), r"the model needs \(n // 2\) == 18"),
    ],
)
def test_sizes_that_would_decide_otherwise_are_refused(
    decide: Callable[[torch.Tensor], Any], needed: str
) -> None:
    with pytest.raises(DynamicShapeError, match=needed):
        read(decide, n=N)


def test_what_holds_for_all_sizes_is_no_condition() -> None:
    assert not read(lambda x: x * (2 if x.shape[0] * 0.5 > 1 else 1), n=N).relations


def test_without_a_bound_runs_are_held_to_it() -> None:
    graph = read(lambda x: x * (2 if x.shape[0] / 3 < 1e5 else 1), n=Dim("n"))
    (relation,) = graph.relations
    assert relation.message == "the model needs n <= 299999, as it decides by n / 3 < 100000.0"
    assert not read(lambda x: x * (2 if x.shape[0] * 0.5 > 0 else 1), n=Dim("n", min=1)).relations


def test_several_sizes_are_compared_as_whole_numbers_or_not_at_all() -> None:
    sizes = {"n": N, "m": Dim("m", min=2, max=64)}

    def decide(x: torch.Tensor, most: float) -> torch.Tensor:
        return x * (2 if x.shape[0] / x.shape[1] < most else 1)

    assert not read(lambda x: decide(x, 51), **sizes).relations
    with pytest.raises(DynamicShapeError, match=r"otherwise where n = .*2 \* h > 3 \* w"):
        read(lambda x: decide(x, 5), **sizes)


def test_a_factor_of_several_sizes_is_a_constant_to_torch() -> None:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        factor = 32 / max(x.shape)
        return torch.nn.functional.interpolate(x[None, None], scale_factor=factor)

    with pytest.raises(DynamicShapeError, match="give it the size that it makes"):
        read(scaled, n=N, m=Dim("m", min=2, max=64))


def test_a_division_by_a_size_that_may_be_0_is_told() -> None:
    sizes = {"n": Dim("n", max=100), "m": Dim("m", max=64)}
    with pytest.raises(DynamicShapeError, match=r"division by 0 where n = 0.* least one"):
        read(lambda x: x * (2 if 32 * x.shape[1] / x.shape[0] < 99 else 1), **sizes)
