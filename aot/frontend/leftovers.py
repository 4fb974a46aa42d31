"""What a piece of Python leaves behind besides tensors: names and objects that have changed.

A loop whose body leaves nothing behind but what it writes into tensors may be traced for turns
that a run does not make. `Watched` is told when the loop begins, and says after each turn what has
changed of what can be reached from the functions that are being called and from their arguments.
"""

from __future__ import annotations

import dis
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any

import torch

from aot.frontend.places import is_users

_FAST = re.compile(r"(LOAD|STORE|DELETE)_FAST")
_JUMPS = {*dis.hasjrel, *dis.hasjabs}
_LEAVES = (
    *("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"),
    *("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"),
)
"""Instructions that the next one does not follow."""

_ALL_NAMES = {"locals", "vars", "eval", "exec", "dir"}
"""Functions that read a function's names without its code saying which."""

_FOREIGN = {*sys.stdlib_module_names, "torch", "numpy", "aot", "aot_runtime"}
"""Modules whose classes and objects hold nothing of the model's own."""


def names_read_later(code: CodeType, offset: int, *, swallowed: bool = True) -> frozenset[str]:
    """Local names that may be read, from that instruction on, before they are written again.

    `swallowed`: also where a `with` block ends the exception that is raised in it.
    """
    steps = list(dis.get_instructions(code))
    if _ALL_NAMES.intersection(code.co_names):
        return frozenset((*code.co_varnames, *code.co_cellvars, *code.co_freevars))
    number = {step.offset: k for k, step in enumerate(steps)}
    after: list[list[int]] = [[] for _ in steps]
    for k, step in enumerate(steps):
        if step.opname not in _LEAVES and k + 1 < len(steps):
            after[k].append(k + 1)
        if step.opcode in _JUMPS:
            after[k].append(number[step.argval])
    for entry in dis.Bytecode(code).exception_entries:  # type: ignore[attr-defined]
        for k, step in enumerate(steps):
            handler = number[entry.target]
            of_with = any(s.opname == "WITH_EXCEPT_START" for s in steps[handler : handler + 3])
            if entry.start <= step.offset < entry.end and (swallowed or not of_with):
                after[k].append(handler)
    live: list[frozenset[str]] = [frozenset() for _ in steps]
    changed = True
    while changed:
        changed = False
        for k in range(len(steps) - 1, -1, -1):
            found = frozenset().union(*(live[n] for n in after[k]))
            found = _before(steps[k], found)
            changed |= found != live[k]
            live[k] = found
    return live[number[offset]]


def _before(step: dis.Instruction, live: frozenset[str]) -> frozenset[str]:
    """Names that are read later, before the instruction, given those after it."""
    verbs = _FAST.findall(step.opname)
    names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
    for verb, name in reversed(list(zip(verbs, names, strict=False))):
        live = live | {name} if verb == "LOAD" else live - {name}
    return live


@dataclass(frozen=True)
class _Seen:
    """A container: what it held, in order, and how the user's code reaches it."""

    container: Any
    held: tuple[Any, ...]
    path: str


@dataclass
class Reached:
    """Containers that are reached from what was walked, as they were then."""

    _objects: list[_Seen] = field(default_factory=list)
    _known: set[int] = field(default_factory=set)

    def walk(self, *roots: tuple[Any, str, bool]) -> None:
        """Note containers: (object, path, whether what is in them is walked too)."""
        waiting = deque(roots)
        while waiting:
            value, path, deeper = waiting.popleft()
            if id(value) in self._known or not _is_container(value):
                continue
            self._known.add(id(value))
            held = _held(value)
            self._objects.append(_Seen(value, held, path))
            if deeper:
                waiting += ((inner, _path(value, path, k), True) for k, inner in enumerate(held))
            else:
                plain = (v for v in held if isinstance(v, dict | list | set | deque))
                waiting += ((inner, path, False) for inner in plain)

    def change(self) -> str:
        """What is not as it was, in words; "" where nothing is."""
        for seen in self._objects:
            if not _same(seen.held, _held(seen.container)):
                return f"what is in {seen.path}"
        return ""

    def held(self) -> Iterator[Any]:
        """All that the containers held."""
        return (h for seen in self._objects for h in seen.held)


@dataclass
class Watched:
    """Names and objects as they were when a loop began.

    Attributes:
        frame: Of the function that has the loop.
        offset: Of the loop's instruction FOR_ITER.
    """

    frame: FrameType
    offset: int
    _names: list[tuple[FrameType, Mapping[str, Any]]] = field(default_factory=list)
    _reached: Reached = field(default_factory=Reached)

    def __post_init__(self) -> None:
        """Look at everything once."""
        self._names = [(f, dict(f.f_locals)) for f in _callers(self.frame)]
        for _, names in self._names:
            self._reached.walk(*((value, name, True) for name, value in names.items()))
        for frame, _ in self._names:
            self._reached.walk((frame.f_globals, "the module's names", False))

    @property
    def line(self) -> int:
        """Of the loop, in its file."""
        lines = dis.findlinestarts(self.frame.f_code)
        return max((n for at, n in lines if n and at <= self.offset), default=0)

    def change(self) -> str:
        """What is not as it was, in words; "" where nothing is."""
        for frame, names in self._names:
            now = frame.f_locals
            other = {n for n in {*names, *now} if names.get(n, _NONE) is not now.get(n, _NONE)}
            if frame is self.frame:
                other = {n for n in other if self._matters(n, now.get(n))}
            if other:
                return f"the name {min(other)!r}"
        return self._reached.change()

    def _matters(self, name: str, value: Any) -> bool:
        """Whether what a turn has named is read by another turn, or after the loop.

        A tensor that the turn has made may be read where a `with` block swallows an exception: in
        the program it is then a value of one turn in another (`turns.settle`).
        """
        code = self.frame.f_code
        if name in (*code.co_cellvars, *code.co_freevars):
            return True
        if isinstance(value, torch.Tensor) and not self._knows(value):
            return name in names_read_later(code, self.offset, swallowed=False)
        return name in names_read_later(code, self.offset)

    def _knows(self, value: Any) -> bool:
        """Whether the object was there before the loop."""
        named = (v for _, names in self._names for v in names.values())
        return any(v is value for v in (*named, *self._reached.held()))


_NONE = object()


def _callers(frame: FrameType | None) -> Iterator[FrameType]:
    """The frame, and those of the user's code from which it is called while a model is traced."""
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            yield frame
        elif frame.f_code.co_filename.endswith(_BEGIN):
            return
        frame = frame.f_back


_BEGIN = "aot/frontend/capture.py"


def _is_container(value: object) -> bool:
    """Whether it can change or holds what can, and is the user's."""
    if isinstance(value, dict | list | tuple | set | frozenset | deque | MethodType):
        return True
    if isinstance(value, FunctionType):
        return value.__module__.partition(".")[0] not in _FOREIGN
    if isinstance(value, torch.nn.Module) or hasattr(type(value), "__next__"):
        return True
    if isinstance(value, torch.Tensor | torch.SymInt | torch.SymFloat | torch.SymBool):
        return False
    of = value if isinstance(value, type) else type(value)
    return hasattr(value, "__dict__") and of.__module__.partition(".")[0] not in _FOREIGN


def _held(value: Any) -> tuple[Any, ...]:
    """What a container holds, in order; of an iterator, whose place cannot be seen, a new thing."""
    if isinstance(value, dict):
        return (*value.keys(), *value.values())
    if isinstance(value, list | tuple | set | frozenset | deque):
        return tuple(value)
    if isinstance(value, MethodType):
        return (value.__self__, value.__func__)
    if isinstance(value, FunctionType):
        cells = (_of_cell(cell) for cell in value.__closure__ or ())
        return (*cells, value.__defaults__, value.__kwdefaults__, vars(value))
    if hasattr(type(value), "__next__"):
        return (object(),)
    if isinstance(value, type):
        return tuple(vars(value).values())
    return (vars(value), type(value))


def _of_cell(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # A name that is not bound yet.
        return _NONE


def _same(before: Iterable[Any], now: Iterable[Any]) -> bool:
    before, now = tuple(before), tuple(now)
    return len(before) == len(now) and all(a is b for a, b in zip(before, now, strict=True))


def _path(value: Any, path: str, number: int) -> str:
    if isinstance(value, dict):
        keys = list(value)
        return f"{path}.{keys[number % len(keys)]}"
    return f"{path}[{number}]" if isinstance(value, list | tuple | deque) else path
