"""What a program is given: its placeholders, and the dims that their sizes bind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from itertools import chain
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.export.graph_signature import InputKind, InputSpec
from torch.utils import _pytree as pytree

from aot.errors import DynamicShapeError, ExportError
from aot.frontend.asked_ranges import Range, check_bounds, check_example, check_relations
from aot.frontend.capture import Captured
from aot.frontend.context import Context
from aot.frontend.failures import not_plain
from aot.frontend.labels import InputAxis, label_of, wanted_sizes
from aot.frontend.open_dims import TRACED, is_bounded, least_size
from aot.frontend.operator_decisions import decisions_of
from aot.frontend.places import places_of
from aot.frontend.signature import parameters_of, paths_of
from aot.frontend.size_decisions import SizeDecision, above, relations_of
from aot.frontend.sizes import (
    InputSizes,
    find_dims,
    finite,
    multiples_in,
    open_relations,
    ranges_of,
    read_guards,
    rescale,
    tensor_type,
    traced_ranges,
)
from aot.frontend.small_sizes import runs_alike, sizes_to_try
from aot.frontend.weights import advice_on, dtype_of, identity_of
from aot.ir.tensors import Dim, Parameter, SizeRelation, TensorType, Tree, ValueRef
from aot.symbolic import Expr, Symbol, is_int, row_major_strides

Shape = tuple[Expr, ...]


def read_inputs(context: Context, names: Sequence[str]) -> tuple[Parameter, ...]:
    """Placeholders: user inputs become values, parameters and constants become weights.

    The result is forward's parameters; `names` are theirs.

    Raises:
        ExportError: A package cannot hold an input or weight, or a shared weight is changed.
    """
    program = context.program
    nodes = _placeholders(context)
    leaves: list[Tree] = []
    ties: dict[tuple[object, ...], str] = {}
    signature = program.graph_signature
    changed = {*signature.buffers_to_mutate.values(), *signature.parameters_to_mutate.values()}
    for spec in signature.input_specs:
        node = nodes[spec.arg.name]
        if spec.kind is InputKind.USER_INPUT:
            leaves.append(_read_input(context, node))
        elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            _read_weight(context, node, spec, ties, changes=str(spec.target) in changed)
        elif spec.kind is InputKind.TOKEN:
            context.bindings.bind(node.name, None)
        else:
            kind = type(program.constants.get(str(spec.target))).__name__
            raise ExportError(
                f"the model holds a {kind} of its own, which packages cannot hold",
                advice="Random numbers come from the run's own generator: leave `generator` out."
                if kind == "Generator"
                else "Keep its numbers in tensors: buffers, or inputs.",
            )
    return tuple(parameters_of(program.call_spec.in_spec, leaves, names))


def _placeholders(context: Context) -> dict[str, torch.fx.Node]:
    return {n.name: n for n in context.program.graph.nodes if n.op == "placeholder"}


def _read_input(context: Context, node: torch.fx.Node) -> Tree:
    value = node.meta.get("val")
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        raise ExportError(
            f"the input {node.name} is a number that varies",
            advice="Pass it as a 0-dimensional tensor.",
        )
    if not isinstance(value, torch.Tensor):
        context.bindings.bind(node.name, value)
        return Tree("constant", value.name if isinstance(value, Enum) else value)
    if value.layout is not torch.strided:
        raise not_plain(node.name)
    if dtype_of(value.dtype) is None:
        raise ExportError(
            f"the input {node.name} has the element type {value.dtype}",
            advice=advice_on(value.dtype),
        )
    context.bindings.bind(node.name, ValueRef(node.name))
    return Tree("leaf", context.given.add_input(node.name))


def _read_weight(
    context: Context,
    node: torch.fx.Node,
    spec: InputSpec,
    ties: dict[tuple[object, ...], str],
    *,
    changes: bool,
) -> None:
    """A parameter, buffer or constant, or one more name of one.

    Args:
        context: Where it is added.
        node: Its placeholder.
        spec: Which it is in the model.
        ties: Memory -> the value that it is; grows.
        changes: Whether runs of the model change it.

    Raises:
        ExportError: A package cannot hold its type, or it changes and shares its memory.
    """
    program, given, fqn = context.program, context.given, str(spec.target)
    stored = program.constants.get(fqn, program.state_dict.get(fqn))
    dtype = dtype_of(stored.dtype) if isinstance(stored, torch.Tensor) else None
    if not isinstance(stored, torch.Tensor) or dtype is None:
        kind = stored.dtype if isinstance(stored, torch.Tensor) else type(stored).__name__
        raise ExportError(
            f"the model holds {fqn} of type {kind}, which packages cannot hold",
            advice=advice_on(kind) if isinstance(kind, torch.dtype) else "",
        )
    if stored.layout != torch.strided:
        raise ExportError(
            f"the model holds {fqn}, a sparse tensor, which packages cannot hold",
            advice="Register its rows, columns and values as buffers, and add up products by "
            "zeros.index_add(0, rows, values[:, None] * x[columns]); or its to_dense().",
        )
    if isinstance(stored, FakeTensor):
        raise ExportError(
            f"the model keeps {fqn}, a tensor without values that was made while it was traced",
            advice="Compute it anew in every call, or keep it before the model is packaged: what "
            "forward, or a function transform as torch.func.linearize, remembers has no values.",
        )
    first = ties.setdefault(identity_of(stored), node.name)
    if first != node.name and (changes or first in given.states):
        other = given.states.get(first) or given.weights[first]
        raise ExportError(
            f"the model changes {fqn if changes else other}, and {other} and {fqn} are the "
            "same memory",
            advice="Register the tensor once, and use it under that name.",
        )
    context.bindings.bind(node.name, ValueRef(first))
    if first != node.name:
        return
    if changes:
        # Runs of the module, for reference results, change its buffers.
        given.add_state(first, fqn, stored.detach().clone())
    else:
        given.add_weight(first, fqn, stored)
    contiguous = torch.empty(stored.shape, device="meta")
    context.ops.declare(first, tensor_type(contiguous, context.sizes, dtype))


def settle_sizes(
    context: Context, captured: Captured, parameters: Sequence[Parameter]
) -> tuple[tuple[Dim, ...], tuple[SizeRelation, ...]]:
    """Dims and relations; a dim that must be a multiple of m counts in units of m.

    Raises:
        DynamicShapeError: A size has no integer form, or no input's size determines it.
    """
    settling = _Settling(context, captured, parameters)
    sizes = context.sizes
    try:
        asked = settling.asked()
        dims = settling.dims(asked)
        decisions = settling.decisions(dims)
        relations = check_relations(settling.relations(dims, decisions), dims, asked)
        check_example(relations, dims, settling.example())
        multiples = multiples_in(relations)
        if multiples:
            sizes.count_in(multiples)
            dims = rescale(dims, multiples)
            relations = settling.relations(dims, decisions)
        sizes.assume(traced_ranges(dims, multiples), ranges_of(dims))
        settling.shapes()
    except ValueError as error:
        raise DynamicShapeError(f"cannot use a dynamic size: {error}") from error
    return dims, open_relations(relations, dims)


def _is_of_example(type_: TensorType) -> bool:
    """Whether a stride is the example's, as it is a number and goes over a dynamic dimension."""
    axes = list(zip(type_.shape, type_.strides, strict=True))
    over = [stride for size, stride in axes if not is_int(size) and is_int(stride)]
    return any(is_int(stride) and any(int(stride) > int(s) for s in over) for _, stride in axes)


@dataclass(frozen=True)
class _Settling:
    """The inputs' sizes as the context's `sizes` translates them at the time of each call.

    All methods raise ValueError for a size that has no integer form.
    """

    context: Context
    captured: Captured
    parameters: Sequence[Parameter]

    def shapes(self) -> list[Shape]:
        """The inputs' shapes; their types are declared anew."""
        nodes, ops = _placeholders(self.context), self.context.ops
        inputs = self.context.given.inputs
        changed = self.context.program.graph_signature.user_inputs_to_mutate.values()
        for name in inputs:
            value = nodes[name].meta["val"]
            if name in changed and not value.is_contiguous():
                # Its new value is stored densely, in the layout that the old one is read in.
                value = torch.empty(value.shape, dtype=value.dtype, device="meta")
            ops.declare(name, tensor_type(value, self.context.sizes, dtype_of(value.dtype)))
        shapes = [ops.types[name].shape for name in inputs]
        known = {symbol for shape in shapes for size in shape for symbol in size.free_symbols}
        for name in inputs:
            type_ = ops.types[name]
            if any(not s.free_symbols <= known for s in type_.strides) or _is_of_example(type_):
                # Strides that no size determines vary by themselves: any are copied to dense ones.
                ops.declare(name, replace(type_, strides=row_major_strides(type_.shape)))
        return shapes

    def by_path(self) -> InputSizes:
        """The shapes by the names that torch's guards have for the inputs."""
        paths = paths_of(self.parameters)
        by_path = {paths[k]: shape for k, shape in enumerate(self.shapes())}
        for (name, *steps), shape in list(by_path.items()):
            base, _, number = str(name).rpartition("_")
            if number.isdigit():  # torch writes args[1] for what the placeholder calls args_1
                by_path.setdefault((base, int(number), *steps), shape)
        return InputSizes(by_path)

    def dims(self, asked: Mapping[str, Range]) -> tuple[Dim, ...]:
        """The dims that the shapes bind, with the ranges and labels that the user asked for."""
        shapes = self.shapes()
        bounds = {
            str(s): (max(finite(r.lower) or 0, 0), finite(r.upper))
            for s, r in self.context.program.range_constraints.items()
        }
        wanted = self._wanted()
        for (position, axis), size in wanted.items():
            symbol = str(shapes[position][axis])
            least = least_size(size)
            if least is not None and bounds.get(symbol, (0, None))[0] == TRACED:
                bounds[symbol] = (min(least, TRACED), bounds[symbol][1])
        labels = {axis: label_of(size) for axis, size in wanted.items() if label_of(size)}
        dims = find_dims(shapes, {**bounds, **asked}, self._hints(), labels)
        check_bounds(asked, bounds, dims)
        return dims

    def relations(
        self, dims: Sequence[Dim], decisions: Iterable[SizeDecision]
    ) -> tuple[SizeRelation, ...]:
        """What torch and the user's code decided on sizes."""
        guards = read_guards(self.captured.guards, self.by_path(), dims)
        return (*guards, *self._relations_of(decisions, dims))

    def decisions(self, dims: Sequence[Dim]) -> tuple[SizeDecision, ...]:
        """The operators', and the user's code's that are seen to make a difference."""
        traced, bounds = traced_ranges(dims, {}), ranges_of(dims).dims

        @cache
        def is_alike(symbol: Symbol, size: int) -> bool:
            """Whether eager and the program give the same at a size."""
            return runs_alike(self.captured, self._axes_of(symbol), size)

        def kept(decision: SizeDecision) -> Iterator[SizeDecision]:
            """What of a decision makes a difference."""
            open_ = open_relations(self._relations_of([decision], dims), dims)
            symbols = {s for r in open_ for s in r.left.free_symbols | r.right.free_symbols}
            if not open_:
                return
            (symbol, *more) = symbols
            others = None if more else sizes_to_try(open_, symbol, traced, bounds[symbol])
            if others is None:
                yield decision
                return
            unlike = [size for size in others if not is_alike(symbol, size)]
            first = unlike == others[: len(unlike)] and unlike != others
            if unlike and first and unlike[-1] < TRACED:
                yield above(decision, symbol, unlike[-1])
            elif unlike:
                yield decision

        # What operators decide is not tried: run by torch at such a size, they decide anew.
        by_operators = decisions_of(self.captured.program, places_of(self.captured.root))
        return (*chain.from_iterable(map(kept, self.captured.decisions)), *by_operators)

    def _relations_of(
        self, decisions: Iterable[SizeDecision], dims: Sequence[Dim]
    ) -> tuple[SizeRelation, ...]:
        places = places_of(self.captured.root)
        return relations_of(decisions, self.context.sizes.foreign, dims, places)

    def _axes_of(self, symbol: Symbol) -> list[InputAxis]:
        """Where inputs have this size, and where the user asked for the same by its name."""
        sizes = {(p, k): s for p, shape in enumerate(self.shapes()) for k, s in enumerate(shape)}
        labels = {axis: label_of(size) for axis, size in self._wanted().items()}
        own = {labels.get(axis) for axis, size in sizes.items() if size == symbol} - {None, ""}
        return [axis for axis in sizes if sizes[axis] == symbol or labels.get(axis) in own]

    def example(self) -> dict[Symbol, int]:
        """Symbols that stand for sizes, with the example's: none for a program without one."""
        leaves = pytree.tree_leaves((self.captured.example[0], dict(self.captured.example[1])))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        return {
            size: tensor.shape[axis]
            for shape, tensor in zip(self.shapes(), tensors, strict=False)
            for axis, size in enumerate(shape)
            if size.is_Symbol
        }

    def asked(self) -> dict[str, Range]:
        """Symbols that stand for sizes whose range the user gave, with the range."""
        shapes = self.shapes()
        found: dict[str, Range] = {}
        for (position, axis), size in self._wanted().items():
            traced = shapes[position][axis]
            (symbol, *others) = traced.free_symbols or (None,)
            if symbol is None or others or not is_bounded(size):
                continue
            # n + 1, where the user asked for a dimension one longer than another.
            more = traced - symbol
            if is_int(more):
                found[str(symbol)] = (int(size.min) - int(more), int(size.max) - int(more))
        return found

    def _wanted(self) -> dict[InputAxis, Any]:
        """What the user asked of each size."""
        captured = self.captured
        return wanted_sizes(captured.example, captured.parameter_names, captured.dynamic_shapes)

    def _hints(self) -> dict[str, int]:
        """torch's symbols -> their sizes in the example."""
        nodes = _placeholders(self.context)
        every: list[Any] = [
            s for name in self.context.given.inputs for s in nodes[name].meta["val"].shape
        ]
        traced = {
            str(size.node.expr): int(size.node.hint)
            for size in every
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol
        }
        # It may have been traced at others, and is to be fast at these.
        own = {str(symbol): n for symbol, n in self.example().items() if n >= TRACED}
        return {**traced, **{name: n for name, n in own.items() if name in traced}}
