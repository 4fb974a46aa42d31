"""Loops over the true elements of a mask are packaged, whatever elements are true in a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import aot_runtime
import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.testing import assert_close

import aot
from aot.errors import ExportError
from aot.frontend.capture import Captured, capture_module
from tests.calls import Calls
from tests.conformance.executors import interpret_lowered
from tests.settings import level

Tensor = torch.Tensor


class Experts(nn.Module):
    """Rows go to the expert of their greatest element; experts that nobody asks for are left."""

    def __init__(self, most: int = 4) -> None:
        super().__init__()
        self.experts = nn.ModuleDict({f"expert_{k}": nn.Linear(4, 4) for k in range(4)})
        self.most = most

    def forward(self, x: Tensor) -> Tensor:
        out = torch.zeros_like(x)
        chosen = nn.functional.one_hot(x.argmax(-1) + self.most - 4, self.most).T
        for expert in chosen.sum(-1).gt(0).nonzero():
            (rows,) = torch.where(chosen[expert[0]])
            out.index_add_(0, rows, self.experts[f"expert_{expert[0]}"](x[rows]))
        return out


def inputs() -> list[Tensor]:
    """Of which no, one, several and all experts have rows."""
    torch.manual_seed(0)
    return [torch.empty(0, 4), torch.eye(4)[[2]], torch.randn(3, 4), torch.eye(4)[[3, 1, 0, 2, 1]]]


def test_experts_that_have_rows_and_that_have_none(tmp_path: Path) -> None:
    model, path = Experts().eval(), tmp_path / "m.pkg"
    shapes = ({0: Dim("rows", min=0)},)
    target = [f"cpu:{level()}"]
    aot.package(model, (torch.randn(6, 4),), path=path, targets=target, dynamic_shapes=shapes)
    packaged = aot_runtime.load(path)
    for x in inputs():
        with torch.no_grad():
            assert_close(packaged(x), model(x))


def test_a_turn_that_fails_is_refused_when_it_is_made() -> None:
    # The fifth element of the mask has no expert.
    captured = capture_module(Experts(5).eval(), (torch.eye(4)[[0, 1, 2]],))
    with pytest.raises(Exception, match="KeyError: 'expert_4'"):
        interpret_lowered(captured, (torch.eye(4)[[0, 1, 3]],))
    with torch.no_grad():
        (found,) = interpret_lowered(
            capture_module(Experts(4).eval(), (torch.eye(4)[:3],)), (torch.eye(4)[:3],)
        )
    assert found.shape == (3, 4)


# ---- what turns may do ----


def _rows_of_a_matrix(x: Tensor) -> Tensor:
    out = torch.zeros(3)
    for row in (x > 0).nonzero():
        out[row[0]] += x[row[0], row[1]] * (row[1] + 1)
    return out


def _columns(x: Tensor) -> Tensor:
    out = torch.zeros(3)
    for k in (x > 0).any(0).nonzero()[:, 0]:
        out[k] = x[:, k].sum()
    return out


def _flat(x: Tensor) -> Tensor:
    out = torch.zeros(3)
    for k in torch.where((x > 0).any(0))[0]:
        out[k].sub_(x[:, k].max())
    return out


def _squeezed(x: Tensor) -> Tensor:
    out, seen = x.clone(), torch.zeros((), dtype=torch.int64)
    for k in (x > 0).any(1).nonzero().squeeze(-1):
        if k == 1:
            continue
        out[int(k)] *= 2
        seen += 1
    return out / (seen + 1)


def _within(x: Tensor) -> Tensor:
    out = torch.zeros(3)
    for i in (x > 0).any(1).nonzero():
        for k in (x[i[0]] > 1).nonzero():
            out[k[0]] += x[i[0], k[0]]
        out[0] += 1
    return out


def _order(x: Tensor) -> Tensor:
    last = torch.zeros(())
    for k in (x > 0).any(0).nonzero():
        last.copy_(last * 2 + x[:, k[0]].sum())
    return last


LOOPS = (_rows_of_a_matrix, _columns, _flat, _squeezed, _within, _order)


@pytest.mark.parametrize("function", LOOPS)
def test_turns_write_into_what_was_there(function: Callable[[Tensor], Tensor]) -> None:
    torch.manual_seed(1)
    captured = capture_module(Calls(function), (torch.randn(3, 3),))
    for x in (torch.randn(3, 3), torch.rand(3, 3) + 1, -torch.ones(3, 3), torch.eye(3) * 2):
        (found,) = interpret_lowered(captured, (x,))
        assert_close(torch.as_tensor(found), function(x))


# ---- what they may not ----


def _counts(x: Tensor) -> Tensor:
    n = 0
    for _ in (x > 0).any(0).nonzero():
        n += 1
    return x * n


def _collects(x: Tensor) -> Tensor:
    rows = []
    for k in (x > 0).any(0).nonzero():
        rows.append(x[:, k[0]])
    return torch.stack(rows)


def _carries(x: Tensor) -> Tensor:
    out = x
    for k in (x > 0).any(0).nonzero():
        out = out + x[:, k[0]]
    return out


def _last(x: Tensor) -> Tensor:
    y = x.sum()
    for k in (x > 0).any(0).nonzero():
        y = x[:, k[0]]
    return y


def _last_view(x: Tensor) -> Tensor:
    k = torch.zeros(1, dtype=torch.int64)
    for k in (x > 0).any(0).nonzero():  # noqa: B007
        pass
    return x[k[0]]


def _old_tensor(x: Tensor) -> Tensor:
    y, z = x, x + 1
    for _ in (x > 0).any(0).nonzero():
        y = z
    return y * 2


def _breaks(x: Tensor) -> Tensor:
    out = torch.zeros(3)
    for k in (x > 0).any(0).nonzero():
        out[k[0]] = 1
        if k[0] == 1:
            break
    return out


def _leaves(x: Tensor) -> Tensor:
    for k in (x > 0).any(0).nonzero():
        return x[:, k[0]]
    return x[0]


def _remembers(x: Tensor) -> Tensor:
    seen = {"turns": 0}

    def count() -> None:
        seen["turns"] += 1

    for _ in (x > 0).any(0).nonzero():
        count()
    return x * seen["turns"]


def _enumerates(x: Tensor) -> Tensor:
    out = torch.zeros(3)
    for number, k in enumerate((x > 0).any(0).nonzero()):
        out[k[0]] = number
    return out


def _lists(x: Tensor) -> Tensor:
    return x * len(list((x > 0).any(0).nonzero()))


def _walks(x: Tensor) -> Tensor:
    out, numbers = torch.zeros(3), iter(range(9))
    for k in (x > 0).any(0).nonzero():
        out[k[0]] = next(numbers)
    return out


def _changes_rows(x: Tensor) -> Tensor:
    out, rows = torch.zeros(3), (x > 0).any(0).nonzero()
    rows.sub_(1)
    for k in rows:
        out[k[0]] = 1
    return out


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (_counts, "changes the name 'n'"),
        (_collects, "changes what is in rows"),
        (_carries, "changes the name 'out'"),
        (_last, "changes the name 'y'"),
        (_last_view, "changes the name 'k'"),
        (_old_tensor, "changes the name 'y'"),
        (_breaks, "leaves it before its end"),
        (_leaves, "leaves it before its end"),
        (_remembers, "changes what is in seen"),
        (_enumerates, "values of a tensor"),
        (_lists, "values of a tensor"),
        (_walks, "changes what is in numbers"),
        (_changes_rows, "values of a tensor"),
    ],
)
def test_turns_that_leave_more_behind_are_refused(function: Any, text: str) -> None:
    with pytest.raises(ExportError) as raised:
        _capture(function)
    assert text in str(raised.value)


def _capture(function: Any) -> Captured:
    return capture_module(Calls(function), (torch.rand(3, 3),))


def test_objects_of_the_model_may_not_change() -> None:
    class Counting(nn.Module):
        turns = 0

        def forward(self, x: Tensor) -> Tensor:
            for _ in (x > 0).any(0).nonzero():
                self.turns += 1
            return x * self.turns

    with pytest.raises(ExportError, match="a turn of it changes what is in self"):
        capture_module(Counting(), (torch.rand(3, 3),))


def test_an_assertion_of_a_turn_holds_only_where_it_is_made() -> None:
    def asserts(x: Tensor) -> Tensor:
        out = torch.zeros(3)
        for k in (x > 0).any(0).nonzero():
            torch._assert_async((x[:, k[0]] > 0).all(), "all or none")
            out[k[0]] = 1
        return out

    captured = _capture(asserts)
    (found,) = interpret_lowered(captured, (torch.tensor([[1.0, -1, 1]] * 3),))
    assert found.tolist() == [1, 0, 1]
    with pytest.raises(Exception, match="all or none"):
        interpret_lowered(captured, (torch.tensor([[1.0, -1, 1], [-1, -1, 1], [1, -1, 1]]),))


def test_masks_of_many_elements_are_not_taken_apart() -> None:
    def walks(x: Tensor) -> Tensor:
        out = torch.zeros(600)
        for k in (x > 0).nonzero():
            out[k[0]] = 1
        return out

    with pytest.raises(ExportError):
        capture_module(Calls(walks), (torch.rand(600),))
