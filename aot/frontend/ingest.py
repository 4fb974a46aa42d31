"""An exported program as a TensorGraph: the last place where torch objects exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.export.graph_signature import InputKind, InputSpec, OutputKind

from aot.errors import DynamicShapeError, ExportError, MissingOperator, UnsupportedOperators
from aot.frontend.arguments import is_no_op, node_argument, reject
from aot.frontend.capture import Captured
from aot.frontend.labels import dim_labels
from aot.frontend.places import Places, places_of
from aot.frontend.signature import parameters_of, paths_of, tree_of
from aot.frontend.sizes import (
    InputSizes,
    Sizes,
    find_dims,
    finite,
    multiples_in,
    open_relations,
    read_guards,
    rescale,
    tensor_type,
)
from aot.frontend.weights import TorchWeights, dtype_of, identity_of
from aot.ir.origin import Origin
from aot.ir.tensors import (
    Dim,
    Signature,
    SizeRelation,
    TensorGraph,
    TensorOp,
    TensorType,
    Tree,
    ValueRef,
)
from aot.symbolic import dim

_SIZE_ASSERTIONS = ("_assert", "sym_constrain", "_functional_sym_constrain")


def ingest(captured: Captured) -> tuple[TensorGraph, TorchWeights]:
    """The captured program without torch, and its weights.

    Raises:
        UnsupportedOperators: Values of types or sizes that packages cannot hold.
        ExportError: The model changes its inputs or buffers, or takes numbers that vary.
        DynamicShapeError: A size that no input determines.
    """
    reader = _Reader(captured, places_of(captured.root))
    reader.read_inputs()
    dims, relations = reader.settle_sizes()
    reader.read_nodes()
    if reader.missing:
        raise UnsupportedOperators(_merged(reader.missing))
    outputs, result = reader.read_outputs()
    ops = _live(reader.ops, set(outputs))
    used = {n for op in ops for n in _names_in((op.args, op.kwargs))} | set(outputs)
    weights = {name: fqn for name, fqn in reader.weights.items() if name in used}
    kept = {*reader.inputs, *weights, *outputs, *(o for op in ops for o in op.outputs if o)}
    graph = TensorGraph(
        captured.name,
        dims,
        tuple(reader.inputs),
        tuple(weights.items()),
        ops,
        outputs,
        {name: type_ for name, type_ in reader.types.items() if name in kept},
        Signature(tuple(reader.parameters), result),
        relations,
    )
    return graph, TorchWeights({fqn: reader.tensors[fqn] for fqn in weights.values()})


@dataclass
class _Reader:
    """The state of one walk over the program's nodes."""

    captured: Captured
    places: Places
    sizes: Sizes = field(default_factory=Sizes)
    types: dict[str, TensorType] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    weights: dict[str, str] = field(default_factory=dict)
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    parameters: list[Any] = field(default_factory=list)
    ops: list[TensorOp] = field(default_factory=list)
    missing: list[MissingOperator] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    """FX node name -> Argument: ValueRef, an Expr, a number, or a tuple of these."""

    def read_inputs(self) -> None:
        """Placeholders: user inputs become values, parameters and constants become weights."""
        program = self.captured.program
        by_name = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
        leaves: list[Tree] = []
        ties: dict[tuple[object, ...], str] = {}
        for spec in program.graph_signature.input_specs:
            node = by_name[spec.arg.name]
            if spec.kind is InputKind.USER_INPUT:
                leaves.append(self._user_input(node))
            elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
                self._weight(node, spec, ties)
            else:
                raise ExportError(f"the model uses {spec.kind.name} {spec.target}, not supported")
        spec_of_inputs = program.call_spec.in_spec
        self.parameters = parameters_of(spec_of_inputs, leaves, self.captured.parameter_names)

    def _user_input(self, node: torch.fx.Node) -> Tree:
        value = node.meta.get("val")
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            raise ExportError(
                f"the input {node.name} is a number that varies",
                advice="Pass it as a 0-dimensional tensor.",
            )
        if not isinstance(value, torch.Tensor):
            self.values[node.name] = value
            return Tree("constant", value)
        if dtype_of(value.dtype) is None:
            raise ExportError(f"the input {node.name} has the element type {value.dtype}")
        self.inputs.append(node.name)
        self.values[node.name] = ValueRef(node.name)
        return Tree("leaf", len(self.inputs) - 1)

    def _weight(
        self, node: torch.fx.Node, spec: InputSpec, ties: dict[tuple[object, ...], str]
    ) -> None:
        program, fqn = self.captured.program, str(spec.target)
        stored = program.constants.get(fqn, program.state_dict.get(fqn))
        dtype = dtype_of(stored.dtype) if isinstance(stored, torch.Tensor) else None
        if not isinstance(stored, torch.Tensor) or dtype is None:
            kind = stored.dtype if isinstance(stored, torch.Tensor) else type(stored).__name__
            raise ExportError(f"the model holds {fqn} of type {kind}, which packages cannot hold")
        first = ties.setdefault(identity_of(stored), node.name)
        self.values[node.name] = ValueRef(first)
        if first == node.name:
            self.weights[first] = fqn
            self.tensors[fqn] = stored
            contiguous = torch.empty(stored.shape, device="meta")
            self.types[first] = tensor_type(contiguous, self.sizes, dtype)

    def settle_sizes(self) -> tuple[tuple[Dim, ...], tuple[SizeRelation, ...]]:
        """Dims and relations; a dim that must be a multiple of m counts in units of m."""
        try:
            dims = self._dims()
            relations = read_guards(self.captured.guards, self._input_sizes())
            multiples = multiples_in(relations)
            if multiples:
                self.sizes.rename = {dim(s): m * dim(s) for s, m in multiples.items()}
                self.sizes.forget()
                dims = rescale(dims, multiples)
                relations = read_guards(self.captured.guards, self._input_sizes())
            self._input_shapes()
        except ValueError as error:
            raise DynamicShapeError(f"cannot use a dynamic size: {error}") from error
        return dims, open_relations(relations, dims)

    def _input_shapes(self) -> list[tuple[Any, ...]]:
        by_name = {n.name: n for n in self.captured.program.graph.nodes if n.op == "placeholder"}
        for name in self.inputs:
            value = by_name[name].meta["val"]
            self.types[name] = tensor_type(value, self.sizes, dtype_of(value.dtype))
        return [self.types[name].shape for name in self.inputs]

    def _input_sizes(self) -> InputSizes:
        shapes = self._input_shapes()
        paths = paths_of(self.parameters)
        by_path = {paths[k]: shape for k, shape in enumerate(shapes)}
        for (name, *steps), shape in list(by_path.items()):
            base, _, number = str(name).rpartition("_")
            if number.isdigit():  # torch writes args[1] for what the placeholder calls args_1
                by_path.setdefault((base, int(number), *steps), shape)
        return InputSizes(by_path)

    def _dims(self) -> tuple[Dim, ...]:
        shapes = self._input_shapes()
        constraints = self.captured.program.range_constraints
        bounds = {
            str(s): (max(finite(r.lower) or 0, 0), finite(r.upper)) for s, r in constraints.items()
        }
        hints: dict[str, int] = {}
        by_name = {n.name: n for n in self.captured.program.graph.nodes if n.op == "placeholder"}
        for name in self.inputs:
            for size in by_name[name].meta["val"].shape:
                if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                    hints[str(size.node.expr)] = int(size.node.hint)
        return find_dims(shapes, bounds, hints, dim_labels(self.captured))

    def read_nodes(self) -> None:
        """Calls, in order."""
        for node in self.captured.program.graph.nodes:
            if node.op == "call_function":
                self._call(node)
            elif node.op not in ("placeholder", "output"):
                raise ExportError(f"the exported graph has a {node.op} of {node.target}")

    def _call(self, node: torch.fx.Node) -> None:
        target = str(node.target)
        operator = target.removeprefix("aten.")
        if operator.startswith(_SIZE_ASSERTIONS):
            return
        value = node.meta.get("val")
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool)):
            self._number(node, value)
            return
        if target == "<built-in function getitem>":
            source, position = node.args[0], node.args[1]
            if isinstance(source, torch.fx.Node) and isinstance(position, int):
                self.values[node.name] = self.values[source.name][position]
            return
        module = _module_of(node.meta.get("nn_module_stack"))
        origin = self.places.origin(node.meta.get("stack_trace"), target, module)
        try:
            self._tensor_call(node, value, target, origin)
        except ValueError as error:
            self.missing.append(reject(target, origin, str(error)))
            self.values[node.name] = _unknown(node.name, value)

    def _number(self, node: torch.fx.Node, value: Any) -> None:
        if isinstance(value, torch.SymInt):
            try:
                self.values[node.name] = self.sizes.expr(value)
            except ValueError as error:
                # Only an operator that uses it is an error; it will be named then.
                self.values[node.name] = error
        elif isinstance(value, (int, float)):
            self.values[node.name] = value
        else:
            self.values[node.name] = ValueError(f"the number {value} depends on sizes")

    def _tensor_call(self, node: torch.fx.Node, value: Any, target: str, origin: Origin) -> None:
        args = tuple(node_argument(a, self.values, self.sizes) for a in node.args)
        kwargs = {k: node_argument(v, self.values, self.sizes) for k, v in node.kwargs.items()}
        results = tuple(value) if isinstance(value, (tuple, list)) else (value,)
        names = _result_names(node, len(results), isinstance(value, (tuple, list)))
        for name, result in zip(names, results, strict=True):
            if name is not None:
                self.types[name] = self._type(result)
        only = names[0]
        if only is not None and is_no_op(target, args, self.types, self.types[only]):
            self.values[node.name] = args[0]
            return
        dropped = ("memory_format", "layout", "device", "pin_memory", "non_blocking")
        kept = tuple((k, v) for k, v in kwargs.items() if k not in dropped)
        self.ops.append(TensorOp(target, args, kept, names, origin))
        refs = tuple(None if n is None else ValueRef(n) for n in names)
        self.values[node.name] = refs if isinstance(value, (tuple, list)) else refs[0]

    def _type(self, value: Any) -> TensorType:
        if not isinstance(value, torch.Tensor):
            raise ValueError(f"it gives a {type(value).__name__}, not a tensor")
        dtype = dtype_of(value.dtype)
        if dtype is None:
            raise ValueError(f"it gives the element type {value.dtype}, which has no kernels")
        return tensor_type(value, self.sizes, dtype)

    def read_outputs(self) -> tuple[tuple[str, ...], Tree]:
        """Names of the output values, and how they nest.

        Outputs that are inputs, weights or sizes get an operator of their own, so that every
        output is a result.
        """
        program = self.captured.program
        output = next(n for n in program.graph.nodes if n.op == "output")
        self._check_effects()
        leaves: list[Tree] = []
        names: list[str] = []
        for item in output.args[0]:
            value = node_argument(item, self.values, self.sizes)
            if isinstance(value, (ValueRef, type(dim("s")))) or hasattr(value, "free_symbols"):
                leaves.append(Tree("leaf", len(names)))
                names.append(self._output_value(value, len(names)))
            else:
                leaves.append(Tree("constant", value))
        rest: Iterator[Tree] = iter(leaves)
        return tuple(names), tree_of(program.call_spec.out_spec, rest)

    def _check_effects(self) -> None:
        specs = self.captured.program.graph_signature.output_specs
        for spec in specs:
            if spec.kind is OutputKind.USER_OUTPUT:
                continue
            changed = "input" if "INPUT" in spec.kind.name else "buffer"
            where = str(self._origin_of(spec.arg.name))
            raise ExportError(
                f"the model changes its {changed} {spec.target} in place",
                where=where,
                advice="Return the new value as an output and pass it in at the next call.",
            )

    def _origin_of(self, name: str) -> Origin:
        made = (op.origin for op in self.ops if name in op.outputs)
        return next(made, Origin("", 0, ""))

    def _output_value(self, value: Any, position: int) -> str:
        made = f"output_{position}"
        origin = Origin("", 0, "output")
        if not isinstance(value, ValueRef):
            dtype = dtype_of(torch.int64)
            self.types[made] = replace(tensor_type(torch.empty(()), self.sizes, dtype))
            call = TensorOp("aten.full.default", ((), value), (("dtype", dtype),), (made,), origin)
        elif value.name in self.inputs or value.name in self.weights:
            self.types[made] = self.types[value.name]
            call = TensorOp("aten.clone.default", (value,), (), (made,), origin)
        else:
            return value.name
        self.ops.append(call)
        return made


def _module_of(stack: Mapping[str, tuple[str, Any]] | None) -> str:
    """The innermost submodule of torch's module stack, as `Linear "encoder.0"`."""
    if not stack:
        return ""
    path, kind = list(stack.values())[-1]
    return f'{str(kind).rpartition(".")[2]} "{path}"'


def _unknown(name: str, value: Any) -> Any:
    """What users of a rejected operator see, so that they can be looked at too."""
    if isinstance(value, (tuple, list)):
        return tuple(ValueRef(f"{name}_{k}") for k in range(len(value)))
    return ValueRef(name)


def _result_names(node: torch.fx.Node, count: int, several: bool) -> tuple[str | None, ...]:
    if not several:
        return (node.name,)
    used: dict[int, str] = {}
    for user in node.users:
        if str(user.target) == "<built-in function getitem>" and user.users:
            used[int(user.args[1])] = f"{node.name}_{user.args[1]}"  # type: ignore[arg-type]
    return tuple(used.get(k) for k in range(count))


def _names_in(argument: Any) -> Iterator[str]:
    if isinstance(argument, ValueRef):
        yield argument.name
    elif isinstance(argument, tuple):
        for a in argument:
            yield from _names_in(a)


def _live(ops: list[TensorOp], wanted: set[str]) -> tuple[TensorOp, ...]:
    """The operators that the outputs need; unused results become None."""
    kept: list[TensorOp] = []
    for op in reversed(ops):
        outputs = tuple(o if o in wanted else None for o in op.outputs)
        if any(outputs):
            wanted.update(_names_in((op.args, op.kwargs)))
            kept.append(op if outputs == op.outputs else replace(op, outputs=outputs))
    return tuple(reversed(kept))


def _merged(missing: list[MissingOperator]) -> list[MissingOperator]:
    """One entry for each operator and reason, with all its places."""
    places: dict[tuple[str, str], list[Origin]] = {}
    for item in missing:
        places.setdefault((item.operator, item.reason), []).extend(item.origins)
    return [MissingOperator(op, tuple(o), reason) for (op, reason), o in places.items()]


def reference_types(graph: TensorGraph) -> Mapping[str, TensorType]:
    """Types of the outputs by name, for tests and golden values."""
    return {name: graph.types[name] for name in graph.outputs}
