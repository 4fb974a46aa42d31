"""Matrix products on tensor cores.

A program computes blocks of the product, walking the depth in a software-pipelined loop.
"""

import triton
import triton.language as tl


@triton.jit
def block_of(program, down, across, GROUP: tl.constexpr):
    """The row and column of a program's block, of `down` by `across` blocks.

    Programs of neighbouring numbers take turns in GROUP rows of blocks, and so share operands in
    the second-level cache ("grouped ordering", Tillet et al., Triton, MAPL 2019).
    """
    group = program // (GROUP * across)
    height = tl.minimum(down - group * GROUP, GROUP)
    place = program % (GROUP * across)
    return group * GROUP + place % height, place // height


@triton.jit
def depth_of(
    row,
    column,
    depth,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    TRIANGLE: tl.constexpr,
):
    """Where a block's steps end: a step at least, or Triton would not pipeline them.

    TRIANGLE: "a": 0 is what the first operand has right of the diagonal; "output": nobody wants
    what the result has there.
    """
    if TRIANGLE == "a":
        depth = tl.minimum(depth, (row + 1) * ROWS)
    if TRIANGLE == "output":
        depth = tl.where(column * COLUMNS < (row + 1) * ROWS, depth, tl.minimum(depth, DEPTH))
    return depth


@triton.jit
def steps_wanted(args, wanted, batch, end, least):
    """`end`, or `least` where the product is not wanted: then any sums will do."""
    if wanted is not None:
        end = tl.where(wanted(args, batch), end, tl.minimum(end, least))
    return end


@triton.jit
def rounded(block):
    """float32 whose first 11 bits are the nearest ones: tensor cores cut off what is behind."""
    bits = block.to(tl.int32, bitcast=True)
    near = (bits + 0x1000).to(tl.float32, bitcast=True)
    return tl.where(block == block, near, block)


@triton.jit
def lowered(block):
    """float32 less half of the last of 11 bits, which was added to what is not 0."""
    bits = block.to(tl.int32, bitcast=True)
    return tl.where(bits == 0, bits, bits - 0x1000).to(tl.float32, bitcast=True)


@triton.jit
def block_added(
    acc,
    left,
    right,
    PRECISION: tl.constexpr,
    LEFT_ROUNDED: tl.constexpr = False,
    RIGHT_ROUNDED: tl.constexpr = False,
):
    """`acc` and the product of two blocks.

    LEFT_ROUNDED, RIGHT_ROUNDED: they are as TF32 has them; of others, they are to be `lowered`.
    Of float32 the block is summed by itself: sums in one chain over the depth are off by as many
    roundings as there are terms, and these by the square root of that. Halves, and float32 that is
    rounded to TF32, lose more by their own rounding than a chain does.
    """
    if left.dtype == tl.float32 and PRECISION != "tf32":
        left = lowered(left) if LEFT_ROUNDED else left
        right = lowered(right) if RIGHT_ROUNDED else right
        # Triton makes a product and a plain addition to it one chain.
        return tl.fma(tl.dot(left, right, input_precision=PRECISION), 1.0, acc)
    if PRECISION == "tf32":
        left = left if LEFT_ROUNDED else rounded(left)
        right = right if RIGHT_ROUNDED else rounded(right)
    return tl.dot(left, right, acc, input_precision=PRECISION, out_dtype=acc.dtype)


@triton.jit
def matmul(
    args,
    load_left,
    load_right,
    finish,
    program,
    batch,
    down,
    across,
    depth,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    GROUP: tl.constexpr,
    PRECISION: tl.constexpr,
    SUMS: tl.constexpr,
    TRIANGLE: tl.constexpr,
    wanted=None,
):
    """Computes one block of ROWS by COLUMNS, in steps of DEPTH of the `depth`.

    load_left(args, batch, m, k) and load_right(args, batch, k, n): blocks of the operands, 0 beyond
    the end. finish(args, batch, m, n, acc): stores what the block of the product becomes.
    program, batch: which block (`block_of`), and of which product. PRECISION: that of tl.dot. SUMS:
    the type of sums. TRIANGLE: that of `depth_of`. wanted(args, batch): whether any of the product
    is; None: it is.
    """
    row, column = block_of(program, down, across, GROUP)
    if TRIANGLE == "a":
        row = down - 1 - row  # the longest ones first
    m = row * ROWS + tl.arange(0, ROWS)[:, None]
    n = column * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    acc = tl.zeros([ROWS, COLUMNS], SUMS)
    end = depth_of(row, column, depth, ROWS, COLUMNS, DEPTH, TRIANGLE)
    end = steps_wanted(args, wanted, batch, end, DEPTH)
    for start in range(0, end, DEPTH):
        left = load_left(args, batch, m, start + tl.arange(0, DEPTH)[None, :])
        right = load_right(args, batch, start + tl.arange(0, DEPTH)[:, None], n)
        acc = block_added(acc, left, right, PRECISION)
    finish(args, batch, m, n, acc)


@triton.jit
def matrix_block(matrix, plane, row, column, PLANES: tl.constexpr):
    """The block of a descriptor that begins there, of one plane where it has PLANES."""
    if PLANES:
        block = matrix.load([plane, row, column])
        block = tl.reshape(block, [block.shape[1], block.shape[2]])
    else:
        block = matrix.load([row, column])
    return block


@triton.jit
def matmul_by_copies(
    args,
    origins,
    finish,
    program,
    left,
    right,
    batches,
    down,
    across,
    depth,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    GROUP: tl.constexpr,
    PRECISION: tl.constexpr,
    SUMS: tl.constexpr,
    SEATS: tl.constexpr,
    LEFT_FLIPPED: tl.constexpr,
    RIGHT_FLIPPED: tl.constexpr,
    PLANES: tl.constexpr,
    TRIANGLE: tl.constexpr,
    wanted=None,
):
    """As `matmul`, by SEATS programs that stay and take one block after the other.

    left, right: descriptors of the operands, which the device copies blocks by (TMA); flipped ones
    have the depth first, others last. origins(args, batch): where the matrices of one of `batches`
    products start there, (row, column) of the left and of the right one; None for one product, and
    for PLANES: each matrix has one of its own.
    """
    # Flattened, the loop over blocks fetches for the next one while this one's epilogue runs.
    for number in tl.range(program, batches * down * across, SEATS, flatten=True):
        single: tl.constexpr = origins is None and not PLANES
        batch = 0 if single else number // (down * across)
        inside = number if single else number % (down * across)
        row, column = block_of(inside, down, across, GROUP)
        if TRIANGLE == "a":
            row = down - 1 - row
        m, n = row * ROWS, column * COLUMNS
        end = depth_of(row, column, depth, ROWS, COLUMNS, DEPTH, TRIANGLE)
        end = steps_wanted(args, wanted, batch, end, DEPTH)
        rows = m + tl.arange(0, ROWS)[:, None]
        columns = n + tl.arange(0, COLUMNS)[None, :]
        acc = tl.zeros([ROWS, COLUMNS], SUMS)
        if origins is None:
            a, b, c, d = 0, 0, 0, 0
        else:
            a, b, c, d = origins(args, batch)
        for k in range(0, end, DEPTH):
            if LEFT_FLIPPED:
                first = matrix_block(left, batch, a + k, b + m, PLANES).T
            else:
                first = matrix_block(left, batch, a + m, b + k, PLANES)
            if RIGHT_FLIPPED:
                second = matrix_block(right, batch, c + k, d + n, PLANES)
            else:
                second = matrix_block(right, batch, c + n, d + k, PLANES).T
            acc = block_added(acc, first, second, PRECISION)
        finish(args, batch, rows, columns, acc)
