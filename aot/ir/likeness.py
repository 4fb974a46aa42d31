"""What kernels, and nests, have in common that differ in the names of their buffers alone.

Layers that are alike have kernels that are alike. Whatever follows from loops, the buffers' types
and layouts, and the graph's sizes, is found once for all of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any

from aot.ir.dtypes import DType
from aot.ir.kernel_facts import argument_buffers
from aot.ir.kernels import FusedKernel, NestKernel, Packed, TemplateKernel
from aot.ir.nests import Axis, Buffer, LoopNest, Store, View
from aot.ir.scalar import Access, Node, attr_key, postorder
from aot.ir.templates.base import TemplateCall

_BUFFERS: Mapping[type, frozenset[str]] = {
    Access: frozenset({"buffer"}),
    Packed: frozenset({"operand", "form"}),
    Store: frozenset({"buffer", "base"}),
    View: frozenset({"buffer"}),
    NestKernel: frozenset({"local", "reads", "writes"}),
    TemplateKernel: frozenset({"local", "reads", "writes", "workspace"}),
}
"""Fields that name buffers. One that is missing here makes kernels differ that are alike."""

_NAMES: Mapping[type, frozenset[str]] = {
    NestKernel: frozenset({"name"}),
    TemplateKernel: frozenset({"name"}),
    LoopNest: frozenset({"name", "origin", "absorbed"}),
    TemplateCall: frozenset({"name", "origin"}),
}
"""Fields that say what a thing is called, or where in the model it is from, and nothing else."""


@dataclass(frozen=True)
class Likeness:
    """A kernel, or nests, without the names of buffers.

    Attributes:
        key: Equal for those that differ in names alone.
        buffers: The names, as the key numbers them.
    """

    key: Hashable
    buffers: tuple[str, ...]

    def numbers(self, names: Iterable[str]) -> tuple[int, ...]:
        """The numbers of buffers.

        Raises:
            ValueError: A name is no buffer of these.
        """
        return tuple(sorted(self.buffers.index(name) for name in names))

    def renamed(self, names: tuple[str, ...], other: Likeness) -> tuple[str, ...]:
        """These buffers as those in the same places of what has the same key.

        Raises:
            ValueError: A name is no buffer of these.
        """
        return tuple(other.buffers[self.buffers.index(name)] for name in names)


def likeness_of(kernel: FusedKernel, buffers: Mapping[str, Buffer]) -> Likeness:
    """The kernel without names; its buffers in the order of its arguments, local ones last.

    Buffers count by type, shape, strides and kind; loop variables and sizes by their names.
    """
    return _likeness(kernel, buffers, (*argument_buffers(kernel), *kernel.local))


def likeness_of_nests(
    outer: Sequence[Axis], nests: Sequence[LoopNest], buffers: Mapping[str, Buffer]
) -> Likeness:
    """Nests in the loops that they share, without names; as `likeness_of`."""
    return _likeness((tuple(outer), tuple(nests)), buffers, ())


def _likeness(value: object, buffers: Mapping[str, Buffer], first: Iterable[str]) -> Likeness:
    walk = _Walk({name: k for k, name in enumerate(first)})
    shape = walk.of(value)
    facts = []
    for name in walk.positions:
        b = buffers[name]
        facts.append((b.dtype.name, b.shape, b.strides, b.kind))
    return Likeness((shape, tuple(walk.nodes), tuple(facts)), tuple(walk.positions))


class _Walk:
    """Numbers buffers and nodes in the order in which they are met."""

    def __init__(self, positions: dict[str, int]) -> None:
        self.positions = positions
        self.nodes: list[Hashable] = []
        self._numbers: dict[Node, int] = {}

    def position(self, buffer: str) -> int:
        return self.positions.setdefault(buffer, len(self.positions))

    def of(self, value: object) -> Hashable:
        """The value with numbers for buffers and nodes."""
        if isinstance(value, Node):
            return ("node", self._node(value))
        if isinstance(value, tuple):
            return tuple([self.of(part) for part in value])
        kind: type[Any] = type(value)
        if kind is DType or not is_dataclass(kind):
            return attr_key(value)
        parts: list[Hashable] = [kind]
        for name, names_buffer in _kept_fields(kind):
            part = getattr(value, name)
            parts.append(self._buffers(part) if names_buffer else self.of(part))
        return tuple(parts)

    def _buffers(self, names: str | tuple[str, ...]) -> Hashable:
        if isinstance(names, tuple):
            return tuple([self.position(name) for name in names])
        return self.position(names) if names else None

    def _node(self, root: Node) -> int:
        numbers = self._numbers
        if root not in numbers:
            for node in postorder((root,)):
                if node in numbers:
                    continue
                numbers[node] = len(numbers)
                args = tuple([numbers[arg] for arg in node.args])
                self.nodes.append((node.op, node.dtype.name, args, self.of(node.attr)))
        return numbers[root]


@cache  # of the classes of kernels, of which there are a few dozen
def _kept_fields(kind: type[Any]) -> tuple[tuple[str, bool], ...]:
    """The fields that count, and whether each names buffers."""
    left_out = {n for base, names in _NAMES.items() if issubclass(kind, base) for n in names}
    buffers = _BUFFERS.get(kind, frozenset())
    return tuple((f.name, f.name in buffers) for f in fields(kind) if f.name not in left_out)
