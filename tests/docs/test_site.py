"""The site as a whole: it builds without warnings, and every page is in its contents."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.blocks import ROOT


@pytest.mark.slow
def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.site.build", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.strip() == ""  # a page in no table of contents is a warning too
    pages = {p.relative_to(tmp_path / "site").as_posix() for p in tmp_path.rglob("*.html")}
    assert {
        "index.html",
        "search.html",
        "guides/start.html",
        "reference/c.html",
        "reference/commands.html",
        "project/changelog.html",
        "adr/0001-package-container.html",
    } <= pages
    reference = (tmp_path / "site/reference/python.html").read_text(encoding="utf-8")
    assert 'id="aot_runtime.Model.replace_weights"' in reference
    assert "Where the model runs" in reference
