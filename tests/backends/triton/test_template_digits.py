"""Long rows, sorted digit by digit: order, ties and NaN through Triton's interpreter."""

from __future__ import annotations

import pytest
import torch

from tests.backends.triton.templates import (
    captured,
    check_exact,
    emitted,
    machine_code,
    template_kinds,
)
from tests.settings import seeded


def real(columns, dtype=torch.float32):
    x = torch.randn(columns, generator=torch.Generator().manual_seed(seeded(7)))
    x[::7], x[3::49] = 0.0, -0.0
    x[5], x[columns - 9] = float("nan"), -float("nan")
    x[9], x[columns - 5] = float("inf"), -float("inf")
    return x.to(dtype)


def whole(dtype, low, high, *shape):
    generator = torch.Generator().manual_seed(seeded(7))
    return torch.randint(low, high, shape, generator=generator, dtype=dtype)


ROWS = {
    "float32": (real(70001), 4),
    "bfloat16": (real(14000, torch.bfloat16), 2),
    "float16": (real(20000, torch.float16), 3),
    "int8": (whole(torch.int8, -128, 127, 12000), 1),
    "uint8": (whole(torch.uint8, 0, 255, 2, 12000), 1),
    "int64": (whole(torch.int64, -(2**63), 2**63 - 1, 70_000) >> 17, 8),
    "bool": (whole(torch.int64, 0, 2, 12000) > 0, 1),
}


def ascending(x):
    return torch.sort(x, dim=-1, stable=True)


def descending(x):
    return torch.sort(x, dim=-1, stable=True, descending=True)


@pytest.mark.parametrize("function", (ascending, descending))
@pytest.mark.parametrize("name", ROWS)
def test_values(name, function):
    x, passes = ROWS[name]
    model = captured(function, (x,))
    assert template_kinds(model) == ["digit counts", "scan", "digit places"] * passes
    check_exact(model, function, (x,))


def test_along_columns():
    def function(x):
        return torch.sort(x, dim=0, stable=True)

    x = whole(torch.int8, -99, 99, 12000, 2)
    check_exact(captured(function, (x,)), function, (x,))


def test_the_middle_of_a_long_row():
    def function(x):
        return x.median(0).values, x.kthvalue(12, 0).values

    x = real(13000, torch.bfloat16)[10:-10]
    check_exact(captured(function, (x,)), function, (x,))


@pytest.mark.parametrize("size", (1, 1000, 20000))
def test_values_at_other_sizes(size):
    dims = ({0: torch.export.Dim("n", min=1, max=1 << 22)},)
    model = captured(ascending, (whole(torch.uint8, 0, 255, 30000),), dims)
    check_exact(model, ascending, (whole(torch.uint8, 0, 255, size),))


def test_three_launches_a_digit():
    source = emitted(captured(ascending, (real(1 << 17),)))
    assert len(source.launches) == 1 + 4 * 3 + 1
    # Keys; counts of all digits but the last, and of that one; their sums; places in the first
    # pass, in the last one, and between; results.
    assert len(source.functions) == 1 + 2 + 1 + 3 + 1


@pytest.mark.parametrize("arch", ("sm_80", "sm_90"))
def test_machine_code(arch):
    code = machine_code(captured(ascending, (real(1 << 17),)), "digit places", arch)
    assert code.local_bytes == 0
