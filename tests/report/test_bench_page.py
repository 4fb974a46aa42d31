"""The page of `bench --html`, of a kept package: what its plan says beside what was measured."""

from pathlib import Path

import numpy as np
from aot_runtime.format.plan import Step
from aot_runtime.format.reader import PackageFile
from aot_runtime.tools import bench

from aot.report.bench_page import bench_page
from aot.report.html import bench_html
from aot.report.page import Page

PACKAGE = Path(__file__).parents[1] / "packages" / "small-1.1.pkg"


def inputs(package: PackageFile) -> list[np.ndarray]:
    from aot_runtime.tools.arrays import golden_inputs

    return golden_inputs(package)


def observed(package: PackageFile) -> tuple[bench.BenchResult, bench.Observed]:
    given = inputs(package)
    result = bench.measure(PACKAGE, None, 1, given, 3)
    return result, bench.observe(PACKAGE, None, 1, given, 3)


def page_of_package() -> Page:
    with PackageFile(PACKAGE) as package:
        return bench_page(package, *observed(package))


def test_every_launch_has_its_time_its_line_and_its_bytes() -> None:
    (program,) = page_of_package().programs
    with PackageFile(PACKAGE) as package:
        (planned,) = package.plan.programs
    launches = [step for step in planned.steps if isinstance(step, Step)]
    assert [k.name for k in program.kernels] == [planned.kernels[s.kernel].name for s in launches]
    assert all(kernel.seconds and kernel.seconds > 0 for kernel in program.kernels)
    assert all(kernel.nbytes > 0 and kernel.writes for kernel in program.kernels)
    assert all(place for kernel in program.kernels for place, _ in kernel.places)
    assert program.timed


def test_launches_follow_each_other_by_what_they_declare() -> None:
    (program,) = page_of_package().programs
    assert program.links
    assert all(link.source < link.target for link in program.links)
    written = {name for kernel in program.kernels for name in kernel.writes}
    assert {link.buffer for link in program.links} <= written


def test_the_timeline_is_of_one_run() -> None:
    (program,) = page_of_package().programs
    shown = [event for event in program.events if event.track == "kernels"]
    assert [event.kernel for event in shown] == list(range(len(program.kernels)))
    assert all(0 <= event.begin <= event.end for event in program.events)


def test_sizes_are_those_of_the_inputs() -> None:
    with PackageFile(PACKAGE) as package:
        plan = package.plan
        sizes = bench.bound_sizes(plan, inputs(package))
    given = [dim for dim in plan.dims if dim.source is not None]
    assert set(sizes) == {dim.name for dim in given}
    assert all(dim.min <= sizes[dim.name] for dim in given)


def test_the_page_has_charts_and_latency() -> None:
    with PackageFile(PACKAGE) as package:
        text = bench_html(package, *observed(package))
    for word in ('data-chart="flow"', 'data-chart="timeline"', "Latency of 3 runs", "/s</td>"):
        assert word in text
