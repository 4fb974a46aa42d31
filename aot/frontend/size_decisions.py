"""Decisions of the user's code on sizes, which a package holds to.

torch.export takes no dynamic size for 0 or 1: it answers `x.shape[0] > 1` without a word, and of
the `!=` that it does report most are its own, about layouts, on which nothing of ours depends. So
what the user's code asks is heard here, where it asks. Operators' decisions: `operator_decisions`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import torch

from aot.frontend.guards import RELATIONS
from aot.frontend.places import SourcePaths, is_users, unseen
from aot.frontend.sizes import labels_of, ranges_of
from aot.ir.tensors import Dim, SizeRelation
from aot.symbolic import Expr, Maximum, Minimum, Ranges, Symbol, dim, integer, substitute, to_text

_COMPARISONS = {
    "__eq__": "==",
    "__ne__": "!=",
    "__lt__": "<",
    "__le__": "<=",
    "__gt__": ">",
    "__ge__": ">=",
}

_OPPOSITE = dict(RELATIONS.values())


@dataclass(frozen=True)
class SizeComparison:
    """left `sign` right, of torch's expressions over sizes."""

    left: Any
    sign: str
    right: Any


@dataclass(frozen=True)
class SizeDecision:
    """What was asked of sizes, what the answer was, and where ("file:line")."""

    condition: Any
    """A `SizeComparison`, or torch's condition of several."""
    answer: bool
    place: str


@dataclass
class _Heard:
    """What is heard while a model is traced; torch's nodes stay alive, and so their ids theirs."""

    folded: dict[int, tuple[Any, SizeComparison]] = field(default_factory=dict)
    asked: list[tuple[Any, bool, str]] = field(default_factory=list)

    def compare(self, own: Callable[..., Any], sign: str) -> Callable[[Any, Any], Any]:
        """A comparison that is remembered where torch folds it: its result does not tell."""

        def compared(a: Any, b: Any) -> Any:
            result = own(a, b)
            if isinstance(result, torch.SymBool) and not result.node.expr.free_symbols:
                self.folded[id(result.node)] = result.node, SizeComparison(a, sign, b)
            return result

        return compared

    def decide(self, own: Callable[[Any], bool]) -> Callable[[Any], bool]:
        """A number or condition as a bool."""

        def decided(x: Any) -> bool:
            answer = own(x)
            code = sys._getframe(1)
            if is_users(code.f_code.co_filename):
                self.asked.append((x, answer, f"{code.f_code.co_filename}:{code.f_lineno}"))
            return answer

        return decided

    def decisions(self) -> tuple[SizeDecision, ...]:
        """All that the user's code asked, once each, in what torch knows of its symbols now."""
        found: dict[SizeDecision, None] = {}
        for x, answer, place in self.asked:
            if isinstance(x, torch.SymInt):
                condition: Any = SizeComparison(x.node.expr, "!=", 0)
            elif id(x.node) in self.folded:
                folded = self.folded[id(x.node)][1]
                condition = comparison_of(folded.left, folded.sign, folded.right)
            else:
                condition = x.node.expr
            found.setdefault(SizeDecision(condition, answer, place))
        return tuple(found)


def comparison_of(left: Any, sign: str, right: Any) -> SizeComparison:
    """A comparison of ints and torch's ints, in what torch knows of its symbols now."""
    sides = [x.node.expr if isinstance(x, torch.SymInt) else x for x in (left, right)]
    return SizeComparison(sides[0], sign, sides[1])


def above(decision: SizeDecision, symbol: Symbol, size: int) -> SizeDecision:
    """A decision on one size of which only that remains that the size is above `size`."""
    condition = decision.condition
    compares = isinstance(condition, SizeComparison)
    sides = (condition.left, condition.right) if compares else (condition,)
    found = {s for side in sides for s in getattr(side, "free_symbols", ())}
    (foreign,) = (s for s in found if str(s) == str(symbol))
    return replace(decision, condition=SizeComparison(foreign, ">", size), answer=True)


@contextmanager
def hearing() -> Iterator[Callable[[], tuple[SizeDecision, ...]]]:
    """Inside of it, decisions of the user's code on sizes are heard; the value tells them."""
    heard = _Heard()
    with ExitStack() as undo:
        for name, sign in _COMPARISONS.items():
            own = getattr(torch.SymInt, name)
            undo.enter_context(patch.object(torch.SymInt, name, heard.compare(own, sign)))
        for kind in (torch.SymInt, torch.SymBool):
            decide = heard.decide(kind.__bool__)
            undo.enter_context(patch.object(kind, "__bool__", decide))
        undo.enter_context(unseen())
        yield heard.decisions


def relations_of(
    decisions: Iterable[SizeDecision],
    translate: Callable[[Any], Expr],
    dims: Sequence[Dim],
    places: SourcePaths,
) -> tuple[SizeRelation, ...]:
    """The decisions as relations over dims; those on what is no size of an input are left out.

    Args:
        decisions: What was heard.
        translate: torch's expression in ours; raises ValueError where it has no counterpart.
        dims: The inputs' sizes, with their ranges and labels.
        places: Shortens the names of files.
    """
    reader = _Reader(translate, ranges_of(dims), labels_of(dims), places)
    found: list[SizeRelation] = []
    for decision in decisions:
        try:
            found += reader.relations(decision)
        except ValueError:
            continue  # on a number that the model computes: torch asserts those
    known = {dim(d.name) for d in dims}
    return tuple(r for r in found if r.left.free_symbols | r.right.free_symbols <= known)


@dataclass(frozen=True)
class _Reader:
    translate: Callable[[Any], Expr]
    ranges: Ranges
    labels: Mapping[Symbol, Expr]
    places: SourcePaths

    def relations(self, decision: SizeDecision) -> Iterator[SizeRelation]:
        """One decision. Raises ValueError as `translate`."""
        place = self.places.short(decision.place)
        for part in _parts(decision.condition, decision.answer):
            if isinstance(part, SizeComparison):
                left, right = self._side(part.left), self._side(part.right)
                shown = [to_text(substitute(side, self.labels)) for side in (left, right)]
                needed = f"{shown[0]} {part.sign} {shown[1]}"
                message = f"the model needs {needed}, as it decides at {place}"
                yield SizeRelation(*self._form(left, part.sign, right), message)
            else:
                condition, answer = part
                truth, wanted = self._truth(condition), integer(1 if answer else 0)
                message = f"the model needs what its example decides at {place}"
                yield SizeRelation(truth, "==", wanted, message)

    def _form(self, left: Expr, sign: str, right: Expr) -> tuple[Expr, str, Expr]:
        """A comparison by the relations that packages have: <, <=, ==."""
        if sign in (">", ">="):
            return right, sign.replace(">", "<"), left
        if sign != "!=":
            return left, sign, right
        if self.ranges.at_most(right, left):
            return right, "<", left
        if self.ranges.at_most(left, right):
            return left, "<", right
        return integer(1), "<=", Maximum(left - right, right - left)

    def _truth(self, condition: Any) -> Expr:
        """1 where a condition holds, else 0."""
        name = type(condition).__name__
        if name == "Not":
            return integer(1) - self._truth(condition.args[0])
        if name in ("And", "Or"):
            parts = [self._truth(part) for part in condition.args]
            return Minimum(*parts) if name == "And" else Maximum(*parts)
        comparison = _comparison(condition)
        if comparison is None:
            raise ValueError(f"{condition} is no condition on sizes")
        left, right = self._side(comparison.left), self._side(comparison.right)
        if comparison.sign in ("==", "!="):
            differ = Minimum(integer(1), Maximum(left - right, right - left))
            return differ if comparison.sign == "!=" else integer(1) - differ
        above = right - left if comparison.sign.startswith("<") else left - right
        least = 0 if comparison.sign.endswith("=") else 1
        return Minimum(integer(1), Maximum(integer(0), above + integer(1 - least)))

    def _side(self, side: Any) -> Expr:
        if isinstance(side, int):
            return integer(side)
        if not hasattr(side, "free_symbols"):
            raise ValueError(f"{side} is no size")
        return self.translate(side)


def _comparison(condition: Any) -> SizeComparison | None:
    """torch's condition as a comparison; None where it is none."""
    written = RELATIONS.get(type(condition).__name__)
    return SizeComparison(condition.args[0], written[0], condition.args[1]) if written else None


def _parts(condition: Any, answer: bool) -> Iterator[SizeComparison | tuple[Any, bool]]:
    """The comparisons that hold, all of them; what is no such list stays (condition, answer)."""
    comparison = condition if isinstance(condition, SizeComparison) else _comparison(condition)
    name = type(condition).__name__
    if comparison is not None:
        sign = comparison.sign if answer else _OPPOSITE[comparison.sign]
        yield SizeComparison(comparison.left, sign, comparison.right)
    elif name == "Not":
        yield from _parts(condition.args[0], not answer)
    elif name == ("And" if answer else "Or"):
        for part in condition.args:
            yield from _parts(part, answer)
    elif condition.free_symbols:
        yield condition, answer
