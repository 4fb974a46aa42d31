"""Random programs by every means; `make programs` runs thousands."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings

from aot.frontend.weights import to_array
from aot.options import parse_target
from tests.conformance.executors import gpu_target
from tests.programs.check import RUNS, compare, in_package, problems, smallest
from tests.programs.program import Input, Program
from tests.programs.run import GROUP, outcomes
from tests.programs.strategy import program_of, programs
from tests.settings import seeded

pytestmark = pytest.mark.filterwarnings("ignore")


@settings(
    max_examples=10,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(programs())
def test_the_loop_graph_computes_what_eager_does(program: Program) -> None:
    (problem,) = outcomes([program], RUNS["loops"])
    assert not problem or problem.startswith("refused"), f"{problem}\n{program}"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "first", "count"), [("kernels", 0, 10), ("cpu", 10, 8)])
def test_a_group_of_programs_matches_eager(name: str, first: int, count: int) -> None:
    group = [program_of(seeded(seed)) for seed in range(first, first + count)]
    found = outcomes(group, RUNS[name])
    wrong = [f"{p}\n{x}" for p, x in zip(group, found, strict=True) if x]
    assert not [w for w in wrong if "refused: " not in w], "\n".join(wrong)


@pytest.mark.slow
def test_programs_match_eager_in_triton() -> None:
    for seed in (4, 6):
        (problem,) = outcomes([program_of(seeded(seed))], RUNS["triton"])
        assert not problem or problem.startswith("refused"), problem


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("first", range(0, 160, GROUP))
def test_programs_match_eager_on_the_gpu(first: int) -> None:
    run = in_package(parse_target(gpu_target()))
    group = [program_of(seeded(seed)) for seed in range(first, first + GROUP)]
    found = outcomes(group, run)
    wrong = [f"{p}\n{x}" for p, x in zip(group, found, strict=True) if x]
    assert not [w for w in wrong if "refused: " not in w], "\n".join(wrong)


def _sum(text: str) -> Program:
    return Program((Input((3, 4), "float32"),), (text, "v1+1"), (1, 2), ("", "float32", "float32"))


def test_a_program_prints_as_the_code_that_runs() -> None:
    program = _sum("v0.sum(1)")
    assert "    v1 = v0.sum(1)\n    v2 = v1+1\n    return (v1, v2,)" in str(program)
    (x,) = program.tensors()
    assert torch.equal(program.function()(x)[1], x.sum(1) + 1)


def test_equal_seeds_give_equal_programs() -> None:
    assert str(program_of(7)) == str(program_of(7))
    assert str(program_of(7)) != str(program_of(8))


def test_a_wrong_result_is_found() -> None:
    program = _sum("v0.sum(1)")
    right = [to_array(t) for t in program.function()(*program.tensors())]
    assert compare(program, right) == ""
    assert "error" in compare(program, [right[0], right[1] + 0.1])
    assert "instead of" in compare(program, [right[0][:2], right[1]])


def test_a_failure_shrinks_to_the_statements_that_it_needs() -> None:
    program = Program(
        (Input((3, 4), "float32"),),
        ("torch.sin(v0)", "v0.sum(1)", "torch.cos(v2)", "v1*2"),
        (3, 4),
        ("", "float32", "float32", "float32", "float32"),
    )
    small = smallest(program, lambda p: any("cos" in text for text in p.statements))
    assert small.statements == ("v0.sum(1)", "torch.cos(v1)")
    assert small.outputs == (2,)


def test_what_packaging_refuses_is_said_program_by_program() -> None:
    unknown = Program(
        (Input((4, 4), "float32"),),
        ("torch.ops.aten.upsample_linear1d_backward(v0[None], [4], [1, 4, 4], False)",),
        (1,),
        ("", "float32"),
    )
    first, second = outcomes([_sum("v0.sum(1)"), unknown], RUNS["loops"])
    assert first == ""
    assert second.startswith("refused: ")
    assert problems([_sum("v0*2")], RUNS["loops"]) == [""]
