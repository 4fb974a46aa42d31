"""Single calls beside eager, packaged and timed in processes of their own: one row each.

What a run of such rows needs: a module with `problem(name)`, and `build` and `times` made of it.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import wait as wait_for
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import aot_runtime
import torch

import aot
from aot.errors import AotError
from benchmarks.clocks import BATCH_SECONDS, Call, device_seconds, in_turn, processor_seconds
from benchmarks.processes import (
    Build,
    Event,
    Settings,
    Timer,
    Times,
    build_all,
    own_target,
    package_all,
)
from benchmarks.processes import first_line as line_of
from tests.calls import Calls

Page = Callable[[Path, str, str], str]

RESULTS = Path(__file__).parent / "results"
TITLES = {"cpu": "CPU, one thread, time of the processor", "cuda": "GPU"}


@dataclass(frozen=True)
class Problem:
    """A call.

    Attributes:
        name: Of its row.
        function: What is packaged.
        draw: Its arguments on a device.
        peers: What else is called with them, by name; None: eager alone.
    """

    name: str
    function: Callable[..., Any]
    draw: Callable[[str], tuple[torch.Tensor, ...]]
    peers: Callable[[tuple[torch.Tensor, ...]], Mapping[str, Call]] | None = None

    def calls(self, args: tuple[torch.Tensor, ...]) -> Mapping[str, Call]:
        """The other sides of ours."""
        return self.peers(args) if self.peers else {"eager": lambda: self.function(*args)}


@dataclass
class Timed:
    """One row: seconds of either side, or why there are none."""

    name: str
    notes: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        """Adds what the process tells."""
        if event.what == "stop":
            self.notes.append(event.text)
        elif event.seconds:
            self.seconds[event.what] = event.seconds

    @property
    def ratio(self) -> float | None:
        """Of ours to eager's."""
        both = self.seconds.get("ours"), self.seconds.get("eager")
        return both[0] / both[1] if both[0] and both[1] else None


def path_of(name: str, settings: Settings) -> Path:
    """Of a row's package."""
    letters = "".join(c if c.isalnum() else "_" for c in name)
    return settings.folder / f"{letters}.{settings.device}.pkg"


def build(problem: Problem, settings: Settings) -> str:
    """Packages it; why there is no package, or "".  Arguments are the CPU's."""
    path = path_of(problem.name, settings)
    if path.exists():
        return ""
    try:
        with torch.no_grad():
            module, args = Calls(problem.function), problem.draw("cpu")
            aot.package(module, args, path=path, targets=[settings.target], golden=False)
    except (AotError, RuntimeError) as error:
        return line_of(error)
    return ""


def times(problem: Problem, settings: Settings) -> Iterator[Event]:
    """The events of a row: seconds of all sides, called in turn."""
    yield Event("begin", 0)
    why = build(problem, settings)
    if why:
        yield Event("stop", 0, text=f"no package: {why}")
        return
    on_gpu = settings.device == "cuda"
    try:
        args = problem.draw(settings.device)
        threads = None if on_gpu else 1
        model = aot_runtime.load(
            path_of(problem.name, settings), settings.place, num_threads=threads
        )
        calls: dict[str, Call] = {"ours": lambda: model(*args), **problem.calls(args)}
        clock = device_seconds if on_gpu else processor_seconds
        for call in calls.values():
            call()
        once = {who: clock(call, 1) for who, call in calls.items()}
        if max(once.values()) > settings.most:  # one call has to do
            yield from (Event(who, 0, seconds) for who, seconds in once.items())
            return
        batch = BATCH_SECONDS / 4 if on_gpu else BATCH_SECONDS / 2
        for who, seconds in in_turn(calls, clock, settings.seconds, batch).items():
            yield Event(who, 0, seconds)
    except (aot_runtime.AotError, RuntimeError, MemoryError) as error:
        yield Event("stop", 0, text=line_of(error))


def run(
    options: argparse.Namespace,
    name: str,
    about: str,
    names: Sequence[str],
    build_row: Build,
    times_row: Times,
    page: Page | None = None,
    *,
    quiet: bool = False,
) -> None:
    """Times the chosen rows, keeping the results' file and page up to date all the while.

    Args:
        options: Of the command line (`bounded_options`).
        name: Of the results: benchmarks/results/`name`_<device>.json, and the page `name`.md.
        about: How the page begins.
        names: The rows.
        build_row: Packages the row of a name.
        times_row: Times it.
        page: The text of the page: of the folder, the name and `about`.
        quiet: Nothing is timed before everything is packaged.
    """
    out: Path = options.json or RESULTS / f"{name}_{options.device}.json"
    rows = read_rows(out)
    goes = _goes(options)
    with tempfile.TemporaryDirectory() as temporary:
        target = options.target or own_target(options.device)
        settings = Settings(
            options.device,
            target,
            goes.folder or Path(temporary),
            options.most_seconds,
            options.seconds,
            options.memory,
        )
        if goes.package_only:
            package_all(names, build_row, settings, options.jobs)
            return
        names = _chosen(names, goes, rows, settings)
        built = build_all(names, build_row, settings, options.jobs)
        if quiet:
            wait_for(built.values())
        begin = time.monotonic()
        with Timer(times_row, settings) as timer:
            for each in names:
                built[each].result()
                if time.monotonic() - begin > goes.within:
                    break
                row = rows[each] = Timed(each)
                timer.tell(each, row)
                ratio = f"{row.ratio:8.2f} of eager" if row.ratio else "; ".join(row.notes)
                print(
                    f"{each:36s} {1e6 * row.seconds.get('ours', 0.0):12.1f} us {ratio}", flush=True
                )
                _write(out, options.note, rows)
    if options.json is None or names:
        (out.parent / f"{name}.md").write_text(
            (page or page_of)(out.parent, name, about), encoding="utf-8"
        )


@dataclass(frozen=True)
class _Goes:
    """How a run is one of several (`staged_options`); as it is here, it is the only one."""

    folder: Path | None = None
    package_only: bool = False
    missing: bool = False
    within: float = math.inf


def _chosen(
    names: Sequence[str], goes: _Goes, rows: Mapping[str, Timed], settings: Settings
) -> Sequence[str]:
    """The rows that this go is to time."""
    if goes.missing:
        names = [each for each in names if each not in rows or rows[each].ratio is None]
    if goes.folder is not None:
        names = [each for each in names if path_of(each, settings).exists()]
    return names


def _goes(options: argparse.Namespace) -> _Goes:
    if not hasattr(options, "folder"):
        return _Goes()
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
    return _Goes(options.folder, options.package_only, options.missing, options.within)


def read_rows(path: Path) -> dict[str, Timed]:
    """The rows of a results' file, by name; none where there is no file."""
    found = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
    return {row["name"]: Timed(**row) for row in found}


def _write(path: Path, note: str, rows: Mapping[str, Timed]) -> None:
    about = f"{note or platform.node()}; torch {torch.__version__}"
    found = {"about": about, "rows": [asdict(row) for row in rows.values()]}
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def page_of(folder: Path, name: str, about: str) -> str:
    """What the folder has of each device, in Markdown."""
    lines = [about]
    for device, title in TITLES.items():
        path = folder / f"{name}_{device}.json"
        rows = read_rows(path)
        if not rows:
            continue
        said = json.loads(path.read_text(encoding="utf-8"))["about"]
        ratios = [row.ratio for row in rows.values() if row.ratio]
        mean = math.exp(statistics.fmean(map(math.log, ratios))) if ratios else math.nan
        lines += [f"## {title}\n", f"{said}. Geometric mean of ours / eager: {mean:.2f}.\n"]
        lines += ["| row | ours, us | eager, us | ours / eager |", "|---|---|---|---|"]
        for row in rows.values():
            if row.ratio is None:
                lines.append(f"| {row.name} | | | {'; '.join(row.notes)} |")
                continue
            ours, eager = (1e6 * row.seconds[who] for who in ("ours", "eager"))
            lines.append(f"| {row.name} | {ours:.1f} | {eager:.1f} | {row.ratio:.2f} |")
        lines.append("")
    return "\n".join(lines)
