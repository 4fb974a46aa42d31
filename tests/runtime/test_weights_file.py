"""Packages that keep their weights in a file of their own: loading, running, what can be wrong."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import aot_runtime
import numpy as np
import pytest
import torch
from aot_runtime.format.errors import CorruptPackage, PackageReadError
from aot_runtime.format.reader import PackageFile
from click.testing import CliRunner
from safetensors.torch import save_file

import aot
from aot.cli import cli
from tests.settings import seeded

X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 12)


class Net(torch.nn.Module):
    """A packed product, and a buffer that kernels read as it is."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(seeded())
        self.first = torch.nn.Linear(12, 40)
        self.second = torch.nn.Linear(40, 5)
        self.register_buffer("scale", torch.rand(40))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.tanh(self.first(x)) * self.scale)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With net.pkg and its net.weights."""
    folder = tmp_path_factory.mktemp("weights")
    aot.package(
        Net().eval(),
        (torch.from_numpy(X),),
        path=folder / "net.pkg",
        targets=("cpu:x86-64-v3",),
        swappable=True,
        weights_file="net.weights",
    )
    return folder


def expected(net: torch.nn.Module | None = None) -> np.ndarray:
    with torch.no_grad():
        return (net or Net().eval())(torch.from_numpy(X)).numpy()


def check(model: aot_runtime.Model, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(model(X), wanted, rtol=1e-5, atol=1e-6)


def test_the_file_beside_the_package(folder: Path) -> None:
    check(aot_runtime.load(folder / "net.pkg", verify=True), expected())


def test_a_file_elsewhere(folder: Path, tmp_path: Path) -> None:
    package = shutil.copy(folder / "net.pkg", tmp_path)
    with pytest.raises(aot_runtime.NotFound, match=r"cannot open file of weights .*net.weights"):
        aot_runtime.load(package)
    check(aot_runtime.load(package, weights=folder / "net.weights"), expected())


def test_entries_and_replacement(folder: Path, tmp_path: Path) -> None:
    model = aot_runtime.load(folder / "net.pkg")
    np.testing.assert_array_equal(model.entry("weights/scale"), Net().scale.numpy())
    other = Net().eval()
    with torch.no_grad():
        other.first.weight.mul_(0.5)
    save_file(other.state_dict(), tmp_path / "new.safetensors")
    model.replace_weights(tmp_path / "new.safetensors")
    check(model, expected(other))
    check(aot_runtime.load(folder / "net.pkg"), expected())


def test_weights_of_another_package(folder: Path, tmp_path: Path) -> None:
    net = Net().eval()
    with torch.no_grad():
        net.scale.add_(1)
    inputs = (torch.from_numpy(X),)
    settings = {"targets": ("cpu:x86-64-v3",), "weights_file": "w"}
    aot.package(net, inputs, path=tmp_path / "n.pkg", **settings)
    with pytest.raises(
        aot_runtime.CorruptPackage, match=r"'.*w': these are the weights of another"
    ):
        aot_runtime.load(folder / "net.pkg", weights=tmp_path / "w")


def test_a_package_that_holds_its_weights_takes_none(folder: Path, tmp_path: Path) -> None:
    inputs = (torch.from_numpy(X),)
    aot.package(Net().eval(), inputs, path=tmp_path / "n.pkg", targets=("cpu:x86-64-v3",))
    with pytest.raises(aot_runtime.InvalidArgument, match=r"holds its weights itself"):
        aot_runtime.load(tmp_path / "n.pkg", weights=folder / "net.weights")


def test_damage_is_found(folder: Path, tmp_path: Path) -> None:
    package = shutil.copy(folder / "net.pkg", tmp_path)
    data = bytearray((folder / "net.weights").read_bytes())
    data[-1] ^= 1
    (tmp_path / "net.weights").write_bytes(data)
    with pytest.raises(aot_runtime.CorruptPackage, match=r"checksum of '(weights|packed)/"):
        aot_runtime.load(package, verify=True)
    (tmp_path / "net.weights").write_bytes(data[: len(data) // 2])
    with pytest.raises(aot_runtime.CorruptPackage, match=r"net.weights'.*truncated"):
        aot_runtime.load(package)
    (tmp_path / "net.weights").write_bytes(Path(package).read_bytes())
    with pytest.raises(aot_runtime.CorruptPackage, match=r"not the weights of an aot package"):
        aot_runtime.load(package)


def test_the_command_line(tmp_path: Path) -> None:
    source = Path(__file__).parents[2] / "examples" / "01_mlp" / "model.py"
    package = tmp_path / "mlp.pkg"
    run = CliRunner().invoke
    made = run(cli, ["build", str(source), "-o", str(package), "--weights-file", "mlp.weights"])
    assert made.exit_code == 0, made.output
    assert (tmp_path / "mlp.weights").stat().st_size > package.stat().st_size / 10
    assert run(cli, ["verify", str(package)]).exit_code == 0
    shown = run(cli, ["inspect", str(package), "--json", "--checksums"])
    assert shown.exit_code == 0
    assert json.loads(shown.output)


def test_the_command_line_names_the_file_of_the_weights(folder: Path, tmp_path: Path) -> None:
    package = Path(shutil.copy(folder / "net.pkg", tmp_path))
    weights = tmp_path / "net.weights"
    with pytest.raises(PackageReadError, match="weights that the package keeps in a file") as none:
        PackageFile(package)
    assert none.value.where == str(weights)
    shutil.copy(package, weights)
    with pytest.raises(CorruptPackage, match="metadata does not say format=aot-weights") as other:
        PackageFile(package)
    assert other.value.where == f"{package}, net.weights"
