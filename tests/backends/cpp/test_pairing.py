"""Stores of neighbours as vectors in turn: which, and with the same results at all levels."""

from __future__ import annotations

import numpy as np
import pytest

from aot.ir.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, INT64, UINT8
from aot.ir.scalar import binary
from tests.backends.kernel_runner import GraphMaker, Program, axes, nest
from tests.settings import seeded

PAIRS = "aot::store_pairs"


def stacked(count, *, dtype=FLOAT32, places=(0, 1), compute=None, strip=0):
    """A kernel of one stage that stores an element of each of several vectors side by side."""
    maker = GraphMaker()
    (i,) = axes(count)
    names = "xyz"[: len(places)]
    for name in names:
        maker.buffer(name, dtype, [count])
    values = [maker.read(name, i.symbol) for name in names]
    values = values if compute is None else compute(*values)
    out = maker.output("o", values[0].dtype, [len(places) * count])
    at = [i.symbol * len(places) + place for place in places]
    stores = [(out, [index], value) for index, value in zip(at, values, strict=True)]
    maker.kernel([nest(f"n{k}", [i], [], s) for k, s in enumerate(stores)], strip=strip)
    generator = np.random.default_rng(seeded(9))
    inputs = {n: (generator.normal(size=count) * 90).astype(dtype.numpy) for n in names}
    return Program(maker.graph()), inputs


def pairs(program) -> int:
    return program.emitted.functions[0].text.count(PAIRS)


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64, INT64, UINT8, BFLOAT16, FLOAT16])
@pytest.mark.parametrize("count", [64, 100, 37, 3])
def test_neighbours_are_stored_in_turn(dtype, count):
    program, inputs = stacked(count, dtype=dtype)
    assert pairs(program)
    program.check(inputs, exact=True)


def test_in_strips_and_of_masks():
    program, inputs = stacked(75, strip=32)
    assert pairs(program)
    program.check(inputs, exact=True)
    program, inputs = stacked(75, compute=lambda x, y: (binary("lt", x, y), binary("eq", x, x)))
    assert pairs(program)
    program.check(inputs, exact=True)


@pytest.mark.parametrize("places", [(0, 1, 2), (1, 0)])
def test_others_are_stored_one_after_the_other(places):
    program, inputs = stacked(40, places=places)
    assert not pairs(program)
    program.check(inputs, exact=True)
