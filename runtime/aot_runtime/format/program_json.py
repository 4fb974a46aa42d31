"""A program's JSON form, as docs/format.md describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from aot_runtime.format.json_value import JsonValue, expr_to_json
from aot_runtime.format.plan import (
    ArenaSlot,
    ArenaStorage,
    Buffer,
    Derived,
    EntryStorage,
    InputStorage,
    KernelCode,
    KernelRef,
    Library,
    OperatorLibrary,
    OutputStorage,
    Program,
    Routine,
    SliceStorage,
    StateStorage,
    Storage,
    TensorSpec,
    Update,
    WeightProgram,
)
from aot_runtime.format.steps_json import step_from_json, step_to_json


def program_to_json(program: Program) -> dict[str, Any]:
    """The program as plain dicts and lists, keys in the order of docs/format.md."""
    return {
        "device": program.device,
        "arch": program.arch,
        **_memory_out(program),
        "libraries": [
            {"entry": b.entry, "isa": b.isa, "sha256": b.sha256} for b in program.libraries
        ],
        **_operators_out(program),
        "kernels": [_kernel_out(kernel) for kernel in program.kernels],
        **_steps_out(program),
        **_weights_out(program),
    }


def _operators_out(program: Program) -> dict[str, Any]:
    libraries = [{"entry": b.entry, "sha256": b.sha256} for b in program.operator_libraries]
    return {"operator_libraries": libraries} if libraries else {}


def _operators_in(v: JsonValue) -> tuple[OperatorLibrary, ...]:
    if not v.has("operator_libraries"):
        return ()
    return v["operator_libraries"].each(
        lambda b: OperatorLibrary(b["entry"].text(), b["sha256"].text())
    )


def _memory_out(program: Program) -> dict[str, Any]:
    return {
        "buffers": [
            {
                "name": b.name,
                "dtype": b.dtype,
                "bytes": expr_to_json(b.bytes),
                "storage": _storage_out(b.storage),
            }
            for b in program.buffers
        ],
        "arena": [{"buffer": s.buffer, "above": list(s.above)} for s in program.arena],
    }


def _steps_out(program: Program) -> dict[str, Any]:
    return {
        "steps": [step_to_json(step) for step in program.steps],
        "outputs": list(program.outputs),
        **({"updates": [_update_out(u) for u in program.updates]} if program.updates else {}),
    }


def _weights_out(program: Program) -> dict[str, Any]:
    if program.weights is None:
        return {}
    routines = [
        {
            "inputs": [tensor_to_json(spec) for spec in routine.inputs],
            "results": [tensor_to_json(spec) for spec in routine.outputs],
            **_memory_out(routine.body),
            **_steps_out(routine.body),
        }
        for routine in program.weights.routines
    ]
    derived = [
        {"entry": d.entry, "sources": list(d.sources), "routine": d.routine}
        for d in program.weights.derived
    ]
    return {"weights": {"routines": routines, "derived": derived}}


def tensor_to_json(spec: TensorSpec) -> Mapping[str, Any]:
    """An input or output."""
    return {
        "name": spec.name,
        "dtype": spec.dtype,
        "shape": [expr_to_json(e) for e in spec.shape],
        "strides": [expr_to_json(e) for e in spec.strides],
        **({"changed": True} if spec.changed else {}),
    }


def tensor_from_json(v: JsonValue) -> TensorSpec:
    """The input or output in a JSON value."""
    return TensorSpec(
        v["name"].text(),
        v["dtype"].text(),
        v["shape"].each(JsonValue.expr),
        v["strides"].each(JsonValue.expr),
        v.has("changed") and v["changed"].boolean(),
    )


def program_from_json(v: JsonValue) -> Program:
    """The program in a JSON value.

    Raises:
        CorruptPackage: A key is missing, or a value has the wrong type.
    """
    program = _body_in(
        v,
        Program(
            device=v["device"].text(),
            arch=v["arch"].text(),
            buffers=(),
            libraries=v["libraries"].each(
                lambda b: Library(b["entry"].text(), b["isa"].text(), b["sha256"].text())
            ),
            operator_libraries=_operators_in(v),
            kernels=v["kernels"].each(_kernel_in),
            steps=(),
            outputs=(),
        ),
    )
    if not v.has("weights"):
        return program
    weights = v["weights"]
    routines = weights["routines"].each(
        lambda r: Routine(
            r["inputs"].each(tensor_from_json),
            r["results"].each(tensor_from_json),
            _body_in(r, program),
        )
    )
    derived = weights["derived"].each(
        lambda d: Derived(
            d["entry"].text(), d["sources"].each(JsonValue.text), d["routine"].integer()
        )
    )
    return replace(program, weights=WeightProgram(routines, derived))


def _body_in(v: JsonValue, program: Program) -> Program:
    """The program with the buffers, arena, steps and outputs of this value."""
    return replace(
        program,
        buffers=v["buffers"].each(
            lambda b: Buffer(
                b["name"].text(), b["dtype"].text(), b["bytes"].expr(), _storage_in(b["storage"])
            )
        ),
        arena=v["arena"].each(
            lambda s: ArenaSlot(s["buffer"].integer(), s["above"].each(JsonValue.integer))
        ),
        steps=v["steps"].each(step_from_json),
        outputs=v["outputs"].each(JsonValue.integer),
        updates=v["updates"].each(_update_in) if v.has("updates") else (),
    )


def _storage_out(storage: Storage) -> Mapping[str, Any]:
    match storage:
        case InputStorage(index):
            return {"kind": "input", "index": index}
        case OutputStorage(index):
            return {"kind": "output", "index": index}
        case EntryStorage(entry, offset):
            return {"kind": "entry", "entry": entry, "offset": offset}
        case ArenaStorage():
            return {"kind": "arena"}
        case StateStorage(index):
            return {"kind": "state", "index": index}
        case SliceStorage(of, stride, step):
            return {"kind": "slice", "of": of, "stride": expr_to_json(stride), "step": step}


def _storage_in(v: JsonValue) -> Storage:
    match v["kind"].one_of("input", "output", "entry", "arena", "state", "slice"):
        case "input":
            return InputStorage(v["index"].integer())
        case "output":
            return OutputStorage(v["index"].integer())
        case "entry":
            return EntryStorage(v["entry"].text(), v["offset"].integer())
        case "state":
            return StateStorage(v["index"].integer())
        case "slice":
            return SliceStorage(v["of"].integer(), v["stride"].expr(), v["step"].integer())
        case _:
            return ArenaStorage()


def _update_out(update: Update) -> Mapping[str, Any]:
    return {update.target: update.index, "buffer": update.buffer}


def _update_in(v: JsonValue) -> Update:
    if v.has("input"):
        return Update("input", v["input"].integer(), v["buffer"].integer())
    return Update("state", v["state"].integer(), v["buffer"].integer())


def _kernel_out(kernel: KernelRef) -> Mapping[str, Any]:
    code = kernel.code
    if code is None:
        return {"name": kernel.name}
    return {
        "name": kernel.name,
        "entry": code.entry,
        "sha256": code.sha256,
        "symbol": code.symbol,
        "threads": code.threads,
        "shared": code.shared,
        "scratch": code.scratch,
        "scratch_alignment": code.scratch_alignment,
        "faults": code.faults,
        **({"waits": True} if code.waits else {}),
    }


def _kernel_in(v: JsonValue) -> KernelRef:
    if not v.has("entry"):
        return KernelRef(v["name"].text())
    code = KernelCode(
        entry=v["entry"].text(),
        symbol=v["symbol"].text(),
        threads=v["threads"].integer(),
        shared=v["shared"].integer(),
        scratch=v["scratch"].integer(),
        scratch_alignment=v["scratch_alignment"].integer(),
        faults=v["faults"].boolean(),
        waits=v["waits"].boolean() if v.has("waits") else False,
        sha256=v["sha256"].text(),
    )
    return KernelRef(v["name"].text(), code)
