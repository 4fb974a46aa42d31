"""Which cases of the sweeps a run of the tests takes."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class Part(Protocol):
    """The fixture `some`: of values one in so many, or all."""

    def __call__(self, values: Sequence[T], every: int) -> list[T]: ...


SWEEPS = {
    "tests/backends/cpp/linalg/": 16,
    "tests/backends/cpp/test_build.py": 1,
    "tests/backends/cpp/test_context.py": 12,
    "tests/backends/cpp/test_solvers.py": 12,
    "tests/backends/cpp/test_template_library.py": 6,
    "tests/backends/cpp/test_template_": 12,
    "tests/backends/cpp/tmpl/": 52,
    "tests/backends/cpp/vec/": 20,
    "tests/backends/cpp/": 4,
    "tests/backends/test_by_size.py": 4,
    "tests/backends/test_plain.py": 52,
    "tests/backends/triton/": 12,
    "tests/conformance/opinfo/": 1,
    "tests/conformance/": 32,
    "tests/examples/test_costs.py": 3,
    "tests/examples/test_gpu_code.py": 8,
    "tests/frontend/test_asked_ranges.py": 3,
    "tests/frontend/test_batches.py": 4,
    "tests/frontend/test_by_node.py": 3,
    "tests/frontend/test_composites.py": 3,
    "tests/frontend/test_decompose.py": 3,
    "tests/frontend/test_derivatives.py": 3,
    "tests/frontend/test_flexible.py": 4,
    "tests/frontend/test_image_batches.py": 4,
    "tests/frontend/test_joined.py": 4,
    "tests/frontend/test_linear_gradients.py": 3,
    "tests/frontend/test_packed.py": 4,
    "tests/frontend/test_point_gradients.py": 3,
    "tests/frontend/test_recurrent.py": 3,
    "tests/frontend/test_scaled_sizes.py": 3,
    "tests/frontend/test_short_time.py": 3,
    "tests/frontend/test_true_loops.py": 3,
    "tests/frontend/test_vision.py": 8,
    "tests/frontend/test_windows.py": 4,
    "tests/growth/test_work.py": 4,
    "tests/ir/test_verify_tensors.py": 3,
    "tests/lowering/test_lower.py": 3,
    "tests/lowering/test_random_numbers.py": 4,
    "tests/models/": 2,
    "tests/programs/test_export_db.py": 4,
    "tests/runtime/test_calls.py": 3,
    "tests/runtime/test_deadlocks.py": 3,
    "tests/shapes/": 4,
    "tests/works/": 4,
}
"""Sweeps: of the cases of each test below these paths one in so many runs, at least one, unless
`--sweeps` asks for all (`make sweeps`, `make conformance`). The first path that fits counts. What
is no sweep takes milliseconds a case, or is not the same thing at other sizes and types."""

TOGETHER = "tests/conformance/test_"
"""Tests of rows on executors: all executors of a row are taken, or none, as exporting the row
takes longer than running it on all of them."""


def sample(names: Iterable[str], seed: int) -> set[str]:
    """Those tests of the names that run; each function keeps some of its cases.

    Hashes of the names decide, so that a seed's sample is the same everywhere.
    """
    functions: dict[str, list[str]] = {}
    for name in names:
        functions.setdefault(name.partition("[")[0], []).append(name)
    kept: set[str] = set()
    for function, cases in functions.items():
        every = next((n for path, n in SWEEPS.items() if function.startswith(path)), 1)
        told = {name: _row(name) if name.startswith(TOGETHER) else name for name in cases}
        hashes = {name: zlib.crc32(f"{told[name]}{seed or ''}".encode()) for name in cases}
        chosen = [name for name in cases if hashes[name] % every == 0]
        kept.update(chosen or [min(cases, key=lambda name: hashes[name])])
    return kept


def turn(choices: Sequence[str], function: str, places: Iterable[int], seed: int) -> str:
    """The one of the choices that a case of a sweep takes in its turn.

    Cases that lie beside each other take different ones, in whatever they differ, and so do the
    cases at one place of different functions: each value of a sweep meets each choice in some.

    Args:
        choices: What every case could be run on.
        function: The test's name without its case.
        places: Of the case among the values of each parameter.
        seed: That of the run; another one takes turns otherwise.
    """
    return choices[(zlib.crc32(function.encode()) + sum(places) + seed) % len(choices)]


def part(values: Sequence[T], test: str, every: int, seed: int) -> list[T]:
    """One in so many of the values that a test takes together, at least one, in their order.

    The first is the test's own, so that tests of the same values take each of them.

    Args:
        values: What the whole test takes.
        test: Its name, with its case.
        every: How many values one stands for.
        seed: That of the run; another one takes others.
    """
    first = (zlib.crc32(test.encode()) + seed) % min(every, len(values))
    return list(values[first::every])


def _row(name: str) -> str:
    """A test's name without its executor."""
    function, _, case = name.partition("[")
    return f"{function}[{case.partition('-')[0]}"
