"""Sorted positions: order, ties and NaN through Triton's interpreter, by each way of sorting."""

from __future__ import annotations

import pytest
import torch

from aot.backends.triton import template_argsort
from tests.backends.triton.templates import (
    captured,
    check_exact,
    emitted,
    machine_code,
    template_kinds,
)
from tests.conformance.executors import interpret_triton
from tests.settings import seeded

NAN, INF = float("nan"), float("inf")


def real(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seeded(7))).to(dtype)


def special(dtype=torch.float32):
    """Rows with NaN, both infinities, both zeros, and many ties."""
    x = real(4, 50)
    x[0, 3], x[0, 30] = NAN, -NAN
    x[1] = 0.0
    x[1, 7] = -0.0
    x[2, 5], x[2, 6], x[2, 7] = INF, -INF, NAN
    x[3] = x[3].round()
    return x.to(dtype)


def whole(dtype, low, high):
    generator = torch.Generator().manual_seed(seeded(7))
    return torch.randint(low, high, (5, 70), generator=generator, dtype=dtype)


ROWS = {
    "float32": special(),
    "bfloat16": special(torch.bfloat16),
    "float16": special(torch.float16),
    "float64": special(torch.float64),
    "int64": whole(torch.int64, -(2**62), 2**62),
    "int32": whole(torch.int32, -(2**31), 2**31 - 1),
    "int16": whole(torch.int16, -9, 9),
    "int8": whole(torch.int8, -128, 127),
    "uint8": whole(torch.uint8, 0, 255),
    "bool": whole(torch.int64, 0, 2) > 0,
    "one column": real(9, 1),
}


def ascending(x):
    return torch.sort(x, dim=-1, stable=True)


def descending(x):
    return torch.sort(x, dim=-1, stable=True, descending=True)


@pytest.fixture(params=("counting", "sorting"))
def way(request, monkeypatch):
    """How rows are sorted; 64-bit elements are always counted."""
    if request.param == "sorting":
        monkeypatch.setattr(template_argsort, "COUNT_COLUMNS", 0)
        monkeypatch.setattr(template_argsort, "COUNT_WORK", 0)
    return request.param


@pytest.mark.parametrize("function", (ascending, descending))
@pytest.mark.parametrize("name", ROWS)
def test_values(name, function, way):
    x = ROWS[name]
    model = captured(function, (x,))
    sorts = "tl.sort(" in emitted(model).functions[0].text
    assert sorts == (way == "sorting" and x.element_size() < 8)
    check_exact(model, function, (x,))


def distinct(rows, columns):
    generator = torch.Generator().manual_seed(seeded(3))
    order = [torch.randperm(columns, generator=generator) for _ in range(rows)]
    return torch.stack(order).float() - columns // 2


@pytest.mark.parametrize("largest", (True, False))
@pytest.mark.parametrize("kept", (1, 5, 50))
def test_the_first_few(kept, largest, way):
    def function(x):
        return torch.topk(x, kept, largest=largest)

    x = distinct(3, 50)
    check_exact(captured(function, (x,)), function, (x,))


@pytest.mark.parametrize("largest", (True, False))
def test_the_first_few_of_long_rows(largest, monkeypatch):
    monkeypatch.setattr(template_argsort, "COUNT_WORK", 0)
    monkeypatch.setattr(template_argsort, "COUNT_COLUMNS", 0)
    monkeypatch.setattr(template_argsort, "SORT_COLUMNS", 64)
    monkeypatch.setattr(template_argsort, "CHUNK", 64)

    def function(x):
        return torch.topk(x, 5, largest=largest)

    x = distinct(2, 150)
    x[1, 140] = NAN
    model = captured(function, (x,))
    assert "for start" in emitted(model).functions[0].text
    check_exact(model, function, (x,))


@pytest.mark.parametrize("largest", (True, False))
def test_the_first_few_of_equal_elements_are_the_first(largest, monkeypatch):
    monkeypatch.setattr(template_argsort, "COUNT_WORK", 0)
    generator = torch.Generator().manual_seed(seeded(5))
    x = torch.randint(0, 3, (2, 4500), generator=generator).float()
    x[1, 4000:] = NAN

    def function(x):
        return torch.topk(x, 40, largest=largest)

    def stable(x):
        values, order = torch.sort(x, dim=-1, stable=True, descending=largest)
        return values[:, :40], order[:, :40]

    model = captured(function, (x,))
    (text,) = (f.text for f in emitted(model).functions if "sort_first(" in f.text)
    assert "GROUP=" in text
    check_exact(model, stable, (x,))


FEW = {
    "parts with a rest": (distinct(1, 8999)[0], 0, True),
    "columns in equal parts": (distinct(2, 12288).t().contiguous(), 0, False),
}


@pytest.mark.parametrize("name", FEW)
def test_the_first_few_of_parts_of_few_long_rows(name):
    x, axis, largest = FEW[name]
    x = x.clone()
    x.view(-1)[-1] = NAN

    def function(x):
        return torch.topk(x, 9, axis, largest=largest)

    model = captured(function, (x,))
    assert template_kinds(model) == ["argsort", "argsort"]
    check_exact(model, function, (x,))


def test_equal_ones_in_several_parts_keep_their_order():
    def function(x):
        return torch.topk(x, 9, largest=False)[1]

    x = torch.ones(9001)
    x[[5, 4100, 9000]] = 0.0
    (found,) = interpret_triton(captured(function, (x,)), (x,))
    assert found.tolist() == [5, 4100, 9000, 0, 1, 2, 3, 4, 6]
    (found,) = interpret_triton(captured(function, (x,)), (torch.full((9001,), NAN),))
    assert found.tolist() == list(range(9))


@pytest.mark.parametrize("shape", ((1, 1), (3, 300), (7, 20), (0, 5)))
def test_values_at_other_sizes(shape):
    dims = ({0: torch.export.Dim("rows", min=0), 1: torch.export.Dim("columns", min=1)},)
    model = captured(descending, (real(5, 150),), dims)
    check_exact(model, descending, (real(*shape).round(),))


def test_along_columns_with_an_epilogue():
    def function(x):
        return torch.sort(x, dim=0)[0] * 2, torch.argsort(x, dim=0, stable=True) + 1

    x = distinct(3, 37).t().contiguous()
    check_exact(captured(function, (x,)), function, (x,))


def test_values_are_picked_by_the_kernel_that_sorts():
    model = captured(ascending, (real(2000, 1000),))
    source = emitted(model)
    assert template_kinds(model) == ["argsort"]
    assert len(source.launches) == 1
    assert "tl.sort(" in source.functions[0].text


def test_few_long_rows_are_counted():
    assert "tl.sort(" not in emitted(captured(ascending, (real(2, 5000),))).functions[0].text


@pytest.mark.parametrize("rows", (4, 2000))
def test_machine_code(rows):
    code = machine_code(captured(ascending, (real(rows, 512),)), "argsort", "sm_90")
    assert code.local_bytes == 0
