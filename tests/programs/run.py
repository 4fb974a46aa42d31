"""Runs random programs and keeps the result in benchmarks/results/programs.md.

python -m tests.programs.run [--loops N] [--kernels N] [--cpu N] [--triton N] [--first SEED]
Programs are packaged in groups; a group that fails is split, and what fails is printed in its
smallest form, as Python.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import aot_runtime
import torch

from aot.errors import AotError, InternalError
from tests.programs.check import RUNS, Run, network_problem, problems, smallest
from tests.programs.networks import Case, network_of
from tests.programs.program import Program
from tests.programs.strategy import program_of

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "programs.md"
GROUP = 10
HEAD = """# Random programs, compared with eager

`tests/programs` makes a program from a seed: 4 to 18 operators on tensors of sizes 0, 1, primes and
others, of seven element types, contiguous or not, a third of them with a dynamic size that is run
at two values. Floats: our greatest error at most 3 times eager's own (float64 reference); integers,
bools and what only moves values: every bit. Networks: 4 to 14 layers with weights, of one to three
spatial axes, packaged for the level of tests. `make programs` writes this file.

| run by | seeds | programs | equal | differ | refused | seconds |
|---|---|---|---|---|---|---|
"""


def outcomes(programs: Sequence[Program], run: Run) -> list[str]:
    """What is wrong with each program, "" for nothing; a group that is refused is split."""
    try:
        return problems(programs, run)
    except InternalError as error:
        if len(programs) == 1:
            return [f"internal: {error}"]
    except (AotError, aot_runtime.AotError) as error:
        if len(programs) == 1:
            return [f"refused: {error}"]
    return [line for program in programs for line in outcomes([program], run)]


def network_outcome(case: Case, run: Run) -> str:
    """The same of a network."""
    try:
        return network_problem(case, run)
    except InternalError as error:
        return f"internal: {error}"
    except (AotError, aot_runtime.AotError) as error:
        return f"refused: {error}"


def report(program: Program, problem: str, run: Run) -> str:
    """A failing program in its smallest form, with what is wrong with it."""

    def fails(candidate: Program) -> bool:
        return outcomes([candidate], run)[0][:20] == problem[:20]

    return f"seed {program.seed}: {problem}\n{smallest(program, fails)}\n"


def programs_found(name: str, seeds: range, say: Callable[[str], None]) -> Iterator[str]:
    """What is wrong with each seed's program, "" for nothing; `say` gets what fails."""
    for first in range(seeds.start, seeds.stop, GROUP):
        programs = [program_of(k) for k in range(first, min(first + GROUP, seeds.stop))]
        for program, problem in zip(programs, outcomes(programs, RUNS[name]), strict=True):
            if problem:
                say(report(program, problem, RUNS[name]))
            yield problem


def networks_found(name: str, seeds: range, say: Callable[[str], None]) -> Iterator[str]:
    """The same of each seed's network."""
    for seed in seeds:
        problem = network_outcome(network_of(seed), RUNS[name])
        if problem:
            say(f"network {seed}: {problem}\n")
        yield problem


def sweep(name: str, seeds: range, found: Iterator[str]) -> str:
    """The table's line."""
    start, counts = time.perf_counter(), {"equal": 0, "differ": 0, "refused": 0}
    for problem in found:
        refused = problem.startswith("refused")
        counts["refused" if refused else "differ" if problem else "equal"] += 1
    seconds = time.perf_counter() - start
    numbers = " | ".join(str(n) for n in counts.values())
    which = f"{seeds.start} to {seeds.stop - 1} | {len(seeds)}"
    return f"| {name} | {which} | {numbers} | {seconds:.0f} |\n"


def main() -> None:
    """Runs as many programs by each means, and networks as packages, as the options say."""
    parser = argparse.ArgumentParser()
    for name, count in {"loops": 2000, "kernels": 1000, "cpu": 500, "triton": 100}.items():
        parser.add_argument(f"--{name}", type=int, default=count)
    parser.add_argument("--networks", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    kinds = [*((name, name, programs_found) for name in RUNS), ("networks", "cpu", networks_found)]
    text = HEAD
    for kind, name, found in kinds:
        count = int(getattr(options, kind))
        if count:
            seeds = range(options.first, options.first + count)
            problems = found(name, seeds, lambda line: print(line, flush=True))
            text += sweep(kind, seeds, problems)
            RESULTS.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
