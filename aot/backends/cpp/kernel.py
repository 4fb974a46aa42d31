"""Emission of a whole kernel function: arguments, the loop over work units, the stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from aot.backends.base import UNNAMED
from aot.backends.cpp.context import (
    STRIP_START,
    KernelContext,
    accesses,
    base_indices,
    index_range,
    is_long,
    local_layouts,
)
from aot.backends.cpp.moved import moved_as_words
from aot.backends.cpp.stage import StageEmitter, strip_bounds
from aot.backends.cpp.streaming import streamed_buffers
from aot.backends.cpp.text import Writer, index_text
from aot.backends.cpp.turning import narrowed
from aot.backends.cpp.values import Body, pointer_type
from aot.backends.cpp.width import choose_width
from aot.ir.declarations import Reach
from aot.ir.kernel_facts import (
    argument_buffers,
    graph_dims,
    index_exprs,
    kernel_axes,
    kernel_sizes,
    outer_axes,
    strip_of,
)
from aot.ir.kernels import FusedKernel, KernelGraph, NestKernel, TemplateKernel
from aot.ir.nests import Buffer
from aot.ir.scalar import Access, Node, postorder
from aot.symbolic import (
    Expr,
    Ranges,
    Symbol,
    ceil_div,
    dim,
    expand,
    integer,
    is_int,
    product,
)

NAME = UNNAMED
"""Stands for the function's name in emitted text."""

SIGNATURE = "(const aot_kernel_args* args, int64_t begin, int64_t end)"


@dataclass(frozen=True)
class EmittedKernel:
    """The text of one kernel's function body, and how to launch it.

    `buffers` and `sizes` in argument order; `work` and `scratch` as in the plan. `head`: text
    before the function. Head and body write the function's name as NAME. `headers`: what they
    include. `grain`: None where the kernel's traffic decides it. `tables`: as `KernelSource`'s.
    """

    body: str
    buffers: tuple[str, ...]
    sizes: tuple[Symbol, ...]
    work: Expr
    scratch: Expr
    head: str = ""
    headers: tuple[str, ...] = ()
    grain: int | None = None
    tables: tuple[str, ...] = ()


def unnamed_text(emitted: EmittedKernel) -> str:
    """The whole function, with `UNNAMED` for its name."""
    return f'{emitted.head}extern "C" void {UNNAMED}{SIGNATURE} {{\n{emitted.body}}}\n'


def make_context(kernel: FusedKernel, graph: KernelGraph) -> KernelContext:
    """Names and layouts of the kernel, numbered by position so that equal kernels read equal."""
    ranges = kernel_ranges(kernel, graph)
    dims = frozenset(ranges.dims)
    names = {s: f"d{k}" for k, s in enumerate(kernel_sizes(kernel, graph.buffers, dims))}
    names.update({a.symbol: f"i{k}" for k, a in enumerate(kernel_axes(kernel))})
    names[STRIP_START] = "strip_start"
    pointers = {b: f"p{k}" for k, b in enumerate(argument_buffers(kernel))}
    pointers.update({b: f"s{k}" for k, b in enumerate(kernel.local)})
    strip = strip_of(kernel)
    return KernelContext(
        graph.buffers,
        names,
        pointers,
        local_layouts(kernel, graph.buffers, ranges),
        frozenset(a.symbol for a in outer_axes(kernel)),
        strip.axis.symbol if strip else None,
        ranges,
        frozenset((*kernel.writes, *kernel.local)),
        base_indices(kernel, graph.buffers),
        streamed_buffers(kernel, graph),
        is_long(kernel),
    )


def kernel_ranges(kernel: FusedKernel, graph: KernelGraph) -> Ranges:
    """What is known of the kernel's loop variables and of the dims."""
    return Ranges(
        {a.symbol: a.extent for a in kernel_axes(kernel)},
        {dim(d.name): (d.minimum, d.maximum) for d in graph.dims},
    )


def emit_kernel(kernel: NestKernel, graph: KernelGraph) -> EmittedKernel:
    """The function body of a kernel without a template."""
    kernel = _without_idle_strip(kernel)
    kernel, context = moved_as_words(kernel, make_context(kernel, graph))
    writer = Writer(1)
    body = Body(context, writer)
    sizes = kernel_sizes(kernel, graph.buffers, graph_dims(graph))
    declare_arguments(body, kernel, sizes)
    scratch = _declare_scratch(body, kernel)
    widths = [
        narrowed(context, s, choose_width(s, context, k)) for k, s in enumerate(kernel.stages)
    ]
    for line in dict.fromkeys(line for w in widths for line in w.declarations()):
        writer.line(line)
    _hoist(body, kernel)
    work = _work(kernel, graph)
    if _is_serial(kernel):
        writer.line(f"end = begin < end ? {index_text(work, context.names)} : 0, begin = 0;")
        work = integer(1)
    emitters = [
        StageEmitter(body, stage, width, strip_bounds(kernel.strip), shares=kernel.shares)
        for stage, width in zip(kernel.stages, widths, strict=True)
    ]
    with _UnitLoop(body, kernel):
        for emitter in emitters:
            emitter.emit()
    return EmittedKernel(writer.text(), argument_buffers(kernel), sizes, work, scratch)


def open_template(
    kernel: TemplateKernel, graph: KernelGraph, context: KernelContext
) -> tuple[Body, tuple[Expr, ...]]:
    """The body of a template's function, which begins with its arguments; and its sizes."""
    body = Body(context, Writer(1))
    sizes = kernel_sizes(kernel, graph.buffers, graph_dims(graph))
    declare_arguments(body, kernel, sizes)
    body.writer.line("if (begin >= end) return;")
    return body, sizes


def declare_arguments(body: Body, kernel: FusedKernel, sizes: Sequence[Symbol]) -> None:
    """Writes the pointers and sizes that the function is called with."""
    context = body.context
    for k, name in enumerate(argument_buffers(kernel)):
        kind = pointer_type(context.buffers[name].dtype)
        const = "" if name in context.written else "const "
        pointer = context.pointers[name]
        place = f"static_cast<{const}{kind}*>(args->buffers[{k}])"
        if name in context.bases:
            position = len(sizes) + list(base_offsets(kernel, context.buffers)).index(name)
            place += f" + args->sizes[{position}]"
        body.writer.line(f"{const}{kind}* const {pointer} = {place};")
    for k, symbol in enumerate(sizes):
        body.writer.line(f"const int64_t {context.names[symbol]} = args->sizes[{k}];")
    if context.streamed:
        body.writer.line("const aot::Streaming streaming;")


def base_offsets(kernel: FusedKernel, buffers: Mapping[str, Buffer]) -> dict[str, Expr]:
    """Buffer -> elements between its start and where the kernel's pointer begins, where not 0.

    They follow the dims among the kernel's size arguments, in the order of its buffers.
    """
    bases = base_indices(kernel, buffers)
    offsets = {}
    for name in argument_buffers(kernel):
        if name in bases:
            strides = buffers[name].strides or ()
            terms = [s * b for s, b in zip(strides, bases[name], strict=True)]
            offsets[name] = integer(sum(int(t) for t in terms))
    return offsets


def base_reaches(kernel: FusedKernel, graph: KernelGraph) -> tuple[Reach, ...]:
    """What the kernel touches around each of `base_offsets`, in their order.

    Of every dimension it is the range of the indices, cut off where the buffer ends.
    """
    ranges = kernel_ranges(kernel, graph)
    reaches = []
    for name in base_offsets(kernel, graph.buffers):
        buffer, base = graph.buffers[name], base_indices(kernel, graph.buffers)[name]
        before, after = integer(0), integer(1)
        for d, stride in enumerate(buffer.strides or ()):
            indices = [index[d] for at, index in accesses(kernel) if at == name]
            least, most = index_range(indices, base[d], buffer.shape[d], ranges)
            before -= stride * least
            after += stride * most
        reaches.append(Reach(name, int(before), expand(after)))
    return tuple(reaches)


def _declare_scratch(body: Body, kernel: FusedKernel) -> Expr:
    """Declares the local buffers that need memory; the bytes of scratch that they take."""
    context = body.context
    offset: Expr = integer(0)
    for name in kernel.local:
        layout = context.locals_[name]
        if not layout.extents:
            continue
        kind = pointer_type(context.buffers[name].dtype)
        place = f"static_cast<char*>(args->scratch) + ({index_text(offset, context.names)})"
        body.writer.line(
            f"{kind}* const {context.pointers[name]} = reinterpret_cast<{kind}*>({place});"
        )
        offset = (offset + layout.bytes(context.buffers[name].dtype)).expand()
    return offset


def _hoist(body: Body, kernel: NestKernel) -> None:
    """Emits before the unit loop what depends on no loop at all."""
    context = body.context
    varying: set[Node] = set()
    loop_symbols = set(context.ranges.extents) | {STRIP_START}
    for stage in kernel.stages:
        for node in postorder([n for nest in stage.nests for n in nest.roots]):
            own = {s for e in index_exprs(node) for s in e.free_symbols}
            reads = isinstance(node.attr, Access) and node.attr.buffer in context.written
            inner = any(a in varying for a in node.args)
            if own & loop_symbols or reads or inner or node.op in ("reduce", "const", "index"):
                if node.op != "const":
                    varying.add(node)
            elif node.op != "const":
                body.value(node)


def _without_idle_strip(kernel: NestKernel) -> NestKernel:
    """The same kernel without a strip that covers its whole axis."""
    strip = kernel.strip
    if strip is None or not is_int(strip.axis.extent) or int(strip.axis.extent) > strip.size:
        return kernel
    return replace(kernel, strip=None)


def _is_serial(kernel: NestKernel) -> bool:
    """True when points of different units may meet in one element."""
    if kernel.shares is not None:
        return False
    nests = [nest for stage in kernel.stages for nest in stage.nests if nest.conflicts]
    strip = () if kernel.strip is None else (kernel.strip.axis,)
    return any(not {*kernel.outer, *strip} <= {*nest.free_axes} for nest in nests)


def _work(kernel: NestKernel, graph: KernelGraph) -> Expr:
    if kernel.shares is not None:
        (name,) = kernel.writes
        return graph.buffers[name].shape[kernel.shares.dimension]
    units = [a.extent for a in kernel.outer]
    if kernel.strip is not None:
        units.append(ceil_div(kernel.strip.axis.extent, kernel.strip.size))
    return product(units)


class _UnitLoop:
    """The loop over work units: finds the first unit's coordinates, then counts them up."""

    def __init__(self, body: Body, kernel: NestKernel) -> None:
        self._body = body
        self._strip = kernel.strip
        self._shared = kernel.shares is not None
        names = body.context.names
        single = [a for a in kernel.outer if is_int(a.extent, 1)]
        self._constant = [names[a.symbol] for a in single]
        self._counters = [
            (names[a.symbol], index_text(a.extent, names)) for a in kernel.outer if a not in single
        ]
        if kernel.strip is not None:
            strips = ceil_div(kernel.strip.axis.extent, kernel.strip.size)
            self._counters.append(("strip", index_text(strips, names)))

    def __enter__(self) -> None:
        body, writer = self._body, self._body.writer
        writer.line("if (begin >= end) return;")
        for name in self._constant:
            writer.line(f"constexpr int64_t {name} = 0;")
        if self._shared:  # a worker's units are not counted: whose a point is, the stage asks
            self._scope = body.scope("")
        elif len(self._counters) == 1:
            self._scope = body.scope(
                f"for (int64_t {self._counters[0][0]} = begin; "
                f"{self._counters[0][0]} < end; ++{self._counters[0][0]})"
            )
        else:
            self._first_coordinates()
            self._scope = body.scope("for (int64_t unit = begin; unit < end; ++unit)")
        self._scope.__enter__()
        if self._strip is not None:
            size = self._strip.size
            extent = index_text(self._strip.axis.extent, body.context.names)
            writer.line(f"const int64_t strip_start = strip * {size};")
            writer.line(f"const int64_t strip_end = aot::imin({extent}, strip_start + {size});")

    def _first_coordinates(self) -> None:
        writer = self._body.writer
        if not self._counters:
            return
        writer.line("int64_t rest = begin;")
        for position in range(len(self._counters) - 1, -1, -1):
            name, extent = self._counters[position]
            if position == 0:
                writer.line(f"int64_t {name} = rest;")
            else:
                writer.line(f"int64_t {name} = rest % ({extent});")
                writer.line(
                    f"rest /= {extent};"
                    if extent.isidentifier() or extent.isdigit()
                    else f"rest /= ({extent});"
                )

    def __exit__(self, *exc: object) -> None:
        if len(self._counters) > 1:
            self._count_up(len(self._counters) - 1)
        self._scope.__exit__(None, None, None)

    def _count_up(self, position: int) -> None:
        writer = self._body.writer
        name, extent = self._counters[position]
        if position == 0:
            writer.line(f"++{name};")
            return
        with writer.block(f"if (++{name} == {extent})"):
            writer.line(f"{name} = 0;")
            self._count_up(position - 1)
