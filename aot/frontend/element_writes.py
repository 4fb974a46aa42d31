"""Elements at an index that is a tensor without dimensions: `cache[:, position] = x`, `x[:end]`.

torch asks such a tensor for its number, which is known only when the model runs. As one of
`index_put`'s indices it stays a tensor; as a bound of a slice it is a number of the run. A bool
without dimensions, as in `total[total > 0] = 1`, is a mask of one element along an axis of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def set_item(x: Tensor, index: Any, value: Any) -> Any:
    """As `x[index] = value` where numbers, slices and whole tensors without dimensions index.

    So may one bool without dimensions. NotImplemented for other indices.
    """
    items = index if isinstance(index, tuple) else (index,)
    masks = sum(map(_is_mask, items))
    if not (masks or any(map(_is_number, items))) or not all(map(_is_simple, items)) or masks > 1:
        return NotImplemented
    written, indices = _taken_apart(x, items)
    if not isinstance(value, Tensor):
        value = torch.full((), value, dtype=x.dtype, device=x.device)
    # As a plain assignment has it: its type is x's, and axes of one element in front do not count.
    value = value.to(device=x.device, dtype=x.dtype)
    numbers = sum(map(_is_number, items))
    while value.dim() > written.dim() - numbers and value.shape[0] == 1:
        value = value[0]
    torch.ops.aten.index_put_(written, indices, value)
    return None


def _taken_apart(x: Tensor, items: Sequence[Any]) -> tuple[Tensor, list[Tensor | None]]:
    """The view of x that the other items make, and the tensors that index it, axis by axis."""
    taken = sum(item is not None and item is not Ellipsis and not _is_mask(item) for item in items)
    basic: list[Any] = []
    at: dict[int, Tensor] = {}
    axis = 0
    for item in items:
        if _is_mask(item):
            at[axis] = _as_line(item)
        elif _is_number(item):
            at[axis] = item
        basic.append(None if _is_mask(item) else slice(None) if _is_number(item) else item)
        if item is Ellipsis:
            axis += x.dim() - taken
        elif isinstance(item, slice | Tensor) or item is None:
            axis += 1
    return x[tuple(basic)], [at.get(k) for k in range(max(at) + 1)]


_LINE = "_aot_line"


def _as_line(mask: Tensor) -> Tensor:
    """A mask of one element, the same one each time: what two take by it is of one size.

    torch remembers of a mask how many of its elements are true. The line is a view, which refers to
    its mask: they end together.
    """
    line: Tensor | None = getattr(mask, _LINE, None)
    if line is None:
        line = mask.reshape(1)
        setattr(mask, _LINE, line)
    return line


def get_item(x: Tensor, index: Any) -> Any:
    """As `x[index]` where a tensor without dimensions is a bound of a slice, or a mask.

    Some versions of torch make a constant of its number. NotImplemented for other indices.
    """
    items = index if isinstance(index, tuple) else (index,)
    slices = [item for item in items if isinstance(item, slice)]
    if any(_is_number(b) for s in slices for b in (s.start, s.stop, s.step)):
        return x[tuple(_of_numbers(item) if isinstance(item, slice) else item for item in items)]
    if sum(map(_is_mask, items)) != 1 or any(map(_is_number, items)):
        return NotImplemented
    if not all(map(_is_simple, items)):
        return NotImplemented
    return torch.ops.aten.index(*_taken_apart(x, items))


def _of_numbers(bounds: slice) -> slice:
    ends = (bounds.start, bounds.stop, bounds.step)
    return slice(*(end.item() if _is_number(end) else end for end in ends))


def _is_number(item: Any) -> bool:
    """A tensor of one whole number, which is no mask."""
    if not isinstance(item, Tensor) or item.dim() or item.is_complex():
        return False
    return not item.is_floating_point() and item.dtype not in (torch.bool, torch.uint8)


def _is_mask(item: Any) -> bool:
    """A tensor of one bool, which torch takes as a mask of everything."""
    return isinstance(item, Tensor) and not item.dim() and item.dtype == torch.bool


def _is_simple(item: Any) -> bool:
    whole = isinstance(item, int | torch.SymInt) and not isinstance(item, bool)
    own = item is None or item is Ellipsis or isinstance(item, slice)
    return whole or own or _is_number(item) or _is_mask(item)
