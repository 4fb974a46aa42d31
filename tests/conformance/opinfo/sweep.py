"""The sweep over PyTorch's OpInfo samples.

    python -m tests.conformance.opinfo.sweep --executor cpu:x86-64-v3 --workers 2

runs every sample of every operator in scope on one executor, in worker processes, and merges the
counts into benchmarks/results/opinfo_<executor>.json. `--shard 2/5`, `--ops REGEX`, `--dtypes` and
`--samples` choose a part, which is the same in every run.

    python -m tests.conformance.opinfo.sweep --executor cuda --draw 1 --count 1000 --workers 16

runs 1,000 samples that a seed chooses, one of as many operators and types, on this machine's GPU;
`--limit SECONDS` ends a run of any sort early, and what was answered by then counts.

`--reference` takes the operators' reference inputs in place of their samples; `--errors` their
error inputs, of which no package must come. Both have files of their own.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from tests.conformance.executors import EXECUTORS, GPU
from tests.conformance.opinfo.outcome import (
    CRASH,
    OK,
    REFUSED,
    WRONG,
    Outcome,
    Table,
    tabulate,
    totals,
)
from tests.conformance.opinfo.pool import Task, run_tasks
from tests.conformance.opinfo.running import BATCH
from tests.conformance.opinfo.samples import ERRORS, pairs
from tests.conformance.opinfo.scope import DTYPES

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"


def plan(
    ops: str = "", dtypes: Sequence[str] = tuple(DTYPES), samples: int = 0, shard: str = "1/1"
) -> list[Task]:
    """The tasks of a sweep.

    Args:
        ops: Regular expression that an operator's whole name matches; "" takes all.
        dtypes: Names of types.
        samples: At most so many of each operator and type, spread evenly; 0 takes all.
        shard: `i/n`: the i-th of n parts.
    """
    part, parts = (int(n) for n in shard.split("/"))
    chosen: dict[str, list[tuple[str, str]]] = {}
    for op, dtype in pairs(dtypes):
        if re.fullmatch(ops or ".*", op):
            chosen.setdefault(op, []).append((op, dtype))
    groups: list[list[tuple[str, str]]] = []
    for found in chosen.values():
        # Few samples of each: several operators share a module.
        if groups and samples and (len(groups[-1]) + len(found)) * samples <= BATCH:
            groups[-1] += found
        else:
            groups.append(list(found))
    tasks = [Task(tuple(group), samples) for group in groups]
    return tasks[part - 1 :: parts]


def drawn(
    draw: int, count: int, ops: str = "", dtypes: Sequence[str] = tuple(DTYPES), batch: int = BATCH
) -> list[Task]:
    """The tasks of a random sample: one case of each of `count` operators and types, by a seed."""
    every = [pair for pair in pairs(dtypes) if re.fullmatch(ops or ".*", pair[0])]
    chosen = random.Random(draw).sample(every, min(count, len(every)) if count else len(every))
    groups = [chosen[k : k + batch] for k in range(0, len(chosen), batch)]
    return [Task(tuple(group), 1, draw=draw) for group in groups]


def results_file(executor: str) -> Path:
    """Where an executor's table is kept."""
    return RESULTS / f"opinfo_{re.sub(r'[^a-z0-9]+', '_', executor)}.json"


def read_table(path: Path) -> Table:
    """A kept table; an empty one when there is none."""
    table: Table = json.loads(path.read_text())["operators"] if path.is_file() else {}
    return table


def write_table(path: Path, executor: str, table: Table) -> None:
    """Keeps a table: one line for each operator and type, so that differences can be read."""
    lines = []
    for op, of_op in sorted(table.items()):
        entries = ",\n".join(f"   {json.dumps(d)}: {json.dumps(e)}" for d, e in of_op.items())
        lines.append(f"  {json.dumps(op)}: {{\n{entries}}}")
    head = json.dumps({"executor": executor, "torch": torch.__version__.partition("+")[0]})
    body = ",\n".join(lines)
    path.write_text(f'{head[:-1]},\n "operators": {{\n{body}}}}}\n')


def _merged(old: Table, new: Table) -> Table:
    return {op: {**old.get(op, {}), **new.get(op, {})} for op in sorted({*old, *new})}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the sweep; 1 when a result is wrong or a process died."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--executor", default="cpu:x86-64-v3", choices=["lower", *EXECUTORS, GPU])
    parser.add_argument("--ops", default="", help="regular expression of operators' names")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--samples", type=int, default=0, help="at most so many of each; 0: all")
    parser.add_argument("--shard", default="1/1", help="i/n: the i-th of n parts")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=900.0, help="silence is a hang")
    parser.add_argument("--draw", type=int, help="a seed that chooses one sample of each pair")
    parser.add_argument(
        "--count", type=int, default=0, help="with --draw: of so many pairs; 0: all"
    )
    parser.add_argument("--batch", type=int, default=BATCH, help="with --draw: cases of a module")
    parser.add_argument("--limit", type=float, default=0.0, help="seconds until it ends; 0: never")
    parser.add_argument("--output", type=Path, help="default: benchmarks/results/opinfo_….json")
    inputs = parser.add_mutually_exclusive_group()
    inputs.add_argument("--reference", action="store_true", help="take reference inputs")
    inputs.add_argument("--errors", action="store_true", help="take error inputs; nothing runs")
    options = parser.parse_args(arguments)
    outcomes = _run(_tasks(options), options)
    _summary(tabulate(outcomes))
    return int(any(o.kind in (WRONG, CRASH) for o in outcomes))


def _tasks(options: argparse.Namespace) -> list[Task]:
    dtypes = [ERRORS] if options.errors else options.dtypes.split(",")
    if options.draw is not None:
        tasks = drawn(options.draw, options.count, options.ops, dtypes, options.batch)
    else:
        tasks = plan(options.ops, dtypes, options.samples, options.shard)
    return [replace(task, reference=options.reference) for task in tasks]


def _kept(options: argparse.Namespace) -> Path:
    name = ERRORS if options.errors else options.executor
    return results_file(f"{name} reference" if options.reference else name)


def _run(tasks: Sequence[Task], options: argparse.Namespace) -> list[Outcome]:
    path = options.output or _kept(options)
    before, outcomes, start = read_table(path), [], time.monotonic()
    running = run_tasks(tasks, options.executor, options.workers, options.seconds, options.limit)
    for done, (task, found) in enumerate(running, 1):
        outcomes += found
        seconds = time.monotonic() - start
        print(f"[{done}/{len(tasks)} {seconds:.0f} s] {task}: {len(found)}", file=sys.stderr)
        # Kept as it goes: a sweep of an hour that is ended has not been for nothing.
        table = tabulate(outcomes)
        write_table(path, options.executor, _merged(before, table))
        for outcome in (o for o in found if o.kind in (WRONG, CRASH)):
            print(f"  {outcome.kind}: {outcome.label}: {outcome.reason}", file=sys.stderr)
    return outcomes


def _summary(table: Table) -> None:
    for dtype, kinds in totals(table).items():
        counted = sum(kinds[k] for k in (OK, REFUSED, WRONG, CRASH))
        share = 100 * kinds[OK] / max(counted, 1)
        print(f"{dtype}: {share:.1f} % of {counted} samples; {dict(kinds)}")


if __name__ == "__main__":
    sys.exit(main())
