"""The README's blocks are true: files shown are the files that exist, commands and programs run.

A block headed by a language and a path shows that file; `sh` and `python` blocks run in order in
the checkout; `console` blocks are shown only.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.blocks import BLOCK, Block, blocks
from tests.examples.building import installed_runtime

ROOT = Path(__file__).parents[1]


def documents() -> list[Path]:
    return [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]


RUN = ("README.md", "docs/custom-operators.md")
"""Documents whose blocks are run."""

SHOWN = [block for document in RUN for block in blocks(document) if block.file]


@pytest.mark.parametrize("block", SHOWN, ids=lambda b: b.file)
def test_shown_files_are_the_real_ones(block: Block) -> None:
    assert block.text == (ROOT / block.file).read_text(encoding="utf-8")


@pytest.mark.parametrize("document", RUN)
def test_every_block_is_of_a_known_kind(document: str) -> None:
    kinds = {block.language for block in blocks(document) if not block.file}
    assert kinds <= {"sh", "python", "console"}


@pytest.mark.slow
@pytest.mark.parametrize("document", RUN)
def test_commands_and_programs_run_in_order(document: str) -> None:
    tools = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": tools + os.pathsep + os.environ["PATH"]}
    if document == "README.md":
        installed_runtime()  # in the folder that the README names: other tests need it too
    for block in blocks(document):
        if block.file or block.language == "console":
            continue
        command = ["bash", "-euo", "pipefail", "-c"] if block.language == "sh" else ["python", "-c"]
        done = subprocess.run(
            [*command, block.text],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{block.text}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("document", documents(), ids=lambda p: str(p.relative_to(ROOT)))
def test_links_point_at_files(document: Path) -> None:
    text = BLOCK.sub("", document.read_text(encoding="utf-8"))  # a lambda in C++ is no link
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    local = [t for t in targets if not t.startswith(("http://", "https://"))]
    missing = [target for target in local if not (document.parent / target).exists()]
    assert missing == []


def test_make_help_lists_every_target_of_the_readme() -> None:
    shown = subprocess.run(
        ["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    named = set(re.findall(r"\bmake ([a-z-]+)", (ROOT / "README.md").read_text(encoding="utf-8")))
    assert named
    assert all(f"make {target} " in shown for target in named)


def test_the_glossary_says_where_words_are_defined() -> None:
    text = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| ")]
    places = [re.findall(r"`([^`]+)`", row[3]) for row in rows if row[3].strip() != "defined in"]
    assert len(places) > 50
    for file, name in places:
        source = (ROOT / file).read_text(encoding="utf-8")
        assert re.search(rf"\b{name}\b", source), f"{file} has no {name}"


def test_the_glossary_has_each_word_once() -> None:
    text = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    words = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")]
    words = [word for word in words if word != "word"]
    assert sorted(set(words)) == sorted(words)
