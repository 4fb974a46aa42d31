"""Packages of every released format are read for ever: tests/packages holds one of each.

A new minor version adds a file here (`python -m tests.runtime.test_old_packages` wrote 1.1's, whose
kernels declare what they touch, with the compiler; 1.0's was made by hand); no file is ever changed
or removed within a major version.
"""

from pathlib import Path
from typing import Any

import aot_runtime
import numpy as np
import pytest
import torch
from aot_runtime.format.declarations import decode_declarations
from aot_runtime.format.reader import PackageFile
from aot_runtime.tools.commands import run_command

import aot
from aot.link.declaration_check import check_declarations

FOLDER = Path(__file__).parents[1] / "packages"
PACKAGES = sorted(FOLDER.glob("*.pkg"))


def test_there_is_one_of_each_format() -> None:
    assert [path.name for path in PACKAGES] == ["small-1.0.pkg", "small-1.1.pkg"]


def test_kernels_of_1_1_declare_what_they_touch() -> None:
    with PackageFile(FOLDER / "small-1.1.pkg") as file:
        (library,) = file.plan.programs[0].libraries
        declared = decode_declarations(file.data(library.entry), library.entry)
        assert declared
        check_declarations(file.plan, {"cpu": declared})


@pytest.mark.parametrize("path", PACKAGES, ids=lambda path: path.name)
def test_golden_values(path: Path) -> None:
    model = aot_runtime.load(path, verify=True)
    assert model.plan["golden"], "a kept package carries its own expected values"
    for golden in model.plan["golden"]:
        results = model.run([model.entry(name) for name in golden["inputs"]])
        rows = zip(results, golden["outputs"], golden["atol"], golden["rtol"], strict=True)
        for result, name, atol, rtol in rows:
            np.testing.assert_allclose(result, model.entry(name), atol=atol, rtol=rtol)


@pytest.mark.parametrize("path", PACKAGES, ids=lambda path: path.name)
def test_commands(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["inspect"], ["plan"], ["run"], ["verify"], ["bench", "--runs", "2"]):
        run_command([command[0], str(path), *command[1:]], "aot-runtime")
    run_command(["compare", str(path), str(path), "--runs", "2"], "aot-runtime")
    shown = capsys.readouterr().out
    assert ("unknown line" in shown) == ("1.0" in path.name)
    assert ": ok, error 0" in shown


class Small(torch.nn.Module):
    """A dynamic batch, weights, two outputs in a dict, and a size that the data decides."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(torch.arange(8.0))

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        y = 2 * (x + self.bias)
        return {"y": y, "rest": (y.sum(1), torch.relu(y[torch.nonzero(y[:, 0] > 0).squeeze(1)]))}


def write() -> None:
    """Writes tests/packages/small-1.1.pkg."""
    examples = [(torch.linspace(-1, 1, rows * 8).reshape(rows, 8),) for rows in (3, 2, 7)]
    aot.package(
        Small(),
        examples[0],
        path=FOLDER / "small-1.1.pkg",
        targets=("cpu:x86-64-v2",),
        dynamic_shapes={"x": {0: torch.export.Dim("batch", min=1, max=64)}},
        extra_inputs=examples[1:],
    )


if __name__ == "__main__":
    write()
