"""What a model decides on sizes: heard, read from operators, and tried at 0 and 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import Dim

from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.ir.tensors import SizeRelation, TensorGraph
from aot.symbolic import dim, evaluate
from tests.calls import Calls

X = torch.arange(18.0).reshape(6, 3)


def read(function: Callable[..., Any], *args: torch.Tensor, **dims: Any) -> TensorGraph:
    """The graph of a function of tensors with dynamic rows: `n` of the first, `m` of others."""
    specs = tuple({0: dims["n" if k == 0 else "m"]} for k in range(len(args)))
    captured = capture_module(Calls(function), args, dynamic_shapes={"args": specs})
    return ingest(captured)[0]


def messages(graph: TensorGraph) -> list[str]:
    return [r.message for r in graph.relations]


def test_sizes_that_are_left_open_are_checked_by_runs() -> None:
    graph = read(lambda x: x * 2 if x.shape[0] > 1 else x * 3, X, n=Dim("n"))
    (message,) = messages(graph)
    assert message.startswith("the model needs n > 1, as it decides at ")
    empty = read(lambda x: x.new_zeros(1, 3) if x.shape[0] == 0 else x * 2, X, n=Dim("n"))
    assert "n != 0" in messages(empty)[0]
    true = read(lambda x: x * 2 if x.shape[0] else x.new_ones(1), X, n=Dim("n"))
    assert "n != 0" in messages(true)[0]


def test_unequal_sizes_stay_unequal() -> None:
    def either(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.sum() + y.sum() if x.shape[0] != y.shape[0] else (x * y).sum()

    graph = read(either, X, torch.ones(4, 3), n=Dim.AUTO, m=Dim.AUTO)
    (relation,) = graph.relations
    assert (str(relation.left), relation.relation) == ("1", "<=")
    assert "!=" in relation.message


def test_conditions_of_several_comparisons() -> None:
    def decide(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        a: Any = x.shape[0] > 4
        b: Any = y.shape[0] > 9
        return x * 2 if a | b else x * 3

    (message,) = messages(read(decide, X, torch.ones(5, 3), n=Dim.AUTO, m=Dim.AUTO))
    assert message.startswith("the model needs what its example decides at ")


def test_a_decision_that_makes_no_difference_is_none() -> None:
    for n in (Dim("n"), Dim("n", min=1, max=64)):
        graph = read(lambda x: x * 2 if x.shape[0] > 1 else x + x, X, n=n)
        assert not graph.relations


def test_a_size_that_eager_refuses_says_nothing_of_another() -> None:
    """reshape raises for no rows, where its -1 may be anything; one row is as others are."""

    def spread(x: torch.Tensor) -> torch.Tensor:
        lone = x[:1].amax(1)
        rows = lone.expand(x.shape[0]) if x.shape[0] != lone.shape[0] else lone
        return x.reshape(x.shape[0], -1, 3)[:, 0] + rows[:, None]

    assert all(" <= " in m for m in messages(read(spread, X, n=Dim("n"))))
    from_none = read(
        lambda x: x.reshape(x.shape[0], -1, 3) * (2 if x.shape[0] > 1 else 2.0), X, n=Dim("n")
    )
    (message,) = messages(from_none)
    assert message.startswith("the model needs n > 0, as it decides at ")


ASSERTS = """
def bounded(x, lengths):
    assert lengths.max().item() <= x.shape[0]
    return x * 2
"""


def test_what_is_asserted_of_a_value_is_left_to_the_run() -> None:
    names: dict[str, Any] = {}  # pytest makes something else of an assertion of its own
    exec(compile(ASSERTS, "/models/bounded.py", "exec"), names)
    n = Dim("n", min=2, max=50)
    captured = capture_module(
        Calls(names["bounded"]), (X, torch.tensor([3, 4])), dynamic_shapes={"args": ({0: n}, None)}
    )
    assert captured.program.module()(X, torch.tensor([3, 6])).equal(X * 2)


def test_a_window_that_is_not_full_starts_at_the_front() -> None:
    graph = read(lambda x: x[-50:] * 2, X, n=Dim("n"))
    (only,) = graph.dims
    held = [all(_holds(r, {only.name: n}) for r in graph.relations) for n in (2, 6, 49, 51)]
    assert held == [True, True, True, False]


def test_a_trial_leaves_buffers_as_they_were() -> None:
    class Counts(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("runs", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.runs += 1
            return x * 2 if x.shape[0] > 1 else x + x

    module = Counts()
    captured = capture_module(module, (X,), dynamic_shapes=({0: Dim("n")},))
    graph, _ = ingest(captured)
    assert not graph.relations
    assert float(module.runs) == 0
    assert all(float(value) == 0 for value in captured.program.state_dict.values())


@pytest.mark.parametrize(
    ("function", "least"),
    [
        (lambda x: x[0] + 1, 1),
        (lambda x: x[-1] + 1, 1),
        (lambda x: x[-1:] + 1, 1),
        (lambda x: x[:1] + 1, 1),
        (lambda x: x[1:] * 2, 1),
        (lambda x: x.narrow(0, 0, 2) * 2, 2),
    ],
    ids=["first", "last", "end", "some", "rest", "narrow"],
)
def test_nothing_is_read_that_is_not_there(function: Callable[..., Any], least: int) -> None:
    """torch says nothing of sizes below 2: a run of no rows would read in front of memory."""
    graph = read(function, X, n=Dim("n"))
    (only,) = graph.dims
    values = {only.name: least}

    def holds(n: int) -> bool:
        values[only.name] = n
        return all(_holds(r, values) for r in graph.relations)

    assert only.minimum <= least
    assert [holds(n) for n in (least - 1, least, least + 1, 100)] == [False, True, True, True]


def _holds(relation: SizeRelation, values: dict[str, int]) -> bool:
    at = {dim(name): n for name, n in values.items()}
    left, right = evaluate(relation.left, at), evaluate(relation.right, at)
    return bool({"<": left < right, "<=": left <= right, "==": left == right}[relation.relation])
