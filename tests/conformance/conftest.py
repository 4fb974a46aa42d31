"""Which executors the rows run on."""

from __future__ import annotations

import pytest

from tests.conformance.executors import EXECUTORS


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--executors=all`, or a list of names separated by commas."""
    parser.addoption(
        "--executors",
        default="loops,kernels,triton",
        help=f"what the operator rows run on: all, or some of {','.join(EXECUTORS)}",
    )


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Fills the `executor` argument; it varies fastest, so that a row is exported once."""
    if "executor" in metafunc.fixturenames:
        chosen = str(metafunc.config.getoption("--executors", default="loops,kernels,triton"))
        names = list(EXECUTORS) if chosen == "all" else chosen.split(",")
        metafunc.parametrize("executor", names)
