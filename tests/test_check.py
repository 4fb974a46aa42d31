"""`aot-package check`: right models pass, wrong ones are found, with the stage and the line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aot_runtime.format.golden_sets import Shared
from aot_runtime.format.plan import Dim

from aot import check as checking
from aot.backends.registry import backend_for
from aot.check import Checked, check, size_sets
from aot.cli import run_command
from aot.lowering.rows import REGISTRY
from aot.options import from_environment, parse_target
from tests.levels import target_of

MODEL = """
import torch
from torch import nn
from torch.export import Dim


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)

    def forward(self, x, n):
        y = torch.tanh(self.first(x))
        z = torch.cos(y.sum(0)) + n
        return y * 2, z.argmax()


torch.manual_seed(0)
model = Net().eval()
example_inputs = (torch.randn(3, 8), torch.tensor(2))
extra_inputs = [(torch.randn(7, 8), torch.tensor(5))]
dynamic_shapes = ({0: Dim("batch", min=1, max=40)}, None)
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "net.py"
    path.write_text(MODEL)
    return path


def run(model: Path, **more: Any) -> checking.CheckReport:
    target = parse_target(target_of())
    options = from_environment(output=model.with_suffix(".pkg"), targets=(target,))
    return check(model, options, **more)


def test_a_right_model(model: Path) -> None:
    report = run(model, sizes={"batch": 11})
    sets = dict.fromkeys(c.inputs for c in report.checked)
    assert list(sets) == [
        "example",
        "extra 1",
        "random batch=11",
        "random batch=1",
        "random batch=5",
        "random batch=33",
    ]
    assert not report.wrong and not report.refused and all(c.exact for c in report.checked)
    assert all(c.allowed < 1e-3 for c in report.checked)
    assert [c.output for c in report.checked[:2]] == ["output_0", "output_1"]
    assert "first difference" not in "\n".join(report.lines())
    assert model.with_suffix(".pkg").exists()
    json.dumps(report.to_json())


def test_a_wrong_lowering_is_found(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = replace(REGISTRY.rows["aten.sin.default"], target="aten.tanh.default")
    monkeypatch.setitem(REGISTRY.rows, "aten.tanh.default", wrong)
    report = run(model)
    assert {c.output for c in report.wrong} >= {"output_0"}
    assert report.blame.stage == "lowering"
    assert report.blame.where.startswith("net.py:13 (aten.tanh"), report.blame


class WrongCode:
    """The C++ backend, whose kernels call another function than they should."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def emit(self, kernels: Any, target: Any) -> Any:
        emitted = self._backend.emit(kernels, target)
        functions = tuple(
            replace(f, text=f.text.replace("tanh(", "sin("), unnamed="") for f in emitted.functions
        )
        assert functions != emitted.functions
        return replace(emitted, functions=functions)


def test_wrong_code_is_found(model: Path) -> None:
    report = run(model, choose=lambda target: WrongCode(backend_for(target)))
    assert {c.output for c in report.wrong} >= {"output_0"}
    assert report.blame.stage == "code" and "net.py:1" in report.blame.where


def test_the_command(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["check", str(model), "--json", "--size", "batch=2"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] and told["first_difference"] is None
    assert {row["inputs"] for row in told["results"]} >= {"example", "random batch=2"}
    assert run_command(["check", str(model), "--size", "rows=2"]) == 2
    assert "--size names rows" in capsys.readouterr().err


def test_the_command_tells_of_what_is_wrong(
    model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "MARGIN", -1.0)
    monkeypatch.setattr(checking, "ROUNDING", {})
    assert run_command(["check", str(model)]) == 1
    told = capsys.readouterr().err
    assert "outputs differ from eager" in told and "first difference: not found" in told


FAILS = """
import torch

def model(x):
    torch._check(x.shape[0] < 4)
    assert (x < 100).all()
    return torch.sqrt(x)

class Wrapped(torch.nn.Module):
    def forward(self, x):
        assert (x > -0.5).all()
        return torch.sqrt(x)

model = Wrapped()
example_inputs = (torch.ones(2, 3),)
"""


def test_what_both_refuse_is_no_difference(tmp_path: Path) -> None:
    path = tmp_path / "fails.py"
    path.write_text(FAILS)
    report = run(path)
    assert len(report.refused) == 1 and report.refused[0].startswith("random")
    assert [c.inputs for c in report.checked] == ["example"] and not report.wrong


NARROW = """
import torch

class Narrow(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.eye(3))
    def forward(self, x):
        return x.float() @ (self.w.float() * torch.ones(3)), torch.ops.aten.mm(
            x, torch.ones(3, 3)
        )

model = Narrow()
example_inputs = (torch.ones(2, 3),)
"""


def test_models_that_insist_on_their_type_are_measured_with_eager(tmp_path: Path) -> None:
    path = tmp_path / "narrow.py"
    path.write_text(NARROW)
    report = run(path)
    assert not report.wrong and not any(c.exact for c in report.checked)
    assert "of eager; the model does not run in float64" in report.lines()[0]


SPECTRUM = """
import torch

class Spectrum(torch.nn.Module):
    def forward(self, x):
        return torch.linalg.eig(x)

torch.manual_seed(0)
model = Spectrum()
example_inputs = (torch.randn(24, 24),)
"""


def test_free_orders_and_signs_are_no_differences(tmp_path: Path) -> None:
    path = tmp_path / "spectrum.py"
    path.write_text(SPECTRUM)
    report = run(path)
    assert not report.wrong, report.lines()


def test_sizes_that_are_tried() -> None:
    class Plan:
        dims = (
            Dim("s0", "batch", 2, 16, 1, source=object()),  # type: ignore[arg-type]
            Dim("s1", "", 0, None, 8, source=object()),  # type: ignore[arg-type]
        )

    assert size_sets(Plan()) == [  # type: ignore[arg-type]
        {"batch": 2, "s1": 8},
        {"batch": 5, "s1": 8},
        {"batch": 16, "s1": 40},
    ]


def test_what_is_allowed() -> None:
    def checked(ours: Any, eager: Any, exact: Any, dtype: str = "float32") -> Checked:
        arrays = [np.array(a, dtype) for a in (ours, eager)]
        return checking._checked("i", "o", Shared(), *arrays, np.array(exact, np.float64))

    assert checked([1.00002], [1.0], [1.0]).ok is False
    assert checked([1.00002], [1.00001], [1.0]).ok
    assert checked([np.nan], [np.nan], [np.nan]).ok
    assert not checked([1.0], [np.nan], [np.nan]).ok
    assert checked([3], [3], [4], "int64").ok and not checked([5], [3], [4], "int64").ok
