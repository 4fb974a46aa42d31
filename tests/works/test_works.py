"""The workloads of benchmarks/works: small, on both backends; and what a run writes of them."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import aot_runtime
import numpy as np
import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import aot
from aot.frontend.capture import capture_module
from aot.frontend.weights import to_array
from benchmarks.works.table import Length, Row, Times, read_rows, table, write_page, write_rows
from benchmarks.works.workloads import WORKLOADS, Inputs, Workload, workload_named
from tests.comparing import complaint
from tests.conformance.executors import interpret_triton
from tests.settings import level, seeded

ROOT = Path(__file__).parents[2]
RUNS = [workload for workload in WORKLOADS if workload.name != "LSTM"]
each = pytest.mark.parametrize("workload", RUNS, ids=lambda w: w.name)


def arrays(nested: object) -> list[np.ndarray]:
    return [to_array(torch.as_tensor(leaf)) for leaf in pytree.tree_leaves(nested)]


def check(module: nn.Module, inputs: Inputs, ours: Sequence[np.ndarray]) -> None:
    """Our results are as near to float64 as eager's."""
    wide = tuple(x.double() if x.is_floating_point() else x for x in inputs)
    eager, exact = arrays(module(*inputs)), arrays(copy.deepcopy(module).double()(*wide))
    for mine, theirs, right in zip(ours, eager, exact, strict=True):
        assert complaint(mine, theirs, right) == ""


@each
@torch.no_grad()
def test_small_on_the_cpu(workload: Workload, tmp_path: Path) -> None:
    module, inputs = workload.make("cpu", small=True)
    path = tmp_path / "small.pkg"
    aot.package(module, inputs, path=path, targets=[f"cpu:{level()}"], golden=False)
    for threads in (1, 3):
        model = aot_runtime.load(path, num_threads=threads)
        check(module, inputs, arrays(model(*inputs)))


@pytest.mark.slow
@each
@torch.no_grad()
def test_small_in_triton_s_interpreter(workload: Workload) -> None:
    module, inputs = workload.make("cuda", small=True)
    captured = capture_module(module, inputs, dynamic_shapes=workload.dynamic)
    check(module, inputs, interpret_triton(captured, inputs))


class Rows(nn.Module):
    """Rows of v that join, or replace, those of x that i names."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return getattr(x, self.name)(0, i, v)


@pytest.mark.parametrize("name", ["index_add", "index_copy"])
@torch.no_grad()
def test_shares_give_every_element_its_points_in_order(name: str, tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(seeded())
    x, v = (torch.randn(n, 40, generator=generator) for n in (100, 5000))
    i = torch.randint(100, (5000,), generator=generator)
    path = tmp_path / "rows.pkg"
    aot.package(Rows(name), (x, i, v), path=path, targets=[f"cpu:{level()}"], golden=False)
    models = [aot_runtime.load(path, num_threads=threads) for threads in (1, 2, 5)]
    one, *others = (arrays(model(x, i, v))[0] for model in models)
    expected = x.numpy().copy()
    for place, row in zip(i.tolist(), v.numpy(), strict=True):
        expected[place] = row + (expected[place] if name == "index_add" else 0)
    np.testing.assert_array_equal(one, expected)
    for other in others:
        np.testing.assert_array_equal(other, expected)
    i[4321] = 100
    for model in models:
        with pytest.raises(aot_runtime.AotError, match="index"):
            model(x, i, v)


def test_names_are_unique() -> None:
    assert len({workload.name for workload in WORKLOADS}) == len(WORKLOADS)
    assert workload_named("recommender") in WORKLOADS


def test_a_page_is_written_of_what_is_known(tmp_path: Path) -> None:
    times = (Times(1, {"ours": 0.5, "eager": 2.0}), Times(2, {"ours": 0.25, "eager": 0.5}))
    rows = [Row("recommender", "", 3, 1.5, times), Row("LSTM", "no package: a | b")]
    write_rows(tmp_path / "works_cpu.json", "here", rows)
    assert read_rows(tmp_path / "works_cpu.json") == rows
    assert read_rows(tmp_path / "works_cuda.json") == []
    write_page(tmp_path)
    page = (tmp_path / "works.md").read_text(encoding="utf-8")
    assert "## CPU\n\nhere\n" in page
    assert "## GPU" not in page
    lines = table(rows).splitlines()
    assert lines[2].startswith("| recommender | ")
    assert lines[2].endswith("| 3 | 1.5 s | 1 | 500 ms | 2 s | 0.25 |  |")
    assert lines[3].endswith("| 2 | 250 ms | 500 ms | 0.50 |  |")
    assert lines[4].endswith("| – | – | – | – | – | – | no package: a / b |")


def test_the_page_tells_how_long_packaging_takes_by_length(tmp_path: Path) -> None:
    rows = [Length(1000, True, 3, 4.06, 2.5), Length(16, False, 3, 4.0, 2.51)]
    found = {"about": "here", "rows": [asdict(row) for row in rows]}
    (tmp_path / "works_lengths.json").write_text(json.dumps(found), encoding="utf-8")
    write_page(tmp_path)
    page = (tmp_path / "works.md").read_text(encoding="utf-8")
    assert "by its length" in page
    assert "| 1000, dynamic | 3 | 4.1 s | 2.5 s |\n| 16 | 3 | 4.0 s | 2.5 s |\n" in page


@torch.no_grad()
def test_an_lstm_has_few_kernels_at_any_length(tmp_path: Path) -> None:
    counts = set()
    for steps, dynamic in ((3, False), (500, False), (500, True)):
        shapes = ({0: torch.export.Dim("steps", min=1, max=4096)},) if dynamic else None
        report = aot.package(
            nn.LSTM(8, 16).eval(),
            (torch.randn(steps, 2, 8),),
            path=tmp_path / "lstm.pkg",
            targets=[f"cpu:{level()}"],
            golden=False,
            dynamic_shapes=shapes,
        )
        counts.add(len(report.programs[0].kernels))
    assert max(counts) < 10


@pytest.mark.slow
def test_a_run_times_both_sides(tmp_path: Path) -> None:
    numbers = tmp_path / "works_cpu.json"
    command = [sys.executable, "-m", "benchmarks.works.run", "--only", "^graph", "--small"]
    options = ["--seconds", "0.01", "--note", "here", "--json", str(numbers)]
    subprocess.run([*command, *options], cwd=ROOT, check=True)
    found = json.loads(numbers.read_text(encoding="utf-8"))
    (row,) = found["rows"]
    assert found["about"] == "here"
    assert (row["name"], row["wrong"]) == ("graph network", "")
    for times in row["times"]:
        assert times["seconds"].keys() == {"eager", "ours"}
    assert "graph network" in (tmp_path / "works.md").read_text(encoding="utf-8")
