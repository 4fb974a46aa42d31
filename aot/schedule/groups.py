"""Groups: nests (and at most one template call) that will share a kernel, on common outer axes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

from aot.ir.loops import bases, reads, writes
from aot.ir.nests import Axis, LoopNest
from aot.ir.rewrite import in_parts, split_axis, substitute_axes
from aot.ir.templates.base import LoopOp, TemplateCall
from aot.symbolic import Expr, Symbol, substitute, var


@dataclass(frozen=True)
class Group:
    """Nests that share the axes `outer`: each nest's own axes begin with exactly those.

    All other loop variables are unique in the group; `apart` makes them so in two. `position`: of
    the first operation in the graph. With a template, `outer` are the template's output axes and
    every nest is pointwise over them; `prologue`: nests over the axes of an operand's view that
    compute it.
    """

    position: int
    outer: tuple[Axis, ...]
    nests: tuple[LoopNest, ...]
    template: TemplateCall | None = None
    prologue: tuple[LoopNest, ...] = ()

    @property
    def name(self) -> str:
        """Names of the operations, for verdicts."""
        names = [n.name for n in self.prologue]
        names += [self.template.name] if self.template else []
        return "+".join([*names, *(n.name for n in self.nests)])

    @property
    def ops(self) -> tuple[LoopOp, ...]:
        """The prologue and the template call, if any, and the nests."""
        return (*self.prologue, *((self.template,) if self.template else ()), *self.nests)

    @cached_property
    def loops(self) -> tuple[Symbol, ...]:
        """Its loop variables: of its outer axes, and of its nests."""
        axes = (*self.outer, *(a for n in self.nests for a in (*n.axes, *n.reduction)))
        return tuple(axis.symbol for axis in axes)

    @cached_property
    def stems(self) -> frozenset[str]:
        """What the names of its loop variables begin with."""
        return frozenset(map(_stem, self.loops))

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """Buffers that the members read, each once."""
        return tuple(dict.fromkeys(b for op in self.ops for b in reads(op)))

    @cached_property
    def writes(self) -> tuple[str, ...]:
        """Buffers that the members write, each once."""
        return tuple(dict.fromkeys(b for op in self.ops for b in writes(op)))

    @cached_property
    def updates(self) -> Mapping[str, str]:
        """Buffers that the members write in part -> the bases, whose memory they take over."""
        return {result: base for op in self.ops for result, base in bases(op).items()}


def group_of(op: LoopOp, position: int, stem: str) -> Group:
    """A group of one operation, its loop variables' names after `stem`; all kept axes are outer.

    Groups of one stem have to be taken `apart` before they meet.
    """
    if isinstance(op, TemplateCall):
        mapping = _named(op.output.axes, stem)
        axes = _renamed_axes(op.output.axes, mapping)
        output = replace(
            op.output, axes=axes, index=tuple(substitute(e, mapping) for e in op.output.index)
        )
        return Group(position, axes, (), replace(op, output=output))
    mapping = _named((*op.axes, *op.reduction), stem)
    nest = rename(op, mapping)
    return Group(position, nest.axes, (nest,))


def _named(axes: Iterable[Axis], stem: str) -> dict[Symbol, Symbol]:
    return {a.symbol: var(f"{stem}_{a.symbol}") for a in axes}


def stem_of(number: int) -> str:
    """What names of loop variables begin with; other numbers give other ones."""
    return f"n{number}"


def _stem(symbol: Symbol) -> str:
    return str(symbol).partition("_")[0]


def apart(first: Group, second: Group) -> tuple[Group, Group]:
    """The groups with no loop variable in common: the names of the one with fewer nests change.

    That of a template's stay: two of them never meet.
    """
    shared = first.stems & second.stems
    if not shared or (first.template is not None and second.template is not None):
        return first, second
    taken = first.stems | second.stems
    free = (stem_of(n) for n in count() if stem_of(n) not in taken)
    fresh = dict(zip(sorted(shared), free, strict=False))
    if second.template is None and (
        first.template is not None or len(second.nests) <= len(first.nests)
    ):
        return first, _with_stems(second, fresh)
    return _with_stems(first, fresh), second


def _with_stems(group: Group, fresh: Mapping[str, str]) -> Group:
    names = {symbol: str(symbol).partition("_") for symbol in group.loops}
    mapping = {
        s: var(f"{fresh[old]}_{rest}") for s, (old, _, rest) in names.items() if old in fresh
    }
    return rename_group(group, mapping)


def _renamed_axes(axes: Iterable[Axis], mapping: Mapping[Symbol, Expr]) -> tuple[Axis, ...]:
    return tuple(Axis(mapping.get(a.symbol, a.symbol), a.extent) for a in axes)


def rename(nest: LoopNest, mapping: Mapping[Symbol, Symbol]) -> LoopNest:
    """The nest with loop variables renamed."""
    return substitute_axes(
        nest, mapping, _renamed_axes(nest.axes, mapping), _renamed_axes(nest.reduction, mapping)
    )


def with_outer(group: Group, outer: tuple[Axis, ...]) -> Group:
    """The group with only `outer` (some of its outer axes) shared; the others become inner."""
    if outer == group.outer:
        return group

    def reorder(nest: LoopNest) -> LoopNest:
        rest = tuple(a for a in nest.axes if a not in outer)
        return replace(nest, axes=(*outer, *rest))

    return replace(group, outer=outer, nests=tuple(reorder(n) for n in group.nests))


def rename_group(group: Group, mapping: Mapping[Symbol, Symbol]) -> Group:
    """The group with loop variables renamed in every member."""
    return replace(
        group,
        outer=_renamed_axes(group.outer, mapping),
        nests=tuple(rename(n, mapping) for n in group.nests),
    )


def split_in_group(group: Group, axis: Axis, sizes: tuple[Expr, ...]) -> Group:
    """The group with an axis split into several of `sizes`, outermost first.

    `axis` is an outer axis, or an inner or reduction axis of one member. The product of `sizes`
    must be its extent. Not for axes of a template.
    """
    parts = tuple(Axis(var(f"{axis.symbol}_{k}"), size) for k, size in enumerate(sizes))
    nests = tuple(split_axis(nest, axis, parts) for nest in group.nests)
    return replace(group, outer=in_parts(group.outer, axis, parts), nests=nests)
