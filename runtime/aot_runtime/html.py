"""Tables for notebooks: what `_repr_html_` of models and reports gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with a line above it; every text in it is escaped."""
    head = "".join(f'<th style="text-align:left">{escape(c)}</th>' for c in columns)
    body = "".join(
        "<tr>"
        + "".join(f'<td style="text-align:left">{escape(str(cell))}</td>' for cell in row)
        + "</tr>"
        for row in rows
    )
    return (
        f"<div>{escape(caption)}</div>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )
