"""The flow of a kernel graph as a list of steps, each followed by those of its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from aot_runtime.format import plan

from aot.errors import InternalError, Origin
from aot.ir.flow import (
    Assert,
    Branch,
    Copy,
    CustomCall,
    Flow,
    Item,
    Measured,
    Repeat,
    Span,
    Straight,
    flows_in,
    items_of,
    touched_by,
)
from aot.ir.kernels import Kernel, KernelGraph, Launch, launches_by_kernel
from aot.link.calls import call_step
from aot.symbolic import encode


@dataclass(frozen=True)
class Launched:
    """A launch, and the kernel that it is of."""

    kernel: Kernel
    launch: Launch


@dataclass(frozen=True)
class ControlItem:
    """A control item, and how many of the steps that follow are of each of its flows."""

    item: Item[Span]
    parts: tuple[int, ...]


FlatStep: TypeAlias = Launched | ControlItem


def assemble_steps(graph: KernelGraph, launches: Sequence[Launch]) -> tuple[FlatStep, ...]:
    """Every step, in the plan's order."""
    steps = [
        [Launched(kernel, launch) for launch in own]
        for kernel, own in zip(
            graph.kernels, launches_by_kernel(graph.kernels, launches), strict=True
        )
    ]
    whole: Flow[Span] = (Straight(Span(0, len(graph.kernels))),)
    return tuple(_flat(graph.flow or whole, steps))


def _flat(flow: Flow[Span], steps: Sequence[Sequence[Launched]]) -> Iterator[FlatStep]:
    """The steps of a flow. `steps`: of each kernel."""
    for item in flow:
        if isinstance(item, Straight):
            for own in steps[item.graph.first :][: item.graph.count]:
                yield from own
            continue
        parts = [list(_flat(inner, steps)) for inner in flows_in(item)]
        yield ControlItem(item, tuple(len(part) for part in parts))
        for part in parts:
            yield from part


def slice_steps(steps: Sequence[FlatStep]) -> dict[str, tuple[str, int]]:
    """Buffers that are slices: what each is a part of, and the step of its loop, outer first."""
    return {
        s.buffer: (s.source, position)
        for position, step in enumerate(steps)
        if isinstance(step, ControlItem) and isinstance(step.item, Repeat)
        for s in step.item.slices
    }


def control_buffers(graph: KernelGraph) -> Iterator[str]:
    """Buffers that control items name."""
    for item in items_of(graph.flow):
        reads, writes = touched_by(item)
        yield from (*reads, *writes)


def control_origins(graph: KernelGraph) -> Iterator[Origin]:
    """Places of the control items."""
    return (item.origin for item in items_of(graph.flow) if not isinstance(item, Straight))


def control_step(
    step: ControlItem, operand: Callable[[str], plan.TensorOperand], origins: Mapping[Origin, int]
) -> plan.ControlStep:
    """A control item as a step. `operand`: a buffer of the plan.

    Raises:
        InternalError: The item is of a kind that has no step.
    """

    def position(name: str) -> int:
        return operand(name).buffer

    match step.item:
        case Branch(predicate, origin=origin):
            then, otherwise = step.parts
            return plan.BranchStep(position(predicate), then, otherwise, origins[origin])
        case Repeat(count=None, predicate=predicate, origin=origin):
            condition, body = step.parts
            return plan.WhileStep(position(predicate), condition, body, origins[origin])
        case Repeat(count=count, origin=origin):
            return plan.RepeatStep(encode(count), step.parts[0], origins[origin])
        case Copy(source, target, origin):
            return plan.CopyStep(position(source), position(target), origins[origin])
        case Measured(sizes, _, origin):
            pairs = tuple((name, position(buffer)) for name, buffer in sizes)
            return plan.SizesStep(pairs, step.parts[0], origins[origin])
        case Assert(value, message, origin):
            return plan.CheckStep(position(value), message, origins[origin])
        case CustomCall(origin=origin):
            return call_step(step.item, operand, origins[origin])
    raise InternalError(f"no step for {type(step.item).__name__}")
