"""What golden values are made of: example inputs, and eager's results from first values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

from aot import package
from aot.errors import InputMismatch
from aot.frontend.capture import capture_module
from aot.frontend.golden import examples, refused_by_eager
from tests.calls import Calls


def test_sizes_are_outputs_and_constants_are_not() -> None:
    class Sizes(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return {"n": x.shape[0] + 1, "x": x * 2, "half": x.shape[0] / 2, "name": "of x", "k": 3}

    shapes = ({0: Dim("rows", min=1)},)
    captured = capture_module(
        Sizes(), (torch.ones(4),), dynamic_shapes=shapes, extra_inputs=[(torch.ones(7),)]
    )
    first, extra = examples(captured)
    assert [a.tolist() for a in first.outputs] == [5, [2.0] * 4, 2.0]
    assert [a.tolist() for a in extra.outputs] == [8, [2.0] * 7, 3.5]
    assert [a.dtype for a in first.outputs] == [np.int64, np.float32, np.float64]


def test_states_and_inputs_are_as_they_were() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("n", torch.zeros(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.n += x
            x += 1
            return self.n.clone()

    module = Counts()
    captured = capture_module(module, (torch.ones(2),), extra_inputs=[(torch.full((2,), 3.0),)])
    first, extra = examples(captured)
    assert (first.inputs[0].tolist(), first.outputs[0].tolist()) == ([1, 1], [1, 1])
    assert (extra.inputs[0].tolist(), extra.outputs[0].tolist()) == ([3, 3], [3, 3])
    assert module.n.tolist() == [0, 0]


def test_types_that_eager_refuses_are_the_examples_fault(tmp_path: Path) -> None:
    with pytest.raises(InputMismatch, match="the model itself fails") as caught:
        package(nn.Linear(4, 4), (torch.ones(2, 4, dtype=torch.int64),), path=tmp_path / "m.pkg")
    assert "same dtype" in str(caught.value)


def test_what_eager_computes_is_no_fault_of_the_examples() -> None:
    captured = capture_module(nn.ReLU(), (torch.ones(3),))
    with pytest.raises(ValueError, match="ours"), refused_by_eager(captured):
        raise ValueError("ours")


def test_eager_is_asked_as_the_package_runs() -> None:
    """A model that takes derivatives fails where nobody turns gradients on: that is no refusal."""

    def slope(x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()
        return torch.autograd.grad((x**3).sum(), x)[0]

    captured = capture_module(Calls(slope), (torch.ones(3),))
    assert captured.derivatives
    with pytest.raises(ValueError, match="ours"), refused_by_eager(captured):
        raise ValueError("ours")


def test_an_input_that_is_an_output_is_a_copy() -> None:
    (first,) = examples(capture_module(Calls(lambda x: (x, x + 1)), (torch.zeros(2),)))
    assert [a.tolist() for a in first.outputs] == [[0, 0], [1, 1]]


class Scaled(nn.Module):
    def forward(self, x: torch.Tensor, *, by: torch.Tensor, plus: torch.Tensor) -> torch.Tensor:
        return x * by + plus


def test_extra_keyword_inputs_fill_up_from_the_example() -> None:
    one, two = torch.ones(1), torch.full((1,), 2.0)
    captured = capture_module(
        Scaled(), (one,), {"by": two, "plus": one}, extra_kwargs=[{"by": one}, {"plus": two}]
    )
    assert [e.outputs[0].item() for e in examples(captured)] == [3, 2, 4]


def test_extra_inputs_are_as_many_by_place_as_by_name() -> None:
    one = torch.ones(1)
    with pytest.raises(InputMismatch, match="1 extra inputs and 2 extra keyword inputs"):
        capture_module(
            Scaled(),
            (one,),
            {"by": one, "plus": one},
            extra_inputs=[(one,)],
            extra_kwargs=[{}, {}],
        )
