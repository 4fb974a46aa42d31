"""The model's own signature: nested arguments to a flat list of inputs, and outputs back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from enum import Enum
from operator import itemgetter
from typing import Any

from .errors import CorruptPackage, InvalidArgument

Tree = dict[str, Any]
"""`{"input": i}`, `{"output": i}`, `{"constant": v}`, `{"tuple": […]}`, `{"list": […]}` or
`{"dict": [[key, tree], …]}`; see docs/format.md."""

_MISSING = object()

_SPELLED = frozenset({"slice", "complex", "range", "dtype", "device", "ellipsis"})
"""Types of constants that are text in a plan: what `str` gives."""


class Signature:
    """Binds calls to a plan's `signature`.

    Args:
        spec: the plan's value under that name.
        inputs: the number of the plan's inputs.
        outputs: the number of the plan's outputs.

    Raises:
        CorruptPackage: a tree that is none, or an index out of range.
    """

    def __init__(self, spec: dict[str, Any], inputs: int, outputs: int) -> None:
        try:
            self._parameters = [(p["name"], p["kind"], p["tree"]) for p in spec["parameters"]]
            result: Tree = spec["result"]
            for name, kind, tree in self._parameters:
                if kind not in ("positional", "keyword") or not isinstance(name, str):
                    what = f"parameter {name!r:.60} of kind {kind!r:.60}"
                    raise CorruptPackage(f"plan.signature: {what}")
                _check(tree, "input", inputs)
            _check(result, "output", outputs)
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptPackage(f"plan.signature is malformed: {error!r}") from error
        self._inputs = inputs
        self._positional = sum(kind == "positional" for _, kind, _ in self._parameters)
        # The common case needs no walk: one input for each of the first parameters, in order.
        first, rest = self._parameters[:inputs], self._parameters[inputs:]
        self._plain = [(kind, tree) for _, kind, tree in first] == [
            ("positional", {"input": i}) for i in range(inputs)
        ] and not any(_has_inputs(tree) for _, _, tree in rest)
        self._runs = _runs([tree for _, _, tree in self._parameters], inputs)
        self.plain = inputs if self._plain else -1
        """The number of positional arguments that are the inputs, one each in their order; -1: a
        call has to be flattened."""
        self.unflatten: Callable[[list[Any]], Any] = _builder(result)
        """The model's result, built from the plan's outputs in order."""

    def flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The inputs in the plan's order.

        Raises:
            InvalidArgument: arguments that do not fit the signature.
        """
        if self._plain and not kwargs and len(args) == self._inputs:
            return list(args)
        if len(args) > self._positional:
            raise InvalidArgument(
                f"the model takes {self._positional} positional arguments, got {len(args)}"
            )
        leaves: list[Any] = [_MISSING] * self._inputs
        left = dict(kwargs)
        for position, (name, _, tree) in enumerate(self._parameters):
            value = left.pop(name, _MISSING)
            if position < len(args):
                if value is not _MISSING:
                    raise InvalidArgument(f"argument '{name}' is given twice")
                value = args[position]
            if value is _MISSING:
                if _has_inputs(tree):
                    raise InvalidArgument(f"argument '{name}' is missing")
                continue
            run = self._runs[position]
            if run is not None and type(value) in {tuple, list} and len(value) == len(run):
                leaves[run.start : run.stop] = value
            else:
                _flatten(tree, value, leaves, name)
        if left:
            known = ", ".join(name for name, _, _ in self._parameters) or "none"
            raise InvalidArgument(
                f"the model has no argument '{next(iter(left))}'; its arguments: {known}"
            )
        return leaves

    def __str__(self) -> str:
        """The parameters as Python writes them: "(x, *, mode='plain')"."""
        parts: list[str] = []
        for name, kind, tree in self._parameters:
            if kind == "keyword" and "*" not in parts:
                parts.append("*")
            default = "" if _has_inputs(tree) else f"={_builder(tree)([])!r}"
            parts.append(f"{name}{default}")
        return f"({', '.join(parts)})"


def _check(tree: Any, leaf: str, count: int) -> None:
    """Checks a tree's form.

    Raises:
        CorruptPackage: It is none, its kind is unknown, or its index out of range.
    """
    if not isinstance(tree, dict) or len(tree) != 1:
        raise CorruptPackage(f"plan.signature: {tree!r:.60} is no tree of one kind")
    ((kind, value),) = tree.items()
    if kind == leaf:
        if type(value) is not int or not 0 <= value < count:
            raise CorruptPackage(f"plan.signature: {leaf} {value!r:.60}, but there are {count}")
    elif kind in {"tuple", "list", "dict"}:
        for child in _children(kind, value):
            _check(child, leaf, count)
    elif kind != "constant":
        raise CorruptPackage(f"plan.signature: unknown tree '{kind:.60}'")


def _children(kind: str, value: Any) -> list[Any]:
    """What a tree of several holds, still unchecked.

    Raises:
        CorruptPackage: It is no list, or a dict's entry no pair of a key and something.
    """
    if not isinstance(value, list):
        raise CorruptPackage(f"plan.signature: a {kind} of {value!r:.60}")
    if kind != "dict":
        return value
    for entry in value:
        if not isinstance(entry, list) or len(entry) != 2 or type(entry[0]) not in {str, int}:
            raise CorruptPackage(f"plan.signature: {entry!r:.60} is no entry of a dict")
    return [child for _, child in value]


def _has_inputs(tree: Tree) -> bool:
    return bool(_inputs_in(tree))


def _inputs_in(tree: Tree) -> list[int]:
    ((kind, value),) = tree.items()
    if kind == "input":
        return [value]
    if kind == "dict":
        return [n for _, child in value for n in _inputs_in(child)]
    return [n for child in value for n in _inputs_in(child)] if kind in {"tuple", "list"} else []


def _runs(trees: list[Tree], inputs: int) -> list[range | None]:
    """For each tree that is a plain list of inputs which are nowhere else: their numbers in a row.

    Such lists, of caches for example, need no walk.
    """
    uses = [0] * inputs
    for tree in trees:
        for leaf in _inputs_in(tree):
            uses[leaf] += 1
    found = [_run_of(tree, "input") for tree in trees]
    return [r if r is not None and all(uses[i] == 1 for i in r) else None for r in found]


def _run_of(tree: Tree, leaf: str) -> range | None:
    """The numbers of a tuple's or list's leaves, when they follow one another."""
    ((kind, content),) = tree.items()
    if kind not in {"tuple", "list"} or not content or not all(leaf in c for c in content):
        return None
    run = range(content[0][leaf], content[0][leaf] + len(content))
    return run if [c[leaf] for c in content] == list(run) else None


def _flatten(tree: Tree, value: Any, leaves: list[Any], path: str) -> None:
    ((kind, content),) = tree.items()
    if kind == "input":
        if leaves[content] is not _MISSING and leaves[content] is not value:
            raise InvalidArgument(
                f"argument '{path}' must be the same object as another argument: "
                "the model was packaged with one tensor in both places"
            )
        leaves[content] = value
    elif kind == "constant":
        if isinstance(value, Enum):
            value = value.name
        elif isinstance(content, str) and type(value).__name__ in _SPELLED:
            value = str(value)
        if type(value) is not type(content) or value != content:
            raise InvalidArgument(
                f"argument '{path}' is {value!r}, but the model was packaged with {content!r}"
            )
    elif kind == "dict":
        keys = [key for key, _ in content]
        if hasattr(type(value), "__dataclass_fields__"):  # the module is slow to import
            value = {key: getattr(value, str(key)) for key in keys if hasattr(value, str(key))}
        if not isinstance(value, Mapping) or set(value) != set(keys):
            got = sorted(map(str, value)) if isinstance(value, Mapping) else type(value).__name__
            raise InvalidArgument(f"argument '{path}' must be a dict with keys {keys}, got {got}")
        for key, child in content:
            _flatten(child, value[key], leaves, f"{path}[{key!r}]")
    else:
        if not isinstance(value, (tuple, list)):
            value = _registered_parts(value)
        if not isinstance(value, (tuple, list)) or len(value) != len(content):
            got = (
                f"{len(value)} elements"
                if isinstance(value, (tuple, list))
                else type(value).__name__
            )
            raise InvalidArgument(
                f"argument '{path}' must be a {kind} of {len(content)} elements, got {got}"
            )
        for i, child in enumerate(content):
            _flatten(child, value[i], leaves, f"{path}[{i}]")


def _registered_parts(value: Any) -> Any:
    """What an object of a class that is registered with torch holds; others as they are."""
    pytree = sys.modules.get("torch.utils._pytree")
    node = None if pytree is None else pytree.SUPPORTED_NODES.get(type(value))
    return value if node is None else node.flatten_fn(value)[0]


def _builder(tree: Tree) -> Callable[[list[Any]], Any]:
    """What builds the tree from the outputs."""
    ((kind, content),) = tree.items()
    if kind == "output":
        return itemgetter(content)
    if kind == "constant":
        return lambda _: content
    if kind == "dict":
        members = [(key, _builder(child)) for key, child in content]
        return lambda outputs: {key: build(outputs) for key, build in members}
    run = _run_of(tree, "output")
    if run is not None:
        part = itemgetter(slice(run.start, run.stop))
        return part if kind == "list" else lambda outputs: tuple(part(outputs))
    items = [_builder(child) for child in content]
    if kind == "tuple":
        return lambda outputs: tuple([build(outputs) for build in items])
    return lambda outputs: [build(outputs) for build in items]
