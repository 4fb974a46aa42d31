"""`explain`: the text is golden; the page holds the same facts, escaped."""

import dataclasses
import json

from aot.report.explain import explain_text
from aot.report.html import explain_html
from aot.report.model import Roofline
from tests.report.samples import sample_report, wide_report


def test_text(golden) -> None:
    golden("text.txt", explain_text(sample_report(), Roofline(1e10, 1e11)))


def test_several_programs_are_told_one_after_the_other(golden) -> None:
    text = explain_text(wide_report(), Roofline(1e10, 1e11))
    golden("wide.txt", text)
    # The roofline is the host's: it says nothing about a device.
    assert "at least" not in text.partition("cuda:sm_90: ")[2]


def test_page_of_several_programs() -> None:
    page = explain_html(wide_report())
    assert "<h2>cpu:x86-64-v3+x86-64-v4</h2>" in page
    assert "<h2>cuda:sm_90</h2>" in page
    assert page.count(">least time</button>") == 1
    assert "k0_all" in page


def test_without_a_machine_there_are_no_times() -> None:
    assert "at least" not in explain_text(sample_report())


def test_page_holds_every_kernel_and_decision_escaped() -> None:
    page = explain_html(sample_report())
    for word in ("k0_add_sum", "k1_mm_gelu", "model.py:12", "not fused", "1.05 MB", "134 M"):
        assert word in page
    assert "F.gelu(&lt;y&gt;)" in page
    assert "<y>" not in page
    assert page.count("<summary>loops</summary>") == 2


def test_page_of_a_model_without_kernels() -> None:
    report = sample_report()
    program = dataclasses.replace(report.programs[0], kernels=(), decisions=())
    empty = dataclasses.replace(report, programs=(program,))
    assert "0 operators in 0 kernels" in explain_html(empty)


def test_report_as_json() -> None:
    value = json.loads(json.dumps(sample_report().to_json()))
    assert value["output"] == "sample.pkg"
    (program,) = value["programs"]
    assert program["target"] == "cpu:x86-64-v3+x86-64-v4"
    assert program["kernels"][0]["origins"][0]["line"] == 12
    assert "text" not in program["kernels"][0]
    assert program["decisions"][1]["verdict"] == "not fused"
