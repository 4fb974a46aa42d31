"""What notebooks show: a line while a build works, tables of reports and models."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aot_runtime
import pytest
import torch

import aot
from aot.check import check
from aot.options import STAGES, from_environment, parse_target
from aot.report.notebook import NotebookProgress, progress
from aot.report.observers import Silent
from tests.levels import target_of


class Cell:
    """IPython, as far as it is asked; keeps what the cell's line said."""

    def __init__(self, *, kernel: bool) -> None:
        self.said: list[str] = []
        self.shell = SimpleNamespace(kernel=1) if kernel else SimpleNamespace()
        self.display = SimpleNamespace(HTML=str, display=self._display)

    def get_ipython(self) -> Any:
        return self.shell

    def _display(self, shown: str, *, display_id: bool) -> Any:
        assert display_id
        self.said.append(shown)
        return SimpleNamespace(update=self.said.append)


def test_a_build_in_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell(kernel=True)
    monkeypatch.setitem(sys.modules, "IPython", cell)
    path = tmp_path / "<relu>.pkg"
    report = aot.package(torch.nn.ReLU(), (torch.ones(3),), path=path, targets=[target_of()])
    assert [s for s in STAGES if any(f"> {s}" in said for said in cell.said)] == list(STAGES)
    assert any("passes: " in said for said in cell.said)
    assert f'value="{len(STAGES)}"' in cell.said[-1] and "packaged in" in cell.said[-1]
    page = report._repr_html_()
    assert "&lt;relu&gt;.pkg: " in page and "<relu>" not in page
    assert page.count("<tr>") == 1 + len(report.programs[0].kernels) and "aten.relu" in page
    model = aot_runtime.load(path)._repr_html_()
    assert '<td style="text-align:left">float32[3]</td>' in model and "output" in model


def test_elsewhere_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert isinstance(progress(), Silent)
    monkeypatch.setitem(sys.modules, "IPython", Cell(kernel=False))
    assert isinstance(progress(), Silent)
    monkeypatch.setitem(sys.modules, "IPython", Cell(kernel=True))
    assert isinstance(progress(), NotebookProgress)


def test_a_check_as_a_table(tmp_path: Path) -> None:
    model = tmp_path / "net.py"
    model.write_text("import torch\nmodel = torch.nn.Tanh()\nexample_inputs = (torch.ones(3),)\n")
    target = parse_target(target_of())
    report = check(model, from_environment(output=tmp_path / "a.pkg", targets=(target,)))
    page = report._repr_html_()
    assert "0 of 2 outputs are wrong" in page and page.count("<tr>") == 3
