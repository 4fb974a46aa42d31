"""Packages of every released format are read for ever: tests/packages holds one of each.

A new minor version adds a file here (`python -m tests.runtime.test_old_packages` wrote 1.0's); no
file is ever changed or removed within a major version.
"""

from pathlib import Path

import aot_runtime
import numpy as np
import pytest

from tests.runtime.make_package import expected_small, small_package

FOLDER = Path(__file__).parents[1] / "packages"
PACKAGES = sorted(FOLDER.glob("*.pkg"))


def test_there_is_one_of_each_format() -> None:
    assert "small-1.0.pkg" in [path.name for path in PACKAGES]


@pytest.mark.parametrize("path", PACKAGES, ids=lambda path: path.name)
def test_golden_values(path: Path) -> None:
    model = aot_runtime.load(path, verify=True)
    assert model.plan["golden"], "a kept package carries its own expected values"
    for golden in model.plan["golden"]:
        results = model.run([model.entry(name) for name in golden["inputs"]])
        rows = zip(results, golden["outputs"], golden["atol"], golden["rtol"], strict=True)
        for result, name, atol, rtol in rows:
            np.testing.assert_allclose(result, model.entry(name), atol=atol, rtol=rtol)


def write() -> None:
    """Writes tests/packages/small-1.0.pkg."""
    package = small_package()
    for i, rows in enumerate((0, 1, 7)):
        x = np.linspace(-1, 1, rows * 8, dtype=np.float32).reshape(rows, 8)
        names = {
            "inputs": [f"golden/{i}/inputs/0"],
            "outputs": [f"golden/{i}/outputs/{k}" for k in range(2)],
        }
        for name, array in zip(
            names["inputs"] + names["outputs"], (x, *expected_small(x)), strict=True
        ):
            package.add(name, array)
        package.plan["golden"].append({**names, "atol": [1e-6, 1e-5], "rtol": [1e-6, 1e-5]})
    package.write(FOLDER / "small-1.0.pkg")


if __name__ == "__main__":
    write()
