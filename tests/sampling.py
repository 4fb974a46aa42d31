"""Which cases of the sweeps a run of the tests takes."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence

SWEEPS = {
    "tests/backends/cpp/linalg/": 8,
    "tests/backends/cpp/test_context.py": 6,
    "tests/backends/cpp/test_conv_product.py": 4,
    "tests/backends/cpp/test_fetching.py": 4,
    "tests/backends/cpp/test_solvers.py": 6,
    "tests/backends/cpp/test_template_": 6,
    "tests/backends/cpp/test_turning.py": 4,
    "tests/backends/cpp/test_values.py": 4,
    "tests/backends/cpp/tmpl/": 52,
    "tests/backends/cpp/vec/": 10,
    "tests/backends/test_plain.py": 52,
    "tests/backends/triton/": 6,
    "tests/conformance/opinfo/": 1,
    "tests/conformance/": 16,
    "tests/examples/test_gpu_code.py": 8,
    "tests/frontend/test_flexible.py": 4,
    "tests/frontend/test_joined.py": 4,
    "tests/frontend/test_packed.py": 4,
    "tests/frontend/test_vision.py": 4,
    "tests/lowering/test_random_numbers.py": 4,
}
"""Sweeps: of the cases of each test below these paths one in so many runs, at least one, unless
`--sweeps` asks for all (`make sweeps`, `make conformance`)."""

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


def _row(name: str) -> str:
    """A test's name without its executor."""
    function, _, case = name.partition("[")
    return f"{function}[{case.partition('-')[0]}"
