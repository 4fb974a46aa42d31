"""Runs cases on an executor, many in one module: exporting and compiling cost more than running."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch
from aot_runtime import InvalidArgument, ShapeMismatch

from aot.errors import AotError, InternalError, ToolchainError, UnsupportedOperators
from aot.frontend.capture import Captured, capture_module
from aot.frontend.golden import examples
from aot.frontend.ingest import ingest
from aot.ir.tensors import GraphOp, TensorGraph, Tree, reads_of
from aot.lowering.lower import lower_outline
from aot.lowering.outline import outline
from tests.conformance.executors import Executor
from tests.conformance.opinfo.expected import Expected, compare, expected
from tests.conformance.opinfo.outcome import CRASH, OK, OUT, REFUSED, WRONG, Outcome
from tests.conformance.opinfo.samples import ERRORS, AllCases, Case
from tests.conformance.opinfo.scope import other_overflow

BATCH = 64
"""Cases in one module."""

KEPT = 32
"""Modules, whole batches and parts of them, that are exported once for several executors."""


def run_cases(chosen: Sequence[Case], executor: Executor | None) -> Iterator[Outcome]:
    """The outcome of each case; without an executor, as far as the lowering."""
    wanted: dict[Case, Expected] = {}
    for case in chosen:
        if case.dtype == ERRORS:
            yield outcome(case, *_of_refused(case))
            continue
        try:
            found = expected(case)
        except Exception as error:  # samples that look beyond a view's own elements
            yield outcome(case, OUT, f"eager fails on a copy of the arguments: {first_line(error)}")
            continue
        foreign = found.foreign or other_overflow(case.op, case.tensors, found.eager)
        if foreign:
            yield outcome(case, OUT, foreign)
        else:
            wanted[case] = found
    rest = list(wanted)
    for start in range(0, len(rest), BATCH):
        yield from _run_batch(rest[start : start + BATCH], wanted, executor)


def _of_refused(case: Case) -> tuple[str, str]:
    """What became of a call that eager refuses: it must be refused by an error for users.

    What tracing lets pass is refused when eager computes the package's reference outputs.
    """
    try:
        with torch.no_grad():
            case.call(t.clone() for t in case.tensors)
    except Exception as error:  # of any class: operators and Python's own checks raise
        eager = first_line(error)
    else:
        return OUT, "eager takes it"
    try:
        captured = capture_module(AllCases([case]), _inputs([case]))
        lower_outline(outline(ingest(captured)[0]))
        examples(captured)
    except AotError as error:
        return (CRASH, str(error)) if isinstance(error, InternalError) else (OK, "")
    except Exception as error:  # none that is for users
        return CRASH, f"{type(error).__name__}: {error}"[:500]
    return WRONG, f"it is packaged; eager: {eager}"


def outcome(case: Case, kind: str, reason: str = "") -> Outcome:
    """The outcome of a case; the case is described where that helps."""
    label = str(case) if kind in (WRONG, CRASH) else ""
    return Outcome(case.op, case.dtype, case.number, kind, reason, label)


def first_line(error: BaseException) -> str:
    """The beginning of what an error says."""
    return str(error).strip().partition("\n")[0][:120]


def _run_batch(
    batch: Sequence[Case], wanted: Mapping[Case, Expected], executor: Executor | None
) -> Iterator[Outcome]:
    traced = _traced(tuple(batch))
    try:
        if traced.error is not None:
            raise traced.error
        graph = traced.graph
        refused = _refused(graph, batch, wanted)
        if not refused and executor is not None:
            outcomes = _compared(graph, batch, wanted, executor(traced.captured, _inputs(batch)))
    except Exception as error:  # whatever is raised is the outcome of one of these cases
        yield from _parts(batch, traced.blamed, wanted, executor, error)
        return
    for case, reason in refused.items():
        yield outcome(case, REFUSED, reason)
    if refused or executor is None:
        rest = [case for case in batch if case not in refused]
        if executor is None:
            yield from (outcome(case, OK) for case in rest)
        elif rest:
            yield from _run_batch(rest, wanted, executor)
        return
    yield from outcomes


@dataclass(frozen=True)
class _Traced:
    """A batch as a model; or the error that it gives, and the case that ran last."""

    captured: Captured | None = None
    graph: TensorGraph | None = None
    error: Exception | None = None
    blamed: Case | None = None


@lru_cache(maxsize=KEPT)
def _traced(batch: tuple[Case, ...]) -> _Traced:
    module = AllCases(batch)
    try:
        captured = capture_module(module, _inputs(batch))
        return _Traced(captured, ingest(captured)[0], blamed=module.current)
    except Exception as error:  # whatever is raised is the outcome of one of these cases
        return _Traced(error=error, blamed=module.current)


def _inputs(batch: Sequence[Case]) -> tuple[torch.Tensor, ...]:
    """Samples share tensors, and some operators write into them: each case has its own memory."""
    return tuple(t for case in batch for t in deepcopy(case.tensors))


def _parts(
    batch: Sequence[Case],
    blamed: Case | None,
    wanted: Mapping[Case, Expected],
    executor: Executor | None,
    error: Exception,
) -> Iterator[Outcome]:
    """A batch that raised: the case to blame and the rest, or two halves.

    A single case's error is its outcome.
    """
    if len(batch) > 1:
        middle = len(batch) // 2
        parts = [batch[:middle], batch[middle:]]
        if blamed is not None:
            parts = [[case for case in batch if case is not blamed], [blamed]]
        for part in parts:
            yield from _run_batch(part, wanted, executor)
    elif isinstance(error, AotError) and not isinstance(error, (InternalError, ToolchainError)):
        yield outcome(batch[0], REFUSED, reason_of(error))
    elif isinstance(error, (InvalidArgument, ShapeMismatch)):
        yield outcome(batch[0], REFUSED, f"at run: {first_line(error)}")
    else:
        yield outcome(batch[0], CRASH, f"{type(error).__name__}: {error}"[:500])


def reason_of(error: AotError) -> str:
    """An error in one line: the operators that are missing and why, or the message."""
    if isinstance(error, UnsupportedOperators):
        first = error.missing[0]
        return first.operator + (f": {first.reason}" if first.reason else "")
    said = error.details.splitlines()[0] if error.details else ""
    return f"{error.code}: {error.message}" + (f": {said}" if said else "")


def _refused(
    graph: TensorGraph, batch: Sequence[Case], wanted: Mapping[Case, Expected]
) -> dict[Case, str]:
    """Which cases the lowering refuses, with reasons: each is lowered alone when together fails."""
    try:
        lower_outline(outline(graph))
        return {}
    except UnsupportedOperators as error:
        if len(batch) == 1:
            return {batch[0]: reason_of(error)}
    found: dict[Case, str] = {}
    for case, results in _results(graph, batch, wanted):
        outputs = tuple(graph.outputs[tree.value] for tree in results if tree.kind == "leaf")
        try:
            lower_outline(outline(_restricted(graph, outputs)))
        except UnsupportedOperators as error:
            found[case] = reason_of(error)
    return found


def _results(
    graph: TensorGraph, batch: Sequence[Case], wanted: Mapping[Case, Expected]
) -> Iterator[tuple[Case, list[Tree]]]:
    """Each case with its results; those of a kind "constant" were known when it was traced."""
    leaves = iter(graph.signature.result.children)
    for case in batch:
        yield case, [next(leaves) for _ in wanted[case].eager]


def _restricted(graph: TensorGraph, outputs: tuple[str, ...]) -> TensorGraph:
    """The part of a graph that some outputs need."""
    needed = set(outputs)
    ops: list[GraphOp] = []
    for op in reversed(graph.ops):
        if needed.intersection(o for o in op.outputs if o):
            needed.update(reads_of(op))
            ops.append(op)
    return replace(graph, outputs=outputs, ops=tuple(reversed(ops)))


def _compared(
    graph: TensorGraph,
    batch: Sequence[Case],
    wanted: Mapping[Case, Expected],
    arrays: Sequence[np.ndarray],
) -> list[Outcome]:
    outcomes = []
    for case, results in _results(graph, batch, wanted):
        actual = [
            arrays[tree.value] if tree.kind == "leaf" else np.asarray(tree.value)
            for tree in results
        ]
        problem = compare(case, actual, wanted[case])
        outcomes.append(outcome(case, WRONG if problem else OK, problem))
    return outcomes
