"""What tests of the server need: the program, and packages for it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernels import write_kernels
from tests.serve.server import Server, build, put

SLEEP = "({ extern int usleep(unsigned); if (x[i] > 0) usleep((unsigned)(x[i] * 1000)); 0.0f; })"
"""Added to each result: waits as many milliseconds as the element says."""


@pytest.fixture(scope="session")
def program(pytestconfig: pytest.Config) -> Path:
    """The server: `--serve PATH`, such as one built with sanitizers, or the one that is shipped."""
    given = pytestconfig.getoption("--serve")
    return Path(given) if given else build()


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """relu(x * w) of up to 64 rows."""
    return write_kernels(tmp_path_factory.mktemp("package"), {"x86-64-v2": "0"})


@pytest.fixture(scope="session")
def other_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same and 1, so that its answers can be told apart."""
    return write_kernels(tmp_path_factory.mktemp("other"), {"x86-64-v2": "1"}, golden=False)


@pytest.fixture(scope="session")
def sleeper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, after as many milliseconds as the first element of each row says."""
    return write_kernels(tmp_path_factory.mktemp("sleeper"), {"x86-64-v2": SLEEP}, golden=False)


@pytest.fixture(scope="module")
def server(
    program: Path, package: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server of one model, "relu", with small limits."""
    models = tmp_path_factory.mktemp("models")
    put(models, "relu", package)
    limits = ["--max-body-mb", "1", "--header-time", "1", "--body-time", "1", "--idle-time", "2"]
    with Server(program, models, *limits) as started:
        yield started
    assert started.process.returncode == 0
