"""What tests of several examples need."""

from pathlib import Path

import pytest

from tests.examples.building import installed_runtime


@pytest.fixture(scope="session")
def runtime() -> Path:
    """The runtime, installed as a user installs it."""
    return installed_runtime()
