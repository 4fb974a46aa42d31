"""Assembles the execution plan from scheduled kernels, their launches and the memory plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aot.errors import InternalError, Origin
from aot.ir import tensors
from aot.ir.kernels import Kernel, KernelGraph, Launch, MemoryPlan
from aot.ir.loops import Buffer as GraphBuffer
from aot.link import plan
from aot.symbolic import Expr, as_expr, encode, product


@dataclass(frozen=True)
class LibraryBinary:
    """A compiled kernel library: the device, the architecture level, and its bytes."""

    device: str
    isa: str
    data: bytes

    @property
    def entry(self) -> str:
        """Name of the package entry that holds it."""
        return f"kernels/{self.device}/{self.isa}"


@dataclass(frozen=True)
class Assembly:
    """All that the plan is made of.

    `functions`: the compiled functions' names in the order of each library's table. `launches`:
    one per kernel, in execution order. `derived`: names of weights made at build time (they live
    in `packed/`). `compiler`: name and version for the plan.
    """

    graph: KernelGraph
    memory: MemoryPlan
    launches: Sequence[Launch]
    functions: Sequence[str]
    libraries: Sequence[LibraryBinary]
    derived: frozenset[str]
    compiler: str
    golden: Sequence[plan.GoldenSet] = ()


def weight_entry(buffer: GraphBuffer, derived: frozenset[str]) -> str:
    """The package entry that holds a weight buffer's bytes."""
    group = "packed" if buffer.fqn in derived else "weights"
    return f"{group}/{buffer.fqn}"


def assemble(parts: Assembly) -> plan.Plan:
    """The execution plan, hashes still empty (the package writer fills them in).

    Raises:
        InternalError: A launch names a buffer that has no storage.
    """
    graph = parts.graph
    names = _Names(parts)
    origins = _origins(graph.kernels)
    positions = {name: k for k, name in enumerate(parts.functions)}
    steps = tuple(
        plan.Step(
            kernel=positions[launch.function],
            buffers=tuple(names.position(b) for b in launch.buffers),
            sizes=tuple(encode(e) for e in launch.sizes),
            work=encode(as_expr(launch.work)),
            grain=encode(as_expr(launch.grain)),
            scratch=encode(as_expr(launch.scratch)),
            origin=origins[kernel_origin(kernel)],
        )
        for kernel, launch in zip(graph.kernels, parts.launches, strict=True)
    )
    return plan.Plan(
        compiler=parts.compiler,
        model=graph.name,
        inputs=tuple(_spec(graph.buffers[n], n, names) for n in graph.inputs),
        outputs=tuple(
            _spec(graph.buffers[n], _output_name(k, len(graph.outputs)), names)
            for k, n in enumerate(graph.outputs)
        ),
        signature=_signature(graph.signature),
        buffers=names.buffers(),
        kernels=tuple(plan.KernelRef(name) for name in parts.functions),
        steps=steps,
        libraries=tuple(plan.Library(b.entry, b.device, b.isa) for b in parts.libraries),
        origins=tuple(origins),
        dims=tuple(_dim(d) for d in graph.dims),
        arena=tuple(
            plan.ArenaSlot(names.position(p.buffer), tuple(names.position(a) for a in p.above))
            for p in parts.memory.placements
        ),
        checks=tuple(
            plan.Check(encode(r.left), _relation(r.relation), encode(r.right), r.message)
            for r in graph.relations
        ),
        golden=tuple(parts.golden),
    )


def kernel_origin(kernel: Kernel) -> Origin:
    """The model line that stands for a kernel: its template's, else its last nest's."""
    if kernel.template is not None:
        return kernel.template.origin
    return kernel.stages[-1].nests[-1].origin


def _origins(kernels: Sequence[Kernel]) -> dict[Origin, int]:
    found = dict.fromkeys(kernel_origin(k) for k in kernels)
    return {origin: position for position, origin in enumerate(found)}


class _Names:
    """Positions of buffers in the plan: those that launches, inputs, outputs or the arena name."""

    def __init__(self, parts: Assembly) -> None:
        graph = parts.graph
        self._parts = parts
        self._roots = dict(parts.memory.in_place)
        used = [
            *graph.inputs,
            *graph.outputs,
            *(b for launch in parts.launches for b in launch.buffers),
            *(p.buffer for p in parts.memory.placements),
        ]
        self._order = list(dict.fromkeys(self._root(b) for b in used))
        self._positions = {name: k for k, name in enumerate(self._order)}

    def _root(self, name: str) -> str:
        while name in self._roots:
            name = self._roots[name]
        return name

    def position(self, name: str) -> int:
        return self._positions[self._root(name)]

    def buffers(self) -> tuple[plan.Buffer, ...]:
        table = self._parts.graph.buffers
        sizes = {p.buffer: p.size for p in self._parts.memory.placements}
        return tuple(
            plan.Buffer(
                name,
                table[name].dtype.name,
                encode(sizes.get(name, buffer_bytes(table[name]))),
                self._storage(table[name]),
            )
            for name in self._order
        )

    def _storage(self, buffer: GraphBuffer) -> plan.Storage:
        graph = self._parts.graph
        if buffer.kind == "input":
            return plan.InputStorage(graph.inputs.index(buffer.name))
        if buffer.kind == "weight":
            return plan.EntryStorage(weight_entry(buffer, self._parts.derived))
        if buffer.name in graph.outputs:
            return plan.OutputStorage(graph.outputs.index(buffer.name))
        if any(p.buffer == buffer.name for p in self._parts.memory.placements):
            return plan.ArenaStorage()
        raise InternalError(f"buffer {buffer.name} is used by a launch but has no storage")


def buffer_bytes(buffer: GraphBuffer) -> Expr:
    """Bytes of a buffer whose strides are dense in some order."""
    return product((*buffer.shape, as_expr(buffer.dtype.itemsize)))


def _spec(buffer: GraphBuffer, name: str, names: _Names) -> plan.TensorSpec:
    if buffer.strides is None:
        raise InternalError(f"buffer {buffer.name} has no strides")
    return plan.TensorSpec(
        name,
        buffer.dtype.name,
        tuple(encode(e) for e in buffer.shape),
        tuple(encode(e) for e in buffer.strides),
        names.position(buffer.name),
    )


def _output_name(position: int, count: int) -> str:
    return "output" if count == 1 else f"output_{position}"


def _relation(text: str) -> plan.Relation:
    for relation in plan.RELATIONS:
        if relation == text:
            return relation
    raise InternalError(f"unknown relation {text!r} between sizes")


def _dim(dim: tensors.Dim) -> plan.Dim:
    position, axis, divisor, offset = dim.source
    source = plan.DimSource(position, axis, divisor, offset)
    label = dim.label or dim.name
    return plan.Dim(dim.name, label, dim.minimum, dim.maximum, dim.multiple_of, source)


def _signature(signature: tensors.Signature) -> plan.Signature:
    parameters = tuple(
        plan.Parameter(
            p.name, "keyword" if p.keyword_only else "positional", _tree(p.tree, plan.TreeInput)
        )
        for p in signature.parameters
    )
    return plan.Signature(parameters, _tree(signature.result, plan.TreeOutput))


def _tree(tree: tensors.Tree, leaf: type[plan.TreeInput] | type[plan.TreeOutput]) -> plan.Tree:
    children = tuple(_tree(c, leaf) for c in tree.children)
    if tree.kind == "leaf":
        return leaf(int(tree.value))
    if tree.kind == "constant":
        return plan.TreeConstant(tree.value)
    if tree.kind == "dict":
        return plan.TreeDict(tuple(zip(tree.keys, children, strict=True)))
    return plan.TreeSequence("list" if tree.kind == "list" else "tuple", children)
