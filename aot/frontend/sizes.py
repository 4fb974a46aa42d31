"""Sizes: torch's symbolic integers in our index algebra, and the dims that inputs bind."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from aot.frontend.open_dims import TRACED
from aot.frontend.scaled_sizes import masked, read_rounded, translate
from aot.frontend.tried_guards import relation_of
from aot.ir.tensors import Dim, SizeRelation, TensorType
from aot.symbolic import (
    Expr,
    FloorDiv,
    Maximum,
    Minimum,
    Modulo,
    Ranges,
    Symbol,
    affine_coefficients,
    dim,
    integer,
    is_int,
    substitute,
    to_text,
)

_UNBOUNDED = 2**62
"""torch writes "no upper bound" as infinity or as the greatest int64; both are above this."""


class SizeTranslator:
    """Translates torch's sizes, by what is known of its symbols so far."""

    def __init__(self) -> None:
        self._renamed: dict[Symbol, Expr] = {}
        self._ranges = Ranges()
        self._allowed = Ranges()
        self._measured: set[str] = set()
        self._known: dict[Any, Expr] = {}

    def count_in(self, units: Mapping[str, int]) -> None:
        """These symbols count in such units from now on: `s0` is `4*s0`."""
        self._renamed = {dim(name): unit * dim(name) for name, unit in units.items()}
        self._known.clear()

    def assume(self, ranges: Ranges, allowed: Ranges) -> None:
        """What torch assumed of the symbols when it traced, and what they may be in runs.

        It decided by that which sizes are equal and which are 1, so max(0, 1 - s0) must be seen to
        be 0 here too. But max(1, s0 // 2) stays as torch has it where s0 may be 1.
        """
        self._ranges = ranges
        self._allowed = allowed
        self._known.clear()

    def measure(self, symbol: str, size: Expr) -> None:
        """`size`, over dims that the program measures, is what torch's symbol stands for."""
        self._measured.add(symbol)
        self._renamed[dim(symbol)] = size

    def are_measured(self, foreign: Any) -> bool:
        """Whether torch's expression depends on a size that the program measures."""
        return any(str(s) in self._measured for s in foreign.free_symbols)

    def expr(self, size: Any) -> Expr:
        """An int or SymInt as an expression.

        Raises ValueError when it depends on values of tensors, or has no integer form.
        """
        if isinstance(size, int):
            return integer(size)
        return self.foreign(size.node.expr)

    def foreign(self, foreign: Any) -> Expr:
        """An expression of torch's.

        Raises:
            ValueError: It depends on values of tensors, or has no integer form.
        """
        unknown = [s for s in foreign.free_symbols if str(s)[0] in "uz"]
        if any(str(s) not in self._measured for s in unknown):
            raise ValueError(f"the size {foreign} depends on the values of a tensor")
        if foreign not in self._known:
            renamed = substitute(translate(foreign, self._greatest), self._renamed)
            assumed = self._ranges.simplify(renamed)
            # By a size of 1 torch has decided what is spread along which axis.
            differs = assumed != 1 and self._differ_where_small(renamed, assumed)
            self._known[foreign] = self._allowed.simplify(renamed) if differs else assumed
        return self._known[foreign]

    def stride(self, stride: Any) -> Expr:
        """As `expr`, by what torch assumed alone: of a single row, any stride will do."""
        return self._ranges.simplify(self.expr(stride))

    def _differ_where_small(self, exact: Expr, assumed: Expr) -> bool:
        """Whether what follows from torch's assumptions is wrong at a size that it skips."""
        for symbol in exact.free_symbols & self._allowed.dims.keys():
            least, traced = (r.dims[symbol][0] for r in (self._allowed, self._ranges))
            for size in range(least, traced):
                at = {symbol: integer(size)}
                sides = [self._allowed.simplify(substitute(e, at)) for e in (exact, assumed)]
                if self._allowed.simplify(sides[0] - sides[1]) != 0:
                    return True
        return False

    def _greatest(self, foreign: Any) -> int | None:
        return self._ranges.greatest(substitute(translate(foreign), self._renamed))


@dataclass(frozen=True)
class InputSizes:
    """Tensor inputs' sizes by path: ("x",) or ("d", "a", 0), as torch's guards write them."""

    by_path: Mapping[tuple[Any, ...], tuple[Expr, ...]]


def tensor_type(value: torch.Tensor, sizes: SizeTranslator, dtype: Any) -> TensorType:
    """Shape and strides of a (fake) tensor. Raises ValueError as `SizeTranslator.expr`."""
    shape = tuple(sizes.expr(s) for s in value.shape)
    return TensorType(dtype, shape, tuple(map(sizes.stride, value.stride())))


def find_dims(
    shapes: Sequence[tuple[Expr, ...]],
    bounds: Mapping[str, tuple[int, int | None]],
    hints: Mapping[str, int],
    labels: Mapping[tuple[int, int], str],
) -> tuple[Dim, ...]:
    """The dims of the inputs' shapes, each with the input and axis that binds it.

    Raises:
        ValueError: No input's size determines a symbol; the message names it.
    """
    found: dict[str, Dim] = {}
    symbols = sorted({str(s) for shape in shapes for size in shape for s in size.free_symbols})
    for name in symbols:
        symbol = dim(name)
        candidates = [
            source
            for position, shape in enumerate(shapes)
            for axis, size in enumerate(shape)
            if (source := _source(symbol, size, position, axis)) is not None
        ]
        if not candidates:
            raise ValueError(f"no input's size determines {name}")
        source = min(candidates, key=lambda s: (s[2], abs(s[3])))
        low, high = bounds.get(name, (2, None))
        label = labels.get((source[0], source[1]), "") if source[2:] == (1, 0) else ""
        found[name] = Dim(name, low, high, hints.get(name, max(low, 2)), source, label)
    return tuple(found.values())


def _source(
    symbol: Symbol, size: Expr, position: int, axis: int
) -> tuple[int, int, int, int] | None:
    if size.free_symbols != {symbol}:
        return None
    affine = affine_coefficients(size, [symbol])
    if affine is None:
        return None
    (divisor,), offset = affine
    if not (is_int(divisor) and is_int(offset)) or int(divisor) < 1:
        return None
    return position, axis, int(divisor), int(offset)


def finite(bound: Any) -> int | None:
    """A bound of torch's value range; None when it stands for infinity."""
    text = str(bound)
    if "oo" in text:
        return None
    value = int(bound)
    return None if abs(value) >= _UNBOUNDED else value


def rescale(dims: Iterable[Dim], multiples: Mapping[str, int]) -> tuple[Dim, ...]:
    """Dims that count in units: where a size must be a multiple of m, the dim is size / m."""
    changed = []
    for d in dims:
        m = multiples.get(d.name, 1)
        if d.source is None:
            changed.append(d)
            continue
        position, axis, divisor, offset = d.source
        changed.append(
            replace(
                d,
                minimum=-(-d.minimum // m),
                maximum=None if d.maximum is None else d.maximum // m,
                hint=max(d.hint // m, 1),
                source=(position, axis, divisor * m, offset),
            )
        )
    return tuple(changed)


def traced_ranges(dims: Iterable[Dim], multiples: Mapping[str, int]) -> Ranges:
    """What torch assumes of dims while it traces: no size is 0 or 1, whatever their range."""
    bounds = {}
    for d in dims:
        least = max(d.minimum, -(-TRACED // multiples.get(d.name, 1)))
        low = least if d.maximum is None else min(least, d.maximum)
        bounds[dim(d.name)] = (low, d.maximum)
    return Ranges({}, bounds)


_EXTREMA = {
    "max": Maximum,
    "min": Minimum,
    "torch.sym_max": Maximum,
    "torch.sym_min": Minimum,
}
"""What torch calls them in guards: until 2.13, and since."""


class _Guard(ast.NodeVisitor):
    """One guard's Python text as an expression over input sizes."""

    def __init__(self, sizes: InputSizes) -> None:
        self.sizes = sizes

    def expr(self, node: ast.expr) -> Expr:
        """A part of the guard's text as an expression.

        Raises:
            ValueError: It is anything but integer arithmetic over input sizes.
        """
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return integer(node.value)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self.expr(node.operand)
        if isinstance(node, ast.BinOp):
            left, right = self.expr(node.left), self.expr(node.right)
            if isinstance(node.op, ast.Add):
                return left + right
            if isinstance(node.op, ast.Sub):
                return left - right
            if isinstance(node.op, ast.Mult):
                return left * right
            if isinstance(node.op, ast.FloorDiv):
                return FloorDiv(left, right)
            if isinstance(node.op, ast.Mod):
                return Modulo(left, right)
            if isinstance(node.op, ast.BitAnd) and right.is_Integer:
                return masked(left, int(right))
        if isinstance(node, ast.Subscript):
            return self._input_size(node)
        if isinstance(node, ast.Call) and not node.keywords:
            extremum = _EXTREMA.get(ast.unparse(node.func))
            if extremum is not None:
                return extremum(*(self.expr(a) for a in node.args))
            return read_rounded(node, self.expr)
        raise ValueError(ast.unparse(node))

    def _input_size(self, node: ast.Subscript) -> Expr:
        """L['x'].size()[0], with more subscripts for nested containers.

        Raises:
            ValueError: The text is another, or names no size that is known.
        """
        call = node.value
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
            raise ValueError(ast.unparse(node))
        if call.func.attr != "size" or not isinstance(node.slice, ast.Constant):
            raise ValueError(ast.unparse(node))
        path: list[Any] = []
        step: ast.expr = call.func.value
        while isinstance(step, ast.Subscript) and isinstance(step.slice, ast.Constant):
            path.append(step.slice.value)
            step = step.value
        shape = self.sizes.by_path.get(tuple(reversed(path)))
        if shape is None or not isinstance(node.slice.value, int):
            raise ValueError(ast.unparse(node))
        return shape[node.slice.value]


_RELATIONS: Mapping[type[ast.cmpop], tuple[str, bool]] = {
    ast.Eq: ("==", False),
    ast.LtE: ("<=", False),
    ast.Lt: ("<", False),
    ast.GtE: ("<=", True),
    ast.Gt: ("<", True),
}
"""Python's comparison -> our relation, and whether its sides are exchanged."""


def read_guards(
    guards: Iterable[str], sizes: InputSizes, dims: Sequence[Dim]
) -> tuple[SizeRelation, ...]:
    """The guards of torch as relations; those that say nothing about sizes are left out.

    Those that sizes differ are left out on purpose: torch writes them for its own sake (that a size
    is neither 0 nor 1), and lowered code does not depend on that. The user's code does:
    `size_decisions`.

    Args:
        guards: torch's conditions, as Python text.
        sizes: What they call sizes of inputs.
        dims: Those, with their ranges.

    Raises:
        ValueError: One of numbers that are no whole ones holds for some of several sizes only.
    """
    found: list[SizeRelation] = []
    labels, reader = labels_of(dims), _Guard(sizes)
    for node in (part for text in guards for part in _parts(ast.parse(text, mode="eval").body)):
        if not isinstance(node, ast.Compare) or len(node.ops) != 1 or _is_of_torchs(node):
            continue
        try:
            left, right = reader.expr(node.left), reader.expr(node.comparators[0])
        except ValueError:
            found += relation_of(node, reader.expr, dims, labels)
            continue
        relation = _RELATIONS.get(type(node.ops[0]))
        if relation is None:
            continue
        if relation[1]:
            left, right = right, left
        shown = [to_text(substitute(side, labels)) for side in (left, right)]
        message = f"the model needs {shown[0]} {relation[0]} {shown[1]}"
        found.append(SizeRelation(left, relation[0], right, message))
    return tuple(found)


def _is_of_torchs(node: ast.Compare) -> bool:
    """Whether it says of whole numbers that they differ."""
    sides = (node.left, *node.comparators)
    return isinstance(node.ops[0], ast.NotEq) and all(map(_is_whole, sides))


def _is_whole(node: ast.expr) -> bool:
    """Whether it is arithmetic of whole numbers, of what was rounded, too."""
    if isinstance(node, ast.BinOp):
        return not isinstance(node.op, ast.Div) and _is_whole(node.left) and _is_whole(node.right)
    if isinstance(node, ast.UnaryOp):
        return _is_whole(node.operand)
    if isinstance(node, ast.Call):
        named = ast.unparse(node.func)
        rounded = named in ("math.trunc", "math.floor", "math.ceil")
        return rounded or (named in _EXTREMA and all(map(_is_whole, node.args)))
    return isinstance(node, ast.Subscript) or (
        isinstance(node, ast.Constant) and isinstance(node.value, int)
    )


def _parts(condition: ast.expr) -> list[ast.expr]:
    """The conditions that hold together, where one is said to be all of them."""
    if isinstance(condition, ast.BoolOp) and isinstance(condition.op, ast.And):
        return [part for value in condition.values for part in _parts(value)]
    return [condition]


def ranges_of(dims: Iterable[Dim]) -> Ranges:
    """What is known of the dims: their least and greatest sizes."""
    return Ranges({}, {dim(d.name): (d.minimum, d.maximum) for d in dims})


def labels_of(dims: Iterable[Dim]) -> dict[Symbol, Expr]:
    """What messages call the dims: the user's name where there is one."""
    return {dim(d.name): dim(d.label or d.name) for d in dims}


def multiples_in(relations: Iterable[SizeRelation]) -> dict[str, int]:
    """Symbols that must be multiples of a number: `s % m == 0` for a bare symbol s."""
    found: dict[str, int] = {}
    for r in relations:
        if r.relation != "==" or not is_int(r.right, 0) or not isinstance(r.left, Modulo):
            continue
        symbol, m = r.left.args
        if symbol.is_Symbol and is_int(m):
            known = found.get(str(symbol), 1)
            found[str(symbol)] = max(known, int(m)) if max(known, int(m)) % known == 0 else known
    return found


def open_relations(
    relations: Iterable[SizeRelation], dims: Sequence[Dim], claimed: Collection[str] = ()
) -> tuple[SizeRelation, ...]:
    """The relations that the dims' ranges do not already guarantee.

    `claimed`: dims that may be more than their range says, which only the relations check.
    """
    ranges = ranges_of(dims)
    sure = Ranges({}, {s: r for s, r in ranges.dims.items() if str(s) not in claimed})
    kept: list[SizeRelation] = []
    for r in relations:
        left, right = ranges.simplify(r.left), ranges.simplify(r.right)
        told = any((left, r.relation, right) == (k.left, k.relation, k.right) for k in kept)
        proved = _follows(left, r.relation, right, ranges)
        if not told and not proved and not _is_bounded(left, r.relation, right, sure):
            kept.append(SizeRelation(left, r.relation, right, r.message))
    return tuple(kept)


def holds(relation: SizeRelation, ranges: Ranges) -> bool:
    """Whether a relation is seen to hold wherever sizes are in these ranges."""
    left, right = ranges.simplify(relation.left), ranges.simplify(relation.right)
    return _follows(left, relation.relation, right, ranges)


def _follows(left: Expr, relation: str, right: Expr, ranges: Ranges) -> bool:
    """The same of sides that are simplified."""
    if relation == "==":
        return bool(left == right or ranges.simplify(left - right) == 0)
    return ranges.at_most(left, right) if relation == "<=" else ranges.less(left, right)


def _is_bounded(left: Expr, relation: str, right: Expr, ranges: Ranges) -> bool:
    most = ranges.greatest(left) if relation == "<=" and right.is_Integer else None
    return most is not None and most <= int(right)
