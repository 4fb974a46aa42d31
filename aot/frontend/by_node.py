"""Takes an exported program apart node by node, where that gives what tracing it again would.

`ExportedProgram.run_decompositions` traces the whole program again, through functionalization: as
long as the export itself. Most nodes of most models come out as they went in. Where no node writes
into memory, has a graph of its own or reads a size that a run measures, each node can be taken
apart alone: its operator runs on the fake tensors of its arguments, and the operators that it
calls are what it becomes. A program with any other node is left to torch.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch._C import DispatchKey
from torch._decomp import _core_aten_decompositions_post_autograd
from torch._dispatch.python import enable_python_dispatcher
from torch._export import utils as export_utils
from torch._higher_order_ops import effects
from torch._library.triton import triton_ops_to_kernels
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.export import ExportedProgram
from torch.export.decomp_utils import PRESERVED_ATEN_CIA_OPS
from torch.export.graph_signature import OutputKind
from torch.fx import Graph, Node, Proxy
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.fx.proxy import GraphAppendingTracer
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from aot.frontend.decompose import is_lowered, lowered_overloads, own_decompositions
from aot.frontend.operators import operator_name
from aot.frontend.overridden import device_kinds, overridden

_untyped: Any = torch
"""torch, for functions of it that have no types."""

_ATEN = _untyped.ops.aten

_UNTRACED = frozenset(
    {
        _ATEN.lift_fresh.default,
        _ATEN.lift_fresh_copy.default,
    }
)
"""Operators that tracing leaves out, or makes others of."""

_CHECK = _ATEN._linalg_check_errors.default
"""What says that a factorization failed: the one operator that keeps an order and is read alone."""

_OF_SIZES = frozenset({_ATEN.sym_size.int, _ATEN.sym_stride.int, _ATEN.sym_numel.default})
"""Operators that give a size, or what is computed of sizes."""

_ON_NUMBERS = ("_operator", "math", "torch")
"""Modules of the functions that nodes of sizes call."""


class _Whole(Exception):
    """A node that only tracing the whole program takes apart."""


def decomposed_by_node(program: ExportedProgram) -> bool:
    """Takes the program apart in place, to what `run_decompositions` makes with our table.

    Returns:
        Whether that was possible; if not, nothing is changed.
    """
    outputs = program.graph_signature.output_specs
    if any(spec.kind is not OutputKind.USER_OUTPUT for spec in outputs):
        return False
    try:
        with ExitStack() as entered:
            made = _Copy(entered, _Table())
            for node in program.graph.nodes:
                made.add(node)
    except _Whole:
        return False
    if made.changed:
        names = {old.name: new.name for old, new in made.nodes.items() if isinstance(new, Node)}
        for spec in outputs:
            spec.arg.name = names.get(spec.arg.name, spec.arg.name)
        made.graph.eliminate_dead_code(lambda n: n.target is effects.with_effects or n.is_impure())
        made.graph.set_codegen(program.graph._codegen)
        program.graph_module.graph = made.graph
    elif program.graph.eliminate_dead_code():
        program.graph_module.recompile()
    return True


@dataclass
class _Copy:
    """The program's graph, node by node, as it is taken apart.

    `nodes`: what each node became: a node, or the nodes of its several results. `axes`: the first
    input and axis whose size is open, by the size. `sizes`: nodes of sizes. `memory`: the program's
    nodes by the memory of their values, when it is first asked for. `writes`: those that wrote over
    a value. `entered`: what is entered when the first is taken apart.
    """

    entered: ExitStack
    table: _Table
    graph: Graph = field(default_factory=Graph)
    nodes: dict[Node, Any] = field(default_factory=dict)
    axes: dict[str, tuple[Node, int]] = field(default_factory=dict)
    sizes: dict[str, Node] = field(default_factory=dict)
    memory: dict[int, list[Node]] = field(default_factory=dict)
    writes: set[Node] = field(default_factory=set)
    changed: bool = False
    ready: bool = False

    def add(self, node: Node) -> None:
        """Raises _Whole."""
        if node.op not in ("placeholder", "call_function", "output"):
            raise _Whole
        if any(map(_is_special, pytree.tree_leaves(node.meta.get("val")))):
            raise _Whole
        if node.op == "call_function":
            self._call(node)
        else:
            self.nodes[node] = self._same(node, name=node.name)

    def _call(self, node: Node) -> None:
        target = node.target
        if target is operator.getitem and isinstance(node.args[0], Node):
            whole = self.nodes[node.args[0]]
            if isinstance(whole, (tuple, list)):
                self.nodes[node] = whole[int(str(node.args[1]))]
                return
        if not isinstance(target, OpOverload):
            if getattr(target, "__module__", "") not in _ON_NUMBERS:
                raise _Whole
            self.nodes[node] = self._same(node)
        elif operator_name(node) in triton_ops_to_kernels or _has_effects(target):
            raise _Whole  # torch takes it apart into launches, or keeps it in order
        elif target is _ATEN.lift_fresh_copy.default:
            self.nodes[node] = self._same(node, target=_ATEN.clone.default)
            self.changed = True
        elif target is _ATEN.detach_.default:
            self.nodes[node] = self.nodes[node.all_input_nodes[0]]
            self.changed = True
        elif self.table.keeps(target):
            self.nodes[node] = self._same(node)
        elif target in _OF_SIZES and _is_size(node.meta["val"]):
            self.nodes[node] = self._size(node.meta["val"])
            self.changed = True
        elif target._schema.is_mutable:
            self._anew(node, target)
        else:
            self._apart(node, target)

    def _same(self, node: Node, name: str | None = None, target: Any = None) -> Node:
        """The node on the new arguments; a call of `target`, where one is given."""

        def map_node(argument: Node) -> Node:
            new = self.nodes[argument]
            if not isinstance(new, Node):
                raise _Whole  # an operator that takes several results as one list
            return new

        args, kwargs, target = node.args, node.kwargs, target or node.target
        if isinstance(target, OpOverload):
            args, kwargs = _as_dispatched(target, args, kwargs)
        args, kwargs = torch.fx.map_arg((args, kwargs), map_node)
        if name is None:
            name = self.graph._target_to_str(_name_of(target))
        new = self.graph.create_node(node.op, target, args, kwargs, name, node.type)
        new.meta = dict(node.meta)
        if node.op == "placeholder":
            new.name = node.name  # that of a function of Python's, which is no name for a value
            value = new.meta.get("val")
            shape = value.shape if isinstance(value, torch.Tensor) else ()
            for axis, size in enumerate(shape):
                if _is_size(size):
                    self.axes.setdefault(str(size), (new, axis))
        if _is_size(new.meta.get("val")):
            self.sizes.setdefault(str(new.meta["val"].node.expr), new)
        return new

    def _apart(self, node: Node, target: OpOverload) -> None:
        self.changed = True
        given = [a for a in pytree.tree_leaves((node.args, node.kwargs)) if isinstance(a, Node)]
        mode = _fake_mode(node, *given)
        numbers = any(map(_is_size, pytree.tree_leaves(node.meta["val"])))
        if mode is None or numbers or target in _UNTRACED or target._schema.is_mutable:
            raise _Whole
        if not self.ready:
            self.ready = True
            self.entered.enter_context(self.table.in_force(device_kinds(node.graph)))
        values = {old: old.meta["val"] for old in given}
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), values.__getitem__)
        known = [(value, self.nodes[old]) for old, value in values.items()]
        found, calls = _recorded(target, args, kwargs, mode, self.table)
        if _form(found) != _form(node.meta["val"]):
            raise _Whole  # what reads it was traced with another
        written = _Written(self.graph, node.meta, known, self._size)
        for call in calls:
            written.write(call)
        self.nodes[node] = pytree.tree_map(written.node_of, found)

    def _anew(self, node: Node, target: OpOverload) -> None:
        """What writes over a value that shares its memory with no other makes a new one instead.

        Raises _Whole where the memory is an input's, or another value's too.
        """
        functional, base = _functional(target), node.args[0]
        if functional is None or not isinstance(base, Node) or not _storage(base.meta["val"]):
            raise _Whole
        first, *others = names = [n for n in self._sharing(base) if n in self.nodes]
        if first.op != "call_function" or not self.writes.issuperset(others):
            raise _Whole
        self._apart(node, functional)
        self.writes.add(node)
        self.nodes |= dict.fromkeys(names, self.nodes[node])

    def _sharing(self, node: Node) -> Sequence[Node]:
        """The nodes of values in the memory of this node's, in their order."""
        if not self.memory:
            for each in node.graph.nodes:
                for storage in {_storage(x) for x in pytree.tree_leaves(each.meta.get("val"))}:
                    self.memory.setdefault(storage, []).append(each)
        return self.memory[_storage(node.meta["val"])]

    def _size(self, size: Any) -> Node | int:
        """The node of a size: one that is there, or a new one, computed of what inputs have.

        A number where checks leave one alone, as that of bins that are as many as experts.
        """
        expression = size.node.expr
        return int(expression) if expression.is_Integer else self._computed(expression)

    def _computed(self, expression: Any) -> Node:
        """Of a size's expression. Raises _Whole where inputs have no size that it is made of."""
        if str(expression) in self.sizes:
            return self.sizes[str(expression)]
        if str(expression) in self.axes:
            given, axis = self.axes[str(expression)]
            made = self.graph.call_function(_ATEN.sym_size.int, (given, axis))
            made.meta = {"val": given.meta["val"].shape[axis]}
        elif expression.is_Symbol:
            raise _Whole
        else:
            symbols = {s: self._computed(s) for s in expression.free_symbols}
            appending = GraphAppendingTracer(self.graph)
            proxies = {symbol: Proxy(node, appending) for symbol, node in symbols.items()}
            made = sympy_interp(PythonReferenceAnalysis, proxies, expression).node
            _tell(made)
        self.sizes[str(expression)] = made
        return made


def _tell(node: Node) -> None:
    """Says of the nodes that a size is computed by what it is."""
    if "val" not in node.meta:
        for given in node.all_input_nodes:
            _tell(given)
        args = torch.fx.map_arg(node.args, lambda given: given.meta["val"])
        compute: Any = node.target
        node.meta = {"val": compute(*args)}


@dataclass(frozen=True)
class _Call:
    """A call of an operator that stays."""

    target: OpOverload
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    result: Any


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Takes calls apart by the table, and keeps those that stay.

    What a call writes over a value that an earlier one has made, and that no other is a view of, is
    a new value from then on.
    """

    def __init__(self, table: _Table) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[_Call] = []
        self._table = table
        self._own: dict[int, Any] = {}
        """Values that calls have made, which nothing else sees, as they are now, by their ids."""

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Raises _Whole."""
        written = args[0] if args else None
        args, kwargs = pytree.tree_map(self._now, (args, dict(kwargs or {})))
        if func in FunctionalTensor.metadata_fns or func.namespace == "prim":
            return func(*args, **kwargs)
        if func is _CHECK:
            self._keep(func, args, kwargs, None)
            return None
        if func in _UNTRACED or _has_effects(func):
            raise _Whole
        if func._schema.is_mutable:
            return self._write(func, written, args, kwargs)
        for apart in self._table.ways(func):
            with self:
                made = apart(*args, **kwargs)
            if made is not NotImplemented:
                return made
        result = func(*args, **kwargs)
        self._keep(func, args, kwargs, result)
        return result

    def results(self, found: Any) -> Any:
        """What a call has given, after all that was written over it."""
        return pytree.tree_map(self._now, found)

    def _now(self, value: Any) -> Any:
        return self._own.get(id(value), value) if _is_tensor(value) else value

    def _keep(self, func: OpOverload, args: Any, kwargs: Any, result: Any) -> None:
        self.calls.append(_Call(func, args, kwargs, result))
        if any(r.alias_info is not None for r in func._schema.returns):
            for given in filter(_is_tensor, pytree.tree_leaves((args, kwargs))):
                self._own.pop(id(given), None)  # a view sees it, or may
        else:
            made = filter(_is_tensor, pytree.tree_leaves(result))
            self._own.update((id(value), value) for value in made)

    def _write(self, func: OpOverload, written: Any, args: Any, kwargs: Any) -> Any:
        """Raises _Whole where what it writes over was not made here, or is seen elsewhere."""
        functional = _functional(func)
        if functional is None or id(written) not in self._own:
            raise _Whole
        result = functional(*args, **kwargs)
        if (result.dtype, str(result.shape)) != (written.dtype, str(written.shape)):
            raise _Whole
        self._keep(functional, args, kwargs, result)
        self._own[id(written)] = result
        return written


def _recorded(
    target: OpOverload, args: Any, kwargs: Any, mode: FakeTensorMode, table: _Table
) -> tuple[Any, Sequence[_Call]]:
    recorder = _Recorder(table)
    with _own_symbols(mode), enable_python_dispatcher(), mode, recorder:
        found = target(*args, **kwargs)
    return recorder.results(found), recorder.calls


def _own_symbols(mode: FakeTensorMode) -> AbstractContextManager[Any]:
    """Inside of it, a size of the run that is made is nobody's.

    Where the program is traced whole after all, torch would ask of which result it is one.
    """
    sizes = mode.shape_env
    return nullcontext() if sizes is None else sizes.ignore_fresh_unbacked_symbols()


class _Written:
    """Writes recorded calls into a graph."""

    def __init__(
        self,
        graph: Graph,
        meta: Mapping[str, Any],
        known: Sequence[tuple[Any, Any]],
        sizes: Callable[[Any], Node | int],
    ) -> None:
        self._graph, self._meta = graph, meta
        self._tensors = {id(value): node for value, node in known if _is_tensor(value)}
        self._sizes = sizes

    def write(self, call: _Call) -> None:
        """Raises _Whole where it reads what is no node."""
        given = _as_dispatched(call.target, call.args, call.kwargs)
        args, kwargs = pytree.tree_map(self.node_of, given)
        if call.target is _CHECK:
            made = self._graph.call_function(effects.with_effects, (None, _CHECK, *args), kwargs)
            made.meta = dict(self._meta) | {"val": None}
            return
        name = self._graph._target_to_str(_name_of(call.target))
        node = self._graph.create_node("call_function", call.target, args, kwargs, name)
        node.meta = {**self._meta, "val": call.result}
        if isinstance(call.result, (tuple, list)):
            for k, part in enumerate(call.result):
                own = self._graph.create_node("call_function", operator.getitem, (node, k))
                own.meta = {**self._meta, "val": part}
                self._tensors[id(part)] = own
        else:
            self._tensors[id(call.result)] = node

    def node_of(self, value: Any) -> Any:
        """The node of a tensor or a size; anything else is a constant."""
        if _is_tensor(value):
            if id(value) not in self._tensors:
                raise _Whole
            return self._tensors[id(value)]
        if _is_size(value):
            return self._sizes(value)
        return value


class _Table:
    """The decomposition table, as far as it is not torch's own of composite operators."""

    def __init__(self) -> None:
        self._own = own_decompositions()
        self._whole: dict[OpOverload, bool] = {}

    def keeps(self, target: OpOverload) -> bool:
        """Whether calls of the operator stay as they are."""
        if target not in self._whole:
            taken = target in _UNTRACED or target._schema.is_mutable or _is_python(target)
            self._whole[target] = not taken and not any(True for _ in self.ways(target))
        return self._whole[target]

    def ways(self, target: OpOverload) -> Iterator[Callable[..., Any]]:
        """What takes a call apart, or gives NotImplemented where it leaves that to the next."""
        if target in self._own:
            yield self._own[target]
        elif target in _of_torch() and not is_lowered(target):
            yield _of_torch()[target]
        if _is_composite(target) and not self.stays_whole(target):
            if target in PRESERVED_ATEN_CIA_OPS:
                raise _Whole
            yield target.decompose

    def stays_whole(self, composite: OpOverload) -> bool:
        """Whether torch can leave the operator whole, and we lower it."""
        return is_lowered(composite) and export_utils._check_valid_to_preserve(composite)

    @contextmanager
    def in_force(self, devices: Set[str]) -> Iterator[None]:
        """Within, composite operators that stay whole do so in what calls them, too.

        `devices`: the kinds on which values are.
        """
        composites = {
            target: self._own.get(target, export_utils._special_op_to_preserve_cia)
            for target in (*lowered_overloads(), *self._own)
            if export_utils._is_preservable_cia_op(target)
        }
        with overridden(composites, devices):
            yield


@cache
def _of_torch() -> Mapping[Any, Callable[..., Any]]:
    return _core_aten_decompositions_post_autograd()


def _has_effects(target: OpOverload) -> bool:
    """Whether calls of the operator stay in order, as those that print or check do."""
    if not target._schema.returns:
        return not str(target).startswith("aten._assert_")
    effect = getattr(effects, "_get_effect", None)  # of newer versions of torch
    return effect is not None and effect(target) is not None


def _functional(target: OpOverload) -> OpOverload | None:
    """What gives as a new value what the operator writes over its first argument; None if nothing.

    Numbers that are drawn, and copies, which need not have the type or the sizes of what they are
    written over, are left to torch.
    """
    schema = target._schema
    space, _, name = schema.name.partition("::")
    drawn = torch.Tag.nondeterministic_seeded in target.tags
    if space != "aten" or not name.endswith("_") or name == "copy_" or drawn:
        return None
    packet = getattr(_ATEN, name[:-1], None)
    found = getattr(packet, target._overloadname, None)
    first = schema.arguments[0].alias_info
    if found is None or first is None or not first.is_write or len(schema.returns) != 1:
        return None
    if any(a.alias_info is not None for a in (*schema.arguments[1:], *found._schema.arguments)):
        return None
    forms = [[(a.name, str(a.type)) for a in s.arguments] for s in (schema, found._schema)]
    return found if forms[0] == forms[1] else None


def _storage(value: Any) -> int:
    """What tells memory apart; that of a fake tensor is its own. 0 for what has none."""
    strided = isinstance(value, torch.Tensor) and value.layout is torch.strided
    return value.untyped_storage()._cdata if strided else 0


def _is_python(target: OpOverload) -> bool:
    """Whether torch has a function of Python's for the operator that goes before the table."""
    return DispatchKey.Autograd in target.py_kernels and not _is_composite(target)


def _is_composite(target: OpOverload) -> bool:
    return export_utils._is_cia_op(target)


def _as_dispatched(
    target: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments as torch gives them on: by position where they have one, without last defaults."""
    given, named = list(args), dict(kwargs)
    positional = [a for a in target._schema.arguments if not a.kwarg_only]
    for argument in positional[len(given) :]:
        if not any(later.name in named for later in positional[len(given) :]):
            break
        given.append(named.pop(argument.name, argument.default_value))
    while given and _is_default(positional[len(given) - 1], given[-1]):
        given.pop()
    only = {a.name: a for a in target._schema.arguments if a.kwarg_only}
    return tuple(given), {k: v for k, v in named.items() if not _is_default(only[k], v)}


def _is_default(argument: Any, value: Any) -> bool:
    if not argument.has_default_value() or type(value) is not type(argument.default_value):
        return False
    return bool(value == argument.default_value)


def _name_of(target: Any) -> str:
    own = target.overloadpacket if isinstance(target, OpOverload) else target
    return str(own.__name__)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _is_size(value: Any) -> bool:
    return isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool)


def _fake_mode(*nodes: Node) -> FakeTensorMode | None:
    values = (leaf for node in nodes for leaf in pytree.tree_leaves(node.meta.get("val")))
    return next((value.fake_mode for value in values if hasattr(value, "fake_mode")), None)


def _is_special(value: Any) -> bool:
    """Whether a run has to measure a size of it, or its elements are yet to be conjugated."""
    if isinstance(value, torch.Tensor) and (value.is_conj() or value.is_neg()):
        return True
    return bool((_is_tensor(value) or _is_size(value)) and free_unbacked_symbols(value))


def _form(value: Any) -> Any:
    """What the nodes that read a result know of it."""
    return [
        (x.dtype, str(x.shape), str(x.stride())) if _is_tensor(x) else str(x)
        for x in pytree.tree_leaves(value)
    ]
