"""Products of a matrix and a vector: bound by reading the matrix, so without tensor cores."""

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def gemv(
    args,
    load_matrix,
    load_vector,
    finish,
    program,
    batch,
    depth,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    AHEAD: tl.constexpr,
    WAITS: tl.constexpr,
    SUMS: tl.constexpr,
):
    """Computes COLUMNS columns of a product with one row, walking `depth` elements DEPTH at a time.

    load_matrix(args, batch, n, k): the elements that columns n multiply by the vector's k.
    load_vector(args, batch, k): elements of the vector. Both are 0 beyond the end.
    finish(args, batch, n, total): stores what the sums of columns n become.
    program, batch: which block of columns, and of which product. AHEAD: turns whose part of the
    matrix is read before this kernel waits for those before it, where it WAITS by itself. SUMS: the
    type of sums.
    """
    n = program * COLUMNS + tl.arange(0, COLUMNS)[:, None]
    acc = tl.zeros([COLUMNS, DEPTH], SUMS)
    lanes = tl.arange(0, DEPTH)[None, :]
    ahead = ()
    for turn in tl.static_range(AHEAD):
        ahead += (load_matrix(args, batch, n, turn * DEPTH + lanes),)
    if WAITS:
        gdc_launch_dependents()
        gdc_wait()
    for turn in tl.static_range(AHEAD):
        matrix = ahead[turn].to(SUMS)
        acc += matrix * load_vector(args, batch, turn * DEPTH + lanes).to(SUMS)
    for start in range(AHEAD * DEPTH, depth, DEPTH):
        matrix = load_matrix(args, batch, n, start + lanes).to(SUMS)
        acc += matrix * load_vector(args, batch, start + lanes).to(SUMS)
    finish(args, batch, n, tl.sum(acc, 1)[:, None])
