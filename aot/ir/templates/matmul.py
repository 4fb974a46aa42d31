"""Matrix products."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from aot.ir.dtypes import INT32, DType
from aot.ir.hints import Hints
from aot.ir.nests import Axis, LoopNest, Store, View
from aot.ir.scalar import Access, binary, const, load, loads, reduce_
from aot.ir.templates.base import Array, LoopOp, Split, Strides, Support, TemplateCall
from aot.ir.templates.builder import NestBuilder
from aot.symbolic import Expr, coefficient_of, integer, is_int, product, substitute, var

_SLIGHT = 16
"""Times as many rows or columns of the other operand."""


@dataclass(frozen=True)
class Matmul(TemplateCall):
    """a (*batch, m, k), b (*batch, k, n) -> output (*batch, m, n): the sums of products.

    Attributes:
        precision: "tf32": float32 operands may be rounded to 11 bits (`TensorGraph.tf32`).
        marks: Zeros, by which work units tell each other what they have done of blocks of the
            result that they share; the one operand that a kernel changes, and nobody else reads.
        triangle: "a": its elements right of the diagonal are 0; "output": those of the result are
            overwritten by what follows, whatever they are. A kernel may leave such products out.
    """

    kind: ClassVar[str] = "matmul"
    changes: ClassVar[frozenset[str]] = frozenset(("marks",))

    a: View
    b: View
    precision: str | None = None
    marks: View | None = None
    triangle: str | None = None

    def interpret(self, operands: Mapping[str, Array], shape: tuple[int, ...]) -> Array:
        """a @ b."""
        return np.asarray(np.matmul(operands["a"], operands["b"]))

    def flops(self) -> Expr:
        """A multiplication and an addition for each row, column and step of the depth."""
        out = [axis.extent for axis in self.output.axes]
        return product((*out, self.a.axes[-1].extent, integer(2)))

    def better_as_nests(self, support: Support[Any], builder: NestBuilder) -> str:
        """A template's packing and tiles cost more than they save for a tiny second operand.

        As nests, chains of tiny layers become a single kernel.
        """
        assert isinstance(support, MatmulSupport)
        right = self.b.axes
        if support.lone_rows and self._widens_for_a_row(builder):
            return "its only row reads a second operand that is made of narrower elements"
        if not all(a.extent.is_Integer for a in right):
            return ""
        weight = builder.hints.volume(right)
        work = builder.hints.volume((*self.output.axes, right[-2]))
        if weight <= support.tiny_weight and work <= support.tiny_work:
            return f"its second operand has only {weight} elements"
        return ""

    def _widens_for_a_row(self, builder: NestBuilder) -> bool:
        """Whether one row alone multiplies what a nest makes of a narrower weight's elements.

        Stored for the template, which reads it once, that would be written and read at its width.
        """
        rows = product([axis.extent for axis in self.output.axes[:-1]])
        if rows != 1 or self.b.buffer not in builder.nests:
            return False

        def bytes_of(name: str) -> int:
            buffer = builder.buffers[name]
            return builder.hints.elements(buffer.shape) * buffer.dtype.itemsize

        sources = _sources(builder.nests, self.b.buffer)
        return sum(map(bytes_of, sources)) < bytes_of(self.b.buffer)

    def packs(self, role: str, support: Support[Any]) -> bool:
        """Weights on the right are stored in the order in which tiles read them."""
        assert isinstance(support, MatmulSupport)
        return role == "b" and support.rows is None

    def stored_walk(
        self, role: str, support: Support[Any], strides: Strides
    ) -> tuple[Axis, ...] | None:
        """The depth of a second operand last, where the backend reads such ones faster."""
        assert isinstance(support, MatmulSupport)
        known = strides[role]
        if role != "b" or not support.depth_last or known is None or known[-2] == 1:
            return None
        *batch, depth, column = self.b.axes
        return (*batch, column, depth)

    def walk(self, role: str, support: Support[Any], strides: Strides) -> tuple[Axis, ...] | None:
        """A copy of a second operand has its depth last where that is wanted."""
        wanted = bool(strides) and self._wants_depth_last(role, support, strides)
        return self.stored_walk(role, support, strides) if wanted else None

    def _wants_depth_last(self, role: str, support: Support[Any], strides: Strides) -> bool:
        """Whether neither operand's depth is contiguous, and the second one's had better be.

        Where the first one's is, the product may be computed as its transposed one.
        """
        first = strides["a"]
        turned = first is not None and first[-1] != 1
        return turned and self.stored_walk(role, support, strides) is not None

    def misfit(self, role: str, support: Support[Any], strides: Strides, hints: Hints) -> str:
        """A second operand that is worth a copy with its depth last."""
        assert isinstance(support, MatmulSupport)
        wish, sizes = support.rows, self._sizes(hints)
        if not self._wants_depth_last(role, support, strides) or self._is_shared(role):
            return ""
        if wish is None or wish.bytes == 1:
            return ""
        m, k, n = sizes
        many = wish.turned_rows and m >= wish.turned_rows
        # Rows of the copy, which are the depth, start where they are read fast.
        fits = k * wish.widest % wish.bytes == 0
        worth = self._batch(hints) * m * k * n >= wish.least_work
        return "neither operand's depth is contiguous" if many and fits and worth else ""

    def row_bytes(self, role: str, support: Support[Any], hints: Hints) -> int:
        """What the backend asks for, where each element that is copied is multiplied often."""
        assert isinstance(support, MatmulSupport)
        wish, sizes = support.rows, self._sizes(hints)
        if wish is None or self._is_shared(role):
            return 1
        m, k, n = sizes
        if role == "a" and n <= wish.narrow:
            return 1
        # Each element of `a` is used once a column, of few rows there is little to copy.
        uses = n if role == "a" and m >= wish.line_rows else min(m, n)
        least = wish.least_uses
        if len(self.output.axes) > 2:
            # As much as the results, where blocks that are read once are not worth a copy.
            uses, least = min(m, n), max(least, wish.span + 1)
            if self._is_slight(role, hints):
                uses = max(m, n)
        worth = uses >= least and self._batch(hints) * m * k * n >= wish.least_work
        return wish.bytes if worth else 1

    def _sizes(self, hints: Hints) -> tuple[int, int, int]:
        """Rows, depth and columns of one product."""
        m, k, n = (hints.value(a.extent) for a in (*self.a.axes[-2:], self.b.axes[-1]))
        return m, k, n

    def _batch(self, hints: Hints) -> int:
        """Products of a batch."""
        return hints.volume(self.output.axes[:-2])

    def _is_slight(self, role: str, hints: Hints) -> bool:
        """Whether products of a batch read so much more of the other operand: a copy is nothing.

        10 of 2971 x 1821 (turned) by 1821 x 64 in float32 took 235 us on an H200, 152 with a copy
        of the second operand; 205 of 24 x 2712 by 2712 x 95 134 without one and with.
        """
        sizes = self._sizes(hints)
        if len(self.output.axes) <= 2:
            return False
        own, other = (sizes[0], sizes[2]) if role == "a" else (sizes[2], sizes[0])
        return other >= _SLIGHT * own

    def _is_shared(self, role: str) -> bool:
        """Whether products of a batch share an operand, which a copy would repeat."""
        view = self.a if role == "a" else self.b
        seen = {symbol for e in view.index for symbol in e.free_symbols}
        return any(axis.symbol not in seen for axis in view.axes[:-2])

    def row_words(self, role: str, support: Support[Any], hints: Hints) -> int:
        """Rows of whole words are read by these, where blocks read each seldom."""
        assert isinstance(support, MatmulSupport)
        wanted, wish = self.row_bytes(role, support, hints), support.rows
        if wish is None or not wish.words or wanted <= wish.words or self._is_slight(role, hints):
            return wanted
        m, _, n = self._sizes(hints)
        read = m * -(-n // wish.span) + n * -(-m // wish.span)
        # Of a batch the second operand is as likely to be copied as the first one.
        seldom = read < wish.copy * m
        if len(self.output.axes) > 2:
            seldom = read <= wish.copy * (m + n)
        return wish.words if seldom else wanted

    def line_bytes(self, role: str, support: Support[Any], hints: Hints) -> int:
        """Whole lines of the cache, where tensor cores read blocks of a matrix.

        Two vectors of the result, one if it is rounded to half of the bytes: other rows are stored,
        and read, by the element.
        """
        assert isinstance(support, MatmulSupport)
        wish, rows = support.rows, self.a.axes[-2]
        wide = wish is not None and wish.bytes == 1  # read by the element, and copied by vectors
        if wish is None or (wide and role == "output"):
            return 1
        # A dynamic number of rows is taken for a large one. Few read little but the second operand:
        # 16 x 14384 by 14384 x 12312 halves took 112 us on an H200, in whole lines 87.
        least = 2 if role == "b" else wish.line_rows
        many = not is_int(rows.extent) or hints.value(rows.extent) >= least
        wanted = 2 * wish.bytes if role == "output" else wish.line
        return wanted if many else 1

    def expand(self, builder: NestBuilder, support: Support[Any] | None) -> list[LoopOp]:
        """One nest that sums products."""
        a, axes = self.a, self.output.axes
        b = builder.row_major_weight(f"{self.name}_b", self.b, self.origin)
        k = Axis(var("k"), a.axes[-1].extent)
        *batch, m, n = (x.symbol for x in axes)
        at_a = dict(zip([x.symbol for x in a.axes], [*batch, m, k.symbol], strict=True))
        at_b = dict(zip([x.symbol for x in b.axes], [*batch, k.symbol, n], strict=True))
        left, right = builder.load(a, at_a), builder.load(b, at_b)
        value = reduce_("sum", binary("mul", left, right))
        return [LoopNest(self.name, axes, (k,), (self.stored(value, builder),), self.origin)]

    # ---- in parts ----

    def split(
        self, builder: NestBuilder, support: Support[Any], units: int, hints: Hints
    ) -> Split | None:
        """A deep product with few results as products of parts of the depth, and their sums."""
        assert isinstance(support, MatmulSupport)
        depth = self.a.axes[-1].extent
        if support.parts is None or not is_int(depth) or self.marks is not None:
            return None
        whole = self._with_whole_rows(builder, support, hints)
        if self.triangle is not None:
            return whole
        *batch, m, n = self.output.axes
        sizes = (hints.some(batch), hints.some([m]), hints.some([n]), max(1, int(depth)))
        dtype = builder.dtype(self.a.buffer)
        if whole is None and support.marks is not None and self._is_even(builder, support):
            count = support.marks(*sizes, dtype)
            if count:
                return self._marked(builder, count)
        each = self._read_where_it_lies(builder, support, hints)
        parts = support.parts(*sizes, dtype, each=each) if each else 1
        there = parts > 1
        if not there:
            parts = support.parts(*sizes, dtype, each=0)
        if parts < 2 or (not there and self._is_odd(builder, support)):
            return whole
        reason = (
            f"{sizes[0] * sizes[1] * sizes[2]} results leave the device idle for a depth of {depth}"
        )
        # What is read where it lies is not copied for where its parts start.
        taken = replace(support, rows=None) if there else support
        return Split(self._in_parts(builder, parts, taken), f"{parts} parts of the depth", reason)

    def _is_even(self, builder: NestBuilder, support: MatmulSupport) -> bool:
        """Whether sizes are known, and rows start where the backend wants them."""
        dtype = builder.dtype(self.a.buffer)
        rows = support.of_type(dtype).rows
        each = 1 if rows is None else max(1, rows.bytes // dtype.itemsize)
        m, k, n = (axis.extent for axis in (*self.a.axes[-2:], self.b.axes[-1]))
        along = k if _runs_along(builder, self.a) else m
        return is_int(m) and all(is_int(e) and int(e) % each == 0 for e in (along, k, n))

    def _marked(self, builder: NestBuilder, count: int) -> Split:
        """The call with marks, and the nest that clears them."""
        name = f"{self.name}_marks"
        axis = Axis(var("mark"), integer(count))
        builder.temp(name, INT32, (axis.extent,))
        clear = Store(name, (axis.symbol,), const(0, INT32))
        marks = View(name, (axis,), (axis.symbol,))
        nest = LoopNest(name, (axis,), (), (clear,), self.origin)
        reason = "its blocks would leave work units idle at the end"
        return Split([nest, replace(self, marks=marks)], "blocks shared out", reason)

    def _is_odd(self, builder: NestBuilder, support: MatmulSupport) -> bool:
        """Whether `a` lies depth first in odd rows: these are copied in whole products alone."""
        dtype, rows = builder.dtype(self.a.buffer), self.a.axes[-2].extent
        wish = support.of_type(dtype).rows
        known = builder.buffers[self.a.buffer].strides is not None
        if wish is None or not known or not is_int(rows) or int(rows) < wish.line_rows:
            return False
        return not _runs_along(builder, self.a) and int(rows) * dtype.itemsize % wish.bytes != 0

    def _read_where_it_lies(
        self, builder: NestBuilder, support: MatmulSupport, hints: Hints
    ) -> int:
        """Elements that parts are multiples of where a copy costs more than slow loads; 0: never.

        One where an operand is read by single elements, a word's where few columns of one product
        read `a` in rows of whole words. 3728 x 13820 by 13820 x 32 halves took 100 us on an H200,
        of which copying `a` took 50.
        """
        if any(self._is_single(builder, role, support, hints) for role in "ab"):
            return 1
        dtype, depth = builder.dtype(self.a.buffer), int(self.a.axes[-1].extent)
        typed = support.of_type(dtype)
        if typed.rows is None or not typed.rows.words or len(self.output.axes) > 2:
            return 0
        row, words = depth * dtype.itemsize, self.row_words("a", typed, hints)
        odd = row % typed.rows.bytes != 0 and row % typed.rows.words == 0
        seldom = _runs_along(builder, self.a) and words <= typed.rows.words
        return typed.rows.words // dtype.itemsize if odd and seldom else 0

    def _is_single(
        self, builder: NestBuilder, role: str, support: MatmulSupport, hints: Hints
    ) -> bool:
        """Whether an operand is read where it lies, in rows that begin within words.

        Of a batch, or `a` with its depth across: 9977 x 16384 (turned) by 16384 x 24 halves took
        1165 us on an H200 in one part, whose 78 programs wait for single loads.
        """
        view = self.a if role == "a" else self.b
        dtype = builder.dtype(view.buffer)
        typed = support.of_type(dtype)
        across = role == "a" and not _runs_along(builder, view)
        if typed.rows is None or not typed.rows.words:
            return False
        if (len(self.output.axes) <= 2 and not across) or self.row_words(role, typed, hints) > 1:
            return False
        row = view.axes[-1 if _runs_along(builder, view) else -2].extent
        known = builder.buffers[view.buffer].strides is not None
        return known and is_int(row) and int(row) * dtype.itemsize % typed.rows.words != 0

    def _with_whole_rows(
        self, builder: NestBuilder, support: MatmulSupport, hints: Hints
    ) -> Split | None:
        """With zeros behind an odd depth of an input that is copied for its rows in any case.

        Nothing tests then where the depth ends, and so loads are whole vectors.
        """
        dtype, depth = builder.dtype(self.a.buffer), int(self.a.axes[-1].extent)
        typed = support.of_type(dtype)
        each = 1 if typed.rows is None else max(1, typed.rows.bytes // dtype.itemsize)
        words = max(self.row_words("a", typed, hints), self._bytes_of_few(typed, dtype, hints))
        if depth % each == 0 or depth * dtype.itemsize % words == 0:
            return None
        if builder.buffers[self.b.buffer].kind != "weight" or not _runs_along(builder, self.a):
            return None
        copies, a, b = self._padded(builder, 1, replace(support, block=each))
        return Split(
            [*copies, replace(self, a=a, b=b)],
            f"a depth of {a.axes[-1].extent}",
            f"rows of {depth} start where they are read slowly",
        )

    def _bytes_of_few(self, support: MatmulSupport, dtype: DType, hints: Hints) -> int:
        """What rows of few halves had better start at multiples of, where weights take the time.

        Copying few rows is nothing beside that: 9 x 7005 by 7005 x 8192 took 157 us on an H200, 35
        with zeros behind the depth.
        """
        wish, (m, k, n) = support.rows, self._sizes(hints)
        if wish is None or dtype.itemsize != 2 or not 1 < m < wish.line_rows:
            return 1
        return wish.bytes if m * k * n >= wish.least_work else 1

    def _in_parts(self, builder: NestBuilder, parts: int, support: MatmulSupport) -> list[LoopOp]:
        part, results = Axis(var("part"), integer(parts)), self.output.axes
        dtype = builder.dtype(self.a.buffer).compute
        copies, a, b = self._padded(builder, parts, support)
        axes = (part, *results)
        point = tuple(a.symbol for a in axes)
        sums = builder.temp(f"{self.name}_parts", dtype, tuple(a.extent for a in axes))
        products = replace(
            self,
            output=View(sums, axes, point),
            a=_cut(a, len(a.axes) - 1, part),
            b=_cut(b, len(b.axes) - 2, part),
        )
        total = self.stored(reduce_("sum", load(sums, dtype, point)), builder)
        return [
            *copies,
            products,
            LoopNest(f"{self.name}_sums", results, (part,), (total,), self.origin),
        ]

    def _padded(
        self, builder: NestBuilder, parts: int, support: MatmulSupport
    ) -> tuple[list[LoopNest], View, View]:
        """Both operands with zeros behind the depth where it is no multiple, and what copies.

        Parts that are no whole blocks are no multiple either, where rows matter to the backend.
        """
        depth, dtype = int(self.a.axes[-1].extent), builder.dtype(self.a.buffer)
        rows = support.of_type(dtype).rows
        starts = parts * (support.block if rows is not None and rows.bytes > 1 else 1)
        if depth % starts == 0:
            return [], self.a, self.b
        each = parts * support.block
        whole = integer(-(-depth // each) * each)
        made = [
            builder.with_zeros(f"{self.name}_{role}", view, len(view.axes) - k, whole, self.origin)
            for role, view, k in (("a", self.a, 1), ("b", self.b, 2))
        ]
        return [nest for nest, _ in made if nest is not None], made[0][1], made[1][1]


def _runs_along(builder: NestBuilder, view: View) -> bool:
    """Whether neighbours along a view's last axis are known to be neighbours in memory."""
    known = builder.buffers[view.buffer].strides
    if known is None:
        return False
    place: Expr = integer(0)
    for index, stride in zip(view.index, known, strict=True):
        place = place + product((index, stride))
    return coefficient_of(place, view.axes[-1].symbol) == 1


def _cut(view: View, k: int, part: Axis) -> View:
    """The view with the axis `k` in parts, whose number is the first axis."""
    whole = view.axes[k]
    size = integer(int(whole.extent) // int(part.extent))
    at = {whole.symbol: part.symbol * size + whole.symbol}
    axes = (part, *view.axes[:k], Axis(whole.symbol, size), *view.axes[k + 1 :])
    return View(view.buffer, axes, tuple(substitute(e, at) for e in view.index))


@dataclass(frozen=True)
class AlignedRows:
    """Rows of operands that a backend reads much faster where they start at multiples of `bytes`.

    Attributes:
        bytes: A power of two. 1: anywhere.
        widest: Bytes of the widest elements that this holds for.
        least_uses: Multiplications of an element from which a copy of it is worth its time, where
        least_work: there are as many in all.
        words: Bytes of two elements, by which rows of whole words are read; 0: they are not.
        span: Rows or columns that are computed together, and
        copy: reads of an element that cost what its copy does.
        line: Bytes that rows had better start at multiples of where that is free (`line_bytes`), of
        line_rows: rows of the result and more. 1: anywhere.
        narrow: Columns of the result up to which rows of whole words are read where they lie: each
            is read once then, as a copy would.
        turned_rows: Rows of the result from which a second operand is copied with its depth
            contiguous where neither operand's is (`MatmulSupport.depth_last`); 0: never.
    """

    bytes: int
    least_uses: int
    least_work: int
    widest: int = 4
    words: int = 0
    span: int = 0
    copy: int = 0
    line: int = 1
    line_rows: int = 0
    narrow: int = 0
    turned_rows: int = 0


class Merges(Protocol):
    """Whether one product by weights of these widths is faster than one by each of them."""

    def __call__(self, rows: int, widths: tuple[int, int], depth: int, dtype: DType) -> bool:
        """False: they stay several."""


class DepthParts(Protocol):
    """How many parts of the depth are the fastest; `each`: operands are read where they lie.

    Parts of such a product divide its depth, and are multiples of so many elements. 0: rows that
    start where they are read slowly are copied.
    """

    def __call__(
        self, batch: int, rows: int, columns: int, depth: int, dtype: DType, *, each: int
    ) -> int:
        """1: the whole depth is."""


def _sources(nests: Mapping[str, LoopNest], name: str) -> set[str]:
    """What a buffer's elements are made of, one by one, by way of any nests."""
    found, seen, waiting = set[str](), set[str](), [name]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        made = nests.get(name)
        if made is None or made.reduction:
            found.add(name)
        else:
            read = (node.attr for node in loads(made.roots))
            waiting += {access.buffer for access in read if isinstance(access, Access)}
    return found


@dataclass(frozen=True)
class MatmulSupport(Support[Matmul]):
    """A backend's template for matrix products.

    Attributes:
        tiny_weight: Elements of a second operand for which loops are better than packing and tiles,
        tiny_work: where there are no more multiplications than these.
        parts: How many parts of the depth are the fastest; None: it takes whole depths.
        block: Parts of a depth that no good number divides are multiples of so many.
        rows: Where it wants operands' rows to start; None: anywhere, and it packs weights.
        marks: How many numbers work units want that share blocks of (batch, rows, columns, depth,
            type) among them; 0: they do not. None: they never do.
        merges: Whether products of one matrix by several weights are better one, whose results are
            read from memory by what joins them; None: never.
        depth_last: It reads a second operand faster whose depth is contiguous; `depth_last_of`: of
            the types of these names.
        lone_rows: A nest multiplies one row by a second operand that it makes of narrower elements
            faster than the operand is stored.
    """

    tiny_weight: int = 4096
    tiny_work: int = 1 << 17
    parts: DepthParts | None = None
    block: int = 64
    rows: AlignedRows | None = None
    marks: Callable[[int, int, int, int, DType], int] | None = None
    merges: Merges | None = None
    depth_last: bool = False
    depth_last_of: tuple[str, ...] = ()
    lone_rows: bool = False

    def of_type(self, dtype: DType) -> MatmulSupport:
        """The same with what holds for operands of a type alone."""
        rows = self.rows
        if rows is not None and dtype.itemsize > rows.widest:
            rows = replace(rows, bytes=1)
        elif rows is not None and rows.words != 2 * dtype.itemsize:
            rows = replace(rows, words=0)
        elif rows is not None:
            rows = replace(rows, narrow=0)
        return replace(self, rows=rows, depth_last=dtype.name in self.depth_last_of)
