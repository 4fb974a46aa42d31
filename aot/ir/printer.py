"""Deterministic text of every graph: what `--dump` writes and golden tests compare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from aot.ir.dtypes import DType
from aot.ir.kernels import Kernel, KernelGraph, MemoryPlan, Stage
from aot.ir.loops import Axis, Buffer, LoopGraph, LoopNest, LoopOp, TemplateCall, View
from aot.ir.origin import Origin
from aot.ir.printer_scalar import ScalarPrinter, index_text
from aot.ir.tensors import Dim, SizeRelation, TensorGraph, TensorType, ValueRef
from aot.symbolic import Expr, to_text


def print_tensors(graph: TensorGraph) -> str:
    """A tensor graph: dims, inputs, weights, then an operator a line."""
    lines = [f"tensors {graph.name}", *_sizes(graph.dims, graph.relations)]
    lines += [f"  input {name}: {_type(graph.types[name])}" for name in graph.inputs]
    lines += [
        f"  weight {name} = {fqn!r}: {_type(graph.types[name])}" for name, fqn in graph.weights
    ]
    for op in graph.ops:
        results = ", ".join("_" if name is None else name for name in op.outputs)
        arguments = [_argument(a) for a in op.args]
        arguments += [f"{k}={_argument(v)}" for k, v in op.kwargs]
        kept = [graph.types[name] for name in op.outputs if name is not None]
        types = ", ".join(_type(t) for t in kept)
        place = _place(Origin(op.origin.file, op.origin.line, ""))
        lines.append(f"  {results} = {op.target}({', '.join(arguments)}) -> {types}{place}")
    return _joined([*lines, f"  return {', '.join(graph.outputs)}"])


def print_loops(graph: LoopGraph) -> str:
    """A loop graph: dims, buffers, then a nest or template call each."""
    lines = [f"loops {graph.name}", *_sizes(graph.dims, graph.relations)]
    lines += _buffers(graph.buffers)
    for op in graph.ops:
        lines += _indented(op_lines(op), 1)
    return _joined([*lines, *_results(graph.outputs)])


def print_kernels(graph: KernelGraph) -> str:
    """A kernel graph: dims, buffers, kernels with their stages and loops."""
    lines = [f"kernels {graph.name}", *_sizes(graph.dims, graph.relations)]
    lines += _buffers(graph.buffers)
    for derived in graph.derived:
        sources = ", ".join(derived.sources)
        lines.append(f"  derived {derived.name} = {derived.recipe}({sources})")
    for kernel in graph.kernels:
        lines += _indented(_kernel_lines(kernel), 1)
    return _joined([*lines, *_results(graph.outputs)])


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
    return _joined(lines)


def print_nest(nest: LoopNest) -> str:
    """One nest."""
    return _joined(op_lines(nest))


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
    plain = argument is None or isinstance(argument, (bool, int, float, DType, ValueRef))
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


def _results(outputs: Sequence[str]) -> list[str]:
    return [f"  return {', '.join(outputs)}"]


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
        sign = "+=" if store.mode == "add" else "="
        place = printer.index(store.index, store.binds)
        lines.append(f"{store.buffer}{place} {sign} {printer.text(store.value)}")
    return lines


def _view(view: View) -> str:
    return f"{view.buffer}{_shape(view.index)}"


def _template_lines(call: TemplateCall) -> list[str]:
    operands = [f"  {role}({_loops(view.axes)}) = {_view(view)}" for role, view in call.operands]
    attributes = "".join(f", {k}={_argument(v)}" for k, v in call.attrs)
    head = f"{call.name} = {call.kind}({_loops(call.output.axes)}{attributes})"
    return [
        f"{head} {{{_place(call.origin)}",
        *operands,
        f"  {_view(call.output)}",
        "}",
    ]


def _kernel_lines(kernel: Kernel) -> list[str]:
    strip = (
        "" if kernel.strip is None else f" strips {kernel.strip.axis.symbol} of {kernel.strip.size}"
    )
    lines = [f"kernel {kernel.name} for({_loops(kernel.outer)}){strip}"]
    lines.append(f"  reads {', '.join(kernel.reads)}; writes {', '.join(kernel.writes)}")
    if kernel.local:
        lines.append(f"  local {', '.join(kernel.local)}")
    for nest in kernel.prologue:
        lines += _indented(op_lines(nest), 1)
    if kernel.template is not None:
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
