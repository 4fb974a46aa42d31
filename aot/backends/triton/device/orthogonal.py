"""Small matrices by reflections and rotations: QR, eigenvalues and singular values.

Tiles are as in linalg.py. Rotations are Jacobi's: in round r of a sweep rows i and i ^ r make a
pair, so that all pairs of a round turn at once, and rounds 1 to rows - 1 meet every pair.
(Brent and Luk, The solution of singular-value and symmetric eigenvalue problems on multiprocessor
arrays, SIAM J. Sci. Stat. Comput. 1985.)
"""

import triton
import triton.language as tl

from aot.backends.triton.device.linalg import (
    exact_quotient,
    exact_root,
    keep_part,
    keep_rows,
    matrix_tile,
)
from aot.backends.triton.device.quotients import near_inverse, near_quotient, near_root


@triton.jit
def reflected(a, COUNT: tl.constexpr):
    """(R and below it the reflections, their factors) of matrices: Householder's."""
    i = tl.arange(0, a.shape[1])[None, :]
    j = tl.arange(0, a.shape[2])[None, None, :]
    number = tl.arange(0, a.shape[2])[None, :]
    taus = tl.zeros([a.shape[0], a.shape[2]], a.dtype)
    for k in range(COUNT):
        column = tl.sum(tl.where(j == k, a, 0), 2)
        first = tl.sum(tl.where(i == k, column, 0), 1)[:, None]
        turns = tl.max(((i > k) & (column != 0)).to(tl.int32), 1)[:, None] > 0
        rest = tl.where(i >= k, column, 0)
        most = tl.max(tl.abs(rest), 1)[:, None]
        parts = exact_quotient(rest, tl.where(most == 0, 1, most))
        norm = most * exact_root(tl.sum(parts * parts, 1)[:, None])
        beta = tl.where(first < 0, norm, -norm)
        tau = exact_quotient(beta - first, tl.where(turns, beta, 1))
        v = exact_quotient(column, tl.where(turns, first - beta, 1))
        v = tl.where(i == k, 1, tl.where(i > k, v, 0))[:, :, None]
        w = tau * tl.sum(v * a, 1)
        own = tl.where(i == k, beta, 0)[:, :, None] + tl.where(i[:, :, None] > k, v, 0)
        turned = tl.where(j == k, own, a - v * w[:, None, :])
        a = tl.where((j >= k) & (i >= k)[:, :, None] & turns[:, :, None], turned, a)
        taus = tl.where((number == k) & turns, tau, taus)
    return a, taus


@triton.jit
def small_qr(
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
    """R of matrices and the reflections that make it; see `small_cholesky`."""
    m = program * MATRICES + tl.arange(0, MATRICES)
    a = matrix_tile(args, load_a, m, 0, COLUMNS, ROWS, HIGH, WIDE)
    count: tl.constexpr = ROWS if ROWS < COLUMNS else COLUMNS
    a, taus = reflected(a, count)
    place = tl.arange(0, HIGH)[None, :]
    keep_rows(args, finish, m, 0, 0, COLUMNS, record, place, a, ROWS, 0)
    j = tl.arange(0, WIDE)[None, None, :]
    keep_part(args, finish, m, ROWS * COLUMNS + j, j < count, record, taus[:, None, :], 1)


@triton.jit
def small_reflections(
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
    BACK: tl.constexpr = False,
):
    """Products of reflections with b; their factors are a's last row. See `small_cholesky`.

    BACK: the product's transpose. HIGH: of a tile without that row.
    """
    m = program * MATRICES + tl.arange(0, MATRICES)
    size: tl.constexpr = ROWS - 1
    count: tl.constexpr = size if size < COLUMNS else COLUMNS
    i = tl.arange(0, HIGH)[None, :]
    j = tl.arange(0, WIDE)[None, None, :]
    a = matrix_tile(args, load_a, m, 0, COLUMNS, size, HIGH, WIDE)
    shape: tl.constexpr = [MATRICES, WIDE]
    flat: tl.constexpr = [MATRICES * WIDE, 1]
    number = tl.arange(0, WIDE)[None, :]
    last = tl.where(number < COLUMNS, size * COLUMNS + number, ROWS * COLUMNS)
    which = tl.reshape(tl.broadcast_to(m[:, None], shape), flat)
    taus = load_a(args, which, tl.reshape(tl.broadcast_to(last, shape), flat))
    taus = tl.reshape(taus, shape)
    for start in range(0, right, RIGHT):
        x = matrix_tile(args, load_b, m, start, right, size, HIGH, RIGHT)
        for turn in range(count):
            k = turn if BACK else count - 1 - turn
            column = tl.sum(tl.where(j == k, a, 0), 2)
            v = tl.where(i == k, 1, tl.where((i > k) & (i < size), column, 0))[:, :, None]
            tau = tl.sum(tl.where(number == k, taus, 0), 1)[:, None]
            w = tau * tl.sum(v * x, 1)
            x = tl.where((i >= k)[:, :, None], x - v * w[:, None, :], x)
        keep_rows(args, finish, m, 0, start, right, record, i, x, size, 0)


@triton.jit
def partner_rows(x, r):
    """Row i ^ r in the place of each row i."""
    other = tl.arange(0, x.shape[1])[None, :, None] ^ r
    return tl.gather(x, tl.broadcast_to(other, x.shape), 1)


@triton.jit
def rotation(own, other, between, r, turns):
    """(c, s) for each row: c row - s partner makes (own, between; between, other) diagonal.

    Both rows of a pair compute the same but for s, whose sign is the other's.
    """
    i = tl.arange(0, own.shape[1])[None, :]
    angle = exact_quotient(other - own, tl.where(turns, between + between, 1))
    size = tl.abs(angle)
    t = exact_quotient(tl.full([], 1, own.dtype), size + exact_root(size * size + 1))
    t = tl.where((angle < 0) | ((angle == 0) & (i > (i ^ r))), -t, t)
    t = tl.where(turns, t, 0)
    c = exact_quotient(tl.full([], 1, own.dtype), exact_root(t * t + 1))
    return c, t * c


@triton.jit
def turning(own, other, between, r, turns):
    """As `rotation`, with (c, s) of an angle that is a bit off where that is cheaper."""
    i = tl.arange(0, own.shape[1])[None, :]
    double = tl.where(turns, between + between, 1)
    if own.dtype == tl.float64:
        angle = near_quotient(other - own, double)
        size = tl.abs(angle)
        root, _ = near_root(size * size + 1)
        t = near_inverse(size + root)
    else:
        angle = (other - own) / double
        size = tl.abs(angle)
        t = 1 / (size + tl.sqrt(size * size + 1))
    t = tl.where((angle < 0) | ((angle == 0) & (i > (i ^ r))), -t, t)
    t = tl.where(turns, t, 0)
    _, c = near_root(t * t + 1)
    return c, t * c


@triton.jit
def rank_of(values, COUNT: tl.constexpr, DOWN: tl.constexpr):
    """Which place each value has in order; those from COUNT on have none: the number of all."""
    i = tl.arange(0, values.shape[1])[None, :, None]
    j = tl.arange(0, values.shape[1])[None, None, :]
    own, other = values[:, :, None], values[:, None, :]
    before = other > own if DOWN else other < own
    ahead = (before | ((other == own) & (j < i))) & (j < COUNT)
    place = tl.sum(ahead.to(tl.int32), 2)
    return tl.where(tl.arange(0, values.shape[1])[None, :] < COUNT, place, values.shape[1])


@triton.jit
def small_eigh(
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
    VALUES: tl.constexpr = False,
    ROUNDING: tl.constexpr = 0.0,
    SWEEPS: tl.constexpr = 40,
):
    """Eigenvalues of symmetric matrices' lower triangles, and vectors but for VALUES.

    See `small_cholesky`. Numbers that are not finite make all results NaN.
    """
    m = program * MATRICES + tl.arange(0, MATRICES)
    a = matrix_tile(args, load_a, m, 0, COLUMNS, ROWS, HIGH, WIDE)
    i = tl.arange(0, HIGH)[None, :, None]
    j = tl.arange(0, WIDE)[None, None, :]
    a = tl.where(i >= j, a, 0)
    a = tl.where(i >= j, a, tl.trans(a, 0, 2, 1))
    size = tl.abs(a)
    finite = tl.min(tl.min((size < float("inf")).to(tl.int32), 2), 1)[:, None]
    most = tl.max(tl.max(size, 2), 1)[:, None, None]
    # Sizes of tiny and huge ones have squares.
    known = finite[:, :, None] != 0
    scale = tl.where((most > 0) & known, most, 1)
    a = exact_quotient(tl.where(known, a, 0), scale)
    v = tl.broadcast_to(i == j, a.shape).to(KIND)
    sweep = 0
    going = 1
    while (sweep < SWEEPS) & (going > 0):
        turned = tl.zeros([MATRICES, HIGH], tl.int32)
        for r in range(1, HIGH):
            own = tl.sum(tl.where(i == j, a, 0), 2)
            diagonal = tl.sum(tl.where(i == j, a, 0), 1)[:, None, :]
            other = tl.sum(tl.where(j == (i ^ r), diagonal, 0), 2)
            # Both halves, so that a pair's rows compute the same.
            pair = tl.where(j == (i ^ r), a, 0)
            between = (tl.sum(pair, 2) + tl.sum(pair, 1)) * 0.5
            turns = tl.abs(between) > ROUNDING / 4
            turned |= turns.to(tl.int32)
            c, s = rotation(own, other, between, r, turns)
            a = c[:, :, None] * a - s[:, :, None] * partner_rows(a, r)
            if not VALUES:
                v = c[:, :, None] * v - s[:, :, None] * partner_rows(v, r)
            # Columns are rows of the transposed; what was between is nothing now.
            a = tl.trans(a, 0, 2, 1)
            a = c[:, :, None] * a - s[:, :, None] * partner_rows(a, r)
            a = tl.where((j == (i ^ r)) & turns[:, :, None], 0, a)
        going = tl.max(tl.max(turned, 1), 0)
        sweep += 1
    values = tl.sum(tl.where(i == j, a, 0), 2)
    rank = rank_of(values, COLUMNS, DOWN=False)
    wrong = finite == 0
    values = tl.where(wrong, float("nan"), values * tl.reshape(scale, [MATRICES, 1]))
    first = rank[:, :, None]
    keep_part(args, finish, m, first, first < COLUMNS, record, values[:, :, None], 0)
    if not VALUES:
        v = tl.where(wrong[:, :, None], float("nan"), v)
        inside = (first < COLUMNS) & (j < COLUMNS)
        keep_part(args, finish, m, COLUMNS + j * COLUMNS + first, inside, record, v, 1)


@triton.jit
def completed_rows(u, missing, COLUMNS: tl.constexpr):
    """Rows of u that are of length 1 and orthogonal, and others to these where `missing`.

    Each comes from the unit vector, of COLUMNS, that is least in those there are.
    """
    i = tl.arange(0, u.shape[1])[None, :]
    j = tl.arange(0, u.shape[2])[None, :]
    u = tl.where(missing[:, :, None], 0, u)
    wanted = missing.to(tl.int32)
    while tl.max(tl.max(wanted, 1), 0) > 0:
        row = tl.min(tl.where(wanted != 0, i, u.shape[1]), 1)[:, None]
        seen = tl.sum(u * u, 1)
        unit = tl.argmin(tl.where(j < COLUMNS, seen, 2.0), 1)[:, None]
        found = tl.broadcast_to(j == unit, seen.shape).to(u.dtype)
        for _ in range(2):
            along = tl.sum(u * found[:, None, :], 2)
            found -= tl.sum(u * along[:, :, None], 1)
        found = exact_quotient(found, exact_root(tl.sum(found * found, 1)[:, None]))
        u = tl.where((i == row)[:, :, None], found[:, None, :], u)
        wanted = tl.where(i == row, 0, wanted)
    return u


@triton.jit
def completed_complex_rows(u, u_im, missing, COLUMNS: tl.constexpr):
    """As `completed_rows`, of complex rows."""
    i = tl.arange(0, u.shape[1])[None, :]
    j = tl.arange(0, u.shape[2])[None, :]
    u = tl.where(missing[:, :, None], 0, u)
    u_im = tl.where(missing[:, :, None], 0, u_im)
    wanted = missing.to(tl.int32)
    while tl.max(tl.max(wanted, 1), 0) > 0:
        row = tl.min(tl.where(wanted != 0, i, u.shape[1]), 1)[:, None]
        seen = tl.sum(u * u + u_im * u_im, 1)
        unit = tl.argmin(tl.where(j < COLUMNS, seen, 2.0), 1)[:, None]
        re = tl.broadcast_to(j == unit, seen.shape).to(u.dtype)
        im = tl.zeros_like(re)
        for _ in range(2):
            along = tl.sum(u * re[:, None, :] + u_im * im[:, None, :], 2)[:, :, None]
            turned = tl.sum(u * im[:, None, :] - u_im * re[:, None, :], 2)[:, :, None]
            re -= tl.sum(u * along - u_im * turned, 1)
            im -= tl.sum(u * turned + u_im * along, 1)
        length = exact_root(tl.sum(re * re + im * im, 1)[:, None])
        here = (i == row)[:, :, None]
        u = tl.where(here, exact_quotient(re, length)[:, None, :], u)
        u_im = tl.where(here, exact_quotient(im, length)[:, None, :], u_im)
        wanted = tl.where(i == row, 0, wanted)
    return u, u_im


@triton.jit
def small_svd(
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
    VALUES: tl.constexpr = False,
    ROUNDING: tl.constexpr = 0.0,
    SWEEPS: tl.constexpr = 40,
):
    """Singular values of matrices, and U^T and V^T but for VALUES: their columns made orthogonal.

    See `small_cholesky`. HIGH, WIDE: of a tile of transposed matrices.
    """
    m = program * MATRICES + tl.arange(0, MATRICES)
    i = tl.arange(0, HIGH)[None, :, None]
    j = tl.arange(0, WIDE)[None, None, :]
    n = tl.where((i < COLUMNS) & (j < ROWS), j * COLUMNS + i, ROWS * COLUMNS)
    shape: tl.constexpr = [MATRICES, HIGH, WIDE]
    flat: tl.constexpr = [MATRICES * HIGH * WIDE, 1]
    which = tl.reshape(tl.broadcast_to(m[:, None, None], shape), flat)
    w = load_a(args, which, tl.reshape(tl.broadcast_to(n, shape), flat))
    w = tl.reshape(w, shape)
    size = tl.abs(w)
    finite = tl.min(tl.min((size < float("inf")).to(tl.int32), 2), 1)[:, None]
    most = tl.max(tl.max(size, 2), 1)[:, None, None]
    known = finite[:, :, None] != 0
    scale = tl.where((most > 0) & known, most, 1)
    w = exact_quotient(tl.where(known, w, 0), scale)
    column = tl.arange(0, HIGH)[None, None, :]
    v = tl.broadcast_to(i == column, [MATRICES, HIGH, HIGH]).to(KIND)
    sweep = 0
    going = 1
    while (sweep < SWEEPS) & (going > 0):
        turned = tl.zeros([MATRICES, HIGH], tl.int32)
        for r in range(1, HIGH):
            partner = partner_rows(w, r)
            own = tl.sum(w * w, 2)
            other = tl.sum(partner * partner, 2)
            between = tl.sum(w * partner, 2)
            least = ROUNDING * (exact_root(own) * exact_root(other))
            turns = tl.abs(between) > least
            turned |= turns.to(tl.int32)
            c, s = rotation(own, other, between, r, turns)
            w = c[:, :, None] * w - s[:, :, None] * partner
            if not VALUES:
                v = c[:, :, None] * v - s[:, :, None] * partner_rows(v, r)
        going = tl.max(tl.max(turned, 1), 0)
        sweep += 1
    length = exact_root(tl.sum(w * w, 2))
    rank = rank_of(length, COLUMNS, DOWN=True)
    wrong = finite == 0
    values = tl.where(wrong, float("nan"), length * tl.reshape(scale, [MATRICES, 1]))
    first = rank[:, :, None]
    keep_part(args, finish, m, first, first < COLUMNS, record, values[:, :, None], 0)
    if not VALUES:
        longest = tl.max(length, 1)[:, None]
        own = tl.arange(0, HIGH)[None, :] < COLUMNS
        missing = (length <= ROUNDING * ROUNDING * longest) & own & (wrong == 0)
        u = exact_quotient(w, tl.where(length == 0, 1, length)[:, :, None])
        u = completed_rows(u, missing, ROWS)
        u = tl.where(wrong[:, :, None], float("nan"), u)
        inside = (first < COLUMNS) & (j < ROWS)
        keep_part(args, finish, m, COLUMNS + first * ROWS + j, inside, record, u, 1)
        v = tl.where(wrong[:, :, None], float("nan"), v)
        inside = (first < COLUMNS) & (column < COLUMNS)
        place = COLUMNS + COLUMNS * ROWS + first * COLUMNS + column
        keep_part(args, finish, m, place, inside, record, v, 2)
