"""A program that grows: what its values are at both sizes, and who may use them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import torch

from tests.programs.program import FLOATS, OWN, Input, Program, uses

T = TypeVar("T")

GROWTH = 3
"""The second size of a dynamic axis is longer by this."""

LARGEST = 64.0
"""Statements whose float results are greater are left out: float16 would overflow soon."""

MOST_ELEMENTS = 4096


class Chooser(Protocol):
    """Where choices come from: a seeded generator, or hypothesis."""

    def integer(self, low: int, high: int) -> int:
        """A number in [low, high]."""


def one_of(choose: Chooser, items: Sequence[T]) -> T:
    """One of the items."""
    return items[choose.integer(0, len(items) - 1)]


@dataclass(frozen=True)
class Value:
    """One value of the program.

    Attributes:
        name: "v3".
        small: At the example's sizes.
        large: At the second size.
        exact: Eager, float64 and we must agree on every bit, so a comparison of it cannot flip.
        coarsest: The least precise float type among its ancestors and itself, "" for none.
    """

    name: str
    small: torch.Tensor
    large: torch.Tensor
    exact: bool
    coarsest: str

    @property
    def dtype(self) -> str:
        """Element type by name."""
        return str(self.small.dtype).removeprefix("torch.")

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the example."""
        return tuple(self.small.shape)

    @property
    def rank(self) -> int:
        """Number of axes."""
        return self.small.dim()

    @property
    def is_float(self) -> bool:
        """Whether it has a float type."""
        return self.dtype in FLOATS

    @property
    def is_int(self) -> bool:
        """Whether it has an integer type."""
        return self.dtype not in (*FLOATS, "bool")

    def fixed(self, axis: int) -> bool:
        """Whether the axis has the same size always."""
        return self.small.shape[axis] == self.large.shape[axis]

    def axes(self, least: int = 0, only_fixed: bool = False) -> list[int]:
        """Axes of at least so many elements."""
        return [
            k
            for k, size in enumerate(self.small.shape)
            if size >= least and (self.fixed(k) or not only_fixed)
        ]


@dataclass(frozen=True)
class Draft:
    """A statement that may be added. `exact`: its result is exact when its operands are."""

    text: str
    exact: bool = True


@dataclass
class State:
    """The values so far."""

    choose: Chooser
    inputs: list[Input] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)

    def pick(self, fits: Callable[[Value], bool] = lambda _: True) -> Value | None:
        """A value that fits, later ones more often."""
        found = [v for v in self.values if fits(v)]
        if not found:
            return None
        recent = self.choose.integer(0, 2) > 0
        return one_of(self.choose, found[-3:] if recent else found)

    def add_input(self, given: Input) -> None:
        """One more input; before any statement."""
        coarsest = given.dtype if given.dtype in FLOATS else ""
        name = f"v{len(self.values)}"
        small, large = given.tensor(), given.tensor(GROWTH)
        self.inputs.append(given)
        self.values.append(Value(name, small, large, True, coarsest))

    def add(self, draft: Draft) -> bool:
        """Adds the statement unless eager refuses it or its values grow too large."""
        operands = [v for k, v in enumerate(self.values) if uses(draft.text, k)]
        results: list[torch.Tensor] = []
        for tensors in ({v.name: v.small for v in operands}, {v.name: v.large for v in operands}):
            try:
                result: Any = eval(draft.text, {**OWN, **tensors})
            except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError):
                return False
            if not _tame(result):
                return False
            results.append(result)
        made = str(results[0].dtype).removeprefix("torch.")
        kinds = [v.coarsest for v in operands if v.coarsest]
        kinds += [made] if made in FLOATS else []
        coarsest = max(kinds, key=("float32", "float16", "bfloat16").index, default="")
        exact = draft.exact and all(v.exact for v in operands)
        name = f"v{len(self.values)}"
        self.statements.append(draft.text)
        self.values.append(Value(name, results[0], results[1], exact, coarsest))
        return True

    def program(self, outputs: Sequence[int], seed: int) -> Program:
        """What has been drawn, with these results."""
        coarsest = tuple("" if v.exact else v.coarsest for v in self.values)
        return Program(tuple(self.inputs), tuple(self.statements), tuple(outputs), coarsest, seed)


def _tame(result: Any) -> bool:
    if not isinstance(result, torch.Tensor) or str(result.dtype)[6:] not in OWN:
        return False
    if result.numel() > MOST_ELEMENTS:
        return False
    if not result.is_floating_point() or result.numel() == 0:
        return True
    return bool(result.isfinite().all()) and float(result.abs().max()) <= LARGEST
