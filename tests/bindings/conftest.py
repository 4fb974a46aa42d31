"""What tests of the bindings need: packages, and the runtime as it is installed here."""

from pathlib import Path

import pytest
from aot_runtime.tools.main import prefix as installed

from tests.bindings.packages import write_packages


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of what write_packages writes."""
    folder = tmp_path_factory.mktemp("packages")
    write_packages(folder)
    return folder


@pytest.fixture(scope="session")
def prefix() -> Path:
    """Where headers and library of the runtime are: what `aot-runtime --prefix` prints."""
    return installed()
