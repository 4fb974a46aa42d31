"""The states of a package: what a session keeps from run to run, and their first values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from aot_runtime.format.plan import StateSpec
from aot_runtime.format.tensor_types import complex_dtype

from aot.ir.kernels import KernelGraph
from aot.ir.nests import Buffer
from aot.ir.weights import WeightStore
from aot.link.entries import array_bytes
from aot.link.entry import Entry
from aot.symbolic import evaluate


@dataclass(frozen=True)
class States:
    """The plan's states, and the entries of those that do not begin as zeros."""

    specs: tuple[StateSpec, ...] = ()
    entries: tuple[Entry, ...] = ()


def place_states(graphs: Sequence[KernelGraph], store: WeightStore) -> States:
    """The states of all programs' graphs, which are the same, in the model's order."""
    buffers = {b.fqn: b for graph in graphs for b in graph.buffers.values() if b.kind == "state"}
    pairs = {fqn for graph in graphs for fqn in graph.signature.complex.states}
    placed = [_place(buffer, store, buffer.fqn in pairs) for buffer in buffers.values()]
    return States(
        tuple(spec for spec, _ in placed),
        tuple(entry for _, entry in placed if entry is not None),
    )


def _place(buffer: Buffer, store: WeightStore, pairs: bool) -> tuple[StateSpec, Entry | None]:
    """`pairs`: the state is complex, and the buffer has the parts of its elements in pairs."""
    shape = tuple(int(evaluate(s, {})) for s in buffer.shape)
    spec = StateSpec(buffer.fqn, buffer.dtype.name, shape)
    if pairs:
        spec = replace(spec, dtype=complex_dtype(spec.dtype), shape=shape[:-1])
    if not _bits(store.array(buffer.fqn)).any():
        return spec, None
    name = f"state/{buffer.fqn}"
    data = array_bytes(lambda: store.array(buffer.fqn))
    entry = Entry(name, buffer.dtype.name, shape, data)
    return replace(spec, entry=name), entry


def _bits(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array's bytes: -0.0 is not zero here."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
