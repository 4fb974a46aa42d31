"""How many lanes a stage has: what is stored narrow is packed from several registers."""

from __future__ import annotations

import numpy as np
import pytest

from aot.ir.dtypes import BFLOAT16, BOOL, FLOAT16, FLOAT32, FLOAT64, INT8, INT32, DType
from aot.ir.scalar import binary, cast, const
from tests.backends.kernel_runner import GraphMaker, Program, axes, machine_levels, nest
from tests.settings import seeded


def _converted(source: DType, target: DType, columns: int) -> Program:
    maker = GraphMaker()
    i, j = axes(3, columns)
    maker.buffer("x", source, [3, columns])
    out = maker.output("o", target, [3, columns])
    read = maker.read("x", i.symbol, j.symbol)
    zero = const(0.0, source)
    value = binary("ne", read, zero) if target == BOOL else cast(read, target)
    maker.kernel([nest("n", [i, j], [], (out, [i.symbol, j.symbol], value))], outer=1)
    return Program(maker.graph(), levels=machine_levels())


@pytest.mark.parametrize(
    ("source", "target", "times"),
    [
        (FLOAT32, BOOL, 4),
        (FLOAT64, INT8, 8),
        (INT32, INT8, 4),
        (FLOAT32, BFLOAT16, 2),
        (INT8, FLOAT32, 1),
    ],
)
def test_narrow_stores_fill_a_register(source: DType, target: DType, times: int) -> None:
    """Values are right in whole vectors and at the ends of rows."""
    program = _converted(source, target, 1030)
    (function,) = program.emitted.functions
    assert (f"constexpr int W0 = {times} * L0" in function.text) == (times > 1)
    x = np.random.default_rng(seeded(3)).integers(-3, 4, (3, 1030)).astype(source.numpy)
    program.check({"x": x}, exact=True)


def test_short_rows_are_no_ends_of_wide_vectors() -> None:
    (function,) = _converted(FLOAT32, BOOL, 100).emitted.functions
    assert "W0" not in function.text


def test_lanes_that_are_read_one_by_one_fill_no_narrow_register() -> None:
    """Sixteen words one by one take longer than eight twice."""
    maker = GraphMaker()
    i, j = axes(3, 1030)
    maker.buffer("x", FLOAT16, [3, 3090])
    out = maker.output("o", FLOAT16, [3, 1030])
    read = maker.read("x", i.symbol, 3 * j.symbol)
    maker.kernel([nest("n", [i, j], [], (out, [i.symbol, j.symbol], read))], outer=1)
    (function,) = Program(maker.graph(), levels=machine_levels()).emitted.functions
    assert "aot::load_strided<float, L0>" in function.text and "W0" not in function.text
