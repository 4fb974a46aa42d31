"""The compiler from Python, and what it promises of the files it writes."""

from __future__ import annotations

from pathlib import Path

import aot_runtime
import numpy as np
import pytest
import torch

import aot
from aot.cli import run_command
from aot.errors import UsageError
from tests.settings import seeded


class Scaled(torch.nn.Module):
    """A parameter, a pointwise chain and a reduction."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.linspace(0.5, 1.5, 10))

    def forward(self, x: torch.Tensor, *, bias: torch.Tensor) -> dict[str, torch.Tensor]:
        y = torch.tanh(x * self.scale + bias)
        return {"y": y, "total": y.sum(-1)}


X, BIAS = torch.randn(4, 10), torch.randn(10)


def test_a_module_becomes_a_package_with_its_own_signature(tmp_path: Path) -> None:
    module = Scaled()
    path = tmp_path / "scaled.pkg"
    report = aot.package(module, (X,), kwargs={"bias": BIAS}, path=path)
    assert report.output == path
    result = aot_runtime.load(path)(X.numpy(), bias=BIAS.numpy())
    expected = module(X, bias=BIAS)
    assert set(result) == {"y", "total"}
    for name, value in result.items():
        np.testing.assert_allclose(value, expected[name].detach().numpy(), rtol=1e-5, atol=1e-6)


class Columns(torch.nn.Module):
    """Gives sizes, and computes nothing."""

    def forward(self, x: torch.Tensor) -> tuple[int, float, None]:
        return x.shape[1] + 1, x.shape[1] / 2, None


def test_a_model_without_kernels_runs(tmp_path: Path) -> None:
    aot.package(Columns(), (X,), path=tmp_path / "columns.pkg")
    assert aot_runtime.load(tmp_path / "columns.pkg")(np.zeros((4, 10), np.float32)) == (
        11,
        5,
        None,
    )


def test_sizes_are_given_and_verified(tmp_path: Path) -> None:
    path = tmp_path / "columns.pkg"
    columns = torch.export.Dim("columns", min=1, max=64)
    aot.package(Columns(), (X,), path=path, dynamic_shapes=({1: columns},))
    assert aot_runtime.load(path)(np.zeros((4, 33), np.float32)) == (34, 16.5, None)
    assert run_command(["verify", str(path)]) == 0


def test_a_program_becomes_a_package(tmp_path: Path) -> None:
    program = torch.export.export(Scaled(), (X,), {"bias": BIAS})
    report = aot.package(program, path=tmp_path / "p.pkg", targets=("cpu:x86-64-v2",))
    assert report.targets == ("cpu:x86-64-v2",)


def test_a_program_with_other_inputs_is_refused(tmp_path: Path) -> None:
    program = torch.export.export(Scaled(), (X,), {"bias": BIAS})
    with pytest.raises(UsageError, match="has its inputs"):
        aot.package(program, (X,), path=tmp_path / "p.pkg")


def test_equal_models_give_equal_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = []
    for name in ("one", "another/deeper"):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        monkeypatch.chdir(folder)
        monkeypatch.setenv("AOT_CACHE_DIR", str(folder / "cache"))
        torch.manual_seed(seeded())
        aot.package(Scaled(), (X,), kwargs={"bias": BIAS}, path=Path("m.pkg"))
        contents.append((folder / "m.pkg").read_bytes())
    assert contents[0] == contents[1]
