"""Outlines: which operators stand together, and what passes between parts."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from aot.errors import UnsupportedOperators
from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.ir.flow import Branch, Copy, Outline, Repeat, Straight, items_of, parts_of
from aot.ir.tensors import TensorGraph
from aot.lowering.lower import lower_outline
from aot.lowering.outline import outline


class _Model(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function, self.linear = function, torch.nn.Linear(4, 4)

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(self, *args)


def outlined(function: Any, *args: torch.Tensor) -> Outline[TensorGraph]:
    return outline(ingest(capture_module(_Model(function), args))[0])


def targets(graph: TensorGraph) -> list[str]:
    return [op.target.split(".")[1] for op in graph.ops]


def test_a_model_without_control_flow_is_its_only_part() -> None:
    graph, _ = ingest(capture_module(_Model(lambda m, x: x.sin()), (torch.ones(3),)))
    assert outline(graph).only is graph


def test_only_what_waits_for_a_branch_comes_after_it() -> None:
    def forward(m: Any, x: torch.Tensor) -> Any:
        y = torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))
        return y.exp() * x.tanh()

    made = outlined(forward, torch.ones(3, 4))
    first, branch, last = made.flow
    assert isinstance(first, Straight) and isinstance(branch, Branch) and isinstance(last, Straight)
    assert targets(first.graph) == ["sum", "gt", "tanh"]
    assert targets(last.graph) == ["exp", "mul"]
    assert first.graph.outputs == (branch.predicate, "tanh")
    arms = [targets(part) for flow in (branch.then, branch.otherwise) for part in parts_of(flow)]
    assert arms == [["sin", "clone"], ["cos", "clone"]]


def test_operators_on_weights_alone_are_in_every_part_that_reads_them() -> None:
    def forward(m: Any, x: torch.Tensor) -> Any:
        w = m.linear.weight.exp()
        return torch.cond(x.sum() > 0, lambda x: x @ w, lambda x: x + 1, (x @ w,))

    parts = parts_of(outlined(forward, torch.ones(3, 4)).flow)
    assert sum("exp" in targets(part) for part in parts) == 2
    assert not any("exp" in part.outputs for part in parts)


def test_a_loop_copies_what_it_carries_and_walks_over_slices() -> None:
    def forward(m: Any, x: torch.Tensor) -> Any:
        from torch._higher_order_ops.scan import scan

        return scan(lambda c, a: (c + a, a * 2), x[0], x)

    made = outlined(forward, torch.ones(3, 4))
    loop = next(item for item in made.flow if isinstance(item, Repeat))
    assert loop.count == 3 and not loop.condition
    assert [s.source for s in loop.slices] == [*made.frame.inputs, made.frame.outputs[1]]
    copies = [item.target for item in items_of(made.flow) if isinstance(item, Copy)]
    assert copies == [made.frame.outputs[0]] * 2, "before the loop, and at the end of its body"


def test_missing_operators_of_all_parts_are_one_error() -> None:
    def forward(m: Any, x: torch.Tensor) -> Any:
        def other(x: torch.Tensor) -> torch.Tensor:
            return torch.ops.aten.upsample_linear1d_backward(x[None], [4], [1, 4, 4], False)[0]

        chosen = torch.cond(x.sum() > 0, other, lambda x: x + 1, (x,))
        image, sizes = chosen[None, None], [1, 1, 4, 4]
        return torch.ops.aten.upsample_nearest2d_backward(image, [4, 4], sizes, None, None)

    with pytest.raises(UnsupportedOperators) as caught:
        lower_outline(outlined(forward, torch.ones(4, 4)))
    names = {item.operator for item in caught.value.missing}
    wanted = {"aten.upsample_linear1d_backward.default", "aten.upsample_nearest2d_backward.default"}
    assert wanted <= names, names
