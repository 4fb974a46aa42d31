"""`explain --html` and `bench --html`: one page that stands alone, with charts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jinja2
from aot_runtime.format.reader import PackageFile
from aot_runtime.tools.bench import BenchResult, Observed
from aot_runtime.tools.units import format_bytes, format_seconds
from bokeh.embed import components
from bokeh.resources import Resources

from aot.report.bench_page import bench_page
from aot.report.charts import flow_chart, kernel_source, kind_colors, memory_chart, timeline
from aot.report.explain import short_group
from aot.report.explain_page import explain_page
from aot.report.model import TYPICAL_CORE, BuildReport, Roofline, format_count
from aot.report.page import Page, PageProgram


def explain_html(report: BuildReport, roofline: Roofline = TYPICAL_CORE) -> str:
    """The page of `explain`.

    Args:
        report: What the build did.
        roofline: The machine that the host's kernels get their least times for.
    """
    return page_html(explain_page(report, roofline))


def bench_html(package: PackageFile, result: BenchResult, observed: Observed) -> str:
    """The page of `bench`; see `bench_page`."""
    return page_html(bench_page(package, result, observed))


def page_html(page: Page) -> str:
    """The text of a page; scripts and styles are in it, so that it can be sent around."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(
        bytes=format_bytes, count=format_count, seconds=format_seconds, short=short_group
    )
    charts = {
        f"{name}{number}": chart
        for number, program in enumerate(page.programs)
        for name, chart in _charts(program, number).items()
    }
    script, places = components(charts) if charts else ("", {})
    library = Resources(mode="inline", components=["bokeh"]).render() if charts else ""
    return environment.get_template("page.html.j2").render(
        page=page,
        library=library,
        script=script,
        places=places,
        programs=[_rows(program) for program in page.programs],
        details=_script_json([[k.details for k in p.kernels] for p in page.programs]),
    )


def _script_json(value: object) -> str:
    """JSON for a script element, which a `<` in it could end."""
    return json.dumps(value).replace("<", "\\u003c")


def _charts(program: PageProgram, number: int) -> dict[str, Any]:
    """The charts that there is something to show in, by name."""
    if not program.kernels:
        return {}
    source = kernel_source(program, f"kernels{number}")
    charts = {"flow": flow_chart(program, source)}
    if program.events:
        charts["timeline"] = timeline(program, source)
    if program.lives:
        charts["memory"] = memory_chart(program, source)
    return charts


def _rows(program: PageProgram) -> dict[str, Any]:
    """What the page shows of a program besides its charts."""
    times = [kernel.time or 0.0 for kernel in program.kernels]
    return {
        "shown": program,
        "legend": [(kind, color) for kind, color in kind_colors(program).items() if kind],
        "has_times": any(kernel.time is not None for kernel in program.kernels),
        "has_flops": any(kernel.flops is not None for kernel in program.kernels),
        "slowest": max([*times, 1e-12]),
        "total": max(sum(times), 1e-12),
    }
