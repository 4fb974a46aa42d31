"""The tuning database: what it answers for which problems, and its file."""

from __future__ import annotations

import pytest

from aot.backends.triton.tuning import (
    NOTHING,
    Database,
    Measurement,
    Problem,
    default_database,
    read_database,
)
from aot.errors import PackageReadError

SMALL = {"rows": 32, "warps": 4}
LARGE = {"rows": 128, "warps": 8}


def candidates():
    return (SMALL, LARGE)


def problem(*sizes, template="matmul", dtype="bfloat16"):
    return Problem(template, sizes, dtype)


def measured(config, *sizes, arch="sm_90", microseconds=10.25, **more):
    return Measurement(problem(*sizes, **more), arch, tuple(config.items()), microseconds)


DATABASE = NOTHING.adding([measured(LARGE, 1, 4096, 4096), measured(SMALL, 1, 64, 4096)])


def test_the_nearest_problem_answers():
    assert DATABASE.choose(problem(1, 4096, 4096), "sm_90", candidates) == LARGE
    assert DATABASE.choose(problem(1, 3000, 4096), "sm_90", candidates) == LARGE
    assert DATABASE.choose(problem(1, 100, 4096), "sm_90", candidates) == SMALL
    between = NOTHING.adding([measured(LARGE, 1, 4096, 4096), measured(SMALL, 1, 2048, 4096)])
    assert between.choose(problem(1, 2500, 4096), "sm_90", candidates) == SMALL
    assert between.choose(problem(1, 3500, 4096), "sm_90", candidates) == LARGE


@pytest.mark.parametrize(
    ("asked", "arch"),
    [
        (problem(1, 512, 4096), "sm_90"),
        (problem(1, 2500, 2500), "sm_90"),
        (problem(1, 4096, 4096), "sm_80"),
        (problem(1, 4096, 4096, dtype="float32"), "sm_90"),
        (problem(1, 4096, 4096, template="conv"), "sm_90"),
        (problem(4096, 4096), "sm_90"),
    ],
)
def test_what_was_not_measured_is_left_to_the_heuristics(asked, arch):
    assert DATABASE.choose(asked, arch, candidates) is None


def test_choices_of_another_version_are_ignored():
    assert DATABASE.choose(problem(1, 4096, 4096), "sm_90", lambda: ({"rows": 1},)) is None


def test_a_later_measurement_replaces_an_earlier_one():
    again = DATABASE.adding([measured(SMALL, 1, 4096, 4096)])
    assert len(again.measurements) == 2
    assert again.choose(problem(1, 4096, 4096), "sm_90", candidates) == SMALL


def test_files_keep_everything_in_one_order(tmp_path):
    path = tmp_path / "tuning.json"
    path.write_text(DATABASE.text())
    assert read_database(path) == DATABASE
    backwards = NOTHING.adding(reversed(DATABASE.measurements))
    assert backwards.text() == DATABASE.text()
    assert read_database(tmp_path / "none.json") == NOTHING == Database()


@pytest.mark.parametrize("text", ["", "{}1", '[{"arch": "sm_90"}]', "[1]", '{"a": 1}'])
def test_a_damaged_file_is_named(tmp_path, text):
    path = tmp_path / "tuning.json"
    path.write_text(text)
    with pytest.raises(PackageReadError, match=r"tuning database.*(?s:.*)tuning\.json"):
        read_database(path)


def test_the_compiler_s_own_database_is_sound():
    database = default_database()
    assert NOTHING.adding(database.measurements) == database
    assert all(m.microseconds > 0 and dict(m.config) for m in database.measurements)
