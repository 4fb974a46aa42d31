"""Control-flow operators of an exported program as ours: their sub-graphs become blocks.

Sub-graphs are closed: torch passes all that they read as operands. Here a block reads values from
outside by name, so the placeholder of an operand that no iteration changes is that value itself:
weights stay weights inside of branches and loops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from aot.ir.origin import Origin
from aot.ir.tensors import Block, Cond, ControlOp, Loop, TensorType, ValueRef
from aot.symbolic import Expr


class BlockReader(Protocol):
    """What reading a control operator needs of the reader of the graph around it."""

    types: dict[str, TensorType]

    def argument(self, argument: Any) -> Any:
        """An FX argument as a TensorOp's. Raises ValueError when it has no counterpart."""

    def type_of(self, value: Any) -> TensorType:
        """The type of a (fake) tensor. Raises ValueError for anything else."""

    def block(
        self, name: str, module: torch.fx.GraphModule, given: Sequence[Any], origin: Origin
    ) -> Block:
        """A sub-graph as a block, its placeholders being `given`."""


@dataclass(frozen=True)
class ControlCall:
    """One call of a control-flow operator: `name` is unique in the program."""

    name: str
    args: tuple[Any, ...]
    results: tuple[Any, ...]
    origin: Origin


def read_control(reader: BlockReader, target: str, call: ControlCall) -> ControlOp:
    """The call as a control operator, whose outputs are the call's results in order.

    Raises ValueError for what a package cannot hold, with the reason.
    """
    return _READERS[target](reader, call)


def _cond(reader: BlockReader, call: ControlCall) -> ControlOp:
    predicate, then, otherwise, operands = call.args
    if not isinstance(predicate, ValueRef):
        raise ValueError("its condition depends on sizes alone")
    outputs = tuple(f"{call.name}.{k}" for k in range(len(call.results)))
    for name, value in zip(outputs, call.results, strict=True):
        reader.types[name] = reader.type_of(value)
    return Cond(
        predicate.name,
        reader.block(f"{call.name}.true", then, operands, call.origin),
        reader.block(f"{call.name}.false", otherwise, operands, call.origin),
        outputs,
        call.origin,
    )


def _while_loop(reader: BlockReader, call: ControlCall) -> ControlOp:
    condition, body, initial, captured = call.args
    carried = _carried(reader, call, initial)
    given = (*(ValueRef(name) for name, _ in carried), *captured)
    return Loop(
        carried,
        reader.block(f"{call.name}.condition", condition, given, call.origin),
        None,
        (),
        reader.block(f"{call.name}.body", body, given, call.origin),
        (),
        call.origin,
    )


def _scan(reader: BlockReader, call: ControlCall) -> ControlOp:
    body, initial, xs, captured = call.args
    carried = _carried(reader, call, initial)
    return _counted(reader, call, body, carried, xs, captured)


def _map(reader: BlockReader, call: ControlCall) -> ControlOp:
    body, xs, captured = call.args
    return _counted(reader, call, body, (), xs, captured)


def _counted(
    reader: BlockReader,
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
        type_ = reader.types[value]
        name = f"{call.name}.x{k}"
        reader.types[name] = TensorType(type_.dtype, type_.shape[1:], type_.strides[1:])
        slices.append((name, value))
        counts.append(type_.shape[0])
    stacked = tuple(f"{call.name}.y{k}" for k in range(len(call.results) - len(carried)))
    for name, value in zip(stacked, call.results[len(carried) :], strict=True):
        reader.types[name] = reader.type_of(value)
    given = (
        *(ValueRef(name) for name, _ in carried),
        *(ValueRef(name) for name, _ in slices),
        *captured,
    )
    made = reader.block(f"{call.name}.body", body, given, call.origin)
    return Loop(carried, None, counts[0], tuple(slices), made, stacked, call.origin)


def _carried(
    reader: BlockReader, call: ControlCall, initial: Sequence[Any]
) -> tuple[tuple[str, str], ...]:
    carried: list[tuple[str, str]] = []
    for k, value in enumerate(_values(initial)):
        name = f"{call.name}.{k}"
        reader.types[name] = reader.type_of(call.results[k])
        if reader.types[name].shape != reader.types[value].shape:
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


_READERS: Mapping[str, Callable[[BlockReader, ControlCall], ControlOp]] = {
    "cond": _cond,
    "while_loop": _while_loop,
    "scan": _scan,
    "map_impl": _map,
}

CONTROL = frozenset(_READERS)
"""Names of the operators that `read_control` takes."""
