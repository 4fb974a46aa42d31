"""The charts of a page, by Bokeh: who reads from whom, what happened when, memory over time.

All charts of a program share one source of kernels, so that what is chosen in one is chosen in all.
"""

from __future__ import annotations

import math
import re
from itertools import cycle
from typing import Any

from aot_runtime.tools.units import format_bytes, format_seconds
from bokeh.models import ColumnDataSource, CustomJS, HoverTool, Range1d
from bokeh.models.annotations import LabelSet
from bokeh.palettes import Category10_10
from bokeh.plotting import figure

from aot.report.page import PageKernel, PageProgram, lanes

GREY = "#808080"
"""Lines and letters that can be read on white and on black."""

NAMED_COLUMNS = 45
"""Of kernels, beside each other: of more there is no room for names."""

TIME_UNITS = ((1.0, "seconds"), (1e3, "milliseconds"), (1e6, "microseconds"))
BYTE_UNITS = ((1e-9, "gigabytes"), (1e-6, "megabytes"), (1e-3, "kilobytes"), (1.0, "bytes"))
"""How many of a unit are a second, or a byte; large units first."""

OUTLINED = 600
"""Boxes that have outlines: of more, beside each other, nothing else would be seen."""

TOOLS = "xpan,xwheel_zoom,box_zoom,reset,tap"


def kind_colors(program: PageProgram) -> dict[str, str]:
    """A color for each kind of kernel, in the order of their first ones; beyond ten they return."""
    kinds = dict.fromkeys(kernel.kind for kernel in program.kernels)
    return dict(zip(kinds, cycle(Category10_10), strict=False))


def kernel_source(program: PageProgram, name: str) -> ColumnDataSource:
    """A row for each kernel; `name` is that of the source, for the page's script."""
    heights = lanes(program.columns, program.links)
    colors = kind_colors(program)
    slowest = max((kernel.time or 0.0 for kernel in program.kernels), default=0.0)
    largest = max((kernel.nbytes for kernel in program.kernels), default=0)

    def share(kernel: PageKernel) -> float:
        if slowest:
            return (kernel.time or 0.0) / slowest
        return kernel.nbytes / largest if largest else 0.0

    rows = program.kernels
    return ColumnDataSource(
        {
            "x": list(program.columns),
            "y": list(heights),
            "name": [kernel.name for kernel in rows],
            "label": [re.split("_", kernel.name, maxsplit=1)[0] for kernel in rows],
            "place": [" · ".join(place for place, _ in kernel.places) for kernel in rows],
            "cost": [_cost(kernel) for kernel in rows],
            "color": [colors[kernel.kind] for kernel in rows],
            "size": [_diameter(share(kernel)) for kernel in rows],
            "above": [_diameter(share(kernel)) / 2 + 3 for kernel in rows],
        },
        name=name,
    )


def _diameter(share: float) -> float:
    """Of a kernel's circle, in pixels; the area tells its share of the slowest one's time."""
    return 8 + 16 * math.sqrt(share)


def flow_chart(program: PageProgram, source: ColumnDataSource) -> Any:
    """Kernels as dots, larger ones take longer; lines are buffers that pass between them."""
    width = max(program.columns, default=0) + 1
    tallest = max((abs(y) for y in source.data["y"]), default=0.0) + 1.5
    start = min(width, NAMED_COLUMNS)
    chart = _figure(
        height=int(min(520, 170 + 26 * tallest)),
        x_range=_range(-0.7, start - 0.3, (-1, max(width, 2))),
        y_range=_range(-tallest, tallest, None),
    )
    chart.axis.visible = False
    lines = chart.multi_line("xs", "ys", source=_links(program, source), color=GREY, alpha=0.55)
    dots = chart.scatter(
        "x",
        "y",
        source=source,
        size="size",
        fill_color="color",
        line_color=GREY,
        nonselection_fill_alpha=0.15,
        nonselection_line_alpha=0.15,
    )
    names = LabelSet(
        x="x",
        y="y",
        text="label",
        source=source,
        y_offset="above",  # a name stands over its circle, however large that is
        text_align="center",
        text_font_size="10px",
        text_color=GREY,
        visible=width <= NAMED_COLUMNS or start < width,
    )
    chart.add_layout(names)
    chart.x_range.js_on_change(
        "end",
        CustomJS(
            args={"names": names, "most": NAMED_COLUMNS},
            code="names.visible = cb_obj.end - cb_obj.start <= most + 1",
        ),
    )
    chart.add_tools(_hover(dots, "name", "place", "cost"), _hover(lines, "buffer", "bytes"))
    return chart


def _links(program: PageProgram, source: ColumnDataSource) -> ColumnDataSource:
    """Lines between neighbours are straight; others bend around what stands between."""
    sizes = {buffer.name: buffer.nbytes for buffer in program.buffers}
    x, y = source.data["x"], source.data["y"]
    xs, ys = [], []
    for link in program.links:
        (x0, y0), (x1, y1) = ((x[k], y[k]) for k in (link.source, link.target))
        steps = x1 - x0
        bend = 0.0 if steps <= 1 else 0.35 + 0.05 * min(steps, 12)
        xs.append([x0, x0 + 0.4, x1 - 0.4, x1])
        ys.append([y0, y0 + bend, y1 + bend, y1] if bend else [y0, y0, y1, y1])
    return ColumnDataSource(
        {
            "xs": xs,
            "ys": ys,
            "buffer": [link.buffer for link in program.links],
            "bytes": [format_bytes(sizes.get(link.buffer, 0)) for link in program.links],
        }
    )


def timeline(program: PageProgram, source: ColumnDataSource) -> Any:
    """What happened when, a row for each track."""
    tracks = sorted({event.track for event in program.events})
    kernels = [event for event in program.events if event.kernel is not None]
    end = max((event.end for event in program.events), default=0.0) or 1e-6
    scale, unit = _unit(end, TIME_UNITS)
    chart = _figure(
        height=90 + 26 * len(tracks),
        y_range=list(reversed(tracks)),
        x_range=_range(0, end * scale),
        x_axis_label=unit,
    )
    colors = dict(enumerate(source.data["color"]))
    rows = ColumnDataSource(
        {
            "left": [scale * event.begin for event in program.events],
            "right": [scale * event.end for event in program.events],
            "track": [event.track for event in program.events],
            "name": [event.name for event in program.events],
            "time": [format_seconds(event.end - event.begin) for event in program.events],
            "color": [
                colors.get(-1 if e.kernel is None else e.kernel, GREY) for e in program.events
            ],
            "kernel": [-1 if event.kernel is None else event.kernel for event in program.events],
        }
    )
    bars = chart.hbar(
        y="track",
        left="left",
        right="right",
        height=0.8,
        source=rows,
        fill_color="color",
        line_color=None,
        nonselection_fill_alpha=0.25,
    )
    if kernels:
        _choose_kernels(rows, source)
    chart.add_tools(_hover(bars, "name", "time"))
    return chart


def memory_chart(program: PageProgram, source: ColumnDataSource) -> Any:
    """The arena: what lies where from the first launch that names it to the last."""
    placed = [b for b in program.buffers if b.offset is not None and b.name in program.lives]
    lives = [program.lives[buffer.name] for buffer in placed]
    top = max(1, *((b.offset or 0) + b.nbytes for b in placed))
    scale, unit = _unit(top, BYTE_UNITS)
    chart = _figure(
        height=300,
        x_range=_range(0, max(len(program.kernels), 1)),
        y_range=_range(0, top * scale),
        x_axis_label="launch",
        y_axis_label=f"{unit} of the arena",
    )
    rows = ColumnDataSource(
        {
            "left": [first for first, _ in lives],
            "right": [last + 1 for _, last in lives],
            "bottom": [(b.offset or 0) * scale for b in placed],
            "top": [((b.offset or 0) + b.nbytes) * scale for b in placed],
            "name": [b.name for b in placed],
            "bytes": [format_bytes(b.nbytes) for b in placed],
            "kernel": [first for first, _ in lives],
            "color": [source.data["color"][first] for first, _ in lives],
        }
    )
    boxes = chart.quad(
        left="left",
        right="right",
        bottom="bottom",
        top="top",
        source=rows,
        fill_color="color",
        fill_alpha=0.6,
        line_color=GREY if len(placed) <= OUTLINED else None,
        nonselection_fill_alpha=0.15,
    )
    _choose_kernels(rows, source)
    chart.add_tools(_hover(boxes, "name", "bytes"))
    return chart


def _choose_kernels(rows: ColumnDataSource, source: ColumnDataSource) -> None:
    """What is chosen among `rows` chooses the kernels that these belong to."""
    rows.selected.js_on_change(
        "indices",
        CustomJS(
            args={"rows": rows, "source": source},
            code="const found = cb_obj.indices.map(i => rows.data.kernel[i]).filter(k => k >= 0);"
            " if (found.length) source.selected.indices = [...new Set(found)]",
        ),
    )


def _figure(**choices: Any) -> Any:
    """A chart without ground of its own: the page's is white or black."""
    chart = figure(
        tools=TOOLS,
        active_scroll="xwheel_zoom",
        sizing_mode="stretch_width",
        background_fill_alpha=0,
        border_fill_alpha=0,
        outline_line_color=None,
        **choices,
    )
    chart.toolbar.logo = None
    chart.grid.grid_line_alpha = 0.15
    chart.axis.axis_label_text_color = GREY
    chart.axis.major_label_text_color = GREY
    chart.axis.axis_line_color = GREY
    chart.axis.major_tick_line_color = GREY
    chart.axis.minor_tick_line_color = None
    return chart


def _unit(most: float, units: tuple[tuple[float, str], ...]) -> tuple[float, str]:
    """The largest unit of which `most` is at least one; else the smallest."""
    return next((unit for unit in units if most * unit[0] >= 1), units[-1])


def _range(start: float, end: float, bounds: Any = "auto") -> Range1d:
    """What is seen at first; one can move to the bounds, "auto": no further."""
    return Range1d(start=start, end=end, bounds=bounds)


def _hover(renderer: Any, *columns: str) -> HoverTool:
    tips = [(column, f"@{column}") for column in columns]
    return HoverTool(renderers=[renderer], tooltips=tips)


def _cost(kernel: PageKernel) -> str:
    parts = [] if kernel.time is None else [format_seconds(kernel.time)]
    return ", ".join([*parts, format_bytes(kernel.nbytes)])
