"""Several calls as one run: rows of all are joined, results are divided again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from aot_runtime.errors import AotError

if TYPE_CHECKING:
    from aot_runtime.model import Model

Arrays = dict[str, "np.ndarray"]
"""Inputs or outputs by name."""


class JoinedCalls:
    """Runs calls of a model together where its first dimension counts independent rows.

    That is so where every input and output begins with one dynamic dimension of the same label, and
    nothing is kept between runs; other models run call by call.

    Attributes:
        most: The greatest number of rows of one run; 1 where calls are not joined.
    """

    def __init__(self, model: Model, max_rows: int) -> None:
        self._model = model
        self.most = min(max_rows, _most_rows(model))

    def run(self, calls: Sequence[Mapping[str, Any]]) -> list[Arrays | AotError]:
        """The outputs of each call, or why it failed, in order. One call's failure is its own."""
        results: list[Arrays | AotError | None] = [None] * len(calls)
        for group in self._groups(calls):
            for index, result in zip(group, self._together([calls[i] for i in group]), strict=True):
                results[index] = result
        return [result for result in results if result is not None]

    def _groups(self, calls: Sequence[Mapping[str, Any]]) -> Iterator[list[int]]:
        """Calls whose arrays are alike but for rows, of at most `most` rows together."""
        open_groups: dict[object, tuple[list[int], int]] = {}
        for index, call in enumerate(calls):
            rows = _rows_of(call)
            if self.most == 1 or rows == 0:
                yield [index]
                continue
            kind = _kind_of(call)
            group, total = open_groups.get(kind, ([], 0))
            if group and total + rows > self.most:
                yield group
                group, total = [], 0
            open_groups[kind] = ([*group, index], total + rows)
        yield from (group for group, _ in open_groups.values())

    def _together(self, calls: Sequence[Mapping[str, Any]]) -> list[Arrays | AotError]:
        if len(calls) > 1:
            joined = {name: np.concatenate([call[name] for call in calls]) for name in calls[0]}
            try:
                return _divided(self._model.run_named(joined), [_rows_of(c) for c in calls])
            except AotError:
                pass  # one of them, or all together: alone each says for itself
        return [self._alone(call) for call in calls]

    def _alone(self, call: Mapping[str, Any]) -> Arrays | AotError:
        try:
            outputs: Arrays = self._model.run_named(call)
        except AotError as error:
            return error
        return outputs


def _most_rows(model: Model) -> int:
    """How many rows one run may have; 1 where rows are not known to be independent."""
    tensors = (*model.inputs, *model.outputs)
    first = [info.dims[0] if info.dims else None for info in tensors]
    labels = {dim.label if dim and dim.size is None else None for dim in first}
    if model.states or not model.inputs or None in labels or len(labels) != 1:
        return 1
    limits = [dim.max for dim in first if dim and dim.max is not None]
    return min(limits, default=2**31)


def _rows_of(call: Mapping[str, Any]) -> int:
    """The rows that all arrays of a call have; 0 where they do not agree, or it has none."""
    counts = {np.shape(array)[:1] for array in call.values()}
    return int(next(iter(counts))[0]) if len(counts) == 1 and () not in counts else 0


def _kind_of(call: Mapping[str, Any]) -> object:
    return tuple(sorted((name, str(a.dtype), np.shape(a)[1:]) for name, a in call.items()))


def _divided(outputs: Arrays, rows: Sequence[int]) -> list[Arrays | AotError]:
    cuts = np.cumsum(rows)[:-1]
    parts = {name: np.split(array, cuts) for name, array in outputs.items()}
    return [{name: part[i] for name, part in parts.items()} for i in range(len(rows))]
