"""associative_scan: which way a function is computed, and that sizes may vary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aot_runtime
import numpy as np
import pytest
import torch
from torch._higher_order_ops.associative_scan import associative_scan, associative_scan_op
from torch.export import Dim

from aot import driver
from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.ir.tensors import Loop, TensorGraph, TensorOp
from aot.options import CPU_LEVELS, Target, from_environment
from tests.calls import Calls
from tests.conformance.executors import interpret_lowered
from tests.settings import seeded


def ingested(function: Any, *args: torch.Tensor) -> TensorGraph:
    return ingest(capture_module(Calls(function), args))[0]


def scanned(combine: Any) -> Any:
    return lambda x: associative_scan_op(combine, [x], ())[0]


def targets(graph: TensorGraph) -> list[str]:
    return [op.target for op in graph.ops if isinstance(op, TensorOp)]


def test_a_sum_is_the_templates() -> None:
    graph = ingested(scanned(lambda a, b: [b + a]), torch.ones(5, 2))
    assert targets(graph) == ["aot.running.default"]


@pytest.mark.parametrize("combine", [lambda a, b: [a - b], lambda a, b: [a * 2 + b]])
def test_other_elementwise_functions_are_doubled(combine: Any) -> None:
    graph = ingested(scanned(combine), torch.ones(5, 2))
    assert targets(graph).count("aten.cat.default") == 3
    assert not any(isinstance(op, Loop) for op in graph.ops)


def test_functions_of_whole_slices_take_turns() -> None:
    graph = ingested(scanned(lambda a, b: [a @ b]), torch.ones(5, 2, 2))
    assert [type(op) for op in graph.ops].count(Loop) == 1


def test_a_number_of_slices_that_varies(tmp_path: Path) -> None:
    def forward(x: torch.Tensor) -> Any:
        return scanned(lambda a, b: [b + a])(x), scanned(lambda a, b: [a * 0.5 + b])(x)

    made = capture_module(Calls(forward), (torch.ones(5, 2),), dynamic_shapes=(({0: Dim("n")},),))
    assert any(isinstance(op, Loop) for op in ingest(made)[0].ops)
    options = from_environment(
        output=tmp_path / "m.pkg", targets=(Target("cpu", (CPU_LEVELS[0],)),), golden=False
    )
    driver.build(made, options)
    model = aot_runtime.load(tmp_path / "m.pkg")
    for n in (0, 1, 2, 9):
        x = np.random.default_rng(seeded(n)).random((n, 2), np.float32)
        total, decayed = model(x)
        np.testing.assert_allclose(total, x.cumsum(0), rtol=1e-6)
        expected = np.zeros_like(x)
        for k in range(n):
            expected[k] = expected[k - 1] * 0.5 + x[k] if k else x[k]
        np.testing.assert_allclose(decayed, expected, rtol=1e-6)


def test_a_scan_that_torch_takes_apart_has_any_length() -> None:
    def joined(
        a: tuple[torch.Tensor, ...], b: tuple[torch.Tensor, ...]
    ) -> tuple[torch.Tensor, ...]:
        return a[0] * b[0], b[0] * a[1] + b[1]

    def forward(x: torch.Tensor) -> Any:
        return associative_scan(joined, (x.sigmoid(), x), 1, reverse=True, combine_mode="generic")

    shapes = {"args": ({1: Dim("n", min=1, max=9)},)}
    made = capture_module(Calls(forward), (torch.ones(3, 5),), dynamic_shapes=shapes)
    for n in (1, 2, 9):
        x = torch.linspace(-1, 1, 3 * n).reshape(3, n)
        for ours, eager in zip(interpret_lowered(made, (x,)), forward(x), strict=True):
            np.testing.assert_allclose(ours, eager, 1e-5, 1e-6)
