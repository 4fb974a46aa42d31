"""Walks along rows that begin within vectors: what they read and write at once, and values."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

from aot.backends.triton import row_tiling
from aot.frontend.capture import Captured
from tests.backends.triton.templates import captured, check_close, emitted

COLUMNS = 301


@pytest.fixture(autouse=True)
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are walked in turns of a few elements, so that small ones will do."""
    monkeypatch.setattr(row_tiling, "PERSISTENT_POINTS", 128)
    monkeypatch.setattr(row_tiling, "LOOP_POINTS", 64)


def rows(dtype: torch.dtype, columns: int = COLUMNS) -> torch.Tensor:
    torch.manual_seed(0)
    return (torch.randn(9, columns) * 3).to(dtype)


def text_of(model: Captured) -> str:
    return emitted(model).functions[0].text


def norm(x: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:])


def halves(x: torch.Tensor) -> torch.Tensor:
    """Reads rows of which half begin at even places."""
    return torch.softmax(x[:, 1:] * 2, -1)


FUNCTIONS: dict[str, Callable[[torch.Tensor], object]] = {
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "norm": norm,
    "ends of rows": halves,
    "norm and its input": lambda x: (x + 1, norm(x + 1)),
    "two rows of other lengths": lambda x: x.softmax(-1) + x[:, :1].float().exp().to(x),
    "sum": lambda x: x.sum(-1),
    "both extremes": lambda x: (x.amax(-1), x.amin(-1)),
    "deviation": lambda x: x.std(-1),
    "place": lambda x: x.argmax(-1),
    "extreme and place": lambda x: x.max(-1),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_of_rows_that_begin_anywhere(name: str, dtype: torch.dtype) -> None:
    x = rows(dtype)
    model = captured(FUNCTIONS[name], (x,))
    assert "// 8 * 8" in text_of(model) or "// 4 * 4" in text_of(model)
    check_close(model, FUNCTIONS[name], (x,))


@pytest.mark.parametrize("columns", [129, 191, 193, 255, 257, 263])
def test_values_of_rows_that_end_near_a_turn(columns: int) -> None:
    x = rows(torch.bfloat16, columns)
    for function in (FUNCTIONS["softmax"], FUNCTIONS["sum"], FUNCTIONS["place"]):
        check_close(captured(function, (x,)), function, (x,))


def test_rows_are_written_in_whole_vectors_and_their_ends_apart() -> None:
    text = text_of(captured(FUNCTIONS["softmax"], (rows(torch.bfloat16),)))
    stores = re.findall(r"tl.store\((.*)\)", text)
    assert ["low" in store for store in stores] == [True, True, True, False]
    masks = [store.partition("mask=")[2] for store in stores]
    assert sorted(bool(mask) for mask in masks[:3]) == [False, True, True]
    assert all("_in" not in mask for mask in masks[:3])
    assert "r0_rest_in" in masks[3]


def test_no_element_behind_a_row_is_read() -> None:
    """The last vector of the last row may lie half outside of the buffer."""
    text = text_of(captured(FUNCTIONS["sum"], (rows(torch.float16),)))
    loads = re.findall(r"tl.load\(p0 \+ (.*?)\)(?:, mask=(.*), other=0)?\)", text)
    assert len(loads) == 4
    assert "< last" in text
    assert "r0_rest_in = r0_rest < 301" in text


def test_what_is_changed_in_place_is_read_before() -> None:
    def change(x: torch.Tensor) -> torch.Tensor:
        x.copy_(x.softmax(-1))
        return x.sum()

    x = rows(torch.float32)
    check_close(captured(change, (x.clone(),)), change, (x,))


def test_rows_that_are_written_elsewhere_than_read_are_walked_from_their_first_element() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return F.pad(x.softmax(-1), (3, 2))

    x = rows(torch.bfloat16)
    model = captured(function, (x,))
    check_close(model, function, (x,))


def test_turns_from_the_end_begin_with_vectors() -> None:
    """Their numbers are counted upwards: downwards the compiler sees no multiples."""
    text = text_of(captured(norm, (rows(torch.bfloat16),)))
    assert re.search(r"t\d+ = \d+ - start\d* \+ tl.arange", text)
    assert not re.search(r"range\(.*, -\d+\)", text)
