"""Docstrings of the sources as reStructuredText, for autodoc.

They are in Google's form, without types (annotations have those), and mark code by one backtick.
An entry ``size: bytes of `data`.`` of the arguments becomes a field, ``:param size: …``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

FIELDS = {
    "Args:": ":param {name}: {text}",
    "Raises:": ":raises {name}: {text}",
    "Attributes:": "* ``{name}``: {text}",
}
"""Heading -> what each of its entries becomes."""

RETURNS = "Returns:"
_ENTRY = re.compile(r"(?P<name>[\w.*, ]+): *(?P<text>.*)")
_CODE = re.compile(r"``[^`]+``|`([^`]+)`")


def restructured(lines: Sequence[str]) -> list[str]:
    """The lines of a docstring, of which autodoc has taken the margin away."""
    made: list[str] = []
    heading, block = "", list[str]()
    for line in [*lines, "End:"]:
        if line and not line.startswith(" ") and heading:
            made += ["", *_section(heading, block), ""]
            heading, block = "", []
        if line in FIELDS or line == RETURNS:
            heading = line
        elif heading:
            block.append(line)
        else:
            made.append(line if line.startswith(">>>") else _inline(line))
    return made[:-1]


def _section(heading: str, block: Sequence[str]) -> Iterator[str]:
    if heading == RETURNS:
        yield _inline(":returns: " + " ".join(line.strip() for line in block).strip())
        return
    entries: list[str] = []
    for line in filter(str.strip, block):
        if len(line) - len(line.lstrip()) > 4 and entries:
            entries[-1] += " " + line.strip()
        else:
            entries.append(line.strip())
    for entry in entries:
        found = _ENTRY.fullmatch(entry)
        names = found["name"].split(", ") if found else [""]
        text = _inline(found["text"] if found else entry)
        for name in names:
            yield FIELDS[heading].format(name=name, text=text) if found else f":raises: {text}"


def _inline(line: str) -> str:
    """Code by two backticks; signs that would begin emphasis or a reference mean themselves."""
    parts, end = "", 0
    for found in _CODE.finditer(line):
        parts += re.sub(r"([*|]|_\b)", r"\\\1", line[end : found.start()])
        parts += f"``{found[0].strip('`')}``"
        end = found.end()
    return parts + re.sub(r"([*|]|_\b)", r"\\\1", line[end:])
