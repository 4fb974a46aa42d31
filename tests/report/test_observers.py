"""Observers see every stage, in order, and write what they are told to."""

import io
from pathlib import Path

from rich.console import Console

from aot.report.observers import Dump, Keep, Several, Silent
from aot.report.progress import Progress


def two_stages(observer) -> None:
    observer.stage_begin("capture")
    observer.stage_end("capture", "value", 0.5)
    observer.stage_begin("lower")
    observer.stage_end("lower", 7, 0.25)


def test_keeping_and_silence() -> None:
    kept = Keep()
    two_stages(Several([Silent(), kept]))
    assert [(t.stage, t.seconds) for t in kept.timings] == [("capture", 0.5), ("lower", 0.25)]
    assert kept.values == {"capture": "value", "lower": 7}


def test_dump_writes_a_file_for_each_text(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "dump"

    def to_text(value: object) -> dict[str, str]:
        return {"txt": f"<{value}>"} if value == "value" else {"cc": "int x;", "txt": "n"}

    two_stages(Dump(folder, to_text))
    texts = {path.name: path.read_text() for path in folder.iterdir()}
    assert texts == {"01_capture.txt": "<value>", "02_lower.cc": "int x;", "02_lower.txt": "n"}


def test_progress_in_a_log_is_one_line_a_stage() -> None:
    out = io.StringIO()
    with Progress(Console(file=out)) as progress:
        two_stages(progress)
    assert out.getvalue() == "[ 1/11] capture      500 ms\n[ 3/11] lower        250 ms\n"


def test_progress_on_a_terminal_is_live() -> None:
    out = io.StringIO()
    with Progress(Console(file=out, force_terminal=True)) as progress:
        two_stages(progress)
    assert "lower" in out.getvalue()
    assert "\x1b[" in out.getvalue()
