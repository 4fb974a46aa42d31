"""Kernels with dynamic sizes have functions for several; each is right wherever it runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import Dim
from torch.nn import functional as F

from aot import package
from aot.backends.base import EmittedGraph
from aot.ir.templates import Conv
from aot.symbolic import dim, evaluate
from tests.backends.triton.templates import captured, check_close, emitted, kernels_of
from tests.calls import Calls
from tests.launches import calls_of
from tests.runtime.cuda_package import fake_driver
from tests.settings import seeded

WEIGHT = torch.randn(64, 48, dtype=torch.float16)
DEEP = torch.randn(256, 512, dtype=torch.bfloat16)
FILTERS = torch.randn(24, 16, 3, 3, dtype=torch.float16)


def running(source: EmittedGraph, size: int) -> list[str]:
    """The functions that run where the only dim has this size."""
    (only,) = source.graph.dims
    symbols = {dim(only.name): size}
    return [launch.function for launch in source.launches if evaluate(launch.when, symbols)]


def linear(x: Any) -> Any:
    return F.gelu(x @ WEIGHT.to(x.dtype))


def softmax(x: Any) -> Any:
    return x.softmax(0)


def attention(x: Any) -> Any:
    return F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None])


def conv(x: Any) -> Any:
    return F.conv2d(x.view(-1, 16, 4, 4), FILTERS.to(x.dtype), padding=1)


@pytest.mark.parametrize(
    ("function", "columns", "sizes"),
    [
        (linear, 64, (1, 100)),
        (softmax, 16, (1, 40)),
        (attention, 64, (9, 40)),
        (conv, 256, (1, 40)),
    ],
)
def test_each_function_is_right_where_it_runs(
    function: Callable[..., Any], columns: int, sizes: tuple[int, ...]
) -> None:
    torch.manual_seed(seeded())
    example = (torch.randn(8, columns).half(),)
    model = captured(function, example, ({0: Dim("n", min=1, max=1 << 16)},))
    source = emitted(model)
    kernels = {kernel.name for kernel in source.graph.kernels}
    assert len(source.functions) > len(kernels)
    assert any(d.stage == "sizes" for d in source.graph.decisions)
    seen: set[str] = set()
    for size in sizes:
        ran = running(source, size)
        assert len(ran) == len(kernels)
        seen.update(ran)
        check_close(model, function, (torch.randn(size, columns).half(),))
    assert len(seen) > len(kernels)


def turned(x: Any) -> Any:
    return x.T @ DEEP.to(x.dtype)


def test_indices_have_32_bits_where_sizes_allow_it() -> None:
    """A dim whose range has no end makes no kernel slower; one function is right beyond 2^31."""
    columns = 64
    example = (torch.randn(8, columns).half(),)
    for function in (linear, softmax, attention):
        model = captured(function, example, ({0: Dim("n", min=1)},))
        source = emitted(model)
        texts = {f.name: f.text for f in source.functions}
        (n,) = (dim(d.name) for d in source.graph.dims)
        for kernel in source.graph.kernels:
            own = [la for la in source.launches if la.kernel == kernel.name]
            assert {la.function for la in own if "_wide" in la.function} == {f"{kernel.name}_wide"}
            for size in (1, 8, 4000, (1 << 25) - 1, 1 << 25, 1 << 26, 1 << 40):
                (ran,) = [la.function for la in own if evaluate(la.when, {n: size})]
                assert ran.endswith("_wide") or size < 1 << 25
                narrow = "d0 = d0.to(tl.int32)" in texts[ran]
                assert narrow == (not ran.endswith("_wide"))
            assert any(evaluate(la.when, {n: 1 << 26}) for la in own if "_wide" in la.function)
        check_close(model, function, (torch.randn(13, columns).half(),))


def test_sizes_of_several_dims_are_counted_together() -> None:
    dims = ({0: Dim("n", min=1), 1: Dim("m", min=1)},)
    source = emitted(captured(lambda x: x + 1, (torch.randn(8, 8),), dims))
    n, m = (dim(d.name) for d in source.graph.dims)
    for a, b in ((8, 8), (1 << 15, 1 << 15), (1 << 16, (1 << 15) - 1)):
        assert "_wide" not in _only(source, {n: a, m: b})
    for a, b in ((1 << 16, 1 << 15), (1, 1 << 31), (1 << 33, 1)):
        assert _only(source, {n: a, m: b}).endswith("_wide")


def _only(source: EmittedGraph, sizes: dict[Any, int]) -> str:
    (launch,) = [la for la in source.launches if evaluate(la.when, sizes)]
    return launch.function


def test_rows_of_dynamic_strides_are_copied_by_descriptors() -> None:
    """What lies in rows of any length is copied to rows of whole vectors, and blocks from there."""
    example = (torch.randn(256, 200).to(torch.bfloat16),)
    model = captured(turned, example, ({1: Dim("n", min=1, max=1 << 13)},))
    source = emitted(model)
    assert any("make_tensor_descriptor" in f.text for f in source.functions)
    for size in (1, 129, 600):
        check_close(model, turned, (torch.randn(256, size).to(torch.bfloat16),))


def test_parts_are_those_of_sizes_between_the_example_and_larger_ones() -> None:
    """A batch of two is in parts if eight are, too: parts of large ones move sums for nothing."""
    filters = torch.randn(64, 256, 3, 3).half()

    def parts(batch: int, dims: Any = None) -> int:
        example = (torch.randn(batch, 256, 24, 24).half(),)
        model = captured(lambda x: F.conv2d(x, filters, padding=1), example, dims)
        (call,) = calls_of(kernels_of(model))
        assert isinstance(call, Conv)
        return call.groups

    assert parts(2) > 1 == parts(32)
    assert parts(2, ({0: Dim("n")},)) == parts(8)


def test_layers_that_are_alike_share_them() -> None:
    def layers(x: Any) -> Any:
        for _ in range(3):
            x = (x @ WEIGHT @ WEIGHT.T).softmax(-1)
        return x

    example = (torch.randn(8, 64).half(),)
    source = emitted(captured(layers, example, ({0: Dim("n", min=1, max=1 << 16)},)))
    products = [la for la in source.launches if la.kernel == source.graph.kernels[0].name]
    functions = {launch.function for launch in products}
    assert len(functions) > 1
    for kernel in source.graph.kernels[2::2]:  # every other product is of the same weight
        own = {la.function for la in source.launches if la.kernel == kernel.name}
        assert own <= {f.name for f in source.functions}
    assert len(source.functions) < len(source.launches)


RUNS = """
import sys
import numpy as np
import aot_runtime
model = aot_runtime.load(sys.argv[1], "cuda")
for size in map(int, sys.argv[2:]):
    try:
        model(np.zeros((size, 64), np.float16))
    except aot_runtime.AotError as error:
        print(str(error).splitlines()[0])
"""


def test_the_runtime_loads_what_runs_and_nothing_else(tmp_path: Path) -> None:
    """The fake driver refuses real code, so each run ends at the first function that it wants."""
    path = tmp_path / "model.pkg"
    example, dims = (torch.randn(8, 64).half(),), (({0: Dim("n", min=1, max=1 << 16)},),)
    module = Calls(lambda x: x.softmax(0))
    package(module, example, path=path, targets=["cuda:sm_90"], dynamic_shapes=dims, golden=False)
    sizes = (8, 1 << 16)
    source = emitted(captured(softmax, example, dims[0]))
    wanted = [running(source, size)[0] for size in sizes]
    assert wanted[0] != wanted[1]
    command = [sys.executable, "-c", RUNS, str(path), *map(str, sizes)]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(fake_driver())}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    lines = ran.stdout.splitlines()
    assert len(lines) == len(sizes), ran.stderr
    for line, name in zip(lines, wanted, strict=True):
        assert f"while loading kernel '{name}'" in line
