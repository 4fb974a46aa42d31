"""The cases of a seed, by their places."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.shapes.attention import attention
from benchmarks.shapes.case import SCALES, Case, Numbers
from benchmarks.shapes.convolutions import convolution
from benchmarks.shapes.products import batched, linear
from benchmarks.shapes.rows import rows

FAMILIES: Mapping[str, Callable[[Numbers], Case]] = {
    "linear": linear,
    "batched": batched,
    "attention": attention,
    "convolution": convolution,
    "rows": rows,
}
CYCLE = (
    *("linear", "convolution", "attention", "rows", "batched"),
    *("linear", "convolution", "attention", "rows"),
    *("linear", "convolution"),
)
"""The families of places that follow each other: every run of so many places has all of them."""


def family_at(index: int) -> str:
    """The family of a place."""
    return CYCLE[index % len(CYCLE)]


def case_at(seed: int, index: int, device: str) -> Case:
    """The case of a place: whatever other places are asked for, always the same."""
    scale = SCALES[device]
    numbers = Numbers(f"{seed}/{index}/{device}", scale)
    draw = FAMILIES[family_at(index)]
    return next(case for case in iter(lambda: draw(numbers), None) if case.work >= scale.least)


def name_of(seed: int, index: int) -> str:
    """What a process is told to work at."""
    return f"{seed}.{index}"


def place_of(name: str) -> tuple[int, int]:
    """The seed and place of a name."""
    seed, index = name.split(".")
    return int(seed), int(index)
