"""Factorizations of small matrices, and what follows from them, a tile of matrices at a time.

A tile (batch, rows, columns) is a program's matrices in registers: its columns and rows are taken
out as sums of which one term is not masked. Rows that are exchanged stay where they are: `place`
says which row of the factors each is, and what is stored finds its place by it.
"""

import triton
import triton.language as tl


@triton.jit
def exact_quotient(a, b):
    """a / b, rounded once in single precision, too."""
    return a / b if a.dtype == tl.float64 else tl.div_rn(a, b)


@triton.jit
def exact_root(a):
    """The square root, rounded once in single precision, too."""
    return tl.sqrt(a) if a.dtype == tl.float64 else tl.sqrt_rn(a)


@triton.jit
def larger(a, b):
    """The greater one; NaN where either is."""
    return tl.where((b > a) | (b != b), b, a)


@triton.jit
def powers_near(a):
    """(a power of two near a size, and the one that it times is 1)."""
    if a.dtype == tl.float64:
        power = (a.to(tl.int64, bitcast=True) >> 52) & 0x7FF
        power = tl.where(power < 1, 1, tl.where(power > 2045, 2045, power)).to(tl.int64)
        near = (power << 52).to(tl.float64, bitcast=True)
        other = ((2046 - power) << 52).to(tl.float64, bitcast=True)
    else:
        power = (a.to(tl.int32, bitcast=True) >> 23) & 0xFF
        power = tl.where(power < 1, 1, tl.where(power > 253, 253, power)).to(tl.int32)
        near = (power << 23).to(tl.float32, bitcast=True)
        other = ((254 - power) << 23).to(tl.float32, bitcast=True)
    return near, other


@triton.jit
def complex_quotient(a, a_im, b, b_im):
    """(a + i a_im) / (b + i b_im), of numbers whose squares may be too large or too small.

    Divides once: a power of two brings b near 1.
    """
    _, scale = powers_near(tl.maximum(tl.abs(b), tl.abs(b_im)))
    c = b * scale
    d = b_im * scale
    norm = c * c + d * d
    over = exact_quotient(tl.full(norm.shape, 1.0, norm.dtype), norm)
    return (a * c + a_im * d) * over * scale, (a_im * c - a * d) * over * scale


@triton.jit
def matrix_tile(
    args,
    load,
    m,
    start,
    columns,
    ROWS: tl.constexpr,
    HIGH: tl.constexpr,
    WIDE: tl.constexpr,
    FIRST: tl.constexpr = 0,
    TOTAL: tl.constexpr = 0,
    TRIANGLE: tl.constexpr = 0,
    ACROSS: tl.constexpr = False,
    TURNED: tl.constexpr = False,
):
    """Columns from `start` on of the matrices m, of ROWS rows and so many columns; then zeros.

    load(args, m, n, row, column): elements n of the matrices m, row by row; 0 from their number on.
    FIRST: rows of the operand above these, of TOTAL (0: there are no others). TRIANGLE: 1 for the
    lower one alone, 2 for the upper one, 3 for the lower one mirrored (`TRIANGLES`).
    ACROSS: the tile's rows are the matrices' columns. TURNED: neighbours in memory are those of a
    column.
    """
    total: tl.constexpr = TOTAL if TOTAL > 0 else ROWS
    i = tl.arange(0, HIGH)[None, :, None]
    j = tl.arange(0, WIDE)[None, None, :]
    row = j if ACROSS else i
    column = start + (i if ACROSS else j)
    inside = (row < ROWS) & (column < columns)
    if TRIANGLE == 1:
        inside = inside & (row >= column)
    if TRIANGLE == 2:
        inside = inside & (row <= column)
    if TRIANGLE == 3:
        row, column = tl.where(row >= column, row, column), tl.where(row >= column, column, row)
    row = FIRST + row
    shape: tl.constexpr = [m.shape[0], HIGH, WIDE]
    n = tl.broadcast_to(tl.where(inside, row * columns + column, total * columns), shape)
    row = tl.broadcast_to(row, shape)
    column = tl.broadcast_to(column, shape)
    if ACROSS == TURNED:
        return loaded_tile(args, load, m, n, row, column)
    n = tl.trans(n, 0, 2, 1)
    row = tl.trans(row, 0, 2, 1)
    column = tl.trans(column, 0, 2, 1)
    return tl.trans(loaded_tile(args, load, m, n, row, column), 0, 2, 1)


@triton.jit
def loaded_tile(args, load, m, n, row, column):
    """Elements n (batch, rows, columns) of the matrices m, and the row and the column of each."""
    shape: tl.constexpr = n.shape
    flat: tl.constexpr = [shape[0] * shape[1] * shape[2], 1]
    which = tl.reshape(tl.broadcast_to(m[:, None, None], shape), flat)
    row = tl.reshape(row, flat)
    column = tl.reshape(column, flat)
    return tl.reshape(load(args, which, tl.reshape(n, flat), row, column), shape)


@triton.jit
def hermitian_part(values):
    """Imaginary parts of mirrored matrices, as tiles across: the other sign above the diagonal."""
    column = tl.arange(0, values.shape[1])[None, :, None]
    row = tl.arange(0, values.shape[2])[None, None, :]
    return tl.where(row > column, values, tl.where(row == column, 0, -values))


@triton.jit
def greatest(size, key):
    """For all lanes of each row the least key of those with the greatest size, none of it NaN."""
    i = tl.zeros(size.shape, tl.int32) + tl.arange(0, size.shape[1])[None, :]
    for bit in tl.static_range(6):
        if (1 << bit) < size.shape[1]:
            other = tl.gather(size, i ^ (1 << bit), 1)
            theirs = tl.gather(key, i ^ (1 << bit), 1)
            better = (other > size) | ((other == size) & (theirs < key))
            size = tl.where(better, other, size)
            key = tl.where(better, theirs, key)
    return key


@triton.jit
def greatest_of_warp(size, key):
    """The same of sizes from 0 on in one row, of which each thread of a warp has one."""
    if size.dtype == tl.float64:
        bits = size.to(tl.int64, bitcast=True)
        high = (bits >> 32).to(tl.int32)
        found = high == warp_most(high)
        # The lower halves have no sign: with the highest bit turned they are in order.
        low = tl.where(found, bits.to(tl.int32) ^ -2147483648, -2147483648)
        found = found & (low == warp_most(low))
    else:
        bits = size.to(tl.int32, bitcast=True)
        found = bits == warp_most(bits)
    return -warp_most(tl.where(found, -key, -2147483647))


@triton.jit
def warp_most(x):
    """The greatest of 32-bit integers, of which each thread of a warp has one."""
    return tl.inline_asm_elementwise(
        "redux.sync.max.s32 $0, $1, 0xffffffff;", "=r,r", [x], tl.int32, is_pure=False, pack=1
    )


@triton.jit
def lanes_most(x):
    """The greatest of each row's lanes, for all of them."""
    i = tl.zeros(x.shape, tl.int32) + tl.arange(0, x.shape[1])[None, :]
    for bit in tl.static_range(6):
        if (1 << bit) < x.shape[1]:
            x = tl.maximum(x, tl.gather(x, i ^ (1 << bit), 1))
    return x


@triton.jit
def lanes_sum(x):
    """The sum of each row's lanes, for all of them the same."""
    i = tl.zeros(x.shape, tl.int32) + tl.arange(0, x.shape[1])[None, :]
    for bit in tl.static_range(6):
        if (1 << bit) < x.shape[1]:
            x = x + tl.gather(x, i ^ (1 << bit), 1)
    return x


@triton.jit
def lanes_least(x):
    """The least of each row's lanes, for all of them."""
    return -lanes_most(-x)


@triton.jit
def lanes_before(values, COUNT: tl.constexpr, DOWN: tl.constexpr):
    """Which place each lane's value has in order; lanes from COUNT on have none: their number."""
    i = tl.zeros(values.shape, tl.int32) + tl.arange(0, values.shape[1])[None, :]
    place = tl.zeros(values.shape, tl.int32)
    for r in range(1, values.shape[1]):
        j = i ^ r
        other = tl.gather(values, j, 1)
        before = other > values if DOWN else other < values
        ahead = (before | ((other == values) & (j < i))) & (j < COUNT)
        place += ahead.to(tl.int32)
    return tl.where(i < COUNT, place, values.shape[1])


@triton.jit
def keep_part(
    args,
    finish,
    m,
    place,
    inside,
    record,
    values,
    PART: tl.constexpr,
    TURNED: tl.constexpr = False,
    row=None,
    column=None,
):
    """Stores values (batch, rows, columns) of the matrices m at places of their records.

    inside: which of them there are. record: elements of a record. PART: of it, which they belong
    to. TURNED: neighbours in memory are those of one column. row, column: of the part, where they
    are known: whoever stores them divides for them otherwise.
    finish(args, m, n, values, PART, row, column): stores what elements n of the records m become,
    but beyond the end.
    """
    n = tl.broadcast_to(tl.where(inside, place, record), values.shape)
    if TURNED:
        n = tl.trans(n, 0, 2, 1)
    flat: tl.constexpr = [values.shape[0] * values.shape[1] * values.shape[2], 1]
    if row is not None:
        row = tl.broadcast_to(row, values.shape)
        column = tl.broadcast_to(column, values.shape)
        if TURNED:
            row = tl.trans(row, 0, 2, 1)
            column = tl.trans(column, 0, 2, 1)
        row = tl.reshape(row, flat)
        column = tl.reshape(column, flat)
    if TURNED:
        values = tl.trans(values, 0, 2, 1)
    which = tl.reshape(tl.broadcast_to(m[:, None, None], values.shape), flat)
    n = tl.reshape(n, flat)
    finish(args, which, n, tl.reshape(values, flat), PART, row, column)


@triton.jit
def keep_info(args, finish, m, place, record, info, KIND: tl.constexpr, PART: tl.constexpr):
    """Stores a number for each matrix."""
    there = tl.full([1, 1, 1], 1, tl.int1)
    keep_part(args, finish, m, place, there, record, info[:, :, None].to(KIND), PART)


@triton.jit
def keep_rows(
    args,
    finish,
    m,
    first,
    start,
    columns,
    record,
    place,
    values,
    ROWS: tl.constexpr,
    PART: tl.constexpr,
    TURNED: tl.constexpr = False,
):
    """Stores rows of columns from `start` on at their places in a part that begins at `first`."""
    j = start + tl.arange(0, values.shape[2])[None, None, :]
    row = place[:, :, None]
    inside = (row < ROWS) & (j < columns)
    where = first + row * columns + j
    keep_part(args, finish, m, where, inside, record, values, PART, TURNED, row, j)


@triton.jit
def lower_factor(a, SIZE: tl.constexpr):
    """(the lower factor of positive definite matrices' lower triangles, where that ended or 0)."""
    i = tl.arange(0, a.shape[1])[None, :]
    j = tl.arange(0, a.shape[2])[None, None, :]
    a = tl.where(i[:, :, None] >= j, a, 0)
    info = tl.zeros([a.shape[0], 1], tl.int32)
    for k in range(SIZE):
        column = tl.sum(tl.where(j == k, a, 0), 2)
        pivot = tl.sum(tl.where(i == k, column, 0), 1)[:, None]
        positive = pivot > 0
        going = info == 0
        info = tl.where(going & (positive == 0), k + 1, info)
        going &= positive
        root = exact_root(tl.where(going, pivot, 1))
        factor = tl.where(i == k, root, exact_quotient(column, root))
        factor = tl.where(i >= k, factor, 0)
        rest = tl.where(j == k, factor[:, :, None], a - factor[:, :, None] * factor[:, None, :])
        a = tl.where((i[:, :, None] >= j) & (j >= k) & going[:, :, None], rest, a)
    return a, info


@triton.jit
def lower_upper(a, ROWS: tl.constexpr, COUNT: tl.constexpr):
    """L and U with rows exchanged: (both in one, place of each row, exchanges, info).

    The pivot is the first of equal ones in the order of places; a NaN at the place itself stays.
    exchanges (batch, columns): with which place each of COUNT was exchanged, from 1 on.
    """
    i = tl.arange(0, a.shape[1])[None, :]
    j = tl.arange(0, a.shape[2])[None, None, :]
    number = tl.arange(0, a.shape[2])[None, :]
    place = tl.zeros([a.shape[0], a.shape[1]], tl.int32) + i
    exchanges = tl.zeros([a.shape[0], a.shape[2]], tl.int32)
    info = tl.zeros([a.shape[0], 1], tl.int32)
    for k in range(COUNT):
        column = tl.sum(tl.where(j == k, a, 0), 2)
        known = column == column
        size = tl.where(known, tl.abs(column), tl.where(place == k, float("inf"), -1.0))
        size = tl.where((place >= k) & (i < ROWS), size, -2.0)
        most = tl.max(size, 1)[:, None]
        first = tl.min(tl.where(size == most, place, a.shape[1]), 1)[:, None]
        here = place == first
        exchanges = tl.where(number == k, first + 1, exchanges)
        place = tl.where(here, k, tl.where(place == k, first, place))
        pivot = tl.sum(tl.where(here, column, 0), 1)[:, None]
        row = tl.sum(tl.where(here[:, :, None], a, 0), 1)
        info = tl.where((info == 0) & (pivot == 0), k + 1, info)
        below = (place > k) & (pivot != 0)
        factor = exact_quotient(column, tl.where(pivot == 0, 1, pivot))
        rest = tl.where(j == k, factor[:, :, None], a - factor[:, :, None] * row[:, None, :])
        a = tl.where(below[:, :, None] & (j >= k), rest, a)
    return a, place, exchanges, info


@triton.jit
def substituted(a, place, x, SIZE: tl.constexpr, UPPER: tl.constexpr, UNIT: tl.constexpr):
    """X of T X = x, T a triangle of a; rows of both have places. UNIT: its diagonal is 1."""
    j = tl.arange(0, a.shape[2])[None, None, :]
    for turn in range(SIZE):
        k = SIZE - 1 - turn if UPPER else turn
        column = tl.sum(tl.where(j == k, a, 0), 2)
        here = place == k
        row = tl.sum(tl.where(here[:, :, None], x, 0), 1)
        if not UNIT:
            pivot = tl.sum(tl.where(here, column, 0), 1)[:, None]
            row = exact_quotient(row, pivot)
            x = tl.where(here[:, :, None], row[:, None, :], x)
        later = place < k if UPPER else place > k
        x = tl.where(later[:, :, None], x - column[:, :, None] * row[:, None, :], x)
    return x


@triton.jit
def small_cholesky(
    args,
    load_a,
    load_b,
    finish,
    program,
    right,
    record,
    KIND: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    MATRICES: tl.constexpr,
    HIGH: tl.constexpr,
    WIDE: tl.constexpr,
    RIGHT: tl.constexpr,
):
    """Cholesky's factors of MATRICES matrices.

    load_a, load_b: see `matrix_tile`. finish, record: see `keep_part`. right: columns of b.
    ROWS, COLUMNS: of a. HIGH, WIDE: those of a tile with it. RIGHT: columns of tiles of b.
    """
    m = program * MATRICES + tl.arange(0, MATRICES)
    a = matrix_tile(args, load_a, m, 0, COLUMNS, ROWS, HIGH, WIDE)
    factor, info = lower_factor(a, COLUMNS)
    place = tl.arange(0, HIGH)[None, :]
    keep_rows(args, finish, m, 0, 0, COLUMNS, record, place, factor, ROWS, 0)
    keep_info(args, finish, m, ROWS * COLUMNS, record, info, KIND, 1)


@triton.jit
def keep_factors(
    args,
    finish,
    m,
    record,
    a,
    place,
    exchanges,
    info,
    KIND: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Stores the parts of LU; gives where the next one begins."""
    count: tl.constexpr = ROWS if ROWS < COLUMNS else COLUMNS
    keep_rows(args, finish, m, 0, 0, COLUMNS, record, place, a, ROWS, 0)
    after: tl.constexpr = ROWS * COLUMNS
    j = tl.arange(0, a.shape[2])[None, None, :]
    pivots = exchanges[:, None, :].to(KIND)
    keep_part(args, finish, m, after + j, j < count, record, pivots, 1)
    order = tl.zeros_like(place) + tl.arange(0, a.shape[1])[None, :]
    where = place[:, :, None]
    order = order[:, :, None].to(KIND)
    keep_part(args, finish, m, after + count + where, where < ROWS, record, order, 2)
    keep_info(args, finish, m, after + count + ROWS, record, info, KIND, 3)
    return after + count + ROWS + 1


@triton.jit
def small_lu(
    args,
    load_a,
    load_b,
    finish,
    program,
    right,
    record,
    KIND: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    MATRICES: tl.constexpr,
    HIGH: tl.constexpr,
    WIDE: tl.constexpr,
    RIGHT: tl.constexpr,
):
    """L and U of matrices, and how their rows are exchanged; see `small_cholesky`."""
    m = program * MATRICES + tl.arange(0, MATRICES)
    a = matrix_tile(args, load_a, m, 0, COLUMNS, ROWS, HIGH, WIDE)
    count: tl.constexpr = ROWS if ROWS < COLUMNS else COLUMNS
    a, place, exchanges, info = lower_upper(a, ROWS, count)
    keep_factors(args, finish, m, record, a, place, exchanges, info, KIND, ROWS, COLUMNS)


@triton.jit
def small_solve(
    args,
    load_a,
    load_b,
    finish,
    program,
    right,
    record,
    KIND: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    MATRICES: tl.constexpr,
    HIGH: tl.constexpr,
    WIDE: tl.constexpr,
    RIGHT: tl.constexpr,
):
    """The same, and X of A X = B, RIGHT columns at a time; see `small_cholesky`."""
    m = program * MATRICES + tl.arange(0, MATRICES)
    a = matrix_tile(args, load_a, m, 0, COLUMNS, ROWS, HIGH, WIDE)
    a, place, exchanges, info = lower_upper(a, ROWS, COLUMNS)
    first = keep_factors(args, finish, m, record, a, place, exchanges, info, KIND, ROWS, COLUMNS)
    for start in range(0, right, RIGHT):
        x = matrix_tile(args, load_b, m, start, right, ROWS, HIGH, RIGHT)
        x = substituted(a, place, x, COLUMNS, UPPER=False, UNIT=True)
        x = substituted(a, place, x, COLUMNS, UPPER=True, UNIT=False)
        keep_rows(args, finish, m, first, start, right, record, place, x, ROWS, 4)


@triton.jit
def small_inverse(
    args,
    load_a,
    load_b,
    finish,
    program,
    right,
    record,
    KIND: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    MATRICES: tl.constexpr,
    HIGH: tl.constexpr,
    WIDE: tl.constexpr,
    RIGHT: tl.constexpr,
):
    """Inverses of matrices; see `small_cholesky`."""
    m = program * MATRICES + tl.arange(0, MATRICES)
    a = matrix_tile(args, load_a, m, 0, COLUMNS, ROWS, HIGH, WIDE)
    a, place, _, info = lower_upper(a, ROWS, COLUMNS)
    one = tl.arange(0, HIGH)[None, :, None] == tl.arange(0, WIDE)[None, None, :]
    x = tl.broadcast_to(one, [MATRICES, HIGH, WIDE]).to(KIND)
    x = substituted(a, place, x, COLUMNS, UPPER=False, UNIT=True)
    x = substituted(a, place, x, COLUMNS, UPPER=True, UNIT=False)
    keep_rows(args, finish, m, 0, 0, COLUMNS, record, place, x, ROWS, 0)
    keep_info(args, finish, m, ROWS * COLUMNS, record, info, KIND, 1)


@triton.jit
def small_triangular(
    args,
    load_a,
    load_b,
    finish,
    program,
    right,
    record,
    KIND: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    MATRICES: tl.constexpr,
    HIGH: tl.constexpr,
    WIDE: tl.constexpr,
    RIGHT: tl.constexpr,
    UPPER: tl.constexpr = False,
    UNIT: tl.constexpr = False,
):
    """X of T X = B for triangles T of matrices; see `small_cholesky` and `substituted`."""
    m = program * MATRICES + tl.arange(0, MATRICES)
    a = matrix_tile(args, load_a, m, 0, COLUMNS, ROWS, HIGH, WIDE)
    place = tl.zeros([MATRICES, HIGH], tl.int32) + tl.arange(0, HIGH)[None, :]
    for start in range(0, right, RIGHT):
        x = matrix_tile(args, load_b, m, start, right, ROWS, HIGH, RIGHT)
        x = substituted(a, place, x, COLUMNS, UPPER, UNIT)
        keep_rows(args, finish, m, 0, start, right, record, place, x, ROWS, 0)


@triton.jit
def small_order(
    args,
    load_a,
    load_b,
    finish,
    program,
    right,
    record,
    KIND: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    MATRICES: tl.constexpr,
    HIGH: tl.constexpr,
    WIDE: tl.constexpr,
    RIGHT: tl.constexpr,
):
    """The order in which exchanges leave rows, and the way back; see `small_cholesky`."""
    m = program * MATRICES + tl.arange(0, MATRICES)
    exchanges = matrix_tile(args, load_a, m, 0, COLUMNS, 1, 1, WIDE).to(tl.int32) - 1
    j = tl.arange(0, WIDE)[None, None, :]
    order = tl.zeros([MATRICES, 1, WIDE], tl.int32) + j
    for k in range(COLUMNS):
        other = tl.sum(tl.where(j == k, exchanges, 0), 2)[:, :, None]
        own = tl.sum(tl.where(j == k, order, 0), 2)[:, :, None]
        taken = tl.sum(tl.where(j == other, order, 0), 2)[:, :, None]
        order = tl.where(j == k, taken, tl.where(j == other, own, order))
    keep_part(args, finish, m, j, j < COLUMNS, record, order.to(KIND), 0)
    back = tl.broadcast_to(j, [MATRICES, 1, WIDE]).to(KIND)
    keep_part(args, finish, m, COLUMNS + order, j < COLUMNS, record, back, 1)
