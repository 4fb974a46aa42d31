"""The passes over the loop graph: the one list of them, in order."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from aot.ir.flow import Outline
from aot.ir.loops import LoopGraph
from aot.ir.machine import Machine
from aot.passes.align_slices import align_slices
from aot.passes.dead_code import remove_dead_code
from aot.passes.empty import settle_empty
from aot.passes.expand_templates import expand_templates
from aot.passes.extrema_at_places import take_extrema_at_places
from aot.passes.fold_weights import fold_weights
from aot.passes.inline import inline_producers
from aot.passes.join_templates import join_templates
from aot.passes.layout import choose_layouts, own_outputs
from aot.passes.merge_products import merge_in_parts
from aot.passes.narrow import narrow_broadcasts
from aot.passes.normalize_axes import normalize_axes
from aot.passes.resolve_conflicts import resolve_conflicts
from aot.passes.scale_weights import scale_weights
from aot.passes.shorten import shorten_results
from aot.passes.split_templates import split_templates
from aot.passes.updates import narrow_updates, own_bases

Loops = Outline[LoopGraph]
Watch = Callable[[str, Loops, float], None]
"""Is told of each pass: its name, what it gave, and seconds of wall time."""


@dataclass(frozen=True)
class Pass:
    """A rewrite that leaves what the model computes as it is.

    Attributes:
        name: As dumps, timings and docs/architecture.md call it.
        rewrite: From one outline to the next; what a device is may decide how.
    """

    name: str
    rewrite: Callable[[Loops, Machine], Loops]


def _everywhere(name: str, rewrite: Callable[[LoopGraph], LoopGraph]) -> Pass:
    """A pass that rewrites each part, on every device alike."""
    return Pass(name, lambda loops, _: loops.map(rewrite))


def _by_device(name: str, rewrite: Callable[[LoopGraph, Machine], LoopGraph]) -> Pass:
    """A pass that rewrites each part as the device wants it."""
    return Pass(name, lambda loops, device: loops.map(lambda part: rewrite(part, device)))


PASSES: tuple[Pass, ...] = (
    Pass("align_slices", lambda loops, device: align_slices(loops, device.alignment)),
    _everywhere("settle_empty", settle_empty),
    _everywhere("dead_code", remove_dead_code),
    # While slices still are nests of their own.
    _everywhere("shorten", shorten_results),
    _everywhere("own_outputs", own_outputs),
    _by_device("resolve_conflicts", resolve_conflicts),
    _by_device("join_templates", join_templates),
    _by_device("expand_templates", expand_templates),
    _by_device("extrema_at_places", take_extrema_at_places),
    # Before folding, which puts the weights together.
    Pass("merge_products", merge_in_parts),
    _by_device("scale_weights", scale_weights),
    # Before inlining, which would mix constants with what varies.
    _everywhere("fold_weights", fold_weights),
    # Views vanish first, so that what remains shows its real accesses to every later choice.
    _by_device("inline", inline_producers),
    _everywhere("narrow_broadcasts", narrow_broadcasts),
    # What is left of a slice's write is one nest; only then it shows what it leaves as it was.
    _everywhere("narrow_updates", narrow_updates),
    _everywhere("own_bases", own_bases),
    # Heads of keys that were only repeated are counted once by now.
    _by_device("split_templates", split_templates),
    _everywhere("normalize_axes", normalize_axes),
    _by_device("choose_layouts", choose_layouts),
)


def run_passes(loops: Loops, machine: Machine, watch: Watch | None = None) -> Loops:
    """All passes, in order.

    Args:
        loops: What lowering gives.
        machine: Of the device that the result is for.
        watch: Told of each pass.
    """
    for step in PASSES:
        start = time.perf_counter()
        loops = step.rewrite(loops, machine)
        if watch is not None:
            watch(step.name, loops, time.perf_counter() - start)
    return loops
