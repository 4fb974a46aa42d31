"""torch's conditions on sizes that are not arithmetic of whole numbers, as in `n * 0.5 > 10`.

They have no form that the runtime checks. So sizes are tried: the model holds for those around the
example's for which the condition is what it is there.
"""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType

import torch

from aot.frontend.scaled_sizes import TRIED
from aot.ir.tensors import Dim, SizeRelation
from aot.symbolic import Expr, Symbol, dim, integer, substitute, to_text

_MOST = 1 << 31
"""Of sizes without a bound, those up to this one are tried."""

_GROWTH = 1.02
"""From one size that is tried to the next, where they are not tried one by one."""

_QUOTIENT = "compare whole numbers there, as in 2 * h > 3 * w for h / w > 1.5"
_FACTOR = "where an operator takes the number as a factor, give it the size that it makes"
"""What to do."""

_CALLED = re.compile(r"torch\.(_)?sym_")

SizeOf = Callable[[ast.expr], Expr]
"""The size that a part of a condition names; raises ValueError where it is none."""


def relation_of(
    condition: ast.expr, size_of: SizeOf, dims: Sequence[Dim], labels: Mapping[Symbol, Expr]
) -> Iterable[SizeRelation]:
    """What a condition demands of its sizes; nothing where it is about anything else.

    Args:
        condition: torch's.
        size_of: Reads what it calls sizes.
        dims: Their ranges.
        labels: What messages call them.

    Raises:
        ValueError: It is about several sizes, and holds only for some.
    """
    names = _Names(size_of)
    tried = ast.fix_missing_locations(ast.Expression(names.visit(condition)))
    known = [d for d in dims if dim(d.name) in names.symbols()]
    if not known or "L" in {n.id for n in ast.walk(tried) if isinstance(n, ast.Name)}:
        return ()
    shown = {n: to_text(substitute(e, labels)) for n, e in names.sizes.items()}
    text = _CALLED.sub(lambda m: "math." if m[1] else "", ast.unparse(tried))
    for name, size in shown.items():
        text = text.replace(name, size)
    condition_ = _Condition(compile(tried, "<condition>", "eval"), names.sizes)
    if len(known) > 1:
        _check_all(condition_, known, text)
        return ()
    return _bounds(condition_, known[0], labels, text)


class _Names(ast.NodeTransformer):
    """Puts names in the place of sizes."""

    def __init__(self, size_of: SizeOf) -> None:
        self.size_of = size_of
        self.sizes: dict[str, Expr] = {}

    def symbols(self) -> set[Symbol]:
        """What the sizes are made of."""
        return {s for e in self.sizes.values() for s in e.free_symbols}

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """A size, or something else."""
        try:
            size = self.size_of(node)
        except ValueError:
            return node
        known = next((n for n, e in self.sizes.items() if e == size), "")
        name = known or f"_size{len(self.sizes)}_"
        self.sizes[name] = size
        return ast.Name(name, ast.Load())


@dataclass(frozen=True)
class _Condition:
    code: CodeType
    sizes: Mapping[str, Expr]
    module: Mapping[str, object] = field(default_factory=lambda: {"torch": torch, "math": math})

    def holds(self, values: Mapping[Symbol, int]) -> bool:
        """Whether it does, where dims have these sizes."""
        found = {s: integer(v) for s, v in values.items()}
        names = {
            n: values[e] if e in values else int(substitute(e, found))
            for n, e in self.sizes.items()
        }
        return bool(eval(self.code, {**self.module, **names}))


def _tried(d: Dim, most: int) -> list[int]:
    """Sizes of a dim, all of them where there are not too many."""
    high = _MOST if d.maximum is None else d.maximum
    found = list(range(d.minimum, min(high, d.minimum + most) + 1))
    while found[-1] < high:
        found.append(min(high, math.ceil(found[-1] * _GROWTH)))
    return found


def _check_all(condition: _Condition, dims: Sequence[Dim], text: str) -> None:
    most = round(TRIED ** (1 / len(dims)) / 4)
    for values in itertools.product(*(_tried(d, most) for d in dims)):
        found = dict(zip([dim(d.name) for d in dims], values, strict=True))
        named = ", ".join(f"{d.label or d.name} = {n}" for d, n in zip(dims, values, strict=True))
        try:
            holds = condition.holds(found)
        except ZeroDivisionError:
            raise ValueError(
                f"the model decides by {text}, which is a division by 0 where {named}: give the "
                "size a least one, Dim(…, min=…)"
            ) from None
        if not holds:
            raise ValueError(
                f"the model decides by {text}, which is otherwise where {named}: "
                f"{_FACTOR if ' == ' in text else _QUOTIENT}"
            )


def _bounds(
    condition: _Condition, d: Dim, labels: Mapping[Symbol, Expr], text: str
) -> list[SizeRelation]:
    """The sizes around the example's for which the condition holds, as relations."""
    symbol, every = dim(d.name), _tried(d, TRIED)
    holds = [condition.holds({symbol: n}) for n in every]
    near = sorted(range(len(every)), key=lambda k: abs(every[k] - d.hint))
    start = next((k for k in near if holds[k]), None)
    if start is None:
        raise ValueError(f"the model decides by {text}, which is otherwise for every size in range")
    first, last = start, start
    while first > 0 and holds[first - 1]:
        first -= 1
    while last + 1 < len(every) and holds[last + 1]:
        last += 1
    low, high = every[first], every[last]
    if last + 1 < len(every):
        above = every[last + 1]
        while above - high > 1:  # sizes between those that were tried
            middle = (high + above) // 2
            high, above = (middle, above) if condition.holds({symbol: middle}) else (high, middle)
    named = to_text(substitute(symbol, labels))
    found = []
    if first > 0:
        message = f"the model needs {named} >= {low}, as it decides by {text}"
        found.append(SizeRelation(integer(low), "<=", symbol, message))
    if last + 1 < len(every):
        message = f"the model needs {named} <= {high}, as it decides by {text}"
        found.append(SizeRelation(symbol, "<=", integer(high), message))
    return found
