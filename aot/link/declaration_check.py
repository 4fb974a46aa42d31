"""Proves that every launch of a plan is one that its kernel's declaration allows.

A launch fits its declaration when
1. it has as many buffers, sizes and values as that, and the kernel's numbers are the plan's;
2. each value is in its variable's range, a multiple as that says, and the relations hold;
3. with these values, sizes and work or grid are what is declared, and scratch suffices;
4. every buffer has the declared type and at least the declared bytes, for all dims in their ranges;
5. what is written is no input's memory and no entry of the package.

The compiler asks this of its own plans. A runtime, which trusts nobody, proves it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from aot_runtime.format.declarations import (
    Declaration,
    Declared,
    DeclaredBuffer,
    DeclaredCode,
    KernelDeclaration,
    Variable,
    declared_code,
)
from aot_runtime.format.plan import (
    EntryStorage,
    GridLaunch,
    InputStorage,
    KernelRef,
    Plan,
    Program,
    SliceStorage,
    Step,
    WorkLaunch,
)
from aot_runtime.format.plan import Expr as PlanExpr

from aot.errors import InternalError
from aot.symbolic import (
    Expr,
    Ranges,
    Symbol,
    decode,
    dim,
    expand,
    integer,
    number_and_rest,
    substitute,
    terms,
)


def check_declarations(plan: Plan, declared: Mapping[str, Sequence[KernelDeclaration]]) -> None:
    """Raise where a launch of the plan does not fit what its kernel declares.

    Args:
        plan: The plan.
        declared: Each program's declarations, by its target, in the order of its kernels.

    Raises:
        InternalError: Lists everything that is wrong.
    """
    problems: list[str] = []
    for program in plan.programs:
        own = declared[program.target]
        found = list(declaration_problems(plan, program, own))
        for k, routine in enumerate(program.weights.routines if program.weights else ()):
            bare = replace(plan, dims=(), checks=())
            inner = declaration_problems(bare, routine.body, own)
            found += [f"routine {k}: {problem}" for problem in inner]
        problems += [f"program {program.target}: {problem}" for problem in found]
    if problems:
        raise InternalError(
            f"{len(problems)} launches do not fit what kernels declare",
            details="\n".join(problems),
        )


def declaration_problems(
    plan: Plan, program: Program, declared: Sequence[KernelDeclaration]
) -> Iterator[str]:
    """Every way in which the program's launches do not fit the declarations, as sentences."""
    names = [kernel.name for kernel in program.kernels]
    if [d.name for d in declared] != names:
        yield f"it has the kernels {names}, declared are {[d.name for d in declared]}"
        return
    for kernel, declaration in zip(program.kernels, declared, strict=True):
        if _code_of(kernel) != declaration.code:
            yield f"kernel {kernel.name} declares other numbers than the plan gives its code"
    ranges = Ranges({}, {dim(d.name): (d.min, d.max) for d in plan.dims})
    proof = _Proof(plan, program, ranges, {dim(d.name): d.multiple_of for d in plan.dims})
    for at, step in enumerate(program.steps):
        if isinstance(step, Step):
            for problem in proof.launch(step, declared[step.kernel]):
                yield f"step {at}: {problem}"


def _code_of(kernel: KernelRef) -> DeclaredCode | None:
    return None if kernel.code is None else declared_code(kernel.code)


@dataclass(frozen=True)
class _Proof:
    """`ranges`: what is known of the plan's dims; `multiples`: what each is a multiple of."""

    plan: Plan
    program: Program
    ranges: Ranges
    multiples: Mapping[Symbol, int]

    def launch(self, step: Step, declared: KernelDeclaration) -> Iterator[str]:
        """Why a step is no launch that the declaration allows."""
        what = declared.declaration
        counts = (len(step.buffers), len(step.sizes), len(step.values))
        wanted = (len(what.buffers), len(what.sizes), len(what.variables))
        if counts != wanted:
            yield f"{declared.name} takes {wanted} buffers, sizes and values, not {counts}"
            return
        if isinstance(step.launch, GridLaunch) != (what.grid is not None):
            yield f"{declared.name} is launched in another way than it declares"
            return
        values = {dim(f"v{k}"): decode(value) for k, value in enumerate(step.values)}
        for k, (variable, value) in enumerate(zip(what.variables, values.values(), strict=True)):
            if not self._in_range(value, variable):
                yield f"v{k} of {declared.name} is {value}, which {variable} does not hold"
        for left, relation, right in what.relations:
            if not self._holds(_with(left, values), relation, _with(right, values)):
                yield f"{declared.name} needs {left} {relation} {right}"
        pairs = [*zip(what.sizes, step.sizes, strict=True), *_amounts(what, step.launch)]
        for promised, given in pairs:
            if expand(_with(promised, values) - decode(given)) != 0:
                yield f"{declared.name} declares {promised} where the step gives {given}"
        if isinstance(step.launch, WorkLaunch):
            yield from self._scratch(declared, values, step.launch)
        for position, (buffer, index) in enumerate(zip(what.buffers, step.buffers, strict=True)):
            for problem in self._buffer(buffer, index, values):
                yield f"buffer {position} of {declared.name} {problem}"

    def _scratch(
        self, declared: KernelDeclaration, values: Mapping[Symbol, Expr], launch: WorkLaunch
    ) -> Iterator[str]:
        needed = _with(declared.declaration.scratch, values)
        if not self.ranges.nonnegative(expand(decode(launch.scratch) - needed)):
            yield f"{declared.name} needs {needed} bytes of scratch, not {launch.scratch}"

    def _buffer(
        self, declared: DeclaredBuffer, index: int, values: Mapping[Symbol, Expr]
    ) -> Iterator[str]:
        buffer = self.program.buffers[index]
        if buffer.dtype != declared.dtype:
            yield f"has {declared.dtype}, {buffer.name} has {buffer.dtype}"
        needed = _with(declared.bytes, values)
        if not self.ranges.nonnegative(expand(decode(buffer.bytes) - needed)):
            yield f"has {needed} bytes, {buffer.name} has {buffer.bytes}"
        storage = buffer.storage
        while isinstance(storage, SliceStorage):
            storage = self.program.buffers[storage.of].storage
        if declared.access != "read" and isinstance(storage, InputStorage | EntryStorage):
            yield f"is written, {buffer.name} must not be"

    def _in_range(self, value: Expr, variable: Variable) -> bool:
        low = self.ranges.nonnegative(expand(value - variable.minimum))
        most = variable.maximum
        high = most is None or self.ranges.at_most(value, integer(most)) or self._below(value, most)
        return low and high and self._multiple(value, variable.multiple_of)

    def _below(self, value: Expr, most: int) -> bool:
        """Whether a dim's own greatest value is at most that."""
        known = self.ranges.dims.get(value)
        return known is not None and known[1] is not None and known[1] <= most

    def _multiple(self, value: Expr, of: int) -> bool:
        return of == 1 or all(self._factor(term) % of == 0 for term in terms(value))

    def _factor(self, term: Expr) -> int:
        number, rest = number_and_rest(term)
        return int(number) * self.multiples.get(rest, 1)

    def _holds(self, left: Expr, relation: str, right: Expr) -> bool:
        if left.is_Integer and right.is_Integer:
            a, b = int(left), int(right)
            return {"==": a == b, "<=": a <= b, "<": a < b}[relation]
        known = ((decode(c.left), c.relation, decode(c.right)) for c in self.plan.checks)
        return any(relation == r and expand(left - right - (a - b)) == 0 for a, r, b in known)


def _with(declared: Declared, values: Mapping[Symbol, Expr]) -> Expr:
    return substitute(decode(declared), values)


def _amounts(
    declared: Declaration, launch: WorkLaunch | GridLaunch
) -> tuple[tuple[Declared, PlanExpr], ...]:
    """What is declared and what is given of the amount of work."""
    if isinstance(launch, WorkLaunch) or declared.grid is None:
        return ((declared.work, launch.work),) if isinstance(launch, WorkLaunch) else ()
    return tuple(zip(declared.grid, (launch.x, launch.y, launch.z), strict=True))
