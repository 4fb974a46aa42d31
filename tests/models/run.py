"""Runs the table of architectures and keeps the result in benchmarks/results/models.md.

python -m tests.models.run [REGEX] [--seconds N]
Each model runs in a process of its own, which may die. Rows of models that the expression leaves
out stay as they are in the file.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
from collections import Counter
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from tests.models.architectures import ARCHITECTURES, Architecture
from tests.models.check import Outcome, check

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "models.md"
HEAD = """# Architectures of `transformers`: packaged for the CPU, compared with eager

Small random configurations (`tests/models/architectures.py`), level x86-64-v3, every output against
eager in float64: our greatest error at most 3 times eager's own. Models with dynamic dims run at
three sizes from one package. Seconds are those of packaging, on a busy machine. `make models`
writes this file.

"""
_COLUMNS = "| architecture | kind | dynamic | result | kernels | seconds | reason |\n"


def outcome_of(architecture: Architecture, seconds: float) -> Outcome:
    """The outcome of a process that checks one architecture."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_check, args=(architecture, sender))
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


def _check(architecture: Architecture, sender: Connection) -> None:
    torch.set_num_threads(1)
    sender.send(check(architecture))


def row_of(architecture: Architecture, outcome: Outcome) -> str:
    """The table's line."""
    dims = ", ".join(architecture.dims)
    reason = outcome.reason.replace("|", "/").replace("\n", " ")
    return (
        f"| {architecture.name} | {architecture.kind} | {dims} | {outcome.result} "
        f"| {outcome.kernels or ''} | {outcome.seconds:.0f} | {reason} |\n"
    )


def read_rows(text: str) -> dict[str, str]:
    """Architecture -> its line, of a file that was written before."""
    lines = [line for line in text.splitlines(keepends=True) if line.startswith("| ")]
    return {line.split("|")[1].strip(): line for line in lines[1:]}


def document(rows: Mapping[str, str]) -> str:
    """The whole file: counts, then the table in the order of the architectures."""
    known = [(a, rows[a.name]) for a in ARCHITECTURES if a.name in rows]
    cells = {a.name: [c.strip() for c in row.split("|")] for a, row in known}
    counts = Counter(c[4] for c in cells.values())
    both = [a for a, _ in known if len(a.dims) > 1 and cells[a.name][4] == "matches"]
    summary = ", ".join(f"{n} {what}" for what, n in counts.most_common())
    kinds = Counter(a.kind for a, _ in known if cells[a.name][4] == "matches")
    by_kind = ", ".join(f"{kind} {n}" for kind, n in kinds.items())
    return (
        f"{HEAD}{len(known)} architectures: {summary}. Matching, by kind: {by_kind}; "
        f"{len(both)} of them with dynamic batch and length.\n\n"
        f"{_COLUMNS}|---|---|---|---|---|---|---|\n" + "".join(row for _, row in known)
    )


def main() -> None:
    """Runs what matches the expression, keeping the file up to date all the while."""
    parser = argparse.ArgumentParser()
    parser.add_argument("regex", nargs="?", default=".")
    parser.add_argument("--seconds", type=float, default=600.0)
    options = parser.parse_args()
    for architecture in ARCHITECTURES:
        if re.search(options.regex, architecture.name):
            row = row_of(architecture, outcome_of(architecture, options.seconds))
            print(row, end="", flush=True)
            rows = read_rows(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
            RESULTS.write_text(document({**rows, architecture.name: row}), encoding="utf-8")


if __name__ == "__main__":
    main()
