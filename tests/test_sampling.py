"""The sample of the sweeps."""

from __future__ import annotations

import math

import pytest

from tests.costs import COSTS
from tests.kernels import ROOT
from tests.levels import LOWEST, OWN
from tests.sampling import AT_ONE_LEVEL, FAMILIES, LEAST, SWEEPS, family, part, sample, turn

PATH = "tests/backends/triton/"
EVERY = SWEEPS[PATH]


def cases(function: str, count: int) -> list[str]:
    return [f"{PATH}{function}[{k}]" for k in range(count)]


def test_each_function_keeps_a_part_of_its_cases_and_at_least_one() -> None:
    many, few = cases("test_a.py::test_many", 300), cases("test_a.py::test_few", 1)
    alone = f"{PATH}test_a.py::test_alone"
    kept = sample([*many, *few, alone], 0)
    assert 0.7 < len(kept.intersection(many)) * EVERY / len(many) < 1.3
    assert len(kept.intersection(few)) == 1
    assert alone in kept


def test_the_order_and_other_tests_change_nothing() -> None:
    many = cases("test_a.py::test_many", 30)
    kept = sample(many, 0)
    assert sample([*cases("test_b.py::test", 7), *reversed(many)], 0) >= kept


def test_seeds_between_them_take_what_one_leaves_out() -> None:
    many = cases("test_a.py::test_many", 30)
    seen = set().union(*(sample(many, seed) for seed in range(10 * EVERY)))
    assert seen == set(many)


def test_what_is_no_sweep_runs_whole() -> None:
    names = [f"tests/ir/test_a.py::test[{k}]" for k in range(9)]
    assert sample(names, 0) == set(names)


def test_make_runs_every_sweep_whole() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    runs = [line for line in makefile.splitlines() if " --sweeps" in line]
    whole = [word for line in runs for word in line.split() if word.startswith("tests/")]
    paths = [*SWEEPS, *FAMILIES]
    assert [path for path in paths if not any(path.startswith(x) for x in whole)] == []


def functions(file: str, count: int) -> tuple[list[str], dict[str, float]]:
    """Names of a file's functions, of which every other one is dear, and what those cost."""
    names = [f"test_{k}" for k in range(count)]
    return [f"{file}::{name}" for name in names], dict.fromkeys(names[::2], 2.0)


def test_of_a_files_dear_functions_a_third_runs_and_of_all() -> None:
    file = f"{PATH}test_a.py"
    names, costs = functions(file, 30)
    cheap = {name for name in names if name.partition("::")[2] not in costs}
    kept = sample(names, 0, costs={file: costs})
    assert kept > cheap and len(kept) == 15 + 15 // LEAST
    every = {name.partition("::")[2]: 2.0 for name in names}
    assert len(sample(names, 0, costs={file: every})) == math.ceil(30 / LEAST)
    assert len(sample(names[:3], 0, costs={file: every})) == 2
    assert len(sample(names[:1], 0, costs={file: every})) == 1
    assert sample(names, 0, costs={}) == set(names)


def test_a_file_that_is_asked_for_runs_all_its_functions_and_so_do_others() -> None:
    file = f"{PATH}test_a.py"
    names, costs = functions(file, 30)
    assert sample(names, 0, {file}, {file: costs}) == set(names)
    elsewhere, costs = functions("tests/runtime/test_a.py", 30)
    assert sample(elsewhere, 0, costs={"tests/runtime/test_a.py": costs}) == set(elsewhere)


def test_seeds_take_other_functions_and_cheap_ones_more_often() -> None:
    file = f"{PATH}test_a.py"
    names, _ = functions(file, 12)
    costs = {f"test_{k}": 1.0 if k < 6 else 3.0 for k in range(12)}
    runs = [sample(names, seed, costs={file: costs}) for seed in range(200)]
    assert set().union(*runs) == set(names)
    often = [sum(name in run for run in runs) for name in names]
    assert min(often[:6]) > max(often[6:])


@pytest.mark.parametrize(
    "name", ["test_errors_say_where", "test_what_is_wrong_is_refused", "test_threads_meet"]
)
def test_contracts_are_never_left_out(name: str) -> None:
    file = f"{PATH}test_a.py"
    names, _ = functions(file, 12)
    costs = {x.partition("::")[2]: 2.0 for x in names} | {name: 9.0}
    assert all(
        f"{file}::{name}" in sample([*names, f"{file}::{name}"], seed, costs={file: costs})
        for seed in range(20)
    )


def test_of_a_dear_functions_cases_one_in_eight_runs() -> None:
    file = f"{PATH}test_a.py"
    names = [f"{file}::test_0[{k}]" for k in range(160 * EVERY)]
    all_of_sweep = sample(names, 0, costs={})
    few = sample(names, 0, costs={file: {"test_0": 2.0}})
    assert few < all_of_sweep and len(few) == math.ceil(len(all_of_sweep) / 8)
    assert len(sample(names[:EVERY], 0, costs={file: {"test_0": 2.0}})) == 1


def test_what_compiles_a_library_for_each_level_runs_at_one() -> None:
    file, other = (f"{AT_ONE_LEVEL}test_{x}.py" for x in ("a", "other"))
    levels = (LOWEST, OWN, "x86-64-v9")
    each = [
        f"{x}::test_{k}[{y}-{i}]"
        for x in (file, other)
        for k in range(9)
        for y in levels
        for i in range(9)
    ]
    for seed in range(4):
        kept = sample([*each, f"{file}::test_without", f"{file}::test_elsewhere[x86-64-v9]"], seed)
        assert {f"{file}::test_without", f"{file}::test_elsewhere[x86-64-v9]"} <= kept
        for x in (file, other):
            assert (
                len({y for y in levels if any(n.startswith(x) and f"[{y}-" in n for n in kept)})
                == 1
            )
    taken = [LOWEST in str(sample(each[:20], seed)) for seed in range(4)]
    assert LOWEST == OWN or taken in ([True, False] * 2, [False, True] * 2)


MOST = {
    "tests/backends/cpp/": 440,
    "tests/backends/triton/": 670,
    "tests/frontend/": 555,
    "dear elsewhere": 140,
    "elsewhere": 4500,
}
"""Cases that a run takes at most: of each family, of dear functions elsewhere, of all others."""


def test_a_run_takes_no_more_cases_of_each_class(request: pytest.FixtureRequest) -> None:
    """The budget of `.ci/run` (CONTRIBUTING.md), in what a run is made of."""
    if request.config.getoption("--sweeps"):
        pytest.skip("all cases run")
    taken = dict.fromkeys(MOST, 0)
    for item in request.session.items:
        file, _, name = item.nodeid.partition("[")[0].partition("::")
        dear = "dear elsewhere" if name in COSTS.get(file, {}) else "elsewhere"
        taken[family(file) or dear] += 1
    above = {kind: (taken[kind], most) for kind, most in MOST.items() if taken[kind] > most}
    assert not above, (
        f"{above}: measure what is new (`pytest --costs FILE`), which leaves out dear functions of "
        "a family; make sweeps of what differs by type and size (tests/sampling.py)"
    )


def test_a_row_is_taken_on_all_executors_or_on_none() -> None:
    path = "tests/conformance/test_rows.py::test_row_matches_eager"
    names = [f"{path}[a row {k}-{how}]" for k in range(60) for how in ("loops", "triton")]
    kept = sample(names, 0)
    assert 0 < len(kept) < len(names)
    assert all(
        (f"{path}[a row {k}-loops]" in kept) == (f"{path}[a row {k}-triton]" in kept)
        for k in range(60)
    )


def test_cases_take_turns_so_that_each_value_meets_each_choice() -> None:
    both = ("x86-64-v2", "x86-64-v3")
    functions = [f"tests/backends/cpp/test_a.py::test_{k}" for k in range(30)]
    for function in functions:
        taken = [[turn(both, function, (i, j), 0) for j in range(4)] for i in range(3)]
        assert all(set(row) == set(both) for row in taken)
        assert all(set(column) == set(both) for column in zip(*taken, strict=True))
        assert turn(both, function, (1, 2), 1) != taken[1][2]
    assert {turn(both, function, (0,), 0) for function in functions} == set(both)
    assert turn(both[:1], functions[0], (1,), 0) == both[0]


def test_a_part_of_a_tests_values_is_in_their_order_and_all_are_of_some_test() -> None:
    parts = [part(range(8), f"test_a.py::test_{k}", 3, 0) for k in range(30)]
    assert {tuple(x) for x in parts} == {(0, 3, 6), (1, 4, 7), (2, 5)}
    assert part(range(2), "test_a.py::test_0", 5, 0) in ([0], [1])
    assert part(range(8), "test_a.py::test_0", 3, 1) != parts[0]
    assert part(range(8), "test_a.py::test_0", 1, 0) == list(range(8))
