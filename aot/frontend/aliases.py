"""Tensors that an exported program takes twice: as a buffer, and as a constant.

torch.export lifts a tensor that the model reaches by a plain attribute (a cache object) as a
constant, even where a module has registered the same tensor as a buffer. It then refuses to take
the program apart as soon as the model changes it.
"""

from __future__ import annotations

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec

_NAMED = (InputKind.PARAMETER, InputKind.BUFFER)


def merge_aliases(program: ExportedProgram) -> None:
    """Lets the program read each tensor by one name, that of its module. Works in place."""
    nodes = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    signature = program.graph_signature
    named = {
        id(_tensor(program, spec)): spec.arg.name
        for spec in signature.input_specs
        if spec.kind in _NAMED
    }
    kept: list[InputSpec] = []
    for spec in signature.input_specs:
        first = named.get(id(_tensor(program, spec)))
        if spec.kind is not InputKind.CONSTANT_TENSOR or first is None:
            kept.append(spec)
            continue
        node = nodes[spec.arg.name]
        node.replace_all_uses_with(nodes[first])
        program.graph.erase_node(node)
        del program.constants[str(spec.target)]
    if len(kept) < len(signature.input_specs):
        signature.input_specs[:] = kept
        program.graph_module.recompile()


def _tensor(program: ExportedProgram, spec: InputSpec) -> torch.Tensor | None:
    name = str(spec.target)
    found = program.state_dict.get(name, program.constants.get(name))
    return found if isinstance(found, torch.Tensor) else None
