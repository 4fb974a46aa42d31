"""A backend of a page, for docs/adding-a-backend.md: plain loops in C++, one element at a time.

It has one level of one device and no template, knows no vectors, threads or fused epilogues, and
keeps what is local to a work unit in memory. Only scalar operations are the C++ backend's table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from aot.backends.base import EmittedGraph, KernelBinary, KernelSource
from aot.backends.cpp.build import Builder, make_units
from aot.backends.cpp.ops import conversion, operation, reinterpretation
from aot.backends.cpp.text import Writer, index_text, lane_type, literal, memory_type, value_type
from aot.backends.cpp.toolchain import find_toolchain
from aot.errors import InternalError
from aot.ir.declarations import declare
from aot.ir.dtypes import BOOL, FLOAT64, UINT8, DType
from aot.ir.kernel_facts import argument_buffers, graph_dims, kernel_axes, kernel_sizes, maybe_empty
from aot.ir.kernels import Kernel, KernelGraph, Launch, NestKernel, Stage, WorkUnits
from aot.ir.machine import Machine
from aot.ir.nests import JOINING, Axis, LoopNest, Store
from aot.ir.scalar import Access, IndexCheck, IndexValue, Node, cast, postorder
from aot.options import BuildOptions, Target
from aot.symbolic import Expr, Ranges, Symbol, ceil_div, dim, integer, product, row_major_strides

LEVEL = "x86-64-v2"


@dataclass(frozen=True)
class PlainBackend:
    """Scalar loops for one CPU level."""

    name: str = "plain"

    def supports(self, target: Target) -> bool:
        """One level of one device."""
        return target == Target("cpu", (LEVEL,))

    def programs(self, target: Target) -> tuple[Target, ...]:
        """One."""
        return (target,)

    def machine(self, target: Target) -> Machine:
        """One element at a time, in one unit."""
        return Machine(local_bytes=1 << 16, grain_bytes=1 << 16, lanes=1, units=1, cut_units=1)

    def recipes(self) -> Mapping[str, Callable[..., np.ndarray]]:
        """No weights are packed."""
        return {}

    def tools(self, target: Target, options: BuildOptions) -> tuple[tuple[str, str], ...]:
        """The host's compiler."""
        return (("c++", find_toolchain(options.compiler).version),)

    def begin(self, target: Target, options: BuildOptions) -> None:
        """Nothing."""

    def prepare(self, graph: KernelGraph, target: Target) -> KernelGraph:
        """The graph as it is: this backend packs nothing and joins nothing."""
        return graph

    def emit(self, graph: KernelGraph, target: Target) -> EmittedGraph:
        """A function for each kernel, launched as one unit of work."""
        functions, launches = [], []
        for kernel in graph.kernels:
            text, sizes, scratch = _Function(kernel, graph).emit()
            over = WorkUnits(integer(1), integer(1), scratch)
            launch = Launch(kernel.name, kernel.name, argument_buffers(kernel), sizes, over)
            declaration, values = declare(graph, kernel, launch)
            functions.append(KernelSource(kernel.name, text, HEADERS, declaration=declaration))
            launches.append(replace(launch, values=values))
        return EmittedGraph(graph, tuple(functions), tuple(launches))

    def compile(
        self, source: EmittedGraph, target: Target, options: BuildOptions
    ) -> tuple[KernelBinary, ...]:
        """One shared object."""
        keep = Path(options.cache_dir or ".") / "failed"
        builder = Builder(find_toolchain(options.compiler), options.cache_dir, 1, keep)
        units = make_units(source.functions, f'"{LEVEL}"', few=True)
        return (KernelBinary("cpu", LEVEL, builder.build(units, (LEVEL,))[LEVEL]),)


HEADERS: tuple[str, ...] = ()
"""None but what every unit includes: kernels that name none share units."""

Value = tuple[str, DType]
"""Text of a C++ variable, and its type."""


class _Function:
    """Writes one kernel. Use once: `emit`."""

    def __init__(self, kernel: Kernel, graph: KernelGraph) -> None:
        if not isinstance(kernel, NestKernel):
            raise InternalError(f"{kernel.name}: this backend has loops alone")
        self.kernel, self.graph, self.count = kernel, graph, 0
        self.writer = Writer(1)
        self.line = self.writer.line
        self.sizes = kernel_sizes(kernel, graph.buffers, graph_dims(graph))
        self.names = {symbol: f"size{k}" for k, symbol in enumerate(self.sizes)}
        axes = kernel_axes(kernel)
        self.names.update({axis.symbol: f"i{k}" for k, axis in enumerate(axes)})
        dims = {dim(d.name): (d.minimum, d.maximum) for d in graph.dims}
        self.ranges = Ranges({a.symbol: a.extent for a in axes}, dims)
        self.pointers = {b: f"p{k}" for k, b in enumerate(argument_buffers(kernel))}
        self.pointers.update({b: f"s{k}" for k, b in enumerate(kernel.local)})

    def emit(self) -> tuple[str, tuple[Symbol, ...], Expr]:
        """The function's text, its sizes, and bytes of scratch."""
        self.line("if (begin >= end) return;")
        for k, symbol in enumerate(self.sizes):
            self.line(f"const int64_t {self.names[symbol]} = args->sizes[{k}];")
        for k, name in enumerate(argument_buffers(self.kernel)):
            self._pointer(name, f"args->buffers[{k}]")
        scratch: Expr = integer(0)
        for name in self.kernel.local:
            buffer = self.graph.buffers[name]
            self._pointer(name, f"static_cast<char*>(args->scratch) + {self._text(scratch)}")
            size = product((*buffer.shape, integer(buffer.dtype.itemsize)))
            scratch = scratch + product((ceil_div(size, integer(64)), integer(64)))
        with self._loops(self.kernel.outer):
            for stage in self.kernel.stages:
                self._stage(stage)
        signature = f"{self.kernel.name}(const aot_kernel_args* args, int64_t begin, int64_t end)"
        return f'extern "C" void {signature} {{\n{self.writer.text()}}}\n', self.sizes, scratch

    def _pointer(self, name: str, place: str) -> None:
        kind = _memory(self.graph.buffers[name].dtype)
        self.line(f"{kind}* const {self.pointers[name]} = reinterpret_cast<{kind}*>({place});")

    def _text(self, expr: Expr, names: Mapping[Symbol, str] | None = None) -> str:
        return index_text(expr, {**self.names, **(names or {})})

    @contextmanager
    def _loops(self, axes: Sequence[Axis]) -> Iterator[None]:
        heads = [(self.names[a.symbol], self._text(a.extent)) for a in axes]
        for i, extent in heads:
            self.line(f"for (int64_t {i} = 0; {i} < {extent}; ++{i}) {{")
        self.line("{")
        yield
        self.line("}" * (len(heads) + 1))

    def _stage(self, stage: Stage) -> None:
        """At each point of the inner loops: the reduction's domain, then what reduces over it."""
        whole = [n for n in stage.nests if not n.reduction]
        reducing = [n for n in stage.nests if n.reduction]
        nodes = [r for n in reducing for r in postorder(n.roots) if r.op == "reduce"]
        reduces = {node: f"sum{k}" for k, node in enumerate(dict.fromkeys(nodes))}
        with self._loops(stage.inner):
            for node, name in reduces.items():
                self.line(f"{_total(node)} {name}{_start(node)};")
            with self._loops(stage.reduction):
                known: dict[Node, Value] = {}
                for node in reduces:
                    self._value(_reduced(node), known)
                self._stores(whole, known)
                position = sum((a.symbol * s for a, s in _steps(stage.reduction)), start=integer(0))
                for node, name in reduces.items():
                    self._combine(node, name, known[_reduced(node)][0], self._text(position))
            ended = {node: (self._ended(node, name), node.dtype) for node, name in reduces.items()}
            self._stores(reducing, dict(ended))

    def _combine(self, node: Node, name: str, value: str, position: str) -> None:
        match node.attr:
            case "sum" | "any":
                self.line(f"{name} = {name} {'|' if _is_bool(node) else '+'} {value};")
            case "prod" | "all":
                self.line(f"{name} = {name} {'&' if _is_bool(node) else '*'} {value};")
            case "min" | "max":
                sign = "&|"[node.attr == "max"]
                function = f"aot::{node.attr}imum({name}, {value})"
                self.line(f"{name} = {f'{name} {sign} {value}' if _is_bool(node) else function};")
            case _:
                self.line(f"{name}.add({value}, aot::Vec<int64_t, 1>({position}));")

    def _ended(self, node: Node, name: str) -> str:
        total = _reduced(node).dtype
        arg = node.attr in ("argmin", "argmax")
        text = f"{name}.index" if arg else name
        return self._name(text if arg else conversion(text, total, node.dtype), node.dtype)

    def _stores(self, nests: Sequence[LoopNest], known: dict[Node, Value]) -> None:
        """All values at this point, then the stores: a result may lie where an operand did."""
        stores = [store for nest in nests for store in nest.stores]
        for store in stores:
            for node in (store.value, *(bound for _, bound in store.binds)):
                self._value(node, known)
        for store in stores:
            self._store(store, known)

    def _store(self, store: Store, known: Mapping[Node, Value]) -> None:
        text, dtype = known[store.value]
        binds = {symbol: f"{known[node][0]}[0]" for symbol, node in store.binds}
        place = self._place(store.buffer, store.index, binds)
        if dtype == BOOL:
            text = f"aot::from_mask<uint8_t>({text})"
        if store.mode in JOINING:
            held = f"aot::load<{lane_type(dtype)}, 1>({place})"
            text = operation(store.mode, dtype, [held, text], "1")
        tests = self._filled([node for _, node in store.binds])
        guard = f"if ({' && '.join(tests)}) " if tests else ""
        self.line(f"{guard}aot::store({place}, {text});")

    def _place(self, buffer: str, index: Sequence[Expr], binds: Mapping[Symbol, str]) -> str:
        found = self.graph.buffers[buffer]
        strides = row_major_strides(found.shape) if self._is_local(buffer) else found.strides or ()
        offset = sum((product(pair) for pair in zip(index, strides, strict=True)), integer(0))
        return f"{self.pointers[buffer]} + ({self._text(offset, binds)})"

    def _is_local(self, buffer: str) -> bool:
        return buffer in self.kernel.local

    def _filled(self, bound: Sequence[Node]) -> list[str]:
        return [f"{self._text(size)} > 0" for size in maybe_empty(bound, self.ranges)]

    def _name(self, text: str, dtype: DType) -> str:
        self.count += 1
        self.line(f"const {value_type(dtype, '1')} x{self.count} = {text};")
        return f"x{self.count}"

    def _value(self, root: Node, known: dict[Node, Value]) -> None:
        """Writes what is below a node, but what is known."""
        stack = [root]
        while stack:
            node = stack.pop()
            missing = [a for a in node.args if a not in known and node not in known]
            if missing:
                stack += [node, *missing]
            elif node not in known:
                known[node] = (self._name(self._node(node, known), node.dtype), node.dtype)

    def _node(self, node: Node, known: Mapping[Node, Value]) -> str:
        args = [known[a][0] for a in node.args]
        match node.attr:
            case Access(buffer, index, symbols, masked):
                binds = {s: f"{a}[0]" for s, a in zip(symbols, args, strict=False)}
                tests = self._filled(node.args[: len(symbols)])
                tests += [f"{args[-1]}[0]"] if masked else []
                lane = lane_type(UINT8 if node.dtype == BOOL else node.dtype)
                text = f"aot::load<{lane}, 1>({self._place(buffer, index, binds)})"
                if tests:
                    text = f"({' && '.join(tests)}) ? {text} : aot::Vec<{lane}, 1>(0)"
                return f"aot::to_mask({text})" if node.dtype == BOOL else text
            case IndexValue(expr, symbols):
                binds = {s: f"{a}[0]" for s, a in zip(symbols, args, strict=False)}
                return f"aot::Vec<int64_t, 1>({self._text(expr, binds)})"
            case IndexCheck(size, wrap):
                flag = str(wrap).lower()
                return f"aot::check_index<{flag}>({args[0]}, {self._text(size)}, 1, args->fault)"
        operand = node.args[0].dtype if node.args else node.dtype
        match node.op:
            case "const":
                constant = literal(node.attr, node.dtype)  # type: ignore[arg-type]
                return f"{value_type(node.dtype, '1')}({constant})"
            case "cast":
                return conversion(args[0], operand, node.dtype)
            case "bitcast":
                return reinterpretation(args[0], operand, node.dtype)
            case "where":
                return f"{args[0]}[0] ? {args[1]} : {args[2]}"
        return operation(node.op, operand, args, "1")


def _memory(dtype: DType) -> str:
    return "uint8_t" if dtype == BOOL else memory_type(dtype)


def _is_bool(node: Node) -> bool:
    return _reduced(node).dtype == BOOL


def _reduced(node: Node) -> Node:
    """What a reduction combines: floating sums and products in float64, truth values as such."""
    (value,) = node.args
    if node.attr in ("any", "all"):
        return cast(value, BOOL)
    if node.attr in ("argmin", "argmax"):
        return cast(value, UINT8) if value.dtype == BOOL else value
    wide = node.dtype.is_float and node.attr in ("sum", "prod")
    return cast(value, FLOAT64 if wide else node.dtype)


def _total(node: Node) -> str:
    """The accumulator's C++ type."""
    dtype = _reduced(node).dtype
    if node.attr in ("argmin", "argmax"):
        largest = str(node.attr == "argmax").lower()
        return f"aot::ArgLanes<{largest}, {lane_type(dtype)}, int64_t, 1>"
    return value_type(dtype, "1")


def _start(node: Node) -> str:
    """The accumulator's first value, as an initialiser."""
    if node.attr in ("argmin", "argmax"):
        return f" = {_total(node)}::none()"
    lane = lane_type(_reduced(node).dtype)
    if _is_bool(node):
        return f"({str(node.attr in ('all', 'prod', 'min')).lower()})"
    ends = {"min": f"aot::greatest<{lane}>()", "max": f"aot::least<{lane}>()"}
    return f"({ends.get(str(node.attr), str(int(node.attr == 'prod')))})"


def _steps(axes: Sequence[Axis]) -> list[tuple[Axis, Expr]]:
    """Each axis with how far its row-major position moves."""
    return list(zip(axes, row_major_strides([a.extent for a in axes]), strict=True))
