"""The JSON form of a program's steps, as docs/format.md describes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aot_runtime.format.calls_json import call_from_json, call_to_json
from aot_runtime.format.errors import Origin
from aot_runtime.format.json_value import JsonValue, expr_to_json
from aot_runtime.format.plan import (
    AnyStep,
    BranchStep,
    CallStep,
    CheckStep,
    ControlStep,
    CopyStep,
    GridLaunch,
    Plan,
    RepeatStep,
    SizesStep,
    Step,
    WhileStep,
    WorkLaunch,
)

NO_ORIGIN = -1
"""The origin of a step that has none, which is null in JSON; packages of format 1.0 have such."""


def origin_of(plan: Plan, step: AnyStep) -> Origin:
    """The place that a step is blamed on; of a step without one, that it is not known."""
    return Origin(code="unknown line") if step.origin == NO_ORIGIN else plan.origins[step.origin]


def step_to_json(step: AnyStep) -> Mapping[str, Any]:
    """The step as a plain dict, keys in the order of docs/format.md."""
    if not isinstance(step, Step):
        return {**_control_out(step), "origin": _origin_out(step.origin)}
    return {
        "kernel": step.kernel,
        "buffers": list(step.buffers),
        "sizes": [expr_to_json(e) for e in step.sizes],
        **_launch_out(step.launch),
        **({"values": [expr_to_json(e) for e in step.values]} if step.values else {}),
        "origin": _origin_out(step.origin),
    }


def _control_out(step: ControlStep) -> Mapping[str, Any]:
    match step:
        case BranchStep(buffer, then, otherwise):
            return {"branch": buffer, "then": then, "else": otherwise}
        case WhileStep(buffer, condition, body):
            return {"while": buffer, "condition": condition, "body": body}
        case RepeatStep(count, body):
            return {"repeat": expr_to_json(count), "body": body}
        case CopyStep(source, target):
            return {"copy": source, "to": target}
        case SizesStep(sizes, body):
            return {"read": [[name, buffer] for name, buffer in sizes], "body": body}
        case CheckStep(buffer, message):
            return {"check": buffer, "message": message}
        case CallStep():
            return call_to_json(step)


def _launch_out(launch: WorkLaunch | GridLaunch) -> Mapping[str, Any]:
    match launch:
        case WorkLaunch(work, grain, scratch):
            return {
                "work": expr_to_json(work),
                "grain": expr_to_json(grain),
                "scratch": expr_to_json(scratch),
            }
        case GridLaunch(x, y, z):
            return {"grid": [expr_to_json(x), expr_to_json(y), expr_to_json(z)]}


def step_from_json(v: JsonValue) -> AnyStep:
    """The step in a JSON value.

    Raises:
        CorruptPackage: A key is missing, or a value has the wrong type.
    """
    control = _control_in(v)
    return control or Step(
        v["kernel"].integer(),
        v["buffers"].each(JsonValue.integer),
        v["sizes"].each(JsonValue.expr),
        _launch_in(v),
        _origin_in(v),
        v["values"].each(JsonValue.expr) if v.has("values") else (),
    )


def _control_in(v: JsonValue) -> ControlStep | None:
    """The control step; None where the value has the key of none."""
    known = ("branch", "while", "repeat", "copy", "read", "check", "call")
    if not any(v.has(key) for key in known):
        return None
    origin = _origin_in(v)
    if v.has("branch"):
        return BranchStep(v["branch"].integer(), v["then"].integer(), v["else"].integer(), origin)
    if v.has("while"):
        return WhileStep(
            v["while"].integer(), v["condition"].integer(), v["body"].integer(), origin
        )
    if v.has("repeat"):
        return RepeatStep(v["repeat"].expr(), v["body"].integer(), origin)
    if v.has("copy"):
        return CopyStep(v["copy"].integer(), v["to"].integer(), origin)
    if v.has("call"):
        return call_from_json(v, origin)
    if v.has("read"):
        return SizesStep(v["read"].each(_size_in), v["body"].integer(), origin)
    return CheckStep(v["check"].integer(), v["message"].text(), origin)


def _origin_out(origin: int) -> int | None:
    return None if origin == NO_ORIGIN else origin


def _origin_in(v: JsonValue) -> int:
    return NO_ORIGIN if v["origin"].value is None else v["origin"].integer()


def _size_in(v: JsonValue) -> tuple[str, int]:
    both = v.each(lambda item: item)
    if len(both) != 2:
        raise v.wrong("a pair of dim and buffer")
    return both[0].text(), both[1].integer()


def _launch_in(v: JsonValue) -> WorkLaunch | GridLaunch:
    if not v.has("grid"):
        return WorkLaunch(v["work"].expr(), v["grain"].expr(), v["scratch"].expr())
    grid = v["grid"].each(JsonValue.expr)
    if len(grid) != 3:
        raise v["grid"].wrong("three numbers")
    return GridLaunch(*grid)
