"""Examples, at ISA levels of this machine and at 1 and 2 threads, against float64.

A quarter of them, each at a level in turn, as packaging one takes ten seconds. `--sweeps`: all.
"""

from __future__ import annotations

from pathlib import Path

import aot_runtime
import pytest
from aot_runtime.tools.loaded import load_model

from aot import driver, options
from tests.comparing import complaint
from tests.examples.accuracy import Reference, references
from tests.sampling import part, turn
from tests.settings import SETTINGS

ROOT = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(p.parent.name for p in ROOT.glob("[01]*/model.py"))
LEVELS = options.CPU_LEVELS[: options.CPU_LEVELS.index(aot_runtime.cpu_isa()) + 1]


def levels_run(config: pytest.Config, example: str) -> tuple[str, ...]:
    """The lowest or the best in turn; `--sweeps`: all that the machine runs."""
    if config.getoption("--sweeps"):
        return LEVELS
    both = tuple(dict.fromkeys((LEVELS[0], LEVELS[-1])))
    return (turn(both, "", (EXAMPLES.index(example),), SETTINGS.seed),)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Fills the `packaged` and `isa` arguments."""
    if "isa" in metafunc.fixturenames:
        run = EXAMPLES
        if not metafunc.config.getoption("--sweeps"):
            run = part(EXAMPLES, "test_example_matches_float64", 4, SETTINGS.seed)
        cases = [(e, isa) for e in run for isa in levels_run(metafunc.config, e)]
        metafunc.parametrize(("packaged", "isa"), cases, indirect=["packaged"], scope="module")


@pytest.fixture(scope="module")
def packaged(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, tuple[Reference, ...]]:
    """The example's package, with the levels that run, and its reference outputs."""
    model = ROOT / str(request.param) / "model.py"
    output = tmp_path_factory.mktemp("examples") / f"{request.param}.pkg"
    levels = levels_run(request.config, str(request.param))
    targets = (options.Target("cpu", levels),)
    driver.build(model, options.from_environment(output=output, targets=targets))
    return output, references(model)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_example_matches_float64(
    packaged: tuple[Path, tuple[Reference, ...]], isa: str, threads: int
) -> None:
    package, sets = packaged
    model = load_model(package, isa=isa, threads=threads)
    for reference in sets:
        outputs = model.run(reference.inputs)
        assert len(outputs) == len(reference.eager)
        for ours, eager, exact in zip(outputs, reference.eager, reference.exact, strict=True):
            assert complaint(ours, eager, exact) == ""
