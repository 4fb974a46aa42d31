"""The table of operators: from result files to the page and to the terminal."""

from __future__ import annotations

import json

from aot.report.operators import Cell, coverage, coverage_text, from_json
from tools import operators as generator

RESULTS = {
    "cpu": {
        "add": {"float32": {"ok": 3}, "bool": {"ok": 1, "refused": {"why": 2}}},
        "sub": {"float32": {"ok": 1, "wrong": {"sub float32 #1": "off"}, "out": {"complex": 4}}},
        "fft": {"float32": {"ok": 0, "out": {"complex": 4}}},
    },
    "gpu": {"add": {"float32": {"ok": 2, "refused": {"why": 1}}}},
}


def test_cells_count_what_was_tried():
    table = generator.make_coverage(RESULTS)
    cells = {(row.operator, row.dtype): row.cells for row in table.rows}
    assert cells["add", "float32"] == (Cell(3, 3), Cell(2, 3))
    assert cells["sub", "float32"][0] == Cell(1, 2)
    assert ("fft", "float32") not in cells


def test_sums_are_by_type():
    totals = dict(generator.make_coverage(RESULTS).totals())
    assert totals["float32"][0] == Cell(4, 5)
    assert totals["bool"][0] == Cell(1, 3)


def test_reasons_name_their_operators():
    table = generator.make_coverage(RESULTS)
    assert [(r.column, r.reason, r.samples, r.operators) for r in table.refusals] == [
        ("cpu", "why", 2, ("add",)),
        ("gpu", "why", 1, ("add",)),
    ]


def test_tables_come_back_from_json():
    table = generator.make_coverage(RESULTS)
    assert from_json(json.loads(generator.json_text(table))) == table


def test_text_has_every_row_and_reason():
    text = coverage_text(generator.make_coverage(RESULTS))
    assert "add       float32  3/3  2/3" in text
    assert "     2  cpu  why" in text


def test_page_and_table_are_made_from_the_kept_results():
    table = generator.make_coverage(generator.read_results())
    advice = "run `python -m tools.operators`"
    assert generator.PAGE.read_text(encoding="utf-8") == generator.markdown(table), advice
    assert coverage() == table, advice
