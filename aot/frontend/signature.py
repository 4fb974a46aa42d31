"""How arguments and results nest: torch's pytree specifications as our trees."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Sequence
from typing import Any

from torch.utils import _pytree as pytree

from aot.errors import ExportError
from aot.ir.tensors import Parameter, Tree


def children_of(spec: Any) -> list[Any]:
    """A specification's children, in any supported torch."""
    own = getattr(spec, "children", None)
    return list(own() if callable(own) else spec.children_specs)


def tree_of(spec: Any, leaves: Iterator[Tree]) -> Tree:
    """A pytree specification as a Tree; takes its leaves, in order, from `leaves`.

    Raises:
        ExportError: A container has no counterpart outside of Python.
    """
    if spec.is_leaf():
        return next(leaves)
    children = tuple(tree_of(child, leaves) for child in children_of(spec))
    if spec.type is None or spec.type is type(None):
        return Tree("constant", None)
    kind = tuple if spec.type is namedtuple else spec.type  # torch's word for all their classes
    keys = _keys(spec, kind, len(children))
    if keys is not None:
        return Tree("dict", None, children, keys)
    if issubclass(kind, tuple):
        return Tree("tuple", None, children)
    if issubclass(kind, list):
        return Tree("list", None, children)
    if kind in pytree.SUPPORTED_NODES:
        return Tree("tuple", None, children)
    raise ExportError(
        f"inputs or outputs use the container {kind.__name__}, which a package cannot hold",
        advice="Use tuples, lists, dataclasses, and dicts whose keys are text or whole numbers in "
        "forward's inputs and outputs.",
    )


def _keys(spec: Any, kind: type[Any], count: int) -> tuple[str | int, ...] | None:
    """The keys of a dict-like container; None for a sequence."""
    if issubclass(kind, (tuple, list)):
        return None
    context = spec.context
    # Dicts keep their keys as context; registered dataclasses and model outputs add more to it.
    options = [context, *(context if isinstance(context, (tuple, list)) else ())]
    for option in options:
        fits = isinstance(option, (list, tuple)) and len(option) == count
        if fits and all(type(k) in (str, int) for k in option):
            return tuple(option)
    return None


def parameters_of(in_spec: Any, leaves: Sequence[Tree], names: Sequence[str]) -> list[Parameter]:
    """The parameters of forward, from the specification of (args, kwargs).

    `names`: of the positional ones, then of the keyword ones; generated where they are missing.
    """
    args, kwargs = children_of(in_spec)
    rest = iter(leaves)
    parameters: list[Parameter] = []
    for k, spec in enumerate(children_of(args)):
        name = names[k] if k < len(names) else f"arg{k}"
        parameters.append(Parameter(name, keyword_only=False, tree=tree_of(spec, rest)))
    for name, spec in zip(kwargs.context or (), children_of(kwargs), strict=True):
        parameters.append(Parameter(str(name), keyword_only=True, tree=tree_of(spec, rest)))
    return parameters


def paths_of(parameters: Sequence[Parameter]) -> dict[int, tuple[Any, ...]]:
    """Input position -> path of names, keys and positions that leads to it."""
    found: dict[int, tuple[Any, ...]] = {}

    def walk(tree: Tree, path: tuple[Any, ...]) -> None:
        if tree.kind == "leaf":
            found[int(tree.value)] = path
        steps: Sequence[Any] = tree.keys if tree.kind == "dict" else range(len(tree.children))
        for step, child in zip(steps, tree.children, strict=True):
            walk(child, (*path, step))

    for parameter in parameters:
        walk(parameter.tree, (parameter.name,))
    return found
