"""Charts: every kernel, buffer and event is in them where it belongs."""

from dataclasses import replace

import pytest

from aot.report.charts import GREY, flow_chart, kernel_source, kind_colors, memory_chart, timeline
from aot.report.page import PageProgram, TimelineEvent
from tests.report.pages import layered_page


def program(layers: int = 3) -> PageProgram:
    (found,) = layered_page(layers).programs
    return found


def rows(chart, glyph: str) -> dict:
    """The data of the chart's renderer with this glyph."""
    (found,) = [r for r in chart.renderers if type(r.glyph).__name__ == glyph]
    return found.data_source.data


def test_kinds_have_colors_of_their_own() -> None:
    colors = kind_colors(program())
    assert list(colors) == ["pointwise", "matmul", "reduction"]
    assert len(set(colors.values())) == 3


def test_dots_are_larger_where_kernels_take_longer() -> None:
    shown = program()
    source = kernel_source(shown, "kernels0")
    times = [kernel.seconds for kernel in shown.kernels]
    sizes = source.data["size"]
    assert sorted(range(9), key=lambda k: times[k]) == sorted(range(9), key=lambda k: sizes[k])
    above = source.data["above"]
    assert all(2 * height > size for height, size in zip(above, sizes, strict=True))
    assert source.data["cost"][1] == "2 µs, 8.19 kB"
    untimed = replace(shown, kernels=tuple(replace(k, seconds=None) for k in shown.kernels))
    assert len(set(kernel_source(untimed, "kernels0").data["size"])) > 1


def test_lines_join_who_writes_to_who_reads() -> None:
    shown = program()
    source = kernel_source(shown, "kernels0")
    chart = flow_chart(shown, source)
    lines = rows(chart, "MultiLine")
    assert lines["buffer"] == [link.buffer for link in shown.links]
    for link, xs in zip(shown.links, lines["xs"], strict=True):
        assert (xs[0], xs[-1]) == (shown.columns[link.source], shown.columns[link.target])
    assert rows(chart, "Scatter")["name"] == [kernel.name for kernel in shown.kernels]


def test_a_long_model_begins_with_what_can_be_read() -> None:
    shown = program(400)
    chart = flow_chart(shown, kernel_source(shown, "kernels0"))
    assert chart.x_range.end < 50 < max(shown.columns)
    assert chart.x_range.bounds[1] > max(shown.columns)


def test_the_timeline_has_a_row_for_each_track() -> None:
    shown = program()
    events = (*shown.events, TimelineEvent("input", "copies", 0.0, 1e-6))
    chart = timeline(replace(shown, events=events), kernel_source(shown, "kernels0"))
    assert list(chart.y_range.factors) == ["kernels", "copies"]
    bars = rows(chart, "HBar")
    assert bars["right"][:2] == pytest.approx([5, 15])
    assert bars["color"][-1] == GREY
    assert bars["kernel"][-2:] == [8, -1]


def test_memory_is_held_from_the_first_launch_to_the_last() -> None:
    shown = program()
    boxes = rows(memory_chart(shown, kernel_source(shown, "kernels0")), "Quad")
    place = boxes["name"].index("y1")
    assert (boxes["left"][place], boxes["right"][place]) == (3, 6)
    assert (boxes["bottom"][place], boxes["top"][place]) == (0.0, 4.096)
    assert "x0" not in boxes["name"]


def test_boxes_of_a_long_model_have_no_outlines_that_cover_them() -> None:
    for layers, outline in ((4, GREY), (400, None)):
        shown = program(layers)
        chart = memory_chart(shown, kernel_source(shown, "kernels0"))
        (boxes,) = [r.glyph for r in chart.renderers if type(r.glyph).__name__ == "Quad"]
        assert boxes.line_color == outline
