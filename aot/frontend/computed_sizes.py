"""Sizes that a model computes from open ones, where they are 0 or 1.

torch takes no dynamic size for 0 or 1, be it an input's or one that is computed: of 2 frames, after
a stride of 2, there is 1, and the model would hold for 2 frames alone. So what was 0 or 1 in the
example is traced at a larger one. And torch concludes from "this is not 1" that an image is at
least so wide, though nothing that it traced depends on it: such conclusions are left out. What the
user's code itself asks of sizes is heard elsewhere (`size_decisions`), and stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from torch.fx.experimental.symbolic_shapes import ShapeEnv

from aot.frontend.open_dims import TRACED

_DOUBLINGS = 10
"""Sizes up to the example's times 2 to this are tried."""

_LARGE = 64
"""Sizes of at least this are tried: what is computed of what is computed may be small as well."""


@dataclass
class SmallSizes:
    """Those that were 0 or 1: torch's expressions, with the example's sizes that they are of."""

    _found: dict[Any, Mapping[Any, int]] = field(default_factory=dict)

    def add(self, size: Any, hints: Mapping[Any, Any]) -> None:
        """One more; nothing where it is of anything but inputs' sizes, or is a remainder."""
        known = {s: int(hints[s]) for s in size.free_symbols if s in hints}
        if known and len(known) == len(size.free_symbols) and not _has_remainder(size):
            self._found.setdefault(size, known)

    def larger(self) -> Mapping[int, int]:
        """The example's sizes -> those at which none of what was heard is 0 or 1.

        Sizes of which no such ones are found are left out.
        """
        found: dict[int, int] = {}
        for size, known in self._found.items():
            for doubling in range(1, _DOUBLINGS + 1):
                values = {symbol: n << doubling for symbol, n in known.items()}
                if min(values.values()) >= _LARGE and int(size.subs(values)) >= TRACED:
                    for symbol, n in values.items():
                        found[known[symbol]] = max(n, found.get(known[symbol], 0))
                    break
        return found


def _has_remainder(size: Any) -> bool:
    return any("Mod" in type(part).__name__ for part in _parts(size))


def _parts(size: Any) -> Iterator[Any]:
    yield size
    for part in size.args:
        yield from _parts(part)


def _compared(condition: Any) -> tuple[Any, int] | None:
    """The computed size that is compared with 0 or 1, and that number; None for another question.

    A size of an input, which is a symbol, is none of them.
    """
    if type(condition).__name__ not in ("Equality", "Unequality"):
        return None
    left, right = condition.args
    size, number = (right, left) if left.is_Integer else (left, right)
    if not number.is_Integer or int(number) not in (0, 1) or size.is_Symbol:
        return None
    return size, int(number)


@contextmanager
def computed_sizes() -> Iterator[SmallSizes]:
    """Inside of it, computed sizes that are 0 or 1 are heard, and bound no input that are not 1."""
    heard, asking = SmallSizes(), [False]
    evaluate: Callable[..., Any] = ShapeEnv.evaluate_expr
    refine: Callable[..., None] = ShapeEnv._refine_ranges

    def evaluated(env: Any, condition: Any, *args: Any, **kwargs: Any) -> Any:
        found = _compared(condition)
        if found is None:
            return evaluate(env, condition, *args, **kwargs)
        # Whether there is nothing is another matter: operators ask so before they read.
        before, asking[0] = asking[0], found[1] == 1
        try:
            answer = evaluate(env, condition, *args, **kwargs)
        finally:
            asking[0] = before
        if bool(answer) == (type(condition).__name__ == "Equality"):
            heard.add(found[0], env.backed_var_to_val)
        return answer

    def refined(env: Any, condition: Any) -> None:
        if not (asking[0] and type(condition).__name__ == "Unequality"):
            refine(env, condition)

    with (
        patch.object(ShapeEnv, "evaluate_expr", evaluated),
        patch.object(ShapeEnv, "_refine_ranges", refined),
    ):
        yield heard
