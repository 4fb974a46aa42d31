"""The scheduling example of docs/architecture.md: add(arg0, arg1), then sum(dim=1)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from aot.ir.hints import hints_of
from aot.ir.loops import LoopGraph
from aot.ir.printer import print_kernel, print_nest
from aot.lowering.builder import GraphBuilder, Tensor
from aot.passes.dead_code import remove_dead_code
from aot.passes.layout import choose_layouts
from aot.schedule.dependencies import MemoryDep, analyse_graph, read_deps, write_deps
from aot.schedule.fusion import fuse, initial_groups
from aot.schedule.legality import FusionState, can_fuse
from aot.symbolic import to_text
from tests.conftest import GoldenCheck
from tests.schedule.graphs import DEVICE, binary_op, make_graph, reduce_op, run_passes


def _add_sum(_: GraphBuilder, a: Tensor, b: Tensor) -> Sequence[Tensor]:
    return [reduce_op("sum", binary_op("add", a, b), 1)]


def _graph() -> LoopGraph:
    return make_graph(_add_sum, {"arg0": (1024, 768), "arg1": (1024, 768)})


def _dep(dep: MemoryDep) -> str:
    index = ", ".join(to_text(e) for e in dep.index or ())
    loops = ", ".join(f"{a.symbol} < {to_text(a.extent)}" for a in dep.axes)
    return f"{dep.buffer}[{index}] for {loops}"


def _steps(graph: LoopGraph) -> str:
    """Nests, dependencies, users, ancestors, the verdict and the kernel, as text."""
    usage = analyse_graph(graph)
    lines = ["nests"]
    lines += [f"  {line}" for op in graph.ops for line in print_nest(op).splitlines()]
    lines.append("dependencies")
    for op in graph.ops:
        lines += [f"  {op.name} reads {_dep(d)}" for d in read_deps(op)]
        lines += [f"  {op.name} writes {_dep(d)}" for d in write_deps(op)]
    lines.append("users")
    for name in graph.buffers:
        users = [graph.ops[k].name for k in usage.readers.get(name, ())]
        lines.append(f"  {name}: {', '.join(users) or 'the caller'}")
    lines.append("ancestors")
    for k, op in enumerate(graph.ops):
        found = [graph.ops[j].name for j in range(k) if usage.depends(k, j)]
        lines.append(f"  {op.name}: {', '.join(found) or 'none'}")
    lines.append("verdict")
    groups = initial_groups(graph)
    state = FusionState(graph, hints_of(graph.dims), dict(enumerate(groups)), frozenset(), DEVICE)
    verdict = can_fuse(state, 0, 1)
    lines.append(f"  n0 into n1: {'fused' if verdict.ok else 'not fused'}: {verdict.reason}")
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
