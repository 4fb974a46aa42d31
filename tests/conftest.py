"""Fixtures for all tests: golden texts, and environment that no test may lean on."""

from __future__ import annotations

import difflib
import gc
import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aot import garbage
from aot.options import CPU_LEVELS
from tests.costs import Costs
from tests.exporting import ease_export
from tests.levels import LOWEST, OWN
from tests.sampling import Part, part, sample, turn
from tests.settings import LEVEL, SETTINGS, exact_floats

GoldenCheck = Callable[[str, str], None]

# Signing needs a package that a lent machine with a GPU may lack; where packages can be installed,
# scripts/setup installs it.
collect_ignore = (
    [] if importlib.util.find_spec("cryptography") else ["runtime/test_policy.py", "trust"]
)


LONGEST = ("tests/test_readme.py", "tests/docs/test_guides.py", "tests/tools/site/")
"""Tests of a minute each begin first: at the end all workers but one would wait for them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update-golden`: write the expected files instead of comparing with them.

    `--sweeps`, `--seed`, `--level`, `--wheels`, `--environments`, `--serve`: how much is run, and
    on what.
    """
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the expected texts of golden tests; review the diff like code",
    )
    parser.addoption(
        "--wheels", type=Path, metavar="FOLDER", help="install what scripts/wheels has put there"
    )
    parser.addoption(
        "--environments",
        type=Path,
        metavar="FOLDER",
        help="run serving engines in what scripts/environment has made there",
    )
    parser.addoption(
        "--serve", metavar="PROGRAM", help="test this aot-serve, such as a sanitized one"
    )
    parser.addoption(
        "--kserve", metavar="PYTHON", help="one that has `kserve`, whose client asks aot-serve"
    )
    parser.addoption(
        "--serve-seconds", type=float, default=6, help="how long wrong clients ask aot-serve"
    )
    parser.addoption("--sweeps", action="store_true", help="run the sweeps whole, not a sample")
    parser.addoption(
        "--costs", action="store_true", help="measure the tests that run; rewrite tests/costs.json"
    )
    parser.addoption(
        "--seed", type=int, default=0, help="make the tests' random inputs of this seed"
    )
    parser.addoption(
        "--level",
        choices=CPU_LEVELS,
        help=f"package for this level instead of {LEVEL}, and run the operator rows on it too",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Tell the tests their settings, before their modules make inputs of them."""
    garbage.search_seldom()
    if config.getoption("--costs"):
        config.pluginmanager.register(Costs())
    SETTINGS.seed = int(config.getoption("--seed"))
    SETTINGS.level = config.getoption("--level") or LEVEL
    SETTINGS.sweeps = bool(config.getoption("--sweeps"))
    exact_floats()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sample the sweeps, the longest first; mark what uses the golden fixture for `make golden`."""
    ease_export()
    for item in items:
        if "golden" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.golden)
    if not config.getoption("--sweeps"):
        # What needs a GPU is a sample by itself; a text that is kept is always compared.
        whole = [i for i in items if any(i.get_closest_marker(m) for m in ("gpu", "golden"))]
        names = {i.nodeid for i in whole}
        # Who asks for a file wants what it tests.
        asked = {name.partition("::")[0] for name in config.args if ".py" in name}
        files = {i.nodeid.partition("::")[0] for i in items}
        ours = {file for file in files if any(name.endswith(file) for name in asked)}
        others = (i.nodeid for i in items if i.nodeid not in names)
        kept = sample(others, SETTINGS.seed, ours)
        items[:] = [i for i in items if i.nodeid in names or i.nodeid in kept]
    # Stable: fixtures of modules serve their tests one after the other, on every worker alike.
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


def pytest_collection_finish() -> None:
    """Never search for garbage in what torch and all tests' modules have brought."""
    with garbage.kept_for_good():
        pass


def pytest_unconfigure() -> None:
    """Let the end find all: extensions complain of what it leaves."""
    gc.unfreeze()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Iterator[GoldenCheck]:
    """Compares text with `golden/<test file>/<name>` beside the test's file.

    Call it as `golden("mlp.txt", text)`. A missing file fails, except with --update-golden, which
    writes it.
    """
    path = Path(str(request.path))
    folder = path.parent / "golden" / path.stem.removeprefix("test_")
    update = bool(request.config.getoption("--update-golden"))

    def check(name: str, actual: str) -> None:
        expected_file = folder / name
        if update:
            expected_file.parent.mkdir(parents=True, exist_ok=True)
            expected_file.write_text(actual, encoding="utf-8")
            return
        if not expected_file.exists():
            pytest.fail(f"{expected_file} does not exist; run with --update-golden to write it")
        expected = expected_file.read_text(encoding="utf-8")
        if actual != expected:
            diff = difflib.unified_diff(
                expected.splitlines(),
                actual.splitlines(),
                str(expected_file),
                "actual",
                lineterm="",
            )
            pytest.fail("golden text differs (--update-golden to accept):\n" + "\n".join(diff))

    yield check


@pytest.fixture
def levels(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """The lowest level and this machine's, on which a test runs what it packages.

    Of several cases of a test each takes one of the two in turn, unless `--sweeps` asks for all:
    compilers take most of such tests' time.
    """
    both = tuple(dict.fromkeys((LOWEST, OWN)))
    case = getattr(request.node, "callspec", None)
    if case is None or request.config.getoption("--sweeps"):
        return both
    function = request.node.nodeid.partition("[")[0]
    return (turn(both, function, case.indices.values(), SETTINGS.seed),)


@pytest.fixture
def a_level(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """One of `levels` in turn, also for a test without cases; all with `--sweeps`.

    For what takes ten seconds to compile for each.
    """
    both = tuple(dict.fromkeys((LOWEST, OWN)))
    if request.config.getoption("--sweeps"):
        return both
    return (turn(both, request.node.nodeid, (), SETTINGS.seed),)


@pytest.fixture
def some(request: pytest.FixtureRequest) -> Part:
    """Of values that differ in size or kind alone one in so many: `some(MATRICES, 3)`.

    For a test that compiles a kernel for each of them in one package; all with `--sweeps`.
    """
    if request.config.getoption("--sweeps"):
        return lambda values, every: list(values)
    return lambda values, every: part(values, request.node.nodeid, every, SETTINGS.seed)


@pytest.fixture(scope="session", autouse=True)
def _own_cache() -> Iterator[None]:
    """Builds in tests share the checkout's cache of compiled kernels, never the user's.

    From the start: packages that several tests share are built before any test's own fixtures.
    """
    root = Path(__file__).parents[1] / ".cache" / "kernels"
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AOT_CACHE_DIR", str(root))
        yield
