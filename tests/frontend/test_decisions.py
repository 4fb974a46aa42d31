"""A decision of which one side only raises is an assertion; others may be those of the example."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import aot_runtime
import numpy as np
import pytest
import torch
from aot_runtime.format.reader import PackageFile
from aot_runtime.tools.inspect import inspect_text
from torch import nn
from torch.export import Dim

import aot
from aot.errors import ExportError
from aot.frontend.capture import Captured, capture_module
from aot.frontend.decisions import MOST, checks_of
from aot.frontend.ingest import ingest
from aot.ir.tensors import Assertion
from tests.calls import Calls
from tests.conformance.executors import interpret_lowered
from tests.settings import level

Tensor = torch.Tensor
X = torch.tensor([[0.5, 1.0, 2.0], [3.0, 0.25, 1.5]])


def _messages(captured: Captured) -> list[str]:
    return [op.message for op in ingest(captured)[0].ops if isinstance(op, Assertion)]


def _capture(model: Callable[..., Any], **options: Any) -> Captured:
    return capture_module(Calls(model), (X,), **options)


# ---- what becomes an assertion ----


def _raises(x: Tensor) -> Tensor:
    if (x < 0).any():
        raise ValueError("negative")
    return x + 1


def _asserts(x: Tensor) -> Tensor:
    if not (x >= 0).all():  # What assert is: pytest writes its own.
        raise AssertionError(f"from {x.min()} to {x.max().item():.2f}")
    return x + 1


def _is_bad(x: Tensor) -> bool:
    return bool((x < 0).any())


def _asks_a_helper(x: Tensor) -> Tensor:
    if _is_bad(x):
        raise ValueError("negative")
    return x + 1


def _of_a_number(x: Tensor) -> Tensor:
    if not (x >= 0).all().item():
        raise ValueError("negative")
    return x + 1


def _of_two_tensors(x: Tensor) -> Tensor:
    if not torch.equal(x, x.abs()):
        raise ValueError("negative")
    if not x.allclose(x.abs()):
        raise ValueError("negative by far")
    return x + 1


def _many_times(x: Tensor) -> Tensor:
    for row in (x, x * 2, x + 1):
        if (row < 0).any():
            raise ValueError("negative")
    return x + 1


@pytest.mark.parametrize(
    ("model", "messages"),
    [
        (_raises, ["ValueError: negative"]),
        (_asserts, ["AssertionError: from … to …"]),
        (_asks_a_helper, ["ValueError: negative"]),
        (_of_a_number, ["ValueError: negative"]),
        (_of_two_tensors, ["ValueError: negative", "ValueError: negative by far"]),
        (_many_times, ["ValueError: negative"] * 3),
    ],
)
def test_a_side_that_only_raises_is_an_assertion(
    model: Callable[..., Any], messages: list[str]
) -> None:
    captured = _capture(model)
    assert _messages(captured) == messages
    (found,) = interpret_lowered(captured, (X,))
    np.testing.assert_array_equal(found, X.numpy() + 1)
    with pytest.raises(Exception, match=messages[0].partition(": ")[2].partition(" ")[0]):
        interpret_lowered(captured, (-X,))


def test_functions_of_torch_that_check_are_traced_too() -> None:
    captured = _capture(lambda x: nn.functional.gaussian_nll_loss(x, x + 1, x))
    assert _messages(captured) == ["ValueError: var has negative entry/entries"]


# ---- what does not ----


def _depends_on_a_value(x: Tensor) -> Tensor:
    if (x < 0).any() and x.min().item() < -5:
        raise ValueError("very negative")
    return x + 1


def _nested(x: Tensor) -> Tensor:
    if (x < 0).any():
        v = x.min().item()
        if v < 9:
            raise ValueError("negative")
    return x + 1


def _fails_by_itself(x: Tensor) -> Tensor:
    return x.reshape(7, 7) if (x < 0).any() else x + 1


@pytest.mark.parametrize(
    "model",
    [_depends_on_a_value, _nested, _fails_by_itself],
)
def test_a_side_that_does_more_is_refused(model: Callable[..., Any]) -> None:
    with pytest.raises(ExportError, match="a decision of the model depends on the values"):
        _capture(model)


def _of_its_size(x: Tensor) -> Tensor:
    if (x < 0).any() and x.shape[0] == 2:
        raise ValueError("a negative pair")
    return x + 1


def test_an_open_size_may_not_decide_whether_it_raises() -> None:
    assert len(_messages(_capture(_of_its_size))) == 1
    shapes = ({0: Dim("rows", min=2, max=8)},)
    with pytest.raises(ExportError):
        _capture(_of_its_size, dynamic_shapes=(shapes,))
    assert len(_messages(_capture(_raises, dynamic_shapes=(shapes,)))) == 1


# ---- what a look at the model leaves behind ----


class _Counting(nn.Module):
    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.seen.add_(1)
        if (x < 0).any():
            raise ValueError("negative")
        return x + self.seen


def test_states_are_as_they_were() -> None:
    model = _Counting()
    captured = capture_module(model, (X,))
    assert model.seen == 0
    assert len(_messages(captured)) == 1


def test_torchs_functions_are_as_they_were() -> None:
    before = torch.Tensor.__bool__, torch.Tensor.item, torch.equal, torch.Tensor.__format__
    _capture(_asserts)
    assert before == (
        torch.Tensor.__bool__,
        torch.Tensor.item,
        torch.equal,
        torch.Tensor.__format__,
    )
    assert not {"__bool__", "item", "equal"} & vars(torch.Tensor).keys()


def test_a_model_that_fails_has_no_assertions_and_few_decisions_are_tried() -> None:
    def fails() -> None:
        raise RuntimeError("always")

    runs = 0

    def decides() -> None:
        nonlocal runs
        runs += 1
        for _ in range(2 * MOST):
            if torch.tensor(False):
                raise ValueError("never")

    assert checks_of(fails, lambda: None, dynamic=False) == {}
    checks_of(decides, lambda: None, dynamic=False)
    assert runs == MOST + 1


# ---- where runs shall decide as the example does ----


def _masked(x: Tensor) -> Tensor:
    if (x > 9).any():
        return x - x.max()
    return x * 2


def test_runs_that_decide_otherwise_than_the_example_are_refused(tmp_path: Path) -> None:
    path, target = tmp_path / "m.pkg", f"cpu:{level()}"
    report = aot.package(
        Calls(_masked), (X,), path=path, targets=[target], golden=False, decide_as_example=True
    )
    (decided,) = report.decided
    assert decided.endswith("false in the example, `if (x > 9).any():`")
    assert f"    {decided}\n" in inspect_text(PackageFile(path))
    packaged = aot_runtime.load(path)
    np.testing.assert_array_equal(packaged(X), X.numpy() * 2)
    with pytest.raises(aot_runtime.InvalidArgument, match="decides otherwise in this run at tests"):
        packaged(X * 9)


def test_sides_that_only_raise_say_what_the_model_says() -> None:
    captured = _capture(_raises, decide_as_example=True)
    assert _messages(captured) == ["ValueError: negative"]
    assert captured.decided == ()


class _Prepared(torch.nn.Module):
    """A model that a buffer says is ready, as quantisers with a first run of their own have."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("ready", torch.tensor(True))
        self.register_buffer("rows", torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.ready:
            self.rows.data[:2].copy_(x.mean(0)[:2])
        return x - self.rows


def test_an_assertion_may_read_a_weight_that_no_part_does() -> None:
    x = torch.ones(2, 3)
    captured = capture_module(_Prepared(), (x,), decide_as_example=True)
    (found,) = interpret_lowered(captured, (x,))
    np.testing.assert_array_equal(found, np.zeros((2, 3), np.float32))


def test_a_first_run_that_writes_past_the_trace_is_a_decision_to_settle() -> None:
    with pytest.raises(ExportError, match=r"decision of the model .*(\n.*)*decide_as_example=True"):
        capture_module(_Prepared(), (torch.ones(2, 3),))
