"""What a program gives: its outputs, and the new values of what it changes."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

import torch
from torch.export.graph_signature import OutputKind

from aot.errors import ExportError
from aot.frontend.context import Context
from aot.frontend.random_state import advance
from aot.frontend.signature import tree_of
from aot.frontend.sizes import tensor_type
from aot.frontend.weights import dtype_of
from aot.ir.origin import Origin
from aot.ir.tensors import Mutation, Tree, ValueRef
from aot.symbolic import dim

_STATES = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION)
"""New values of what the session keeps."""


def read_outputs(context: Context) -> tuple[tuple[str, ...], Tree]:
    """Names of the output values, and how they nest.

    Outputs that are inputs, weights or sizes get an operator of their own, so that every
    output is a result.
    """
    program = context.program
    output = next(n for n in program.graph.nodes if n.op == "output")
    leaves: list[Tree] = []
    names: list[str] = []
    for item, spec in zip(output.args[0], program.graph_signature.output_specs, strict=True):
        if spec.kind is not OutputKind.USER_OUTPUT:
            continue
        value = context.argument(item)
        if isinstance(value, (ValueRef, type(dim("s")))) or hasattr(value, "free_symbols"):
            leaves.append(Tree("leaf", len(names)))
            names.append(_output_value(context, value, len(names)))
        else:
            leaves.append(Tree("constant", value.name if isinstance(value, Enum) else value))
    rest: Iterator[Tree] = iter(leaves)
    return tuple(names), tree_of(program.call_spec.out_spec, rest)


def _output_value(context: Context, value: Any, position: int) -> str:
    made, ops = f"output_{position}", context.ops
    origin = Origin("", 0, "output")
    if not isinstance(value, ValueRef):
        dtype = dtype_of(torch.int64)
        type_ = tensor_type(torch.empty(()), context.sizes, dtype)
        return ops.call("aten.full.default", ((), value), made, type_, origin, dtype=dtype).name
    if value.name in context.given:
        type_ = ops.types[value.name]
        return ops.call("aten.clone.default", (value,), made, type_, origin).name
    return value.name


def read_mutations(context: Context) -> tuple[Mutation, ...]:
    """The new values of the buffers, parameters and inputs that the model changes.

    Raises:
        ExportError: An output of the program is neither a result nor such a value.
    """
    signature, nodes = context.program.graph_signature, context.bindings.nodes
    names = {spec.target: spec.arg.name for spec in signature.input_specs if spec.target}
    found: dict[str, str] = {}
    for spec in signature.output_specs:
        if spec.kind in (OutputKind.USER_OUTPUT, OutputKind.TOKEN):
            continue
        if spec.kind not in (*_STATES, OutputKind.USER_INPUT_MUTATION):
            raise ExportError(f"the exported program gives a {spec.kind.name} of {spec.target}")
        value = nodes[spec.arg.name]
        is_state = spec.kind in _STATES
        target = nodes[names[spec.target] if is_state else spec.target]
        if value != target:
            found[target.name] = value.name
    changed = (Mutation(target, value) for target, value in found.items())
    return (*changed, *advance(context))
