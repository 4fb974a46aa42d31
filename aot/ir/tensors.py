"""The tensor graph: what the front end hands over. ATen operators on named values, no torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from aot.ir.dtypes import DType
from aot.ir.origin import Origin
from aot.ir.user_kernel import UserKernel
from aot.symbolic import Expr


@dataclass(frozen=True)
class TensorType:
    """dtype, logical shape, and strides in elements, as eager has them."""

    dtype: DType
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...]

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)


@dataclass(frozen=True)
class Dim:
    """A dynamic size.

    `source`: (input position, axis, divisor, offset), value = (actual - offset) / divisor; None:
    the dim is measured, a `SizeRead` binds it while the program runs.

    `maximum` None: unbounded. `hint`: the example's value, or what is said to be typical: used by
    cost models only.
    """

    name: str
    minimum: int
    maximum: int | None
    hint: int
    source: tuple[int, int, int, int] | None
    label: str = ""
    multiple_of: int = 1


@dataclass(frozen=True)
class ValueRef:
    """A reference to a named tensor value."""

    name: str

    def __str__(self) -> str:
        return f"%{self.name}"


Argument = Any
"""ValueRef, DType, Expr (a symbolic size), a number, str, None, or a tuple of Arguments."""


@dataclass(frozen=True)
class TensorOp:
    """One operator call.

    `target`: "aten.add.Tensor". `outputs`: names; None for an unused result.
    """

    target: str
    args: tuple[Argument, ...]
    kwargs: tuple[tuple[str, Argument], ...]
    outputs: tuple[str | None, ...]
    origin: Origin


@dataclass(frozen=True)
class Block:
    """The operators of a sub-graph, in order; its results may be values from outside of it.

    Operators read values of the graphs around them by name: names are unique in a TensorGraph with
    all its blocks.
    """

    ops: tuple[GraphOp, ...]
    results: tuple[str, ...]


@dataclass(frozen=True)
class Cond:
    """One of two blocks runs: `then` where `predicate` (a bool without dimensions) holds.

    `outputs`: one for each result of either block.
    """

    predicate: str
    then: Block
    otherwise: Block
    outputs: tuple[str, ...]
    origin: Origin


@dataclass(frozen=True)
class Loop:
    """A block that runs again and again.

    `carried`: (name, initial value): the name holds the initial value in the first iteration, then
    the body's result of that position, and at last the loop's own result.
    `condition`: its one result, a bool, says before each iteration whether there is another.
    Without one there are `count` iterations.
    `slices`: (name, value): in iteration k the name is element k of the value along axis 0.
    `stacked`: the body's results behind the carried ones, stacked along axis 0.
    """

    carried: tuple[tuple[str, str], ...]
    condition: Block | None
    count: Expr | None
    slices: tuple[tuple[str, str], ...]
    body: Block
    stacked: tuple[str, ...]
    origin: Origin

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names that what follows may read."""
        return (*(name for name, _ in self.carried), *self.stacked)


@dataclass(frozen=True)
class SizeRead:
    """Binds the measured dim `dim` to `value`, an int64 without dimensions."""

    dim: str
    value: str
    origin: Origin

    @property
    def outputs(self) -> tuple[str, ...]:
        """None: a dim is no value."""
        return ()


@dataclass(frozen=True)
class Assertion:
    """Fails the run with `message` where `value`, a bool without dimensions, is false."""

    value: str
    message: str
    origin: Origin

    @property
    def outputs(self) -> tuple[str, ...]:
        """None."""
        return ()


@dataclass(frozen=True)
class OperatorCall:
    """Calls code of the model's own: a custom operator or a kernel.

    The runtime is given a custom operator's code under `name` ("ns::name.overload").

    Attributes:
        name: As torch names the overload; without ".default". Of a kernel, its own.
        arguments: All of the schema's, in its order: (name, kind, value). `kind`: none, tensor,
            int, float, bool or string; with "[]" a list of these, whose value is a tuple. Tensors
            are ValueRefs, ints may be Exprs. Of a kernel, those that it is launched with: tensors,
            which keep their strides, int32, int64, float and bool.
        results: A name for each result, whether anything reads it or not. A kernel has them among
            its arguments.
        origin: The model's line.
        changed: (name, value): an argument of that name begins as a copy of the value, and is
            changed in place; what follows reads it under its name.
        kernel: The kernel; None for a custom operator.
    """

    name: str
    arguments: tuple[tuple[str, str, Argument], ...]
    results: tuple[str, ...]
    origin: Origin
    changed: tuple[tuple[str, str], ...] = ()
    kernel: UserKernel | None = None

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names that what follows may read."""
        return (*self.results, *(name for name, _ in self.changed))

    @property
    def operands(self) -> tuple[str, ...]:
        """The values that it reads: of the arguments, in their order, then those that it copies."""
        own = {*self.results, *(name for name, _ in self.changed)}
        read = (name for _, _, value in self.arguments for name in names_in(value))
        copied = (value for _, value in self.changed)
        return (*(name for name in read if name not in own), *copied)


ControlOp = Cond | Loop | SizeRead | Assertion | OperatorCall
"""Operators that end a straight part of the graph: `lowering.outline` puts them between parts."""

GraphOp = TensorOp | ControlOp


@dataclass(frozen=True)
class Tree:
    """Nesting of arguments or results. kind: leaf, constant, tuple, list, dict.

    leaf: `value` is the position in the graph's inputs or outputs. constant: `value` is a Python
    scalar or None; of an enumeration, the member's name. dict: `keys` parallel to `children`.
    """

    kind: str
    value: Any = None
    children: tuple[Tree, ...] = ()
    keys: tuple[str | int, ...] = ()


@dataclass(frozen=True)
class Parameter:
    """One parameter of the model's forward."""

    name: str
    keyword_only: bool
    tree: Tree


@dataclass(frozen=True)
class ComplexValues:
    """What callers see as complex, and graphs of reals hold with a last dimension of 2.

    `inputs` and `outputs` are positions, `states` names in the model.
    """

    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    states: tuple[str, ...] = ()


@dataclass(frozen=True)
class Signature:
    """How inputs and outputs nest in the model's own call.

    `complex`: in graphs of reals; a graph with complex values says it by their types.
    """

    parameters: tuple[Parameter, ...]
    result: Tree
    complex: ComplexValues = ComplexValues()


RANDOM_STATE = "@random"
"""Name of the state that random numbers come from: int64[2], the seed and the runs so far."""


@dataclass(frozen=True)
class SizeRelation:
    """A relation over dims that must hold for the graph to be valid: left `relation` right."""

    left: Expr
    relation: str
    right: Expr
    message: str


@dataclass(frozen=True)
class Mutation:
    """What a run leaves behind: `target`, a state or an input, holds `value` after the last step.

    Both are names: of values in a tensor graph, of buffers in the graphs that follow.
    """

    target: str
    value: str


@dataclass(frozen=True)
class TensorGraph:
    """A program of ATen operators.

    `types` gives every value's type (inputs, weights, states, results, also those of blocks).
    `weights`: value name -> FQN in the weight store (tied weights share one FQN). `outputs`: value
    names, one per output leaf. `states`: value name -> FQN of the buffers that runs change; reading
    the name gives the value before the run. `mutations`: at most one for each state or input, in
    the model's order. `prefix`: of the names that lowering makes up; a part of a larger program has
    one, and its results are buffers of their own names (see `lowering.outline`). `tf32`: kinds of
    templates whose float32 operands a device may round to TF32, since eager may there.
    """

    name: str
    dims: tuple[Dim, ...]
    inputs: tuple[str, ...]
    weights: tuple[tuple[str, str], ...]
    ops: tuple[GraphOp, ...]
    outputs: tuple[str, ...]
    types: Mapping[str, TensorType]
    signature: Signature
    relations: tuple[SizeRelation, ...] = ()
    states: tuple[tuple[str, str], ...] = ()
    mutations: tuple[Mutation, ...] = ()
    prefix: str = ""
    tf32: tuple[str, ...] = ()


def names_in(argument: Argument) -> Iterator[str]:
    """Names of the values that an argument refers to."""
    if isinstance(argument, ValueRef):
        yield argument.name
    elif isinstance(argument, tuple):
        for part in argument:
            yield from names_in(part)


def reads_of(op: GraphOp) -> tuple[str, ...]:
    """Values from outside of the operator that it reads, its blocks included, each once."""
    if isinstance(op, TensorOp):
        found = list(names_in((op.args, op.kwargs)))
    elif isinstance(op, Cond):
        found = [op.predicate, *free_names(op.then), *free_names(op.otherwise)]
    elif isinstance(op, Loop):
        own = {*(name for name, _ in op.carried), *(name for name, _ in op.slices)}
        found = [value for _, value in (*op.carried, *op.slices)]
        blocks = [op.body] if op.condition is None else [op.condition, op.body]
        found += [name for block in blocks for name in free_names(block) if name not in own]
    elif isinstance(op, OperatorCall):
        found = list(op.operands)
    else:
        found = [op.value]
    return tuple(dict.fromkeys(found))


def free_names(block: Block) -> tuple[str, ...]:
    """Values from outside of the block that it reads or gives as results, each once."""
    made = {name for op in block.ops for name in op.outputs}
    found = [name for op in block.ops for name in reads_of(op)]
    return tuple(dict.fromkeys(n for n in (*found, *block.results) if n not in made))


def blocks_of(op: GraphOp) -> tuple[Block, ...]:
    """The operator's blocks, in the order in which they may run."""
    if isinstance(op, Cond):
        return op.then, op.otherwise
    if isinstance(op, Loop):
        return (op.body,) if op.condition is None else (op.condition, op.body)
    return ()


def all_ops(ops: Iterable[GraphOp]) -> Iterator[GraphOp]:
    """Operators and those in their blocks, in order."""
    for op in ops:
        yield op
        for block in blocks_of(op):
            yield from all_ops(block.ops)


def all_outputs(ops: Iterable[GraphOp]) -> Iterator[str]:
    """Every value that operators and those in their blocks make, in order."""
    for op in ops:
        yield from (name for name in op.outputs if name is not None)
        if isinstance(op, Loop):
            yield from (name for name, _ in op.slices)
        for block in blocks_of(op):
            yield from all_outputs(block.ops)


def read_sizes(ops: Iterable[GraphOp]) -> frozenset[str]:
    """The dims that operators and those in their blocks read."""
    found = {op.dim for op in ops if isinstance(op, SizeRead)}
    inner = [block.ops for op in ops for block in blocks_of(op)]
    return frozenset(found.union(*(read_sizes(block) for block in inner)))


def dims_in(argument: Argument) -> Iterator[str]:
    """Names of the dims in an argument."""
    if isinstance(argument, tuple):
        for part in argument:
            yield from dims_in(part)
    elif hasattr(argument, "free_symbols"):
        yield from (str(symbol) for symbol in argument.free_symbols)
