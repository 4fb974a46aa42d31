"""Deterministic text of every graph: what `--dump` writes and golden tests compare."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from aot.errors import InternalError
from aot.ir.dtypes import DType
from aot.ir.flow import (
    Assert,
    Branch,
    Copy,
    CustomCall,
    Flow,
    Item,
    Measured,
    Outline,
    Repeat,
    Span,
    Straight,
    flows_in,
)
from aot.ir.kernels import (
    FusedKernel,
    JoinedKernel,
    Kernel,
    KernelGraph,
    MemoryPlan,
    ModelKernel,
    NestKernel,
    Stage,
    TemplateKernel,
)
from aot.ir.loops import LoopGraph
from aot.ir.nests import Axis, Buffer, LoopNest, View
from aot.ir.origin import Origin
from aot.ir.printer_scalar import ScalarPrinter, index_text
from aot.ir.templates.base import LoopOp, TemplateCall
from aot.ir.templates.library import LibraryRoutine
from aot.ir.templates.windows import AxisWindows
from aot.ir.tensors import (
    Assertion,
    Cond,
    ControlOp,
    Dim,
    GraphOp,
    Loop,
    Mutation,
    OperatorCall,
    SizeRead,
    SizeRelation,
    TensorGraph,
    TensorOp,
    TensorType,
    ValueRef,
    blocks_of,
)
from aot.symbolic import Expr, to_text

G = TypeVar("G")

_SIGNS = {"set": "=", "add": "+=", "mul": "*="}
"""How stores print, by mode; other modes by their names."""


def print_tensors(graph: TensorGraph) -> str:
    """A tensor graph: dims, inputs, weights, then an operator a line."""
    lines = [f"tensors {graph.name}", *_sizes(graph.dims, graph.relations)]
    lines += [f"  tf32 {kind}" for kind in graph.tf32]
    lines += [f"  input {name}: {_type(graph.types[name])}" for name in graph.inputs]
    lines += [
        f"  {kind} {name} = {fqn!r}: {_type(graph.types[name])}"
        for kind, named in (("weight", graph.weights), ("state", graph.states))
        for name, fqn in named
    ]
    for op in graph.ops:
        lines += _indented(_operator_lines(graph, op), 1)
    return _joined([*lines, *_results(graph.outputs, graph.mutations)])


def print_loops(graph: LoopGraph) -> str:
    """A loop graph: dims, buffers, then a nest or template call each."""
    lines = [f"loops {graph.name}", *_sizes(graph.dims, graph.relations)]
    lines += _buffers(graph.buffers)
    for op in graph.ops:
        lines += _indented(op_lines(op), 1)
    return _joined([*lines, *_results(graph.outputs, graph.mutations)])


def print_kernels(graph: KernelGraph) -> str:
    """A kernel graph: dims, buffers, kernels with their stages and loops."""
    lines = [f"kernels {graph.name}", *_sizes(graph.dims, graph.relations)]
    lines += _buffers(graph.buffers)
    for derived in graph.derived:
        sources = ", ".join(derived.sources)
        lines.append(f"  derived {derived.name} = {derived.recipe}({sources})")
    whole: Flow[Span] = (Straight(Span(0, len(graph.kernels))),)

    def part(span: Span) -> list[str]:
        kernels = graph.kernels[span.first :][: span.count]
        return [line for kernel in kernels for line in _kernel_lines(kernel)]

    lines += _indented(flow_lines(graph.flow or whole, part), 1)
    return _joined([*lines, *_results(graph.outputs, graph.mutations)])


def print_outline(outline: Outline[LoopGraph]) -> str:
    """Loop graphs in the flow around them; the graph itself for a model without control flow."""
    if outline.only is not None:
        return print_loops(outline.only)
    frame = outline.frame
    lines = [f"outline {frame.name}", *_sizes(frame.dims, frame.relations)]
    lines += [f"  input {name}: {_type(frame.types[name])}" for name in frame.inputs]

    def part(graph: LoopGraph) -> list[str]:
        return print_loops(graph).splitlines()

    return _joined(
        [
            *lines,
            *_indented(flow_lines(outline.flow, part), 1),
            *_results(frame.outputs, frame.mutations),
        ]
    )


def print_kernel(kernel: Kernel) -> str:
    """One kernel."""
    return _joined(_kernel_lines(kernel))


def print_memory(plan: MemoryPlan) -> str:
    """A memory plan: placements in order, then the pairs that share memory."""
    lines = ["memory"]
    for p in plan.placements:
        above = f" above {', '.join(p.above)}" if p.above else ""
        lines.append(f"  {p.buffer}: {to_text(p.size)} bytes{above}")
    lines += [f"  {result} in place of {dead}" for result, dead in plan.in_place]
    lines += [f"  {m.value} copied to {m.target} at the end" for m in plan.copied]
    return _joined(lines)


def flow_lines(flow: Flow[G], part: Callable[[G], list[str]]) -> list[str]:
    """The items of a flow; `part` gives the lines of a straight part."""
    lines: list[str] = []
    for item in flow:
        if isinstance(item, Straight):
            lines += part(item.graph)
            continue
        head, *names = _item_head(item)
        lines.append(f"{head}{_place(item.origin)}")
        for name, inner in zip(names, flows_in(item), strict=True):
            lines += [f"{name} {{", *_indented(flow_lines(inner, part), 1), "}"]
    return lines


def _item_head(item: Item[G]) -> list[str]:
    """What an item does itself, and the names of the flows inside of it.

    Raises:
        InternalError: The item is of a kind that has no text.
    """
    match item:
        case Branch(predicate):
            return [f"branch on {predicate}", "then", "else"]
        case Repeat(condition, predicate, count, slices):
            turns = f"while {predicate}" if count is None else f"repeat {to_text(count)} times"
            parts = ", ".join(f"{s.buffer} = {s.source}[turn]" for s in slices)
            names = ["condition", "body"] if condition else ["body"]
            return [f"{turns}{' with ' if parts else ''}{parts}", *names]
        case Measured(sizes):
            return ["read " + ", ".join(f"{name} = {buffer}" for name, buffer in sizes), "then"]
        case Copy(source, target):
            return [f"copy {source} to {target}"]
        case Assert(value, message):
            return [f"check {value}: {message!r}"]
        case CustomCall(_, _, results):
            made = ", ".join((*results, *item.changed))
            return [f"{made} = {_code_text(item)}"]
    raise InternalError(f"no text for {type(item).__name__}")


def _operator_lines(graph: TensorGraph, op: GraphOp) -> list[str]:
    place = _place(Origin(op.origin.file, op.origin.line, ""))
    results = ", ".join("_" if name is None else name for name in op.outputs)
    kept = [graph.types[name] for name in op.outputs if name is not None]
    types = ", ".join(_type(t) for t in kept)
    if isinstance(op, TensorOp):
        arguments = [_argument(a) for a in op.args]
        arguments += [f"{k}={_argument(v)}" for k, v in op.kwargs]
        return [f"{results} = {op.target}({', '.join(arguments)}) -> {types}{place}"]
    head, *names = _control_head(op)
    lines = [f"{results} = {head} -> {types}{place}" if kept else f"{head}{place}"]
    for name, block in zip(names, blocks_of(op), strict=True):
        inner = [line for o in block.ops for line in _operator_lines(graph, o)]
        lines += [f"{name} {{", *_indented([*inner, f"give {', '.join(block.results)}"], 1), "}"]
    return lines


def _control_head(op: ControlOp) -> list[str]:
    """What a control operator does, and the names of its blocks."""
    match op:
        case Cond(predicate):
            return [f"cond({predicate})", "then", "else"]
        case Loop(carried, condition, count, slices):
            given = [f"{name}={value}" for name, value in carried]
            given += [f"{name}={value}[turn]" for name, value in slices]
            if condition is not None or count is None:
                return [f"while_loop({', '.join(given)})", "condition", "body"]
            return [f"scan[{to_text(count)}]({', '.join(given)})", "body"]
        case SizeRead(name, value):
            return [f"size {name} = {value}"]
        case Assertion(value, message):
            return [f"assert {value}, {message!r}"]
        case OperatorCall():
            copies = "".join(f" with {made} from {value}" for made, value in op.changed)
            return [_code_text(op) + copies]


def _code_text(call: OperatorCall | CustomCall) -> str:
    """A call of the model's own code, its arguments by name."""
    given = [f"{argument}={_argument(value)}" for argument, _, value in call.arguments]
    if isinstance(call, CustomCall) and call.template is not None:
        given += [f"{role}={_view(view)}" for role, view in call.template.operands]
        given += [f"{name}={_argument(value)}" for name, value in call.template.attributes]
        return f"call on the host {call.name}({', '.join(given)})"
    if call.kernel is None:
        return f"call {call.name}({', '.join(given)})"
    given += [f"{name}={text}" for name, text in call.kernel.constants]
    grid = ", ".join(to_text(size) for size in call.kernel.grid)
    return f"launch {call.name}[{grid}]({', '.join(given)})"


def op_lines(op: LoopOp) -> list[str]:
    """The lines of one operation of a loop graph."""
    return _nest_lines(op) if isinstance(op, LoopNest) else _template_lines(op)


def _joined(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"


def _indented(lines: Iterable[str], depth: int) -> list[str]:
    return ["  " * depth + line for line in lines]


def _place(origin: Origin) -> str:
    text = str(origin) if origin.operator or origin.line else ""
    return f"  # {text.strip()}" if text.strip() else ""


def _shape(shape: Sequence[Expr]) -> str:
    return index_text(shape)


def _type(type_: TensorType) -> str:
    return f"{type_.dtype}{_shape(type_.shape)}"


def _argument(argument: object) -> str:
    if isinstance(argument, tuple):
        inner = ", ".join(_argument(a) for a in argument)
        return f"[{inner}]"
    if isinstance(argument, str):
        return repr(argument)
    plain = argument is None or isinstance(
        argument, (bool, int, float, complex, DType, ValueRef, LibraryRoutine, AxisWindows)
    )
    return str(argument) if plain else to_text(argument)


def _sizes(dims: Sequence[Dim], relations: Sequence[SizeRelation]) -> Iterator[str]:
    for d in dims:
        upper = "unbounded" if d.maximum is None else str(d.maximum)
        label = f" {d.label!r}" if d.label else ""
        yield f"  dim {d.name}{label}: {d.minimum} to {upper}, example {d.hint}"
    for r in relations:
        yield f"  requires {to_text(r.left)} {r.relation} {to_text(r.right)}"


def _buffers(buffers: Mapping[str, Buffer]) -> Iterator[str]:
    for b in buffers.values():
        source = f" = {b.fqn!r}" if b.fqn else ""
        strides = "" if b.strides is None else f" strides {_shape(b.strides)}"
        yield f"  {b.kind} {b.name}{source}: {b.dtype}{_shape(b.shape)}{strides}"


def _results(outputs: Sequence[str], mutations: Sequence[Mutation]) -> list[str]:
    left = [f"  leave {m.target} = {m.value}" for m in mutations]
    return [*left, f"  return {', '.join(outputs)}"]


def _loops(axes: Sequence[Axis]) -> str:
    return ", ".join(f"{a.symbol}<{to_text(a.extent)}" for a in axes)


def _symbols(axes: Iterable[Axis]) -> str:
    return ", ".join(str(a.symbol) for a in axes)


def _nest_lines(nest: LoopNest) -> list[str]:
    reduction = f" | {_loops(nest.reduction)}" if nest.reduction else ""
    head = f"{nest.name} = nest({_loops(nest.axes)}{reduction})"
    body = _body(nest)
    if len(body) == 1:
        return [f"{head} {{ {body[0]} }}{_place(nest.origin)}"]
    return [f"{head} {{{_place(nest.origin)}", *_indented(body, 1), "}"]


def _body(nest: LoopNest) -> list[str]:
    printer = ScalarPrinter(nest.roots)
    lines = list(printer.lines)
    for store in nest.stores:
        sign = _SIGNS.get(store.mode, f"{store.mode}=")
        place = printer.index(store.index, store.binds)
        base = f" over {store.base}" if store.base else ""
        base += " clipped" if store.clipped else ""
        lines.append(f"{store.buffer}{place} {sign} {printer.text(store.value)}{base}")
    return lines


def _view(view: View) -> str:
    return f"{view.buffer}{_shape(view.index)}"


def _template_lines(call: TemplateCall) -> list[str]:
    operands = [f"  {role}({_loops(view.axes)}) = {_view(view)}" for role, view in call.operands]
    attributes = "".join(f", {k}={_argument(v)}" for k, v in call.attributes)
    head = f"{call.name} = {call.kind}({_loops(call.output.axes)}{attributes})"
    return [
        f"{head} {{{_place(call.origin)}",
        *operands,
        f"  {_view(call.output)}",
        "}",
    ]


def _kernel_lines(kernel: Kernel) -> list[str]:
    touched = f"  reads {', '.join(kernel.reads)}; writes {', '.join(kernel.writes)}"
    match kernel:
        case JoinedKernel():
            head = f"kernel {kernel.name} of {len(kernel.parts)} side by side"
            return [head, *(line for p in kernel.parts for line in _indented(_kernel_lines(p), 1))]
        case ModelKernel():
            return [f"kernel {kernel.name} {_code_text(kernel.call)}", touched]
        case NestKernel():
            strip = kernel.strip
            strips = "" if strip is None else f" strips {strip.axis.symbol} of {strip.size}"
            shares = kernel.shares
            shared = "" if shares is None else f" shares of dimension {shares.dimension}"
            head = f"kernel {kernel.name} for({_loops(kernel.outer)}){strips}{shared}"
            return [head, touched, *_body_lines(kernel)]
        case TemplateKernel():
            return [f"kernel {kernel.name} for()", touched, *_body_lines(kernel)]


def _body_lines(kernel: FusedKernel) -> list[str]:
    lines = [f"  local {', '.join(kernel.local)}"] if kernel.local else []
    if isinstance(kernel, TemplateKernel):
        if kernel.packed is not None:
            lines.append(f"  packed {kernel.packed.form} for {kernel.packed.operand}")
        if kernel.workspace:
            lines.append(f"  workspace {kernel.workspace}")
        for nest in kernel.prologue:
            lines += _indented(op_lines(nest), 1)
        lines += _indented(_template_lines(kernel.template), 1)
    for stage in kernel.stages:
        lines += _indented(_stage_lines(stage), 1)
    return lines


def _stage_lines(stage: Stage) -> list[str]:
    reduction = f" | {_loops(stage.reduction)}" if stage.reduction else ""
    vector = "scalar" if stage.vector is None else f"vector {stage.vector.symbol}"
    lines = [f"stage({_loops(stage.inner)}{reduction}) order({_symbols(stage.order)}) {vector}"]
    for nest in stage.nests:
        lines += _indented(op_lines(nest), 1)
    return lines
