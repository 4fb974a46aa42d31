"""The skeleton of every emitter of scalar expressions: what has been written, block by block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from aot.errors import InternalError
from aot.ir.scalar import Node

V = TypeVar("V")


class Scoped(ABC, Generic[V]):
    """Values of nodes by the block that they were written in; a block sees those around it.

    A node is written once in a block, after its operands, where it is first asked for.
    """

    def __init__(self) -> None:
        self._scopes: list[dict[Node, V]] = [{}]
        self._counter = 0

    @abstractmethod
    def operands(self, node: Node) -> tuple[Node, ...]:
        """The nodes whose values are written before this one's."""

    @abstractmethod
    def emit(self, node: Node) -> V:
        """Writes a node whose operands are there."""

    def fresh(self, prefix: str) -> str:
        """A name that the function does not use yet."""
        self._counter += 1
        return f"{prefix}{self._counter}"

    @contextmanager
    def block(self) -> Iterator[None]:
        """Values that are written inside end with it."""
        self._scopes.append({})
        yield
        self._scopes.pop()

    @contextmanager
    def reopened(self, values: dict[Node, V]) -> Iterator[None]:
        """As `block`; values are kept in `values`, and those that are there are known."""
        self._scopes.append(values)
        yield
        self._scopes.pop()

    def define(self, node: Node, value: V) -> None:
        """Makes `value` stand for `node` in the current block."""
        self._scopes[-1][node] = value

    def find(self, node: Node) -> V | None:
        """The value of a node that has been written in an open block."""
        for scope in reversed(self._scopes):
            if node in scope:
                return scope[node]
        return None

    def known(self, node: Node) -> V:
        """The same for a node that must be there.

        Raises:
            InternalError: No open block has a value of the node.
        """
        found = self.find(node)
        if found is None:
            raise InternalError(f"the value of {node!r} is used outside the loops that define it")
        return found

    def value(self, node: Node) -> V:
        """The node's value, writing what is missing in the current block."""
        stack = [node]
        while stack:
            top = stack[-1]
            missing = [a for a in self.operands(top) if self.find(a) is None]
            if self.find(top) is not None or top.op == "reduce":
                stack.pop()
            elif missing:
                stack.extend(reversed(missing))
            else:
                self.define(top, self.emit(top))
                stack.pop()
        return self.known(node)
