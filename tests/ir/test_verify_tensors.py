"""Each invariant of the tensor graph is broken once, in graphs that were right before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from aot.errors import InternalError
from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.ir.tensors import Block, Cond, Loop, Mutation, TensorGraph, TensorOp, ValueRef
from aot.ir.verify_tensors import verify_tensors
from aot.report.texts import verify_stage
from aot.symbolic import dim
from tests.hostile.packages import cases
from tests.settings import seeded

Change = Callable[[TensorGraph], TensorGraph]


def graph_of(name: str) -> TensorGraph:
    case = cases()[name]
    torch.manual_seed(seeded())
    shapes = case.options.get("dynamic_shapes")
    captured = capture_module(case.model().eval(), case.inputs, dynamic_shapes=shapes)
    return ingest(captured)[0]


def op_of(graph: TensorGraph, kind: type) -> int:
    return next(k for k, op in enumerate(graph.ops) if isinstance(op, kind))


def with_op(graph: TensorGraph, kind: type, **changes: object) -> TensorGraph:
    """The graph with other fields of its first operator of a kind."""
    at = op_of(graph, kind)
    ops = list(graph.ops)
    ops[at] = replace(ops[at], **changes)
    return replace(graph, ops=tuple(ops))


@pytest.mark.parametrize("name", sorted(cases()))
def test_graphs_of_models_are_right(name: str) -> None:
    verify_tensors(graph_of(name))


def _twice(graph: TensorGraph) -> TensorGraph:
    return replace(graph, inputs=(*graph.inputs, graph.inputs[0]))


def _untyped(graph: TensorGraph) -> TensorGraph:
    types = {name: t for name, t in graph.types.items() if name != graph.outputs[0]}
    return replace(graph, types=types)


def _other_dim(graph: TensorGraph) -> TensorGraph:
    name = graph.inputs[0]
    wide = replace(graph.types[name], shape=(dim("s99"), *graph.types[name].shape[1:]))
    return replace(graph, types={**graph.types, name: wide})


def _too_early(graph: TensorGraph) -> TensorGraph:
    return replace(graph, ops=tuple(reversed(graph.ops)))


def _no_output(graph: TensorGraph) -> TensorGraph:
    return replace(graph, outputs=("nothing",))


def _no_mutation_value(graph: TensorGraph) -> TensorGraph:
    return replace(graph, mutations=(Mutation(graph.inputs[0], "nothing"),))


def _mutated_twice(graph: TensorGraph) -> TensorGraph:
    mutation = Mutation(graph.inputs[0], graph.outputs[0])
    return replace(graph, mutations=(mutation, mutation))


def _mutated_result(graph: TensorGraph) -> TensorGraph:
    return replace(graph, mutations=(Mutation(graph.outputs[0], graph.outputs[0]),))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (_twice, "2 values are called"),
        (_untyped, "has no type"),
        (_other_dim, "is not over the dims"),
        (_too_early, "is read before anything makes it"),
        (_no_output, "the result nothing is not a value of the graph"),
        (_no_mutation_value, "the result nothing is not a value of the graph"),
        (_mutated_twice, "it is no input or state, or has another"),
        (_mutated_result, "it is no input or state, or has another"),
    ],
)
def test_broken_graphs(change: Change, problem: str) -> None:
    with pytest.raises(InternalError, match=problem):
        verify_tensors(change(graph_of("mlp_batch")))


def test_branches_without_their_results() -> None:
    graph = graph_of("cond")
    branch = graph.ops[op_of(graph, Cond)]
    assert isinstance(branch, Cond)
    less = with_op(graph, Cond, then=replace(branch.then, results=()))
    with pytest.raises(InternalError, match="a block has 0 results, 1 are wanted"):
        verify_tensors(less)
    inner = branch.then.ops[0].outputs[0]
    assert inner is not None
    # What one block makes the other does not know.
    other = with_op(graph, Cond, otherwise=Block((), (inner,)))
    with pytest.raises(InternalError, match="of a block is unknown there"):
        verify_tensors(other)
    reading = TensorOp("aten.neg.default", (ValueRef(inner),), (), ("after",), branch.origin)
    late = replace(
        graph,
        ops=(*graph.ops, reading),
        types={**graph.types, "after": graph.types[inner]},
    )
    with pytest.raises(InternalError, match=f"{inner} is read before anything makes it"):
        verify_tensors(late)


def test_loops() -> None:
    graph = graph_of("while")
    loop = graph.ops[op_of(graph, Loop)]
    assert isinstance(loop, Loop)
    with pytest.raises(InternalError, match="either a condition or a count"):
        verify_tensors(with_op(graph, Loop, condition=None))
    with pytest.raises(InternalError, match="results, 2 are wanted"):
        verify_tensors(with_op(graph, Loop, body=replace(loop.body, results=())))


class Twice(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


def test_ingested_graphs_are_checked_in_builds() -> None:
    graph, weights = ingest(capture_module(Twice(), (torch.ones(3),)))
    verify_stage((graph, weights))
    with pytest.raises(InternalError, match="is not a value"):
        verify_stage((_no_output(graph), weights))
