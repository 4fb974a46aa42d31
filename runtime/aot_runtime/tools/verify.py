"""`verify`: does the package compute on this machine what it computed where it was made?

Checksums first, then the golden values on every instruction set level. When an output is wrong, the
steps of that level are compared with those of the lowest level that is right, and the first kernel
whose results differ is named with its model line: found from the package alone, without the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from aot_runtime.format.devices import on_host
from aot_runtime.format.errors import CorruptPackage, InputMismatch, InternalError
from aot_runtime.format.golden_sets import ALL, GoldenSet, Shared
from aot_runtime.format.pairs import in_pairs
from aot_runtime.format.plan import CallStep, Step
from aot_runtime.format.reader import PackageFile
from aot_runtime.format.steps_json import origin_of
from aot_runtime.tools.arrays import Array, golden_inputs, tensor_array
from aot_runtime.tools.loaded import (
    LoadedModel,
    default_device,
    load_model,
    step_results,
    supported_levels,
)
from aot_runtime.tools.shared import shared_part


@dataclass(frozen=True)
class Comparison:
    """One output of one golden set on one level.

    Attributes:
        isa: The level that ran, or the device with its architecture.
        golden: Number of the golden set.
        output: The output's name.
        error: Greatest absolute difference; infinity when the shapes or NaNs differ.
        allowed: Greatest difference that the tolerances allow where the error is.
        blame: The first wrong kernel and its model lines; "" when right or not found.
        shared: What is compared of the output: where several are right, what those share.
    """

    isa: str
    golden: int
    output: str
    error: float
    allowed: float
    blame: str = ""
    shared: Shared = ALL

    @property
    def ok(self) -> bool:
        """Within the tolerances."""
        return self.error <= self.allowed

    def to_json(self) -> dict[str, Any]:
        """All fields and `ok`."""
        return {
            "isa": self.isa,
            "golden": self.golden,
            "output": self.output,
            "error": self.error,
            "allowed": self.allowed,
            "ok": self.ok,
            "blame": self.blame,
            "compared": str(self.shared),
        }

    def __str__(self) -> str:
        """One line for people."""
        verdict = "ok" if self.ok else "WRONG"
        line = (
            f"{self.isa} set {self.golden} {self.output}: {verdict}, "
            f"error {self.error:.3g}, allowed {self.allowed:.3g}"
        )
        if self.shared != ALL:
            line += f" ({self.shared}: several outputs are right)"
        return f"{line}; first wrong: {self.blame}" if self.blame else line


def check_entries(package: PackageFile) -> None:
    """Compare every entry's bytes with its hash in the plan.

    Raises:
        CorruptPackage: Names the damaged entries.
    """
    damaged = [info.name for info in package.damaged()]
    if damaged:
        raise CorruptPackage(
            f"{len(damaged)} {'entry is' if len(damaged) == 1 else 'entries are'} not as written: "
            f"{', '.join(damaged)}",
            where=package.path,
        )


def compare_golden(
    package: PackageFile,
    isa: str | None = None,
    threads: int | None = None,
    device: str | None = None,
) -> list[Comparison]:
    """Run every golden set on every level that this machine has (or on `isa` alone).

    Args:
        package: An open package.
        isa: The only level to check.
        threads: Threads to run with; None: the runtime's default.
        device: "cuda", "cuda:1", …; None takes the host where the package runs there.

    Raises:
        InputMismatch: The package was built without golden values.
    """
    plan = package.plan
    if not plan.golden:
        raise InputMismatch(
            "the package has no golden values to verify",
            where=package.path,
            advice="Build it without --no-golden; a model that draws random numbers or brings "
            "Triton kernels along has none.",
        )
    place = device or default_device(plan)
    # Other devices than the host have one architecture each.
    levels = [isa] if isa or not on_host(place) else supported_levels(plan)
    results: list[Comparison] = []
    reference: LoadedModel | None = None
    for level in levels:
        model = load_model(package.path, level, threads, place)
        for index, golden in enumerate(plan.golden):
            found = _compare_set(package, model, index, golden)
            if all(comparison.ok for comparison in found):
                reference = reference or model
            elif reference is not None:
                blame = first_difference(reference, model, golden_inputs(package, index))
                found = [c if c.ok else _blamed(c, blame) for c in found]
            results += found
    return results


def _blamed(comparison: Comparison, blame: str) -> Comparison:
    return replace(comparison, blame=blame)


def _compare_set(
    package: PackageFile, model: LoadedModel, index: int, golden: GoldenSet
) -> list[Comparison]:
    model.model.reset()
    outputs = model.run(golden_inputs(package, index))
    found: list[Comparison] = []
    for k, spec in enumerate(package.plan.outputs):
        expected = tensor_array(package, golden.outputs[k], spec)
        shared = golden.shared[k] if golden.shared else ALL
        if shared.along_axis and not -expected.ndim <= shared.axis < 0:
            raise CorruptPackage(
                f"golden set {index} compares {spec.name} along axis {shared.axis}, of "
                f"{expected.ndim} dimensions",
                where=package.path,
            )
        error, allowed = shared_difference(
            outputs[k], expected, shared, golden.atol[k], golden.rtol[k]
        )
        found.append(Comparison(model.place, index, spec.name, error, allowed, shared=shared))
    return found


def shared_difference(
    actual: Array, expected: Array, shared: Shared, atol: float, rtol: float
) -> tuple[float, float]:
    """As `difference`, of what right outputs share."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return float("inf"), atol
    return difference(shared_part(actual, shared), shared_part(expected, shared), atol, rtol)


def difference(actual: Array, expected: Array, atol: float, rtol: float) -> tuple[float, float]:
    """The difference that exceeds its tolerance most, and that tolerance.

    Returns:
        (absolute difference, atol + rtol * |expected|) at the worst element. The difference is
        infinite when shapes or types differ, or NaN or infinity is not at the same places.
    """
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return float("inf"), atol
    if not expected.size:
        return 0.0, atol
    a, e = (in_pairs(x).astype(np.float64).ravel() for x in (actual, expected))
    same = (a == e) | (np.isnan(a) & np.isnan(e))
    with np.errstate(invalid="ignore"):
        gap = np.where(same, 0.0, np.abs(a - e))
        allowed = atol + rtol * np.abs(e)
    gap = np.where(np.isnan(gap), np.inf, gap)
    allowed = np.where(np.isfinite(allowed), allowed, atol)
    worst = int(np.argmax(gap - allowed))
    return float(gap[worst]), float(allowed[worst])


def first_difference(
    right: LoadedModel, wrong: LoadedModel, inputs: Sequence[Array], tolerance: float = 1e-3
) -> str:
    """The first step after which a buffer differs between two models, as text; "" if none does.

    Args:
        right: A model whose outputs are right.
        wrong: The same package on another level.
        inputs: One array for each input.
        tolerance: Relative to the buffer's greatest magnitude, above rounding differences.
    """
    expected = step_results(right, inputs)
    for key, actual in step_results(wrong, inputs).items():
        reference = expected[key]
        limit = tolerance * max(float(np.max(np.abs(reference), initial=0.0)), 1e-30)
        error, _ = difference(actual, reference, limit, 0.0)
        if error > limit:
            return step_name(wrong, key[0])
    return ""


def step_name(model: LoadedModel, step: int) -> str:
    """`kernel (file:line operator)` of a step; of a call `call ns::name (…)`.

    Raises:
        InternalError: The step neither launches a kernel nor calls an operator.
    """
    launched = model.program.steps[step]
    if isinstance(launched, CallStep):
        return f"call {launched.operator} ({origin_of(model.plan, launched)})"
    if not isinstance(launched, Step):
        raise InternalError(f"step {step} launches no kernel")
    kernel = model.program.kernels[launched.kernel]
    return f"{kernel.name} ({origin_of(model.plan, launched)})"
