"""Docstrings of the sources become reStructuredText."""

from __future__ import annotations

from tools.site.docstrings import restructured

TEXT = """Runs `x`, with **kwargs.

Args:
    size: bytes: of `data`,
        counted.
    other: the rest.

Returns:
    One of: a, `b`.

Raises:
    NotFound, Refused: no such
        file.
"""


def test_sections_become_fields() -> None:
    assert [line for line in restructured(TEXT.splitlines()) if line] == [
        "Runs ``x``, with \\*\\*kwargs.",
        ":param size: bytes: of ``data``, counted.",
        ":param other: the rest.",
        ":returns: One of: a, ``b``.",
        ":raises NotFound: no such file.",
        ":raises Refused: no such file.",
    ]


def test_attributes_are_a_list() -> None:
    made = restructured(["Limits.", "", "Attributes:", "    a: First.", "    b: Second."])
    assert [line for line in made if line] == ["Limits.", "* ``a``: First.", "* ``b``: Second."]


def test_text_behind_a_section_is_text_again() -> None:
    made = restructured(["Args:", "    a: First.", "", "More."])
    assert made[-1] == "More."


def test_examples_are_left_alone() -> None:
    assert restructured([">>> f(*x)"]) == [">>> f(*x)"]
