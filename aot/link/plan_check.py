"""The plan's invariants, in prose and as code.

A plan is well formed when
1. every index (of a buffer, kernel, origin, input, output) is in range, and every name resolves;
2. expressions use known operators with the right number of operands, over declared dims;
3. dims have distinct names, a non-empty range, and a source that exists and divides, or none;
   inputs use dims that have one;
4. the signature's leaves name inputs in parameters, outputs in the result, all of them;
5. states have distinct names, and only inputs are said to change;
6. there is at least one program, at most one a device and architecture, and each is well formed
   (`program_check`);
7. weights that can be replaced have distinct names and entries that exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from aot_runtime.format.plan import (
    DTYPE_BYTES,
    RELATIONS,
    Plan,
    TensorSpec,
    Tree,
    TreeConstant,
    TreeDict,
    TreeInput,
    TreeOutput,
    TreeSequence,
)
from aot_runtime.format.tensor_types import TENSOR_DTYPES

from aot.errors import InternalError
from aot.link.expr_check import expr_problems
from aot.link.program_check import program_problems


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
    bound = {dim.name for dim in plan.dims if dim.source is not None}
    for kind, specs, known in (("input", plan.inputs, bound), ("output", plan.outputs, dims)):
        for i, spec in enumerate(specs):
            yield from _tensor(f"{kind} {i} ({spec.name})", spec, known)
            if spec.changed and kind != "input":
                yield f"{kind} {i} ({spec.name}) is said to change"
    yield from _states(plan, entries)
    yield from _programs(plan, dims, entries)
    yield from _weights(plan, entries)
    for i, check in enumerate(plan.checks):
        yield from expr_problems(f"checks[{i}].left", check.left, dims)
        yield from expr_problems(f"checks[{i}].right", check.right, dims)
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
        if dim.multiple_of < 1:
            yield f"dim {dim.name}: multiple_of must be at least 1"
        if source is None:
            continue
        if source.divisor < 1:
            yield f"dim {dim.name}: divisor must be at least 1"
        if not 0 <= source.input < len(plan.inputs):
            yield f"dim {dim.name} is bound by input {source.input}, which does not exist"
        elif not 0 <= source.axis < len(plan.inputs[source.input].shape):
            yield f"dim {dim.name} is bound by axis {source.axis} of input {source.input}"


def _programs(plan: Plan, dims: set[str], entries: set[str] | None) -> Iterator[str]:
    targets = [program.target for program in plan.programs]
    if not targets:
        yield "the plan has no program"
    if len(set(targets)) != len(targets):
        yield f"programs repeat a target: {targets}"
    for program in plan.programs:
        for problem in program_problems(plan, program, dims, entries):
            yield f"program {program.target}: {problem}"


def _weights(plan: Plan, entries: set[str] | None) -> Iterator[str]:
    names = [name for spec in plan.weights for name in (spec.name, *spec.aliases)]
    if len(set(names)) != len(names):
        yield f"weights repeat a name: {names}"
    for spec in plan.weights:
        if spec.dtype not in DTYPE_BYTES:
            yield f"weight {spec.name} has the unknown dtype {spec.dtype!r}"
        if spec.entry and entries is not None and spec.entry not in entries:
            yield f"weight {spec.name} is in the entry {spec.entry}, which does not exist"


def _tensor(what: str, spec: TensorSpec, dims: set[str]) -> Iterator[str]:
    if spec.dtype not in TENSOR_DTYPES:
        yield f"{what} has the unknown dtype {spec.dtype!r}"
    if len(spec.shape) != len(spec.strides):
        yield f"{what} has {len(spec.shape)} sizes but {len(spec.strides)} strides"
    for expr in (*spec.shape, *spec.strides):
        yield from expr_problems(what, expr, dims)


def _states(plan: Plan, entries: set[str] | None) -> Iterator[str]:
    names = [state.name for state in plan.states]
    if len(set(names)) != len(names):
        yield f"states repeat a name: {names}"
    for i, state in enumerate(plan.states):
        what = f"state {i} ({state.name})"
        if state.dtype not in TENSOR_DTYPES:
            yield f"{what} has the unknown dtype {state.dtype!r}"
        if any(size < 0 for size in state.shape):
            yield f"{what} has the shape {state.shape}"
        if state.entry and entries is not None and state.entry not in entries:
            yield f"{what} needs the entry {state.entry}, which does not exist"


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
        if golden.shared and len(golden.shared) != len(golden.outputs):
            yield f"golden set {i} says of some outputs only how they are compared"
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
