"""Running sums and products: values through Triton's interpreter, blocks, and machine code."""

from __future__ import annotations

import pytest
import torch

from aot.backends.triton import template_scan
from aot.backends.triton.template_scan import down_tile, scan_tile
from aot.ir.hints import hints_of
from aot.ir.nests import Axis
from aot.symbolic import integer, var
from tests.backends.triton.templates import (
    captured,
    check_close,
    check_exact,
    emitted,
    machine_code,
    template_kinds,
)
from tests.settings import seeded


def real(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seeded(7))).to(dtype)


def whole(*shape, dtype=torch.int64, low=-5, high=5):
    generator = torch.Generator().manual_seed(seeded(7))
    return torch.randint(low, high, shape, generator=generator, dtype=dtype)


REAL = {
    "sums": (lambda x: x.cumsum(1), real(5, 50)),
    "along columns": (lambda x: x.cumsum(0), real(70, 50)),
    "in the middle": (lambda x: x.cumsum(1), real(4, 30, 9)),
    "several blocks, with an epilogue": (lambda x: x.cumsum(1) * 2 + 1, real(3, 20000)),
    "products": (lambda x: x.cumprod(1), real(9, 33)),
    "products of several blocks": (lambda x: x.cumprod(1), 1 + 0.01 * real(2, 20000)),
    "halves": (lambda x: x.cumsum(1), real(5, 50, dtype=torch.bfloat16)),
    "doubles": (lambda x: x.cumsum(1), real(9, 33, dtype=torch.float64)),
    "one element": (lambda x: x.cumsum(1), real(9, 1)),
}


@pytest.mark.parametrize("name", REAL)
def test_real_values(name):
    function, x = REAL[name]
    model = captured(function, (x,))
    assert template_kinds(model) == ["scan"]
    check_close(model, function, (x,))


WHOLE = {
    "sums": (lambda x: x.cumsum(1), whole(9, 33)),
    "products wrap": (lambda x: x.cumprod(1), whole(9, 33, low=3, high=99)),
    "32 bits": (lambda x: x.cumsum(1, dtype=torch.int32), whole(9, 33, dtype=torch.int32)),
    "bytes wrap": (
        lambda x: x.cumsum(1, dtype=torch.uint8),
        whole(9, 33, dtype=torch.uint8, low=0, high=250),
    ),
    "bools count": (lambda x: x.cumsum(1), whole(9, 33) > 0),
    "several blocks": (lambda x: x.cumsum(1), whole(2, 20000)),
}


@pytest.mark.parametrize("name", WHOLE)
def test_whole_values(name):
    function, x = WHOLE[name]
    check_exact(captured(function, (x,)), function, (x,))


@pytest.mark.parametrize("shape", ((1, 1), (3, 64), (40, 700), (0, 9), (3, 0)))
def test_values_at_other_sizes(shape):
    def function(x):
        return x.cumsum(1)

    dims = ({0: torch.export.Dim("rows", min=0), 1: torch.export.Dim("columns", min=0)},)
    model = captured(function, (whole(5, 600),), dims)
    check_exact(model, function, (whole(*shape),))


def test_not_a_number_spreads_to_what_follows():
    x = real(2, 20000)
    x[1, 4500] = float("nan")

    def function(x):
        return x.cumsum(1).isnan()

    check_exact(captured(function, (x,)), function, (x,))


def test_a_producer_is_part_of_the_kernel():
    def function(x):
        return torch.cumsum(x * 2, 1)

    x = real(64, 300)
    model = captured(function, (x,))
    assert len(emitted(model).launches) == 1
    check_close(model, function, (x,))


def test_an_epilogue_is_part_of_the_kernel():
    source = emitted(captured(lambda x: x.cumsum(1).relu() + 1, (real(64, 512),)))
    assert len(source.launches) == 1
    assert source.functions[0].text.count("tl.store(") == 1


INF = float("inf")
UNEVEN = {
    "one infinity": [1.0, -INF, 2.0, INF, 3.0, -INF],
    "nothing at first": [-INF, -INF, -500.0, -INF, 3.0],
    "nothing": [-INF, -INF],
    "infinities": [INF, INF, -INF],
    "not a number": [1.0, float("nan"), 2.0, INF],
    "far apart": [-9e37, -100.0, 100.0, -100.0, 3e38, 3e38],
}


@pytest.mark.parametrize("name", UNEVEN)
@pytest.mark.parametrize("length", (0, 33, 40000))
def test_logarithms_of_sums_of_uneven_values(name, length):
    x = torch.cat([real(length), torch.tensor(UNEVEN[name]), real(length)])

    def function(x):
        return x.logcumsumexp(0)

    check_close(captured(function, (x,)), function, (x,))


def tile(rows, columns, *, across=False):
    axes = (Axis(var("r"), integer(rows)), Axis(var("c"), integer(columns)))
    kind = {"across": across, "size": 4, "most": 8192, "ends": columns}
    return scan_tile(*axes, hints_of(()), 512, **kind)


LONG = {
    "sums, with an epilogue": (lambda x: x.cumsum(0) * 2, real(40000)),
    "along columns": (lambda x: x.cumsum(0), real(40000, 3)),
    "a producer": (lambda x: x.relu().cumsum(1), real(2, 40000)),
    "logarithms": (lambda x: x.logcumsumexp(0), real(40000)),
    "halves": (lambda x: x.cumsum(0), 0.1 * real(40000, dtype=torch.float16)),
}


@pytest.mark.parametrize("name", LONG)
def test_few_long_rows_are_scanned_in_parts(name):
    function, x = LONG[name]
    model = captured(function, (x,))
    assert template_kinds(model) == ["scan", "scan"]
    check_close(model, function, (x,))


LONG_WHOLE = {
    "sums": (lambda x: x.cumsum(0), whole(40000)),
    "narrow": (lambda x: x.cumsum(0, dtype=torch.int32), whole(40000, dtype=torch.int32)),
    "bools": (lambda x: (x > 0).cumsum(0), whole(40000)),
    "extremes": (lambda x: torch.cummax(x, 1), whole(3, 40000, low=-99, high=99)),
    "real extremes": (lambda x: torch.cummin(x, 0), real(40000)),
}


@pytest.mark.parametrize("name", LONG_WHOLE)
def test_whole_values_of_long_rows(name):
    function, x = LONG_WHOLE[name]
    check_exact(captured(function, (x,)), function, (x,))


@pytest.mark.parametrize("size", (0, 1, 2047, 2048, 40000, 70001))
def test_parts_of_rows_of_other_lengths(size):
    def function(x):
        return x.cumsum(0)

    model = captured(function, (whole(50000),), ({0: torch.export.Dim("n", min=0)},))
    check_exact(model, function, (whole(size),))


def test_a_nan_in_an_earlier_part_spreads():
    x = real(40000)
    x[4500] = float("nan")

    def function(x):
        return torch.cummax(x, 0).values, x.cumsum(0).isnan()

    check_exact(captured(function, (x,)), function, (x,))


def test_blocks_follow_the_sizes():
    assert tile(4096, 1 << 17).looped
    assert not tile(4096, 1024).looped
    assert tile(100000, 16).rows > 16
    assert tile(100, 16).rows == 1
    assert tile(4096, 512, across=True).rows == 32


@pytest.mark.parametrize("arch", ("sm_80", "sm_90"))
def test_machine_code_of_parts(arch):
    code = machine_code(captured(lambda x: x.cumsum(0), (real(1 << 20),)), "scan", arch)
    assert code.local_bytes == 0


@pytest.mark.parametrize("arch", ("sm_80", "sm_90"))
def test_machine_code(arch):
    code = machine_code(captured(lambda x: x.cumsum(1), (real(64, 8192),)), "scan", arch)
    assert code.local_bytes == 0
    assert code.vector_loads == code.loads


DOWN = {
    "sums": lambda x: x.cumsum(0),
    "with an epilogue": lambda x: x.cumsum(0).relu() * 2,
    "products": lambda x: (1 + 0.1 * x).cumprod(0),
    "halves": lambda x: x.to(torch.bfloat16).cumsum(0),
    "whole turns": lambda x: x[:32].cumsum(0),
}


@pytest.mark.parametrize("name", DOWN)
def test_threads_have_columns_to_themselves(name, monkeypatch):
    """With the number of columns from which that is done made small."""
    monkeypatch.setattr(template_scan, "DOWN_WARPS", 0)
    function, x = DOWN[name], real(45, 70)
    model = captured(function, (x,))
    assert "scan_down(" in emitted(model).functions[0].text
    check_close(model, function, (x,))


def test_places_of_extremes_down_columns_of_threads(monkeypatch):
    monkeypatch.setattr(template_scan, "DOWN_WARPS", 0)
    x = whole(33, 40)

    def function(x):
        return torch.cummax(x, 0)

    check_exact(captured(function, (x,)), function, (x,))


def test_many_columns_have_threads_to_themselves():
    assert down_tile(Axis(var("r"), integer(204032)), hints_of(()), 528, 2) is not None
    assert down_tile(Axis(var("r"), integer(30000)), hints_of(()), 528, 2) is None
    found = down_tile(Axis(var("r"), integer(204032)), hints_of(()), 528, 8)
    assert found is not None and (found.rows, found.warps) == (32, 1)
