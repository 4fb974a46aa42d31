"""The sweep itself: what it counts as wrong, refused, or a crash."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils import _pytree as pytree

from tests.conformance.executors import interpret_lowered
from tests.conformance.opinfo.exact import sharpened
from tests.conformance.opinfo.expected import compare, expected
from tests.conformance.opinfo.outcome import CRASH, OK, REFUSED, WRONG, Outcome, tabulate, totals
from tests.conformance.opinfo.pool import Task, run_tasks
from tests.conformance.opinfo.running import run_cases
from tests.conformance.opinfo.samples import Case, spread
from tests.conformance.opinfo.scope import foreign_device, other_overflow, out_of_scope
from tests.conformance.opinfo.short_lived import dies_on_two_and_hangs_on_three
from tests.conformance.opinfo.sweep import drawn, read_table, write_table


def _case(function, *args, number=0, op="op"):
    leaves, spec = pytree.tree_flatten((args, {}))
    return Case(op, "float32", number, function, tuple(leaves), spec)


def _kinds(outcomes):
    return [o.kind for o in sorted(outcomes, key=lambda o: o.number)]


def test_cases_that_match_are_ok():
    cases = [_case(torch.add, torch.ones(n), 2.0, number=n) for n in range(3)]
    assert _kinds(run_cases(cases, interpret_lowered)) == [OK] * 3


def _gradient(x):
    return torch.ops.aten.upsample_linear1d_backward(x[None], [2], [1, 2, 2], False)


def test_a_case_that_is_refused_leaves_the_others():
    cases = [
        _case(torch.add, torch.ones(2), 1, number=0),
        _case(_gradient, torch.eye(2), number=1),
        _case(torch.mul, torch.ones(2), 3, number=2),
    ]
    outcomes = list(run_cases(cases, interpret_lowered))
    assert _kinds(outcomes) == [OK, REFUSED, OK]
    assert "aten.upsample_linear1d_backward" in next(
        o.reason for o in outcomes if o.kind == REFUSED
    )


def test_a_case_that_cannot_be_exported_leaves_the_others():
    def data_dependent(x):
        return x if x.sum() > 0 else x[:1]

    cases = [_case(torch.neg, torch.ones(2)), _case(data_dependent, torch.ones(2), number=1)]
    outcomes = list(run_cases(cases, interpret_lowered))
    assert _kinds(outcomes) == [OK, REFUSED]


def test_wrong_values_are_wrong_and_described():
    def off_by_a_little(captured, inputs):
        return [a + np.float32(1e-3) for a in interpret_lowered(captured, inputs)]

    (outcome,) = run_cases([_case(torch.exp, torch.ones(2, 3))], off_by_a_little)
    assert outcome.kind == WRONG
    assert "float32[2, 3]" in outcome.label


def test_an_executor_that_raises_is_a_crash_of_that_case_only():
    def fails_on_three(captured, inputs):
        if any(t.shape == (3,) for t in inputs):
            raise RuntimeError("three")
        return interpret_lowered(captured, inputs)

    cases = [_case(torch.abs, torch.ones(n), number=n) for n in range(1, 5)]
    assert _kinds(run_cases(cases, fails_on_three)) == [OK, OK, CRASH, OK]


def test_random_results_are_compared_in_type_and_shape():
    case = _case(torch.bernoulli, torch.full((50,), 0.5))
    wanted = expected(case)
    assert not wanted.values
    assert compare(case, [np.zeros(50, np.float32)], wanted) == ""
    assert compare(case, [np.zeros(49, np.float32)], wanted) != ""


def test_any_of_equal_elements_may_be_named():
    case = _case(torch.median, torch.tensor([2, 1, 2, 2]), 0, op="median")
    value, wanted = np.array(2), expected(case)
    assert [compare(case, [value, np.array(k)], wanted) == "" for k in range(4)] == [
        True,
        False,
        True,
        True,
    ]


def test_constant_results_are_no_outputs():
    case = _case(lambda x: (x.dim(), x + 1), torch.ones(2, 2))
    assert _kinds(run_cases([case], interpret_lowered)) == [OK]


def test_a_worker_that_dies_or_hangs_costs_one_case():
    tasks = [Task((("op", "float32"),))]
    ((_, outcomes),) = run_tasks(tasks, "", 1, 5.0, life=dies_on_two_and_hangs_on_three)
    assert _kinds(outcomes) == [OK, OK, CRASH, CRASH, OK]
    reasons = [o.reason for o in sorted(outcomes, key=lambda o: o.number) if o.kind == CRASH]
    assert "status 3" in reasons[0]
    assert "no answer" in reasons[1]


def test_a_limit_of_time_keeps_what_was_answered():
    tasks = [Task((("op", "float32"),), only=(("op", "float32", n),)) for n in (0, 3, 1)]
    outcomes = [
        o
        for _, found in run_tasks(tasks, "", 1, 600.0, 5.0, dies_on_two_and_hangs_on_three)
        for o in found
    ]
    assert [(o.number, o.kind) for o in outcomes] == [(0, OK)]


def test_a_seed_chooses_operators_types_and_samples():
    one, again, other = (drawn(seed, 40, "a.*", batch=16) for seed in (1, 1, 2))
    assert one == again != other
    assert [len(task.pairs) for task in one] == [16, 16, 8]
    assert len({pair for task in one for pair in task.pairs}) == 40
    (op, dtype), *_ = one[0].pairs
    assert spread(op, dtype, 1, 1) == spread(op, dtype, 1, 1)
    numbers = {spread("add", "float32", 1, seed)[0].number for seed in range(9)}
    assert len(numbers) > 1


def test_tables_are_counts_and_come_back_from_their_file(tmp_path: Path):
    ok = Outcome("add", "float32", 0, OK)
    outcomes = [ok, replace(ok, number=1), replace(ok, number=2, kind=REFUSED, reason="why")]
    table = tabulate(outcomes)
    write_table(tmp_path / "t.json", "loops", table)
    assert (
        read_table(tmp_path / "t.json")
        == table
        == {"add": {"float32": {"ok": 2, "refused": {"why": 1}}}}
    )
    assert totals(table)["float32"][OK] == 2


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("to_sparse", "sparse"),
        ("to", ""),
        ("jiterator_unary", "other devices"),
        ("linalg_eigh", ""),
    ],
)
def test_scope_is_decided_by_whole_names(name: str, reason: str):
    assert out_of_scope(name) == reason


@pytest.mark.parametrize(
    ("leaf", "reason"),
    [
        (torch.device("cuda"), "another device"),
        ("cuda", "another device"),
        (torch.device("cpu"), ""),
        ("cpu", ""),
        ("mean", ""),
        (2, ""),
    ],
)
def test_cases_that_name_another_device_are_out_of_scope(leaf: object, reason: str):
    assert foreign_device(leaf) == reason


def test_what_eager_computes_badly_is_compared_with_better_values():
    x = torch.tensor([5.25, -1.0], dtype=torch.float64)
    eager = torch.special.bessel_y0(x)
    (better,) = sharpened("special_bessel_y0", [x], [eager])
    assert 1e-8 < abs(better[0] - eager[0]) < 1e-6
    assert better[1].isnan()
    assert sharpened("sin", [x], [eager])[0] is eager
    x = torch.tensor([0.4, -1.0], dtype=torch.float64)
    eager = torch.polygamma(1, x)
    (better,) = sharpened("polygamma_polygamma_n_3", [x], [eager], [1])
    assert 1e-10 < abs(better[0] - eager[0]) < 1e-8
    assert better[1] == eager[1]


def test_what_overflows_otherwise_on_some_processors_is_out_of_scope():
    small = torch.ones(2).to(torch.float8_e4m3fn)
    lost = torch.full((2,), torch.nan).to(torch.float8_e4m3fn)
    assert "overflow" in other_overflow("torch__scaled_mm", [small], [lost])
    assert not other_overflow("torch__scaled_mm", [small], [small])
    assert not other_overflow("torch__scaled_mm", [lost], [lost])
    assert not other_overflow("torch__scaled_mm", [small], [lost.float()])
    assert not other_overflow("mul", [small], [lost])
