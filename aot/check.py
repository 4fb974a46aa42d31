"""`aot-package check`: package a model, run it beside eager, and say where it differs first.

Inputs are the model's own and random ones, at several values of every dynamic size. The measure is
eager in float64: an output may be three times as far from it as eager in the model's own types is,
and what a type's rounding allows besides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from aot_runtime.format.golden_sets import Shared
from aot_runtime.format.plan import Dim, Plan
from aot_runtime.format.reader import PackageFile
from aot_runtime.html import table
from aot_runtime.tools.arrays import random_inputs
from aot_runtime.tools.loaded import LoadedModel, load_model
from aot_runtime.tools.shared import shared_part
from aot_runtime.tools.verify import difference

from aot import driver
from aot.blame import NOT_FOUND, Blame, Stages, first_difference
from aot.errors import InputMismatch, InternalError
from aot.frontend.capture import Captured, capture_file
from aot.frontend.exact import ExactModel, eager_run, line_values
from aot.frontend.golden import Example, examples
from aot.ir.flow import Outline
from aot.ir.kernels import KernelGraph
from aot.ir.loops import LoopGraph
from aot.ir.weights import WeightStore
from aot.link.derive import DerivedStore
from aot.link.judging import judge
from aot.options import BuildOptions
from aot.report.model import BuildReport
from aot.report.observers import Keep, Observer, Several

Array = np.ndarray[Any, Any]

MARGIN = 3.0
"""How much farther from the exact result than eager an output may be."""

ROUNDING = {"float64": 1e-12, "float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2}
"""What is allowed besides, of an output's greatest magnitude; other types are exact."""

SIZES = (1, 5, 33)
"""Values of dynamic sizes that are tried, as near as the model allows; of a second size one more,
and so on, so that no two are equal."""


@dataclass(frozen=True)
class Inputs:
    """One array for each input, and what the set is called."""

    name: str
    arrays: tuple[Array, ...]


@dataclass(frozen=True)
class Checked:
    """One output for one set of inputs.

    Attributes:
        inputs: The set: "example", "extra 1", "batch=5".
        output: The output's name.
        error: Its greatest difference from the exact result; infinity when shapes or NaNs differ.
        eager: Eager's own.
        allowed: The most that it may be.
        exact: Whether the measure is float64; else it is eager in the model's own types.
    """

    inputs: str
    output: str
    error: float
    eager: float
    allowed: float
    exact: bool

    @property
    def ok(self) -> bool:
        """Whether it is near enough."""
        return self.error <= self.allowed

    def numbers(self) -> tuple[str, str, str]:
        """The three numbers for people."""
        return f"{self.error:.3g}", f"{self.eager:.3g}", f"{self.allowed:.3g}"

    def __str__(self) -> str:
        """One line for people."""
        error, eager, allowed = self.numbers()
        verdict = "ok" if self.ok else "WRONG"
        measure = "" if self.exact else " (of eager; the model does not run in float64)"
        return (
            f"{self.inputs}, {self.output}: {verdict}, error {error}, "
            f"eager's {eager}, allowed {allowed}{measure}"
        )


@dataclass(frozen=True)
class CheckReport:
    """What a check found.

    Attributes:
        build: What was packaged.
        checked: Every output for every set of inputs.
        refused: Sets of inputs that eager and the package refuse alike, with eager's reason.
        blame: Where the first difference is; `NOT_FOUND` when all is right.
    """

    build: BuildReport
    checked: tuple[Checked, ...]
    refused: tuple[str, ...]
    blame: Blame

    @property
    def wrong(self) -> tuple[Checked, ...]:
        """The outputs that are too far off."""
        return tuple(c for c in self.checked if not c.ok)

    def lines(self) -> list[str]:
        """The report for people."""
        told = [*map(str, self.checked), *(f"{r} (so does eager)" for r in self.refused)]
        return [*told, f"first difference: {self.blame}"] if self.wrong else told

    def _repr_html_(self) -> str:
        """The report for notebooks."""
        rows = [(c.inputs, c.output, "ok" if c.ok else "WRONG", *c.numbers()) for c in self.checked]
        told = f"; first difference: {self.blame}" if self.wrong else ""
        caption = f"{self.build.model}: {len(self.wrong)} of {len(rows)} outputs are wrong{told}"
        columns = ("inputs", "output", "", "error", "eager's error", "allowed")
        return table(caption, columns, rows)

    def to_json(self) -> dict[str, Any]:
        """The report for programs."""
        return {
            "model": self.build.model,
            "targets": list(self.build.targets),
            "ok": not self.wrong,
            "results": [{**asdict(c), "ok": c.ok} for c in self.checked],
            "refused": list(self.refused),
            "first_difference": asdict(self.blame) if self.wrong else None,
        }


def check(
    path: Path,
    options: BuildOptions,
    *,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
    device: str | None = None,
    observer: Observer | None = None,
    choose: driver.Choose | None = None,
    tune: driver.Tune | None = None,
) -> CheckReport:
    """Package the model of a file, and compare the package with eager.

    Args:
        path: The model file, or a saved program (`.pt2`).
        options: As for a build; `output` says where the package goes.
        sizes: Values of dynamic sizes for one more set of random inputs.
        seed: Of random inputs.
        device: Where the package runs; None: the host where it can.
        observer: Told of the build's stages.
        choose: As for `driver.build`.
        tune: As for `driver.build`.

    Raises:
        AotError: The model cannot be packaged, or the package does not run.
    """
    place = options.output
    if place is None:
        raise InternalError("a check without a place for its package")
    seen: list[Captured] = []

    def captured(called: Sequence[str]) -> Captured:
        seen.append(capture_file(path, called))
        return seen[-1]

    kept = Keep()
    observers = [kept, *([observer] if observer else [])]
    options = replace(options, golden=False)
    built = driver.build(captured, options, Several(observers), choose, tune)
    model = load_model(place, None, None, device)
    checked: list[Checked] = []
    refused: list[str] = []
    failing: list[Inputs] = []
    exact = ExactModel(seen[0])
    own = examples(seen[0])
    shared = [judged.shared for judged in judge(own[0].outputs, own[0].others)]
    for given in input_sets(own, place, sizes or {}, seed):
        found = _compare(seen[0], exact, model, given, shared)
        if isinstance(found, str):
            refused.append(found)
            continue
        checked += found
        if not all(c.ok for c in found):
            failing.append(given)
    blame = NOT_FOUND
    if failing:
        smallest = min(failing, key=lambda one: sum(a.nbytes for a in one.arrays))
        programs = driver.choose_programs(options.targets, choose)
        blame = _blame(seen[0], kept.values, programs, model, smallest)
    return CheckReport(built, tuple(checked), tuple(refused), blame)


def input_sets(
    own: Sequence[Example], package: Path, sizes: Mapping[str, int], seed: int
) -> Iterator[Inputs]:
    """The model's own inputs, and random ones of several sizes."""
    for number, example in enumerate(own):
        yield Inputs(f"extra {number}" if number else "example", example.inputs)
    with PackageFile(package) as file:
        plan = file.plan
    tried: list[Mapping[str, int]] = [sizes] if sizes else []
    tried += size_sets(plan)
    for number, chosen in enumerate(tried):
        named = ", ".join(f"{name}={size}" for name, size in chosen.items())
        arrays = random_inputs(plan, chosen, seed + number, own[0].inputs)
        yield Inputs(f"random {named}".strip(), tuple(arrays))


def size_sets(plan: Plan) -> list[dict[str, int]]:
    """Values for the dynamic sizes of inputs: small, odd, larger; one empty set without any."""
    free = [d for d in plan.dims if d.source is not None]
    made: list[dict[str, int]] = []
    for wanted in SIZES:
        values = {_name(d): _near(d, wanted + k) for k, d in enumerate(free)}
        if values not in made:
            made.append(values)
    return made


def _name(dim: Dim) -> str:
    return dim.label or dim.name


def _near(dim: Dim, wanted: int) -> int:
    size = max(wanted, dim.min)
    size += -size % dim.multiple_of
    return size if dim.max is None else min(size, dim.max - dim.max % dim.multiple_of)


def _compare(
    captured: Captured,
    exact: ExactModel,
    model: LoadedModel,
    given: Inputs,
    shared: Sequence[Shared],
) -> list[Checked] | str:
    """Every output; or why eager and the package refuse the inputs."""
    model.model.reset()
    try:
        eager = eager_run(captured, [a.copy() for a in given.arrays]).outputs
    except InputMismatch as error:
        try:
            model.run([a.copy() for a in given.arrays])
        except InputMismatch:
            return f"{given.name}: {error.message}"
        raise
    outputs = model.run([a.copy() for a in given.arrays])
    precise = exact.outputs(given.arrays)
    names = [spec.name for spec in model.plan.outputs]
    rows = zip(names, shared, outputs, eager, precise or [None] * len(names), strict=True)
    return [_checked(given.name, *row) for row in rows]


def _checked(
    inputs: str, name: str, shared: Shared, ours: Array, eager: Array, precise: Array | None
) -> Checked:
    measured = eager if precise is None else precise
    dtype = ours.dtype.name
    if ours.shape == measured.shape:
        ours, eager, measured = (shared_part(x, shared) for x in (ours, eager, measured))
    wide = np.complex128 if measured.dtype.kind == "c" else np.float64
    reference = measured.astype(wide)
    error, own = (_greatest(x.astype(wide), reference) for x in (ours, eager))
    if dtype not in ROUNDING and ours.dtype.kind in "biu":
        # Integers that floats decide (a place, a rank) are right as eager has them, too.
        error, own = min(error, _greatest(ours.astype(wide), eager.astype(wide))), 0.0
    finite = np.abs(reference[np.isfinite(reference)])
    scale = float(finite.max()) if finite.size else 0.0
    narrow = {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)
    allowed = MARGIN * own + ROUNDING.get(narrow, 0.0) * scale
    return Checked(inputs, name, error, own, allowed, precise is not None)


def _greatest(actual: Array, expected: Array) -> float:
    return difference(actual, expected, 0.0, 0.0)[0]


def _blame(
    captured: Captured,
    values: Mapping[str, Any],
    programs: Sequence[driver.Program],
    model: LoadedModel,
    given: Inputs,
) -> Blame:
    """Where the first difference is, for a model without control flow."""
    lowered: Outline[LoopGraph] = values["lower"]
    if lowered.only is None:
        return NOT_FOUND
    number = model.plan.programs.index(model.program)
    kernels: KernelGraph = values["emit"][number].graph
    own: WeightStore = values["ingest"][1]
    recipes = programs[number].backend.recipes()
    derived = DerivedStore(own, kernels.derived, kernels.buffers, recipes)
    return first_difference(
        Stages(lowered.only, kernels, own, derived),
        model,
        line_values(captured, given.arrays),
        given.arrays,
        eager_run(captured, [a.copy() for a in given.arrays]).outputs,
    )
