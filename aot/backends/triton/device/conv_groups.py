"""Convolutions by groups of warps, as products are (`matmul_groups.py`).

The rows of a group's block are a box of neighbouring positions, of one image each. What a tap sees
of a box is a box of the input, which descriptors copy from where it lies: beyond the image's ends
they read the zeros of its padding. So nothing is unfolded, and no thread computes an address.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma

from aot.backends.triton.device.attention_groups import barriers, copy_block
from aot.backends.triton.device.matmul_groups import (
    multiply_blocks,
    places_for,
    turn_of,
    work_of,
)


@gluon.jit
def conv_by_groups(
    args,
    finish,
    program,
    image,
    weight,
    boxes,
    down,
    across,
    TAPS: gl.constexpr,
    APART: gl.constexpr,
    BEFORE: gl.constexpr,
    CHANNELS: gl.constexpr,
    BOX: gl.constexpr,
    GROUPS: gl.constexpr,
    ROWS: gl.constexpr,
    COLUMNS: gl.constexpr,
    MORE: gl.constexpr,
    DEPTH: gl.constexpr,
    STAGES: gl.constexpr,
    GROUP: gl.constexpr,
    SEATS: gl.constexpr,
    REGISTERS: gl.constexpr,
    STORED: gl.constexpr,
):
    """As `matmul_by_groups`: SEATS programs take one block after the other.

    image: (address, images, lines, pixels of one, and elements from each of these to the next).
    weight: (address, outputs, elements from one to the next); a tap's CHANNELS lie behind those of
    the tap before. boxes: (of an image's lines, of a line); each has BOX lines by pixels, ROWS in
    all, and a block GROUPS of them. TAPS: lines and columns of the kernel, APART in the image;
    BEFORE: padding before the first ones. finish(args, 0, m, n, acc): m counts positions of boxes.
    """
    x, w = (image[0], 0, 0, 0, 0), (weight[0], 0, 0, 0, 0)
    a = places_for(x, STAGES * GROUPS, ROWS, DEPTH, FLIPPED=False, PLANES=False)
    b = places_for(w, STAGES, COLUMNS, DEPTH, FLIPPED=False, PLANES=False)
    b_from = taps_from(weight, COLUMNS, TAPS, CHANNELS, DEPTH)
    more, more_from = b, b_from
    if MORE:
        more = places_for(w, STAGES, MORE, DEPTH, FLIPPED=False, PLANES=False)
        more_from = taps_from(weight, MORE, TAPS, CHANNELS, DEPTH)
    sources = (image_from(image, BOX, CHANNELS, DEPTH), b_from, more_from)
    ready, free = barriers(STAGES, 1), barriers(STAGES, GROUPS)
    fence_async_shared()
    places = (a, b, more, ready, free)
    shape = (1, down, across, TAPS[0] * TAPS[1] * ((CHANNELS + DEPTH - 1) // DEPTH))
    work = work_of(program, shape, SEATS, 0)
    mine = (args, program, shape, places, work, (None, None))
    walk: gl.constexpr = (TAPS, APART, BEFORE, BOX, CHANNELS)
    hooks: gl.constexpr = (None, finish)
    sizes: gl.constexpr = (GROUPS, MORE, GROUP, SEATS, False, False, 0, STORED)
    if GROUPS == 3:
        gl.warp_specialize(
            [
                (multiply_blocks, (mine, 0, hooks, sizes)),
                (multiply_blocks, (mine, 1, hooks, sizes)),
                (multiply_blocks, (mine, 2, hooks, sizes)),
                (copy_boxes, (mine, sources, boxes, walk, sizes)),
            ],
            [4, 4, 1],
            [REGISTERS, REGISTERS, 24],
        )
    else:
        gl.warp_specialize(
            [
                (multiply_blocks, (mine, 0, hooks, sizes)),
                (multiply_blocks, (mine, 1, hooks, sizes)),
                (copy_boxes, (mine, sources, boxes, walk, sizes)),
            ],
            [4, 1],
            [REGISTERS, 24],
        )


@gluon.jit
def image_from(image, BOX: gl.constexpr, CHANNELS: gl.constexpr, DEPTH: gl.constexpr):
    """What copies boxes of the input: 0 is read beyond the ends of its images."""
    base, count, lines, pixels, apart, line, pixel = image
    block: gl.constexpr = [1, BOX[0], BOX[1], DEPTH]
    L: gl.constexpr = gl.NVMMASharedLayout.get_default_for(block, base.dtype.element_ty)
    return tma.make_tensor_descriptor(
        base, [count, lines, pixels, CHANNELS], [apart, line, pixel, 1], block, L
    )


@gluon.jit
def taps_from(
    weight, COLUMNS: gl.constexpr, TAPS: gl.constexpr, CHANNELS: gl.constexpr, DEPTH: gl.constexpr
):
    """What copies outputs by channels of one tap."""
    base, outputs, apart = weight
    block: gl.constexpr = [1, COLUMNS, DEPTH]
    L: gl.constexpr = gl.NVMMASharedLayout.get_default_for(block, base.dtype.element_ty)
    return tma.make_tensor_descriptor(
        base, [TAPS[0] * TAPS[1], outputs, CHANNELS], [CHANNELS, apart, 1], block, L
    )


@gluon.jit
def copy_boxes(mine, sources, boxes, walk: gl.constexpr, sizes: gl.constexpr):
    """Copies what each tap sees and its weights, each as soon as there is room."""
    _args, program, shape, places, work, _left = mine
    a, b, more, ready, free = places
    x_from, w_from, more_from = sources
    TAPS: gl.constexpr = walk[0]
    APART: gl.constexpr = walk[1]
    BEFORE: gl.constexpr = walk[2]
    BOX: gl.constexpr = walk[3]
    GROUPS: gl.constexpr = sizes[0]
    MORE: gl.constexpr = sizes[1]
    STAGES: gl.constexpr = b.shape[0]
    ROWS: gl.constexpr = a.shape[-2]
    DEPTH: gl.constexpr = a.shape[-1]
    COLUMNS: gl.constexpr = b.shape[-2]
    BLOCKS: gl.constexpr = (walk[4] + DEPTH - 1) // DEPTH
    size: gl.constexpr = (
        DEPTH * (GROUPS * ROWS + COLUMNS + MORE) * (a.dtype.primitive_bitwidth // 8)
    )
    high, wide = boxes
    at = 0
    for turn in range(0, work[0]):
        _batch, row, column, _first, last = turn_of(turn, program, work, shape, sizes)
        n = column * (COLUMNS + MORE)
        for step in range(0, last):
            tap, c = step // BLOCKS, step % BLOCKS * DEPTH
            y = tap // TAPS[1] * APART[0] - BEFORE[0]
            x = tap % TAPS[1] * APART[1] - BEFORE[1]
            slot = at % STAGES
            mbarrier.wait(free.index(slot), ((at // STAGES) & 1) ^ 1)
            mbarrier.expect(ready.index(slot), size)
            for group in gl.static_range(GROUPS):
                box = row * GROUPS + group
                line = box // wide
                up, along = line % high * BOX[0] + y, box % wide * BOX[1] + x
                place = a.index(slot * GROUPS + group).reshape([1, BOX[0], BOX[1], DEPTH])
                copy_block(x_from, [line // high, up, along, c], ready.index(slot), place)
            place = b.index(slot).reshape([1, COLUMNS, DEPTH])
            copy_block(w_from, [tap, n, c], ready.index(slot), place)
            if MORE:
                place = more.index(slot).reshape([1, MORE, DEPTH])
                copy_block(more_from, [tap, n + COLUMNS, c], ready.index(slot), place)
            at += 1
