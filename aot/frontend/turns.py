"""Turns of a loop that a run makes or not, in a program that has all of them.

Between two markers lies what one turn does. In a run that does not make the turn, its values are
computed from whatever there is, and everything that it writes to is as before: each tensor from
outside that it changes is kept, and put back by a selection. Nothing else of a turn may be used
outside of it; so a program that is changed here means what the loop means, or is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, Node

from aot.errors import ExportError
from aot.frontend.places import places_of

_untyped: Any = torch
"""torch, for functions of it that have no types."""

_library = _untyped.library.Library("aot", "FRAGMENT")
_library.define("turn(Tensor(a!) made, *, bool ends) -> ()")
# A marker changes what it is given, as far as torch knows, so that it stays where it is.
_library.impl("turn", lambda made, *, ends: None, "CompositeExplicitAutograd")
_library.impl("turn", lambda made, *, ends: None, "Meta")

_MARKER = _untyped.ops.aot.turn.default
_ASSERTING = (torch.ops.aten._assert_async.msg, torch.ops.aten._assert_async.default)
_DETACHING = torch.ops.aten.detach_.default
"""It changes no element."""

_KEPT = ("val", "nn_module_stack", "stack_trace", "torch_fn")
_CONTROL = ("cond", "while_loop", "scan", "map_impl", "associative_scan")
"""Operators with graphs of their own that change nothing from outside."""


def begin(made: torch.Tensor) -> None:
    """A turn begins here, which a run makes if `made`, a bool without dimensions, is true."""
    _MARKER(made, ends=False)


def end(made: torch.Tensor) -> None:
    """The turn that began last ends here."""
    _MARKER(made, ends=True)


@dataclass
class _Turn:
    """One turn: `made` says whether a run makes it; `nodes`: what it does, inner turns included.

    `outer`: the turn around it. `first` and `last` are its markers.
    """

    made: Node
    first: Node
    outer: _Turn | None
    last: Node | None = None
    nodes: list[Node] = field(default_factory=list)

    def lies_in(self, other: _Turn | None) -> bool:
        """Whether it is that turn, or one within it."""
        turn: _Turn | None = self
        while turn is not None and turn is not other:
            turn = turn.outer
        return turn is other


def settle(program: ExportedProgram) -> None:
    """Makes of marked turns operators that have the loop's meaning. Works in place.

    Raises:
        ExportError: A turn does more than write into tensors from outside.
    """
    graph: Graph = program.graph
    turns, turn_of = _turns(graph)
    if not turns:
        return
    memory = _Memory(graph)
    for turn in turns:  # Inner ones end first.
        _check(turn, turn_of, memory)
        _put_back(graph, turn, memory, turn_of)
        _excuse(graph, turn, turn_of)
    for turn in turns:
        for marker in (turn.first, turn.last):
            if marker is not None:
                graph.erase_node(marker)
    graph.lint()
    program.graph_module.recompile()


def _turns(graph: Graph) -> tuple[list[_Turn], dict[Node, _Turn]]:
    """The turns in the order of their ends, and of each node the innermost that it lies in."""
    done: list[_Turn] = []
    turn_of: dict[Node, _Turn] = {}
    open_: list[_Turn] = []
    for node in graph.nodes:
        if node.target is _MARKER:
            if node.kwargs["ends"]:
                done.append(open_.pop())
                done[-1].last = node
            outer = open_[-1] if open_ else None
            if outer is not None:
                turn_of[node] = outer
            if not node.kwargs["ends"]:
                open_.append(_Turn(node.args[0], node, outer))
        elif open_:
            turn_of[node] = open_[-1]
            for turn in open_:
                turn.nodes.append(node)
    return done, turn_of


class _Memory:
    """Which nodes are views of one memory: by the storage of torch's fake tensors."""

    def __init__(self, graph: Graph) -> None:
        self._first: dict[int, Node] = {}
        for node in graph.nodes:
            for storage in _storages(node):
                self._first.setdefault(storage, node)

    def owners(self, node: Node) -> Iterator[Node]:
        """The nodes that come first in the memory that the node is a view of."""
        for storage in _storages(node):
            yield self._first[storage]


def _storages(node: Node) -> Iterator[int]:
    value = node.meta.get("val")
    for leaf in value if isinstance(value, list | tuple) else (value,):
        if isinstance(leaf, torch.Tensor):
            yield leaf.untyped_storage()._cdata


def _check(turn: _Turn, turn_of: Mapping[Node, _Turn], memory: _Memory) -> None:
    """Refuse a turn of which more is used outside than the tensors that it changes.

    Raises:
        ExportError: As said.
    """
    same: set[Node] = set()
    """Nodes that are tensors or numbers from outside, whatever the turn does."""
    for node in turn.nodes:
        if _is_from_outside(node, turn, turn_of, same):
            same.add(node)
            continue
        for user in node.users:
            if not _lies_in(user, turn, turn_of):
                raise _refusal(node, "is used after it")
        unseen = any(not list(memory.owners(arg)) for arg in _written(node))
        if unseen or _holds_code(node):
            raise _refusal(node, "may change more than can be seen")


def _holds_code(node: Node) -> bool:
    """Whether its operator runs code of its own that may change anything."""
    is_higher = isinstance(node.target, torch._ops.HigherOrderOperator)
    return is_higher and node.target.name() not in _CONTROL  # type: ignore[union-attr]


def _lies_in(node: Node, turn: _Turn, turn_of: Mapping[Node, _Turn]) -> bool:
    return node in turn_of and turn_of[node].lies_in(turn)


def _is_from_outside(
    node: Node, turn: _Turn, turn_of: Mapping[Node, _Turn], same: set[Node]
) -> bool:
    """Whether it stands for a tensor from outside that it changes, or a number of such sizes."""

    def known(other: Node) -> bool:
        return other in same or not _lies_in(other, turn, turn_of)

    written = [arg for arg in _written(node) if known(arg)]
    if written and _returns_what_it_writes(node):
        return True
    if node.op == "get_attr":
        return True
    of_tensor = any(isinstance(n.meta.get("val"), torch.Tensor) for n in node.all_input_nodes)
    is_size = str(node.target).startswith("aten.sym_") if of_tensor else True
    return is_size and _is_number(node) and all(map(known, node.all_input_nodes))


def _is_number(node: Node) -> bool:
    kinds = torch.SymInt | torch.SymFloat | torch.SymBool | int | float
    return isinstance(node.meta.get("val"), kinds)


def _written(node: Node) -> Iterator[Node]:
    """The arguments that the node's operator writes to."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or not schema.is_mutable or node.target is _DETACHING:
        return
    for k, parameter in enumerate(schema.arguments):
        if parameter.alias_info is None or not parameter.alias_info.is_write:
            continue
        given = node.args[k] if k < len(node.args) else node.kwargs.get(parameter.name)
        for arg in given if isinstance(given, list | tuple) else (given,):
            if isinstance(arg, Node):
                yield arg


def _returns_what_it_writes(node: Node) -> bool:
    returns: Sequence[Any] = node.target._schema.returns  # type: ignore[union-attr]
    return len(returns) == 1 and returns[0].alias_info is not None


def _put_back(graph: Graph, turn: _Turn, memory: _Memory, turn_of: dict[Node, _Turn]) -> None:
    """Keep what the turn writes to, and put it back where a run does not make it."""
    changed = {
        owner: None
        for node in turn.nodes
        for arg in _written(node)
        for owner in memory.owners(arg)
        if not _lies_in(owner, turn, turn_of)
    }
    for owner in changed:
        with graph.inserting_before(turn.first):
            before = graph.call_function(torch.ops.aten.clone.default, (owner,))
        with graph.inserting_before(turn.last):
            chosen = graph.call_function(torch.ops.aten.where.self, (turn.made, owner, before))
            put = graph.call_function(torch.ops.aten.copy_.default, (owner, chosen))
        for node in (before, chosen, put):
            node.meta.update({k: owner.meta[k] for k in _KEPT if k in owner.meta})
            node.meta["stack_trace"] = turn.first.meta.get("stack_trace")
            _add(node, turn.outer, turn_of)


def _excuse(graph: Graph, turn: _Turn, turn_of: dict[Node, _Turn]) -> None:
    """What the turn asserts need not hold where a run does not make it."""
    for node in [n for n in turn.nodes if n.target in _ASSERTING]:
        with graph.inserting_before(node):
            unmade = graph.call_function(torch.ops.aten.logical_not.default, (turn.made,))
            holds = graph.call_function(torch.ops.aten.logical_or.default, (unmade, node.args[0]))
        node.update_arg(0, holds)
        for made in (unmade, holds):
            made.meta.update({k: turn.made.meta[k] for k in _KEPT if k in turn.made.meta})
            _add(made, turn.outer, turn_of)


def _add(node: Node, turn: _Turn | None, turn_of: dict[Node, _Turn]) -> None:
    """The node belongs to that turn, and to those around it."""
    if turn is not None:
        turn_of[node] = turn
    while turn is not None:
        turn.nodes.append(node)
        turn = turn.outer


ADVICE = (
    "Write each turn's results into a tensor that is made before the loop (index_add_, index_put_, "
    "out[rows] = …), and keep counts in tensors. A loop that carries values is torch.while_loop."
)


def _refusal(node: Node, why: str) -> ExportError:
    return ExportError(
        "a loop runs over the true elements of a mask, and what a turn of it computes "
        f"{why}: how many turns there are is known only when the model runs",
        where=places_of(None).origin(node.meta.get("stack_trace"), str(node.target)).place,
        advice=ADVICE,
    )
