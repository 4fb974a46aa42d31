"""The invariants of a program's steps, in prose and as code.

The steps of a program are well formed when
1. every index is in range, and a launch gives at least one buffer, in the way that its kernel
   takes;
2. the parts of a step lie within the part around it;
3. every dim without a source is bound by exactly one `SizesStep`, and dims, and buffers whose bytes
   need them, are used in that step's part only;
4. a slice is part of a buffer of the same type, is used in the part of its `RepeatStep` only, and a
   slice of a slice in the loop of the outer one;
5. predicates and checked buffers are bools, sizes are read from int64, a copy is between buffers of
   one type;
6. a call names its operator, has a value for each argument that is no list, and writes each result
   to a buffer of its own that it does not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from aot_runtime.format.plan import (
    AnyStep,
    BranchStep,
    CallStep,
    CheckStep,
    CopyStep,
    Expr,
    GridLaunch,
    Plan,
    Program,
    RepeatStep,
    SizesStep,
    SliceStorage,
    Step,
    WhileStep,
    WorkLaunch,
    parts_of,
)

from aot.link.calls import call_problems, exprs_of, operands_of
from aot.link.expr_check import dims_of, expr_problems


def step_problems(plan: Plan, program: Program) -> Iterator[str]:
    """Every broken invariant of a program's steps, as a sentence."""
    walk = _Walk(plan, program)
    known = frozenset(dim.name for dim in plan.dims if dim.source is not None)
    yield from walk.part(0, len(program.steps), known, frozenset())
    yield from walk.slices()
    read = [name for s in program.steps if isinstance(s, SizesStep) for name, _ in s.sizes]
    measured = [dim.name for dim in plan.dims if dim.source is None]
    if sorted(read) != sorted(measured):
        yield f"steps read the sizes {sorted(read)}, dims without a source are {sorted(measured)}"


@dataclass(frozen=True)
class _Walk:
    plan: Plan
    program: Program

    def part(
        self, begin: int, end: int, dims: frozenset[str], loops: frozenset[int]
    ) -> Iterator[str]:
        """Problems of the steps from `begin` to `end`, where these dims and loops are known."""
        at = begin
        while at < end:
            step = self.program.steps[at]
            yield from self.step(at, step, dims, loops)
            counts = parts_of(step)
            inside = dims
            if isinstance(step, SizesStep):
                inside = dims | {name for name, _ in step.sizes}
            turning = loops | {at} if isinstance(step, RepeatStep) else loops
            at += 1
            for count in counts:
                if count < 0 or at + count > end:
                    yield f"step {at - 1} has parts beyond the steps around it"
                    return
                yield from self.part(at, at + count, inside, turning)
                at += count

    def step(
        self, at: int, step: AnyStep, dims: frozenset[str], loops: frozenset[int]
    ) -> Iterator[str]:
        """Problems of one step itself."""
        what = f"step {at}"
        if not 0 <= step.origin < len(self.plan.origins):
            yield f"{what} has origin {step.origin}, which does not exist"
        for buffer in _buffers_of(step):
            yield from self.use(what, buffer, dims, loops)
        for expr in _exprs_of(step):
            yield from expr_problems(what, expr, dims)
        if isinstance(step, Step):
            yield from self.launch(what, step)
        for buffer, dtype in _typed(step):
            if self.dtype(buffer) not in (dtype, None):
                yield f"{what} reads {dtype} from buffer {buffer} of {self.dtype(buffer)}"
        if isinstance(step, CopyStep) and self.dtype(step.source) != self.dtype(step.target):
            yield f"{what} copies between buffers of two types"
        if isinstance(step, CallStep):
            yield from (f"{what} {problem}" for problem in call_problems(step))

    def launch(self, what: str, step: Step) -> Iterator[str]:
        """Problems of a launch."""
        kernels = self.program.kernels
        if not 0 <= step.kernel < len(kernels):
            yield f"{what} runs kernel {step.kernel}, which does not exist"
        elif isinstance(step.launch, GridLaunch) != (kernels[step.kernel].code is not None):
            yield f"{what} is launched in another way than kernel {step.kernel} takes"
        if not step.buffers:
            yield f"{what} has no buffers"

    def use(
        self, what: str, buffer: int, dims: frozenset[str], loops: frozenset[int]
    ) -> Iterator[str]:
        """Problems of using a buffer where these dims and loops are known."""
        if not 0 <= buffer < len(self.program.buffers):
            yield f"{what} uses buffer {buffer}, which does not exist"
            return
        found = self.program.buffers[buffer]
        late = sorted(set(dims_of(found.bytes)) - dims)
        if late:
            yield f"{what} uses buffer {buffer}, whose size needs {late}, before they are known"
        if isinstance(found.storage, SliceStorage) and found.storage.step not in loops:
            yield f"{what} uses buffer {buffer}, a slice, outside of its loop"

    def slices(self) -> Iterator[str]:
        """Problems of buffers that are slices."""
        buffers, steps = self.program.buffers, self.program.steps
        for k, buffer in enumerate(buffers):
            storage = buffer.storage
            if not isinstance(storage, SliceStorage):
                continue
            what = f"buffer {k} ({buffer.name})"
            yield from expr_problems(what, storage.stride, {dim.name for dim in self.plan.dims})
            if not 0 <= storage.of < k:
                yield f"{what} is a slice of buffer {storage.of}, which does not come before it"
            elif buffers[storage.of].dtype != buffer.dtype:
                yield f"{what} is a slice of a buffer of another type"
            if not 0 <= storage.step < len(steps) or not isinstance(
                steps[storage.step], RepeatStep
            ):
                yield f"{what} is a slice in step {storage.step}, which is no counted loop"

    def dtype(self, buffer: int) -> str | None:
        """The buffer's element type; None where there is no such buffer."""
        known = 0 <= buffer < len(self.program.buffers)
        return self.program.buffers[buffer].dtype if known else None


def _buffers_of(step: AnyStep) -> tuple[int, ...]:
    match step:
        case Step():
            return step.buffers
        case BranchStep(buffer) | CheckStep(buffer):
            return (buffer,)
        case CopyStep(source, target):
            return source, target
        case SizesStep(sizes):
            return tuple(buffer for _, buffer in sizes)
        case CallStep(results=results):
            return tuple(operand.buffer for operand in (*operands_of(step), *results))
    # A loop's condition is left by its part; it is looked at where the loop stands.
    return (step.buffer,) if isinstance(step, WhileStep) else ()


def _typed(step: AnyStep) -> tuple[tuple[int, str], ...]:
    """Buffers that a step reads itself, and the type that it takes them to be."""
    match step:
        case BranchStep(buffer) | WhileStep(buffer) | CheckStep(buffer):
            return ((buffer, "bool"),)
        case SizesStep(sizes):
            return tuple((buffer, "int64") for _, buffer in sizes)
    return ()


def _exprs_of(step: AnyStep) -> tuple[Expr, ...]:
    match step:
        case Step(launch=WorkLaunch(work, grain, scratch)):
            return *step.sizes, *step.values, work, grain, scratch
        case Step(launch=GridLaunch(x, y, z)):
            return *step.sizes, *step.values, x, y, z
        case RepeatStep(count):
            return (count,)
        case CallStep():
            return exprs_of(step)
    return ()
