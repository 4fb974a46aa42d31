"""Control flow around graphs: straight parts, branches, loops, sizes that are read, assertions.

A flow is a tuple of items that run in order. Its straight parts are graphs of the stage at hand
(`Flow[LoopGraph]`), so that a stage of the compiler maps every part by itself (`map_flow`); when
kernels are known, all parts' kernels stand in one list, and a part is a span of it (`Flow[Span]`).
Values pass between parts in buffers of known strides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from aot.ir.origin import Origin
from aot.ir.templates.base import TemplateCall
from aot.ir.tensors import Argument, TensorGraph, names_in
from aot.ir.user_kernel import UserKernel
from aot.symbolic import Expr

G = TypeVar("G")
H = TypeVar("H")


@dataclass(frozen=True)
class Span:
    """Kernels `first` to `first + count` of a kernel graph."""

    first: int
    count: int


@dataclass(frozen=True)
class Straight(Generic[G]):
    """A part without control flow."""

    graph: G


@dataclass(frozen=True)
class Branch(Generic[G]):
    """`then` runs where the bool in buffer `predicate` holds, else `otherwise`."""

    predicate: str
    then: tuple[Any, ...]
    otherwise: tuple[Any, ...]
    origin: Origin


@dataclass(frozen=True)
class Slice:
    """A buffer that is one element of another along axis 0: that of the loop's iteration."""

    buffer: str
    source: str


@dataclass(frozen=True)
class Repeat(Generic[G]):
    """`body` runs `count` times; or, with a condition, while that leaves true in `predicate`."""

    condition: tuple[Any, ...]
    predicate: str
    count: Expr | None
    slices: tuple[Slice, ...]
    body: tuple[Any, ...]
    origin: Origin


@dataclass(frozen=True)
class Copy:
    """The bytes of `source` become those of `target`, a buffer of the same type and strides."""

    source: str
    target: str
    origin: Origin


@dataclass(frozen=True)
class Measured(Generic[G]):
    """Dims are bound to the int64 numbers in buffers (`sizes`: dim, buffer); then `rest` runs."""

    sizes: tuple[tuple[str, str], ...]
    rest: tuple[Any, ...]
    origin: Origin


@dataclass(frozen=True)
class Assert:
    """The run fails with `message` where the bool in buffer `value` is false."""

    value: str
    message: str
    origin: Origin


@dataclass(frozen=True)
class CustomCall:
    """A custom operator, or a kernel of the model's own, fills the buffers `results`.

    Attributes:
        name: "ns::name.overload".
        arguments: As `tensors.OperatorCall.arguments`; tensors are ValueRefs of buffers.
        results: Buffers; like those of arguments, their strides are row-major, if no kernel's.
        origin: The model's line.
        changed: Buffers among those of the arguments that it changes in place.
        kernel: As `tensors.OperatorCall.kernel`.
        template: What the host computes for a device: the call's meaning. Its buffers are given as
            they lie, in any strides.
    """

    name: str
    arguments: tuple[tuple[str, str, Argument], ...]
    results: tuple[str, ...]
    origin: Origin
    changed: tuple[str, ...] = ()
    kernel: UserKernel | None = None
    template: TemplateCall | None = None

    @property
    def operands(self) -> tuple[str, ...]:
        """The buffers of the arguments, in their order."""
        return tuple(name for _, _, value in self.arguments for name in names_in(value))


Item = Straight[G] | Branch[G] | Repeat[G] | Measured[G] | Copy | Assert | CustomCall
Flow = tuple[Item[G], ...]


def map_items(flow: Flow[G], change: Callable[[Item[Any]], Item[Any]]) -> Flow[Any]:
    """The flow with every item replaced by what `change` makes of it, in order and inside out."""
    return tuple(change(map_flows(item, lambda f: map_items(f, change))) for item in flow)


def map_flows(item: Item[Any], change: Callable[[Flow[Any]], Flow[Any]]) -> Item[Any]:
    """The item with every flow inside of it replaced by what `change` makes of it, in order."""
    if isinstance(item, Branch):
        then = change(item.then)
        return replace(item, then=then, otherwise=change(item.otherwise))
    if isinstance(item, Repeat):
        condition = change(item.condition)
        return replace(item, condition=condition, body=change(item.body))
    if isinstance(item, Measured):
        return replace(item, rest=change(item.rest))
    return item


def map_flow(flow: Flow[G], stage: Callable[[G], H]) -> Flow[H]:
    """The flow with every straight part replaced by what `stage` makes of it, in order."""
    return map_items(
        flow, lambda item: Straight(stage(item.graph)) if isinstance(item, Straight) else item
    )


def items_of(flow: Flow[G]) -> Iterator[Item[G]]:
    """Every item at every depth, in order; an item comes before those inside of it."""
    for item in flow:
        yield item
        for inner in flows_in(item):
            yield from items_of(inner)


def flows_in(item: Item[G]) -> tuple[Flow[G], ...]:
    """The flows inside of an item, in the order in which they may run."""
    if isinstance(item, Branch):
        return item.then, item.otherwise
    if isinstance(item, Repeat):
        return (item.condition, item.body) if item.condition else (item.body,)
    return (item.rest,) if isinstance(item, Measured) else ()


def parts_of(flow: Flow[G]) -> tuple[G, ...]:
    """Every straight part, in order."""
    return tuple(item.graph for item in items_of(flow) if isinstance(item, Straight))


def slices_of(flow: Flow[G]) -> dict[str, str]:
    """Buffers that are elements of others: name to the other's."""
    return {
        s.buffer: s.source
        for item in items_of(flow)
        if isinstance(item, Repeat)
        for s in item.slices
    }


def scopes_of(flow: Flow[G]) -> dict[str, int]:
    """The scope of every measured dim: its number among the `Measured`, from 1, outer ones first.

    What needs several dims belongs to the greatest of their scopes; what needs none, to scope 0.
    """
    measured = [item for item in items_of(flow) if isinstance(item, Measured)]
    return {name: k + 1 for k, item in enumerate(measured) for name, _ in item.sizes}


def touched_by(item: Item[G]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Buffers that an item itself reads and writes, without the flows inside of it.

    A loop touches what its slices are parts of.
    """
    if isinstance(item, Branch):
        return (item.predicate,), ()
    if isinstance(item, Repeat):
        sliced = tuple(name for s in item.slices for name in (s.buffer, s.source))
        return (*((item.predicate,) if item.condition else ()), *sliced), ()
    if isinstance(item, Copy):
        return (item.source,), (item.target,)
    if isinstance(item, Measured):
        return tuple(buffer for _, buffer in item.sizes), ()
    if isinstance(item, CustomCall):
        return item.operands, (*item.results, *item.changed)
    return ((item.value,) if isinstance(item, Assert) else ()), ()


@dataclass(frozen=True)
class Outline(Generic[G]):
    """A model as straight parts with the flow around them.

    `frame`: the whole graph. Its types are those of the buffers in which values pass between parts
    and control items (of values that only one part sees, they mean nothing).
    """

    frame: TensorGraph
    flow: Flow[G]

    @property
    def only(self) -> G | None:
        """The one part of a model without control flow; None where there is more."""
        match self.flow:
            case (Straight(graph),):
                return graph
        return None

    def map(self, stage: Callable[[G], H]) -> Outline[H]:
        """The same outline with every part replaced by what `stage` makes of it."""
        return Outline(self.frame, map_flow(self.flow, stage))
