"""The plan's invariants, in prose and as code.

A plan is well formed when
1. every index (of a buffer, kernel, origin, input, output) is in range, and every name resolves;
2. expressions use known operators with the right number of operands, over declared dims;
3. dims have distinct names, a non-empty range, and a source that exists and divides;
4. input i is in a buffer whose storage is input i;
5. a buffer whose storage is output i is the buffer of output i;
6. every temporary has exactly one slot in the arena, placed after all slots that it lies above;
7. kernel names are distinct, and a step gives at least one buffer;
8. the signature's leaves name inputs in parameters, outputs in the result, all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from aot.errors import InternalError
from aot.link.plan import (
    DTYPE_BYTES,
    EXPR_OPS,
    RELATIONS,
    ArenaStorage,
    EntryStorage,
    Expr,
    InputStorage,
    OutputStorage,
    Plan,
    TensorSpec,
    Tree,
    TreeConstant,
    TreeDict,
    TreeInput,
    TreeOutput,
    TreeSequence,
)


def check_plan(plan: Plan, entries: Iterable[str] | None = None) -> None:
    """Raise if the plan breaks an invariant.

    Args:
        plan: The plan.
        entries: Names of the package's entries; when given, every entry that is named must exist.

    Raises:
        InternalError: Lists everything that is wrong.
    """
    problems = list(plan_problems(plan, None if entries is None else set(entries)))
    if problems:
        raise InternalError(
            f"the execution plan breaks {len(problems)} invariant(s)", details="\n".join(problems)
        )


def plan_problems(plan: Plan, entries: set[str] | None) -> Iterator[str]:
    """Every broken invariant, as a sentence."""
    dims = {dim.name for dim in plan.dims}
    yield from _dims(plan)
    for kind, specs in (("input", plan.inputs), ("output", plan.outputs)):
        for i, spec in enumerate(specs):
            yield from _tensor(plan, f"{kind} {i} ({spec.name})", spec, dims)
    for i, spec in enumerate(plan.inputs):
        if 0 <= spec.buffer < len(plan.buffers):
            storage = plan.buffers[spec.buffer].storage
            if storage != InputStorage(i):
                yield f"input {i} is in buffer {spec.buffer}, whose storage is {storage}"
    yield from _buffers(plan, dims, entries)
    yield from _arena(plan)
    yield from _steps(plan, dims)
    for i, check in enumerate(plan.checks):
        yield from _expr(f"checks[{i}].left", check.left, dims)
        yield from _expr(f"checks[{i}].right", check.right, dims)
        if check.relation not in RELATIONS:
            yield f"checks[{i}] has the unknown relation {check.relation!r}"
    yield from _signature(plan)
    yield from _golden(plan, entries)


def _dims(plan: Plan) -> Iterator[str]:
    names = [dim.name for dim in plan.dims]
    if len(set(names)) != len(names):
        yield f"dims repeat a name: {names}"
    for dim in plan.dims:
        source = dim.source
        if dim.max is not None and dim.max < dim.min:
            yield f"dim {dim.name} has the empty range {dim.min}..{dim.max}"
        if dim.multiple_of < 1 or source.divisor < 1:
            yield f"dim {dim.name}: multiple_of and divisor must be at least 1"
        if not 0 <= source.input < len(plan.inputs):
            yield f"dim {dim.name} is bound by input {source.input}, which does not exist"
        elif not 0 <= source.axis < len(plan.inputs[source.input].shape):
            yield f"dim {dim.name} is bound by axis {source.axis} of input {source.input}"


def _tensor(plan: Plan, what: str, spec: TensorSpec, dims: set[str]) -> Iterator[str]:
    if spec.dtype not in DTYPE_BYTES:
        yield f"{what} has the unknown dtype {spec.dtype!r}"
    if len(spec.shape) != len(spec.strides):
        yield f"{what} has {len(spec.shape)} sizes but {len(spec.strides)} strides"
    if not 0 <= spec.buffer < len(plan.buffers):
        yield f"{what} is in buffer {spec.buffer}, which does not exist"
    for expr in (*spec.shape, *spec.strides):
        yield from _expr(what, expr, dims)


def _buffers(plan: Plan, dims: set[str], entries: set[str] | None) -> Iterator[str]:
    for i, buffer in enumerate(plan.buffers):
        what = f"buffer {i} ({buffer.name})"
        if buffer.dtype not in DTYPE_BYTES:
            yield f"{what} has the unknown dtype {buffer.dtype!r}"
        yield from _expr(what, buffer.bytes, dims)
        match buffer.storage:
            case InputStorage(index) if not 0 <= index < len(plan.inputs):
                yield f"{what} is input {index}, which does not exist"
            case OutputStorage(index) if not 0 <= index < len(plan.outputs):
                yield f"{what} is output {index}, which does not exist"
            case OutputStorage(index) if plan.outputs[index].buffer != i:
                yield f"{what} is output {index}, whose buffer is {plan.outputs[index].buffer}"
            case EntryStorage(entry, offset):
                if offset < 0 or offset % 64:
                    yield f"{what} starts at byte {offset} of {entry}, no multiple of 64"
                if entries is not None and entry not in entries:
                    yield f"{what} needs the entry {entry}, which does not exist"
            case _:
                pass


def _arena(plan: Plan) -> Iterator[str]:
    placed: set[int] = set()
    for slot in plan.arena:
        if not 0 <= slot.buffer < len(plan.buffers):
            yield f"the arena places buffer {slot.buffer}, which does not exist"
            continue
        if plan.buffers[slot.buffer].storage != ArenaStorage():
            yield f"the arena places buffer {slot.buffer}, which is no temporary"
        if slot.buffer in placed:
            yield f"the arena places buffer {slot.buffer} twice"
        late = [b for b in slot.above if b not in placed]
        if late:
            yield f"the arena places buffer {slot.buffer} above {late}, which come later"
        placed.add(slot.buffer)
    for i, buffer in enumerate(plan.buffers):
        if buffer.storage == ArenaStorage() and i not in placed:
            yield f"buffer {i} ({buffer.name}) is a temporary without a slot in the arena"


def _steps(plan: Plan, dims: set[str]) -> Iterator[str]:
    names = [kernel.name for kernel in plan.kernels]
    if len(set(names)) != len(names):
        yield "kernels repeat a name"
    for i, step in enumerate(plan.steps):
        what = f"step {i}"
        if not 0 <= step.kernel < len(plan.kernels):
            yield f"{what} runs kernel {step.kernel}, which does not exist"
        if not step.buffers:
            yield f"{what} has no buffers"
        bad = [b for b in step.buffers if not 0 <= b < len(plan.buffers)]
        if bad:
            yield f"{what} uses buffers {bad}, which do not exist"
        if not 0 <= step.origin < len(plan.origins):
            yield f"{what} has origin {step.origin}, which does not exist"
        for expr in (*step.sizes, step.work, step.grain, step.scratch):
            yield from _expr(what, expr, dims)


def _expr(what: str, expr: Expr, dims: set[str]) -> Iterator[str]:
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
        yield from _expr(what, operand, dims)


def _signature(plan: Plan) -> Iterator[str]:
    inputs = [leaf for p in plan.signature.parameters for leaf in leaves(p.tree)]
    outputs = list(leaves(plan.signature.result))
    used = {leaf.index for leaf in inputs if isinstance(leaf, TreeInput)}
    made = {leaf.index for leaf in outputs if isinstance(leaf, TreeOutput)}
    if any(isinstance(leaf, TreeOutput) for leaf in inputs):
        yield "a parameter of the signature names an output"
    if any(isinstance(leaf, TreeInput) for leaf in outputs):
        yield "the result of the signature names an input"
    if used != set(range(len(plan.inputs))):
        yield f"the signature names inputs {sorted(used)} of {len(plan.inputs)}"
    if made != set(range(len(plan.outputs))):
        yield f"the signature names outputs {sorted(made)} of {len(plan.outputs)}"


def _golden(plan: Plan, entries: set[str] | None) -> Iterator[str]:
    for i, golden in enumerate(plan.golden):
        if len(golden.inputs) != len(plan.inputs) or len(golden.outputs) != len(plan.outputs):
            yield f"golden set {i} has another number of inputs or outputs than the plan"
        if not len(golden.outputs) == len(golden.atol) == len(golden.rtol):
            yield f"golden set {i} needs one tolerance for each output"
        names = (*golden.inputs, *golden.outputs)
        missing = [] if entries is None else [name for name in names if name not in entries]
        if missing:
            yield f"golden set {i} needs entries that do not exist: {missing}"


def leaves(tree: Tree) -> Iterator[TreeInput | TreeOutput | TreeConstant]:
    """The leaves of a signature's tree, in order."""
    match tree:
        case TreeSequence(_, items):
            for item in items:
                yield from leaves(item)
        case TreeDict(members):
            for _, item in members:
                yield from leaves(item)
        case leaf:
            yield leaf
