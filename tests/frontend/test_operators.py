"""Custom operators of exported programs: what a call holds, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim

from aot.errors import UnsupportedOperators
from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.ir.flow import CustomCall, Outline, Straight
from aot.ir.printer import print_tensors
from aot.ir.tensors import OperatorCall, TensorGraph, ValueRef
from aot.lowering.outline import outline
from aot.symbolic import dim
from tests import operators

assert operators.LIBRARY


class _Model(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function
        self.weight = torch.nn.Parameter(torch.ones(3, 4))

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(self, *args)


def read(function: Any, *args: torch.Tensor, given: str = "aot_test::*", **more: Any) -> Any:
    return ingest(capture_module(_Model(function), args, **more), (given,))[0]


def calls(graph: TensorGraph) -> list[OperatorCall]:
    return [op for op in graph.ops if isinstance(op, OperatorCall)]


def refusal(function: Any, *args: torch.Tensor, given: str = "aot_test::*") -> str:
    with pytest.raises(UnsupportedOperators) as caught:
        read(function, *args, given=given)
    return str(caught.value)


def test_a_call_has_all_arguments_of_its_schema() -> None:
    def forward(m: Any, x: torch.Tensor) -> Any:
        y = torch.ops.aot_test.every(x, [x, m.weight], None, x.shape[0], axes=[0, -1], w=2)
        return y[0], y[1]

    graph = read(forward, torch.ones(3, 4), dynamic_shapes={"args": ({0: Dim("n")},)})
    (call,) = calls(graph)
    size = dim(graph.dims[0].name)
    assert call.name == "aot_test::every"
    x, weight = ValueRef(graph.inputs[0]), ValueRef(graph.weights[0][0])
    assert call.arguments == (
        ("x", "tensor", x),
        ("xs", "tensor[]", (x, weight)),
        ("bias", "none", None),
        ("n", "int", size),
        ("axes", "int[]", (0, -1)),
        ("w", "float", 2.0),
        ("mode", "string", "plain"),
        ("flags", "bool[]", (True, False)),
        ("dtype", "string", "float32"),
    )
    assert [graph.types[name].shape for name in call.outputs] == [(size, 4), (4,)]
    assert "call aot_test::every(x=%" in print_tensors(graph)


def test_overloads_have_their_name() -> None:
    graph = read(lambda m, x: torch.ops.aot_test.twice.scalar(x, 2), torch.ones(3))
    (call,) = calls(graph)
    assert call.name == "aot_test::twice.scalar"
    assert call.arguments[1] == ("k", "int", 2)


def test_results_are_row_major_and_unused_ones_are_there() -> None:
    def forward(m: Any, x: torch.Tensor) -> Any:
        return torch.ops.aot_test.every(x.t(), [x], None, 3)[1] + 1

    graph = read(forward, torch.ones(3, 4))
    (call,) = calls(graph)
    assert graph.types[call.outputs[0]].strides == (3, 1)


def test_what_no_result_needs_is_not_called() -> None:
    def forward(m: Any, x: torch.Tensor) -> Any:
        torch.ops.aot_test.twice(x)
        return x + 1

    assert not calls(read(forward, torch.ones(3)))


def outlined(function: Any, *args: torch.Tensor) -> Outline[TensorGraph]:
    return outline(read(function, *args))


def test_a_call_stands_between_parts_and_reads_dense_copies() -> None:
    def forward(m: Any, x: torch.Tensor) -> Any:
        y = torch.ops.aot_test.twice(x.t() + 1)
        return torch.ops.aot_test.twice(y) * 3

    first, one, two, last = outlined(forward, torch.ones(3, 4)).flow
    assert isinstance(first, Straight) and isinstance(last, Straight)
    assert isinstance(one, CustomCall) and isinstance(two, CustomCall)
    assert first.graph.outputs == one.operands
    assert first.graph.types[one.operands[0]].strides == (3, 1)
    assert two.operands == one.results


def test_weights_and_inputs_are_read_where_they_lie() -> None:
    def forward(m: Any, x: torch.Tensor) -> Any:
        return torch.ops.aot_test.every(x, [m.weight], None, 3)[0]

    made = outlined(forward, torch.ones(3, 4))
    (call,) = made.flow
    assert isinstance(call, CustomCall)
    assert call.operands == (made.frame.inputs[0], made.frame.weights[0][0])


def test_operators_that_nobody_gives_are_an_error_that_tells_how() -> None:
    text = refusal(lambda m, x: torch.ops.aot_test.twice(x), torch.ones(3), given="other::*")
    assert "aot_test::twice: a custom operator, whose code is not in the model" in text
    assert "--operator aot_test::twice" in text and "--operator-library" in text
    assert "test_operators.py:" in text


def test_operators_of_torch_can_be_given_too() -> None:
    def forward(m: Any, x: torch.Tensor) -> Any:
        return torch.special.airy_ai(x) + 1

    (call,) = calls(read(forward, torch.ones(3), given="aten::special_airy_ai"))
    assert call.name == "aten::special_airy_ai"


def _changes_rows(y: torch.Tensor) -> torch.Tensor:
    torch.ops.aot_test.change(y[1:])
    return y


def _changes_columns(y: torch.Tensor) -> torch.Tensor:
    z = y * 2
    torch.ops.aot_test.change_all([y, z.t()], 3)
    return y + z


def test_what_it_changes_is_a_copy_that_others_read() -> None:
    def forward(m: Any, x: torch.Tensor) -> Any:
        y, z = x + 1, x * 2
        old = torch.ops.aot_test.swap(y, None, z)
        return y, z, old

    graph = read(forward, torch.ones(3, 4))
    (call,) = calls(graph)
    (name, value), (first, kind, argument) = call.changed[0], call.arguments[0]
    assert (first, kind, argument) == ("x", "tensor", ValueRef(name))
    assert call.arguments[1:] == (
        ("y", "none", None),
        ("z", "tensor", ValueRef("mul")),
        ("k", "float", 2.0),
    )
    assert value == "add" and call.operands == ("mul", "add")
    assert graph.outputs == (name, "mul", call.results[0])


REFUSED = {
    "it changes a part of a tensor, its argument x": lambda m, x: _changes_rows(x + 1),
    "it changes a part of a tensor, its argument xs_1": lambda m, x: _changes_columns(x + 1),
    "the sizes of its results depend on the values": lambda m, x: torch.ops.aot_test.some(x),
    "its argument k is a number that tensors or sizes determine": lambda m, x: (
        torch.ops.aot_test.twice.scalar(x, x.sum().item())
    ),
    "it gives a int, not a tensor": lambda m, x: torch.ops.aot_test.count(x)[0],
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refused(reason: str) -> None:
    text = refusal(REFUSED[reason], torch.ones(3, 4))
    assert f": {reason}" in text
    assert "aot_test::" in text
