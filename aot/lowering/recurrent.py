"""Recurrent layers: LSTM, GRU and the plain ones.

The input's part of all steps' gates is one matrix product; the steps, which wait for each other,
are one template call for each layer and direction (`ir/templates/recurrence.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from aot.ir.dtypes import DType
from aot.ir.nests import View
from aot.ir.scalar import Node, cast, where
from aot.ir.templates.recurrence import Recurrence
from aot.lowering import exprs as e
from aot.lowering.builder import Tensor
from aot.lowering.matmul import plus, rounded, rows_times, transposed
from aot.lowering.registry import Call, CannotLower, SeveralResults
from aot.lowering.reshape import reshape_index
from aot.lowering.rows import REGISTRY
from aot.lowering.views import moved
from aot.symbolic import Expr, as_expr, is_int

Shape = tuple[Expr, ...]
WeightList = Sequence[Tensor]

_JOINED_AT_ONCE = 8
"""Tensors that one nest concatenates: each element selects among so many, so steps are joined as a
tree, not all at once."""


_CELLS: Mapping[str, str] = {
    "aten.gru.input": "gru",
    "aot.gru.default": "gru",
    "aten.rnn_tanh.input": "tanh",
    "aot.rnn_tanh.default": "tanh",
    "aten.rnn_relu.input": "relu",
    "aot.rnn_relu.default": "relu",
}
"""Layers of one state: operator -> cell, as templates.Recurrence calls it."""


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


@dataclass(frozen=True)
class _Given:
    """What a layer gets: its input (steps, batch, size), and its states before the first step.

    Attributes:
        x: The input; (batch, steps, size) where `batch_first`.
        initial: (hidden,) or, for LSTM, (hidden, cell), each (batch, size).
        batch_first: Of x alone.
        ends: Whether LSTM's last cell is wanted.
    """

    x: Tensor
    initial: Sequence[Tensor]
    batch_first: bool
    ends: bool


@dataclass(frozen=True)
class _Made:
    """What a layer gives: its hidden states (steps, batch, size), and the last states."""

    seen: Tensor
    finals: Sequence[Tensor]


def _run_layer(given: _Given, layer: Layer, cell: str, backwards: bool) -> _Made:
    """One layer in one direction."""
    inputs = _input_part(given.x, layer, cell)
    steps, batch, gates = inputs.shape
    if given.batch_first:
        steps, batch = batch, steps
    turn = (1, 0, 2) if given.batch_first else (0, 1, 2)
    builder, dtype = given.x.builder, inputs.dtype
    hidden, *state = (_whole(rounded(t, dtype)) for t in given.initial)
    weight, projection = (
        None if w is None else transposed(rounded(w, dtype))
        for w in (layer.hidden, layer.projection)
    )
    assert weight is not None
    size, units = given.initial[0].shape[1], given.initial[-1].shape[1]
    out = builder.template(
        partial(
            Recurrence,
            x=builder.view(inputs, (steps, batch, gates), lambda at: [at[k] for k in turn]),
            weight=weight,
            hidden=hidden,
            cell=cell,
            backwards=backwards,
            ends=given.ends,
            state=state[0] if state else None,
            bias=_new_bias(layer, units) if cell == "gru" else None,
            projection=projection,
        ),
        (steps + 1, batch, units) if given.ends else (steps, batch, size),
        dtype,
    )
    out = rounded(out, given.x.dtype)
    last = as_expr(0) if backwards else steps - 1
    finals = [moved(out, (batch, size), lambda at: (last, *at))]
    if given.ends:
        finals.append(moved(out, (batch, units), lambda at: (steps, *at)))
    seen = moved(out, (steps, batch, size), lambda at: at) if given.ends else out
    return _Made(seen, finals)


def _input_part(x: Tensor, layer: Layer, cell: str) -> Tensor:
    """The input's part of all gates with what biases add: x's shape, but for the last dimension.

    In the type that x computes in.
    """
    made = rows_times(x, layer.input)
    bias = _gates_bias(layer, made.dtype, cell)
    if bias is not None:
        made = plus(made, bias, made.dtype)
    shape = (*x.shape[:-1], layer.input.shape[0])
    return moved(made, shape, reshape_index(x.builder.ranges, made.shape, shape))


def _gates_bias(layer: Layer, dtype: DType, cell: str) -> Tensor | None:
    """Both biases of all gates, but of GRU's new gate, which has its hidden one to itself."""
    own, hidden = layer.input_bias, layer.hidden_bias
    if own is None or hidden is None:
        return None
    gates = own.shape[0]
    both = gates - layer.hidden.shape[1] if cell == "gru" else gates

    def body(at: Shape) -> Node:
        there = None
        if both != gates:
            there = e.lt(own.builder.index_node(at[0]), own.builder.index_node(both))
        return e.add(cast(own.load(at), dtype), cast(hidden.load(at, there), dtype))

    return own.builder.pointwise(own.shape, dtype, body)


def _new_bias(layer: Layer, units: Expr) -> View | None:
    """GRU's hidden bias of the new gate."""
    bias = layer.hidden_bias
    if bias is None:
        return None
    wide = rounded(bias, bias.dtype.compute)
    return wide.builder.view(wide, (units,), lambda at: (at[0] + 2 * units,))


def _whole(tensor: Tensor) -> View:
    return tensor.builder.view(tensor, tensor.shape, lambda at: at)


def _run(given: _Given, params: WeightList, shapes: Shapes, cell: str) -> _Made:
    """All layers: the last one's hidden states, and the last states of all, a tensor a kind."""
    ends: list[Sequence[Tensor]] = []
    layers = _split_params(params, shapes)
    for k in range(shapes.layers):
        sides = []
        for d in range(shapes.directions):
            number = k * shapes.directions + d
            initial = [_one_of(t, number) for t in given.initial]
            made = _run_layer(replace(given, initial=initial), layers[number], cell, bool(d))
            sides.append(made.seen)
            ends.append(made.finals)
        x = sides[0] if len(sides) == 1 else _side_by_side(sides[0], sides[1])
        given = replace(given, x=x, batch_first=False)
    finals = [_stacked(states) for states in zip(*ends, strict=True)]
    return _Made(given.x, finals)


def _one_of(states: Tensor, number: int) -> Tensor:
    return moved(states, states.shape[1:], lambda at: (as_expr(number), *at))


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


def _recurrent(
    call: Call, given: _Given, params: WeightList, shapes: Shapes, cell: str
) -> SeveralResults:
    """(outputs, final states…) as the operators give them.

    Raises:
        CannotLower: There are no steps.
    """
    if is_int(given.x.shape[1 if shapes.batch_first else 0], 0):
        raise CannotLower("its sequence has no steps")
    made = _run(given, params, shapes, cell)
    absent = (None,) * (len(call.op.outputs) - 1 - len(made.finals))
    return (_swapped(made.seen) if shapes.batch_first else made.seen, *made.finals, *absent)


def _swapped(x: Tensor) -> Tensor:
    return moved(x, (x.shape[1], x.shape[0], x.shape[2]), lambda at: (at[1], at[0], at[2]))


def _shapes(
    biases: bool, layers: int, dropout: float, train: bool, rest: tuple[bool, bool]
) -> Shapes:
    if train and dropout > 0.0:
        raise CannotLower("it drops values at random, which is not for inference")
    bidirectional, batch_first = rest
    return Shapes(layers, 2 if bidirectional else 1, biases, batch_first)


@REGISTRY.row("aten.lstm.input", "aot.lstm.default")
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
    given = _Given(x, initial, batch_first, ends=call.op.outputs[2] is not None)
    return _recurrent(call, given, params, shapes, "lstm")


@REGISTRY.row(*_CELLS)
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
    given = _Given(x, (initial,), batch_first, ends=False)
    return _recurrent(call, given, params, shapes, _CELLS[call.op.target])
