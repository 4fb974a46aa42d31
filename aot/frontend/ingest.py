"""An exported program as a TensorGraph: the last place where torch objects exist.

`inputs.py` reads what the program is given and settles its sizes, `nodes.py` its calls,
`results.py` what it gives; `context.py` is what they pass on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aot.frontend.capture import Captured
from aot.frontend.context import Context
from aot.frontend.inputs import read_inputs, settle_sizes
from aot.frontend.liveness import live_ops
from aot.frontend.nodes import read_nodes
from aot.frontend.places import places_of
from aot.frontend.results import read_mutations, read_outputs
from aot.frontend.sizes import open_relations
from aot.frontend.weights import TorchWeights, weight_specs
from aot.ir.dtypes import FLOAT32
from aot.ir.tensors import (
    GraphOp,
    Signature,
    TensorGraph,
    TensorOp,
    TensorType,
    all_ops,
    all_outputs,
    dims_in,
    read_sizes,
    reads_of,
)


def ingest(captured: Captured, operators: Sequence[str] = ()) -> tuple[TensorGraph, TorchWeights]:
    """The captured program without torch, and its weights.

    Args:
        captured: The program.
        operators: Names of custom operators that are called, not lowered; as `--operator` has them.

    Raises:
        UnsupportedOperators: Values of types or sizes that packages cannot hold.
        ExportError: The model takes numbers that vary, or changes memory that two of its buffers
            share.
        DynamicShapeError: A size that no input determines.
    """
    program = captured.program
    context = Context(program, places_of(captured.root), tuple(operators))
    parameters = read_inputs(context, captured.parameter_names)
    dims, relations = settle_sizes(context, captured, parameters)
    read_nodes(context, program.graph_module)
    context.refusals.raise_any()
    outputs, result = read_outputs(context)
    mutations = read_mutations(context)
    given, measured, types = context.given, context.measured, context.ops.types
    results = {*outputs, *(m.value for m in mutations)}
    checked = open_relations(measured.relations, (*dims, *measured.dims), measured.claimed)
    sides = tuple((r.left, r.right) for r in checked)
    ops = live_ops(context.ops.written, results, types, dims_in(sides))
    used = {n for op in ops for n in reads_of(op)} | results
    weights = {name: fqn for name, fqn in given.weights.items() if name in used}
    kept = {*given.inputs, *weights, *given.states, *results, *all_outputs(ops)}
    graph = TensorGraph(
        captured.name,
        (*dims, *(d for d in measured.dims if d.name in read_sizes(ops))),
        tuple(given.inputs),
        tuple(weights.items()),
        ops,
        outputs,
        {name: type_ for name, type_ in types.items() if name in kept},
        Signature(parameters, result),
        (*relations, *checked),
        tuple(given.states.items()),
        mutations,
        tf32=tuple(kind for kind in captured.tf32 if kind in _kinds(ops, types)),
    )
    stored = (*weights.values(), *given.states.values())
    specs = weight_specs(program, given.tensors)
    return graph, TorchWeights({fqn: given.tensors[fqn] for fqn in stored}, specs)


def _kinds(ops: Sequence[GraphOp], types: Mapping[str, TensorType]) -> frozenset[str]:
    """Kinds of templates that some operator may become, where settings have something to say."""
    used = [op.target for op in all_ops(ops) if isinstance(op, TensorOp)]
    single = any(type_.dtype == FLOAT32 for type_ in types.values())
    convolves = any(target.startswith("aten.convolution") for target in used)
    return frozenset(("matmul", *(["conv"] if convolves else []))) if single else frozenset()
