"""Text that several templates write."""

from __future__ import annotations

from aot.backends.triton.text import joined, taken_apart


def test_tensors_are_taken_apart_in_the_order_in_which_they_are_joined() -> None:
    assert joined(["a0", "a1", "a2", "a3"]) == "tl.join(tl.join(a0, a2), tl.join(a1, a3))"
    lines: list[str] = []
    assert taken_apart(lines.append, "x", 4) == ["xee", "xoe", "xeo", "xoo"]
    assert lines == ["xe, xo = tl.split(x)", "xee, xeo = tl.split(xe)", "xoe, xoo = tl.split(xo)"]
