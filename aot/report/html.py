"""`explain --html`: the explanation as one self-contained page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
from aot_runtime.tools.units import format_bytes, format_seconds

from aot.report.explain import places, short_group
from aot.report.model import TYPICAL_CORE, BuildReport, ProgramReport, Roofline, format_count


def explain_html(report: BuildReport, roofline: Roofline = TYPICAL_CORE) -> str:
    """The page's text.

    Args:
        report: What the build did.
        roofline: The machine that the bars are drawn for.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=False,
    )
    environment.filters.update(
        bytes=format_bytes,
        count=format_count,
        seconds=format_seconds,
        places=places,
        short=short_group,
    )
    return environment.get_template("explain.html.j2").render(
        report=report,
        roofline=roofline,
        programs=[_section(program, roofline) for program in report.programs],
    )


def _section(program: ProgramReport, roofline: Roofline) -> dict[str, Any]:
    """What the page shows of one program; bars of time only for the host's."""
    least = [roofline.seconds(k.nbytes, k.flops) for k in program.kernels]
    names = dict.fromkeys(decision.stage for decision in program.decisions)
    return {
        "report": program,
        "least": least if program.on_host else [],
        "slowest": max([*least, 1e-9]),
        "stages": [(n, [d for d in program.decisions if d.stage == n]) for n in names],
    }
