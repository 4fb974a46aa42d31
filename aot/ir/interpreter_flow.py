"""What control flow means, in NumPy: straight parts are run by a function that is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, Generic, TypeVar

import numpy as np

from aot.errors import InputMismatch
from aot.ir.flow import Branch, Copy, CustomCall, Flow, Measured, Repeat, Straight
from aot.ir.interpreter_templates import run_template
from aot.ir.tensors import ValueRef
from aot.symbolic import Expr, dim, evaluate

G = TypeVar("G")
Array = np.ndarray[Any, Any]
Operators = Mapping[str, Callable[..., Any]]
"""Custom operators by name: functions of the arguments by position, that return the results.

Kernels of the model's own are functions that fill those of their arguments."""


class FlowRun(Generic[G]):
    """One run: every buffer's array so far, and the sizes so far.

    `part`: runs a straight part on these. `allocate`: an array for a buffer by name, of the sizes
    so far. `operators`: what the model's custom operators mean.
    """

    def __init__(
        self,
        arrays: MutableMapping[str, Array],
        dims: MutableMapping[str, int],
        part: Callable[[G], None],
        allocate: Callable[[str], Array],
        operators: Operators | None = None,
    ) -> None:
        self.arrays, self.dims = arrays, dims
        self.part, self.allocate = part, allocate
        self._slices: set[str] = set()
        self.operators = operators or {}

    def run(self, flow: Flow[G]) -> None:
        """Runs the items in order.

        Raises:
            InputMismatch: A check finds false.
            KeyError: The model calls a custom operator that has no meaning here.
        """
        for item in flow:
            if isinstance(item, Straight):
                self.part(item.graph)
            elif isinstance(item, Branch):
                self.run(item.then if self._holds(item.predicate) else item.otherwise)
            elif isinstance(item, Repeat):
                self._repeat(item)
            elif isinstance(item, Copy):
                self._copy(item)
            elif isinstance(item, Measured):
                for name, buffer in item.sizes:
                    self.dims[name] = int(self.arrays[buffer])
                self.run(item.rest)
            elif isinstance(item, CustomCall):
                self.call(item)
            elif not self._holds(item.value):
                raise InputMismatch(item.message, where=str(item.origin))

    def _copy(self, item: Copy) -> None:
        if item.target in self._slices:
            self.arrays[item.target][...] = self.arrays[item.source]
        else:
            self.arrays[item.target] = self.arrays[item.source].copy()

    def _repeat(self, item: Repeat[G]) -> None:
        count = None if item.count is None else self._number(item.count)
        for s in item.slices:
            if s.source not in self.arrays:
                self.arrays[s.source] = self.allocate(s.source)
        self._slices.update(s.buffer for s in item.slices)
        turn = 0
        while self._again(item, turn, count):
            for s in item.slices:
                self.arrays[s.buffer] = self.arrays[s.source][turn, ...]
            self.run(item.body)
            turn += 1

    def call(self, item: CustomCall) -> None:
        """Calls the model's own code; a kernel is given its results to fill.

        Raises:
            KeyError: It has no meaning here.
        """
        if item.kernel is not None or item.template is not None:
            self.arrays.update((name, self.allocate(name)) for name in item.results)
        if item.template is not None:
            run_template(item.template, self.arrays, self.dims)
            return

        def value(argument: Any) -> Any:
            if isinstance(argument, tuple):
                return [value(part) for part in argument]
            if isinstance(argument, ValueRef):
                return self.arrays[argument.name]
            return self._number(argument) if hasattr(argument, "free_symbols") else argument

        made = self.operators[item.name](*(value(given) for _, _, given in item.arguments))
        if item.kernel is not None:
            return
        results = made if isinstance(made, (tuple, list)) else () if made is None else (made,)
        for name, result in zip(item.results, results, strict=True):
            self.arrays[name] = np.array(result, order="C")

    def _again(self, item: Repeat[G], turn: int, count: int | None) -> bool:
        if count is not None:
            return turn < count
        self.run(item.condition)
        return self._holds(item.predicate)

    def _number(self, expr: Expr) -> int:
        return int(evaluate(expr, {dim(name): value for name, value in self.dims.items()}))

    def _holds(self, name: str) -> bool:
        return bool(self.arrays[name].item())
