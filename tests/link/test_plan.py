"""The plan: JSON round trip, canonical bytes, and every invariant broken once."""

import dataclasses
import json

import pytest

from aot.errors import CorruptPackage, IncompatiblePackage, InternalError
from aot.link.plan import (
    ArenaSlot,
    Check,
    DimSource,
    EntryStorage,
    InputStorage,
    KernelRef,
    OutputStorage,
    Plan,
    Signature,
    TreeOutput,
)
from aot.link.plan_check import check_plan, plan_problems
from aot.link.plan_json import decode_plan, encode_plan, plan_from_json, plan_to_json
from tests.link.plans import small_plan


def test_round_trip_is_exact() -> None:
    plan = small_plan()
    assert decode_plan(encode_plan(plan)) == plan
    assert encode_plan(decode_plan(encode_plan(plan))) == encode_plan(plan)


def test_text_is_the_documented_one(golden) -> None:
    golden("plan.json", json.dumps(plan_to_json(small_plan()), indent=1) + "\n")


def test_lists_and_tuples_encode_alike() -> None:
    plan = small_plan()
    buffer = dataclasses.replace(plan.buffers[0], bytes=["*", 16, "s0"])
    assert encode_plan(plan) == encode_plan(
        dataclasses.replace(plan, buffers=(buffer, *plan.buffers[1:]))
    )


def test_unknown_keys_are_ignored() -> None:
    value = plan_to_json(small_plan())
    value["future"] = 1
    value["steps"][0]["future"] = {}
    assert plan_from_json(value) == small_plan()


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("steps",), 3, "plan.steps must be a list"),
        (("steps", 0, "kernel"), "a", r"plan.steps\[0\].kernel must be an integer"),
        (("steps", 0, "kernel"), True, r"plan.steps\[0\].kernel must be an integer"),
        (("steps", 1, "work"), 1.5, r"plan.steps\[1\].work must be an integer"),
        (("model",), None, "plan.model must be a string"),
        (("buffers", 0, "storage", "kind"), "disk", "storage.kind must be one of input"),
        (("signature", "result"), {}, "plan.signature.result must be a tree"),
        (("golden", 0, "atol", 0), "x", r"atol\[0\] must be a number"),
        (("checks", 0, "relation"), ">", "relation must be one of"),
        (("entries",), [], "plan.entries must be an object"),
        (("format",), [1], "plan.format must be two integers"),
    ],
)
def test_wrong_values_are_named(path: tuple, value: object, message: str) -> None:
    root = plan_to_json(small_plan())
    place = root
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(CorruptPackage, match=message):
        plan_from_json(root)


@pytest.mark.parametrize("key", list(plan_to_json(small_plan())))
def test_every_key_is_required(key: str) -> None:
    root = plan_to_json(small_plan())
    del root[key]
    with pytest.raises(CorruptPackage, match=f"no key '{key}'"):
        plan_from_json(root)


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


def _step(**changes: object) -> Plan:
    plan = small_plan()
    return dataclasses.replace(
        plan, steps=(dataclasses.replace(plan.steps[0], **changes), plan.steps[1])
    )


def _buffer(index: int, **changes: object) -> Plan:
    buffers = list(small_plan().buffers)
    buffers[index] = dataclasses.replace(buffers[index], **changes)
    return _with(buffers=tuple(buffers))


def _dim(**changes: object) -> Plan:
    return _with(dims=(dataclasses.replace(small_plan().dims[0], **changes),))


BROKEN = {
    "step 0 runs kernel 9": _step(kernel=9),
    "step 0 has no buffers": _step(buffers=()),
    "uses buffers [7]": _step(buffers=(0, 7)),
    "origin 5, which does not exist": _step(origin=5),
    "'s9' is no dim": _step(work="s9"),
    "'-' is no operator": _step(work=("-", 1, 2)),
    "cannot have 1 operands": _step(work=("+", 1)),
    "'//' cannot have 3 operands": _step(work=("//", 8, 2, 2)),
    "does not fit 64 bits": _step(work=2**63),
    "True is no expression": _step(work=True),
    "None is no operator": _step(work=()),
    "unknown dtype 'float8'": _buffer(2, dtype="float8"),
    "input 4, which does not exist": _buffer(1, storage=InputStorage(4)),
    "output 4, which does not exist": _buffer(1, storage=OutputStorage(4)),
    "output 0, whose buffer is 3": _buffer(2, storage=OutputStorage(0)),
    "no multiple of 64": _buffer(1, storage=EntryStorage("weights/w", 8)),
    "needs the entry weights/v": _buffer(1, storage=EntryStorage("weights/v")),
    "input 0 is in buffer 0, whose storage is": _buffer(0, storage=EntryStorage("weights/w")),
    "temporary without a slot": _with(arena=()),
    "places buffer 2 twice": _with(arena=(ArenaSlot(2, ()), ArenaSlot(2, ()))),
    "above [1], which come later": _with(arena=(ArenaSlot(2, (1,)),)),
    "places buffer 1, which is no temporary": _with(arena=(ArenaSlot(2, ()), ArenaSlot(1, ()))),
    "places buffer 8, which does not exist": _with(arena=(ArenaSlot(8, ()), ArenaSlot(2, ()))),
    "kernels repeat a name": _with(kernels=(KernelRef("k"), KernelRef("k"))),
    "empty range": _dim(min=5, max=2),
    "at least 1": _dim(multiple_of=0),
    "bound by input 3": _dim(source=DimSource(3, 0)),
    "bound by axis 2": _dim(source=DimSource(0, 2)),
    "dims repeat a name": _with(dims=small_plan().dims * 2),
    "unknown relation": _with(checks=(Check(1, "!=", 2, ""),)),
    "2 sizes but 1 strides": _with(
        inputs=(dataclasses.replace(small_plan().inputs[0], strides=(1,)),)
    ),
    "in buffer 9, which does not exist": _with(
        inputs=(dataclasses.replace(small_plan().inputs[0], buffer=9),)
    ),
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
    names = {"kernels/cpu/x86-64-v2", "weights/w", "golden/0/inputs/0", "golden/0/outputs/0"}
    found = list(plan_problems(BROKEN[problem], names))
    assert any(problem in text for text in found), found
    with pytest.raises(InternalError):
        check_plan(BROKEN[problem], names)
