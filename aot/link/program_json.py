"""A program's JSON form, as docs/format.md describes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aot.link.json_value import Value, expr_to_json
from aot.link.plan import (
    ArenaSlot,
    ArenaStorage,
    Buffer,
    EntryStorage,
    GridLaunch,
    InputStorage,
    KernelCode,
    KernelRef,
    Library,
    OutputStorage,
    Program,
    Step,
    Storage,
    WorkLaunch,
)


def program_to_json(program: Program) -> dict[str, Any]:
    """The program as plain dicts and lists, keys in the order of docs/format.md."""
    return {
        "device": program.device,
        "arch": program.arch,
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
        "libraries": [
            {"entry": b.entry, "isa": b.isa, "sha256": b.sha256} for b in program.libraries
        ],
        "kernels": [_kernel_out(kernel) for kernel in program.kernels],
        "steps": [_step_out(step) for step in program.steps],
        "outputs": list(program.outputs),
    }


def program_from_json(v: Value) -> Program:
    """The program in a JSON value.

    Raises:
        CorruptPackage: A key is missing, or a value has the wrong type.
    """
    return Program(
        device=v["device"].text(),
        arch=v["arch"].text(),
        buffers=v["buffers"].each(
            lambda b: Buffer(
                b["name"].text(), b["dtype"].text(), b["bytes"].expr(), _storage_in(b["storage"])
            )
        ),
        arena=v["arena"].each(
            lambda s: ArenaSlot(s["buffer"].integer(), s["above"].each(Value.integer))
        ),
        libraries=v["libraries"].each(
            lambda b: Library(b["entry"].text(), b["isa"].text(), b["sha256"].text())
        ),
        kernels=v["kernels"].each(_kernel_in),
        steps=v["steps"].each(_step_in),
        outputs=v["outputs"].each(Value.integer),
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


def _storage_in(v: Value) -> Storage:
    match v["kind"].one_of("input", "output", "entry", "arena"):
        case "input":
            return InputStorage(v["index"].integer())
        case "output":
            return OutputStorage(v["index"].integer())
        case "entry":
            return EntryStorage(v["entry"].text(), v["offset"].integer())
        case _:
            return ArenaStorage()


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
    }


def _kernel_in(v: Value) -> KernelRef:
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
        sha256=v["sha256"].text(),
    )
    return KernelRef(v["name"].text(), code)


def _step_out(step: Step) -> Mapping[str, Any]:
    return {
        "kernel": step.kernel,
        "buffers": list(step.buffers),
        "sizes": [expr_to_json(e) for e in step.sizes],
        **_launch_out(step.launch),
        "origin": step.origin,
    }


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


def _step_in(v: Value) -> Step:
    return Step(
        v["kernel"].integer(),
        v["buffers"].each(Value.integer),
        v["sizes"].each(Value.expr),
        _launch_in(v),
        v["origin"].integer(),
    )


def _launch_in(v: Value) -> WorkLaunch | GridLaunch:
    if not v.has("grid"):
        return WorkLaunch(v["work"].expr(), v["grain"].expr(), v["scratch"].expr())
    grid = v["grid"].each(Value.expr)
    if len(grid) != 3:
        raise v["grid"].wrong("three numbers")
    return GridLaunch(*grid)
