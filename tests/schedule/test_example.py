"""The scheduling example of docs/architecture.md: add(arg0, arg1), then sum(dim=1)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from aot.ir.loops import LoopGraph
from aot.ir.printer import op_lines, print_kernel
from aot.lowering.builder import GraphBuilder, Tensor
from aot.passes.dead_code import remove_dead_code
from aot.passes.layout import choose_layouts
from aot.schedule.fusion import fuse, initial_groups
from aot.schedule.legality import FusionState, can_fuse
from tests.conftest import GoldenCheck
from tests.schedule.graphs import DEVICE, binary_op, make_graph, reduce_op, run_passes
from tests.schedule.steps import scheduler


def _add_sum(_: GraphBuilder, a: Tensor, b: Tensor) -> Sequence[Tensor]:
    return [reduce_op("sum", binary_op("add", a, b), 1)]


def _graph() -> LoopGraph:
    return make_graph(_add_sum, {"arg0": (1024, 768), "arg1": (1024, 768)})


def _steps(graph: LoopGraph) -> str:
    """Nests, groups, readers, the verdict and the kernel, as text."""
    groups = initial_groups(graph)
    state = FusionState(scheduler(graph), dict(enumerate(groups)), frozenset())
    lines = ["nests"]
    lines += [f"  {line}" for op in graph.ops for line in op_lines(op)]
    lines.append("groups")
    for k, group in enumerate(groups):
        lines.append(f"  {k} reads {', '.join(group.reads)}; writes {', '.join(group.writes)}")
    lines.append("readers")
    for name in graph.buffers:
        found = [str(key) for key in sorted(state.readers.get(name, ()))]
        lines.append(f"  {name}: {', '.join(found) or 'the caller'}")
    lines.append("consumers")
    for k in range(len(groups)):
        lines.append(f"  {k}: {', '.join(map(str, sorted(state.consumers(k)))) or 'none'}")
    lines.append("verdict")
    verdict = can_fuse(state, 0, 1)
    lines.append(f"  0 into 1: {'fused' if verdict.ok else 'not fused'}: {verdict.reason}")
    lines.append(f"  saves {state.saved_bytes(0, 1)} bytes of traffic")
    lines.append("kernel")
    kernels = fuse(graph, DEVICE).kernels
    lines += [f"  {line}" for k in kernels for line in print_kernel(k).splitlines()]
    return "\n".join(lines) + "\n"


def test_each_scheduling_step(golden: GoldenCheck) -> None:
    golden("add_sum_steps.txt", _steps(choose_layouts(remove_dead_code(_graph()), DEVICE)))


def test_inlining_gives_the_same_kernel_earlier(golden: GoldenCheck) -> None:
    graph = run_passes(_graph())
    choices = [
        f"{d.stage} {', '.join(d.subject)}: {d.verdict}: {d.reason}" for d in graph.decisions
    ]
    kernels = fuse(graph, DEVICE).kernels
    assert len(kernels) == 1
    golden("add_sum_inlined.txt", "\n".join([*choices, print_kernel(kernels[0])]) + "\n")


def test_the_architecture_document_shows_these_steps() -> None:
    here = Path(__file__)
    steps = (here.parent / "golden" / "example" / "add_sum_steps.txt").read_text(encoding="utf-8")
    document = (here.parents[2] / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert steps in document
