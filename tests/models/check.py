"""One architecture: make it, package it, run the package, compare with eager."""

from __future__ import annotations

import copy
import importlib
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import aot_runtime
import torch
from torch.utils import _pytree as pytree

import aot
from aot.errors import AotError
from aot.options import parse_target
from tests.comparing import complaint
from tests.examples.accuracy import arrays_of, default_double, widen
from tests.models.architecture import Architecture
from tests.models.inputs import Inputs
from tests.rounding import reordered
from tests.settings import level, seeded

CPU = f"cpu:{level()}"
"""The target of this run; by default one that every machine has."""


@dataclass(frozen=True)
class Outcome:
    """How it went: `matches`, or `differs`, `refused`, `crashed` with a reason in one line."""

    result: str
    reason: str = ""
    kernels: int = 0
    seconds: float = 0.0


def model_of(architecture: Architecture) -> torch.nn.Module:
    """The model with random weights; none of them keeps its neutral initial value."""
    torch.manual_seed(seeded())
    model = architecture.build().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return model


def in_float64(model: torch.nn.Module) -> torch.nn.Module:
    """A copy that computes in float64, for which torch's product of groups has no kernel."""
    wide = copy.deepcopy(model).double()
    if getattr(wide, "_can_set_experts_implementation", lambda: False)():
        wide.set_experts_implementation("batched_mm")
    return wide


def exact_convolutions() -> AbstractContextManager[None]:
    """Eager and what is packaged meanwhile do not round float32 to TF32 in convolutions."""
    flags: AbstractContextManager[None] = torch.backends.cudnn.flags(enabled=True, allow_tf32=False)
    return flags


def keeping_cache(architecture: Architecture, model: torch.nn.Module) -> torch.nn.Module:
    """The model with its cache in buffers, where it has one."""
    if not architecture.cache:
        return model
    model.generation_config.use_cache = True
    model.generation_config.cache_implementation = "static"
    executorch = importlib.import_module("transformers.integrations.executorch")
    exportable = executorch.TorchExportableModuleWithStaticCache
    return exportable(model, batch_size=1, max_cache_len=architecture.cache).eval()


def inputs_of(architecture: Architecture) -> list[Inputs]:
    """The example's inputs, then those of more sizes."""
    generator = torch.Generator().manual_seed(seeded(1))
    return [architecture.inputs(b, n, generator) for b, n in architecture.runs]


def dynamic_shapes(architecture: Architecture, inputs: Inputs) -> dict[str, Any]:
    """As torch.export takes them: the dims by name, nothing for the other inputs."""
    dims = {name: torch.export.Dim(name) for name in architecture.dims}
    chosen: Mapping[str, Mapping[int, str]] = architecture.dynamic
    return {
        name: {axis: dims[d] for axis, d in chosen.get(name, {}).items()} or None for name in inputs
    }


def check(architecture: Architecture, target: str = CPU) -> Outcome:
    """Packages for a target, runs on its device and compares, at every size."""
    start = time.perf_counter()
    base, sets = model_of(architecture), inputs_of(architecture)
    precise = keeping_cache(architecture, in_float64(base))
    model = keeping_cache(architecture, base)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pkg"
        try:
            with exact_convolutions():
                report = aot.package(
                    model,
                    kwargs=sets[0],
                    path=path,
                    targets=[target],
                    dynamic_shapes=dynamic_shapes(architecture, sets[0]),
                    golden=False,
                )
        except AotError as error:
            return Outcome("refused", _line(error), seconds=time.perf_counter() - start)
        seconds = time.perf_counter() - start
        device = parse_target(target).device
        # A cache holds its buffers twice, and only one of the two would move.
        eager = model if architecture.cache else model.to(device)
        packaged = aot_runtime.load(path, device)
        try:
            reason = differences(packaged, eager, precise, sets, stateful=bool(architecture.cache))
        except aot_runtime.errors.ShapeMismatch as error:
            return Outcome("refused", f"when it runs: {error}", seconds=seconds)
    kernels = len(report.programs[0].kernels)
    return Outcome("differs" if reason else "matches", reason, kernels, seconds)


def differences(
    packaged: aot_runtime.Model,
    model: torch.nn.Module,
    precise: torch.nn.Module,
    sets: Sequence[Inputs],
    stateful: bool = False,
) -> str:
    """The first output that is wrong, and at which sizes; "" when all are right.

    `model`: on the device that the package runs on, which decides eager's own error. `precise`: the
    model in float64, on the host. `stateful`: both change with each run.
    """
    device = next(model.parameters()).device
    for inputs in sets:
        wide = {name: widen(tensor) for name, tensor in inputs.items()}
        with torch.no_grad(), exact_convolutions():
            eager = model(**{name: tensor.to(device) for name, tensor in inputs.items()})
            with default_double():
                exact = precise(**wide)
        triples = zip(
            *(arrays_of(_on_host(r)) for r in (packaged(**inputs), eager, exact)), strict=True
        )

        def again(wide: Inputs = wide) -> list[torch.Tensor]:
            with default_double():
                leaves = _on_host(precise(**wide))
                return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

        for position, (ours, own, reference) in enumerate(triples):
            # A cache is another one after each run.
            slack = None if stateful else partial(_moved, again, position, own.dtype.name)
            problem = complaint(ours, own, reference, slack=slack)
            if problem:
                shapes = ", ".join(str(tuple(t.shape)) for t in inputs.values())
                return f"output {position} at {shapes}: {problem}"
    return ""


def _moved(again: Callable[[], list[torch.Tensor]], position: int, dtype: str) -> float:
    """How far an output moves, at most, when every sum is off by a rounding of its terms."""
    part = float(torch.finfo(getattr(torch, dtype)).eps) / 2
    return float(reordered(again, part)[position].max())


def _on_host(outputs: Any) -> Any:
    """Outputs on the host, without the containers, which are transformers' own in eager."""
    leaves = pytree.tree_leaves(outputs)
    return [leaf.cpu() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]


def _line(error: AotError) -> str:
    """An error in one line: its message, and torch's first words where it quotes torch."""
    details = error.details.strip().splitlines()
    return " | ".join([error.message, *details[:2]])[:400]
