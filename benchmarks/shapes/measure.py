"""Packages one case, compares it with float64 and times it beside eager, in its own process."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import aot_runtime
import torch
from torch import nn
from torch.utils import _pytree as pytree

import aot
from aot.errors import AotError
from benchmarks.clocks import (
    BATCH_SECONDS,
    Call,
    device_seconds,
    in_turn,
    processor_seconds,
    rested_seconds,
)
from benchmarks.processes import Event, Settings, first_line
from benchmarks.shapes.case import Case, Tensor, convert
from benchmarks.shapes.cases import case_at, place_of
from tests.calls import Calls
from tests.comparing import ROUNDINGS, TOLERANCE, excess

HOST_BATCH_SECONDS = 0.002
"""Of a batch of calls on a CPU, which hides what a clock costs."""

AGAIN = 1.05
"""A ratio above it is measured again, and again: what else the machine does must not decide."""

TIMES = 3
"""How often at most."""


def build_case(name: str, settings: Settings) -> str:
    """Packages a case; says why one cannot be, as its timing does.

    What torch.compile makes of it is then in that one's cache, too.
    """
    problem = _build(name, settings)
    if settings.compiles:
        seed, index = place_of(name)
        module, inputs = case_at(seed, index, settings.device).build(settings.device, index)
        with torch.no_grad(), suppress(RuntimeError):
            torch.compile(module, dynamic=False)(*inputs)
    return problem


def _path(name: str, settings: Settings) -> Path:
    # A kept package of static extents is none of dynamic ones.
    dims = f".dynamic{settings.smaller}" if settings.smaller else ""
    return settings.folder / f"{name}.{settings.device}{dims}.pkg"


def _build(name: str, settings: Settings) -> str:
    """Why there is no package; "" when there is."""
    path = _path(name, settings)
    if path.exists():
        return ""
    seed, index = place_of(name)
    try:
        with torch.no_grad():
            case = case_at(seed, index, settings.device)
            module, inputs = case.build(settings.device, index)
            package_case(case, module, inputs, path, settings)
    except (AotError, RuntimeError) as error:
        return first_line(error)
    return ""


def package_case(
    case: Case,
    module: nn.Module,
    inputs: tuple[Tensor, ...],
    path: Path,
    settings: Settings,
) -> None:
    """A case's package: of static extents, or of dynamic ones seen so many times smaller."""
    shapes: Any = None
    if settings.smaller:
        inputs, dims = case.example(inputs, settings.smaller)
        shapes = (dims,) if isinstance(module, Calls) else dims  # which takes them as *args
    aot.package(
        module,
        inputs,
        path=path,
        targets=[settings.target],
        dynamic_shapes=shapes,
        golden=False,
        tune=settings.tune,
    )


def times_of(name: str, settings: Settings) -> Iterator[Event]:
    """Errors of both sides, a complaint where ours is outside the rule, then seconds of both."""
    seed, index = place_of(name)
    yield Event("begin", index)
    problem = _build(name, settings)
    if problem:
        yield Event("stop", index, text=f"no package: {problem}")
        return
    threads = settings.threads if settings.device == "cpu" else None
    try:
        module, inputs = case_at(seed, index, settings.device).build(settings.device, index)
        path = _path(name, settings)
        model = aot_runtime.load(path, settings.place, num_threads=threads)
        if not settings.keeps:
            path.unlink()  # hundreds of them, with their weights, do not fit on every disk
        calls: dict[str, Call] = {"eager": lambda: module(*inputs), "ours": lambda: model(*inputs)}
        yield from compared(index, calls, module, inputs)
        if settings.compiles:
            compiled = torch.compile(module, dynamic=False)
            calls["compile"] = lambda: compiled(*inputs)
            compiled(*inputs)
        for seconds in _timed(calls, settings):
            for who, taken in seconds.items():
                yield Event(who, index, taken)
    except (aot_runtime.AotError, RuntimeError, MemoryError) as error:
        yield Event("stop", index, text=first_line(error))


def _timed(calls: Mapping[str, Call], settings: Settings) -> Iterator[dict[str, float]]:
    """Seconds of both sides, measured again while ours takes longer.

    On a CPU those of the process's own processors, so that its neighbours' are left out; of several
    threads those that pass.
    """
    clock = processor_seconds if settings.threads == 1 else rested_seconds
    batch_seconds = HOST_BATCH_SECONDS
    if settings.device == "cuda":
        clock, batch_seconds = device_seconds, BATCH_SECONDS
    for _ in range(TIMES):
        seconds = in_turn(calls, clock, settings.seconds, batch_seconds)
        yield seconds
        if seconds["ours"] <= AGAIN * seconds["eager"]:
            return


def compared(
    index: int, calls: Mapping[str, Call], module: nn.Module, inputs: tuple[Tensor, ...]
) -> Iterator[Event]:
    """Greatest errors beside float64's magnitude, as "… error", and what is wrong, as "wrong".

    They are found where the results are: a GPU takes no time for what a host takes seconds for.
    """
    results = {who: _leaves(call()) for who, call in calls.items()}
    exact = _leaves(copy.deepcopy(module).double()(*(convert(x, torch.float64) for x in inputs)))
    wrong = ""
    for who, found in results.items():
        errors = [_error(f, x) for f, x in zip(found, exact, strict=True)]
        yield Event(f"{who} error", index, max(errors))
    for ours, eager, reference in zip(results["ours"], results["eager"], exact, strict=True):
        wrong = wrong or wrong_of(ours, eager, reference)
    if wrong:
        yield Event("wrong", index, text=wrong)


def _leaves(nested: Any) -> list[Tensor]:
    return [torch.as_tensor(leaf) for leaf in pytree.tree_leaves(nested)]


def wrong_of(ours: Tensor, eager: Tensor, exact: Tensor) -> str:
    """What `tests.comparing.complaint` says of tensors on any device: "" when nothing is wrong.

    float64 is its own reference, whose errors nobody knows: its tolerance is never too much.
    """
    if ours.shape != eager.shape or ours.dtype != eager.dtype:
        return f"{ours.dtype}{list(ours.shape)} instead of {eager.dtype}{list(eager.shape)}"
    if not eager.is_floating_point():
        different = int((ours != eager).sum())
        return f"{different} of {eager.numel()} elements differ" if different else ""
    special = ~torch.isfinite(eager)
    if special.any() and not torch.allclose(ours[special], eager[special], equal_nan=True):
        return "NaN or infinity in other places than eager"
    if not eager.numel() or special.all():
        return ""
    error, own = (_distance(found, exact, special) for found in (ours, eager))
    scale = float(exact.abs().masked_fill(special, 0.0).max())
    exactly = eager.dtype == torch.float64
    part = TOLERANCE[eager.dtype] if exactly else ROUNDINGS[str(eager.dtype).split(".")[-1]]
    return excess(error, own, scale, part * scale)


def _distance(found: Tensor, exact: Tensor, left_out: Tensor) -> float:
    """The greatest one; NaN where there is any."""
    return float((found.double() - exact).abs().masked_fill(left_out, 0.0).max())


def _error(found: Tensor, exact: Tensor) -> float:
    """The greatest distance, beside the greatest magnitude; 0 of integers."""
    if not exact.is_floating_point() or not exact.numel():
        return 0.0
    scale = float(exact.abs().max())
    return float((found.double() - exact).abs().max()) / (scale or 1.0)
