"""Elements at an index that is a tensor without dimensions: `cache[:, position] = x`, `x[:end]`.

torch asks such a tensor for its number, which is known only when the model runs. As one of
`index_put`'s indices it stays a tensor; as a bound of a slice it is a number of the run.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def set_item(x: Tensor, index: Any, value: Any) -> Any:
    """As `x[index] = value` where numbers, slices and whole tensors without dimensions index.

    NotImplemented for other indices.
    """
    items = index if isinstance(index, tuple) else (index,)
    if not any(_is_number(item) for item in items) or not all(map(_is_simple, items)):
        return NotImplemented
    taken = sum(item is not None and item is not Ellipsis for item in items)
    basic: list[Any] = []
    at: dict[int, Tensor] = {}
    axis = 0
    for item in items:
        number = _is_number(item)
        if number:
            at[axis] = item
        basic.append(slice(None) if number else item)
        if item is Ellipsis:
            axis += x.dim() - taken
        elif number or item is None or isinstance(item, slice):
            axis += 1
    written = x[tuple(basic)]
    if not isinstance(value, Tensor):
        value = torch.full((), value, dtype=x.dtype, device=x.device)
    # As a plain assignment has it: its type is x's, and axes of one element in front do not count.
    value = value.to(device=x.device, dtype=x.dtype)
    while value.dim() > written.dim() - len(at) and value.shape[0] == 1:
        value = value[0]
    indices = [at.get(k) for k in range(max(at) + 1)]
    torch.ops.aten.index_put_(written, indices, value)
    return None


def get_item(x: Tensor, index: Any) -> Any:
    """As `x[index]` where a tensor without dimensions is a bound of a slice.

    Some versions of torch make a constant of its number. NotImplemented for other indices.
    """
    items = index if isinstance(index, tuple) else (index,)
    slices = [item for item in items if isinstance(item, slice)]
    if not any(_is_number(b) for s in slices for b in (s.start, s.stop, s.step)):
        return NotImplemented
    return x[tuple(_of_numbers(item) if isinstance(item, slice) else item for item in items)]


def _of_numbers(bounds: slice) -> slice:
    ends = (bounds.start, bounds.stop, bounds.step)
    return slice(*(end.item() if _is_number(end) else end for end in ends))


def _is_number(item: Any) -> bool:
    """A tensor of one whole number, which is no mask."""
    if not isinstance(item, Tensor) or item.dim():
        return False
    return not item.is_floating_point() and item.dtype not in (torch.bool, torch.uint8)


def _is_simple(item: Any) -> bool:
    whole = isinstance(item, int | torch.SymInt) and not isinstance(item, bool)
    return whole or item is None or item is Ellipsis or isinstance(item, slice) or _is_number(item)
