"""Packages and times one family, in a process of its own that may hang or die."""

from __future__ import annotations

import resource
import statistics
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import aot_runtime
import torch
from torch.utils import _pytree as pytree

import aot
from aot.errors import AotError
from benchmarks.clocks import device_seconds, host_seconds
from benchmarks.growth.families import family_named
from benchmarks.growth.family import STEP, Blank, Calls, Draw, Family

ROUNDS = (3, 30)
"""Least and most calls of either side at a size, in turn."""

BATCHES = 5
"""On a GPU, calls are timed in so many batches, by events around each."""

ENOUGH = 3
"""Sizes that show a slope."""

CLOSE = 1e-3
"""Of the largest value: a difference that is worth a word."""

GIB = 1 << 30

Call = Callable[[], Any]


@dataclass(frozen=True)
class Settings:
    """How a run measures.

    Attributes:
        device: "cpu" (one thread) or "cuda".
        target: What packages are built for.
        folder: Where they lie.
        most: A family ends with the size at which a call of either side takes longer, in seconds.
        seconds: For the calls of one size, both sides together.
        memory: GiB that the process may take on the host.
    """

    device: str
    target: str
    folder: Path
    most: float
    seconds: float
    memory: float


@dataclass(frozen=True)
class Event:
    """What the process tells: `what` at size `n`.

    "eager" and "ours": the seconds of one call; "begin": another size is next; "differs": `text`
    says how the results do; "stop": `text` says why the family ends here.
    """

    what: str
    n: int
    seconds: float = 0.0
    text: str = ""


def build_family(name: str, settings: Settings) -> None:
    """Packages all sizes; one that cannot be is left to the timing, which says why.

    Building beside other families keeps all cores busy; timing wants them to itself.
    """
    torch.set_num_threads(1)
    family = family_named(name)
    for n in family.sizes(settings.device):
        if _build(family, n, settings):
            return


def serve(names: Connection, settings: Settings, sender: Connection) -> None:
    """Times the families that `names` brings, one after the other; "end" follows each one's events.

    For each, the sizes until one takes too long.
    """
    torch.set_num_threads(1)
    if settings.device == "cpu":
        limit = int(settings.memory * GIB)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    with torch.no_grad():
        while True:
            try:
                name = names.recv()
            except EOFError:
                return
            for event in _times(family_named(name), settings):
                sender.send(event)
            sender.send(Event("end", 0))
            if settings.device == "cuda":
                torch.cuda.empty_cache()


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
        return _first_line(error)
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
        slow = yield from _both(n, calls, settings)
    except (aot_runtime.AotError, RuntimeError, MemoryError) as error:
        return False, _first_line(error)
    return True, f"{slow} takes more than {settings.most:g} s" if slow else ""


def _both(n: int, calls: dict[str, Call], settings: Settings) -> Generator[Event, None, str]:
    """The events of one size; returns who was too slow for a larger one, or ""."""
    clock = device_seconds if settings.device == "cuda" else host_seconds
    results, first = {}, {}
    for who, call in calls.items():
        first[who] = clock(lambda c=call, w=who: results.update({w: c()}), 1)
        yield Event(who, n, first[who])
    text = difference(results.pop("ours"), results.pop("eager"))
    if text:
        yield Event("differs", n, text=text)
    slow = [who for who, seconds in first.items() if seconds > settings.most]
    if slow:
        return slow[-1]
    warm = {who: clock(call, 1) for who, call in calls.items()}
    for who, seconds in _in_turn(calls, warm, clock, settings).items():
        yield Event(who, n, seconds)
    return ""


def _in_turn(
    calls: dict[str, Call],
    once: dict[str, float],
    clock: Callable[[Call, int], float],
    settings: Settings,
) -> dict[str, float]:
    """Medians of calls in turn, whose seconds are about those of `once`; on a GPU, of batches."""
    least, most = ROUNDS
    rounds = int(settings.seconds / max(sum(once.values()), 1e-6))
    rounds, batch = min(max(rounds, least), most), 1
    if settings.device == "cuda":
        rounds, batch = BATCHES, min(max(rounds // BATCHES, 1), most)
    seen: dict[str, list[float]] = {who: [] for who in calls}
    for _ in range(rounds):
        for who, call in calls.items():
            seen[who].append(clock(call, batch))
    return {who: statistics.median(seconds) for who, seconds in seen.items()}


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


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"[:120]
