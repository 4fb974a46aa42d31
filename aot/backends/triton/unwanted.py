"""Products that may not be wanted: an epilogue selects them, all of one or nothing of it.

Matrices of a batch are squared as often as each needs, by `where(k < times, x @ x, x)`, and models
take a product where a flag says so. What selects is known when a program begins, which then walks
one step of the depth in place of all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from aot.backends.triton.dot import open_batch
from aot.backends.triton.hooks import Hooks
from aot.ir.kernel_facts import index_exprs
from aot.ir.kernels import TemplateKernel
from aot.ir.nests import Store
from aot.ir.scalar import Access, Node, postorder


@dataclass(frozen=True)
class Choice:
    """What must hold for a product to be wanted: the condition, or that it does not hold."""

    condition: Node
    holds: bool


def choice_of(kernel: TemplateKernel) -> Choice | None:
    """What all of an epilogue that reads the product selects it by; None where it is wanted."""
    view = kernel.template.output
    if view.buffer in kernel.writes:
        return None
    found = {_choice(kernel, store) for store in _stores(kernel) if _reads(kernel, store)}
    return found.pop() if len(found) == 1 else None


def write_wanted(hooks: Hooks, kernel: TemplateKernel) -> dict[str, str]:
    """Writes the function that says whether a product of the batch is wanted.

    Gives what the template is given where there is none: each is.
    """
    choice = choice_of(kernel)
    if choice is None:
        return {"wanted": "None"}
    with hooks.function("wanted", "batch") as body:
        open_batch(body, tuple(kernel.template.output.axes[:-2]), "batch")
        text = body.value(choice.condition).text
        body.writer.line(f"return {text}" if choice.holds else f"return {text} == 0")
    return {}


def _stores(kernel: TemplateKernel) -> Iterator[Store]:
    for stage in kernel.stages:
        for nest in stage.nests:
            yield from nest.stores


def _reads(kernel: TemplateKernel, store: Store) -> bool:
    return any(_of_product(kernel, n) for n in (store.value, *(n for _, n in store.binds)))


def _of_product(kernel: TemplateKernel, node: Node) -> bool:
    own = kernel.template.output.buffer
    return any(isinstance(n.attr, Access) and n.attr.buffer == own for n in postorder((node,)))


def _choice(kernel: TemplateKernel, store: Store) -> Choice | None:
    """What a store selects the product by; None where it is no such selection."""
    value = store.value
    while value.op == "cast":
        (value,) = value.args
    if value.op != "where" or any(_of_product(kernel, n) for _, n in store.binds):
        return None
    condition, *sides = value.args
    wanted = [_of_product(kernel, side) for side in sides]
    if all(wanted) or not _is_known(kernel, condition):
        return None
    return Choice(condition, wanted[0])


def _is_known(kernel: TemplateKernel, condition: Node) -> bool:
    """Whether a condition is the same for all of a product, and known before the kernel begins."""
    inside = {axis.symbol for axis in kernel.template.output.axes[-2:]}
    made = {*kernel.writes, *kernel.local, kernel.template.output.buffer}
    for node in postorder((condition,)):
        if node.op in ("check_index", "reduce") or any(
            e.free_symbols & inside for e in index_exprs(node)
        ):
            return False
        if isinstance(node.attr, Access) and node.attr.buffer in made:
            return False
    return True
