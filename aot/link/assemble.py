"""Assembles the execution plan from scheduled kernels, their launches and the memory plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from aot_runtime.format import plan
from aot_runtime.format.declarations import (
    Declaration,
    KernelDeclaration,
    declared_code,
    encode_declarations,
)
from aot_runtime.format.golden_sets import GoldenSet
from aot_runtime.format.tensor_types import complex_dtype

from aot.errors import InternalError, Origin
from aot.ir import tensors
from aot.ir.flow import CustomCall
from aot.ir.images import KernelImage
from aot.ir.kernels import (
    Grid,
    JoinedKernel,
    Kernel,
    KernelGraph,
    Launch,
    MemoryPlan,
    ModelKernel,
    NestKernel,
    TemplateKernel,
    WorkUnits,
)
from aot.ir.layouts import element_span
from aot.ir.nests import Buffer as GraphBuffer
from aot.ir.weights import Derivation
from aot.link.operator_library import OperatorCode
from aot.link.steps import (
    ControlItem,
    FlatStep,
    assemble_steps,
    control_buffers,
    control_origins,
    control_step,
    slice_steps,
)
from aot.symbolic import Expr, FloorDiv, as_expr, decode, encode, product


@dataclass(frozen=True)
class RoutineParts:
    """A routine of the weight program: see `ProgramParts`."""

    graph: KernelGraph
    memory: MemoryPlan
    launches: Sequence[Launch]


@dataclass(frozen=True)
class ProgramParts:
    """All that one program of the plan is made of.

    Attributes:
        device: The device's kind.
        arch: Its architecture; "" for libraries, which say theirs.
        graph: The scheduled kernels.
        memory: Where its temporaries lie.
        launches: Of every kernel, in execution order.
        functions: The compiled functions' names in the order of each library's table.
        declarations: What each function declares, in their order.
        weights: The package entry of each weight, by FQN.
        libraries: (instruction set level, bytes) of each library.
        images: Code of each function instead, in their order.
        routines: Of the weight program.
        derivations: Which derived weight each computes, from what.
        operators: Libraries with custom operators that it carries.
    """

    device: str
    arch: str
    graph: KernelGraph
    memory: MemoryPlan
    launches: Sequence[Launch]
    functions: Sequence[str]
    declarations: Sequence[Declaration]
    weights: Mapping[str, str]
    libraries: Sequence[tuple[str, bytes]] = ()
    images: Sequence[KernelImage] = ()
    routines: Sequence[RoutineParts] = ()
    derivations: Sequence[Derivation] = ()
    operators: Sequence[OperatorCode] = ()

    @property
    def target(self) -> str:
        """The program's (`plan.Program.target`)."""
        return f"{self.device}:{self.arch}" if self.arch else self.device

    def library_entry(self, level: str) -> str:
        """Name of the package entry that holds a library."""
        return f"kernels/{self.device}/{level}"

    def image_entry(self, image: KernelImage) -> str:
        """Name of the package entry that holds a kernel's code."""
        return f"kernels/{self.device}/{self.arch}/{image.name}"

    def operator_entry(self, library: OperatorCode) -> str:
        """Name of the package entry that holds a library of operators."""
        return f"operators/{'+'.join(library.devices)}/{library.name}"

    def declared(self) -> tuple[KernelDeclaration, ...]:
        """What every function declares, in their order."""
        codes = {image.name: declared_code(_code("", image)) for image in self.images}
        return tuple(
            KernelDeclaration(name, declaration, codes.get(name))
            for name, declaration in zip(self.functions, self.declarations, strict=True)
        )

    def code(self) -> Iterator[tuple[str, bytes]]:
        """Every entry of code: name and bytes, with what its kernels declare at the end."""
        declared = {d.name: d for d in self.declared()}
        every = encode_declarations(tuple(declared.values()))
        yield from ((self.library_entry(level), data + every) for level, data in self.libraries)
        for image in self.images:
            yield self.image_entry(image), image.data + encode_declarations([declared[image.name]])
        yield from ((self.operator_entry(library), library.data) for library in self.operators)


@dataclass(frozen=True)
class Assembly:
    """All that the plan is made of.

    Attributes:
        programs: At least one; they have the same inputs, outputs and dims.
        compiler: Name and version for the plan.
        golden: Records of golden sets.
        states: What a session keeps; the programs' buffers of kind state by FQN.
        weights: What may be replaced at run time.
    """

    programs: Sequence[ProgramParts]
    compiler: str
    golden: Sequence[GoldenSet] = ()
    states: Sequence[plan.StateSpec] = ()
    weights: Sequence[plan.WeightSpec] = ()


def assemble(parts: Assembly) -> plan.Plan:
    """The execution plan, hashes still empty (the package writer fills them in).

    Raises:
        InternalError: A launch names a buffer that has no storage, or programs disagree on what
            callers see.
    """
    origins = _origins(
        graph
        for program in parts.programs
        for graph in (program.graph, *(routine.graph for routine in program.routines))
    )
    plans = [_with_program(parts, program, origins) for program in parts.programs]
    first = plans[0]
    for other in plans[1:]:
        if replace(other, programs=first.programs) != first:
            raise InternalError("two programs of one plan have other inputs, outputs or dims")
    return replace(first, programs=tuple(p.programs[0] for p in plans))


def _with_program(
    parts: Assembly, program: ProgramParts, origins: Mapping[Origin, int]
) -> plan.Plan:
    graph = program.graph
    changed, signature = {m.target for m in graph.mutations}, graph.signature
    return plan.Plan(
        compiler=parts.compiler,
        model=graph.name,
        inputs=tuple(
            _seen(_spec(graph.buffers[n], n, n in changed), k in signature.complex.inputs)
            for k, n in enumerate(graph.inputs)
        ),
        outputs=tuple(
            _seen(
                _spec(graph.buffers[n], _output_name(k, len(graph.outputs))),
                k in signature.complex.outputs,
            )
            for k, n in enumerate(graph.outputs)
        ),
        signature=_signature(signature),
        programs=(_program(program, origins, parts.states),),
        origins=tuple(origins),
        dims=tuple(_dim(d) for d in graph.dims),
        checks=tuple(
            plan.Check(encode(r.left), _relation(r.relation), encode(r.right), r.message)
            for r in graph.relations
        ),
        golden=tuple(parts.golden),
        states=tuple(parts.states),
        weights=tuple(parts.weights),
    )


def _program(
    parts: ProgramParts, origins: Mapping[Origin, int], states: Sequence[plan.StateSpec]
) -> plan.Program:
    empty = plan.Program(
        device=parts.device,
        arch=parts.arch,
        buffers=(),
        kernels=_kernels(parts),
        steps=(),
        outputs=(),
        libraries=tuple(
            plan.Library(parts.library_entry(level), level) for level, _ in parts.libraries
        ),
        operator_libraries=tuple(
            plan.OperatorLibrary(parts.operator_entry(library)) for library in parts.operators
        ),
    )
    program = _with_body(empty, parts, origins, states)
    if not parts.derivations:
        return program
    routines = tuple(_routine(empty, parts, routine, origins) for routine in parts.routines)
    derived = tuple(
        plan.Derived(parts.weights[d.weight], d.sources, d.routine) for d in parts.derivations
    )
    return replace(program, weights=plan.WeightProgram(routines, derived))


def _routine(
    empty: plan.Program, parts: ProgramParts, routine: RoutineParts, origins: Mapping[Origin, int]
) -> plan.Routine:
    graph = routine.graph
    own = replace(parts, graph=graph, memory=routine.memory, launches=routine.launches)
    return plan.Routine(
        inputs=tuple(_spec(graph.buffers[n], n) for n in graph.inputs),
        outputs=tuple(_spec(graph.buffers[n], n) for n in graph.outputs),
        body=_with_body(empty, own, origins, ()),
    )


def _with_body(
    program: plan.Program,
    parts: ProgramParts,
    origins: Mapping[Origin, int],
    states: Sequence[plan.StateSpec],
) -> plan.Program:
    """The program with the buffers, arena, steps and outputs of these parts."""
    graph = parts.graph
    steps = assemble_steps(graph, parts.launches)
    names = _Names(parts, states, steps)
    return replace(
        program,
        buffers=names.buffers(),
        steps=tuple(_step(parts, step, names, origins) for step in steps),
        outputs=tuple(names.position(name) for name in graph.outputs),
        arena=tuple(
            plan.ArenaSlot(names.position(p.buffer), tuple(names.position(a) for a in p.above))
            for p in parts.memory.placements
        ),
        updates=tuple(names.update(m) for m in parts.memory.copied),
    )


def _step(
    parts: ProgramParts, step: FlatStep, names: _Names, origins: Mapping[Origin, int]
) -> plan.AnyStep:
    if isinstance(step, ControlItem):
        on_host = isinstance(step.item, CustomCall) and step.item.template is not None
        return control_step(step, names.whole if on_host else names.operand, origins)
    launch = step.launch
    return plan.Step(
        kernel=parts.functions.index(launch.function),
        buffers=tuple(names.position(b) for b in launch.buffers),
        sizes=tuple(encode(e) for e in launch.sizes),
        launch=_launch(launch),
        origin=origins[kernel_origin(step.kernel)],
        values=tuple(encode(as_expr(e)) for e in launch.values),
    )


def _kernels(parts: ProgramParts) -> tuple[plan.KernelRef, ...]:
    if not parts.images:
        return tuple(plan.KernelRef(name) for name in parts.functions)
    images = {image.name: image for image in parts.images}
    return tuple(
        plan.KernelRef(name, _code(parts.image_entry(images[name]), images[name]))
        for name in parts.functions
    )


def _code(entry: str, image: KernelImage) -> plan.KernelCode:
    return plan.KernelCode(
        entry=entry,
        symbol=image.symbol,
        threads=image.threads,
        shared=image.shared,
        scratch=image.scratch,
        scratch_alignment=image.scratch_alignment,
        faults=image.faults,
        waits=image.waits,
    )


def _launch(launch: Launch) -> plan.WorkLaunch | plan.GridLaunch:
    match launch.over:
        case Grid(x, y, z):
            return plan.GridLaunch(*(encode(as_expr(e)) for e in (x * launch.when, y, z)))
        case WorkUnits(units, grain, scratch):
            return plan.WorkLaunch(
                work=encode(as_expr(units * launch.when)),
                grain=encode(as_expr(grain)),
                scratch=encode(as_expr(scratch)),
            )


def kernel_origin(kernel: Kernel) -> Origin:
    """The model line that stands for a kernel: its template's, else its last nest's.

    Of several side by side it is the first, which alone may find wrong indices.
    """
    match kernel:
        case JoinedKernel():
            return kernel_origin(kernel.parts[0])
        case TemplateKernel():
            return kernel.template.origin
        case ModelKernel():
            return kernel.call.origin
        case NestKernel():
            return kernel.stages[-1].nests[-1].origin


def _origins(graphs: Iterable[KernelGraph]) -> dict[Origin, int]:
    found: dict[Origin, None] = {}
    for graph in graphs:
        found.update(dict.fromkeys(kernel_origin(k) for k in graph.kernels))
        found.update(dict.fromkeys(control_origins(graph)))
    return {origin: position for position, origin in enumerate(found)}


class _Names:
    """Positions of buffers in the plan: those that launches, inputs, outputs or the arena name."""

    def __init__(
        self,
        parts: ProgramParts,
        states: Sequence[plan.StateSpec],
        steps: Sequence[FlatStep],
    ) -> None:
        graph = parts.graph
        self._slices = slice_steps(steps)
        self._parts = parts
        self._states = {state.name: k for k, state in enumerate(states)}
        self._roots = dict(parts.memory.in_place)
        used = [
            *graph.inputs,
            *graph.outputs,
            *(b for launch in parts.launches for b in launch.buffers),
            *(p.buffer for p in parts.memory.placements),
            *control_buffers(graph),
        ]
        whole = [name for name in used if self._root(name) not in self._slices]
        # A slice comes after what it is a part of.
        used = [*whole, *self._slices]
        self._order = list(dict.fromkeys(self._root(b) for b in used))
        self._positions = {name: k for k, name in enumerate(self._order)}

    def _root(self, name: str) -> str:
        while name in self._roots:
            name = self._roots[name]
        return name

    def position(self, name: str) -> int:
        return self._positions[self._root(name)]

    def operand(self, name: str) -> plan.TensorOperand:
        """The buffer as a tensor of its own shape."""
        shape = self._parts.graph.buffers[name].shape
        return plan.TensorOperand(self.position(name), tuple(encode(e) for e in shape))

    def whole(self, name: str) -> plan.TensorOperand:
        """The buffer as its elements one after the other, whatever strides it has."""
        buffer = self._parts.graph.buffers[name]
        elements = element_span(buffer.shape, buffer.strides)
        return plan.TensorOperand(self.position(name), (encode(elements),))

    def update(self, mutation: tensors.Mutation) -> plan.Update:
        """How a new value that has memory of its own reaches its target."""
        graph, buffer = self._parts.graph, self.position(mutation.value)
        target = graph.buffers[mutation.target]
        if target.kind == "state":
            return plan.Update("state", self._states[target.fqn], buffer)
        return plan.Update("input", graph.inputs.index(target.name), buffer)

    def buffers(self) -> tuple[plan.Buffer, ...]:
        table = self._parts.graph.buffers
        sizes = {p.buffer: p.size for p in self._parts.memory.placements}
        return tuple(
            plan.Buffer(
                name,
                table[name].dtype.name,
                encode(sizes.get(name, spanned_bytes(table[name]))),
                self._storage(table[name]),
            )
            for name in self._order
        )

    def _storage(self, buffer: GraphBuffer) -> plan.Storage:
        graph = self._parts.graph
        if buffer.kind == "input":
            return plan.InputStorage(graph.inputs.index(buffer.name))
        if buffer.kind == "weight":
            return plan.EntryStorage(self._parts.weights[buffer.fqn])
        if buffer.kind == "state":
            return plan.StateStorage(self._states[buffer.fqn])
        if buffer.name in graph.outputs:
            return plan.OutputStorage(graph.outputs.index(buffer.name))
        if buffer.name in self._slices:
            source, step = self._slices[buffer.name]
            stride = encode(spanned_bytes(buffer))
            return plan.SliceStorage(self.position(source), stride, step)
        if any(p.buffer == buffer.name for p in self._parts.memory.placements):
            return plan.ArenaStorage()
        raise InternalError(f"buffer {buffer.name} is used by a launch but has no storage")


def spanned_bytes(buffer: GraphBuffer) -> Expr:
    """Bytes of a buffer, from its first element to behind its last."""
    elements = element_span(buffer.shape, buffer.strides)
    return product((elements, as_expr(buffer.dtype.itemsize)))


def _spec(buffer: GraphBuffer, name: str, changed: bool = False) -> plan.TensorSpec:
    if buffer.strides is None:
        raise InternalError(f"buffer {buffer.name} has no strides")
    return plan.TensorSpec(
        name,
        buffer.dtype.name,
        tuple(encode(e) for e in buffer.shape),
        tuple(encode(e) for e in buffer.strides),
        changed,
    )


def _seen(spec: plan.TensorSpec, is_complex: bool) -> plan.TensorSpec:
    """A tensor as callers see it: pairs of reals are complex numbers."""
    if not is_complex:
        return spec
    strides = tuple(encode(FloorDiv(decode(s), as_expr(2))) for s in spec.strides[:-1])
    return replace(spec, dtype=complex_dtype(spec.dtype), shape=spec.shape[:-1], strides=strides)


def _output_name(position: int, count: int) -> str:
    return "output" if count == 1 else f"output_{position}"


def _relation(text: str) -> plan.Relation:
    for relation in plan.RELATIONS:
        if relation == text:
            return relation
    raise InternalError(f"unknown relation {text!r} between sizes")


def _dim(dim: tensors.Dim) -> plan.Dim:
    source = None if dim.source is None else plan.DimSource(*dim.source)
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
