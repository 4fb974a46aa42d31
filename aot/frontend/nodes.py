"""The calls of an exported graph, in order, as operators of ours; what has none is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from aot.errors import ExportError
from aot.frontend.arguments import is_no_op, reject
from aot.frontend.assertions import (
    ASSERTIONS,
    CONDITIONAL,
    EFFECT,
    read_assertion,
    read_conditional,
    read_effect,
)
from aot.frontend.associative import ASSOCIATIVE_SCAN, read_associative_scan
from aot.frontend.context import Context, NodeCall
from aot.frontend.control import CONTROL, ControlCall, read_control
from aot.frontend.measured import MEASURING, read_measured, read_number
from aot.frontend.measured_slices import (
    END,
    SLICES,
    read_slice,
    settled_position,
    slice_symbols,
)
from aot.frontend.measuring import MeasuredCall
from aot.frontend.operators import is_custom, is_given, operator_name, read_operator, without_code
from aot.frontend.random_state import draws, next_draw
from aot.frontend.recurrent import length_relations
from aot.frontend.size_numbers import number_of_sizes
from aot.frontend.strided import STRIDED, of_memory
from aot.frontend.user_kernels import LAUNCH, read_launch
from aot.ir.dtypes import BOOL, FLOAT64
from aot.ir.origin import Origin
from aot.ir.tensors import Block, TensorOp, ValueRef

_ITEM = "<built-in function getitem>"
_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool)

_MEANINGLESS = ("memory_format", "layout", "device", "pin_memory", "non_blocking", "generator")
"""Keyword arguments that say nothing here: types have strides, programs have devices."""


def read_nodes(context: Context, module: torch.fx.GraphModule) -> None:
    """The calls of a graph, in order.

    Raises:
        ExportError: The graph has another sort of node.
    """
    for node in module.graph.nodes:
        attribute = getattr(module, str(node.target), None) if node.op == "get_attr" else None
        if node.op == "call_function":
            _read_call(context, _call_of(context, node))
        elif isinstance(attribute, torch.fx.GraphModule):
            context.bindings.bind(node.name, attribute)
        elif node.op not in ("placeholder", "output"):
            raise ExportError(f"the exported graph has a {node.op} of {node.target}")


def _read_block(
    context: Context, origin: Origin, name: str, module: torch.fx.GraphModule, given: Sequence[Any]
) -> Block:
    """See `ControlCall.block`.

    Raises:
        ValueError: A result of the sub-graph is no tensor, or has no counterpart.
    """
    inner = context.inner(name, origin)
    placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
    for node, value in zip(placeholders, given, strict=True):
        inner.bindings.bind(node.name, value)
    read_nodes(inner, module)
    output = next(n for n in module.graph.nodes if n.op == "output").args[0]
    results = output if isinstance(output, (list, tuple)) else (output,)
    names: list[str] = []
    for result in results:
        value = inner.argument(result)
        if not isinstance(value, ValueRef):
            raise ValueError("a result of its sub-graph is a number, no tensor")
        names.append(value.name)
    return Block(inner.ops.written, tuple(names))


def _call_of(context: Context, node: torch.fx.Node) -> NodeCall:
    target = str(node.target)
    module = _module_of(node.meta.get("nn_module_stack"))
    origin = context.places.origin(node.meta.get("stack_trace"), target, module)
    if not origin.line and context.around.line:
        origin = replace(context.around, operator=target)
    return NodeCall(f"{context.prefix}{node.name}", node, node.meta.get("val"), origin)


def _read_call(context: Context, call: NodeCall) -> None:
    node, value, target = call.node, call.value, call.target
    custom = operator_name(node)
    known = isinstance(value, _NUMBERS) and not node.meta.get("unbacked_bindings")
    if custom is not None and (is_given(custom, context.custom) or is_custom(custom)):
        _read_custom(context, call, custom)
    elif target.startswith(ASSERTIONS):
        _read_assertion(context, call)
    elif target == EFFECT:
        _read_effect(context, call)
    elif target in MEASURING and not known:
        _read_measuring(context, call)
    elif target in SLICES and node.meta.get("unbacked_bindings"):
        _read_slice(context, call)
    elif isinstance(value, _NUMBERS):
        _read_number(context, call)
    elif target == _ITEM:
        source, position = node.args[0], node.args[1]
        if isinstance(source, torch.fx.Node) and isinstance(position, (int, str)):
            context.bindings.bind(node.name, context.bindings.nodes[source.name][position])
    else:
        _read_operation(context, call)


def _read_operation(context: Context, call: NodeCall) -> None:
    """A launch, control flow, a value with a condition, or an operator on tensors."""
    try:
        if call.target == CONDITIONAL:
            context.bindings.bind(call.node.name, read_conditional(context, call))
        elif call.target == LAUNCH:
            op, written = read_launch(context, call)
            context.ops.add(op)
            context.bindings.bind(call.node.name, written)
        elif call.target in CONTROL or call.target == ASSOCIATIVE_SCAN:
            _read_control_call(context, call)
        else:
            _read_tensor_call(context, call)
    except ValueError as error:
        _refuse(context, call, call.target, error)


def _refuse(context: Context, call: NodeCall, operator: str, error: ValueError) -> None:
    """Remember why the call cannot be packaged; what follows is looked at all the same."""
    context.refusals.add(reject(operator, call.origin, str(error)))
    context.bindings.bind(call.node.name, _unknown(call))


def _read_custom(context: Context, call: NodeCall, name: str) -> None:
    """A call of a custom operator."""
    if not is_given(name, context.custom):
        context.refusals.add(without_code(name, call.origin))
        context.bindings.bind(call.node.name, _unknown(call))
        return
    try:
        op, refs = read_operator(context, call)
    except ValueError as error:
        _refuse(context, call, name, error)
        return
    context.ops.add(op)
    several = isinstance(call.value, (tuple, list))
    context.bindings.bind(call.node.name, refs if several else refs[0])


def _read_assertion(context: Context, call: NodeCall) -> None:
    try:
        context.measured.require(*read_assertion(context, call))
    except ValueError as error:
        context.refusals.add(reject(call.target, call.origin, str(error)))


def _read_effect(context: Context, call: NodeCall) -> None:
    try:
        read_effect(context, call)
    except ValueError as error:
        context.refusals.add(reject(str(call.node.args[1]), call.origin, str(error)))
    # Users are the effects that come after it, and the results of those that have any.
    context.bindings.bind(call.node.name, _unknown(call))


def _read_measuring(context: Context, call: NodeCall) -> None:
    """A call whose result has a size, or is a number, that tensors' values determine."""
    node, value = call.node, call.value
    try:
        args = tuple(context.argument(a) for a in node.args)
        symbols = tuple(node.meta.get("unbacked_bindings") or ())
        if isinstance(value, (torch.SymFloat, torch.SymBool)):
            measured = MeasuredCall(call.name, args, value, "", ("-oo", "oo"), call.origin)
            dtype = FLOAT64 if isinstance(value, torch.SymFloat) else BOOL
            number = read_number(context, measured, dtype)
            context.bindings.bind(node.name, number)
            for symbol in symbols if isinstance(value, torch.SymFloat) else ():
                context.bindings.bind_number(str(symbol), number)
            return
        symbol = symbols[0] if symbols else ""
        range_ = context.program.range_constraints.get(symbol)
        bounds = ("-oo", "oo") if range_ is None else (range_.lower, range_.upper)
        measured = MeasuredCall(call.name, args, value, str(symbol), bounds, call.origin)
        context.bindings.bind(node.name, read_measured(context, call.target, measured))
    except ValueError as error:
        _refuse(context, call, call.target, error)


def _read_slice(context: Context, call: NodeCall) -> None:
    """A slice whose length or beginning tensors' values determine."""
    length, offset = slice_symbols(call.node.meta["unbacked_bindings"])
    try:
        # Where torch knows the length, the end says nothing more, and may have no counterpart.
        needed = (a if length or k != END else None for k, a in enumerate(call.node.args))
        args = tuple(context.argument(a) for a in needed)
        measured = MeasuredCall(call.name, args, call.value, length, ("-oo", "oo"), call.origin)
        context.bindings.bind(call.node.name, read_slice(context, measured, offset))
    except ValueError as error:
        _refuse(context, call, call.target, error)


def _read_number(context: Context, call: NodeCall) -> None:
    """A number that is known, or that sizes determine."""
    value: Any = call.value
    try:
        if isinstance(value, torch.SymInt):
            value = context.sizes.expr(value)
        elif not isinstance(value, (int, float)):
            value = number_of_sizes(context, call.name, value.node.expr, call.origin)
    except ValueError as error:
        # Only an operator that uses it is an error; it will be named then.
        value = error
    context.bindings.bind(call.node.name, value)


def _read_control_call(context: Context, call: NodeCall) -> None:
    args = tuple(context.argument(a) for a in call.node.args)
    results = tuple(call.value) if isinstance(call.value, (tuple, list)) else (call.value,)
    block = partial(_read_block, context, call.origin)
    control = ControlCall(call.name, args, results, call.origin, block)
    if call.target == ASSOCIATIVE_SCAN:
        context.bindings.bind(call.node.name, read_associative_scan(context, control))
        return
    op = read_control(context, call.target, control)
    context.ops.add(op)
    context.bindings.bind(call.node.name, tuple(ValueRef(name) for name in op.outputs))


_SPARSE = (
    "of a sparse tensor, which packages do not have: keep rows, columns and values, and add up "
    "products by zeros.index_add(0, rows, values[:, None] * x[columns])"
)


def _is_plain(value: Any) -> bool:
    return not isinstance(value, torch.Tensor) or value.layout == torch.strided


def _read_tensor_call(context: Context, call: NodeCall) -> None:
    node, value, target, ops = call.node, call.value, call.target, context.ops
    given, named = of_memory(node) if target in STRIDED else (node.args, node.kwargs)
    args = tuple(context.argument(a) for a in given)
    kwargs = {k: context.argument(v) for k, v in named.items()}
    several = isinstance(value, (tuple, list))
    results = tuple(value) if several else (value,)
    if not all(map(_is_plain, (*results, *(n.meta.get("val") for n in node.all_input_nodes)))):
        raise ValueError(_SPARSE)
    names = _result_names(call, len(results), several=several)
    for name, result in zip(names, results, strict=True):
        if name is not None:
            ops.declare(name, context.type_of(result))
    only = names[0]
    if only is not None and is_no_op(target, args, ops.types, ops.types[only]):
        context.bindings.bind(node.name, args[0])
        return
    kept = tuple((k, v) for k, v in kwargs.items() if k not in _MEANINGLESS)
    if draws(target, args):
        kept = (*kept, ("draw", next_draw(context)))
    args, relations = settled_position(context, target, args, call.origin)
    context.measured.require(*relations)
    context.measured.require(*length_relations(context, target, args, call.origin))
    ops.add(TensorOp(target, args, kept, names, call.origin))
    refs = tuple(None if n is None else ValueRef(n) for n in names)
    context.bindings.bind(node.name, refs if several else refs[0])


def _module_of(stack: Mapping[str, tuple[str, Any]] | None) -> str:
    """The innermost submodule of torch's module stack, as `Linear "encoder.0"`."""
    if not stack:
        return ""
    path, kind = list(stack.values())[-1]
    return f'{str(kind).rpartition(".")[2]} "{path}"'


def _unknown(call: NodeCall) -> Any:
    """What users of a rejected operator see, so that they can be looked at too."""
    name, value = call.name, call.value
    if isinstance(value, (tuple, list)):
        return tuple(ValueRef(f"{name}_{k}") for k in range(len(value)))
    if isinstance(value, dict):
        return {key: ValueRef(f"{name}_{key}") for key in value}
    return ValueRef(name)


def _result_names(call: NodeCall, count: int, *, several: bool) -> tuple[str | None, ...]:
    """A name for each result; None for one of several that nothing reads."""
    if not several:
        return (call.name,)
    used: dict[int, str] = {}
    for user in call.node.users:
        if str(user.target) == _ITEM and user.users:
            used[int(user.args[1])] = f"{call.name}_{user.args[1]}"  # type: ignore[arg-type]
    return tuple(used.get(k) for k in range(count))
