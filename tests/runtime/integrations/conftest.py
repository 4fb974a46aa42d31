"""Environments with serving engines, and a package for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kernels import write_kernels


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """relu(x * w) of up to 64 rows."""
    return write_kernels(tmp_path_factory.mktemp("package"), {"x86-64-v2": "0"})


@pytest.fixture(scope="session")
def python_with(pytestconfig: pytest.Config) -> Callable[[str], Path]:
    """The Python of the environment of that name."""

    def find(name: str) -> Path:
        folder = pytestconfig.getoption("--environments")
        if folder is None:
            pytest.skip("`make integrations` runs it")
        python = Path(folder).absolute() / name / "bin" / "python"
        assert python.exists(), f"scripts/environment {name}"
        return python

    return find
