"""Recurrent layers, step by step: LSTM, GRU and the plain ones.

The input's part of all steps is one matrix product; each step adds the state's part. Steps are
unrolled, so the sequence length must be static.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from aot.ir.scalar import Node, cast, where
from aot.lowering import exprs as e
from aot.lowering.builder import Tensor
from aot.lowering.matmul import accumulated, plus, rounded
from aot.lowering.registry import Call, CannotLower, SeveralResults
from aot.lowering.reshape import reshape_index
from aot.lowering.rows import REGISTRY
from aot.lowering.views import moved
from aot.symbolic import Expr, as_expr, product

Shape = tuple[Expr, ...]
WeightList = Sequence[Tensor]

_JOINED_AT_ONCE = 8
"""Tensors that one nest concatenates: each element selects among so many, so steps are joined as a
tree, not all at once."""


@dataclass(frozen=True)
class Layer:
    """One direction of one layer: weights (gates * hidden, …), biases, LSTM's projection."""

    input: Tensor
    hidden: Tensor
    input_bias: Tensor | None
    hidden_bias: Tensor | None
    projection: Tensor | None


@dataclass(frozen=True)
class Shapes:
    """How the operator's call is laid out."""

    layers: int
    directions: int
    biases: bool
    batch_first: bool


State = tuple[Tensor, ...]
"""(hidden,) or, for LSTM, (hidden, cell), each (batch, size)."""


class CellStep(Protocol):
    """One step of a cell."""

    def __call__(self, layer: Layer, inputs: Tensor, at: int, state: State) -> State:
        """The next state; `inputs`: the input's part of all steps, (steps, batch, gates)."""


def _split_params(params: WeightList, shapes: Shapes) -> list[Layer]:
    """Layers and directions in the operator's order."""
    each = len(params) // (shapes.layers * shapes.directions)
    found = []
    for k in range(0, len(params), each):
        weights = list(params[k : k + each])
        of_input, of_hidden = (weights[2], weights[3]) if shapes.biases else (None, None)
        rest = weights[4:] if shapes.biases else weights[2:]
        projection = rest[0] if rest else None
        found.append(Layer(weights[0], weights[1], of_input, of_hidden, projection))
    return found


def _times_weight(x: Tensor, weight: Tensor) -> Tensor:
    """X (rows, k) times weight (n, k) transposed, in the type that x computes in."""
    n, k = weight.shape
    b = weight.builder.view(weight, (k, n), lambda at: (at[1], at[0]))
    a = x.builder.view(x, x.shape, lambda at: at)
    return accumulated(a, b, x, (x.shape[0], n))


def _input_part(x: Tensor, layer: Layer, bias: Tensor | None) -> Tensor:
    """The input's part of all steps' gates: (steps, batch, gates), in the type x computes in."""
    steps, batch, size = x.shape
    rows, gates = product((steps, batch)), layer.input.shape[0]
    flat = moved(x, (rows, size), reshape_index(x.builder.ranges, x.shape, (rows, size)))
    made = _times_weight(flat, layer.input)
    if bias is not None:
        made = plus(made, bias, made.dtype)
    shape = (steps, batch, gates)
    return moved(made, shape, reshape_index(x.builder.ranges, made.shape, shape))


def _gate(
    inputs: Tensor, hidden: Tensor, at: int, size: Expr, bias: Tensor | None = None
) -> Callable[[Shape, int], tuple[Node, Node]]:
    """A function of ((batch, unit), gate) that gives the input's part and the state's part of it.

    `inputs`: (steps, batch, gates * size), read at the step `at`. `hidden`: (batch, gates * size).
    """

    def parts(index: Shape, gate: int) -> tuple[Node, Node]:
        column = index[1] + gate * size
        own = hidden.load((index[0], column))
        if bias is not None:
            own = e.add(own, cast(bias.load((column,)), own.dtype))
        return inputs.load((as_expr(at), index[0], column)), own

    return parts


def _lstm_step(layer: Layer, inputs: Tensor, at: int, state: State) -> State:
    hidden, cell = state
    size = cell.shape[1]
    parts = _gate(inputs, _times_weight(hidden, layer.hidden), at, size)

    def gate(index: Shape, number: int) -> Node:
        return e.add(*parts(index, number))

    def next_cell(index: Shape) -> Node:
        kept = e.mul(e.sigmoid(gate(index, 1)), cast(cell.load(index), inputs.dtype))
        return e.add(kept, e.mul(e.sigmoid(gate(index, 0)), e.tanh(gate(index, 2))))

    def cell_out(index: Shape) -> Node:
        return cast(next_cell(index), cell.dtype)

    def hidden_out(index: Shape) -> Node:
        return cast(e.mul(e.sigmoid(gate(index, 3)), e.tanh(next_cell(index))), hidden.dtype)

    outputs = [(hidden.dtype, hidden_out), (cell.dtype, cell_out)]
    made, new_cell = hidden.builder.pointwise_many(cell.shape, outputs)
    if layer.projection is not None:
        made = rounded(_times_weight(made, layer.projection), hidden.dtype)
    return made, new_cell


def _gru_step(layer: Layer, inputs: Tensor, at: int, state: State) -> State:
    (hidden,) = state
    bias = layer.hidden_bias
    parts = _gate(inputs, _times_weight(hidden, layer.hidden), at, hidden.shape[1], bias)

    def body(index: Shape) -> Node:
        reset = e.sigmoid(e.add(*parts(index, 0)))
        update = e.sigmoid(e.add(*parts(index, 1)))
        given, own = parts(index, 2)
        new = e.tanh(e.add(given, e.mul(reset, own)))
        old = cast(hidden.load(index), new.dtype)
        return cast(e.add(e.mul(e.sub(old, new), update), new), hidden.dtype)

    return (hidden.builder.pointwise(hidden.shape, hidden.dtype, body),)


def _plain_step(activation: Callable[[Node], Node]) -> CellStep:
    def step(layer: Layer, inputs: Tensor, at: int, state: State) -> State:
        (hidden,) = state
        parts = _gate(inputs, _times_weight(hidden, layer.hidden), at, hidden.shape[1])

        def body(index: Shape) -> Node:
            return cast(activation(e.add(*parts(index, 0))), hidden.dtype)

        return (hidden.builder.pointwise(hidden.shape, hidden.dtype, body),)

    return step


def _run(
    x: Tensor, layers: Sequence[Layer], states: Sequence[State], shapes: Shapes, step: CellStep
) -> tuple[Tensor, list[State]]:
    """All layers over x (steps, batch, size): the last one's hidden states, and final states."""
    finals: list[State] = []
    for k in range(shapes.layers):
        sides = []
        for d in range(shapes.directions):
            number = k * shapes.directions + d
            hidden, final = _run_layer(x, layers[number], states[number], bool(d), step)
            sides.append(hidden)
            finals.append(final)
        x = sides[0] if len(sides) == 1 else _side_by_side(sides[0], sides[1])
    return x, finals


def _run_layer(
    x: Tensor, layer: Layer, state: State, backwards: bool, step: CellStep
) -> tuple[Tensor, State]:
    bias = layer.input_bias
    if bias is not None and layer.hidden_bias is not None and step is not _gru_step:
        bias = _sum(bias, layer.hidden_bias)
    inputs = _input_part(x, layer, bias)
    order = range(int(x.shape[0]))
    hidden: dict[int, Tensor] = {}
    for at in reversed(order) if backwards else order:
        state = step(layer, inputs, at, state)
        hidden[at] = state[0]
    return _stacked([hidden[at] for at in order]), state


def _sum(a: Tensor, b: Tensor) -> Tensor:
    dtype = a.dtype.compute

    def body(at: Shape) -> Node:
        return e.add(cast(a.load(at), dtype), cast(b.load(at), dtype))

    return a.builder.pointwise(a.shape, dtype, body)


def _stacked(parts: Sequence[Tensor]) -> Tensor:
    """Tensors of one shape along a new first dimension."""
    lifted = [moved(p, (as_expr(1), *p.shape), lambda at: at[1:]) for p in parts]
    while len(lifted) > 1:
        groups = [lifted[k : k + _JOINED_AT_ONCE] for k in range(0, len(lifted), _JOINED_AT_ONCE)]
        lifted = [_joined(group) for group in groups]
    return lifted[0]


def _joined(parts: Sequence[Tensor]) -> Tensor:
    """Tensors one after the other along the first dimension."""
    if len(parts) == 1:
        return parts[0]
    builder, first = parts[0].builder, parts[0]
    starts = [0]
    for part in parts:
        starts.append(starts[-1] + int(part.shape[0]))

    def body(at: Shape) -> Node:
        place = builder.index_node(at[0])
        chosen: Node | None = None
        for part, start, end in reversed(list(zip(parts, starts, starts[1:], strict=False))):
            here = e.and_(e.ge(place, start), e.lt(place, end))
            value = part.load((at[0] - start, *at[1:]), here)
            chosen = value if chosen is None else where(here, value, chosen)
        if chosen is None:
            raise ValueError("nothing to join")
        return chosen

    return builder.pointwise((as_expr(starts[-1]), *first.shape[1:]), first.dtype, body)


def _side_by_side(a: Tensor, b: Tensor) -> Tensor:
    """Both directions along the last dimension."""
    builder, size = a.builder, a.shape[-1]

    def body(at: Shape) -> Node:
        left = e.lt(builder.index_node(at[-1]), builder.index_node(size))
        right = b.load((*at[:-1], at[-1] - size), e.not_(left))
        return where(left, a.load(at, left), right)

    return builder.pointwise((*a.shape[:-1], size + b.shape[-1]), a.dtype, body)


def _states(initial: Sequence[Tensor], count: int) -> list[State]:
    """Initial states (layers * directions, batch, size), one each."""

    def pick(tensor: Tensor, number: int) -> Tensor:
        return moved(tensor, tensor.shape[1:], lambda at: (as_expr(number), *at))

    return [tuple(pick(t, k) for t in initial) for k in range(count)]


def _recurrent(
    x: Tensor, initial: Sequence[Tensor], params: WeightList, shapes: Shapes, step: CellStep
) -> SeveralResults:
    """(outputs, final states…) as the operators give them.

    Raises:
        CannotLower: The sequence length is 0, or not known when the package is built.
    """
    if shapes.batch_first:
        x = _swapped(x)
    if not x.shape[0].is_Integer or int(x.shape[0]) == 0:
        raise CannotLower("its sequence length is not fixed; steps are unrolled")
    count = shapes.layers * shapes.directions
    layers = _split_params(params, shapes)
    out, finals = _run(x, layers, _states(initial, count), shapes, step)
    ends = [_stacked([state[k] for state in finals]) for k in range(len(initial))]
    return (_swapped(out) if shapes.batch_first else out, *ends)


def _swapped(x: Tensor) -> Tensor:
    return moved(x, (x.shape[1], x.shape[0], x.shape[2]), lambda at: (at[1], at[0], at[2]))


def _shapes(
    biases: bool, layers: int, dropout: float, train: bool, rest: tuple[bool, bool]
) -> Shapes:
    if train and dropout > 0.0:
        raise CannotLower("it drops values at random, which is not for inference")
    bidirectional, batch_first = rest
    return Shapes(layers, 2 if bidirectional else 1, biases, batch_first)


@REGISTRY.row("aten.lstm.input")
def lstm(
    call: Call,
    x: Tensor,
    initial: Sequence[Tensor],
    params: WeightList,
    biases: bool,
    layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> SeveralResults:
    """LSTM with `initial` = (hidden, cell), optional projection."""
    shapes = _shapes(biases, layers, dropout, train, (bidirectional, batch_first))
    return _recurrent(x, initial, params, shapes, _lstm_step)


@REGISTRY.row("aten.gru.input", "aten.rnn_tanh.input", "aten.rnn_relu.input")
def simple_recurrent(
    call: Call,
    x: Tensor,
    initial: Tensor,
    params: WeightList,
    biases: bool,
    layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> SeveralResults:
    """GRU and the plain cells: one state."""
    shapes = _shapes(biases, layers, dropout, train, (bidirectional, batch_first))
    return _recurrent(x, (initial,), params, shapes, _STEPS[call.op.target.split(".")[1]])


def _relu(x: Node) -> Node:
    return e.maximum(x, 0.0)


_STEPS: dict[str, CellStep] = {
    "gru": _gru_step,
    "rnn_tanh": _plain_step(e.tanh),
    "rnn_relu": _plain_step(_relu),
}
