"""The weight program as graphs: how each derived weight follows from the model's own weights.

Weights that are computed alike, as those of equal layers are, share one routine: a loop graph whose
inputs are the sources and whose only output is the result, under names that do not tell the
weights apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from aot.ir.kernels import KernelGraph
from aot.ir.loops import LoopGraph, reads, writes
from aot.ir.nests import Buffer, DerivedWeight, LoopNest
from aot.ir.origin import NO_ORIGIN
from aot.ir.rewrite import rename_buffers
from aot.ir.tensors import Signature, Tree
from aot.ir.weights import Derivation
from aot.symbolic import row_major_strides

RESULT = "result"


@dataclass(frozen=True)
class WeightRoutines:
    """Routines, each once, and who uses them."""

    routines: tuple[LoopGraph, ...]
    derivations: tuple[Derivation, ...]


def weight_routines(graph: KernelGraph, used: Iterable[str]) -> WeightRoutines:
    """How the derived weights among the buffers `used` are computed.

    What depends on no weight is left out: it never changes.
    """
    derived = {d.name: d for d in graph.derived}
    found: dict[object, int] = {}
    routines: list[LoopGraph] = []
    derivations: list[Derivation] = []
    for name in dict.fromkeys(used):
        if graph.buffers[name].kind != "weight" or name not in derived:
            continue
        nests = _chain(derived[name], derived, graph.buffers)
        made = {b for nest in nests for b in writes(nest)}
        sources = tuple(dict.fromkeys(b for n in nests for b in reads(n) if b not in made))
        if not sources:
            continue
        routine = _routine(name, nests, sources, graph.buffers)
        key = _key(routine)
        if key not in found:
            found[key] = len(routines)
            routines.append(replace(routine, name=f"weights{len(routines)}"))
        fqns = tuple(graph.buffers[s].fqn for s in sources)
        derivations.append(Derivation(name, fqns, found[key]))
    return WeightRoutines(tuple(routines), tuple(derivations))


def _chain(
    weight: DerivedWeight, derived: Mapping[str, DerivedWeight], buffers: Mapping[str, Buffer]
) -> tuple[LoopNest, ...]:
    """The nests from the model's weights to this one, in order, each once."""
    nests: dict[LoopNest, None] = {}
    own = {b for nest in weight.nests for b in writes(nest)}
    for nest in weight.nests:
        for name in reads(nest):
            if name in derived and name not in own and buffers[name].kind == "weight":
                nests.update(dict.fromkeys(_chain(derived[name], derived, buffers)))
        nests[nest] = None
    return tuple(nests)


def _routine(
    result: str,
    nests: tuple[LoopNest, ...],
    sources: tuple[str, ...],
    buffers: Mapping[str, Buffer],
) -> LoopGraph:
    temps = dict.fromkeys(b for n in nests for b in writes(n) if b != result)
    names = {
        **{name: f"source{k}" for k, name in enumerate(sources)},
        **{name: f"temp{k}" for k, name in enumerate(temps)},
        result: RESULT,
    }
    declared: dict[str, Buffer] = {}
    for name, short in names.items():
        shape, dtype = buffers[name].shape, buffers[name].dtype
        given = name in sources
        strides = row_major_strides(shape) if given else None
        declared[short] = Buffer(short, dtype, shape, strides, "input" if given else "temp")
    renamed = tuple(
        replace(rename_buffers(nest, names), name=f"nest{k}") for k, nest in enumerate(nests)
    )
    return LoopGraph(
        name="",
        dims=(),
        buffers=declared,
        ops=renamed,
        inputs=tuple(names[s] for s in sources),
        outputs=(RESULT,),
        output_strides=(row_major_strides(buffers[result].shape),),
        signature=Signature((), Tree("leaf", 0)),
    )


def _key(routine: LoopGraph) -> object:
    """Equal for routines that differ in the model's lines alone."""
    nests = (op for op in routine.ops if isinstance(op, LoopNest))
    bare = tuple(replace(nest, origin=NO_ORIGIN, absorbed=()) for nest in nests)
    return bare, tuple(routine.buffers.items())
