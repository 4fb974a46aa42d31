"""What tests of several examples need."""

from pathlib import Path

import pytest

from tests.examples.building import cmake, configure
from tests.kernels import ROOT


@pytest.fixture(scope="session")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runtime, installed as a user installs it."""
    build = tmp_path_factory.mktemp("build")
    prefix = tmp_path_factory.mktemp("prefix")
    options = ["-DAOT_BUILD_TESTS=OFF", "-DAOT_BUILD_SERVE=OFF", "-DCMAKE_INSTALL_LIBDIR=lib"]
    configure(ROOT, build, *options)
    cmake("--build", build)
    cmake("--install", build, "--prefix", prefix, "--component", "development")
    return prefix
