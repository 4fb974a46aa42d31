"""All families: those of named operators, and those of the tests' operator rows."""

from __future__ import annotations

from benchmarks.growth import images, indexing, networks, rows, searching, shapes
from benchmarks.growth.family import Family
from benchmarks.growth.scaled import PREFIX, scaled_family
from tests.conformance.test_rows import ROWS

FAMILIES: tuple[Family, ...] = (
    *indexing.FAMILIES,
    *networks.FAMILIES,
    *searching.FAMILIES,
    *images.FAMILIES,
    *shapes.FAMILIES,
    *rows.FAMILIES,
)


def scaled_families() -> tuple[Family, ...]:
    """A family for each operator row of the tests that can grow."""
    found = (scaled_family(row) for row in ROWS)
    return tuple(family for family in found if family is not None)


def family_named(name: str) -> Family:
    """The family of that name, in another process: a function of a table has no name to send."""
    rows = (scaled_family(row) for row in ROWS if name == f"{PREFIX}{row.name}")
    (found,) = (f for f in (*FAMILIES, *rows) if f is not None and f.name == name)
    return found
