"""The page in a real browser: charts are drawn, what is chosen in one place is chosen in all."""

from pathlib import Path

import pytest

from aot.report.html import page_html
from tests.report.pages import ask, browser, layered_page

needs_browser = pytest.mark.skipif(browser() is None, reason="no chromium is here")

SHOWN = "rowsOf(sections[0]).filter(r => !r.hidden).map(r => r.cells[0].textContent)"
"""Names of the rows that are not hidden."""

CHOSEN = "sourceOf(sections[0]).selected.indices"
"""What charts have chosen."""

FIND = """const find_ = text => {
  const box = document.getElementById("find");
  box.value = text;
  box.dispatchEvent(new Event("input"));
};"""


def test_a_page_stands_alone() -> None:
    text = page_html(layered_page(2))
    assert "<script src" not in text
    assert "<link" not in text
    assert 'data-chart="memory"' in text


def test_a_page_without_kernels_needs_no_charts() -> None:
    text = page_html(layered_page(0))
    assert "data-chart=" not in text
    assert len(text) < 20_000


def test_texts_cannot_end_the_script_that_holds_them() -> None:
    text = page_html(layered_page(1))
    assert "loops of \\u003ckernel> 0" in text
    assert "they &lt;differ&gt;" in text


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("scheme", [0, 1])
def test_charts_are_drawn_in_light_and_dark(tmp_path: Path, scheme: int) -> None:
    seen = ask(
        page_html(layered_page(4)),
        tmp_path,
        "return {sizes: [...document.querySelectorAll('[data-chart]')]"
        ".map(c => [c.clientWidth, c.clientHeight]),"
        "fits: document.documentElement.scrollWidth <= innerWidth,"
        "dark: matchMedia('(prefers-color-scheme: dark)').matches}",
        f"--blink-settings=preferredColorScheme={scheme}",
    )
    assert [width > 900 and height > 80 for width, height in seen.found["sizes"]] == [True] * 3
    assert seen.found["fits"]
    assert seen.found["dark"] == (scheme == 0)
    assert seen.console == ()


@needs_browser
@pytest.mark.slow
def test_in_a_narrow_window_the_page_fits_and_the_table_scrolls(tmp_path: Path) -> None:
    seen = ask(
        page_html(layered_page(4)),
        tmp_path,
        "const box = document.getElementById('find'), table = document.querySelector('.wide');"
        "return {page: document.documentElement.scrollWidth <= innerWidth,"
        "table: table.scrollWidth > table.clientWidth, find: box.clientWidth}",
        "--window-size=500,900",
    )
    assert seen.found["page"]
    assert seen.found["table"]
    assert seen.found["find"] > 300  # what may be typed can be read
    assert seen.console == ()


@needs_browser
@pytest.mark.slow
def test_charts_follow_the_search(tmp_path: Path) -> None:
    script = (
        f"{FIND} find_('k4_sum'); const one = [{SHOWN}, {CHOSEN}];"
        f"find_('aten.add'); const some = [{SHOWN}, {CHOSEN}];"
        f"find_(''); return [one, some, [{SHOWN}, {CHOSEN}]]"
    )
    seen = ask(page_html(layered_page(4)), tmp_path, script)
    one, some, every = seen.found
    assert one == [["k4_sum"], [4]]
    assert some == [["k2_add", "k5_add", "k8_add", "k11_add"], [2, 5, 8, 11]]
    assert [len(every[0]), every[1]] == [12, []]
    assert seen.console == ()


@needs_browser
@pytest.mark.slow
def test_what_a_chart_chooses_the_table_shows(tmp_path: Path) -> None:
    script = (
        f"{CHOSEN} = [7]; const row = document.querySelector('tr.chosen');"
        "row.querySelector('details').open = true;"
        "row.querySelector('details').dispatchEvent(new Event('toggle'));"
        "return [row.cells[0].textContent, row.querySelector('pre').textContent]"
    )
    seen = ask(page_html(layered_page(4)), tmp_path, script)
    assert seen.found == ["k7_sum", "loops of <kernel> 7"]
    assert seen.console == ()


@needs_browser
@pytest.mark.slow
def test_rows_are_sorted_by_what_is_pressed(tmp_path: Path) -> None:
    script = (
        "const times = () => rowsOf(sections[0]).map(r => +r.dataset.time);"
        "const press = document.querySelector('th button[data-key=time]');"
        "press.click(); const falling = times(); press.click(); return [falling, times()]"
    )
    falling, rising = ask(page_html(layered_page(4)), tmp_path, script).found
    assert falling == sorted(falling, reverse=True)
    assert rising == sorted(falling)


@needs_browser
@pytest.mark.slow
def test_thousands_of_kernels_can_be_searched(tmp_path: Path) -> None:
    script = f"{FIND} find_('k4321_'); return [rowsOf(sections[0]).length, {SHOWN}, {CHOSEN}]"
    seen = ask(page_html(layered_page(1667)), tmp_path, script)
    assert seen.found == [5001, ["k4321_sum"], [4321]]
    assert seen.console == ()
