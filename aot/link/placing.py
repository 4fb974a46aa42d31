"""Where weights lie in the package: stored once however many programs read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from aot_runtime.format.plan import EntryStorage, Plan

from aot.errors import InternalError
from aot.ir.kernels import KernelGraph
from aot.ir.nests import Buffer, DerivedWeight
from aot.link.derive import DerivedStore
from aot.link.entries import flat_bytes
from aot.link.entry import Chunk, Entry
from aot.symbolic import evaluate


def place_weights(
    targets: Sequence[str], graphs: Sequence[KernelGraph]
) -> tuple[Mapping[str, str], ...]:
    """For each program's graph, the package entry of each of its weights by FQN.

    The model's own weights are common. A derived weight (`packed/…`) is common to the programs
    that compute it in the same way; another program's weight of that name gets an entry of its
    own, with the target in its name.
    """
    placed: list[dict[str, str]] = []
    known: dict[str, object] = {}
    for target, graph in zip(targets, graphs, strict=True):
        recipes = _Recipes(graph)
        entries: dict[str, str] = {}
        for buffer in graph.buffers.values():
            if buffer.kind != "weight":
                continue
            name, recipe = f"weights/{buffer.fqn}", recipes.of(buffer.fqn)
            if recipe is not None:
                name = f"packed/{buffer.fqn}"
                if known.setdefault(name, recipe) != recipe:
                    name = f"packed/{buffer.fqn}@{target}"
            entries[buffer.fqn] = name
        placed.append(entries)
    return tuple(placed)


class _Recipes:
    """How a graph's derived weights are computed, comparable between graphs."""

    def __init__(self, graph: KernelGraph) -> None:
        self._buffers: Mapping[str, Buffer] = graph.buffers
        self._derived = {d.name: d for d in graph.derived}
        self._made: dict[str, object] = {}

    def of(self, fqn: str) -> object | None:
        """None for one of the model's own weights."""
        if fqn not in self._derived:
            return None
        if fqn not in self._made:
            self._made[fqn] = self._recipe(self._derived[fqn])
        return self._made[fqn]

    def _recipe(self, derived: DerivedWeight) -> object:
        buffer = self._buffers.get(derived.name)
        sources = [self._buffers.get(name) for name in derived.sources]
        fqns = [
            name if source is None else source.fqn or name
            for name, source in zip(derived.sources, sources, strict=True)
        ]
        shape = None if buffer is None else (buffer.dtype, buffer.shape)
        return derived, shape, tuple((fqn, self.of(fqn)) for fqn in fqns)


def weight_entries(
    plan: Plan,
    graphs: Sequence[KernelGraph],
    placed: Sequence[Mapping[str, str]],
    stores: Sequence[DerivedStore],
) -> tuple[Entry, ...]:
    """An entry for each weight that a buffer of a program names; bytes are made when written.

    Args:
        plan: The plan.
        graphs: The graph of each of its programs.
        placed: What `place_weights` gave for them.
        stores: The weights of each.
    """
    entries: dict[str, Entry] = {}
    for program, graph, names, store in zip(plan.programs, graphs, placed, stores, strict=True):
        fqns = {entry: fqn for fqn, entry in names.items()}
        buffers = {b.fqn: b for b in graph.buffers.values() if b.kind == "weight"}
        for buffer in program.buffers:
            if isinstance(buffer.storage, EntryStorage) and buffer.storage.entry not in entries:
                name = buffer.storage.entry
                entries[name] = _entry(name, buffers[fqns[name]], store)
    return tuple(entries[name] for name in sorted(entries))


def _entry(name: str, buffer: Buffer, store: DerivedStore) -> Entry:
    shape = tuple(int(evaluate(s, {})) for s in buffer.shape)
    return Entry(name, buffer.dtype.name, shape, lambda: _parts(store, buffer.fqn, shape))


def _parts(store: DerivedStore, fqn: str, shape: tuple[int, ...]) -> Iterator[Chunk]:
    rows, rest = 0, shape[1:]
    for part in store.parts(fqn):
        rows, rest = rows + sum(part.shape[:1]), part.shape[1:]
        yield flat_bytes(part)
    if (rows, *rest) != (sum(shape[:1]), *shape[1:]):
        raise InternalError(f"weight {fqn} has shape {(rows, *rest)}, the graph says {shape}")
