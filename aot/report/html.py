"""`explain --html`: the explanation as one self-contained page."""

from __future__ import annotations

from pathlib import Path

import jinja2

from aot.report.explain import places, short_group
from aot.report.model import (
    TYPICAL_CORE,
    BuildReport,
    Roofline,
    format_bytes,
    format_count,
    format_seconds,
)


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
    least = [roofline.seconds(k.nbytes, k.flops) for k in report.kernels]
    names = dict.fromkeys(decision.stage for decision in report.decisions)
    return environment.get_template("explain.html.j2").render(
        report=report,
        roofline=roofline,
        operators=sum(len(kernel.operators) for kernel in report.kernels),
        least=least,
        slowest=max([*least, 1e-9]),
        stages=[(n, [d for d in report.decisions if d.stage == n]) for n in names],
    )
