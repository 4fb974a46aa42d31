"""Runs the table of architectures and keeps the result in benchmarks/results/models.md.

python -m tests.models.run [REGEX] [--minutes N] [--seconds N] [--target cuda:sm_90] [--jobs N]
[--results FILE]
Each model runs in a process of its own, which may die: for CPUs a fork of one that has imported
everything.
Those whose rows are oldest run first, as far as the minutes go; rows of models that do not run stay
as they are in the file, as does what stands below the table.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from aot.options import parse_target
from tests.models.architecture import Architecture
from tests.models.architectures import ARCHITECTURES
from tests.models.check import CPU, Outcome, check

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "models.md"
HEAD = """# Architectures of four libraries: packaged for {target}, compared with eager

Small random configurations (`tests/models/architectures.py`) in the default settings of their
libraries, attention and experts included. Every output against eager in float64: our greatest
error at most 3 times that of eager in the model's dtype on the same device. Models with dynamic
dims run at three sizes from one package. Seconds are those of packaging, on a busy machine; the day
is that of the run. `make models` writes this file.

"""
_COLUMNS = "| architecture | kind | dynamic | result | kernels | seconds | day | reason |\n"
_DAY = 7
"""The cell of the day, where the first is empty."""


def start_method(target: str) -> str:
    """How processes begin: drivers of devices answer none that is a fork of one that has asked."""
    on_host = parse_target(target).device == parse_target(CPU).device
    return "forkserver" if on_host else "spawn"


def outcome_of(architecture: Architecture, seconds: float, target: str) -> Outcome:
    """The outcome of a process that checks one architecture."""
    context = multiprocessing.get_context(start_method(target))
    if context.get_start_method() == "forkserver":
        context.set_forkserver_preload(["tests.models.warm"])
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_check, args=(architecture.key, target, sender))
    process.start()
    sender.close()
    outcome = Outcome("unfinished", f"no answer within {seconds:.0f} s", seconds=seconds)
    if receiver.poll(seconds):
        try:
            outcome = receiver.recv()
        except EOFError:
            process.join()
            outcome = Outcome("crashed", f"exit status {process.exitcode}")
    process.kill()
    process.join()
    return outcome


def _check(key: str, target: str, sender: Connection) -> None:
    torch.set_num_threads(1)
    (architecture,) = (a for a in ARCHITECTURES if a.key == key)
    sender.send(check(architecture, target))


def row_of(architecture: Architecture, outcome: Outcome) -> str:
    """The table's line."""
    dims = ", ".join(architecture.dims)
    reason = outcome.reason.replace("|", "/").replace("\n", " ")
    return (
        f"| {architecture.key} | {architecture.kind} | {dims} | {outcome.result} "
        f"| {outcome.kernels or ''} | {outcome.seconds:.0f} | {datetime.now(UTC).date()} "
        f"| {reason} |\n"
    )


def read_rows(text: str) -> dict[str, str]:
    """Architecture -> its line, of a file that was written before."""
    lines = [line for line in text.splitlines(keepends=True) if line.startswith("| ")]
    return {line.split("|")[1].strip(): line for line in lines[1:]}


def oldest_first(
    architectures: Sequence[Architecture], rows: Mapping[str, str]
) -> list[Architecture]:
    """Those without a row, then those whose rows are of the earliest days."""
    return sorted(architectures, key=lambda a: _cells(rows[a.key])[_DAY] if a.key in rows else "")


def _cells(row: str) -> list[str]:
    return [c.strip() for c in row.split("|")]


def notes(text: str) -> str:
    """What stands below the table of a file that was written before."""
    return "".join(text.partition("\n## ")[1:])


def document(rows: Mapping[str, str], target: str = CPU, below: str = "") -> str:
    """The whole file: counts, the table in the order of the architectures, what stands below it."""
    known = [(a, rows[a.key]) for a in ARCHITECTURES if a.key in rows]
    cells = {a.key: _cells(row) for a, row in known}
    counts = Counter(c[4] for c in cells.values())
    matching = [a for a, _ in known if cells[a.key][4] == "matches"]
    both = [a for a in matching if len(a.dims) > 1]
    summary = ", ".join(f"{n} {what}" for what, n in counts.most_common())
    total = Counter(a.library for a, _ in known)
    right = Counter(a.library for a in matching)
    by_library = ", ".join(f"{name} {right[name]} of {n}" for name, n in total.items())
    kinds = Counter(a.kind for a in matching)
    by_kind = ", ".join(f"{kind} {n}" for kind, n in kinds.items())
    return (
        f"{HEAD.format(target=target)}{len(known)} architectures: {summary}. "
        f"Matching, by library: {by_library}; by kind: {by_kind}; {len(both)} of them with "
        "dynamic batch and length.\n\n"
        f"{_COLUMNS}|---|---|---|---|---|---|---|---|\n{''.join(row for _, row in known)}{below}"
    )


def main() -> None:
    """Runs what matches the expression, keeping the file up to date all the while."""
    parser = argparse.ArgumentParser()
    parser.add_argument("regex", nargs="?", default=".")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--target", default=CPU)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    results: Path = options.results
    until = time.monotonic() + 60 * options.minutes
    chosen = [a for a in ARCHITECTURES if re.search(options.regex, a.key)]

    def outcome(architecture: Architecture) -> Outcome | None:
        if time.monotonic() > until:
            return None
        return outcome_of(architecture, options.seconds, options.target)

    with ThreadPoolExecutor(options.jobs) as pool:
        ordered = oldest_first(chosen, read_rows(_text(results)))
        running = {pool.submit(outcome, a): a for a in ordered}
        for done in as_completed(running):
            found = done.result()
            if found is not None:
                _keep(results, running[done], found, options.target)


def _text(results: Path) -> str:
    return results.read_text(encoding="utf-8") if results.exists() else ""


def _keep(results: Path, architecture: Architecture, outcome: Outcome, target: str) -> None:
    row, before = row_of(architecture, outcome), _text(results)
    print(row, end="", flush=True)
    rows = {**read_rows(before), architecture.key: row}
    results.write_text(document(rows, target, notes(before)), encoding="utf-8")


if __name__ == "__main__":
    main()
