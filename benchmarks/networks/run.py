"""Packages random networks and times each beside eager, in turn, on one thread.

    make networks ARGS='--first 1000 --count 100'

The networks are those of tests/programs, their batch made longer until eager takes a while: small
ones would show what a call costs. A seed whose ratio is above 1.05 is timed again. What is slower
than eager is a choice of the compiler that is wrong, of its layouts, loops or templates.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import aot_runtime
import torch

import aot
from aot.errors import AotError
from benchmarks.clocks import in_turn, processor_seconds
from benchmarks.processes import first_line, own_target
from tests.programs.networks import network_of

AGAIN, TIMES = 1.05, 3
"""A ratio above it is measured again, so often at most: what else runs must not decide."""

BATCH_SECONDS = 0.002
"""Of a batch of calls, which hides what a clock costs."""


@dataclass(frozen=True)
class Row:
    """A network's times.

    Attributes:
        seed: Of the network.
        batch: Of its input.
        dtype: Of its elements.
        layers: How many it has.
        ours, eager: Seconds of a call, medians; 0 where it was refused.
        problem: Why there are none.
    """

    seed: int
    batch: int
    dtype: str
    layers: int
    ours: float = 0.0
    eager: float = 0.0
    problem: str = ""

    @property
    def ratio(self) -> float:
        """Ours over eager's; 0 where it was refused."""
        return self.ours / self.eager if self.eager else 0.0

    def __str__(self) -> str:
        """For people."""
        head = f"{self.seed}: batch {self.batch}, {self.dtype}, {self.layers} layers"
        if self.problem:
            return f"{head}: {self.problem}"
        times = f"{self.ours * 1e6:.0f} us, eager {self.eager * 1e6:.0f} us"
        return f"{head}: {self.ratio:.2f} ({times})"


def main() -> None:
    """Times the networks of some seeds, and prints and keeps what was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--least", type=float, default=300e-6, help="seconds that eager takes")
    parser.add_argument("--seconds", type=float, default=0.3, help="of calls of one network")
    parser.add_argument("--json", type=Path, help="where the rows are kept")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rows = []
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        for row in _rows(options, Path(folder)):
            print(row, flush=True)
            rows.append(row)
    ratios = [row.ratio for row in rows if row.ratio]
    if ratios:
        slow = sum(ratio > 1 for ratio in ratios)
        print(
            f"{len(ratios)} networks: geometric mean {statistics.geometric_mean(ratios):.2f}, "
            f"{slow} slower than eager, {len(rows) - len(ratios)} refused"
        )
    if options.json:
        text = json.dumps([asdict(row) for row in rows], indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")


def _rows(options: argparse.Namespace, folder: Path) -> Iterator[Row]:
    for seed in range(options.first, options.first + options.count):
        case = network_of(seed)
        example = _longer(case.network, case.example, options.least)
        layers, dtype = len(case.network.layers), str(example.dtype).removeprefix("torch.")
        row = Row(seed, len(example), dtype, layers)
        path = folder / f"{seed}.pkg"
        try:
            aot.package(
                case.network, (example,), path=path, targets=[own_target("cpu")], golden=False
            )
        except (AotError, RuntimeError) as error:
            yield replace(row, problem=first_line(error))
            continue
        yield _timed(row, case.network, example, path, options.seconds)
        path.unlink()


def _longer(network: torch.nn.Module, example: torch.Tensor, least: float) -> torch.Tensor:
    """The example, its batch repeated until eager takes at least that many seconds."""
    while True:
        call = partial(network, example)
        call()
        taken = min(processor_seconds(call, 1) for _ in range(3))
        if taken >= least or len(example) >= 256:
            return example
        layout = torch.channels_last if _is_channels_last(example) else torch.contiguous_format
        example = torch.cat([example, example]).contiguous(memory_format=layout)


def _is_channels_last(x: torch.Tensor) -> bool:
    return x.dim() == 4 and not x.is_contiguous()


def _timed(
    row: Row, network: torch.nn.Module, example: torch.Tensor, path: Path, seconds: float
) -> Row:
    model = aot_runtime.load(path, num_threads=1)
    model(example)
    calls = {"ours": lambda: model(example), "eager": lambda: network(example)}
    best = row
    for _ in range(TIMES):
        found = in_turn(calls, processor_seconds, seconds, BATCH_SECONDS)
        timed = replace(row, ours=found["ours"], eager=found["eager"])
        if not best.ratio or timed.ratio < best.ratio:
            best = timed
        if best.ratio <= AGAIN:
            break
    return best


if __name__ == "__main__":
    main()
