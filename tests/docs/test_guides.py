"""The guides are true: what can run of each is run in page order, in a folder of its own.

`python` blocks run in one namespace, `sh` blocks in a shell; a block with a file's name is written
to that file; `cpp` blocks compile. `console` blocks are shown only: what needs a GPU, another
project or the network.
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from tests.blocks import ROOT, Block, blocks

GUIDES = sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "docs/guides").glob("*.md"))
COMPILE = ("g++", "-std=c++17", "-Wall", "-Werror", "-fsyntax-only", "-x", "c++")
KINDS = {"python", "sh", "cpp", "console"}


def test_there_are_guides() -> None:
    assert len(GUIDES) > 10


@pytest.mark.parametrize("guide", GUIDES)
def test_every_block_is_of_a_known_kind(guide: str) -> None:
    assert {block.language for block in blocks(guide)} <= KINDS


@pytest.mark.slow
@pytest.mark.parametrize("guide", GUIDES)
def test_blocks_run_in_order(guide: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "guide"}
    for number, block in enumerate(blocks(guide)):
        if block.file:
            (tmp_path / block.file).write_text(block.text, encoding="utf-8")
        if block.language == "cpp":
            compiles(block)
        elif block.language == "sh":
            run_shell(block, tmp_path)
        elif block.language == "python" and not block.file:
            # In a file, so that torch and errors find its lines.
            source = tmp_path / f"block{number}.py"
            source.write_text(block.text, encoding="utf-8")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(compile(block.text, str(source), "exec"), names)


def run_shell(block: Block, folder: Path) -> None:
    tools = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": tools + os.pathsep + os.environ["PATH"]}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.text],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{block.text}\n{done.stdout}{done.stderr}"


def compiles(block: Block) -> None:
    done = subprocess.run(
        [*COMPILE, f"-I{ROOT / 'cpp/include'}", "-"],
        input=block.text,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{block.text}\n{done.stderr}"
