"""What the readers of a program are passed: what is known before, and what grows as they read.

One `Context` is one graph: the program's, or that of a branch or a loop's body. What grows is in a
few collections, each with methods that say what is added; nothing else changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import torch
from torch.export import ExportedProgram

from aot.errors import MissingOperator, UnsupportedOperators
from aot.frontend.arguments import node_argument
from aot.frontend.places import SourcePaths
from aot.frontend.sizes import SizeTranslator, tensor_type
from aot.frontend.weights import dtype_of
from aot.ir.origin import NO_ORIGIN, Origin
from aot.ir.tensors import Dim, GraphOp, SizeRelation, TensorOp, TensorType, ValueRef, dims_in
from aot.symbolic import Expr, dim


class GraphOps:
    """The operators of one graph so far, in order, and the types of all values of the program."""

    def __init__(
        self, types: dict[str, TensorType] | None = None, ops: Iterable[GraphOp] = ()
    ) -> None:
        self._types = {} if types is None else types
        self._ops = list(ops)

    def inner(self, ops: Iterable[GraphOp] = ()) -> GraphOps:
        """Those of a block: operators of its own, to begin with `ops`; the same types."""
        return GraphOps(self._types, ops)

    @property
    def types(self) -> Mapping[str, TensorType]:
        """Value -> type."""
        return self._types

    @property
    def written(self) -> tuple[GraphOp, ...]:
        """The operators, in order."""
        return tuple(self._ops)

    def declare(self, name: str, type_: TensorType) -> ValueRef:
        """The value `name`, which has that type from now on."""
        self._types[name] = type_
        return ValueRef(name)

    def add(self, *ops: GraphOp) -> None:
        """More operators, whose results are declared."""
        self._ops += ops

    def call(
        self,
        target: str,
        args: Sequence[Any],
        name: str,
        type_: TensorType,
        origin: Origin,
        **kwargs: Any,
    ) -> ValueRef:
        """One more operator, with one result: `name`, of that type."""
        value = self.declare(name, type_)
        self.add(TensorOp(target, tuple(args), tuple(kwargs.items()), (name,), origin))
        return value


class Given:
    """Values that no operator makes: the caller's inputs, the model's weights and states."""

    def __init__(self) -> None:
        self._inputs: list[str] = []
        self._weights: dict[str, str] = {}
        self._states: dict[str, str] = {}
        self._tensors: dict[str, torch.Tensor] = {}

    @property
    def inputs(self) -> Sequence[str]:
        """Values of the inputs, in order."""
        return self._inputs

    @property
    def weights(self) -> Mapping[str, str]:
        """Value -> the weight's name in the model."""
        return self._weights

    @property
    def states(self) -> Mapping[str, str]:
        """Value -> the state's name in the model."""
        return self._states

    @property
    def tensors(self) -> Mapping[str, torch.Tensor]:
        """Name of a weight or state in the model -> what it is, or begins as."""
        return self._tensors

    def __contains__(self, name: str) -> bool:
        return name in self._inputs or name in self._weights or name in self._states

    def add_input(self, name: str) -> int:
        """One more input; its position."""
        self._inputs.append(name)
        return len(self._inputs) - 1

    def add_weight(self, name: str, fqn: str, tensor: torch.Tensor) -> None:
        """The value `name` is the model's weight `fqn`."""
        self._weights[name] = fqn
        self._tensors[fqn] = tensor

    def add_state(self, name: str, fqn: str, start: torch.Tensor) -> None:
        """The value `name` is the session's `fqn`, which begins as `start`."""
        self._states[name] = fqn
        self._tensors[fqn] = start


class MeasuredSizes:
    """Dims that the program itself measures, and the relations of sizes that a run checks."""

    def __init__(self) -> None:
        self._dims: list[Dim] = []
        self._claimed: set[str] = set()
        self._relations: list[SizeRelation] = []
        self._overstated: set[tuple[str, ...]] = set()

    @property
    def dims(self) -> Sequence[Dim]:
        """The dims, in the order of their measurement."""
        return self._dims

    @property
    def relations(self) -> Sequence[SizeRelation]:
        """What must hold when the program runs."""
        return self._relations

    def add(self, low: int, high: int | None, hint: int, label: str) -> Expr:
        """A new dim."""
        name = f"m{len(self._dims)}"
        self._dims.append(Dim(name, low, high, hint, None, label))
        return dim(name)

    @property
    def claimed(self) -> frozenset[str]:
        """Dims whose range is what the model claims of a number, which may be any."""
        return frozenset(self._claimed)

    def claim(self, size: Expr) -> None:
        """A tensor holds the number, which may be any: its range is what the model claims."""
        self._claimed.update(dims_in(size))

    def require(self, *relations: SizeRelation) -> None:
        """The relations must hold when the program runs."""
        self._relations += relations

    def overstate(self, symbol: str, bound: str) -> None:
        """torch's upper bound of its symbol is too low, and what it asserts of it wrong."""
        self._overstated.add((symbol, bound))

    def is_overstated(self, sides: Sequence[str]) -> bool:
        """Whether (symbol, bound) is one that torch is wrong about."""
        return tuple(sides) in self._overstated


class Refusals:
    """Calls that no package can hold."""

    def __init__(self) -> None:
        self._calls: list[MissingOperator] = []

    def add(self, call: MissingOperator) -> None:
        """One more, with its reason."""
        self._calls.append(call)

    def raise_any(self) -> None:
        """Refuse the program if there are any: one entry for each operator and reason.

        Raises:
            UnsupportedOperators: There are.
        """
        merged: dict[tuple[str, str], MissingOperator] = {}
        for call in self._calls:
            key = call.operator, call.reason
            before = merged.get(key, replace(call, origins=()))
            merged[key] = replace(before, origins=(*before.origins, *call.origins))
        if merged:
            raise UnsupportedOperators(list(merged.values()))


class Bindings:
    """What names of one graph stand for: its FX nodes, and masks that were measured there."""

    def __init__(
        self,
        true_counts: Mapping[str, Expr] | None = None,
        true_places: Mapping[str, ValueRef] | None = None,
    ) -> None:
        self._nodes: dict[str, Any] = {}
        self._numbers: dict[str, ValueRef] = {}
        self._true_counts = dict(true_counts or {})
        self._true_places = dict(true_places or {})

    def inner(self) -> Bindings:
        """Those of a block: it sees no nodes of the graph around it, but what was measured."""
        return Bindings(self._true_counts, self._true_places)

    @property
    def nodes(self) -> Mapping[str, Any]:
        """FX node -> a ValueRef, an Expr, a number, a sub-graph, or a tuple of these.

        Or the ValueError to raise where the node is used.
        """
        return self._nodes

    @property
    def numbers(self) -> Mapping[str, ValueRef]:
        """torch's symbol for a number that is computed here -> the number, float64."""
        return self._numbers

    @property
    def true_counts(self) -> Mapping[str, Expr]:
        """Mask -> how many true elements it has, where they were counted."""
        return self._true_counts

    @property
    def true_places(self) -> Mapping[str, ValueRef]:
        """Mask -> the indices of its true elements, where they were computed."""
        return self._true_places

    def bind(self, node: str, value: Any) -> None:
        """The node stands for the value."""
        self._nodes[node] = value

    def bind_number(self, symbol: str, number: ValueRef) -> None:
        """torch's symbol stands for the number."""
        self._numbers[symbol] = number

    def bind_true_count(self, mask: str, count: Expr) -> None:
        """The mask has so many true elements."""
        self._true_counts[mask] = count

    def bind_true_places(self, mask: str, indices: ValueRef) -> None:
        """The mask's true elements are at these indices, a row each."""
        self._true_places[mask] = indices


@dataclass(frozen=True)
class Context:
    """One graph of a program while it is read.

    Known before:
        program: As torch exports it.
        places: Where its lines are in the user's code.
        custom: Names of custom operators that are called, not lowered; as `--operator` has them.
        prefix: Of the names of the graph's values; "" for the program's own.
        around: The place of the control operator that the graph belongs to, for its operators of
            which torch knows none.

    Growing, common to the program and its blocks:
        sizes: torch's sizes in our algebra.
        given: Inputs, weights and states.
        measured: Sizes that the program computes, and relations.
        refusals: What cannot be packaged.
        draws: Numbers of the draws of random numbers.

    Growing, the graph's own:
        ops: Its operators.
        bindings: What its nodes stand for.
    """

    program: ExportedProgram
    places: SourcePaths
    custom: tuple[str, ...] = ()
    prefix: str = ""
    around: Origin = NO_ORIGIN
    sizes: SizeTranslator = field(default_factory=SizeTranslator)
    given: Given = field(default_factory=Given)
    measured: MeasuredSizes = field(default_factory=MeasuredSizes)
    refusals: Refusals = field(default_factory=Refusals)
    draws: Iterator[int] = field(default_factory=count)
    ops: GraphOps = field(default_factory=GraphOps)
    bindings: Bindings = field(default_factory=Bindings)

    def inner(self, name: str, origin: Origin) -> Context:
        """The context of a block `name` of the control operator at `origin`."""
        ops, bindings = self.ops.inner(), self.bindings.inner()
        return replace(self, prefix=f"{name}.", around=origin, ops=ops, bindings=bindings)

    def argument(self, argument: Any) -> Any:
        """An FX argument as a TensorOp's. Raises ValueError when it has no counterpart."""
        return node_argument(argument, self.bindings.nodes, self.sizes)

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


@dataclass(frozen=True)
class NodeCall:
    """One call in a graph: `name` is unique in the program, `value` the node's fake result."""

    name: str
    node: torch.fx.Node
    value: Any
    origin: Origin

    @property
    def target(self) -> str:
        """What is called, as torch writes it."""
        return str(self.node.target)
