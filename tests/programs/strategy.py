"""Random programs: from a seed, or from hypothesis, which shrinks what fails."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies

from tests.programs.program import DTYPES, FLOATS, Input, Program, uses
from tests.programs.state import Chooser, Draft, State, one_of
from tests.programs.statements import DRAWERS

SIZES = (2, 3, 4, 5, 7, 8, 13, 1, 16, 0)
LEAST_STATEMENTS, MOST_STATEMENTS = 4, 18
_KINDS = [drawer for drawer, weight in DRAWERS.items() for _ in range(weight)]


@dataclass
class Seeded:
    """Choices of a seeded generator."""

    source: random.Random

    def integer(self, low: int, high: int) -> int:
        """A number in [low, high]."""
        return self.source.randint(low, high)


@dataclass
class Drawn:
    """Choices of hypothesis."""

    draw: Any

    def integer(self, low: int, high: int) -> int:
        """A number in [low, high]."""
        return int(self.draw(strategies.integers(low, high)))


def program_of(seed: int) -> Program:
    """The program of a seed; the same in every run and on every machine."""
    return generate(Seeded(random.Random(seed)), seed)


@strategies.composite
def programs(draw: Any) -> Program:
    """Programs as a hypothesis strategy."""
    return generate(Drawn(draw))


def generate(choose: Chooser, seed: int = -1) -> Program:
    """Draws inputs, statements, and which values are returned."""
    state = State(choose)
    _draw_inputs(state)
    for _ in range(choose.integer(LEAST_STATEMENTS, MOST_STATEMENTS)):
        draft = one_of(choose, _KINDS)(state)
        if draft is not None:
            state.add(draft)
    if not state.statements:
        state.add(Draft(f"{state.values[0].name}.reshape(-1)[:1]"))
    first = len(state.inputs)
    made = range(first, len(state.values))
    unused = [k for k in made if not any(uses(text, k) for text in state.statements)]
    extra = [one_of(choose, made)] if choose.integer(0, 1) else []
    return state.program(dict.fromkeys([*unused, *extra]), seed)


def _draw_inputs(state: State) -> None:
    """Inputs that share sizes, so that they broadcast and multiply; sometimes a dynamic one."""
    choose = state.choose
    pool = [one_of(choose, SIZES) for _ in range(3)]
    varies = choose.integer(0, 2) == 0
    dynamic = pool[0] = 6 if varies else pool[0]
    for seed in range(choose.integer(1, 4)):
        rank = one_of(choose, (2, 2, 3, 3, 1, 4, 0))
        shape = tuple(
            one_of(choose, [*pool, *pool, 1]) if choose.integer(0, 4) else 1 for _ in range(rank)
        )
        dtype = one_of(choose, (*FLOATS, "float32", "float32", *DTYPES))
        layouts = ["contiguous", "contiguous"]
        layouts += ["padded"] if rank > 0 else []
        layouts += ["transposed"] if rank > 1 else []
        layouts += ["channels_last"] if rank == 4 else []
        axes = [k for k, size in enumerate(shape) if varies and size == dynamic]
        axis = axes[0] if axes else None
        state.add_input(Input(shape, dtype, one_of(choose, layouts), seed, axis))
