"""Large results that no kernel reads are stored past the caches, with the same values."""

from __future__ import annotations

import numpy as np
import pytest

from aot.backends.cpp.backend import CppBackend
from aot.ir.dtypes import BFLOAT16, FLOAT32
from aot.ir.scalar import binary
from aot.options import ALL_CPU
from tests.backends.kernel_runner import GraphMaker, Program, axes, nest
from tests.settings import seeded

LARGE = (24 << 20) // 4


def doubled(count, *, width=1, dtype=FLOAT32, read=False):
    """A kernel that doubles an array; with `read` another one doubles its result."""
    maker = GraphMaker()
    i, j = axes(count // width, width)
    maker.buffer("x", dtype, [count // width, width])
    names = [maker.output("y", dtype, [count // width, width])]
    if read:
        names.append(maker.output("z", dtype, [count // width, width]))
    source = "x"
    for k, name in enumerate(names):
        value = maker.read(source, i.symbol, j.symbol)
        out = (name, [i.symbol, j.symbol], binary("add", value, value))
        maker.kernel([nest(f"n{k}", [i, j], [], out)], outer=1)
        source = name
    x = np.random.default_rng(seeded(3)).normal(size=(count // width, width))
    return Program(maker.graph()), {"x": x.astype(dtype.numpy)}


@pytest.mark.parametrize("width", [1 << 10, 1021])
def test_large_results_are(width):
    program, inputs = doubled(-(-LARGE // width) * width, width=width)
    (function,) = program.emitted.functions
    assert "aot::stream" in function.text and "aot::store" not in function.text
    assert function.text.count("aot::Streaming ") == 1
    program.check(inputs, exact=True)


def test_bytes_count_and_not_elements():
    program, _ = doubled(LARGE, width=1 << 10, dtype=BFLOAT16)
    assert "aot::stream" not in program.emitted.functions[0].text


def test_small_ones_are_not():
    program, _ = doubled(LARGE - (1 << 10), width=1 << 10)
    assert "aot::stream" not in program.emitted.functions[0].text


def test_what_a_kernel_reads_is_not():
    program, inputs = doubled(LARGE, width=1 << 10, read=True)
    first, second = (f.text for f in program.emitted.functions)
    assert "aot::stream" not in first
    assert "aot::stream" in second
    program.check(inputs, exact=True)


def test_kernels_that_are_alike_but_for_that_are_two_functions():
    maker = GraphMaker()
    i, j = axes(LARGE >> 10, 1 << 10)
    maker.buffer("x", FLOAT32, [LARGE >> 10, 1 << 10])
    for source, result in ("xu", "uv", "vw"):
        maker.output(result, FLOAT32, [LARGE >> 10, 1 << 10])
        value = maker.read(source, i.symbol, j.symbol)
        out = (result, [i.symbol, j.symbol], binary("add", value, value))
        maker.kernel([nest("n", [i, j], [], out)], outer=1)
    emitted = CppBackend().emit(maker.graph(), ALL_CPU)
    assert ["aot::stream" in f.text for f in emitted.functions] == [False, True]
    assert [launch.function for launch in emitted.launches] == ["k0", "k0", "k2"]
