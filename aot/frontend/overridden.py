"""Operators that are something else for a while, on the devices where a program has values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch.export import exported_program
from torch.fx import Graph
from torch.utils import _pytree as pytree

_LISTS = {"_AUTOGRAD_ALIAS_BACKEND_KEYS_TO_OVERRIDE": "Autograd", "_BACKEND_KEYS_TO_OVERRIDE": ""}
"""torch's lists of the keys of all devices that it knows, and how the keys' names begin."""


@contextmanager
def overridden(composites: Mapping[Any, Callable[..., Any]], devices: Set[str]) -> Iterator[None]:
    """Within, composite operators are these functions, for values on these kinds of devices.

    torch does it for a dozen kinds, for each of a hundred operators: of taking a program of one
    layer apart that was a tenth.
    """
    with ExitStack() as entered:
        # A fake tensor's values are computed as those of tensors without memory.
        names = ["Meta", *sorted(device.upper() for device in devices - {"meta"})]
        if all(hasattr(torch._C.DispatchKey, name) for name in names):
            for place, begin in _LISTS.items():
                if hasattr(exported_program, place):
                    keys = [getattr(torch._C.DispatchKey, begin + name) for name in names]
                    entered.enter_context(mock.patch.object(exported_program, place, keys))
        entered.enter_context(exported_program._override_composite_implicit_decomp(composites))
        yield


def device_kinds(graph: Graph) -> Set[str]:
    """The kinds of devices that values of an exported program's graph are on."""
    values = pytree.tree_leaves([node.meta.get("val") for node in graph.nodes])
    return {value.device.type for value in values if isinstance(value, torch.Tensor)}
