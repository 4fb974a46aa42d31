"""A program's invariants, in prose and as code.

A program is well formed when
1. every index is in range, and every expression is one over the plan's dims;
2. it names a buffer for each output; a buffer whose storage is output i is the buffer of output i;
   at most one buffer is input i;
3. every temporary has exactly one slot in the arena, placed after all slots that it lies above;
4. kernel names are distinct, and the steps are well formed (`steps_check`);
5. either libraries hold the kernels' code, and steps launch work; or every kernel has code of its
   own, and steps launch grids;
6. every entry that is named exists;
7. the inputs that updates name are those that change, each once; a state has one update at most;
8. its weight program derives entries from weights of the plan, by routines that take as many and
   give one, that are well formed as programs are, and that read no entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from aot_runtime.format.plan import (
    DTYPE_BYTES,
    ArenaStorage,
    EntryStorage,
    InputStorage,
    KernelCode,
    OutputStorage,
    Plan,
    Program,
    StateStorage,
    WeightProgram,
)

from aot.link.expr_check import expr_problems
from aot.link.steps_check import step_problems


def program_problems(
    plan: Plan, program: Program, dims: set[str], entries: set[str] | None
) -> Iterator[str]:
    """Every broken invariant of one of the plan's programs, as a sentence.

    Args:
        plan: The plan.
        program: One of its programs.
        dims: Names of the plan's dims.
        entries: Names of the package's entries; None: not known yet.
    """
    if len(program.outputs) != len(plan.outputs):
        yield f"it has {len(program.outputs)} output buffers for {len(plan.outputs)} outputs"
    missing = [b for b in program.outputs if not 0 <= b < len(program.buffers)]
    if missing:
        yield f"outputs are in buffers {missing}, which do not exist"
    yield from _buffers(plan, program, dims, entries)
    yield from _arena(program)
    yield from _code(program, entries)
    yield from step_problems(plan, program)
    yield from _updates(plan, program)
    if program.weights is not None:
        yield from _weights(plan, program.weights, entries)


def _weights(plan: Plan, weights: WeightProgram, entries: set[str] | None) -> Iterator[str]:
    known = {spec.name for spec in plan.weights}
    for derived in weights.derived:
        what = f"derived entry {derived.entry}"
        if entries is not None and derived.entry not in entries:
            yield f"{what} does not exist"
        unknown = [name for name in derived.sources if name not in known]
        if unknown:
            yield f"{what} follows from {unknown}, which are no weights of the plan"
        if not 0 <= derived.routine < len(weights.routines):
            yield f"{what} comes from routine {derived.routine}, which does not exist"
        elif len(derived.sources) != len(weights.routines[derived.routine].inputs):
            yield f"{what} has another number of sources than its routine takes"
    for i, routine in enumerate(weights.routines):
        if len(routine.outputs) != 1:
            yield f"routine {i} gives {len(routine.outputs)} results"
        if any(isinstance(b.storage, EntryStorage) for b in routine.body.buffers):
            yield f"routine {i} reads an entry of the package"
        own = replace(plan, inputs=routine.inputs, outputs=routine.outputs, dims=(), states=())
        for problem in program_problems(own, routine.body, set(), entries):
            yield f"routine {i}: {problem}"


def _buffers(
    plan: Plan, program: Program, dims: set[str], entries: set[str] | None
) -> Iterator[str]:
    given: dict[int, int] = {}
    for i, buffer in enumerate(program.buffers):
        what = f"buffer {i} ({buffer.name})"
        if buffer.dtype not in DTYPE_BYTES:
            yield f"{what} has the unknown dtype {buffer.dtype!r}"
        yield from expr_problems(what, buffer.bytes, dims)
        match buffer.storage:
            case InputStorage(index) if not 0 <= index < len(plan.inputs):
                yield f"{what} is input {index}, which does not exist"
            case OutputStorage(index) if not 0 <= index < len(plan.outputs):
                yield f"{what} is output {index}, which does not exist"
            case OutputStorage(index) if index < len(program.outputs) and (
                program.outputs[index] != i
            ):
                yield f"{what} is output {index}, whose buffer is {program.outputs[index]}"
            case InputStorage(index) if index in given:
                yield f"{what} is input {index}, which buffer {given[index]} is"
            case InputStorage(index):
                given[index] = i
            case StateStorage(index) if not 0 <= index < len(plan.states):
                yield f"{what} is state {index}, which does not exist"
            case EntryStorage(entry, offset):
                if offset < 0 or offset % 64:
                    yield f"{what} starts at byte {offset} of {entry}, no multiple of 64"
                if entries is not None and entry not in entries:
                    yield f"{what} needs the entry {entry}, which does not exist"
            case _:
                pass


def _updates(plan: Plan, program: Program) -> Iterator[str]:
    targets = [(update.target, update.index) for update in program.updates]
    if len(set(targets)) != len(targets):
        yield f"updates repeat a target: {targets}"
    updated = {index for target, index in targets if target == "input"}
    changed = {i for i, spec in enumerate(plan.inputs) if spec.changed}
    if updated != changed:
        yield f"it updates inputs {sorted(updated)}, those that change are {sorted(changed)}"
    for update in program.updates:
        if update.target == "state" and not 0 <= update.index < len(plan.states):
            yield f"it updates state {update.index}, which does not exist"
        if not 0 <= update.buffer < len(program.buffers):
            yield f"an update copies buffer {update.buffer}, which does not exist"


def _arena(program: Program) -> Iterator[str]:
    placed: set[int] = set()
    for slot in program.arena:
        if not 0 <= slot.buffer < len(program.buffers):
            yield f"the arena places buffer {slot.buffer}, which does not exist"
            continue
        if program.buffers[slot.buffer].storage != ArenaStorage():
            yield f"the arena places buffer {slot.buffer}, which is no temporary"
        if slot.buffer in placed:
            yield f"the arena places buffer {slot.buffer} twice"
        late = [b for b in slot.above if b not in placed]
        if late:
            yield f"the arena places buffer {slot.buffer} above {late}, which come later"
        placed.add(slot.buffer)
    for i, buffer in enumerate(program.buffers):
        if buffer.storage == ArenaStorage() and i not in placed:
            yield f"buffer {i} ({buffer.name}) is a temporary without a slot in the arena"


def _code(program: Program, entries: set[str] | None) -> Iterator[str]:
    names = [kernel.name for kernel in program.kernels]
    if len(set(names)) != len(names):
        yield "kernels repeat a name"
    codes = [kernel.code for kernel in program.kernels if kernel.code is not None]
    if codes and len(codes) != len(program.kernels):
        yield "some kernels have code of their own, some do not"
    if codes and program.libraries:
        yield "it has libraries, and kernels with code of their own"
    for kernel in program.kernels:
        if kernel.code is not None:
            yield from _kernel_code(f"kernel {kernel.name}", kernel.code)
    if entries is not None:
        named = [*(lib.entry for lib in program.libraries), *(code.entry for code in codes)]
        named += [lib.entry for lib in program.operator_libraries]
        gone = [name for name in named if name not in entries]
        if gone:
            yield f"its code needs entries that do not exist: {gone}"


def _kernel_code(what: str, code: KernelCode) -> Iterator[str]:
    if not code.symbol:
        yield f"{what} has no symbol"
    if not 1 <= code.threads <= 1024:
        yield f"{what} has {code.threads} threads"
    if code.shared < 0 or code.scratch < 0:
        yield f"{what} needs a negative number of bytes"
    if code.scratch_alignment < 1 or code.scratch_alignment & (code.scratch_alignment - 1):
        yield f"{what}: {code.scratch_alignment} is no alignment"
