"""Launches against declarations: honest plans fit, and every rule is broken once."""

from dataclasses import replace
from typing import Any

import pytest
from aot_runtime.format.declarations import KernelDeclaration, Variable
from aot_runtime.format.plan import Check, GridLaunch, Plan, Step, WorkLaunch

from aot.errors import InternalError
from aot.link.declaration_check import check_declarations, declaration_problems
from tests.link.plans import (
    control_plan,
    device_declarations,
    host_declarations,
    host_program,
    small_plan,
    wide_plan,
)

FIRST, SECOND = host_declarations()
ONE_ROW = WorkLaunch(1, 1, 256)


def problems(plan: Plan, *declared: KernelDeclaration) -> str:
    found = declaration_problems(plan, plan.programs[0], declared or (FIRST, SECOND))
    return "\n".join(found)


def test_honest_plans_fit() -> None:
    declared = {"cpu": host_declarations(), "cuda:sm_90": device_declarations()}
    check_declarations(wide_plan(), declared)


def test_measured_dims_and_slices_fit() -> None:
    plan = control_plan()
    (program,) = plan.programs
    # A turn of the loop has a row, whatever the batch; its slice is read and written in place.
    changed = {
        6: replace(program.steps[6], buffers=(6, 6), values=(1,), sizes=(1,), launch=ONE_ROW),
        9: replace(program.steps[9], buffers=(7, 1, 7), launch=WorkLaunch("m0", 1, 0)),
    }
    steps = tuple(changed.get(k, step) for k, step in enumerate(program.steps))
    assert not problems(replace(plan, programs=(replace(program, steps=steps),)))


def _plan(**changes: Any) -> Plan:
    """The small plan with the first launch changed."""
    program = host_program()
    first, second = program.steps
    assert isinstance(first, Step)
    steps = (replace(first, **changes), second)
    return replace(small_plan(), programs=(replace(program, steps=steps),))


def _buffers(**changes: Any) -> Plan:
    """The small plan with its temporary changed."""
    program = host_program()
    buffers = list(program.buffers)
    buffers[2] = replace(buffers[2], **changes)
    return replace(small_plan(), programs=(replace(program, buffers=tuple(buffers)),))


def _declared(**changes: Any) -> tuple[KernelDeclaration, KernelDeclaration]:
    return replace(FIRST, declaration=replace(FIRST.declaration, **changes)), SECOND


ROWS = ("*", 16, "s0")
BROKEN: dict[str, tuple[Plan, tuple[KernelDeclaration, ...]]] = {
    "it has the kernels": (small_plan(), (FIRST,)),
    "takes (3, 1, 1) buffers, sizes and values, not (2, 1, 1)": (_plan(buffers=(0, 1)), ()),
    "not (3, 2, 1)": (_plan(sizes=("s0", "s0")), ()),
    "not (3, 1, 0)": (_plan(values=()), ()),
    "k0 is launched in another way": (_plan(launch=GridLaunch("s0", 1, 1)), ()),
    "v0 of k0 is 65": (_plan(values=(65,)), ()),
    "v0 of k0 is s0 + 1": (_plan(values=(("+", "s0", 1),)), ()),
    "v0 of k0 is s0, which": (small_plan(), _declared(variables=(Variable(0, 64, 2),))),
    "v0 of k0 is s0, which Variable(minimum=1": (
        small_plan(),
        _declared(variables=(Variable(1, 64),)),
    ),
    "k0 needs v0 < 64": (small_plan(), _declared(relations=(("v0", "<", 64),))),
    "k0 needs 9 <= 8": (small_plan(), _declared(relations=((9, "<=", 8),))),
    "k0 declares v0 where the step gives 7": (_plan(sizes=(7,)), ()),
    "k0 declares v0 where the step gives ('*', 2, 's0')": (
        _plan(launch=WorkLaunch(("*", 2, "s0"), 1, 0)),
        (),
    ),
    "k0 needs 256 bytes of scratch, not 0": (small_plan(), _declared(scratch=256)),
    "buffer 2 of k0 has float32, buf0 has int32": (_buffers(dtype="int32"), ()),
    "buffer 2 of k0 has 16*s0 bytes, buf0 has 16": (_buffers(bytes=16), ()),
    "buffer 2 of k0 is written, x must not be": (_plan(buffers=(0, 1, 0)), ()),
    "buffer 2 of k0 is written, w must not be": (
        _plan(buffers=(0, 1, 1), values=(4,), sizes=(4,), launch=WorkLaunch(4, 1, 0)),
        (),
    ),
}


@pytest.mark.parametrize("problem", BROKEN)
def test_every_broken_rule_is_found(problem: str) -> None:
    plan, declared = BROKEN[problem]
    assert problem in problems(plan, *declared)
    with pytest.raises(InternalError):
        check_declarations(plan, {"cpu": declared or (FIRST, SECOND)})


def test_relations_are_the_plans_checks() -> None:
    declared = _declared(relations=((("*", 2, "v0"), "<=", 100),))
    plan = small_plan()
    assert problems(plan, *declared)
    check = Check(("*", 2, "s0"), "<=", 100, "at most 50 rows")
    assert not problems(replace(plan, checks=(check,)), *declared)


def test_multiples_of_dims_are_known() -> None:
    declared = _declared(variables=(Variable(0, 64, 4),))
    (dim,) = small_plan().dims
    assert problems(small_plan(), *declared)
    assert not problems(replace(small_plan(), dims=(replace(dim, multiple_of=8),)), *declared)


def test_numbers_of_device_code_are_declared() -> None:
    (kernel,) = device_declarations()
    assert kernel.code is not None
    wrong = replace(kernel, code=replace(kernel.code, threads=64))
    plan = wide_plan()
    (found,) = declaration_problems(plan, plan.programs[1], (wrong,))
    assert found == "kernel k0 declares other numbers than the plan gives its code"
    assert not list(declaration_problems(plan, plan.programs[1], (kernel,)))
