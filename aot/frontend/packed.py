"""Sequences of many lengths as torch packs them, and recurrent layers on them.

Packed, a batch's steps lie one after the other, of each step the sequences that reach it; how many
rows these are is known when the model runs. torch's own operators count them in loops; here places
are computed, so that they can be traced, and a layer walks the padded steps:

- An output beyond the end of a sequence belongs to no row and is dropped.
- A state is that of the last step. LSTM's cell, which no output tells, is kept beyond the end by
  an input of its own, which closes the input gate and opens the forget gate there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_packed_sequence

from aot.frontend.composites import require
from aot.frontend.instead import Instead
from aot.frontend.recurrent import ARGUMENTS, LAYERS

_untyped: Any = torch
"""torch, for functions of it that have no types."""

_ONE_LAYER = (1, 0.0, False, False, False)
"""Layers, dropout, whether it trains, goes both ways, and has the batch first."""

_CLOSED = 1e4
"""A sigmoid of this is 1, and of its negative 0, in every type of weights."""


@dataclass(frozen=True)
class _Layout:
    """Where the rows of a packed batch lie among its padded steps.

    `reached` (steps, batch): whether a sequence has that step. `rows` (steps, batch): its row; 0
    where there is none. `lengths` (batch): of the sequences.
    """

    reached: Tensor
    rows: Tensor
    lengths: Tensor

    def padded(self, data: Tensor, value: float = 0.0) -> Tensor:
        """(steps, batch, …) of (rows, …)."""
        there = self.reached.reshape(*self.reached.shape, *[1] * (data.dim() - 1))
        return torch.where(there, data[self.rows], torch.full((), value, dtype=data.dtype))

    def longer(self, steps: Any) -> _Layout:
        """The same with steps that no sequence has after its own, `steps` in all."""
        at = torch.arange(steps, device=self.rows.device).unsqueeze(1)
        rows = self.rows[at.squeeze(1).clamp(max=self.rows.shape[0] - 1)]
        return _Layout(at < self.lengths, rows, self.lengths)

    def last(self, outputs: Tensor) -> Tensor:
        """(batch, …): of each sequence what is there at its last step."""
        at = (self.lengths - 1).reshape(1, -1, *[1] * (outputs.dim() - 2))
        return outputs.gather(0, at.expand(1, *outputs.shape[1:])).squeeze(0)

    def turned(self, x: Tensor) -> Tensor:
        """(steps, batch, …) with each sequence from its end; what is beyond it has no meaning."""
        steps = torch.arange(x.shape[0], device=x.device).unsqueeze(1)
        at = (self.lengths - 1 - steps).clamp(min=0)
        return x.gather(0, at.reshape(*at.shape, *[1] * (x.dim() - 2)).expand_as(x))


def _check_total(longest: Any) -> None:
    """Of `pad_packed_sequence`, where it asks for the longest sequence: that its total is no less.

    Then its own decision, of which one side raises, is taken; the package checks it.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not pad_packed_sequence.__code__:
        frame = frame.f_back
    total = frame.f_locals["total_length"] if frame is not None else None
    if total is not None:
        _untyped._check(longest <= total)


def _layout(batch_sizes: Tensor, batch: Any, device: torch.device) -> _Layout:
    sizes = batch_sizes.to(device)
    first = sizes.cumsum(0) - sizes
    sequences = torch.arange(batch, device=device)
    reached = sequences < sizes.unsqueeze(1)
    rows = torch.where(reached, first.unsqueeze(1) + sequences, 0)
    return _Layout(reached, rows, reached.sum(0))


class PackedSequences(Instead):
    """Inside of it, packing, unpacking and layers on what is packed are what is written here.

    It keeps in mind how many sequences a vector of batch sizes is about.
    """

    def __init__(self) -> None:
        super().__init__()
        self._batches: list[tuple[Tensor, Any]] = []

    def instead(
        self, func: Callable[..., Any], args: tuple[Any, ...], given: Mapping[str, Any]
    ) -> Any:
        """What is written here of a call that is about packed sequences."""
        if given:
            return NotImplemented
        if func is torch.Tensor.__getitem__:
            # The first size is the batch's: torch makes a plain number of it.
            batch = self._batch(args[0]) if isinstance(args[1], int) and args[1] == 0 else None
            return NotImplemented if batch is None else batch
        if func is torch.Tensor.size and args[1:] == (0,) and self._batch(args[0]) is not None:
            _check_total(args[0].shape[0])
            return NotImplemented
        if func is _untyped._pack_padded_sequence:
            return self._pack(*args)
        if func is _untyped._pad_packed_sequence and self._batch(args[1]) is not None:
            return self._unpack(*args)
        layer = LAYERS.get(func)
        if layer is None or len(args) < ARGUMENTS or not isinstance(args[3], list | tuple):
            return NotImplemented
        data, batch_sizes, state, weights, biases, layers, _, _, both = args
        layout = _layout(batch_sizes, _first(state).shape[1], data.device)
        walk = _Walk(layer, layout, tuple(weights), biases, layers, 2 if both else 1)
        return walk.run(data, state)

    def _batch(self, batch_sizes: object) -> Any:
        return next((n for known, n in self._batches if known is batch_sizes), None)

    def _pack(self, x: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
        by_step = x.transpose(0, 1) if batch_first else x
        steps, batch = by_step.shape[:2]
        require(lengths > 0, "Length of all samples has to be greater than 0")
        require(lengths <= steps, "Expected sequences to be no longer than the padded input")
        require(
            lengths == lengths.cummin(0).values,
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True",
        )
        longest: Any = lengths.max().item()
        _untyped._check(longest >= 1)
        _untyped._check(longest <= steps)
        sizes = (torch.arange(longest).unsqueeze(1) < lengths).sum(1)
        there = torch.arange(steps).unsqueeze(1) < lengths
        self._batches.append((sizes, batch))
        return by_step[there.to(x.device)], sizes

    def _unpack(
        self, data: Tensor, batch_sizes: Tensor, batch_first: bool, value: float, steps: Any
    ) -> tuple[Tensor, Tensor]:
        layout = _layout(batch_sizes, self._batch(batch_sizes), data.device)
        padded = layout.longer(steps).padded(data, value)
        lengths = layout.lengths.to(batch_sizes.device)
        return padded.transpose(0, 1) if batch_first else padded, lengths


def _first(state: Any) -> Tensor:
    return state if isinstance(state, Tensor) else state[0]


@dataclass(frozen=True)
class _Walk:
    """A recurrent layer of torch's on a packed batch, layer by layer, each way by itself."""

    layer: Callable[..., tuple[Tensor, ...]]
    layout: _Layout
    weights: tuple[Tensor, ...]
    biases: bool
    layers: int
    ways: int

    def run(self, data: Tensor, state: Any) -> tuple[Tensor, ...]:
        """As torch: the packed outputs of the last layer, then the states of all."""
        states = (state,) if isinstance(state, Tensor) else tuple(state)
        seen, ends = self.layout.padded(data), []
        for number in range(self.layers):
            places = range(number * self.ways, (number + 1) * self.ways)
            both = [self._way(seen, states, place) for place in places]
            seen = torch.cat([outputs for outputs, _ in both], -1)
            ends += [end for _, end in both]
        final = (torch.stack(of_kind) for of_kind in zip(*ends, strict=True))
        return seen[self.layout.reached], *final

    def _way(
        self, x: Tensor, states: Sequence[Tensor], place: int
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The outputs of one layer in one direction, and its states at the ends."""
        back = place % self.ways == 1
        each = len(self.weights) // (self.layers * self.ways)
        weights = list(self.weights[place * each : (place + 1) * each])
        start = [s[place : place + 1] for s in states]
        given = self.layout.turned(x) if back else x
        if len(start) > 1:
            given, weights[0] = self._with_gates(given, weights[0])
        initial = start if len(start) > 1 else start[0]
        outputs, *ends = self.layer(given, initial, weights, self.biases, *_ONE_LAYER)
        last = self.layout.last(outputs), *(end[0] for end in ends[1:])
        return self.layout.turned(outputs) if back else outputs, last

    def _with_gates(self, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """An input more, 1 beyond the end, and its weights on LSTM's four gates (i, f, g, o)."""
        beyond = self.layout.reached.logical_not().to(x.dtype).unsqueeze(-1)
        size = weight.shape[0] // 4
        closing = torch.zeros(weight.shape[0], 1, dtype=weight.dtype, device=weight.device)
        places = torch.arange(weight.shape[0], device=weight.device).unsqueeze(1)
        closing = torch.where(places < size, -_CLOSED, closing)
        closing = torch.where((places >= size) & (places < 2 * size), _CLOSED, closing)
        return torch.cat([x, beyond], -1), torch.cat([weight, closing.to(weight.dtype)], 1)
