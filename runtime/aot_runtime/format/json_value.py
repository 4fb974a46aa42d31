"""Values of the plan's JSON: read with their path, so that every complaint can say where."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from aot_runtime.format.errors import CorruptPackage
from aot_runtime.format.plan import Expr

T = TypeVar("T")


class JsonValue:
    """A JSON value with its path, so that every complaint can say where.

    Every reader raises CorruptPackage when the value is of another kind.
    """

    def __init__(self, value: object, path: str, where: str = "entry plan") -> None:
        self.value = value
        self.path = path
        self.where = where

    def wrong(self, wanted: str) -> CorruptPackage:
        """The error for a value that is not `wanted`."""
        shown = json.dumps(self.value, default=str)[:60]
        return CorruptPackage(f"{self.path} must be {wanted}, not {shown}", where=self.where)

    def __getitem__(self, key: str) -> JsonValue:
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        if key not in self.value:
            raise CorruptPackage(f"{self.path} has no key {key!r}", where=self.where)
        return JsonValue(self.value[key], f"{self.path}.{key}", self.where)

    def has(self, key: str) -> bool:
        """True for an object with this key."""
        return isinstance(self.value, dict) and key in self.value

    def each(self, read: Callable[[JsonValue], T]) -> tuple[T, ...]:
        """A list's items, each read by `read`."""
        if not isinstance(self.value, list):
            raise self.wrong("a list")
        return tuple(
            read(JsonValue(v, f"{self.path}[{i}]", self.where)) for i, v in enumerate(self.value)
        )

    def members(self) -> list[tuple[str, JsonValue]]:
        """An object's members in order."""
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        return [
            (key, JsonValue(v, f"{self.path}[{key!r}]", self.where))
            for key, v in self.value.items()
        ]

    def integer(self) -> int:
        """The integer; a bool is none."""
        if not isinstance(self.value, int) or isinstance(self.value, bool):
            raise self.wrong("an integer")
        return self.value

    def boolean(self) -> bool:
        """True or false."""
        if not isinstance(self.value, bool):
            raise self.wrong("true or false")
        return self.value

    def number(self) -> float:
        """The number as a float."""
        if not isinstance(self.value, int | float) or isinstance(self.value, bool):
            raise self.wrong("a number")
        return float(self.value)

    def text(self) -> str:
        """The string."""
        if not isinstance(self.value, str):
            raise self.wrong("a string")
        return self.value

    def one_of(self, *choices: str) -> str:
        """The string, which must be one of these."""
        if self.value not in choices:
            raise self.wrong("one of " + ", ".join(choices))
        return str(self.value)

    def expr(self) -> Expr:
        """The expression; its shape is checked by `check_plan`."""
        if isinstance(self.value, str):
            return self.value
        if isinstance(self.value, list):
            return self.each(JsonValue.expr)
        return self.integer()


def expr_to_json(expr: Expr) -> int | str | list[Any]:
    """The expression as docs/format.md writes it."""
    return [expr_to_json(e) for e in expr] if isinstance(expr, tuple | list) else expr
