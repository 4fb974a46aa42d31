"""Packages that the tests of every language run."""

from __future__ import annotations

import runpy
from pathlib import Path

import torch

import aot
from tests.kernels import ROOT, write_kernels
from tests.settings import level


class Counting(torch.nn.Module):
    """Has a state, changes an input, and gives booleans."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1, dtype=torch.int64))

    def forward(
        self, x: torch.Tensor, total: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        total.add_(x)
        self.count += 1
        return x * self.count, x > 0, x.to(torch.int64)


class Large(torch.nn.Module):
    """Gives more than bindings copy."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


def write_packages(folder: Path) -> None:
    """relu.pkg: relu(x * w) of up to 64 rows; counting.pkg; large.pkg; mlp.pkg: of the examples."""
    write_kernels(folder, {"x86-64-v2": "0"}).rename(folder / "relu.pkg")
    mlp = runpy.run_path(str(ROOT / "examples/01_mlp/model.py"))
    models: dict[str, tuple[torch.nn.Module, tuple[torch.Tensor, ...]]] = {
        "counting": (Counting(), (torch.tensor([1.0, -2.0]), torch.zeros(2))),
        "large": (Large(), (torch.zeros(32768),)),
        "mlp": (mlp["model"](), mlp["example_inputs"]()),
    }
    for name, (module, inputs) in models.items():
        path = folder / f"{name}.pkg"
        aot.package(module, inputs, path=path, targets=[f"cpu:{level()}"], golden=False)
