"""Products that an epilogue may want nothing of: values in Triton's interpreter, machine code."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from torch import linalg

from aot.backends.triton.unwanted import choice_of
from aot.ir.kernels import TemplateKernel
from tests.backends.triton.templates import captured, emitted, kernels_of, machine_code
from tests.conformance.executors import interpret_triton

WIDE = torch.float64


def chosen(flag, a, b, other):
    return torch.where(flag, a @ b, other)


def refused(flag, a, b, other):
    return torch.where(flag, other, (a @ b).to(other.dtype))


def by_element(flag, a, b, other):
    return torch.where(other > 0, a @ b, other)


def by_product(flag, a, b, other):
    product = a @ b
    return torch.where(product > 0, product, other)


def stored_too(flag, a, b, other):
    product = a @ b
    return product, torch.where(flag, product, other)


def given(*batch: int, size: int = 64, dtype: torch.dtype = torch.float32):
    flag = torch.tensor([k % 2 == 0 for k in range(max(1, int(np.prod(batch))))])
    parts = [torch.randn(*batch, size, size, dtype=dtype) for _ in range(3)]
    return flag.reshape(*batch, 1, 1) if batch else flag[0], *parts


def choices(function, args):
    kernels = [k for k in kernels_of(captured(function, args)).kernels]
    return [
        choice_of(k)
        for k in kernels
        if isinstance(k, TemplateKernel) and k.template.kind == "matmul"
    ]


@pytest.mark.parametrize("function, holds", [(chosen, True), (refused, False)])
def test_what_a_flag_selects(function, holds):
    (choice,) = choices(function, given(2))
    assert choice is not None and choice.holds == holds


@pytest.mark.parametrize("function", [by_element, by_product, stored_too])
def test_what_is_wanted_in_any_case(function):
    assert choices(function, given(2)) == [None]


@pytest.mark.parametrize("function", [chosen, refused])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_values(function, batch):
    args = given(*batch, size=48)
    (found,) = interpret_triton(captured(function, args), args)
    np.testing.assert_allclose(found, function(*args).numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, WIDE, torch.complex64], ids=str)
def test_squares_of_exponentials(dtype):
    """Every square is one product, and selected by how often its matrix is squared."""
    a = torch.randn(2, 70, 70, dtype=dtype)
    assert len([c for c in choices(linalg.matrix_exp, (a,)) if c is not None]) == 24


@pytest.mark.parametrize(
    "function, args",
    [
        ("matmul", given(8, size=48)),
        ("matmul_by_copies", given(size=2048)),
        ("matmul_of_doubles", given(size=1024, dtype=WIDE)),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_machine_code(function, args):
    """Each of the templates asks before it begins."""
    model = captured(chosen, args)
    (text,) = [f.text for f in emitted(model, "sm_90").functions]
    assert re.search(rf"\b{function}\(", text) and "wanted=" in text
    assert machine_code(model, "matmul", "sm_90").local_bytes <= 256
