"""A recurrent layer in one direction, step by step.

A program has some elements of the batch, which need nothing of each other. Threads need the whole
state of the step before, so it goes through memory of the program's own: two rows for what is seen
of a state, one written while the other is read, one for the state itself and one for what is yet to
be projected.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from aot.backends.triton.device.combining import max_nan


@triton.jit
def recurrence(
    args,
    load_x,
    load_weight,
    load_hidden,
    load_state,
    load_bias,
    load_projection,
    finish,
    program,
    space,
    steps,
    units,
    size,
    columns,
    width,
    CELL: tl.constexpr,
    BACKWARDS: tl.constexpr,
    ENDS: tl.constexpr,
    ROWS: tl.constexpr,
    UNITS: tl.constexpr,
    DOTS: tl.constexpr,
):
    """Walks the steps of ROWS elements of the batch.

    load_x(args, step, gate, m, n): the input's part of a gate's units n. load_weight(args, gate, k,
    n): the matrix of its other part; load_projection(args, k, n), or None. load_hidden(args, m, n)
    and load_state(args, m, n), or None: what is seen, and the state, before the first step.
    load_bias(args, n), or None: of the new gate. All give 0 beyond the end. finish(args, step, m,
    n, values): stores what is seen of a step's states and, where ENDS, the last states behind.

    units, size, columns: of a state, of what is seen of it, and of the output. width: `units`
    rounded up to UNITS. DOTS: rows are enough for tensor cores' instructions.
    """
    m = program * ROWS + tl.arange(0, ROWS)[:, None]
    row = tl.arange(0, ROWS)[:, None] * width
    apart = ROWS * width
    own = space + program * (4 * apart)
    state, hidden = own + 2 * apart + row, own + 3 * apart + row
    for start in range(0, width, UNITS):
        n = start + tl.arange(0, UNITS)[None, :]
        first = load_hidden(args, m, n)
        tl.store(own + row + n, first)
        tl.store(own + apart + row + n, tl.zeros_like(first))
        if load_state is not None:
            tl.store(state + n, load_state(args, m, n))
    tl.debug_barrier()
    for turn in range(0, steps):
        step = steps - 1 - turn if BACKWARDS else turn
        old = own + turn % 2 * apart + row
        new = own + (turn + 1) % 2 * apart + row
        for start in range(0, width, UNITS):
            n = start + tl.arange(0, UNITS)[None, :]
            if CELL == "lstm":
                made = lstm_cell(
                    args, load_x, load_weight, old, state, step, m, n, size, UNITS, DOTS
                )
            elif CELL == "gru":
                made = gru_cell(
                    args, load_x, load_weight, load_bias, old, step, m, n, size, UNITS, DOTS
                )
            else:
                made = gate_of(args, load_x, load_weight, old, step, 0, m, n, size, UNITS, DOTS)
                made = libdevice.tanh(made) if CELL == "tanh" else max_nan(made, 0.0 * made)
            if load_projection is None:
                tl.store(new + n, made)
                finish(args, step, m, n, made)
            else:
                tl.store(hidden + n, made)
        tl.debug_barrier()
        if load_projection is not None:
            for start in range(0, columns, UNITS):
                n = start + tl.arange(0, UNITS)[None, :]
                made = tl.load(new + n)
                if start < size:
                    made = rows_times(args, load_projection, None, hidden, n, units, UNITS, DOTS)
                    tl.store(new + n, made)
                finish(args, step, m, n, made)
            tl.debug_barrier()
    if ENDS:
        for start in range(0, width, UNITS):
            n = start + tl.arange(0, UNITS)[None, :]
            finish(args, steps, m, n, tl.load(state + n))


@triton.jit
def lstm_cell(
    args,
    load_x,
    load_weight,
    old,
    state,
    step,
    m,
    n,
    size,
    UNITS: tl.constexpr,
    DOTS: tl.constexpr,
):
    """What is seen of the next states of units n, which are stored."""
    taken = gate_of(args, load_x, load_weight, old, step, 0, m, n, size, UNITS, DOTS)
    kept = gate_of(args, load_x, load_weight, old, step, 1, m, n, size, UNITS, DOTS)
    new = gate_of(args, load_x, load_weight, old, step, 2, m, n, size, UNITS, DOTS)
    shown = gate_of(args, load_x, load_weight, old, step, 3, m, n, size, UNITS, DOTS)
    after = logistic(kept) * tl.load(state + n) + logistic(taken) * libdevice.tanh(new)
    tl.store(state + n, after)
    return logistic(shown) * libdevice.tanh(after)


@triton.jit
def gru_cell(
    args,
    load_x,
    load_weight,
    load_bias,
    old,
    step,
    m,
    n,
    size,
    UNITS: tl.constexpr,
    DOTS: tl.constexpr,
):
    """The next states of units n."""
    reset = gate_of(args, load_x, load_weight, old, step, 0, m, n, size, UNITS, DOTS)
    update = gate_of(args, load_x, load_weight, old, step, 1, m, n, size, UNITS, DOTS)
    inner = rows_times(args, load_weight, 2, old, n, size, UNITS, DOTS)
    if load_bias is not None:
        inner += load_bias(args, n)
    new = libdevice.tanh(load_x(args, step, 2, m, n) + logistic(reset) * inner)
    return (tl.load(old + n) - new) * logistic(update) + new


@triton.jit
def gate_of(
    args,
    load_x,
    load_weight,
    old,
    step,
    GATE: tl.constexpr,
    m,
    n,
    size,
    UNITS: tl.constexpr,
    DOTS: tl.constexpr,
):
    """Both parts of a gate of units n."""
    given = load_x(args, step, GATE, m, n)
    return given + rows_times(args, load_weight, GATE, old, n, size, UNITS, DOTS)


@triton.jit
def rows_times(
    args,
    load_matrix,
    GATE: tl.constexpr,
    rows,
    n,
    depth,
    UNITS: tl.constexpr,
    DOTS: tl.constexpr,
):
    """Rows in memory, `depth` long and zeros behind, times columns n of a matrix."""
    total = rows_times_block(args, load_matrix, GATE, rows, n, 0, UNITS, DOTS)
    for start in range(UNITS, depth, UNITS):
        total += rows_times_block(args, load_matrix, GATE, rows, n, start, UNITS, DOTS)
    return total


@triton.jit
def rows_times_block(
    args,
    load_matrix,
    GATE: tl.constexpr,
    rows,
    n,
    start,
    UNITS: tl.constexpr,
    DOTS: tl.constexpr,
):
    """As `rows_times`, of UNITS elements of the depth from `start` on."""
    k = start + tl.arange(0, UNITS)
    values = tl.load(rows + k[None, :])
    matrix = load_matrix(args, GATE, k[:, None], n)
    if DOTS:
        return tl.dot(values, matrix, input_precision="ieee")
    return tl.sum(values[:, :, None] * matrix[None, :, :], 1)


@triton.jit
def logistic(x):
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + libdevice.exp(-x))
