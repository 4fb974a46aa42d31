"""`compare`: what differs between two packages: contract, sizes, kernels, weights, outputs, times.

The data alone is compared first. Packages that take and give the same are then run on the same
inputs, in turn, so that what else the machine does meets both.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np

from aot_runtime.format.pairs import in_pairs
from aot_runtime.format.plan import Plan, Program, Step
from aot_runtime.format.reader import PackageFile
from aot_runtime.tools.arrays import Array
from aot_runtime.tools.inspect import code_nbytes, group_sizes, tensor_text
from aot_runtime.tools.loaded import LoadedModel
from aot_runtime.tools.units import format_bytes, format_seconds
from aot_runtime.tools.verify import difference

WARM_UP_RUNS = 3

SHOWN = 20
"""Lines of the model, or weights, that the text names; JSON has them all."""


@dataclass(frozen=True)
class Counts:
    """How many, or how many bytes, of one kind there are in both packages."""

    name: str
    first: int
    second: int


@dataclass(frozen=True)
class ProgramDifference:
    """What two programs for one target consist of.

    Attributes:
        target: "cpu", "cuda:sm_90".
        code: Bytes of machine code.
        counts: Kernels, steps, buffers.
        lines: Lines of the model that have another number of kernels.
    """

    target: str
    code: Counts
    counts: tuple[Counts, ...]
    lines: tuple[Counts, ...]


@dataclass(frozen=True)
class OutputDifference:
    """The greatest absolute difference of an output, and the first package's greatest magnitude."""

    output: str
    error: float
    scale: float


@dataclass(frozen=True)
class Times:
    """Medians of a run in seconds, and where each ran."""

    first: float
    second: float
    places: tuple[str, str]
    runs: int

    @property
    def ratio(self) -> float:
        """The second package's time over the first one's."""
        return self.second / self.first


@dataclass(frozen=True)
class Compared:
    """All that `compare` found.

    Attributes:
        bytes: Of the files.
        groups: Bytes of each group of entries.
        contract: Inputs, outputs and dims of one package alone: "- …" of the first, "+ …" of the
            second; empty when they are the same.
        programs: Of the targets that both have.
        targets: Those of one package alone, marked as in `contract`.
        weights: Weights of one package alone ("- …", "+ …") or with other bytes ("! …").
        outputs: Of a run on the same inputs; None when nothing was run.
        times: None when nothing was run.
    """

    bytes: Counts
    groups: tuple[Counts, ...]
    contract: tuple[str, ...]
    programs: tuple[ProgramDifference, ...]
    targets: tuple[str, ...]
    weights: tuple[str, ...]
    outputs: tuple[OutputDifference, ...] | None = None
    times: Times | None = None

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)


def compare_files(first: PackageFile, second: PackageFile) -> Compared:
    """What two open packages' data tells; nothing is run.

    Raises:
        CorruptPackage: One of them is damaged where it is read.
    """
    programs = {program.target: program for program in second.plan.programs}
    pairs = [(p, programs[p.target]) for p in first.plan.programs if p.target in programs]
    return Compared(
        bytes=Counts("file", first.nbytes, second.nbytes),
        groups=_both(group_sizes(first), group_sizes(second)),
        contract=_one_sided(_contract(first.plan), _contract(second.plan)),
        programs=tuple(
            _compare_programs((first, program), (second, other)) for program, other in pairs
        ),
        targets=_one_sided([p.target for p in first.plan.programs], list(programs)),
        weights=_compare_weights(_weight_digests(first), _weight_digests(second)),
    )


def compare_runs(
    first: LoadedModel, second: LoadedModel, inputs: Sequence[Any], runs: int
) -> tuple[tuple[OutputDifference, ...], Times]:
    """Outputs and times of two models with one contract.

    Args:
        first: The reference of the differences.
        second: What is compared with it.
        inputs: One array for each input.
        runs: Timed runs of each, in turn.

    Raises:
        AotError: A run fails.
    """
    outputs = []
    for model in (first, second):
        model.model.reset()
        outputs.append(model.run(inputs))
    found = tuple(
        _compare_outputs(spec.name, a, b)
        for spec, a, b in zip(first.plan.outputs, *outputs, strict=True)
    )
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(WARM_UP_RUNS + runs):
        for model, spent in zip((first, second), seconds, strict=True):
            model.model.reset()  # a cache that fills up would end the runs
            start = time.perf_counter()
            model.run(inputs)
            spent.append(time.perf_counter() - start)
    medians = [median(spent[WARM_UP_RUNS:]) for spent in seconds]
    return found, Times(medians[0], medians[1], (first.place, second.place), runs)


def text(compared: Compared) -> str:
    """The differences for people; what is the same has no line."""
    return "\n".join(_lines(compared)) + "\n"


def _both(first: Mapping[str, int], second: Mapping[str, int]) -> tuple[Counts, ...]:
    return tuple(Counts(n, first.get(n, 0), second.get(n, 0)) for n in {**first, **second})


def _contract(plan: Plan) -> list[str]:
    labels = {dim.name: dim.label for dim in plan.dims}
    inputs = [f"input {s.name}: {tensor_text(s, labels)}" for s in plan.inputs]
    outputs = [f"output {s.name}: {tensor_text(s, labels)}" for s in plan.outputs]
    dims = [
        f"dim {d.label}: {d.min} to {'any' if d.max is None else d.max}"
        + (f", a multiple of {d.multiple_of}" if d.multiple_of != 1 else "")
        for d in plan.dims
        if d.source is not None
    ]
    return [*inputs, *outputs, *dims]


def _one_sided(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    """What one of them has alone; where they have the same in another order, all of it."""
    if list(first) == list(second):
        return ()
    gone = [f"- {name}" for name in first if name not in second]
    new = [f"+ {name}" for name in second if name not in first]
    return tuple(gone + new) or (*(f"- {n}" for n in first), *(f"+ {n}" for n in second))


def _weight_digests(package: PackageFile) -> dict[str, str]:
    if package.manifest is not None:
        known = {name: digest.sha256 for name, digest in package.manifest.digests().items()}
    else:
        known = dict(package.plan.entries)
    return {n: d for n, d in known.items() if n.startswith(("weights/", "packed/"))}


def _compare_weights(first: Mapping[str, str], second: Mapping[str, str]) -> tuple[str, ...]:
    gone = [f"- {name}" for name in first if name not in second]
    new = [f"+ {name}" for name in second if name not in first]
    changed = [f"! {n}" for n, digest in first.items() if second.get(n, digest) != digest]
    return (*gone, *new, *changed)


def _compare_programs(
    first: tuple[PackageFile, Program], second: tuple[PackageFile, Program]
) -> ProgramDifference:
    (one, program), (two, other) = first, second
    sides = (program, other)
    counts = {
        "kernels": [len(p.kernels) for p in sides],
        "steps": [len(p.steps) for p in sides],
        "buffers": [len(p.buffers) for p in sides],
    }
    lines = _both(_kernels_of_lines(one.plan, program), _kernels_of_lines(two.plan, other))
    return ProgramDifference(
        program.target,
        Counts("code", code_nbytes(one, program), code_nbytes(two, other)),
        tuple(Counts(name, *pair) for name, pair in counts.items()),
        tuple(line for line in lines if line.first != line.second),
    )


def _kernels_of_lines(plan: Plan, program: Program) -> dict[str, int]:
    launched = {(s.kernel, s.origin) for s in program.steps if isinstance(s, Step)}
    return Counter(str(plan.origins[origin]) for _, origin in sorted(launched))


def _compare_outputs(name: str, first: Array, second: Array) -> OutputDifference:
    error, _ = difference(np.asarray(second), np.asarray(first), 0.0, 0.0)
    values = np.abs(in_pairs(np.asarray(first)).astype(np.float64))
    return OutputDifference(name, error, float(np.max(values, initial=0.0, where=values < np.inf)))


def _lines(compared: Compared) -> Iterator[str]:
    yield f"file       {_bytes_text(compared.bytes)}"
    for group in compared.groups:
        if group.first != group.second:
            yield f"  {group.name:<11}{_bytes_text(group)}"
    yield f"contract   {'differs' if compared.contract else 'the same'}"
    yield from (f"  {line}" for line in compared.contract)
    for program in compared.programs:
        yield f"{program.target:<11}code {_bytes_text(program.code)}"
        yield "  " + ", ".join(f"{c.name} {_count_text(c)}" for c in program.counts)
        rows = [f"{c.first} -> {c.second} kernels: {c.name}" for c in program.lines]
        yield from (f"  {row}" for row in _shortened(rows))
    if compared.targets:
        yield f"targets    {', '.join(compared.targets)}"
    yield f"weights    {'differ' if compared.weights else 'the same'}"
    yield from (f"  {row}" for row in _shortened(compared.weights))
    if compared.outputs is not None:
        yield "outputs"
        yield from (f"  {_output_text(output)}" for output in compared.outputs)
    if compared.times is not None:
        times = compared.times
        yield (
            f"time       {format_seconds(times.first)} -> {format_seconds(times.second)}: "
            f"{times.ratio:.3g} times ({' -> '.join(dict.fromkeys(times.places))}, "
            f"medians of {times.runs} runs in turn)"
        )


def _bytes_text(counts: Counts) -> str:
    if counts.first == counts.second:
        return format_bytes(counts.first)
    return f"{format_bytes(counts.first)} -> {format_bytes(counts.second)}"


def _count_text(counts: Counts) -> str:
    same = counts.first == counts.second
    return str(counts.first) if same else f"{counts.first} -> {counts.second}"


def _output_text(output: OutputDifference) -> str:
    if output.error == 0.0:
        return f"{output.output}: equal"
    return f"{output.output}: differs by {output.error:.3g}, greatest magnitude {output.scale:.3g}"


def _shortened(rows: Sequence[str]) -> Sequence[str]:
    if len(rows) <= SHOWN:
        return rows
    return [*rows[:SHOWN], f"and {len(rows) - SHOWN} more"]
