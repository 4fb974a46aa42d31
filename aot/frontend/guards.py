"""The line that tells torch what a decision on a number is, in the names of the user's code."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any

import torch

from aot.frontend.places import is_users

RELATIONS: Mapping[str, tuple[str, str]] = {
    "Equality": ("==", "!="),
    "Unequality": ("!=", "=="),
    "StrictLessThan": ("<", ">="),
    "LessThan": ("<=", ">"),
    "StrictGreaterThan": (">", "<="),
    "GreaterThan": (">=", "<"),
}
"""torch's class of a condition -> how it is written, and its opposite."""

_ZEROS = re.compile(r"\b(\d+\.\d+?)0+\b")
_SYMBOL = re.compile(r"\b[a-z]+\d+\b")


def check_to_add(error: BaseException, where: str) -> str:
    """What to add, where a decision is on numbers that the user's code names; else "".

    Args:
        error: What torch raised.
        where: The place of the decision.
    """
    cond: Any = getattr(error, "cond", None)
    written = RELATIONS.get(type(cond).__name__)
    frame = _users_frame(error)
    if written is None or frame is None:
        return ""
    names = dict(_names_in(frame))
    sides = [_in_names(str(side), names) for side in cond.args]
    if None in sides:
        return ""
    holds, fails = (f"torch._check({sides[0]} {sign} {sides[1]})" for sign in written)
    file, number = frame.f_code.co_filename, int(where.rpartition(":")[2] or 0)
    line = linecache.getline(file, number).strip()
    if _raises(line, linecache.getline(file, number + 1)):
        return f"Add the line {fails} before `{line}`, which is what a run must not be."
    return (
        f"Add the line {holds} before `{line}` where that always is so, or {fails} where it never "
        "is. Where it varies, write the branch as torch.cond or torch.where."
    )


def _raises(line: str, following: str) -> bool:
    """Whether a line asks for something and what follows only raises: no run goes on there."""
    _, colon, rest = line.partition(":")
    body = rest.strip() or following.strip()
    return line.startswith("if ") and bool(colon) and body.startswith("raise")


def _users_frame(error: BaseException) -> FrameType | None:
    """The innermost frame of the user's code that the error passed."""
    found, trace = None, error.__traceback__
    while trace is not None:
        if is_users(trace.tb_frame.f_code.co_filename):
            found = trace.tb_frame
        trace = trace.tb_next
    return found


def _names_in(frame: FrameType) -> Iterator[tuple[str, str]]:
    """(torch's symbol, what the code calls it): numbers, and sizes of tensors."""
    named: list[tuple[str, Any]] = list(frame.f_locals.items())
    sizes: list[tuple[str, Any]] = [
        (f"{name}.shape[{axis}]", size)
        for name, value in named
        if isinstance(value, torch.Tensor)
        for axis, size in enumerate(value.shape)
    ]
    for name, value in (*sizes, *named):
        if isinstance(value, (torch.SymInt, torch.SymFloat)):
            yield str(value.node.expr), name


def _in_names(side: str, names: Mapping[str, str]) -> str | None:
    """An expression of torch's with the code's names; None where some symbol has none."""
    side = _ZEROS.sub(r"\1", side)
    if side in names:
        return names[side]
    symbols = set(_SYMBOL.findall(side))
    if not symbols <= names.keys():
        return None
    return _SYMBOL.sub(lambda found: names[found[0]], side)
