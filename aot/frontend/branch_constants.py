"""Constants of branches and loops become constants of the program, which these are given.

torch lifts the constants that a model makes (`torch.tensor(1.5)`) out of the program's graph, not
out of the sub-graphs of its branches and loops, which it cannot trace again then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument
from torch.fx import GraphModule, Node


def lift_constants(program: ExportedProgram) -> None:
    """Rewrites the program in place: no sub-graph has tensors of its own.

    None of a function whose operator gives it numbers alone, and so no tensor.
    """
    module = program.graph_module
    for part in module.modules():
        if isinstance(part, GraphModule):
            for constant in _constants(part):
                _check_unwritten(constant)
    _give_to_branches(module)
    specs = program.graph_signature.input_specs
    count = sum(spec.kind is not InputKind.USER_INPUT for spec in specs)
    inputs = [n for n in module.graph.nodes if n.op == "placeholder"]
    before = inputs[count] if count < len(inputs) else inputs[-1].next
    for number, node in enumerate(list(_constants(module))):
        target = f"constant_of_a_branch_{number}"
        program.constants[target] = getattr(module, str(node.target))
        with module.graph.inserting_before(before):
            placeholder = module.graph.placeholder(f"c_{target}")
        _replace(node, placeholder)
        argument = TensorArgument(name=placeholder.name)
        specs.insert(count + number, InputSpec(InputKind.CONSTANT_TENSOR, argument, target, None))
    module.recompile()


_OPERANDS = {"cond": 3, "while_loop": 3, "scan": 3, "map_impl": 2, "associative_scan": 2}
"""Operators that have sub-graphs -> which argument is the list of what these are all given last."""


def _give_to_branches(module: GraphModule) -> None:
    """Constants of sub-graphs become operands of their operators, and constants of this graph."""
    for node in list(module.graph.nodes):
        place = _OPERANDS.get(getattr(node.target, "__name__", ""))
        if not isinstance(node.target, HigherOrderOperator) or place is None:
            continue
        called = [a for a in node.args[:place] if isinstance(a, Node) and a.op == "get_attr"]
        sides = [getattr(module, str(side.target)) for side in called]
        places: dict[tuple[Any, ...], int] = {}
        for side in sides:
            _give_to_branches(side)
            for constant in list(_constants(side)):
                tensor = getattr(side, str(constant.target))
                key = (_storage(tensor), tensor.shape, tensor.stride(), tensor.storage_offset())
                if key not in places:
                    # No two operands may share memory.
                    shared = any(storage == key[0] for storage, *_ in places)
                    places[key] = len(places) + 1
                    own = tensor.clone() if shared else tensor
                    _add_operand(module, node, place, sides, constant, own)
                operands = [n for n in side.graph.nodes if n.op == "placeholder"]
                _replace(constant, operands[places[key] - 1 - len(places)])
        for side in sides:
            side.recompile()


def _check_unwritten(constant: Node) -> None:
    """Raises RuntimeError, in torch's words, where a graph writes to its constant.

    Such is a buffer of the model's that it reaches by `.data`, of which the trace knows nothing.
    """
    views = [constant]
    for view in views:
        for user in view.users:
            schema = getattr(user.target, "_schema", None)
            if schema is None:
                views += _inside(user, view)
            elif user.args[:1] == (view,) and user.target is not torch.ops.aten.detach_.default:
                if schema.is_mutable:
                    raise RuntimeError(f"Constant {constant.target} is mutated in the forward")
                if any(result.alias_info is not None for result in schema.returns):
                    views.append(user)


def _inside(call: Node, operand: Node) -> list[Node]:
    """What a graph that is called with its operands behind it, as in a mode, has for this one."""
    if operand not in call.args:
        return []
    place = call.args.index(operand)
    for before in range(place - 1, -1, -1):
        graph = call.args[before]
        if isinstance(graph, Node) and graph.op == "get_attr":
            called = getattr(call.graph.owning_module, str(graph.target), None)
            if isinstance(called, GraphModule):
                given = [n for n in called.graph.nodes if n.op == "placeholder"]
                return given[place - before - 1 :][:1]
    return []


def _storage(tensor: torch.Tensor) -> int:
    number: int = tensor.untyped_storage()._cdata
    return number


def _constants(module: GraphModule) -> Iterator[Node]:
    for node in module.graph.nodes:
        is_own = node.op == "get_attr" and isinstance(
            getattr(module, str(node.target), None), torch.Tensor
        )
        if is_own:
            yield node


def _add_operand(
    module: GraphModule,
    operator: Node,
    place: int,
    sides: list[GraphModule],
    constant: Node,
    tensor: torch.Tensor,
) -> None:
    """A constant of the graph, which all sub-graphs of one of its operators are given last."""
    args: list[Any] = list(operator.args)
    number = len(args[place])
    name = f"constant_of_{operator.name}_{number}"
    module.register_buffer(name, tensor)
    with module.graph.inserting_before(operator):
        outer = module.graph.get_attr(name)
    outer.meta.update(constant.meta)
    args[place] = (*args[place], outer)
    operator.args = tuple(args)
    for side in sides:
        last = [n for n in side.graph.nodes if n.op == "placeholder"][-1]
        with side.graph.inserting_after(last):
            side.graph.placeholder(f"constant_operand_{number}").meta.update(constant.meta)


def _replace(constant: Node, placeholder: Node) -> None:
    """Takes the placeholder in the place of a constant of its graph, which has no other name."""
    graph, target = constant.graph, str(constant.target)
    placeholder.meta.update(constant.meta)
    constant.replace_all_uses_with(placeholder)
    graph.erase_node(constant)
    if not any(n.op == "get_attr" and n.target == target for n in graph.nodes):
        delattr(graph.owning_module, target)
