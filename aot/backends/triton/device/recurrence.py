"""A recurrent layer in one direction, step by step.

`recurrence`: a program has some elements of the batch, which need nothing of each other. Threads
need the whole state of the step before, so it goes through memory of the program's own: two rows
for what is seen of a state, one written while the other is read, one for the state itself and one
for what is yet to be projected.

`spread_recurrence`: a step is spread over programs that share out the units, and so the matrix,
which one multiprocessor would read for too long; they wait for those of the step before.
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
def spread_recurrence(
    args,
    load_x,
    load_weight,
    load_hidden,
    load_state,
    load_bias,
    finish,
    marks,
    space,
    steps,
    blocks,
    across,
    width,
    CELL: tl.constexpr,
    BACKWARDS: tl.constexpr,
    ENDS: tl.constexpr,
    ROWS: tl.constexpr,
    UNITS: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """A step of UNITS units of ROWS elements of the batch; hooks are those of `recurrence`.

    Programs take turns in the order in which they start: all units of all elements, then the next
    step. So those that a program waits for have started before it, however few run at a time. While
    it waits, it has its part of the matrix already. The first turn stores what is before all steps.

    marks: zeros; the first counts programs, the others those of each step and block of the batch
    that are done. blocks, across: programs of a step along the batch, and along the units. width:
    the units of all programs. DEPTH: power of two that a state fits into.
    """
    ticket = tl.atomic_add(marks, 1, sem="relaxed")
    turn = ticket // (blocks * across)
    block = ticket % (blocks * across) // across
    m = block * ROWS + tl.arange(0, ROWS)[:, None]
    n = ticket % across * UNITS + tl.arange(0, UNITS)[None, :]
    done = marks + 1 + turn * blocks + block
    apart = blocks * ROWS * width
    new = space + turn % 2 * apart + m * width
    state = space + 2 * apart + m * width
    if turn == 0:
        tl.store(new + n, load_hidden(args, m, n))
        if load_state is not None:
            tl.store(state + n, load_state(args, m, n))
    else:
        step = steps - turn if BACKWARDS else turn - 1
        k = tl.arange(0, DEPTH)
        first = load_weight(args, 0, k[:, None], n)
        given = load_x(args, step, 0, m, n)
        if CELL == "lstm":
            second, given1 = load_weight(args, 1, k[:, None], n), load_x(args, step, 1, m, n)
            third, given2 = load_weight(args, 2, k[:, None], n), load_x(args, step, 2, m, n)
            fourth, given3 = load_weight(args, 3, k[:, None], n), load_x(args, step, 3, m, n)
        elif CELL == "gru":
            second, given1 = load_weight(args, 1, k[:, None], n), load_x(args, step, 1, m, n)
            third, given2 = load_weight(args, 2, k[:, None], n), load_x(args, step, 2, m, n)
        ready = tl.atomic_add(done - blocks, 0, sem="acquire")
        while ready < across:
            ready = tl.atomic_add(done - blocks, 0, sem="acquire")
        old = space + (turn + 1) % 2 * apart + m * width
        # Other multiprocessors wrote it: what this one's own cache has may be of another turn.
        seen = tl.load(old + k[None, :], mask=k[None, :] < width, other=0, cache_modifier=".cg")
        given += row_sums(seen, first)
        if CELL == "lstm":
            kept = logistic(given1 + row_sums(seen, second))
            after = kept * tl.load(state + n, cache_modifier=".cg")
            after += logistic(given) * libdevice.tanh(given2 + row_sums(seen, third))
            tl.store(state + n, after)
            made = logistic(given3 + row_sums(seen, fourth)) * libdevice.tanh(after)
        elif CELL == "gru":
            inner = row_sums(seen, third)
            if load_bias is not None:
                inner += load_bias(args, n)
            after = libdevice.tanh(given2 + logistic(given) * inner)
            change = tl.load(old + n, cache_modifier=".cg") - after
            made = change * logistic(given1 + row_sums(seen, second)) + after
        else:
            made = libdevice.tanh(given) if CELL == "tanh" else max_nan(given, 0.0 * given)
        tl.store(new + n, made)
        finish(args, step, m, n, made)
        if ENDS:
            finish_last(args, finish, turn, steps, m, n, after)
    tl.debug_barrier()
    tl.atomic_add(done, 1, sem="release")


@triton.jit
def finish_last(args, finish, turn, steps, m, n, state):
    """Stores the states of the last turn behind the steps."""
    if turn == steps:
        finish(args, steps, m, n, state)


@triton.jit
def row_sums(rows, matrix):
    """Few rows times a matrix, in one block."""
    return tl.sum(rows[:, :, None] * matrix[None, :, :], 1)


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
    return row_sums(values, matrix)


@triton.jit
def logistic(x):
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + libdevice.exp(-x))
