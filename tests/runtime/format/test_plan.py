"""The plan: JSON round trip, canonical bytes, and every invariant broken once."""

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import pytest
from aot_runtime.format.plan import (
    AnyStep,
    ArenaSlot,
    BranchStep,
    CallStep,
    Check,
    CopyStep,
    DimSource,
    EntryStorage,
    Expr,
    GridLaunch,
    InputStorage,
    KernelRef,
    OutputStorage,
    Plan,
    RepeatStep,
    Signature,
    SizesStep,
    StateStorage,
    TensorOperand,
    TreeOutput,
    Update,
    WhileStep,
    WorkLaunch,
)
from aot_runtime.format.plan_json import decode_plan, encode_plan, plan_from_json, plan_to_json

from aot.errors import CorruptPackage, IncompatiblePackage, InternalError
from aot.link.plan_check import check_plan, plan_problems
from tests.link.plans import (
    control_plan,
    device_program,
    host_program,
    operator_plan,
    small_plan,
    state_plan,
    swappable_plan,
    weight_program,
    wide_plan,
)

HOST, GPU = ("programs", 0), ("programs", 1)
GOLDEN = ("golden/0/inputs/0", "golden/0/outputs/0")


def test_control_steps_round_trip() -> None:
    plan = control_plan()
    check_plan(plan)
    assert decode_plan(encode_plan(plan)) == plan
    with pytest.raises(CorruptPackage, match=r"steps\[0\] has no key 'kernel'"):
        decode_plan(encode_plan(plan).replace(b'"branch"', b'"brunch"'))


def _control(at: int, step: AnyStep) -> Plan:
    program = control_plan().programs[0]
    steps = (*program.steps[:at], step, *program.steps[at + 1 :])
    return _in_control(steps=steps)


def _in_control(**changes: object) -> Plan:
    plan = control_plan()
    program = dataclasses.replace(plan.programs[0], **changes)
    return dataclasses.replace(plan, programs=(program,))


def _slice(**changes: object) -> Plan:
    buffers = list(control_plan().programs[0].buffers)
    storage = dataclasses.replace(buffers[6].storage, **changes)
    buffers[6] = dataclasses.replace(buffers[6], storage=storage)
    return _in_control(buffers=tuple(buffers))


BROKEN_FLOW = {
    "step 8 has parts beyond the steps around it": _control(8, SizesStep((("m0", 5),), 2, 1)),
    "step 3 has parts beyond the steps around it": _control(3, WhileStep(4, 0, -1, 0)),
    "step 0 reads bool from buffer 2 of float32": _control(0, BranchStep(2, 1, 1, 0)),
    "step 8 reads int64 from buffer 4 of bool": _control(8, SizesStep((("m0", 4),), 1, 1)),
    "step 2 copies between buffers of two types": _control(2, CopyStep(4, 3, 0)),
    "step 7 uses buffer 6, a slice, outside of its loop": _control(7, CopyStep(6, 6, 0)),
    "whose size needs ['m0'], before they are known": _control(7, CopyStep(7, 7, 0)),
    "step 5: 'm0' is no dim": _control(5, RepeatStep("m0", 1, 0)),
    "steps read the sizes [], dims without a source are ['m0']": _control(
        8, BranchStep(4, 1, 0, 0)
    ),
    "a slice of buffer 6, which does not come before it": _slice(of=6),
    "a slice of a buffer of another type": _slice(of=5),
    "a slice in step 3, which is no counted loop": _slice(step=3),
}


@pytest.mark.parametrize("problem", BROKEN_FLOW)
def test_every_broken_flow_is_found(problem: str) -> None:
    found = list(plan_problems(BROKEN_FLOW[problem], None))
    assert any(problem in text for text in found), found


def test_calls_of_operators_round_trip(golden) -> None:
    plan = operator_plan()
    check_plan(plan, ["kernels/cpu/x86-64-v2", "operators/cpu/demo.so", "weights/w", *GOLDEN])
    assert decode_plan(encode_plan(plan)) == plan
    step = plan_to_json(plan)["programs"][0]["steps"][1]
    golden("call.json", json.dumps(step, indent=1) + "\n")
    with pytest.raises(CorruptPackage, match=r"arguments\[0\].kind must be one of none, tensor"):
        decode_plan(encode_plan(plan).replace(b'"kind":"tensor"', b'"kind":"sensor"'))
    with pytest.raises(CorruptPackage, match=r"values\[1\] must be one of inf, -inf, nan"):
        decode_plan(encode_plan(plan).replace(b'"inf"', b'"large"'))


def _call(**changes: object) -> Plan:
    plan = operator_plan()
    program = plan.programs[0]
    step = dataclasses.replace(program.steps[1], **changes)
    program = dataclasses.replace(program, steps=(program.steps[0], step))
    return dataclasses.replace(plan, programs=(program,))


def _argument(at: int, *values: object, changed: bool = False) -> Plan:
    step = operator_plan().programs[0].steps[1]
    assert isinstance(step, CallStep)
    arguments = list(step.arguments)
    arguments[at] = dataclasses.replace(arguments[at], values=values, changed=changed)
    return _call(arguments=tuple(arguments))


BROKEN_CALLS = {
    "step 1 calls an operator without a name": _call(operator=""),
    "step 1 has 2 values for its argument rows": _argument(3, 1, 2),
    "step 1 has 0 values for its argument mode": _argument(5),
    "step 1 has 1 values for its argument bias": _argument(7, 1),
    "step 1 changes its argument mode, which is no tensor": _argument(5, "a", changed=True),
    "step 1: 's7' is no dim": _argument(3, "s7"),
    "step 1 uses buffer 9, which does not exist": _argument(0, TensorOperand(9, (1,))),
    "step 1 writes two results to one buffer": _call(
        results=(TensorOperand(3, (1,)), TensorOperand(3, (1,)))
    ),
    "step 1 writes a result to a buffer that it reads": _call(results=(TensorOperand(2, (1,)),)),
}


@pytest.mark.parametrize("problem", BROKEN_CALLS)
def test_every_broken_call_is_found(problem: str) -> None:
    found = list(plan_problems(BROKEN_CALLS[problem], None))
    assert any(problem in text for text in found), found


def test_round_trip_is_exact() -> None:
    plan = wide_plan()
    assert decode_plan(encode_plan(plan)) == plan
    assert encode_plan(decode_plan(encode_plan(plan))) == encode_plan(plan)


def test_round_trip_of_a_weight_program() -> None:
    plan = swappable_plan()
    check_plan(plan, ["kernels/cpu/x86-64-v2", "weights/w", *GOLDEN])
    assert decode_plan(encode_plan(plan)) == plan
    body = plan_to_json(plan)["programs"][0]["weights"]["routines"][0]
    assert "kernels" not in body  # they are the program's


def test_text_is_the_documented_one(golden) -> None:
    golden("plan.json", json.dumps(plan_to_json(wide_plan()), indent=1) + "\n")


def test_lists_and_tuples_encode_alike() -> None:
    assert encode_plan(small_plan()) == encode_plan(_buffer(0, bytes=["*", 16, "s0"]))


def test_unknown_keys_are_ignored() -> None:
    value = plan_to_json(small_plan())
    value["future"] = 1
    value["programs"][0]["steps"][0]["future"] = {}
    assert plan_from_json(value) == small_plan()


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("programs",), 3, "plan.programs must be a list"),
        ((*HOST, "steps", 0, "kernel"), "a", r"\[0\].steps\[0\].kernel must be an integer"),
        ((*HOST, "steps", 0, "kernel"), True, r"\[0\].steps\[0\].kernel must be an integer"),
        ((*HOST, "steps", 1, "work"), 1.5, r"\[0\].steps\[1\].work must be an integer"),
        ((*HOST, "outputs"), 3, r"plan.programs\[0\].outputs must be a list"),
        ((*GPU, "steps", 0, "grid"), [1, 2], r"\[1\].steps\[0\].grid must be three numbers"),
        ((*GPU, "kernels", 0, "faults"), 1, r"kernels\[0\].faults must be true or false"),
        ((*GPU, "kernels", 0, "waits"), 0, r"kernels\[0\].waits must be true or false"),
        ((*GPU, "kernels", 0, "threads"), None, r"kernels\[0\].threads must be an integer"),
        (("model",), None, "plan.model must be a string"),
        ((*HOST, "buffers", 0, "storage", "kind"), "disk", "storage.kind must be one of input"),
        (("signature", "result"), {}, "plan.signature.result must be a tree"),
        (("golden", 0, "atol", 0), "x", r"atol\[0\] must be a number"),
        (("checks", 0, "relation"), ">", "relation must be one of"),
        (("entries",), [], "plan.entries must be an object"),
        (("format",), [1], "plan.format must be two integers"),
    ],
)
def test_wrong_values_are_named(path: tuple, value: object, message: str) -> None:
    root = plan_to_json(wide_plan())
    place: Any = root
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(CorruptPackage, match=message):
        plan_from_json(root)


def _keys() -> Iterator[tuple[str | int, ...]]:
    root = plan_to_json(wide_plan())
    yield from ((key,) for key in root)
    yield from ((*HOST, key) for key in root["programs"][0])
    launch = root["programs"][0]["steps"][0]
    yield from ((*HOST, "steps", 0, key) for key in launch if key != "values")
    # Kernels with an entry, and steps with a grid, are told apart by these keys.
    kernel, step = (root["programs"][1][key][0] for key in ("kernels", "steps"))
    yield from ((*GPU, "kernels", 0, key) for key in kernel if key not in ("entry", "waits"))
    yield from ((*GPU, "steps", 0, key) for key in step if key not in ("grid", "values"))


@pytest.mark.parametrize("path", list(_keys()), ids=str)
def test_every_key_is_required(path: tuple[str | int, ...]) -> None:
    root = plan_to_json(wide_plan())
    place: Any = root
    *way, key = path
    for step in way:
        place = place[step]
    del place[key]
    with pytest.raises(CorruptPackage, match=f"no key '{key}'"):
        plan_from_json(root)


def test_states_and_updates_come_back() -> None:
    plan = state_plan()
    check_plan(plan)
    assert decode_plan(encode_plan(plan)) == plan
    root = plan_to_json(plan)
    assert root["states"][1]["entry"] is None
    assert root["programs"][0]["updates"] == [{"input": 0, "buffer": 2}, {"state": 1, "buffer": 2}]


def test_newer_major_version_is_refused() -> None:
    root = plan_to_json(small_plan())
    root["format"] = [2, 0]
    with pytest.raises(IncompatiblePackage, match=r"format 2\.0"):
        plan_from_json(root)


def test_newer_minor_version_is_read() -> None:
    root = plan_to_json(small_plan())
    root["format"] = [1, 7]
    assert plan_from_json(root).format == (1, 7)


def test_garbage_is_not_json() -> None:
    with pytest.raises(CorruptPackage, match="not JSON"):
        decode_plan(b"\xff\xfe")


def test_the_small_plan_is_well_formed() -> None:
    check_plan(small_plan())


def _with(**changes: object) -> Plan:
    return dataclasses.replace(small_plan(), **changes)


def _host(**changes: object) -> Plan:
    return _with(programs=(dataclasses.replace(host_program(), **changes),))


def _gpu(**changes: object) -> Plan:
    return _with(programs=(dataclasses.replace(device_program(), **changes),))


def _code(**changes: object) -> Plan:
    kernel = device_program().kernels[0]
    code = dataclasses.replace(kernel.code, **changes)
    return _gpu(kernels=(dataclasses.replace(kernel, code=code),))


def _step(**changes: object) -> Plan:
    first, second = host_program().steps
    return _host(steps=(dataclasses.replace(first, **changes), second))


def _work(work: Expr) -> Plan:
    return _step(launch=WorkLaunch(work, 1, 0))


def _buffer(index: int, **changes: object) -> Plan:
    buffers = list(host_program().buffers)
    buffers[index] = dataclasses.replace(buffers[index], **changes)
    return _host(buffers=tuple(buffers))


def _dim(**changes: object) -> Plan:
    return _with(dims=(dataclasses.replace(small_plan().dims[0], **changes),))


def _state(**changes: object) -> Plan:
    plan = state_plan()
    return dataclasses.replace(
        plan, states=(dataclasses.replace(plan.states[0], **changes), plan.states[1])
    )


def _updates(*updates: Update) -> Plan:
    plan = state_plan()
    program = dataclasses.replace(plan.programs[0], updates=updates)
    return dataclasses.replace(plan, programs=(program,))


BROKEN_STATES = {
    "states repeat a name: ['sum', 'sum']": _state(name="sum"),
    "state 0 (w) has the unknown dtype 'int4'": _state(dtype="int4"),
    "state 0 (w) has the shape (-1,)": _state(shape=(-1,)),
    "state 0 (w) needs the entry state/none": _state(entry="state/none"),
    "buffer 1 (w) is state 5, which does not exist": _buffer(1, storage=StateStorage(5)),
    "output 0 (output) is said to change": _with(
        outputs=(dataclasses.replace(small_plan().outputs[0], changed=True),)
    ),
    "updates inputs [], those that change are [0]": _updates(),
    "updates repeat a target: [('input', 0), ('input', 0)]": _updates(*[Update("input", 0, 2)] * 2),
    "copies buffer 9, which does not exist": _updates(Update("input", 0, 9)),
    "updates state 7, which does not exist": _updates(Update("input", 0, 2), Update("state", 7, 2)),
}


def _derived(**changes: object) -> Plan:
    (derived,) = weight_program().derived
    changed = dataclasses.replace(derived, **changes)
    return _swappable(derived=(changed,))


def _routine(**changes: object) -> Plan:
    (routine,) = weight_program().routines
    return _swappable(routines=(dataclasses.replace(routine, **changes),))


def _routine_buffer(**changes: object) -> Plan:
    body = weight_program().routines[0].body
    first = dataclasses.replace(body.buffers[0], **changes)
    return _routine(body=dataclasses.replace(body, buffers=(first, *body.buffers[1:])))


def _swappable(**changes: object) -> Plan:
    program = dataclasses.replace(
        host_program(), weights=dataclasses.replace(weight_program(), **changes)
    )
    return dataclasses.replace(swappable_plan(), programs=(program,))


def _weight(**changes: object) -> Plan:
    first, second = swappable_plan().weights
    return dataclasses.replace(
        swappable_plan(), weights=(dataclasses.replace(first, **changes), second)
    )


BROKEN = {
    **BROKEN_STATES,
    "derived entry packed/none does not exist": _derived(entry="packed/none"),
    "follows from ['u'], which are no weights": _derived(sources=("u",)),
    "comes from routine 1, which does not exist": _derived(routine=1),
    "another number of sources than its routine takes": _derived(sources=("v", "w")),
    "routine 0 gives 0 results": _routine(outputs=()),
    "routine 0 reads an entry": _routine_buffer(storage=EntryStorage("weights/w")),
    "routine 0: buffer 0 (source0): 's0' is no dim": _routine_buffer(bytes="s0"),
    "weights repeat a name": _weight(name="w"),
    "weight v has the unknown dtype": _weight(dtype="float8"),
    "weight v is in the entry weights/v": _weight(entry="weights/v"),
    "step 0 runs kernel 9": _step(kernel=9),
    "step 0 has no buffers": _step(buffers=()),
    "uses buffer 7, which does not exist": _step(buffers=(0, 7)),
    "origin 5, which does not exist": _step(origin=5),
    "'s9' is no dim": _work("s9"),
    "'-' is no operator": _work(("-", 1, 2)),
    "cannot have 1 operands": _work(("+", 1)),
    "'//' cannot have 3 operands": _work(("//", 8, 2, 2)),
    "does not fit 64 bits": _work(2**63),
    "True is no expression": _work(True),
    "None is no operator": _work(()),
    "unknown dtype 'float8'": _buffer(2, dtype="float8"),
    "input 4, which does not exist": _buffer(1, storage=InputStorage(4)),
    "output 4, which does not exist": _buffer(1, storage=OutputStorage(4)),
    "output 0, whose buffer is 3": _buffer(2, storage=OutputStorage(0)),
    "no multiple of 64": _buffer(1, storage=EntryStorage("weights/w", 8)),
    "needs the entry weights/v": _buffer(1, storage=EntryStorage("weights/v")),
    "buffer 1 (w) is input 0, which buffer 0 is": _buffer(1, storage=InputStorage(0)),
    "temporary without a slot": _host(arena=()),
    "places buffer 2 twice": _host(arena=(ArenaSlot(2, ()), ArenaSlot(2, ()))),
    "above [1], which come later": _host(arena=(ArenaSlot(2, (1,)),)),
    "places buffer 1, which is no temporary": _host(arena=(ArenaSlot(2, ()), ArenaSlot(1, ()))),
    "places buffer 8, which does not exist": _host(arena=(ArenaSlot(8, ()), ArenaSlot(2, ()))),
    "kernels repeat a name": _host(kernels=(KernelRef("k"), KernelRef("k"))),
    "empty range": _dim(min=5, max=2),
    "at least 1": _dim(multiple_of=0),
    "bound by input 3": _dim(source=DimSource(3, 0)),
    "bound by axis 2": _dim(source=DimSource(0, 2)),
    "dims repeat a name": _with(dims=small_plan().dims * 2),
    "unknown relation": _with(checks=(Check(1, "!=", 2, ""),)),
    "2 sizes but 1 strides": _with(
        inputs=(dataclasses.replace(small_plan().inputs[0], strides=(1,)),)
    ),
    "the plan has no program": _with(programs=()),
    "programs repeat a target: ['cpu', 'cpu']": _with(programs=(host_program(),) * 2),
    "program cpu: it has 2 output buffers for 1 outputs": _host(outputs=(3, 3)),
    "outputs are in buffers [9], which do not exist": _host(outputs=(9,)),
    "launched in another way than kernel 0 takes": _step(launch=GridLaunch(1, 1, 1)),
    "program cuda:sm_90: some kernels have code of their own": _gpu(
        kernels=(*device_program().kernels, KernelRef("k1"))
    ),
    "it has libraries, and kernels with code": _gpu(libraries=host_program().libraries),
    "its code needs entries that do not exist: ['kernels/none']": _code(entry="kernels/none"),
    "kernel k0 has no symbol": _code(symbol=""),
    "kernel k0 has 2048 threads": _code(threads=2048),
    "kernel k0 needs a negative number of bytes": _code(scratch=-1),
    "24 is no alignment": _code(scratch_alignment=24),
    "names inputs [] of 1": _with(signature=Signature((), TreeOutput(0))),
    "another number of inputs": _with(
        golden=(dataclasses.replace(small_plan().golden[0], inputs=()),)
    ),
    "one tolerance for each": _with(golden=(dataclasses.replace(small_plan().golden[0], atol=()),)),
    "needs entries that do not exist": _with(
        golden=(dataclasses.replace(small_plan().golden[0], inputs=("golden/x",)),)
    ),
}


@pytest.mark.parametrize("problem", BROKEN)
def test_every_broken_invariant_is_found(problem: str) -> None:
    names = {"kernels/cpu/x86-64-v2", "kernels/cuda/sm_90/k0", "weights/w", *GOLDEN}
    found = list(plan_problems(BROKEN[problem], names))
    assert any(problem in text for text in found), found
    with pytest.raises(InternalError):
        check_plan(BROKEN[problem], names)
