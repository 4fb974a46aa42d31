"""The tuning database: block sizes of templates that were the fastest when somebody measured.

A measurement answers for problems of about its size: sizes are compared by their logarithms. Where
nothing near was measured, the template's own heuristic decides.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from aot.errors import PackageReadError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Config = Mapping[str, int]
"""Names of a template's choices to their values: {"rows": 128, "warps": 8}."""

KEPT_IN = Path(__file__).with_name("tuning.json")
"""The measurements that come with the compiler."""

Candidates = Callable[[], Sequence[Config]]
"""What a template can be measured with, the likeliest first; only who measures asks for them."""

_NEAR = 1.0
"""A measurement counts for sizes within this many doublings, over all sizes together."""


@dataclass(frozen=True)
class Problem:
    """What a template has to compute.

    Attributes:
        template: Kind of the template, such as "matmul".
        sizes: What decides between configurations, in the template's own order.
        dtype: Of the operands.
    """

    template: str
    sizes: tuple[int, ...]
    dtype: str

    def distance(self, other: Problem) -> float:
        """Doublings between the sizes of two problems; infinite for other templates or dtypes."""
        if (self.template, self.dtype, len(self.sizes)) != (
            other.template,
            other.dtype,
            len(other.sizes),
        ):
            return math.inf
        pairs = zip(self.sizes, other.sizes, strict=True)
        return sum(abs(math.log2(max(a, 1) / max(b, 1))) for a, b in pairs)


class Chooser(Protocol):
    """Decides between the configurations of a template."""

    def choose(self, problem: Problem, arch: str, candidates: Candidates) -> Config | None:
        """The configuration to use; None leaves the choice to the template's heuristic."""


@dataclass(frozen=True)
class Measurement:
    """The fastest configuration for a problem on an architecture, and its microseconds."""

    problem: Problem
    arch: str
    config: tuple[tuple[str, int], ...]
    microseconds: float


@dataclass(frozen=True)
class Database:
    """Measurements, one winner for each problem and architecture."""

    measurements: tuple[Measurement, ...] = ()

    def choose(self, problem: Problem, arch: str, candidates: Candidates) -> Config | None:
        """What won the nearest problem on the architecture; None where nothing near was measured.

        A configuration of other names than the candidates' is of another version, and is ignored.
        """
        near = [
            (distance, m)
            for m in self.measurements
            if m.arch == arch
            for distance in [problem.distance(m.problem)]
            if distance <= _NEAR
        ]
        names = {frozenset(candidate) for candidate in candidates()} if near else set()
        near = [(d, m) for d, m in near if frozenset(dict(m.config)) in names]
        if not near:
            return None
        return dict(min(near, key=lambda found: (found[0], found[1].problem.sizes))[1].config)

    def adding(self, measurements: Iterable[Measurement]) -> Database:
        """With more measurements, which replace those of the same problem and architecture."""
        known = {(m.arch, m.problem): m for m in self.measurements}
        known.update({(m.arch, m.problem): m for m in measurements})
        return Database(tuple(sorted(known.values(), key=_order)))

    def text(self) -> str:
        """The database as JSON, a measurement a line; `read_database` reads it."""
        rows = ",\n".join(json.dumps(_record(m)) for m in self.measurements)
        return f"[\n{rows}\n]\n" if rows else "[]\n"


NOTHING = Database()
"""Leaves every choice to the heuristics."""


@cache
def default_database() -> Database:
    """The measurements that come with the compiler."""
    return read_database(KEPT_IN)


def read_database(path: Path) -> Database:
    """The database in a file; an empty one when there is no file.

    Raises:
        PackageReadError: The file is no tuning database.
    """
    if not path.exists():
        return NOTHING
    try:
        records = json.loads(path.read_text(encoding="utf-8"))
        return NOTHING.adding(_measurement(record) for record in records)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PackageReadError(
            f"the tuning database cannot be read: {error!r}",
            where=path,
            advice="Restore the file, or delete it and tune again.",
        ) from error


def _order(m: Measurement) -> tuple[object, ...]:
    return (m.arch, m.problem.template, m.problem.dtype, m.problem.sizes)


def _record(m: Measurement) -> dict[str, Any]:
    return {
        "arch": m.arch,
        "template": m.problem.template,
        "dtype": m.problem.dtype,
        "sizes": list(m.problem.sizes),
        "config": dict(m.config),
        "microseconds": round(m.microseconds, 2),
    }


def _measurement(record: Mapping[str, Any]) -> Measurement:
    sizes = tuple(int(n) for n in record["sizes"])
    config = tuple((str(name), int(value)) for name, value in record["config"].items())
    problem = Problem(str(record["template"]), sizes, str(record["dtype"]))
    return Measurement(problem, str(record["arch"]), config, float(record["microseconds"]))


def as_config(tile: DataclassInstance) -> dict[str, int]:
    """A tile, whose fields are numbers and flags, as the database keeps it."""
    return {name: int(value) for name, value in asdict(tile).items()}
