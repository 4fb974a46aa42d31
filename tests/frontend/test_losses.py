"""CTC losses are a loop over the steps, however many there are; margins end where targets do."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.export import Dim
from torch.nn import functional as F

from aot.frontend.capture import capture_module
from tests.calls import Calls
from tests.conformance.executors import interpret_lowered


def test_one_program_has_any_number_of_steps() -> None:
    rows, wanted = torch.tensor([[1, 1, 3], [2, 4, 0]]), torch.tensor([3, 2])

    def loss(probs: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        return F.ctc_loss(probs, rows, seen, wanted, reduction="none")

    def inputs(steps: int) -> tuple[torch.Tensor, torch.Tensor]:
        probs = torch.randn(steps, 2, 5, generator=torch.Generator().manual_seed(steps))
        return probs.log_softmax(2), torch.tensor([steps, steps - 2])

    shapes = (({0: Dim("steps", min=4, max=64)}, None),)
    captured = capture_module(Calls(loss), inputs(9), dynamic_shapes=shapes)
    for steps in (9, 4, 17):
        (found,) = interpret_lowered(captured, inputs(steps))
        np.testing.assert_allclose(found, loss(*inputs(steps)), rtol=1e-5)


def test_targets_in_one_row_take_their_lengths_from_tensors_or_numbers() -> None:
    probs = torch.randn(8, 2, 5).log_softmax(2)
    flat, seen = torch.tensor([1, 2, 2, 3, 4]), (8, 8)
    for wanted in ((3, 2), torch.tensor([3, 2])):

        def loss(x: torch.Tensor, wanted: object = wanted) -> torch.Tensor:
            lengths = torch.tensor(seen) if isinstance(wanted, torch.Tensor) else seen
            return F.ctc_loss(x, flat, lengths, wanted, zero_infinity=True)  # type: ignore[arg-type]

        (found,) = interpret_lowered(capture_module(Calls(loss), (probs,)), (probs,))
        np.testing.assert_allclose(found, loss(probs), rtol=1e-5)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("rows", [(), (3,)])
def test_targets_of_a_row_end_at_the_first_that_is_none(
    rows: tuple[int, ...], reduction: str
) -> None:
    """torch's own decomposition counts class 0 for each one behind it."""
    x = torch.randn(*rows, 5, generator=torch.Generator().manual_seed(1))
    target = torch.tensor([[2, -1, 0, 3, 1], [4, 0, 1, -1, 2], [-1, 3, 3, 3, 3]])[: len(x)]
    target = target if rows else target[0]

    def loss(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.multilabel_margin_loss(x, target, reduction=reduction)

    (found,) = interpret_lowered(capture_module(Calls(loss), (x, target)), (x, target))
    np.testing.assert_allclose(found, loss(x, target), rtol=1e-6)


def test_checks_of_all_elements_are_lowered() -> None:
    def both(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch._is_all_true(x > 0), torch._is_any_true(x > 0)

    for x in (torch.tensor([1.0, -1.0]), torch.ones(2), -torch.ones(2)):
        found = interpret_lowered(capture_module(Calls(both), (x,)), (x,))
        assert [bool(f) for f in found] == [bool(r) for r in both(x)]
