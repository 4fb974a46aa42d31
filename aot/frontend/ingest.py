"""An exported program as a TensorGraph: the last place where torch objects exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.export.graph_signature import InputKind, InputSpec, OutputKind

from aot.errors import DynamicShapeError, ExportError, MissingOperator, UnsupportedOperators
from aot.frontend.arguments import is_no_op, node_argument, reject
from aot.frontend.assertions import ASSERTIONS, position_relations, read_assertion
from aot.frontend.associative import ASSOCIATIVE_SCAN, read_associative_scan
from aot.frontend.capture import Captured
from aot.frontend.control import CONTROL, ControlCall, read_control
from aot.frontend.labels import label_of, wanted_sizes
from aot.frontend.liveness import live_ops
from aot.frontend.measured import MEASURING, read_measured, read_number
from aot.frontend.measuring import MeasuredCall
from aot.frontend.open_dims import TRACED, without_lower_bound
from aot.frontend.operators import (
    CustomCall,
    is_custom,
    is_given,
    operator_name,
    read_operator,
    without_code,
)
from aot.frontend.places import Places, places_of
from aot.frontend.random_state import advance, draws, next_draw
from aot.frontend.signature import parameters_of, paths_of, tree_of
from aot.frontend.size_numbers import number_of_sizes
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
    traced_ranges,
)
from aot.frontend.user_kernels import LAUNCH, read_launch
from aot.frontend.weights import TorchWeights, dtype_of, identity_of, weight_specs
from aot.ir.dtypes import BOOL, FLOAT64
from aot.ir.origin import NO_ORIGIN, Origin
from aot.ir.tensors import (
    Block,
    Dim,
    GraphOp,
    Mutation,
    Signature,
    SizeRelation,
    TensorGraph,
    TensorOp,
    TensorType,
    Tree,
    ValueRef,
    all_outputs,
    dims_in,
    read_sizes,
    reads_of,
)
from aot.symbolic import dim, row_major_strides

_STATES = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION)
"""New values of what the session keeps."""


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
    reader = _Reader(captured, places_of(captured.root), tuple(operators))
    reader.read_inputs()
    dims, relations = reader.settle_sizes()
    reader.read_nodes()
    if reader.missing:
        raise UnsupportedOperators(_merged(reader.missing))
    outputs, result = reader.read_outputs()
    mutations = reader.read_mutations()
    results = {*outputs, *(m.value for m in mutations)}
    ops = live_ops(reader.ops, results, reader.types, reader.asserted())
    used = {n for op in ops for n in reads_of(op)} | results
    weights = {name: fqn for name, fqn in reader.weights.items() if name in used}
    states = reader.states
    kept = {*reader.inputs, *weights, *states, *results, *all_outputs(ops)}
    graph = TensorGraph(
        captured.name,
        (*dims, *(d for d in reader.measured if d.name in read_sizes(ops))),
        tuple(reader.inputs),
        tuple(weights.items()),
        ops,
        outputs,
        {name: type_ for name, type_ in reader.types.items() if name in kept},
        Signature(tuple(reader.parameters), result),
        (*relations, *open_relations(reader.relations, (*dims, *reader.measured))),
        tuple(states.items()),
        mutations,
    )
    stored = (*weights.values(), *states.values())
    specs = weight_specs(captured.program, reader.tensors)
    return graph, TorchWeights({fqn: reader.tensors[fqn] for fqn in stored}, specs)


@dataclass
class _Reader:
    """The state of one walk over the program's nodes."""

    captured: Captured
    places: Places
    operators: tuple[str, ...] = ()
    sizes: Sizes = field(default_factory=Sizes)
    types: dict[str, TensorType] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    weights: dict[str, str] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    parameters: list[Any] = field(default_factory=list)
    ops: list[GraphOp] = field(default_factory=list)
    missing: list[MissingOperator] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    """FX node name -> Argument: ValueRef, an Expr, a number, or a tuple of these."""
    prefix: str = ""
    """Of the names of values: that of the block, if this reads one."""
    measured: list[Dim] = field(default_factory=list)
    """Dims that the program measures."""
    true_places: dict[str, ValueRef] = field(default_factory=dict)
    """Mask -> indices of its true elements, where they were measured."""
    overstated: set[tuple[str, str]] = field(default_factory=set)
    """torch's symbols with upper bounds that are too low."""
    claimed: set[str] = field(default_factory=set)
    """Those of which a tensor holds any number: their ranges are what the model claims."""
    relations: list[SizeRelation] = field(default_factory=list)
    """Assertions about them."""
    draws: int = 0
    """Operators so far that draw random numbers."""
    around: Origin = NO_ORIGIN
    """The control operator's place, for operators of a block of which torch knows none."""

    def read_inputs(self) -> None:
        """Placeholders: user inputs become values, parameters and constants become weights.

        Raises:
            ExportError: A package cannot hold an input or weight, or a shared weight is changed.
        """
        program = self.captured.program
        by_name = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
        leaves: list[Tree] = []
        ties: dict[tuple[object, ...], str] = {}
        signature = program.graph_signature
        changed = {*signature.buffers_to_mutate.values(), *signature.parameters_to_mutate.values()}
        for spec in program.graph_signature.input_specs:
            node = by_name[spec.arg.name]
            if spec.kind is InputKind.USER_INPUT:
                leaves.append(self._user_input(node))
            elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
                self._weight(node, spec, ties, str(spec.target) in changed)
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
        self,
        node: torch.fx.Node,
        spec: InputSpec,
        ties: dict[tuple[object, ...], str],
        changes: bool,
    ) -> None:
        program, fqn = self.captured.program, str(spec.target)
        stored = program.constants.get(fqn, program.state_dict.get(fqn))
        dtype = dtype_of(stored.dtype) if isinstance(stored, torch.Tensor) else None
        if not isinstance(stored, torch.Tensor) or dtype is None:
            kind = stored.dtype if isinstance(stored, torch.Tensor) else type(stored).__name__
            raise ExportError(f"the model holds {fqn} of type {kind}, which packages cannot hold")
        first = ties.setdefault(identity_of(stored), node.name)
        if first != node.name and (changes or first in self.states):
            other = self.states.get(first) or self.weights[first]
            raise ExportError(
                f"the model changes {fqn if changes else other}, and {other} and {fqn} are the "
                "same memory",
                advice="Register the tensor once, and use it under that name.",
            )
        self.values[node.name] = ValueRef(first)
        if first == node.name:
            (self.states if changes else self.weights)[first] = fqn
            # Runs of the module, for reference results, change its buffers.
            self.tensors[fqn] = stored.detach().clone() if changes else stored
            contiguous = torch.empty(stored.shape, device="meta")
            self.types[first] = tensor_type(contiguous, self.sizes, dtype)

    def settle_sizes(self) -> tuple[tuple[Dim, ...], tuple[SizeRelation, ...]]:
        """Dims and relations; a dim that must be a multiple of m counts in units of m.

        Raises:
            DynamicShapeError: A size has no integer form, or no input's size determines it.
        """
        try:
            dims = self._dims()
            relations = read_guards(self.captured.guards, self._input_sizes())
            multiples = multiples_in(relations)
            if multiples:
                self.sizes.rename = {dim(s): m * dim(s) for s, m in multiples.items()}
                self.sizes.forget()
                dims = rescale(dims, multiples)
                relations = read_guards(self.captured.guards, self._input_sizes())
            self.sizes.ranges = traced_ranges(dims, multiples)
            self.sizes.forget()
            self._input_shapes()
        except ValueError as error:
            raise DynamicShapeError(f"cannot use a dynamic size: {error}") from error
        return dims, open_relations(relations, dims)

    def _input_shapes(self) -> list[tuple[Any, ...]]:
        by_name = {n.name: n for n in self.captured.program.graph.nodes if n.op == "placeholder"}
        changed = self.captured.program.graph_signature.user_inputs_to_mutate.values()
        for name in self.inputs:
            value = by_name[name].meta["val"]
            if name in changed and not value.is_contiguous():
                # Its new value is stored densely, in the layout that the old one is read in.
                value = torch.empty(value.shape, dtype=value.dtype, device="meta")
            self.types[name] = tensor_type(value, self.sizes, dtype_of(value.dtype))
        shapes = [self.types[name].shape for name in self.inputs]
        known = {symbol for shape in shapes for size in shape for symbol in size.free_symbols}
        for name in self.inputs:
            type_ = self.types[name]
            if any(not stride.free_symbols <= known for stride in type_.strides):
                # Strides that no size determines vary by themselves: any are copied to dense ones.
                self.types[name] = replace(type_, strides=row_major_strides(type_.shape))
        return shapes

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
        captured = self.captured
        wanted = wanted_sizes(captured.example, captured.parameter_names, captured.dynamic_shapes)
        for (position, axis), size in wanted.items():
            symbol = str(shapes[position][axis])
            if without_lower_bound(size) and bounds.get(symbol, (0, None))[0] == TRACED:
                bounds[symbol] = (0, bounds[symbol][1])
        labels = {axis: label_of(size) for axis, size in wanted.items() if label_of(size)}
        return find_dims(shapes, bounds, hints, labels)

    def read_nodes(self) -> None:
        """Calls, in order."""
        self._read(self.captured.program.graph_module)

    def _read(self, module: torch.fx.GraphModule) -> None:
        for node in module.graph.nodes:
            attribute = getattr(module, str(node.target), None) if node.op == "get_attr" else None
            if node.op == "call_function":
                self._call(node)
            elif isinstance(attribute, torch.fx.GraphModule):
                self.values[node.name] = attribute
            elif node.op not in ("placeholder", "output"):
                raise ExportError(f"the exported graph has a {node.op} of {node.target}")

    def block(
        self, name: str, module: torch.fx.GraphModule, given: Sequence[Any], origin: Origin
    ) -> Block:
        """A sub-graph as a block; see `control.BlockReader`.

        Raises:
            ValueError: A result of the sub-graph is no tensor, or has no counterpart.
        """
        places = dict(self.true_places)
        inner = replace(
            self, values={}, ops=[], prefix=f"{name}.", around=origin, true_places=places
        )
        placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        inner.values.update(zip((n.name for n in placeholders), given, strict=True))
        inner._read(module)
        output = next(n for n in module.graph.nodes if n.op == "output").args[0]
        results = output if isinstance(output, (list, tuple)) else (output,)
        names: list[str] = []
        for result in results:
            value = inner.argument(result)
            if not isinstance(value, ValueRef):
                raise ValueError("a result of its sub-graph is a number, no tensor")
            names.append(value.name)
        return Block(tuple(inner.ops), tuple(names))

    def argument(self, argument: Any) -> Any:
        """See `control.BlockReader`."""
        return node_argument(argument, self.values, self.sizes)

    def _call(self, node: torch.fx.Node) -> None:
        target = str(node.target)
        module = _module_of(node.meta.get("nn_module_stack"))
        origin = self.places.origin(node.meta.get("stack_trace"), target, module)
        if not origin.line and self.around.line:
            origin = replace(self.around, operator=target)
        custom = operator_name(node)
        if custom is not None and self._custom(node, custom, origin):
            return
        if target.startswith(ASSERTIONS):
            self._assertion(node, target, origin)
            return
        value = node.meta.get("val")
        numbers = (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool)
        known = isinstance(value, numbers) and not node.meta.get("unbacked_bindings")
        if target in MEASURING and not known:
            self._measure(node, value, target, origin)
            return
        if isinstance(value, numbers):
            self._number(node, value, origin)
            return
        if target == "<built-in function getitem>":
            source, position = node.args[0], node.args[1]
            if isinstance(source, torch.fx.Node) and isinstance(position, (int, str)):
                self.values[node.name] = self.values[source.name][position]
            return
        try:
            if target == LAUNCH:
                self._launch(node, value, origin)
            elif target in CONTROL or target == ASSOCIATIVE_SCAN:
                self._control_call(node, value, target, origin)
            else:
                self._tensor_call(node, value, target, origin)
        except ValueError as error:
            self.missing.append(reject(target, origin, str(error)))
            self.values[node.name] = _unknown(node.name, value)

    def _custom(self, node: torch.fx.Node, name: str, origin: Origin) -> bool:
        """Whether the call is one of a custom operator, which is then read."""
        given = is_given(name, self.operators)
        if not given and not is_custom(name):
            return False
        value = node.meta.get("val")
        call = CustomCall(f"{self.prefix}{node.name}", node, value, origin)
        self.values[node.name] = _unknown(call.name, value)
        if not given:
            self.missing.append(without_code(name, origin))
            return True
        try:
            op, refs = read_operator(self, call)
        except ValueError as error:
            self.missing.append(reject(name, origin, str(error)))
            return True
        self.ops.append(op)
        self.values[node.name] = refs if isinstance(value, (tuple, list)) else refs[0]
        return True

    def _launch(self, node: torch.fx.Node, value: Any, origin: Origin) -> None:
        """A call of a kernel of the model's own."""
        call = CustomCall(f"{self.prefix}{node.name}", node, value, origin)
        op, self.values[node.name] = read_launch(self, call)
        self.ops.append(op)

    def _assertion(self, node: torch.fx.Node, target: str, origin: Origin) -> None:
        try:
            self.relations += read_assertion(self, node, origin)
        except ValueError as error:
            self.missing.append(reject(target, origin, str(error)))

    def _measure(self, node: torch.fx.Node, value: Any, target: str, origin: Origin) -> None:
        """A call whose result has a size, or is a number, that tensors' values determine."""
        name = f"{self.prefix}{node.name}"
        try:
            args = tuple(self.argument(a) for a in node.args)
            if isinstance(value, (torch.SymFloat, torch.SymBool)):
                call = MeasuredCall(name, args, value, "", ("-oo", "oo"), origin)
                dtype = FLOAT64 if isinstance(value, torch.SymFloat) else BOOL
                self.values[node.name] = read_number(self, call, dtype)
                return
            symbols = tuple(node.meta.get("unbacked_bindings") or ())
            symbol = symbols[0] if symbols else ""
            known = self.captured.program.range_constraints.get(symbol)
            bounds = ("-oo", "oo") if known is None else (known.lower, known.upper)
            call = MeasuredCall(name, args, value, str(symbol), bounds, origin)
            self.values[node.name] = read_measured(self, target, call)
        except ValueError as error:
            self.missing.append(reject(target, origin, str(error)))
            self.values[node.name] = _unknown(name, value)

    def _number(self, node: torch.fx.Node, value: Any, origin: Origin) -> None:
        if isinstance(value, (int, float)):
            self.values[node.name] = value
            return
        try:
            if isinstance(value, torch.SymInt):
                self.values[node.name] = self.sizes.expr(value)
            else:
                name, expr = f"{self.prefix}{node.name}", value.node.expr
                self.values[node.name] = number_of_sizes(self, name, expr, origin)
        except ValueError as error:
            # Only an operator that uses it is an error; it will be named then.
            self.values[node.name] = error

    def _control_call(self, node: torch.fx.Node, value: Any, target: str, origin: Origin) -> None:
        args = tuple(self.argument(a) for a in node.args)
        results = tuple(value) if isinstance(value, (tuple, list)) else (value,)
        call = ControlCall(f"{self.prefix}{node.name}", args, results, origin)
        if target == ASSOCIATIVE_SCAN:
            self.values[node.name] = read_associative_scan(self, call)
            return
        op = read_control(self, target, call)
        self.ops.append(op)
        self.values[node.name] = tuple(ValueRef(name) for name in op.outputs)

    def _tensor_call(self, node: torch.fx.Node, value: Any, target: str, origin: Origin) -> None:
        args = tuple(node_argument(a, self.values, self.sizes) for a in node.args)
        kwargs = {k: node_argument(v, self.values, self.sizes) for k, v in node.kwargs.items()}
        results = tuple(value) if isinstance(value, (tuple, list)) else (value,)
        several = isinstance(value, (tuple, list))
        names = _result_names(node, self.prefix, len(results), several)
        for name, result in zip(names, results, strict=True):
            if name is not None:
                self.types[name] = self.type_of(result)
        only = names[0]
        if only is not None and is_no_op(target, args, self.types, self.types[only]):
            self.values[node.name] = args[0]
            return
        dropped = ("memory_format", "layout", "device", "pin_memory", "non_blocking", "generator")
        kept = tuple((k, v) for k, v in kwargs.items() if k not in dropped)
        if draws(target, args):
            kept = (*kept, ("draw", next_draw(self)))
        self.relations += position_relations(self, target, args, origin)
        self.ops.append(TensorOp(target, args, kept, names, origin))
        refs = tuple(None if n is None else ValueRef(n) for n in names)
        self.values[node.name] = refs if isinstance(value, (tuple, list)) else refs[0]

    def type_of(self, value: Any) -> TensorType:
        """The type of a (fake) tensor.

        Raises:
            ValueError: It is no tensor, or its element type or sizes have no counterpart.
        """
        if not isinstance(value, torch.Tensor):
            raise ValueError(f"it gives a {type(value).__name__}, not a tensor")
        dtype = dtype_of(value.dtype)
        if dtype is None:
            raise ValueError(f"it gives the element type {value.dtype}, which has no kernels")
        return tensor_type(value, self.sizes, dtype)

    def asserted(self) -> set[str]:
        """Dims to measure even where nothing uses them: the model asserts something of them."""
        return self.claimed.intersection(dims_in(tuple((r.left, r.right) for r in self.relations)))

    def read_outputs(self) -> tuple[tuple[str, ...], Tree]:
        """Names of the output values, and how they nest.

        Outputs that are inputs, weights or sizes get an operator of their own, so that every
        output is a result.
        """
        program = self.captured.program
        output = next(n for n in program.graph.nodes if n.op == "output")
        specs = program.graph_signature.output_specs
        leaves: list[Tree] = []
        names: list[str] = []
        for item, spec in zip(output.args[0], specs, strict=True):
            if spec.kind is not OutputKind.USER_OUTPUT:
                continue
            value = node_argument(item, self.values, self.sizes)
            if isinstance(value, (ValueRef, type(dim("s")))) or hasattr(value, "free_symbols"):
                leaves.append(Tree("leaf", len(names)))
                names.append(self._output_value(value, len(names)))
            else:
                leaves.append(Tree("constant", value))
        rest: Iterator[Tree] = iter(leaves)
        return tuple(names), tree_of(program.call_spec.out_spec, rest)

    def read_mutations(self) -> tuple[Mutation, ...]:
        """The new values of the buffers, parameters and inputs that the model changes.

        Raises:
            ExportError: An output of the program is neither a result nor such a value.
        """
        signature = self.captured.program.graph_signature
        names = {spec.target: spec.arg.name for spec in signature.input_specs if spec.target}
        found: dict[str, str] = {}
        for spec in signature.output_specs:
            if spec.kind is OutputKind.USER_OUTPUT:
                continue
            if spec.kind not in (*_STATES, OutputKind.USER_INPUT_MUTATION):
                raise ExportError(f"the exported program gives a {spec.kind.name} of {spec.target}")
            value = self.values[spec.arg.name]
            is_state = spec.kind in _STATES
            target = self.values[names[spec.target] if is_state else spec.target]
            if value != target:
                found[target.name] = value.name
        changed = (Mutation(target, value) for target, value in found.items())
        return (*changed, *advance(self))

    def _output_value(self, value: Any, position: int) -> str:
        made = f"output_{position}"
        origin = Origin("", 0, "output")
        if not isinstance(value, ValueRef):
            dtype = dtype_of(torch.int64)
            self.types[made] = replace(tensor_type(torch.empty(()), self.sizes, dtype))
            call = TensorOp("aten.full.default", ((), value), (("dtype", dtype),), (made,), origin)
        elif value.name in self.inputs or value.name in self.weights or value.name in self.states:
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
    if isinstance(value, dict):
        return {key: ValueRef(f"{name}_{key}") for key in value}
    return ValueRef(name)


def _result_names(
    node: torch.fx.Node, prefix: str, count: int, several: bool
) -> tuple[str | None, ...]:
    if not several:
        return (f"{prefix}{node.name}",)
    used: dict[int, str] = {}
    for user in node.users:
        if str(user.target) == "<built-in function getitem>" and user.users:
            used[int(user.args[1])] = f"{prefix}{node.name}_{user.args[1]}"  # type: ignore[arg-type]
    return tuple(used.get(k) for k in range(count))


def _merged(missing: list[MissingOperator]) -> list[MissingOperator]:
    """One entry for each operator and reason, with all its places."""
    merged: dict[tuple[str, str], MissingOperator] = {}
    for item in missing:
        key = item.operator, item.reason
        before = merged.get(key, replace(item, origins=()))
        merged[key] = replace(before, origins=(*before.origins, *item.origins))
    return list(merged.values())
