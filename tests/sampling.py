"""Which functions and which cases of the sweeps a run of the tests takes."""

from __future__ import annotations

import hashlib
import math
import re
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from tests.costs import COSTS
from tests.levels import LOWEST, OWN

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
    "tests/conformance/": 64,
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
    "tests/models/": 4,
    "tests/programs/test_export_db.py": 4,
    "tests/runtime/test_calls.py": 3,
    "tests/runtime/test_deadlocks.py": 3,
    "tests/shapes/": 4,
    "tests/works/": 12,
}
"""Sweeps: of the cases of each test below these paths one in so many runs, at least one, unless
`--sweeps` asks for all (`make sweeps`, `make conformance`). The first path that fits counts. What
is no sweep takes milliseconds a case, or is not the same thing at other sizes and types."""

FAMILIES = (
    "tests/backends/cpp/",
    "tests/backends/triton/",
    "tests/frontend/",
)
"""Below these paths the functions of a file check one thing with other operators, shapes and types.
Of those that `COSTS` has, as they are dear, a part runs (`_some_functions`)."""

CONTRACTS = re.compile(
    "(?:^|_)(?:error|fail|hostile|house|mistake|raise|refus|reject|thread|told|trust|unknown|wrong)"
)
"""Words in the names of functions that are never left out: what users are told and promised."""

FEW = 1.0
"""Processor seconds of a case above which a function of a family runs a case in `OF_FEW`."""

OF_FEW = 8

AT_ONE_LEVEL = "tests/backends/cpp/vec/"
"""Files whose cases all need a library for each level, which takes ten seconds to compile: they run
at one level in turn."""

LEAST = 3
"""Of a file's functions one in so many runs at least, and so of the dear ones among them."""

TOGETHER = "tests/conformance/test_"
"""Tests of rows on executors: all executors of a row are taken, or none, as exporting the row
takes longer than running it on all of them."""


def sample(
    names: Iterable[str],
    seed: int,
    asked: Collection[str] = (),
    costs: Mapping[str, Mapping[str, float]] = COSTS,
) -> set[str]:
    """Those tests of the names that run; each function that runs keeps some of its cases.

    Hashes of the names decide, so that a seed's sample is the same everywhere.

    Args:
        names: Of all tests that were found.
        seed: That of the run; another one takes others.
        asked: Files that were asked for by name, all of whose functions run.
        costs: The dear functions of each file, and their processor seconds.
    """
    functions: dict[str, list[str]] = {}
    for name in names:
        functions.setdefault(name.partition("[")[0], []).append(name)
    files: dict[str, list[str]] = {}
    for function in functions:
        files.setdefault(function.partition("::")[0], []).append(function)
    kept: set[str] = set()
    for file, own in files.items():
        known = costs.get(file, {})
        sampled = family(file) and file not in asked
        for function in _some_functions(own, known, seed) if sampled else own:
            chosen = _some_cases(function, functions[function], seed)
            few = sampled and known.get(function.partition("::")[2], 0) > FEW
            kept.update(chosen[::OF_FEW] if few else chosen)
    return kept


def family(file: str) -> str:
    """The path of a test's family; "" where it is of none."""
    return next((path for path in FAMILIES if file.startswith(path)), "")


def _some_functions(functions: Sequence[str], costs: Mapping[str, float], seed: int) -> set[str]:
    """The functions of a file that run: all cheap ones, and of the dear ones one in `LEAST`.

    More of these where that is not one in `LEAST` of all, or not two. Each dear one is of some
    seed's run, one of half the cost four times as often.
    """

    def place(function: str) -> float:
        # Not `crc32`: what it makes of names that differ in a letter differs alike for every seed.
        digest = hashlib.sha256(f"{function} {seed}".encode()).digest()
        share = (int.from_bytes(digest[:6], "big") + 1) / (1 << 48)
        return -math.log(share) * costs[function.partition("::")[2]] ** 2

    names = {function: function.partition("::")[2] for function in functions}
    dear = [x for x, name in names.items() if name in costs and not CONTRACTS.search(name)]
    wanted = max(math.ceil(len(names) / LEAST), min(len(names), 2)) - (len(names) - len(dear))
    return set(names).difference(
        sorted(dear, key=place)[max(wanted, math.ceil(len(dear) / LEAST)) :]
    )


def _some_cases(function: str, cases: Sequence[str], seed: int) -> list[str]:
    """The cases of a function that run: of a sweep one in so many, at least one."""
    every = next((n for path, n in SWEEPS.items() if function.startswith(path)), 1)
    if function.startswith(AT_ONE_LEVEL):
        level = turn((LOWEST, OWN), function.partition("::")[0], (), seed)
        cases = [name for name in cases if level in name] or cases
    told = {name: _row(name) if name.startswith(TOGETHER) else name for name in cases}
    hashes = {name: zlib.crc32(f"{told[name]}{seed or ''}".encode()) for name in cases}
    chosen = [name for name in cases if hashes[name] % every == 0]
    return chosen or [min(cases, key=lambda name: hashes[name])]


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
