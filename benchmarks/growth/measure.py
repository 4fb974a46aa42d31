"""Packages and times one family, in a process of its own that may hang or die."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import aot_runtime
import torch
from torch.utils import _pytree as pytree

import aot
from aot.errors import AotError
from benchmarks.clocks import BATCH_SECONDS, Call, device_seconds, host_seconds, in_turn
from benchmarks.growth.families import family_named
from benchmarks.growth.family import STEP, Blank, Draw, Family
from benchmarks.processes import Event, Settings, first_line
from tests.calls import Calls

ENOUGH = 3
"""Sizes that show a slope."""

CLOSE = 1e-3
"""Of the largest value: a difference that is worth a word."""


def build_family(name: str, settings: Settings) -> None:
    """Packages all sizes; one that cannot be is left to the timing, which says why.

    Building beside other families keeps all cores busy; timing wants them to itself.
    """
    family = family_named(name)
    for n in family.sizes(settings.device):
        if _build(family, n, settings):
            return


def times_of(name: str, settings: Settings) -> Iterator[Event]:
    """The events of a family: the sizes until one takes too long."""
    return _times(family_named(name), settings)


def _path(family: Family, n: int, settings: Settings) -> Path:
    letters = "".join(c if c.isalnum() else "_" for c in family.name)
    return settings.folder / f"{letters}.{n}.{settings.device}.pkg"


def _build(family: Family, n: int, settings: Settings) -> str:
    """Why there is no package; "" when there is."""
    path = _path(family, n, settings)
    if path.exists():
        return ""
    try:
        with torch.no_grad():
            function, *args = family.problem(n, Blank())
            aot.package(
                Calls(function), tuple(args), path=path, targets=[settings.target], golden=False
            )
    except (AotError, RuntimeError) as error:
        return first_line(error)
    return ""


def _times(family: Family, settings: Settings) -> Iterator[Event]:
    """Sizes upwards; where they soon end, downwards from the least, so that there is a slope."""
    rising = family.sizes(settings.device)
    seen = 0
    for n in rising:
        done, stop = yield from _size(family, n, settings)
        seen += done
        if stop:
            yield Event("stop", n, text=stop)
            break
    n = rising[0] // STEP
    while 0 < seen < ENOUGH and n > 0:
        done, stop = yield from _size(family, n, settings)
        seen += done
        if not done:
            yield Event("stop", n, text=stop)
            break
        n //= STEP


def _size(family: Family, n: int, settings: Settings) -> Generator[Event, None, tuple[bool, str]]:
    """The events of one size; returns whether it was timed, and why no larger one is worth it."""
    yield Event("begin", n)
    problem = _build(family, n, settings)
    if problem:
        return False, f"no package: {problem}"
    threads = 1 if settings.device == "cpu" else None
    try:
        function, *args = family.problem(n, Draw(settings.device))
        path = _path(family, n, settings)
        model = aot_runtime.load(path, settings.device, num_threads=threads)
        calls = {"eager": lambda: function(*args), "ours": lambda: model(*args)}
        truth = partial(by_one_thread, function, args) if family.last_wins else None
        slow = yield from _both(n, calls, settings, truth)
    except (aot_runtime.AotError, RuntimeError, MemoryError) as error:
        return False, first_line(error)
    return True, f"{slow} takes more than {settings.most:g} s" if slow else ""


def by_one_thread(function: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Eager's result on one thread of the CPU, on the arguments' device."""
    threads, places = torch.get_num_threads(), [a.device for a in args if torch.is_tensor(a)]
    torch.set_num_threads(1)
    try:
        result = function(*(a.cpu() if torch.is_tensor(a) else a for a in args))
    finally:
        torch.set_num_threads(threads)
    return pytree.tree_map_only(torch.Tensor, lambda t: t.to(places[0]), result)


def _both(
    n: int, calls: dict[str, Call], settings: Settings, truth: Call | None
) -> Generator[Event, None, str]:
    """The events of one size; returns who was too slow for a larger one, or "".

    truth: what ours is compared with; None: eager's result.
    """
    clock = device_seconds if settings.device == "cuda" else host_seconds
    results, first = {}, {}
    for who, call in calls.items():
        first[who] = clock(lambda c=call, w=who: results.update({w: c()}), 1)
        if first[who] > settings.most:  # a first call may compile: torch's jiterator does
            first[who] = clock(call, 1)
        yield Event(who, n, first[who])
    eager = results.pop("eager")
    text = difference(results.pop("ours"), eager if truth is None else truth())
    del eager
    if text:
        yield Event("differs", n, text=text)
    slow = [who for who, seconds in first.items() if seconds > settings.most]
    if slow:
        return slow[-1]
    batch_seconds = BATCH_SECONDS if settings.device == "cuda" else 0.0
    for who, seconds in in_turn(calls, clock, settings.seconds, batch_seconds).items():
        yield Event(who, n, seconds)
    return ""


def difference(ours: Any, eager: Any) -> str:
    """How our results differ from eager's; "" where they do not, or by roundings alone."""
    pairs = zip(_tensors(ours), _tensors(eager), strict=True)
    return next((text for text in (_differs(o, e) for o, e in pairs) if text), "")


def _tensors(nested: Any) -> Sequence[torch.Tensor]:
    return [torch.as_tensor(leaf) for leaf in pytree.tree_leaves(nested) if leaf is not None]


def _differs(ours: torch.Tensor, eager: torch.Tensor) -> str:
    if ours.shape != eager.shape:
        return f"{list(ours.shape)} instead of {list(eager.shape)}"
    if not eager.is_floating_point():
        wrong = int((ours != eager).sum())
        return f"{wrong} of {eager.numel()} differ" if wrong else ""
    finite = eager.isfinite() & ours.isfinite()
    if not torch.equal(finite, eager.isfinite() | ours.isfinite()):
        return "finite elsewhere"
    far = float((ours - eager)[finite].abs().max()) if bool(finite.any()) else 0.0
    scale = float(eager[finite].abs().max()) if bool(finite.any()) else 0.0
    return f"off by {far / scale:.1g} of the largest" if far > CLOSE * scale else ""
