"""Where a size that shall be dynamic becomes a constant while a model is traced.

torch says at the end which dimension it was, and not where. So the moment is heard at which it puts
a number in the place of a size: the line of the user's code that was running then, and the part of
it. What asks for a number there decides what its author can write instead.
"""

from __future__ import annotations

import dis
import linecache
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any
from unittest.mock import patch

from torch.fx.experimental.symbolic_shapes import ShapeEnv

from aot.errors import DynamicShapeError
from aot.frontend.places import is_users

_MARKED = re.compile(r"You marked (.+?) as dynamic but .* to be a constant \((\d+)\)")

_LOOPS = ("range(", "enumerate(", "zip(", "list(", "tuple(", "reversed(")
"""What begins a loop of Python's, or a list of as many elements as a size says."""

_TURNS = (
    "A loop of Python's turns as often as its example does: write it on the whole tensor, or as "
    "torch.while_loop (scan and map of torch._higher_order_ops turn as often as an input is long)."
)
_NUMBER = (
    "Where the line has a number that is the example's, write what it stands for "
    "(x.view(x.shape[0], -1) in place of x.view(8, -1))."
)
_COUNT = (
    "torch counts the elements of a shape in a plain number: write x.numel() for x.shape.numel(), "
    "and math.prod(x.shape[1:]) for x.shape[1:].numel()."
)
_DERIVATIVE = (
    "A rule of torch's for derivatives asks for this size as a number, as that of cumprod does "
    "along its line. Under torch.vmap: rows that do not depend on each other need none, as the "
    "derivative of their sum, torch.autograd.grad(f(x).sum(), x, create_graph=True), is each "
    "row's own; for second derivatives, so is that of the sum of each of its columns."
)
"""What to do."""

_TRANSFORMS = re.compile(r"torch/(_functorch|autograd)/")
"""torch's code of derivatives and of vmap."""


@dataclass(frozen=True)
class FixedSize:
    """A size of an input that became a number.

    Attributes:
        number: The number.
        place: "file:line" of the user's code.
        text: The part of that line which was running.
        loops: Whether that is a loop, or makes a list.
        derives: Whether torch was taking a derivative, or mapping over a batch, below that line.
        names: The global names of that code.
    """

    number: int
    place: str
    text: str
    loops: bool
    derives: bool
    names: dict[str, Any]


@contextmanager
def fixing() -> Iterator[Callable[[], tuple[FixedSize, ...]]]:
    """Inside of it, sizes that become constants are heard; the value tells them, in order."""
    heard: list[FixedSize] = []
    own = ShapeEnv._set_replacement
    caller = sys._getframe(2)  # past contextmanager's own

    def replaced(env: Any, symbol: Any, target: Any, message: str) -> None:
        own(env, symbol, target, message)
        found = _users_frame(caller) if target.is_Integer and str(symbol).startswith("s") else None
        if found is not None:
            heard.append(_fixed(int(target), *found))

    with patch.object(ShapeEnv, "_set_replacement", replaced):
        yield lambda: tuple(heard)


def _users_frame(caller: FrameType) -> tuple[FrameType, bool] | None:
    """The innermost of the model's code, and whether it called torch's derivatives.

    Who has the model traced is no part of it.
    """
    frame: FrameType | None = sys._getframe(2)
    derives = False
    while frame not in (None, caller) and not is_users(frame.f_code.co_filename):
        derives = derives or _TRANSFORMS.search(frame.f_code.co_filename) is not None
        frame = frame.f_back
    return None if frame is None or frame is caller else (frame, derives)


def _fixed(number: int, frame: FrameType, derives: bool) -> FixedSize:
    code = frame.f_code
    line, end, first, last = list(code.co_positions())[frame.f_lasti // 2]
    written = linecache.getline(code.co_filename, frame.f_lineno)
    # Columns count bytes.
    part = written.encode()[first:last].decode(errors="ignore") if line == end else ""
    text = part or written.strip()
    running = {i.offset: i.opname for i in dis.get_instructions(code)}.get(frame.f_lasti)
    loops = running in ("GET_ITER", "FOR_ITER") or text.startswith(_LOOPS)
    place = f"{code.co_filename}:{frame.f_lineno}"
    return FixedSize(number, place, text, loops, derives, frame.f_globals)


_COUNTED = re.compile(r"(shape(\[.*\])?|size\(\))\.numel\(\)$")
"""How a line asks a shape, and no tensor, for its number of elements."""


def _advice(fixed: FixedSize) -> str:
    """What its author can write instead."""
    if fixed.derives:
        return _DERIVATIVE
    if fixed.loops:
        return _TURNS
    return _COUNT if _COUNTED.search(fixed.text) else _NUMBER


def fixed_size_error(
    error: BaseException, fixed: tuple[FixedSize, ...]
) -> DynamicShapeError | None:
    """What torch's error says of a size that became a constant, with the line that did it.

    None where it is about something else, or no line of the user's code was running.
    """
    for marked, number in _MARKED.findall(str(error)):
        found = next((f for f in fixed if f.number == int(number)), None)
        if found is not None:
            advice = _advice(found)
            return DynamicShapeError(
                f"the model makes a constant ({number}) of the size {marked}, which shall be "
                f"dynamic, at `{found.text}`",
                where=found.place,
                advice=f"{advice} A dimension that is always {number} can be static.",
            )
    return None
