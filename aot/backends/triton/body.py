"""Emission of scalar expressions as statements on tiles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from aot.backends.guards import Guard
from aot.backends.scoped import Scoped
from aot.backends.triton.context import KernelContext, TileDim, Value, WalkTurn
from aot.backends.triton.ops import (
    conversion,
    from_memory,
    in_memory,
    operation,
    reinterpretation,
)
from aot.backends.triton.text import Writer, index_text, literal, value_type
from aot.errors import InternalError
from aot.ir.dtypes import BOOL, FLOAT32, INT64, DType
from aot.ir.kernel_facts import maybe_empty
from aot.ir.nests import Store
from aot.ir.operations import COMPARE
from aot.ir.scalar import Access, IndexCheck, IndexValue, Node
from aot.symbolic import Expr, Symbol, affine_coefficients, integer, is_multiple, product, var

NOWHERE: frozenset[str] = frozenset()

_ATOMIC = {"add": "add", "maximum": "max", "minimum": "min"}
"""Instructions by the mode of a store; products compare and swap (`atomic_mul`)."""

ATOMICS = frozenset(
    [(mode, name) for mode in ("add", "mul") for name in ("float32", "float64", "int32", "int64")]
    + [(mode, name) for mode in ("maximum", "minimum") for name in ("int32", "int64")]
)
"""(mode of a store, element type) that GPUs join in memory at once.

Those of floats that find the greatest know no NaN.
"""

LET_NEXT_START, WAIT = "gdc_launch_dependents()", "gdc_wait()"
"""What a kernel calls that lets the next one start, and one that waits for those before it."""


SEEN_NEIGHBOURS = 4
"""Where rows are of so many, the compiler sees them in remainders. A join of rows of 5001 and 6003
bfloat16 took 1.04 of its time on an H200 where all stores were seen to be neighbours, no loads."""


class Body(Scoped[Value]):
    """Writes the statements of one kernel; scopes follow the loops.

    A value varies along some dimensions of the tile (`Value.dims`) and has size 1 in the others.
    """

    def __init__(
        self, context: KernelContext, writer: Writer, rank: int, *, gluon: bool = False
    ) -> None:
        """`gluon`: the statements are of a function that Gluon calls."""
        super().__init__()
        self.gluon = gluon
        self.context = context
        self.writer = writer
        self.rank = rank
        self.faults = False
        self.waited = not context.early
        self._axes: dict[Symbol, str] = {}
        self._names: dict[Symbol, str] = dict(context.names)
        self._dims: dict[str, TileDim] = {}
        self._reduced: dict[str, Value] = {}
        self._turn: WalkTurn | None = None
        self._pieces: dict[str, tuple[dict[Node, Value], dict[Symbol, str]]] = {}
        self.guards: Mapping[Node, Guard] = {}
        """The selections that are written with branches, which a whole tile takes or does not."""
        self.wide_stores = False
        """Offsets of stores have 64 bits: the compiler then exchanges what they come from among
        threads, and no pointers, whose halves the assembler of CUDA 12.8 mixes up."""
        self.policy = ""
        """What caches do with what varies along all dimensions: "evict_last" or "evict_first"."""

    def wait(self) -> None:
        """Lets the next launch start, and waits for those before: only weights are read sooner."""
        if not self.waited:
            self.writer.line(LET_NEXT_START)
            self.writer.line(WAIT)
        self.waited = True

    # ---- names, scopes ----

    @contextmanager
    def loop(self, head: str) -> Iterator[None]:
        """A loop; values emitted inside end with it."""
        with self.block(), self.writer.block(head):
            yield

    def define_buffer(self, buffer: str, value: Value) -> None:
        """Makes `value` stand for the element of a buffer that the kernel has computed."""
        self._reduced[buffer] = value

    def name(self, text: str, dtype: DType, dims: frozenset[str]) -> Value:
        """Binds an expression to a fresh variable."""
        variable = self.fresh("v")
        self.writer.line(f"{variable} = {text}")
        return Value(variable, dtype, dims)

    # ---- the tile ----

    def open_dim(self, dim: TileDim, start: str) -> None:
        """Writes the index of a tile dimension from `start`, its mask, and its axes' variables."""
        kind = self.context.index_type
        lanes = f"tl.arange(0, {dim.block})"
        if self.rank == 2:
            lanes += "[:, None]" if dim.position == 0 else "[None, :]"
        if self.context.wide:
            lanes += f".to({kind})"
        self.writer.line(f"{dim.name} = {start} + {lanes}")
        self._bound_dim(dim, start)

    def take_turn(self, turn: WalkTurn | None) -> None:
        """Begins a turn of a walk, whose index and mask are written; None: ends the walk."""
        self._turn = turn
        if turn is not None:
            self.take_written(turn.dim)

    def take_written(self, dim: TileDim) -> None:
        """Makes a tile dimension known whose index and mask are written."""
        self._dims[dim.name] = dim
        self._decode(dim)

    @contextmanager
    def piece(self, dim: TileDim, start: str) -> Iterator[None]:
        """One of several tiles side by side: its values are there when it is open again."""
        values, names = self._pieces.setdefault(dim.name, ({}, {}))
        with self.reopened(values):
            if not names:
                self.open_dim(dim, start)
                names.update({a.symbol: self._names[a.symbol] for a in dim.axes})
            for symbol, name in names.items():
                self.name_axis(symbol, name, dim.name)
            yield

    def take_dim(self, dim: TileDim) -> None:
        """As `open_dim`, of an index that the function is given."""
        if self.context.wide:
            self.writer.line(f"{dim.name} = {dim.name}.to({self.context.index_type})")
        self._bound_dim(dim)

    def _bound_dim(self, dim: TileDim, start: str = "") -> None:
        if not dim.is_exact:
            points = index_text(dim.points, self._names)
            self.writer.line(f"{dim.name}_in = {dim.name} < {points}")
        self._dims[dim.name] = dim
        self._decode(dim, start)

    def _decode(self, dim: TileDim, start: str = "") -> None:
        """Names the axes of a dimension; `start`: of its neighbouring points, where that is known.

        Of a last axis that is longer than the tile there are two rows in it at most: a comparison
        says which, where a division would be one for each point.
        """
        rest = dim.name
        for k in range(len(dim.axes) - 1, -1, -1):
            axis = dim.axes[k]
            self._axes[axis.symbol] = dim.name
            if k == 0:
                self._names[axis.symbol] = rest
                continue
            extent = index_text(axis.extent, self._names)
            inner, outer = self.fresh("i"), self.fresh("i")
            self.writer.line(f"{inner} = {rest} % ({extent})")
            long = axis.extent.is_Integer and int(axis.extent) >= dim.block
            if start and long and self.rank == 1 and _hides_neighbours(dim) and rest == dim.name:
                first = self.fresh("first")
                self.writer.line(f"{first} = ({start}) // ({extent})")
                more = f"{rest} >= ({first} + 1) * ({extent})"
                self.writer.line(f"{outer} = tl.where({more}, {first} + 1, {first})")
            else:
                self.writer.line(f"{outer} = {rest} // ({extent})")
            self._names[axis.symbol] = inner
            rest = outer

    def name_axis(self, symbol: Symbol, text: str, dim: str | None) -> None:
        """Gives a loop variable a name; `dim`: the tile dimension along which it varies."""
        self._names[symbol] = text
        if dim is not None:
            self._axes[symbol] = dim

    def declare_dim(self, dim: TileDim) -> None:
        """Makes a tile dimension known whose index somebody else writes."""
        self._dims[dim.name] = dim

    def forget_dim(self, dim: TileDim) -> None:
        """Ends a dimension whose tile nothing varies along any more."""
        del self._dims[dim.name]

    def shape(self, dims: Iterable[str]) -> str:
        """The tile's shape for values that vary along `dims`."""
        sizes = ["1"] * self.rank
        for name in dims:
            dim = self._dims[name]
            sizes[dim.position if self.rank == 2 else 0] = dim.width or str(dim.block)
        return f"[{', '.join(sizes)}]"

    def masks(self, dims: Iterable[str]) -> list[str]:
        """The masks of those dimensions that have one."""
        return [f"{d}_in" for d in sorted(dims) if not self._dims[d].is_exact]

    def index(self, expr: Expr, binds: Mapping[Symbol, Value]) -> tuple[str, frozenset[str]]:
        """The text of an index expression, and the dimensions along which it varies."""
        names = {**self._names, **{s: self._narrowed(v) for s, v in binds.items()}}
        dims = {self._axes[s] for s in expr.free_symbols if s in self._axes}
        for dim in self._dims.values():
            if self.rank == 1 or dim.flat:
                expr = _flattened(expr, dim, names)
        for symbol, value in binds.items():
            if symbol in expr.free_symbols:
                dims |= value.dims
        return index_text(expr, names), frozenset(dims)

    def _narrowed(self, value: Value) -> str:
        return value.text if self.context.wide else f"{value.text}.to(tl.int32)"

    # ---- values ----

    def operands(self, node: Node) -> tuple[Node, ...]:
        """None for a comparison of positions, which is written from their indices."""
        if node in self.guards:
            return self.guards[node].before
        error = _erf_plus_one(node)
        if error is not None:
            return error.args
        return () if self._is_position(node) else node.args

    def emit(self, node: Node) -> Value:
        """Writes a node."""
        if self._is_position(node):
            return self._compare_positions(node)
        if node in self.guards:
            return self._guarded(node, self.guards[node])
        error = _erf_plus_one(node)
        if error is not None:
            value = self.known(error.args[0])
            return self.name(f"erf_plus_one({value.text})", node.dtype, value.dims)
        args = [self.known(a) for a in node.args]
        attr = node.attr
        if isinstance(attr, Access):
            return self._load(node, attr, args)
        if isinstance(attr, IndexValue):
            text, dims = self.index(
                self.context.ranges.simplify(attr.expr), self._bound(attr, args)
            )
            # A size, or an expression of them, is a plain number in the interpreter.
            return self.name(f"({text} + tl.full([], 0, tl.int64))", INT64, dims)
        if isinstance(attr, IndexCheck):
            return self._check(args[0], attr)
        dims = frozenset[str]().union(*(a.dims for a in args))
        if node.op == "const":
            text = literal(attr, node.dtype, gluon=self.gluon)  # type: ignore[arg-type]
            return Value(text, node.dtype, NOWHERE)
        if node.op == "cast":
            return self.name(conversion(args[0].text, args[0].dtype, node.dtype), node.dtype, dims)
        if node.op == "bitcast":
            text = reinterpretation(args[0].text, args[0].dtype, node.dtype)
            return self.name(text, node.dtype, dims)
        operand = args[-1].dtype if node.op == "where" else args[0].dtype
        return self.name(operation(node.op, operand, [a.text for a in args]), node.dtype, dims)

    def _guarded(self, node: Node, guard: Guard) -> Value:
        """A selection whose sides are evaluated where some point of the tile wants them."""
        dims = NOWHERE.union(*(self.known(a).dims for a in guard.before))
        condition = self.known(node.args[0]).text
        plain = [self.known(a) for k, a in enumerate(node.args) if k and k not in guard.sides]
        kind = value_type(node.dtype)
        shape = self.shape(dims) if dims else "[]"
        start = self.spread(plain[0], dims) if plain else f"tl.full({shape}, 0, {kind})"
        chosen = self.name(start, node.dtype, dims)
        for side in guard.sides:
            wanted = condition if side == 1 else f"{condition} == 0"
            with self.loop(f"if any_true({wanted})"):
                own = self.value(node.args[side]).text
                pair = f"{own}, {chosen.text}" if side == 1 else f"{chosen.text}, {own}"
                self.writer.line(f"{chosen.text} = tl.where({condition}, {pair})")
        return chosen

    def _bound(self, attr: Access | IndexValue, args: list[Value]) -> dict[Symbol, Value]:
        return dict(zip(attr.binds, args, strict=False))

    def _is_position(self, node: Node) -> bool:
        """True for a comparison of plain indices: it needs no 64-bit values."""
        return node.op in COMPARE and all(_position(a) is not None for a in node.args)

    def _compare_positions(self, node: Node) -> Value:
        sides = []
        dims: frozenset[str] = NOWHERE
        for arg in node.args:
            expr = _position(arg)
            assert expr is not None
            text, varying = self.index(self.context.ranges.simplify(expr), {})
            sides.append(f"({text})")
            dims = dims | varying
        if not dims:
            sides[0] = f"({sides[0]} + tl.full([], 0, {self.context.index_type}))"
        return self.name(operation(node.op, INT64, sides), BOOL, dims)

    def _load(self, node: Node, access: Access, args: list[Value]) -> Value:
        buffer = access.buffer
        if buffer in self._reduced:
            return self._reduced[buffer]
        guard = args[-1] if access.masked else None
        for test in self._filled(node.args[: len(access.binds)]):
            if guard is None:
                guard = Value(test, BOOL, NOWHERE)
            else:
                guard = Value(f"({guard.text} & {test})", BOOL, guard.dims)
        raw = self.read(buffer, access.index, self._bound(access, args), guard)
        return self.name(from_memory(raw.text, raw.dtype), node.dtype, raw.dims)

    def read(
        self,
        buffer: str,
        index: Iterable[Expr],
        binds: Mapping[Symbol, Value] | None = None,
        guard: Value | None = None,
    ) -> Value:
        """The expression that reads an element, in the type that it has in memory."""
        offset, pointer = self.context.offset(buffer, index), self.context.pointers[buffer]
        return self._read_at(pointer, offset, buffer, binds or {}, guard)

    def read_hoisted(self, buffer: str, index: Iterable[Expr]) -> Value:
        """As `read`; what of the offset is the same for the whole tile goes to the pointer first.

        Triton then carries pointers through a loop, in place of computing them from offsets.
        """
        offset, pointer = self._hoisted(
            self.context.offset(buffer, index), self.context.pointers[buffer]
        )
        return self._read_at(pointer, offset, buffer, {}, None)

    def _read_at(
        self,
        pointer: str,
        offset: Expr,
        buffer: str,
        binds: Mapping[Symbol, Value],
        guard: Value | None,
    ) -> Value:
        text, dims = self.index(offset, binds)
        whole = dims | guard.dims if guard is not None else dims
        masks = self.masks(whole)
        place = self._in_turn(offset)
        if place and self._turn is not None:
            text, masks = place, [*self.masks(whole - {self._turn.dim.name}), *self._turn.reads]
        if guard is not None:
            masks.append(guard.text)
        address = self._offset_from(pointer, text, dims, whole)
        more = self._mask_argument(masks, whole) + self._policy_argument(dims)
        return Value(f"tl.load({address}{more})", self.context.buffers[buffer].dtype, whole)

    def _in_turn(self, offset: Expr) -> str:
        """The place of elements of a walk's turn, in whole vectors; "" where it knows none."""
        if self._turn is None:
            return ""
        walk = self._turn.walk
        ahead = walk.place(offset)
        if ahead is None:
            return ""
        more = "" if ahead == 0 else f"({self.index(ahead, {})[0]}) + "
        return f"{walk.low} + {more}{self._turn.place}"

    def _hoisted(self, offset: Expr, pointer: str) -> tuple[Expr, str]:
        varying = [s for s in offset.free_symbols if s in self._axes]
        solved = affine_coefficients(offset, varying)
        if solved is None or solved[1] == 0:
            return offset, pointer
        text, _ = self.index(solved[1], {})
        return offset - solved[1], f"({pointer} + ({text}))"

    def _address(
        self, buffer: str, offset: str, dims: frozenset[str], whole: frozenset[str]
    ) -> str:
        return self._offset_from(self.context.pointers[buffer], offset, dims, whole)

    def _offset_from(
        self, pointer: str, offset: str, dims: frozenset[str], whole: frozenset[str]
    ) -> str:
        if dims == whole:
            return pointer if offset == "0" else f"{pointer} + ({offset})"
        spread = f"tl.zeros({self.shape(whole)}, {self.context.index_type})"
        return f"{pointer} + ({offset}) + {spread}"

    def _policy_argument(self, dims: frozenset[str]) -> str:
        return (
            f", eviction_policy='{self.policy}'" if self.policy and len(dims) == self.rank else ""
        )

    def _mask_argument(self, masks: list[str], dims: frozenset[str]) -> str:
        if not masks:
            return ""
        joined = " & ".join(masks)
        if dims and (len(masks) > 1 or len(dims) > 1):
            joined = f"tl.broadcast_to({joined}, {self.shape(dims)})"
        return f", mask={joined}, other=0"

    def _check(self, value: Value, check: IndexCheck) -> Value:
        size, _ = self.index(check.size, {})
        wrapped = value
        if check.wrap:
            text = f"tl.where({value.text} < 0, {value.text} + {size}, {value.text})"
            wrapped = self.name(text, INT64, value.dims)
        wrong = self.name(f"({wrapped.text} < 0) | ({wrapped.text} >= {size})", BOOL, value.dims)
        self.report(wrong)
        return self.name(
            f"tl.minimum(tl.maximum({wrapped.text}, 0), {size} - 1)", INT64, value.dims
        )

    def _filled(self, bound: Iterable[Node]) -> list[str]:
        """Tests that no dimension is empty into which these values, already checked, point."""
        sizes = (self.index(s, {})[0] for s in maybe_empty(bound, self.context.ranges))
        # A size, or an expression of them, is a plain number in the interpreter.
        return [f"({size} + tl.full([], 0, tl.int64) > 0)" for size in sizes]

    def report(self, wrong: Value) -> None:
        """Flags a fault where `wrong` is true inside of the tile."""
        self.faults = True
        masks = " & ".join([wrong.text, *self.masks(wrong.dims)])
        if not wrong.dims:
            self.writer.line(f"tl.store(fault, 1, mask={masks})")
            return
        shape = self.shape(wrong.dims)
        self.writer.line(
            f"tl.store(fault + tl.zeros({shape}, tl.int32), tl.full({shape}, 1, tl.int32), "
            f"mask=tl.broadcast_to({masks}, {shape}))"
        )

    def store(self, store: Store) -> None:
        """Writes a store's value to memory, or adds it there.

        Raises:
            InternalError: Points meet in a way that is no atomic operation (ATOMICS).
        """
        value = self.value(store.value)
        binds = {s: self.value(n) for s, n in store.binds}
        offset = self.context.offset(store.buffer, store.index)
        text, dims = self.index(offset, binds)
        whole = dims | value.dims
        if store.conflicts:  # each point counts, even where neither place nor value varies
            whole = frozenset(self._dims)
        masks = self.masks(whole) + self._filled(n for _, n in store.binds)
        if self._turn is not None:
            text = self._in_turn(offset)
            masks = [*self.masks(whole - {self._turn.dim.name}), *self._turn.writes]
        masks += self._inside(store) if store.clipped else []
        mask = " & ".join(masks)
        if masks and len(whole) > 1:
            mask = f"tl.broadcast_to({mask}, {self.shape(whole)})"
        dtype = self.context.buffers[store.buffer].dtype
        # Memory rounds, so that nothing has to before.
        same = value.dtype == dtype or dtype.is_float8
        stored = value.text if same else conversion(value.text, value.dtype, dtype)
        stored = in_memory(stored, dtype)
        if whole != value.dims:
            stored = f"tl.broadcast_to({stored}, {self.shape(whole)})"
        if store.mode == "mul":
            self._multiply(store.buffer, text, stored, mask or "True", whole)
            return
        text = f"({text}).to(tl.int64)" if self.wide_stores and dims else text
        address = self._address(store.buffer, text, dims, whole)
        masked = f", mask={mask}" if masks else ""
        if not store.conflicts:
            masked += self._policy_argument(dims)
            self.writer.line(f"tl.store({address}, {stored}{masked})")
            return
        if (store.mode, dtype.name) not in ATOMICS:
            raise InternalError(f"{store.buffer}: GPUs have no atomic {store.mode} of {dtype}")
        function = f"tl.atomic_{_ATOMIC[store.mode]}"
        self.writer.line(f"{function}({address}, {stored}{masked}, sem='relaxed')")

    def _inside(self, store: Store) -> list[str]:
        """Conditions that a store's place lies inside of its buffer."""
        ranges, found = self.context.ranges, list[str]()
        for place, size in zip(store.index, self.context.buffers[store.buffer].shape, strict=True):
            text, _ = self.index(place, {})
            if not ranges.nonnegative(place):
                found.append(f"(({text}) >= 0)")
            if not ranges.nonnegative(size - 1 - place):
                found.append(f"(({text}) < {index_text(size, self.context.names)})")
        return found

    def _multiply(
        self, buffer: str, offset: str, value: str, mask: str, dims: frozenset[str]
    ) -> None:
        """Multiplies elements of a buffer; the function takes no scalars."""
        shape = self.shape(dims) if dims else "[1]"
        places = f"({offset}) + tl.zeros({shape}, {self.context.index_type})"
        chosen = f"({mask}) & tl.full({shape}, True, tl.int1)"
        bits = f"tl.int{8 * self.context.buffers[buffer].dtype.itemsize}"
        pointer = self.context.pointers[buffer]
        self.writer.line(
            f"atomic_mul({pointer}, {places}, tl.broadcast_to({value}, {shape}), {chosen}, {bits})"
        )

    def spread(self, value: Value, dims: frozenset[str]) -> str:
        """The value's text with the whole shape of `dims`."""
        if value.dims == dims:
            return value.text
        return f"tl.broadcast_to({value.text}, {self.shape(dims)})"

    def padded(self, value: Value, dims: frozenset[str]) -> str:
        """As `spread`, and 0 beyond the extents of dimensions along which the value is constant.

        What is read along a dimension has zeros there already.
        """
        text, masks = self.spread(value, dims), self.masks(dims - value.dims)
        return f"tl.where({' & '.join(masks)}, {text}, 0)" if masks else text


def _hides_neighbours(dim: TileDim) -> bool:
    """True where remainders are those of rows that no few neighbours make up."""
    return len(dim.axes) > 1 and not is_multiple(dim.axes[-1].extent, SEEN_NEIGHBOURS)


def _flattened(expr: Expr, dim: TileDim, names: dict[Symbol, str]) -> Expr:
    """The expression of the flat index, where it walks the dimension's axes as that one does.

    The compiler sees neighbours in that, but none in remainders of a row of odd length.
    """
    if not _hides_neighbours(dim):
        return expr
    solved = affine_coefficients(expr, [a.symbol for a in dim.axes])
    if solved is None:
        return expr
    steps, rest = solved
    inner = zip(steps[1:], dim.axes[1:], strict=True)
    even = all(a == product((b, axis.extent)) for a, (b, axis) in zip(steps, inner, strict=False))
    if not even or steps[-1] == 0:
        return expr
    flat = var(f"flat_{dim.name}")
    names[flat] = dim.name
    return product((steps[-1], flat)) + rest


def _erf_plus_one(node: Node) -> Node | None:
    """The error function of which this is 1 more, in single precision: one function does both."""
    if node.op != "add" or node.dtype != FLOAT32:
        return None
    error = next((a for a in node.args if a.op == "erf"), None)
    one = any(a.op == "const" and a.attr == 1 for a in node.args)
    return error if one else None


def _position(node: Node) -> Expr | None:
    """The index expression of a constant or plain index; None when it is neither."""
    if node.op == "const" and node.dtype == INT64:
        return integer(int(node.attr))  # type: ignore[call-overload]
    if isinstance(node.attr, IndexValue) and not node.args:
        return node.attr.expr
    return None
