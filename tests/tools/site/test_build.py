"""What is staged for Sphinx: every document once, with its links, and the pages of sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.blocks import ROOT
from tools.site.build import made_pages, pages, stage, staged

KNOWN = {"docs/a.md": "a.md", "docs/adr/README.md": "adr/README.md"}


def test_documents_of_the_repository_are_pages() -> None:
    found = pages(ROOT)
    assert found["README.md"] == "project/readme.md"
    assert found["docs/adr/0001-package-container.md"] == "adr/0001-package-container.md"
    assert found["benchmarks/results/growth.md"] == "figures/growth.md"
    assert found["examples/cpp_hello/README.md"] == "examples/cpp_hello.md"
    assert len(set(found.values())) == len(found)


def test_fences_have_languages_alone() -> None:
    text = "```cpp examples/a.cc\nint x;\n```\n```sh\nls\n```\n"
    made = staged(text, "docs/a.md", KNOWN, ROOT)
    assert made == "```cpp\nint x;\n```\n```bash\nls\n```\n"


def test_pages_that_are_not_there_yet_leave_the_contents(tmp_path: Path) -> None:
    contents = "```{toctree}\nguides/start\nserving\n```\n"
    assert "serving" not in staged(contents, "docs/a.md", KNOWN, tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/serving.md").write_text("# Serving\n")
    assert "serving\n" in staged(contents, "docs/a.md", KNOWN, tmp_path)


def test_decisions_are_in_no_contents_but_on_their_page() -> None:
    decisions = sorted(p.name for p in (ROOT / "docs/adr").glob("0*.md"))
    page = (ROOT / "docs/adr/README.md").read_text(encoding="utf-8")
    assert [name for name in decisions if f"]({name})" not in page] == []
    for name in decisions:
        assert staged("# A\n", f"docs/adr/{name}", KNOWN, ROOT) == "---\norphan: true\n---\n\n# A\n"
    assert staged("# Decisions\n", "docs/adr/README.md", KNOWN, ROOT) == "# Decisions\n"


@pytest.mark.slow
def test_all_is_staged(tmp_path: Path) -> None:
    folder = tmp_path / "source"
    stage(ROOT, folder)
    assert (folder / "conf.py").is_file()
    for place in (*pages(ROOT).values(), *made_pages(ROOT)):
        assert (folder / place).is_file(), place
    readme = (folder / "project/readme.md").read_text(encoding="utf-8")
    assert "](../architecture.md)" in readme
    assert "](aot/api.py)" not in readme
