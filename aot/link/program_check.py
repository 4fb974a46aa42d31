"""A program's invariants, in prose and as code.

A program is well formed when
1. every index is in range, and every expression is one over the plan's dims;
2. it names a buffer for each output; a buffer whose storage is output i is the buffer of output i;
   at most one buffer is input i;
3. every temporary has exactly one slot in the arena, placed after all slots that it lies above;
4. kernel names are distinct, and a step gives at least one buffer;
5. either libraries hold the kernels' code, and steps launch work; or every kernel has code of its
   own, and steps launch grids;
6. every entry that is named exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aot.link.plan import (
    DTYPE_BYTES,
    EXPR_OPS,
    ArenaStorage,
    EntryStorage,
    Expr,
    GridLaunch,
    InputStorage,
    KernelCode,
    OutputStorage,
    Plan,
    Program,
    WorkLaunch,
)


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
    yield from _steps(plan, program, dims)


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
            case EntryStorage(entry, offset):
                if offset < 0 or offset % 64:
                    yield f"{what} starts at byte {offset} of {entry}, no multiple of 64"
                if entries is not None and entry not in entries:
                    yield f"{what} needs the entry {entry}, which does not exist"
            case _:
                pass


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


def _steps(plan: Plan, program: Program, dims: set[str]) -> Iterator[str]:
    for i, step in enumerate(program.steps):
        what = f"step {i}"
        if not 0 <= step.kernel < len(program.kernels):
            yield f"{what} runs kernel {step.kernel}, which does not exist"
        elif isinstance(step.launch, GridLaunch) != (program.kernels[step.kernel].code is not None):
            yield f"{what} is launched in another way than kernel {step.kernel} takes"
        if not step.buffers:
            yield f"{what} has no buffers"
        bad = [b for b in step.buffers if not 0 <= b < len(program.buffers)]
        if bad:
            yield f"{what} uses buffers {bad}, which do not exist"
        if not 0 <= step.origin < len(plan.origins):
            yield f"{what} has origin {step.origin}, which does not exist"
        for expr in (*step.sizes, *_launch_exprs(step.launch)):
            yield from expr_problems(what, expr, dims)


def _launch_exprs(launch: WorkLaunch | GridLaunch) -> tuple[Expr, ...]:
    match launch:
        case WorkLaunch(work, grain, scratch):
            return work, grain, scratch
        case GridLaunch(x, y, z):
            return x, y, z


def expr_problems(what: str, expr: Expr, dims: set[str]) -> Iterator[str]:
    """What is wrong with an expression over the dims, as sentences that begin with `what`."""
    if isinstance(expr, bool):
        yield f"{what}: {expr!r} is no expression"
    elif isinstance(expr, int):
        if not -(2**63) <= expr < 2**63:
            yield f"{what}: {expr} does not fit 64 bits"
    elif isinstance(expr, str):
        if expr not in dims:
            yield f"{what}: {expr!r} is no dim"
    else:
        yield from _operation(what, expr, dims)


def _operation(what: str, expr: Sequence[Expr], dims: set[str]) -> Iterator[str]:
    op = expr[0] if expr else None
    if not isinstance(op, str) or op not in EXPR_OPS:
        yield f"{what}: {op!r} is no operator of expressions"
        return
    count = len(expr) - 1
    if count < 2 or (op in ("//", "%") and count != 2):
        yield f"{what}: {op!r} cannot have {count} operands"
    for operand in expr[1:]:
        yield from expr_problems(what, operand, dims)
