"""The Triton backend's templates, a row a kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from aot.backends.triton.attention_tile import HEAD_SIZE
from aot.backends.triton.conv_tiling import ConvSize, channel_parts
from aot.backends.triton.conv_walk import VECTOR
from aot.backends.triton.dot_parts import depth_parts, merges, parts_in_place, shares_blocks
from aot.backends.triton.dot_tiling import (
    FEW_ROWS,
    MOST_GROUPS,
    Size,
)
from aot.backends.triton.dot_times import LINE
from aot.backends.triton.gpu import Gpu
from aot.backends.triton.kernel import EmittedKernel
from aot.backends.triton.template_argsort import COUNT_WORK, SORT_COLUMNS, emit_argsort
from aot.backends.triton.template_attention import emit_attention
from aot.backends.triton.template_bags import emit_bags
from aot.backends.triton.template_conv import NARROW, TINY_GROUP, emit_conv
from aot.backends.triton.template_digits import PART, emit_digit_counts, emit_digits
from aot.backends.triton.template_fft import emit_fft, takes_fft
from aot.backends.triton.template_library import emit_library, left_to_host, takes_small
from aot.backends.triton.template_matmul import (
    ALIGNED,
    emit_matmul,
    fills_processors,
    matmul_workspace,
)
from aot.backends.triton.template_recurrence import SPREAD, emit_recurrence, recurrence_workspace
from aot.backends.triton.template_resample import emit_resample
from aot.backends.triton.template_resample2 import emit_resample2
from aot.backends.triton.template_resample_outer import MOST_INSIDE, workspace
from aot.backends.triton.template_scan import LONGEST, emit_scan
from aot.backends.triton.template_true_places import COMPACTED, emit_true_places
from aot.errors import InternalError
from aot.ir.dtypes import FLOAT32, FLOAT64, DType
from aot.ir.hints import Hints
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.ir.nests import Buffer
from aot.ir.templates import (
    Argsort,
    ArgsortSupport,
    Attention,
    AttentionSupport,
    BagParts,
    Bags,
    BagsSupport,
    ByDigits,
    Conv,
    ConvSupport,
    DigitCounts,
    DigitPlaces,
    Fft,
    HeadRows,
    HostCall,
    KeyParts,
    LibraryCall,
    LibrarySupport,
    MaskRows,
    Matmul,
    MatmulSupport,
    Parts,
    Recurrence,
    RecurrenceSupport,
    Resample,
    Resample2,
    Resample2Support,
    Scan,
    ScanSupport,
    Support,
    TemplateCall,
    TruePlaces,
    TruePlacesSupport,
    Walks,
)
from aot.ir.templates.base import operand_dtype
from aot.ir.templates.conv import Depth
from aot.ir.templates.matmul import AlignedRows
from aot.symbolic import is_int

TENSOR_CORE_TYPES = frozenset(("float32", "float16", "bfloat16"))
"""Names of the element types that attention is computed of; products and convolutions are of
float64, too."""

WIDE_HEAD = 128
LEAST_WIDE = 128
MOST_SCORES = 1 << 30
"""Attention in float32 is two products where heads have more elements than `WIDE_HEAD`, of at least
`LEAST_WIDE` queries and keys, up to so many bytes of scores: digits of both operands and the sums
leave the template's tile 16 queries there, and each tile reads all keys."""

SORT_RUN = SORT_COLUMNS // 2
"""Elements of the runs that longer rows are merged from."""

SCANNED = Parts(longest=LONGEST, least=1024, room=4)
"""Four programs to each place for one end at nearly the same time."""

FIRST_FEW = Parts(longest=2 * SORT_COLUMNS, least=SORT_COLUMNS, room=2)
"""Parts leave as many candidates each: longer ones leave less for the next step."""

DIGITS = ByDigits(probes=8, part=PART)
"""A step of a binary search is a load that waits for the one before. A pass reads keys twice and
positions once, and moves both."""

ROWS = AlignedRows(
    bytes=16,
    least_uses=32,
    least_work=1 << 26,
    words=4,
    span=128,
    copy=3,
    line=LINE,
    line_rows=FEW_ROWS + 1,
    narrow=64,
    turned_rows=512,
)
"""What descriptors and the widest loads take. Odd rows took four times as long on an H200 (7021 x
4095 by 4095 x 515 halves: 420 us, with both operands copied 120), a copy a tenth of that; of
float32, 16384 x 1275 by 1275 x 43, 150 us, copied 60 and the copy 54; 65536 x 1687 by 1687 x 32 352
with its copy, 225 where it lies. float64 is read by the element. Halves in rows of whole words:
14555 x 12978 by 12978 x 80 took 198 us, copied 541. Of batches, 27 of 1792 x 1156 by 1156 x 429
halves took 280 us, copied 124, 74 of 480 x 83 by 83 x 1024 in float32 475, copied 152; what no or
one other block reads again is not worth it (160 of 496 x 119 by 119 x 128 halves: 22, copied 33; 8
of 32 x 2048 by 2048 x 3169 in float32: 97, copied 200), and of rows in whole words 128 of 329 x 92
by 92 x 282 took 29, copied 34. 16 of 1024 x 512 (turned) by 512 x 1024 in float32 took 355 us, with
the depth of the second operand made contiguous 270."""

DEPTH_LAST = ("float32", "float64")
"""Asynchronous tensor cores take TF32 in one order alone: blocks in the other one are turned in
shared memory, which took twice as long (2048 x 8192 by 8192 x 512: 500 us, 274 as they want it).
Blocks of float64 in the other order are read with conflicts of shared memory's banks."""

PREPARED_USES, PREPARED_BLOCKS = 256, 4
"""Asynchronous tensor cores read both operands of TF32 from shared memory if nothing is left to
round; else registers round them, one block of the weight goes back to shared memory, and products
wait for that. A single tap loads, and rounds, each element once for a block of outputs: 156800 x
256 of 32 took 70 us on an H200, 62 without a copy."""

KEY_PARTS = KeyParts(query_tile=16, least_keys=128, block=64, fewest=6, many_keys=512)
"""Attention of few queries is cut by these numbers.

The least keys of a part are a block or two, which a program loads before it computes: in halves,
they and their values are 64 times the bytes that the sums of one query take, written and read.
Parts are multiples of the template's blocks: rounded up later, they would leave nothing for the
last ones. A device that is busy with `units` programs wants memory most of the time with a quarter
of them (a tile on each multiprocessor): there, parts took 3 to 6 % longer than one walk, so there
has to be room for six of each tile. A program reads 128 keys in about a microsecond, and the launch
that combines takes two: from 512 keys on, the walk gets shorter by more than that.
"""

MASK_ROWS = MaskRows(bytes=16, words=4, least_uses=1, least_scores=1 << 22)
"""Loads of less than a word cannot be copied to shared memory ahead of their use: a block's numbers
are in registers, one a load, beside its scores. 64 by 64 of bool in rows of 3699: 64 loads a
thread, 247 registers (Triton 3.6: 255 and 416 bytes spilled); in rows of 3712 12 copies of 8
bytes, 126 registers, so that a multiprocessor has twice as many programs. A score took 7 ps more
there on an H100, as long as copies take for 17 bytes: a launch is worth far fewer than 2^22, and a
copy what it costs where two heads share a mask (4 x 2 of 1482 queries and 2561 keys with a bias of
halves: 519 us on an H200, by a copy 99)."""

HEAD_ROWS = HeadRows(bytes=16, least_uses=256, least_work=1 << 28)
"""What descriptors and the widest loads take."""

BAG_PARTS = BagParts(columns=256, least_points=32, per_unit=4, most=512)
"""Long bags are cut by these numbers, which are not measured.

A part's program is a warp where its bag's rows are narrow, and waits for two reads in turn each few
points: four warps for each unit hide that, and 32 points are a few turns. The parts of a bag are
combined by as many programs as it has blocks of columns, perhaps one.
"""

WALKS = Walks(least_taps=9, most_taps=8, most_inner_taps=32, most_inside=MOST_INSIDE)
"""Resizing by programs that walk an image."""


@dataclass(frozen=True)
class Template:
    """A kind of template call that there are Triton kernels for.

    Attributes:
        support: What the kind's kernels take and like.
        emit: The kernel of such a call and its epilogue.
        fills: Whether a kernel's programs fill a processor each: none shares a launch then.
        workspace: The memory that a kernel wants for itself, if any.
    """

    support: Support[Any]
    emit: Callable[[TemplateKernel, KernelGraph, Hints, Gpu], EmittedKernel]
    fills: Callable[[TemplateKernel, KernelGraph, Gpu], bool]
    workspace: Callable[[TemplateKernel, KernelGraph, Hints, Gpu], Buffer | None] | None = None


def template_of(kernel: TemplateKernel) -> Template:
    """What there is for the kernel's template call.

    Raises:
        InternalError: No row of TEMPLATES is for the call's kind.
    """
    row = TEMPLATES.get(type(kernel.template))
    if row is None:
        raise InternalError(f"{kernel.name}: no Triton template {kernel.template.kind}")
    return row


def _takes_type(call: TemplateCall, buffers: Mapping[str, Buffer], hints: Hints) -> str:
    dtype = operand_dtype(call, buffers)
    if dtype.name in TENSOR_CORE_TYPES:
        return ""
    return f"the device's template for {call.kind} takes no {dtype}"


def _takes_product(call: Matmul | Conv, buffers: Mapping[str, Buffer], hints: Hints) -> str:
    if operand_dtype(call, buffers) == FLOAT64:
        return ""
    return _takes_type(call, buffers, hints)


def _takes_heads(call: Attention, buffers: Mapping[str, Buffer], hints: Hints) -> str:
    sizes = (call.q.axes[3].extent, call.output.axes[3].extent)
    if any(is_int(s) and int(s) > HEAD_SIZE for s in sizes):
        return f"the device's template takes heads of up to {HEAD_SIZE} elements"
    if operand_dtype(call, buffers) == FLOAT32 and _is_wide(call):
        return "tiles of large heads are low where tensor cores take float32 by digits"
    return _takes_type(call, buffers, hints)


def _is_wide(call: Attention) -> bool:
    """True where two products and a softmax, whose scores are stored, are less than the template.

    Only where sizes are known, so that the memory is too.
    """
    *batch, queries, depth = (a.extent for a in call.q.axes)
    extents = (*batch, queries, call.k.axes[2].extent)
    if not is_int(depth) or int(depth) <= WIDE_HEAD or not all(is_int(e) for e in extents):
        return False
    keys = int(extents[-1])
    stored = math.prod(int(e) for e in extents) * FLOAT32.itemsize
    return int(queries) >= LEAST_WIDE <= keys and stored <= MOST_SCORES


def _takes_rows(call: Argsort, buffers: Mapping[str, Buffer], hints: Hints) -> str:
    """Long rows are better merged from runs, unless few elements of them are wanted."""
    rows, columns = (hints.value(a.extent) for a in call.x.axes)
    kept, known = call.output.axes[1].extent, is_int(call.x.axes[1].extent)
    narrow = operand_dtype(call, buffers).compute.itemsize < 8
    few = known and is_int(kept) and 4 * int(kept) <= SORT_RUN and narrow
    if few or columns <= 2 * SORT_RUN or rows * columns * columns <= COUNT_WORK:
        return ""
    return f"rows of {columns} elements are longer than runs that the device sorts"


def _takes_walks(call: Resample, buffers: Mapping[str, Buffer], hints: Hints) -> str:
    return call.no_walk(WALKS.least_taps)


def _always(kernel: TemplateKernel, graph: KernelGraph, gpu: Gpu) -> bool:
    return True


def _never(kernel: TemplateKernel, graph: KernelGraph, gpu: Gpu) -> bool:
    return False


_ROWS = (
    Template(
        ArgsortSupport(Argsort, _takes_rows, run=SORT_RUN, digits=DIGITS, parts=FIRST_FEW),
        emit_argsort,
        _never,
    ),
    Template(
        AttentionSupport(
            Attention,
            _takes_heads,
            parts=KEY_PARTS,
            products=True,
            mask_rows=MASK_ROWS,
            head_rows=HEAD_ROWS,
        ),
        emit_attention,
        _always,
    ),
    Template(BagsSupport(Bags, parts=BAG_PARTS), emit_bags, _never),
    Template(
        ConvSupport(
            Conv,
            _takes_product,
            in_place=True,
            vector=VECTOR,
            narrow_of=tuple(NARROW.items()),
            direct=TINY_GROUP,
            rows=ROWS,
            prepared_uses=PREPARED_USES,
            prepared_blocks=PREPARED_BLOCKS,
            load_bytes=ALIGNED,
        ),
        emit_conv,
        _always,
    ),
    # Their instructions count on the warps of a program, which shared launches may change.
    Template(Support(DigitCounts), emit_digit_counts, _always),
    Template(Support(DigitPlaces), emit_digits, _always),
    Template(Support(Fft, takes_fft, any_view=True), emit_fft, _never),
    Template(
        LibrarySupport(LibraryCall, takes_small, leaves_to_host=left_to_host), emit_library, _never
    ),
    Template(
        MatmulSupport(Matmul, _takes_product, rows=ROWS, depth_last_of=DEPTH_LAST),
        emit_matmul,
        fills_processors,
        matmul_workspace,
    ),
    Template(
        RecurrenceSupport(Recurrence, spread=SPREAD), emit_recurrence, _always, recurrence_workspace
    ),
    Template(Support(Resample, _takes_walks), emit_resample, _never),
    Template(Resample2Support(Resample2, walks=WALKS), emit_resample2, _never, workspace),
    Template(ScanSupport(Scan, takes_producer=True, parts=SCANNED), emit_scan, _never),
    Template(TruePlacesSupport(TruePlaces, parts=COMPACTED), emit_true_places, _never),
)
TEMPLATES: Mapping[type[TemplateCall], Template] = {row.support.kind: row for row in _ROWS}


def supports(gpu: Gpu) -> tuple[Support[Any], ...]:
    """What the kinds' kernels take and like on a GPU; calls of the host, which have no kernel."""
    return (*(_on(gpu, row.support) for row in TEMPLATES.values()), Support(HostCall))


def _on(gpu: Gpu, support: Support[Any]) -> Support[Any]:
    if isinstance(support, ConvSupport):
        return replace(support, parts=_ConvParts(gpu))
    if isinstance(support, MatmulSupport):
        return replace(support, parts=_Parts(gpu), marks=_Marks(gpu), merges=_Merges(gpu))
    return support


@dataclass(frozen=True)
class _ConvParts:
    """`ConvSupport.parts` on a GPU."""

    gpu: Gpu

    def __call__(self, depth: Depth, dtype: DType) -> int:
        last = depth.channels >= VECTOR
        size = ConvSize(
            *(depth.rows, depth.columns, 1, depth.taps, depth.channels, dtype, last),
            rounded=depth.rounded,
            ready=depth.ready,
        )
        return channel_parts(size, self.gpu) if last else 1


@dataclass(frozen=True)
class _Parts:
    """`MatmulSupport.parts` on a GPU."""

    gpu: Gpu

    def __call__(
        self, batch: int, rows: int, columns: int, depth: int, dtype: DType, *, each: int
    ) -> int:
        grouped = dtype.itemsize in (2, 8)
        size = Size(rows, columns, depth, batch, dtype, grouped=grouped)
        return parts_in_place(size, each, self.gpu) if each else depth_parts(size, self.gpu)


@dataclass(frozen=True)
class _Merges:
    """`MatmulSupport.merges` on a GPU."""

    gpu: Gpu

    def __call__(self, rows: int, widths: tuple[int, int], depth: int, dtype: DType) -> bool:
        apart = [Size(rows, n, depth, 1, dtype, grouped=True) for n in widths]
        return merges(apart, self.gpu)


@dataclass(frozen=True)
class _Marks:
    """`MatmulSupport.marks` on a GPU."""

    gpu: Gpu

    def __call__(self, batch: int, rows: int, columns: int, depth: int, dtype: DType) -> int:
        size = Size(rows, columns, depth, batch, dtype, grouped=True)
        shared = shares_blocks(size, self.gpu)
        return self.gpu.multiprocessors * MOST_GROUPS if shared else 0
