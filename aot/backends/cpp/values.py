"""Emission of scalar expressions as statements, each at the loop level where it is defined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from aot.backends.cpp.context import KernelContext
from aot.backends.cpp.indexing import Indexer, Value, Vector, is_narrow_check
from aot.backends.cpp.ops import LIMITS, SHIFTS, conversion, operation, reinterpretation
from aot.backends.cpp.text import (
    Writer,
    index_text,
    is_half,
    lane_type,
    literal,
    memory_type,
    value_type,
)
from aot.backends.guards import Guard
from aot.backends.scoped import Scoped
from aot.errors import InternalError
from aot.ir.dtypes import BOOL, FLOAT32, INT32, INT64, UINT8, DType
from aot.ir.kernel_facts import maybe_empty
from aot.ir.nests import JOINING, Store
from aot.ir.scalar import Access, IndexCheck, IndexValue, Node, cast
from aot.symbolic import Expr, Symbol, expand, integer


class Body(Indexer, Scoped[Value]):
    """Writes the statements of one kernel function; scopes follow the C++ blocks."""

    def __init__(self, context: KernelContext, writer: Writer) -> None:
        Indexer.__init__(self, context)
        Scoped.__init__(self)
        self.writer = writer
        self._registers: dict[str, Value] = {}
        self.guards: Mapping[Node, Guard] = {}
        """The selections that are written with branches."""

    @contextmanager
    def scope(self, head: str, tail: str = "}") -> Iterator[None]:
        """A C++ block; values emitted inside end with it."""
        with self.block(), self.writer.block(head, tail):
            yield

    @contextmanager
    def vectorised(self, vector: Vector | None) -> Iterator[None]:
        """Emits for that vector loop inside."""
        before, self.vector = self.vector, vector
        yield
        self.vector = before

    def operands(self, node: Node) -> tuple[Node, ...]:
        """None for a comparison of positions, which has an instruction of its own."""
        if node in self.guards:
            return self.guards[node].before
        return () if self.is_narrow(node) else node.args

    def as_lanes(self, value: Value, lanes: str) -> str:
        """The value's text with that many lanes."""
        if value.constant:
            return f"{value_type(value.dtype, lanes)}({value.text})"
        if value.lanes == lanes:
            return value.text
        return f"aot::spread<{lanes}>({value.text})"

    def name(self, text: str, dtype: DType, lanes: str) -> Value:
        """Binds an expression to a fresh variable."""
        variable = self.fresh("x")
        kind = "auto" if dtype == BOOL else value_type(dtype, lanes)
        self.writer.line(f"const {kind} {variable} = {text};")
        return Value(variable, dtype, lanes)

    def emit(self, node: Node) -> Value:
        """Writes a node."""
        if self.is_narrow(node):
            text, lanes = self.compare_positions(node)
            return self.name(text, BOOL, lanes)
        if node in self.guards:
            return self._guarded(node, self.guards[node])
        args = [self.known(a) for a in node.args]
        if node.op == "const":
            text = literal(node.attr, node.dtype)  # type: ignore[arg-type]
            return Value(text, node.dtype, "1", constant=True)
        if isinstance(node.attr, Access):
            return self._load(node, node.attr, args)
        if isinstance(node.attr, IndexValue):
            return self._index(node.attr, args)
        lanes = next((a.lanes for a in args if a.lanes != "1"), "1")
        texts = [self.as_lanes(a, lanes) for a in args]
        if isinstance(node.attr, IndexCheck):
            if args[0].narrow and is_narrow_check(node.attr):
                return self._narrow_check(node.attr, args[0].narrow, lanes)
            text = self._check(node.attr, texts[0], lanes)
        elif node.op == "cast":
            text = conversion(texts[0], args[0].dtype, node.dtype)
            if node.dtype == INT64 and args[0].dtype == INT32 and lanes != "1":
                return replace(self.name(text, INT64, lanes), narrow=texts[0])
        elif node.op == "bitcast":
            text = reinterpretation(texts[0], args[0].dtype, node.dtype)
        elif node.op == "where":
            text = self._where(args, lanes)
        else:
            special = _limited(node, texts) or _shifted(node, texts) if lanes != "1" else None
            text = special or operation(node.op, args[0].dtype, texts, lanes)
        return self.name(text, node.dtype, lanes)

    def _where(self, args: list[Value], lanes: str) -> str:
        condition = args[0]
        a, b = (self.as_lanes(x, lanes) for x in args[1:])
        if condition.lanes == "1" and lanes != "1":
            test = condition.text if condition.constant else f"{condition.text}[0]"
            if args[1].dtype == BOOL:
                return f"aot::either({test}, {a}, {b})"
            return f"{test} ? {a} : {b}"
        return f"aot::select({self.as_lanes(condition, lanes)}, {a}, {b})"

    def _guarded(self, node: Node, guard: Guard) -> Value:
        """A selection whose sides are evaluated where a lane wants them."""
        given = [self.known(a) for a in guard.before]
        lanes = next((v.lanes for v in given if v.lanes != "1"), "1")
        condition = self.as_lanes(self.known(node.args[0]), lanes)
        chosen = self.fresh("x")
        plain = [self.known(a) for k, a in enumerate(node.args) if k and k not in guard.sides]
        start = self.as_lanes(plain[0], lanes) if plain else literal(0, node.dtype)
        kind = value_type(node.dtype, lanes)
        self.writer.line(f"{kind} {chosen} = {kind}({start});")
        for side in guard.sides:
            test = f"aot::any({condition})" if side == 1 else f"!aot::all({condition})"
            with self.scope(f"if ({test})"):
                own = self.as_lanes(self.value(node.args[side]), lanes)
                pair = f"{own}, {chosen}" if side == 1 else f"{chosen}, {own}"
                self.writer.line(f"{chosen} = aot::select({condition}, {pair});")
        return Value(chosen, node.dtype, lanes)

    def _check(self, check: IndexCheck, text: str, lanes: str) -> str:
        size = index_text(check.size, self.context.names)
        wrap = "true" if check.wrap else "false"
        return f"aot::check_index<{wrap}>({text}, {size}, {self._count(lanes)}, args->fault)"

    def _narrow_check(self, check: IndexCheck, text: str, lanes: str) -> Value:
        """The check in 32 bits, and what it gives in 64 for those who add to it."""
        size = int(check.size)
        call = f"aot::check_narrow({text}, {size}, {self._count(lanes)}, args->fault)"
        narrow = self.name(call, INT32, lanes).text
        wide = self.name(conversion(narrow, INT32, INT64), INT64, lanes)
        return replace(wide, narrow=narrow, size=size)

    def _count(self, lanes: str) -> str:
        """The lanes that count in the open vector."""
        if lanes != "1" and self.vector is not None and self.vector.count is not None:
            return self.vector.count
        return lanes

    def _index(self, attr: IndexValue, args: list[Value]) -> Value:
        binds = self.binding(attr.binds, args)
        expr = self.context.ranges.simplify(attr.expr)
        if self.step(expr, binds) == 0:
            text = index_text(expr, self.uniform_names(binds))
            return self.name(f"aot::Vec<int64_t, 1>({text})", INT64, "1")
        lanes = self.vector.lanes if self.vector is not None else "1"
        return self.name(self.index_vector(expr, binds), INT64, lanes)

    # ---- memory ----

    def _load(self, node: Node, access: Access, args: list[Value]) -> Value:
        if access.buffer in self._registers:
            return self._registers[access.buffer]
        stored = self.context.buffers[access.buffer].dtype
        binds = self.binding(access.binds, args)
        mask = args[-1] if access.masked else None
        offset = self.context.offset(access.buffer, access.index)
        dtype = UINT8 if node.dtype == BOOL else node.dtype
        lane = lane_type(dtype)
        pointer = self.context.pointers[access.buffer]
        step = self.step(offset, binds)
        if step == 0:
            text = f"aot::load<{lane}, 1>({self.address(pointer, offset, binds)})"
            lanes = "1"
            if mask is not None and mask.lanes != "1":
                lanes = mask.lanes
                address = self.address(pointer, offset, binds)
                text = f"aot::broadcast_m<{lane}, {lanes}>({address}, {self._tail(mask.text)})"
                mask = None
        else:
            lanes = self.vector.lanes if self.vector is not None else "1"
            within = self._is_within(access, node.args)
            text = self._vector_load(pointer, offset, step, binds, mask, dtype, within=within)
            if mask is not None and mask.lanes != "1":
                mask = None
        tests = self._filled(node.args[: len(access.binds)])
        if mask is not None:
            tests.append(mask.text if mask.constant else f"{mask.text}[0]")
        if tests:
            zero = f"{value_type(dtype, lanes)}({literal(0, dtype)})"
            text = f"{' && '.join(tests)} ? {text} : {zero}"
        if stored == BOOL and node.dtype == BOOL:
            text = f"aot::to_mask({text})"
        return self.name(text, node.dtype, lanes)

    def _vector_load(
        self,
        pointer: str,
        offset: Expr,
        step: Expr | None,
        binds: Mapping[Symbol, Value],
        mask: Value | None,
        dtype: DType,
        *,
        within: bool,
    ) -> str:
        """`within`: every lane's place is the buffer's, also where the mask says not to look."""
        vector, lane = self.vector, lane_type(dtype)
        if vector is None:
            raise InternalError("a vector load outside a vector loop")
        suffix, last = "", ""
        if mask is not None and mask.lanes != "1":
            suffix, last = "_m", f", {self._tail(mask.text)}"
        elif vector.count is not None:
            suffix, last = "_n", f", {vector.count}"
        types, space = f"<{lane}, {vector.lanes}>", self._moves(vector)
        turned = self.turned(offset, binds) if step is None else None
        if turned is not None:
            row, place = turned
            address, first = (
                self.address(pointer, row, binds),
                index_text(place, self.context.names),
            )
            size = place.args[1]
            return f"aot::load_turned{suffix}{types}({address}, {first}, {size}{last})"
        if step is None:
            # The lanes' places alone are a vector: of rows beside each other they are the same.
            same, places = self.parted(offset, binds)
            address = self.address(pointer, same, binds)
            index = self.narrow_places(places, binds) or self.index_vector(places, binds)
            if within and mask is not None and mask.lanes != "1":
                zero = f"{value_type(dtype, vector.lanes)}({literal(0, dtype)})"
                return f"aot::select({mask.text}, aot::gather{types}({address}, {index}), {zero})"
            return f"{space}::gather{suffix}{types}({address}, {index}{last})"
        address = self.address(pointer, offset, binds)
        if step == 1:
            return f"{space}::load{suffix}{types}({address}{last})"
        stride = index_text(step, self.uniform_names(binds))
        return f"{space}::load_strided{suffix}{types}({address}, {stride}{last})"

    def _moves(self, vector: Vector | None) -> str:
        """The namespace of moves of a vector's lanes: in a long kernel's tails they are calls."""
        tail = vector is not None and vector.count is not None
        return "aot::apart" if tail and self.context.is_long else "aot"

    def _is_within(self, access: Access, bound: Sequence[Node]) -> bool:
        """Whether each index is in its dimension whatever the mask; those of checked values are.

        Loading at such places one by one is faster than the instruction that obeys a mask.
        """
        checks: dict[Expr, Expr] = {
            s: n.attr.size
            for s, n in zip(access.binds, bound, strict=False)
            if isinstance(n.attr, IndexCheck)
        }
        shape = self.context.buffers[access.buffer].shape
        for index, size in zip(access.index, shape, strict=True):
            if index in checks:
                low, last = integer(0), checks[index] - 1
            else:
                low, last = self.context.ranges.bounds(index) or (integer(-1), size)
            behind = expand(last - size)
            if not (low.is_Integer and behind.is_Integer) or int(low) < 0 or int(behind) >= 0:
                return False
        return True

    def _filled(self, bound: Iterable[Node]) -> list[str]:
        """Tests that no dimension is empty into which these values, already checked, point."""
        sizes = maybe_empty(bound, self.context.ranges)
        return [f"{index_text(size, self.context.names)} > 0" for size in sizes]

    def _tail(self, mask: str) -> str:
        if self.vector is None or self.vector.count is None:
            return mask
        return f"{mask} & aot::first_n<{self.vector.lanes}>({self.vector.count})"

    def stored(self, store: Store) -> Value:
        """The value that a store writes."""
        return self.value(self._stored_node(store))

    def store(self, store: Store) -> None:
        """Writes a store's value; lanes beyond the tail's count stay untouched."""
        value = self.stored(store)
        layout = self.context.locals_.get(store.buffer)
        if layout is not None and not layout.extents:
            self._registers[store.buffer] = self._as_stored(value, store.buffer)
            return
        binds = {s: self.value(n) for s, n in store.binds}
        offset = self.context.offset(store.buffer, store.index)
        pointer = self.context.pointers[store.buffer]
        tests = self._filled(n for _, n in store.binds)
        if tests:
            with self.scope(f"if ({' && '.join(tests)})"):
                self._write(store, value, pointer, offset, binds)
        else:
            self._write(store, value, pointer, offset, binds)

    def _write(
        self,
        store: Store,
        value: Value,
        pointer: str,
        offset: Expr,
        binds: Mapping[Symbol, Value],
    ) -> None:
        step = self.step(offset, binds)
        if store.mode in JOINING:
            self._join(store.mode, pointer, offset, binds, value)
            return
        vector = self.vector
        lanes = "1" if step == 0 or vector is None else vector.lanes
        if store.conflicts and step == 0 and vector is not None:
            lanes, step = vector.lanes, None  # of all lanes the last one stays
        if lanes == "1" and value.lanes != "1":
            raise InternalError(f"a vector is stored to one element of {store.buffer}")
        text = self.as_lanes(value, lanes)
        if value.dtype == BOOL:
            text = f"aot::from_mask<uint8_t>({text})"
        count = "" if lanes == "1" or vector is None else vector.count
        suffix, last = ("_n", f", {count}") if count else ("", "")
        if lanes != "1" and step is None:
            index = self.index_vector(offset, binds)
            self.writer.line(f"aot::scatter{suffix}({pointer}, {index}, {text}{last});")
            return
        address = self.address(pointer, offset, binds)
        space = self._moves(vector) if count else "aot"
        if lanes == "1" or step == 1:
            name = "stream" if lanes != "1" and store.buffer in self.context.streamed else "store"
            space = space if name == "store" else "aot"
            self.writer.line(f"{space}::{name}{suffix}({address}, {text}{last});")
            return
        stride = index_text(step, self.uniform_names(binds)) if step is not None else "0"
        self.writer.line(f"{space}::store_strided{suffix}({address}, {stride}, {text}{last});")

    def _stored_node(self, store: Store) -> Node:
        """What to hand to the store: it rounds to the buffer's type itself, so a cast may not."""
        node = store.value
        dtype = self.context.buffers[store.buffer].dtype
        if node.op == "cast" and node.dtype == dtype and is_half(dtype) and store.mode == "set":
            return node.args[0] if node.args[0].dtype.is_float else cast(node.args[0], FLOAT32)
        return node

    def _as_stored(self, value: Value, buffer: str) -> Value:
        """The uniform value that a load from `buffer` would give after this store."""
        dtype = self.context.buffers[buffer].dtype
        if not is_half(dtype):
            return value
        return self.name(conversion(self.as_lanes(value, "1"), value.dtype, dtype), dtype, "1")

    def _join(
        self, mode: str, pointer: str, offset: Expr, binds: Mapping[Symbol, Value], value: Value
    ) -> None:
        """Joins lanes with memory: one after the other, unless they are neighbours there."""
        vector = self.vector
        lanes = "1" if vector is None else vector.lanes
        count = lanes if vector is None or vector.count is None else vector.count
        text = self.as_lanes(value, lanes)
        join = operation(mode, value.dtype, ["a", "b"], lanes)
        joined = f"[](auto a, auto b) {{ return {join}; }}"
        if lanes == "1" or self.step(offset, binds) == 1:
            address = self.address(pointer, offset, binds)
            self.writer.line(f"aot::join({address}, {text}, {count}, {joined});")
            return
        index = self.index_vector(offset, binds)
        self.writer.line(f"aot::join_at({pointer}, {index}, {text}, {count}, {joined});")


def _limited(node: Node, texts: list[str]) -> str | None:
    """Text of a minimum or maximum with a constant that is neither NaN nor zero, else None."""
    if node.op not in LIMITS or not node.dtype.is_float:
        return None
    limit = next((i for i, a in enumerate(node.args) if a.op == "const" and a.attr != 0), None)
    if limit is None or node.args[limit].attr != node.args[limit].attr:
        return None
    return f"aot::{LIMITS[node.op]}({texts[1 - limit]}, {texts[limit]})"


def _shifted(node: Node, texts: list[str]) -> str | None:
    """Text of a shift of all lanes by one constant, else None."""
    if node.op not in SHIFTS or node.args[1].op != "const":
        return None
    count = literal(node.args[1].attr, node.dtype)  # type: ignore[arg-type]
    return f"aot::{SHIFTS[node.op]}({texts[0]}, {count})"


def pointer_type(dtype: DType) -> str:
    """The C++ element type behind a buffer's pointer; bool is read and written as bytes."""
    return "uint8_t" if dtype == BOOL else memory_type(dtype)
