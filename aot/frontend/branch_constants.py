"""Constants of branches become constants of the program, which branches are given.

torch lifts the constants that a model makes (`torch.tensor(1.5)`) out of the program's graph, not
out of the sub-graphs of its branches, which it cannot trace again then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument
from torch.fx import GraphModule, Node


def lift_constants(program: ExportedProgram) -> None:
    """Rewrites the program in place: no sub-graph of a branch has tensors of its own."""
    module = program.graph_module
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


def _give_to_branches(module: GraphModule) -> None:
    """Constants of sub-graphs become operands of their branches, and constants of this graph."""
    for node in list(module.graph.nodes):
        if node.op != "call_function" or node.target is not torch.ops.higher_order.cond:
            continue
        sides = [getattr(module, str(side.target)) for side in node.args[1:3]]
        places: dict[tuple[Any, ...], int] = {}
        for side in sides:
            _give_to_branches(side)
            for constant in list(_constants(side)):
                tensor = getattr(side, str(constant.target))
                key = (_storage(tensor), tensor.shape, tensor.stride(), tensor.storage_offset())
                if key not in places:
                    # No two operands may share memory.
                    shared = any(storage == key[0] for storage, *_ in places)
                    places[key] = len(node.args[3])
                    _add_operand(
                        module, node, sides, constant, tensor.clone() if shared else tensor
                    )
                operands = [n for n in side.graph.nodes if n.op == "placeholder"]
                _replace(constant, operands[places[key]])
        for side in sides:
            side.recompile()


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
    cond: Node,
    sides: list[GraphModule],
    constant: Node,
    tensor: torch.Tensor,
) -> None:
    """A constant of the graph, which both sides of one of its branches are given."""
    number = len(cond.args[3])  # type: ignore[arg-type]
    name = f"constant_of_{cond.name}_{number}"
    module.register_buffer(name, tensor)
    with module.graph.inserting_before(cond):
        outer = module.graph.get_attr(name)
    outer.meta.update(constant.meta)
    cond.args = (*cond.args[:3], (*cond.args[3], outer))  # type: ignore[misc]
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
