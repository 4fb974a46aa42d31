"""The line that a user is told to add, in the names of the model's own code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from aot.errors import ExportError
from aot.frontend.capture import capture_module
from tests.calls import Calls

Tensor = torch.Tensor
X = torch.tensor([-1.0, 2.0, 3.0])


def _counts(x: Tensor) -> Tensor:
    n: Any = (x > 0).sum().item()
    return x + 1 if n == 2 else x


def _sizes(x: Tensor) -> Tensor:
    chosen = x[x > 0]
    return x + 1 if chosen.shape[0] < 3 else x


def _floats(x: Tensor) -> Tensor:
    most = x.max().item()
    return x + 1 if most > 3.5 else x


def _computed(x: Tensor) -> Tensor:
    n: Any = (x > 0).sum().item()
    return x + 1 if 2 * n + 1 >= x.shape[0] else x


@pytest.mark.parametrize(
    ("model", "line", "opposite"),
    [
        (_counts, "torch._check(n == 2)", "torch._check(n != 2)"),
        (_sizes, "torch._check(chosen.shape[0] < 3)", "torch._check(chosen.shape[0] >= 3)"),
        (_floats, "torch._check(most > 3.5)", "torch._check(most <= 3.5)"),
        (_computed, "torch._check(2*n + 1 >= 3)", "torch._check(2*n + 1 < 3)"),
    ],
)
def test_the_error_names_the_line_and_where_it_goes(
    model: Callable[[Tensor], Tensor], line: str, opposite: str
) -> None:
    with pytest.raises(ExportError) as caught:
        capture_module(Calls(model), (X,))
    first, last = model.__code__.co_firstlineno, model.__code__.co_firstlineno + 2
    assert caught.value.advice.startswith(f"Add the line {line} before `return x + 1 if ")
    assert opposite in caught.value.advice
    assert caught.value.where == f"{__file__}:{last}"
    assert first < last
    assert not caught.value.details


def test_the_line_mends_the_model() -> None:
    def mended(x: Tensor) -> Tensor:
        n: Any = (x > 0).sum().item()
        torch._check(n == 2)
        return x + 1 if n == 2 else x

    capture_module(Calls(mended), (X,))


def test_a_tensor_has_no_name_to_check() -> None:
    with pytest.raises(ExportError) as caught:
        capture_module(Calls(lambda x: x if x.sum() > 0 else x[:1]), (X,))
    assert "torch.cond" in caught.value.advice
    assert "Add the line" not in caught.value.advice


def _limited(x: Tensor) -> Tensor:
    n: Any = (x > 0).sum().item()
    if n > 100:
        raise ValueError(f"too many: {n}")
    return x * n


def _limited_and_checked(x: Tensor) -> Tensor:
    n: Any = (x > 0).sum().item()
    torch._check(n <= 100)
    if n > 100:
        raise ValueError(f"too many: {n}")
    return x * n


def test_of_a_side_that_raises_the_other_is_told() -> None:
    with pytest.raises(ExportError) as caught:
        capture_module(Calls(_limited), (X,))
    told = "Add the line torch._check(n <= 100) before `if n > 100:`, which is what a run must not"
    assert caught.value.advice.startswith(told)
    assert capture_module(Calls(_limited_and_checked), (X,))
