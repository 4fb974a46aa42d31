"""Sizes that the user leaves open: as wide as the model allows, whatever the example's size is.

torch.export fixes sizes 0 and 1 of an example, and refuses a model whose conditions it cannot prove
for all of a named dimension. Neither is a property of the model that the user has to know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cmp_to_key, partial
from typing import Any
from unittest.mock import patch

import torch
from torch import _prims_common
from torch.export import Dim
from torch.fx.experimental import proxy_tensor
from torch.fx.experimental.symbolic_shapes import guard_or_false, guard_or_true
from torch.utils import _pytree as pytree

from aot.frontend.labels import InputAxis

_common: Any = _prims_common
_tracer: Any = proxy_tensor
"""Modules of torch, for functions of them that have no types."""


def _is_contiguous(own: Callable[..., bool], x: Any, *args: Any, **kwargs: Any) -> bool:
    """torch's function, which first asks an open number of elements whether it is below 2."""
    if isinstance(x.numel(), int):
        return own(x, *args, **kwargs)
    is_told: bool = _common.check_contiguous_sizes_strides(x.shape, x.stride(), *args, **kwargs)
    return is_told


def _is_dense(own: Callable[..., bool], sizes: Any, strides: Any) -> bool:
    """torch's function of sizes and strides, which first asks the same."""
    if isinstance(_common.prod(sizes), int):
        return own(sizes, strides)
    if len(sizes) == 1 and isinstance(strides[0], int):
        return strides[0] == 1
    # Only for `<`, which is all that sorting asks: every further question is a guard.
    by_stride = cmp_to_key(_compared)
    ordered = sorted(zip(sizes, strides, strict=True), key=by_stride, reverse=True)
    is_told: bool = _common.check_contiguous_sizes_strides(
        [size for size, _ in ordered], [stride for _, stride in ordered], false_if_dde=True
    )
    return is_told


_OVERLAPS, _UNKNOWN = 1, 2
"""torch's answers to whether elements of a tensor share memory."""


def _overlap(own: Callable[[Any], int], x: torch.Tensor) -> int:
    """torch's function of a tensor, which first asks every open size whether it is above 1.

    Without a stride of 0 no two elements are one; a copy into what torch does not know is allowed.
    """
    sizes: Sequence[Any] = x.shape
    strides: Sequence[Any] = x.stride()
    if all(isinstance(n, int) for n in (*sizes, *strides)):
        return own(x)
    repeated = [n for n, step in zip(sizes, strides, strict=True) if _is_zero(step)]
    return _OVERLAPS if any(not isinstance(n, int) or n > 1 for n in repeated) else _UNKNOWN


def _is_zero(step: Any) -> bool:
    """Whether a stride is the number 0; an open one is not."""
    return isinstance(step, int) and step == 0


def _compared(a: tuple[Any, Any], b: tuple[Any, Any]) -> int:
    """For sorting pairs of size and stride, which asks whether this is below 0 alone."""
    return -1 if _is_below(a[1], b[1]) else 0


def _is_below(stride: Any, other: Any) -> bool:
    """Whether a stride is known to be less than another, or to divide one that is not its equal."""
    if guard_or_false(stride < other):
        return True
    divides = guard_or_false(stride == 0) or guard_or_false(other % stride == 0)
    return divides and guard_or_true(stride != other)


@contextmanager
def unasked_layouts() -> Iterator[None]:
    """Inside of it, torch does not ask how few elements a result has, to say how it lies in memory.

    It fixes the answer, so that `x[1:]` of 2 elements would be refused, and so would be what is
    copied into it.
    """
    asked = partial(_is_contiguous, _common.is_contiguous)
    dense = partial(_is_dense, _common._is_non_overlapping_and_dense_or_false)
    overlap = partial(_overlap, torch._debug_has_internal_overlap)
    noted = partial(_tracer._extract_tensor_metadata, include_contiguity=False)
    with (
        patch.object(_common, "is_contiguous", asked),
        patch.object(_common, "_is_non_overlapping_and_dense_or_false", dense),
        patch.object(torch, "_debug_has_internal_overlap", overlap),
        patch.object(_tracer, "_extract_tensor_metadata", noted),
    ):
        yield


TRACED = 2
"""The least size that torch.export does not treat as a constant."""


def least_size(wanted: Any) -> int | None:
    """The least size of a dimension that the user asked to be dynamic; None where he did not."""
    if type(wanted) is Dim:
        return int(wanted.min)
    return int(wanted.min or 0) if type(wanted).__name__ == "_DimHint" else None


def is_bounded(wanted: Any) -> bool:
    """Whether the user named a dimension and gave a greatest size.

    One that another is derived from (n + 1) is, too, but for a multiple, which not all sizes are.
    """
    if not isinstance(wanted, Dim) or "oo" in str(wanted.max):
        return False
    derived: Any = wanted
    return type(wanted) is Dim or int(derived.fn(1)) - int(derived.fn(0)) == 1


def as_hints(shapes: Any) -> Any:
    """`dynamic_shapes` in which named dimensions are hints, whose conditions torch says.

    Of a dimension without upper bound it finds the range of the model; one that another is derived
    from (2 * n) stays. The same object comes back when there is none.
    """
    roots = {
        leaf.root.__name__
        for leaf in pytree.tree_leaves(shapes, is_leaf=lambda x: hasattr(x, "root"))
        if hasattr(leaf, "root")
    }
    dims: list[Any] = []

    def visit(node: Any) -> Any:
        if type(node) is Dim and node.__name__ not in roots:
            dims.append(node)
            given = {"min": int(node.min)} if int(node.min) else {}
            if is_bounded(node):
                given["max"] = int(node.max)
            return Dim.DYNAMIC(**given) if given else Dim.DYNAMIC
        if isinstance(node, Mapping):
            return {key: visit(child) for key, child in node.items()}
        if isinstance(node, (tuple, list)):
            return type(node)(visit(child) for child in node)
        return node

    visited = visit(shapes)
    return visited if dims else shapes


def traceable(
    example: tuple[Sequence[Any], Mapping[str, Any]],
    wanted: Mapping[InputAxis, Any],
    larger: Mapping[int, int],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The example with at least two of everything along dimensions that shall be dynamic.

    Elements are repeated, so that indices stay valid; axes of one Dim get one size, and so do
    others that are alike in the example.

    Args:
        example: Positional and keyword inputs.
        wanted: What the user asked of each size.
        larger: Sizes along such dimensions that become these, as far as their range goes.
    """
    sizes = {axis: size for axis, dim in wanted.items() if (size := _traced_size(dim)) is not None}
    leaves, spec = pytree.tree_flatten((tuple(example[0]), dict(example[1])))
    position = -1
    for k, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor):
            position += 1
            for axis in range(leaf.dim()):
                size = sizes.get((position, axis))
                if size is None:
                    continue
                given = size if leaf.shape[axis] < TRACED else leaf.shape[axis]
                most = getattr(wanted[position, axis], "max", None)
                chosen = larger.get(given, given)
                chosen = chosen if most is None or chosen <= most else int(most)
                if chosen > leaf.shape[axis]:
                    leaves[k] = enlarged(leaves[k], axis, chosen)
    args, kwargs = pytree.tree_unflatten(leaves, spec)
    return args, kwargs


def _traced_size(wanted: Any) -> int | None:
    """The size that an example of fewer gets; None where the user did not ask for a dynamic one."""
    if type(wanted) is not Dim and getattr(wanted, "type", None) is not Dim.DYNAMIC.type:
        return None
    if wanted.max is not None and wanted.max <= 1:
        return None
    return max(TRACED, int(wanted.min or 0))


def enlarged(tensor: torch.Tensor, axis: int, size: int) -> torch.Tensor:
    """A tensor of this size along an axis: then its first element again and again, or zeros."""
    if tensor.shape[axis] == 0:
        shape = list(tensor.shape)
        shape[axis] = size
        return tensor.new_zeros(shape)
    places = torch.arange(size, device=tensor.device)
    return tensor.index_select(axis, places.where(places < tensor.shape[axis], 0))
