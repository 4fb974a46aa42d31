"""Recurrent layers: values through Triton's interpreter, blocks, and machine code."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from aot.backends.triton.gpu import GPUS
from aot.backends.triton.template_recurrence import DOT_ROWS, RecurrenceTile, recurrence_tile
from aot.ir.dtypes import FLOAT32, FLOAT64
from aot.ir.hints import hints_of
from aot.ir.origin import NO_ORIGIN
from aot.ir.templates import Recurrence
from tests.backends.triton.templates import (
    Args,
    captured,
    check_close,
    emitted,
    machine_code,
    template_kinds,
    tensors,
)
from tests.ir.templates.views import view


def lstm(x, h, c, *weights):
    size = len(weights) - 2
    return torch.lstm(x, (h, c), list(weights), size >= 2, 1, 0.0, False, False, False)


def gru(x, h, *weights):
    return torch.gru(x, h, list(weights), len(weights) == 4, 1, 0.0, False, False, False)


def both_ways(x, h, *weights):
    return torch.rnn_relu(x, h, list(weights), False, 1, 0.0, False, True, False)


def layer(steps: int, rows: int, units: int, gates: int, *, biases: bool = True) -> list:
    """Sizes of an input, a state, and weights."""
    weights = [(gates * units, 5), (gates * units, units), *([(gates * units,)] * 2 * biases)]
    return [(steps, rows, 5), (1, rows, units), *weights]


def given(*shapes, dtype=torch.float32) -> Args:
    return tuple(t * 0.3 for t in tensors(*shapes, dtype=dtype))


LSTM = layer(4, 3, 20, 4)
PROJECTED = [(4, 3, 5), (1, 3, 9), (1, 3, 70), (280, 5), (280, 9), (9, 70)]
SHARED = layer(3, 5, 150, 4)
CASES = {
    "lstm": (lstm, given(*LSTM[:2], *LSTM[1:])),
    "lstm, several blocks": (lstm, given(*layer(3, 2, 70, 4)[:2], *layer(3, 2, 70, 4)[1:])),
    "lstm of doubles": (lstm, given(*LSTM[:2], *LSTM[1:], dtype=torch.float64)),
    "gru": (gru, given(*layer(4, 3, 20, 3))),
    "gru of halves": (gru, given(*layer(4, 3, 16, 3, biases=False), dtype=torch.bfloat16)),
    "both ways": (
        both_ways,
        given((4, 3, 5), (2, 3, 16), *[(16, 5), (16, 16)] * 2),
    ),
    "lstm, steps shared out": (lstm, given(*SHARED[:2], *SHARED[1:])),
    "gru, steps shared out": (gru, given(*layer(3, 9, 150, 3))),
    "many rows": (gru, given(*layer(2, 1061, 18, 3))),
}


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    function, args = CASES[name]
    model = captured(function, args)
    assert "recurrence" in template_kinds(model)
    check_close(model, function, args)


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("seen", (False, True))
def test_projected_values(seen):
    def run(x, h, c, *weights):
        found = torch.lstm(x, (h, c), list(weights), False, 1, 0.0, False, False, False)
        return found[:1] if seen else found

    args = given(*PROJECTED)
    check_close(captured(run, args), run, args)


@pytest.mark.parametrize(("steps", "rows"), ((1, 1), (9, 2), (2, 7)))
def test_values_at_other_sizes(steps, rows):
    weights = given(*layer(4, 3, 20, 3)[2:])

    def run(x):
        state = torch.zeros(1, x.shape[1], 20, dtype=x.dtype)
        return gru(x, state, *(w.to(x.dtype) for w in weights))

    dims = ({0: torch.export.Dim("steps", min=1), 1: torch.export.Dim("rows", min=1)},)
    model = captured(run, given((4, 3, 5)), dims)
    check_close(model, run, given((steps, rows, 5)))


@pytest.mark.parametrize(("steps", "rows"), ((1, 1), (5, 6)))
def test_shared_steps_at_other_sizes(steps, rows):
    weights = given((450, 5), (450, 150)) * 2

    def run(x):
        state = torch.zeros(2, x.shape[1], 150, dtype=x.dtype)
        wide = [w.to(x.dtype) for w in weights]
        return torch.gru(x, state, wide, False, 1, 0.0, False, True, False)

    dims = ({0: torch.export.Dim("steps", min=1), 1: torch.export.Dim("rows", min=1)},)
    model = captured(run, given((4, 3, 5)), dims)
    sources = [f for f in emitted(model).functions if not f.name.endswith("_wide")]
    assert sum("spread_recurrence(" in source.text for source in sources) == 2
    check_close(model, run, given((steps, rows, 5)))


def test_marks_are_declared_as_changed():
    graph = emitted(captured(nn.LSTM(16, 256), given((8, 4, 16))))
    functions = {f.name: f.declaration for f in graph.functions}
    accesses = [
        declared.access
        for _, launch in graph.kernels()
        for name, declared in zip(launch.buffers, functions[launch.function].buffers, strict=True)
        if name.endswith("_marks")
    ]
    assert accesses == ["write", "update"]


def test_an_epilogue_is_part_of_the_kernel():
    def run(*args):
        return gru(*args)[0].relu() + 1

    source = emitted(captured(run, given(*layer(4, 64, 64, 3, biases=False))))
    assert len(source.launches) == 2


def tile(batch: int, units: int, dtype=FLOAT32) -> RecurrenceTile:
    call = Recurrence(
        "r",
        view(4, batch, units),
        NO_ORIGIN,
        x=view(4, batch, units),
        weight=view(units, units),
        hidden=view(batch, units),
        cell="tanh",
    )
    return recurrence_tile(call, hints_of(()), dtype, replace(GPUS["sm_90"], multiprocessors=100))


def test_programs_take_few_rows_while_multiprocessors_are_idle():
    assert [tile(batch, 64).rows for batch in (1, 100, 101, 400)] == [1, 1, 2, 4]
    assert tile(401, 64).rows == DOT_ROWS and tile(401, 64).dots
    assert not tile(4000, 64, FLOAT64).dots


def test_blocks_follow_the_units():
    assert [tile(1, units).units for units in (3, 20, 64, 500)] == [16, 32, 64, 64]
    assert tile(1, 500, FLOAT64).units == 32
    assert tile(1, 16).warps < tile(1, 64).warps


@pytest.mark.parametrize("arch", ("sm_80", "sm_90"))
@pytest.mark.parametrize(("rows", "units"), ((4, 64), (1000, 64), (4, 256)))
def test_machine_code(arch, rows, units):
    code = machine_code(captured(nn.LSTM(16, units), given((8, rows, 16))), "recurrence", arch)
    assert code.local_bytes == 0
