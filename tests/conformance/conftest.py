"""Which executors the rows run on."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.conformance.executors import EXECUTORS

DEFAULT = ("loops", "kernels", "triton")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--executors=all`, or a list of names separated by commas."""
    parser.addoption(
        "--executors",
        help=f"what the operator rows run on: all, or some of {','.join(EXECUTORS)}; by default "
        f"{','.join(DEFAULT)} and the level that --level names",
    )


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Fills the `executor` argument; it varies fastest, so that a row is exported once."""
    if "executor" in metafunc.fixturenames:
        metafunc.parametrize("executor", _chosen(metafunc.config))


def _chosen(config: pytest.Config) -> Sequence[str]:
    names, level = config.getoption("--executors", default=None), config.getoption("--level")
    if names == "all":
        return list(EXECUTORS)
    if names:
        return str(names).split(",")
    return [*DEFAULT, f"cpu:{level}"] if level else DEFAULT
