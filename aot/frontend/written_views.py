"""Views that are written to, where torch makes plain numbers of sizes for them.

`r, g, b = (x * 2).unbind(1); g.add_(b)`: taken apart, such a write is one to what the view is of,
and torch puts the parts of `unbind` and the windows of `unfold` back by code that asks for sizes as
plain numbers. Every open size then is the example's, without a word: by then its own checks of
dynamic shapes are done. Selections are put back otherwise, and are the same views.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node
from torch.utils import _pytree as pytree

from aot.errors import DynamicShapeError
from aot.frontend.places import places_of

_aten: Any = torch.ops.aten

_WINDOWS = (
    "It does so where windows of a tensor are written to: after w = x.unfold(…), write w = w * 2 "
    "in place of w.mul_(2), or write to slices of x."
)
_WRITES = (
    "It does so for some views that are written to: after v = x.view(…), write v = v * 2 in place "
    "of v.mul_(2), or write to slices of x."
)

_AUTO: Any = torch.export.Dim.AUTO.type


def select_parts(program: ExportedProgram) -> None:
    """Takes `unbind` apart into selections, in place, in a program that writes to tensors."""
    graph = program.graph
    if not any(map(_writes, graph.nodes)):
        return
    for node in [n for n in graph.nodes if n.target is _aten.unbind.int]:
        x, *rest = node.args
        dim = rest[0] if rest else node.kwargs.get("dim", 0)
        for part in list(node.users):
            with graph.inserting_before(part):
                selected = graph.call_function(_aten.select.int, (x, dim, part.args[1]))
            selected.meta = dict(part.meta)
            part.replace_all_uses_with(selected)
            graph.erase_node(part)
        graph.erase_node(node)
    program.graph_module.recompile()


def _writes(node: Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


@contextmanager
def open_sizes_kept(program: ExportedProgram, asked: Any) -> Iterator[None]:
    """A block in which no open size of the program's inputs may become a number.

    Args:
        program: What the block takes apart.
        asked: The dynamic shapes that were asked for; with Dim.AUTO among them, any size may.

    Raises:
        DynamicShapeError: One did.
    """
    windows = [n for n in program.graph.nodes if n.target is _aten.unfold.default]
    writes = [n for n in program.graph.nodes if _writes(n)]
    sizes = {
        f"{node.name}.shape[{axis}]": size
        for node in program.graph.nodes
        if node.op == "placeholder" and isinstance(node.meta.get("val"), torch.Tensor)
        for axis, size in enumerate(node.meta["val"].shape)
        if isinstance(size, torch.SymInt) and size.node.expr.free_symbols
    }
    yield
    if any(getattr(d, "type", None) == _AUTO for d in pytree.tree_leaves(asked)):
        return
    fixed = [name for name, size in sizes.items() if not size.node.expr.free_symbols]
    if not fixed:
        return
    found = windows or writes
    where = [places_of(None).origin(n.meta.get("stack_trace"), str(n.target)).place for n in found]
    raise DynamicShapeError(
        f"torch makes constants of the sizes {', '.join(fixed)}, which shall be dynamic, where it "
        "takes the model's writes to tensors apart",
        where=next(iter(where), ""),
        advice=f"{_WINDOWS if windows else _WRITES} Static sizes are kept.",
    )
