"""Weights that can be replaced at run time: what the plan says of them, and which are stored."""

from __future__ import annotations

from collections.abc import Sequence

from aot_runtime.format.plan import EntryStorage, Plan, WeightSpec

from aot.ir.weights import WeightStore
from aot.link.assemble import ProgramParts
from aot.link.entries import array_bytes
from aot.link.entry import Entry
from aot.link.steps import control_buffers


def weight_specs(
    store: WeightStore, programs: Sequence[ProgramParts], keep_originals: bool
) -> tuple[WeightSpec, ...]:
    """The plan's table of the model's own weights.

    An entry is stored where kernels read it. What only derived entries follow from is stored if
    `keep_originals`, or if no state dict would bring it (constants of the graph).
    """
    direct = {
        p.graph.buffers[name].fqn
        for p in programs
        for name in (
            *(name for launch in p.launches for name in launch.buffers),
            *control_buffers(p.graph),
        )
        if p.graph.buffers[name].kind == "weight"
    }
    sources = {fqn for p in programs for d in p.derivations for fqn in d.sources}
    specs = []
    for spec in store.specs():
        stored = spec.fqn in direct or (spec.fqn in sources and (keep_originals or not spec.saved))
        specs.append(
            WeightSpec(
                name=spec.fqn,
                dtype=spec.dtype.name,
                shape=spec.shape,
                aliases=spec.aliases,
                entry=f"weights/{spec.fqn}" if stored else "",
                required=spec.saved and spec.fqn in direct | sources,
            )
        )
    return tuple(specs)


def original_entries(plan: Plan, store: WeightStore) -> tuple[Entry, ...]:
    """Entries of the weights that the plan says are stored and that no program reads itself."""
    read = {
        b.storage.entry
        for program in plan.programs
        for b in program.buffers
        if isinstance(b.storage, EntryStorage)
    }
    return tuple(
        Entry(spec.entry, spec.dtype, spec.shape, array_bytes(lambda n=spec.name: store.array(n)))  # type: ignore[misc]
        for spec in plan.weights
        if spec.entry and spec.entry not in read
    )
