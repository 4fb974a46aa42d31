"""Fenced blocks of documents."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the file that it shows ("" for one to run), and its text."""

    language: str
    file: str
    text: str


def blocks(document: str) -> list[Block]:
    """The blocks of a document, a path in the repository, in order."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return [Block(*found) for found in BLOCK.findall(text)]
