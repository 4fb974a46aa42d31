"""Control-flow operators of an exported program as ours: their sub-graphs become blocks.

Sub-graphs are closed: torch passes all that they read as operands. Here a block reads values from
outside by name, so the placeholder of an operand that no iteration changes is that value itself:
weights stay weights inside of branches and loops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from aot.frontend.context import Context
from aot.ir.origin import Origin
from aot.ir.tensors import Block, Cond, ControlOp, Loop, TensorType, ValueRef
from aot.symbolic import Expr


@dataclass(frozen=True)
class ControlCall:
    """One call of a control-flow operator.

    Attributes:
        name: Unique in the program.
        args: What it is called with; sub-graphs as they are.
        results: The node's fake results.
        origin: Where it is called.
        block: Reads a sub-graph as a block of that name, its placeholders being the values given.
            Raises ValueError for a result that is no tensor, or has no counterpart.
    """

    name: str
    args: tuple[Any, ...]
    results: tuple[Any, ...]
    origin: Origin
    block: Callable[[str, torch.fx.GraphModule, Sequence[Any]], Block]


def read_control(context: Context, target: str, call: ControlCall) -> ControlOp:
    """The call as a control operator, whose outputs are the call's results in order.

    Raises ValueError for what a package cannot hold, with the reason.
    """
    return _READERS[target](context, call)


def _cond(context: Context, call: ControlCall) -> ControlOp:
    predicate, then, otherwise, operands = call.args
    if not isinstance(predicate, ValueRef):
        raise ValueError("its condition depends on sizes alone")
    outputs = tuple(f"{call.name}.{k}" for k in range(len(call.results)))
    for name, value in zip(outputs, call.results, strict=True):
        context.ops.declare(name, context.type_of(value))
    return Cond(
        predicate.name,
        call.block(f"{call.name}.true", then, operands),
        call.block(f"{call.name}.false", otherwise, operands),
        outputs,
        call.origin,
    )


def _while_loop(context: Context, call: ControlCall) -> ControlOp:
    condition, body, initial, captured = call.args
    carried = _carried(context, call, initial)
    given = (*(ValueRef(name) for name, _ in carried), *captured)
    return Loop(
        carried,
        call.block(f"{call.name}.condition", condition, given),
        None,
        (),
        call.block(f"{call.name}.body", body, given),
        (),
        call.origin,
    )


def _scan(context: Context, call: ControlCall) -> ControlOp:
    body, initial, xs, captured = call.args
    carried = _carried(context, call, initial)
    return _counted(context, call, body, carried, xs, captured)


def _map(context: Context, call: ControlCall) -> ControlOp:
    body, xs, captured = call.args
    return _counted(context, call, body, (), xs, captured)


def _counted(
    context: Context,
    call: ControlCall,
    body: torch.fx.GraphModule,
    carried: tuple[tuple[str, str], ...],
    xs: Sequence[Any],
    captured: Sequence[Any],
) -> ControlOp:
    """A loop over the first axis of `xs`."""
    slices: list[tuple[str, str]] = []
    counts: list[Expr] = []
    for k, value in enumerate(_values(xs)):
        type_ = context.ops.types[value]
        name = f"{call.name}.x{k}"
        context.ops.declare(name, TensorType(type_.dtype, type_.shape[1:], type_.strides[1:]))
        slices.append((name, value))
        counts.append(type_.shape[0])
    stacked = tuple(f"{call.name}.y{k}" for k in range(len(call.results) - len(carried)))
    for name, value in zip(stacked, call.results[len(carried) :], strict=True):
        context.ops.declare(name, context.type_of(value))
    given = (
        *(ValueRef(name) for name, _ in carried),
        *(ValueRef(name) for name, _ in slices),
        *captured,
    )
    made = call.block(f"{call.name}.body", body, given)
    return Loop(carried, None, counts[0], tuple(slices), made, stacked, call.origin)


def _carried(
    context: Context, call: ControlCall, initial: Sequence[Any]
) -> tuple[tuple[str, str], ...]:
    carried: list[tuple[str, str]] = []
    for k, value in enumerate(_values(initial)):
        name = f"{call.name}.{k}"
        context.ops.declare(name, context.type_of(call.results[k]))
        if context.ops.types[name].shape != context.ops.types[value].shape:
            raise ValueError("the size of a value that it carries may change from turn to turn")
        carried.append((name, value))
    return tuple(carried)


def _values(operands: Sequence[Any]) -> list[str]:
    names = []
    for operand in operands:
        if not isinstance(operand, ValueRef):
            raise ValueError("it carries a number; make it a tensor without dimensions")
        names.append(operand.name)
    return names


_READERS: Mapping[str, Callable[[Context, ControlCall], ControlOp]] = {
    "cond": _cond,
    "while_loop": _while_loop,
    "scan": _scan,
    "map_impl": _map,
}

CONTROL = frozenset(_READERS)
"""Names of the operators that `read_control` takes."""
