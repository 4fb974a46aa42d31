"""The sample of the sweeps."""

from __future__ import annotations

from tests.kernels import ROOT
from tests.sampling import SWEEPS, part, sample, turn

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
    assert [path for path in SWEEPS if not any(path.startswith(x) for x in whole)] == []


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
