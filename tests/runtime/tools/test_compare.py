"""`compare`: what differs between two packages, by their data and by runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from aot_runtime.format.reader import PackageFile
from aot_runtime.tools.commands import run_command
from aot_runtime.tools.compare import (
    Compared,
    Counts,
    ProgramDifference,
    compare_files,
    compare_runs,
    text,
)
from aot_runtime.tools.loaded import load_model
from torch import nn

import aot


class Layers(nn.Module):
    def __init__(self, width: int, *, more: bool = False, bias: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(8, width)
        self.more = more
        with torch.no_grad():
            self.first.bias.add_(bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x).relu()
        return y.softmax(-1).cumsum(-1) if self.more else y


def _package(path: Path, module: nn.Module) -> Path:
    aot.package(module, (torch.ones(2, 8),), path=path, targets=["cpu:x86-64-v2"])
    return path


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("compare")
    modules = {
        "plain": Layers(4),
        "again": Layers(4),
        "bias": Layers(4, bias=0.5),
        "more": Layers(4, more=True),
        "wide": Layers(6),
    }
    return {name: _package(folder / f"{name}.pkg", module) for name, module in modules.items()}


def _compared(packages: dict[str, Path], first: str, second: str) -> Compared:
    with PackageFile(packages[first]) as a, PackageFile(packages[second]) as b:
        return compare_files(a, b)


def test_the_same_model_has_no_difference(packages: dict[str, Path]) -> None:
    found = _compared(packages, "plain", "again")
    assert (found.contract, found.targets, found.weights) == ((), (), ())
    (program,) = found.programs
    assert program.lines == ()
    assert program.code.first == program.code.second > 0
    assert "contract   the same" in text(found)
    assert "weights    the same" in text(found)


def test_changed_weights_are_named(packages: dict[str, Path]) -> None:
    found = _compared(packages, "plain", "bias")
    assert found.contract == ()
    (line,) = found.weights
    assert line.startswith("! ")
    assert "bias" in line


def test_another_contract_is_shown_from_both_sides(packages: dict[str, Path]) -> None:
    found = _compared(packages, "plain", "wide")
    assert found.contract == ("- output output: float32[2, 4]", "+ output output: float32[2, 6]")


def test_lines_with_other_kernels_are_named(packages: dict[str, Path]) -> None:
    (program,) = _compared(packages, "plain", "more").programs
    kernels = next(c for c in program.counts if c.name == "kernels")
    assert sum(c.second - c.first for c in program.lines) == kernels.second - kernels.first > 0


def test_runs_tell_the_greatest_difference(packages: dict[str, Path]) -> None:
    inputs = [torch.ones(2, 8).numpy()]
    plain, bias = (load_model(packages[name]) for name in ("plain", "bias"))
    (same,), times = compare_runs(plain, load_model(packages["again"]), inputs, 2)
    assert same.error == 0.0
    assert times.runs == 2
    assert times.ratio == times.second / times.first
    (other,), _ = compare_runs(plain, bias, inputs, 1)
    assert other.error == pytest.approx(0.5, abs=0.01)


def test_the_text_names_no_more_than_fit() -> None:
    lines = tuple(Counts(f"model.py:{k}", 1, 2) for k in range(30))
    program = ProgramDifference("cpu", Counts("code", 10, 2000), (), lines)
    found = text(Compared(Counts("file", 1, 1), (), (), (program,), ("+ cuda:sm_90",), ()))
    assert "1 -> 2 kernels: model.py:19\n  and 10 more\n" in found
    assert "code 10 B -> 2 kB" in found
    assert "targets    + cuda:sm_90" in found


def test_the_command_runs_what_it_can(
    packages: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    run_command(["compare", str(packages["plain"]), str(packages["again"]), "--runs", "1"], "aot")
    out = capsys.readouterr().out
    assert "output: equal" in out
    assert "medians of 1 runs in turn" in out
    arguments = ["compare", str(packages["plain"]), str(packages["bias"]), "--data", "--json"]
    run_command(arguments, "aot")
    told = json.loads(capsys.readouterr().out)
    assert told["outputs"] is told["times"] is None
    run_command(["compare", str(packages["plain"]), str(packages["wide"]), "--json"], "aot")
    assert json.loads(capsys.readouterr().out)["times"] is None
