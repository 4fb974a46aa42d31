"""torch.export without the work that is the same for every model: most of a small export's time.

What is exported stays the same. Nothing of torch is changed but how often it does something again.
"""

from __future__ import annotations
import __future__

import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any


@cache
def ease_export() -> None:
    """Changes torch in this process, for all tests."""
    from torch import _C, ops
    from torch._export import utils  # takes long, and only what runs tests needs it
    from torch._ops import OperatorBase
    from torch.export import exported_program

    from aot.frontend import capture
    from aot.lowering.families import rows

    def composites() -> list[str]:
        return _C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")

    def operators() -> Any:
        return composites(), {name: len(getattr(vars(ops)[name], "_dir", ())) for name in ops._dir}

    utils._materialize_cpp_cia_ops = when_changed(composites, utils._materialize_cpp_cia_ops)
    # Called some ten thousand times for a model, and makes types of its annotations each time.
    OperatorBase.py_impl = without_annotations(OperatorBase.py_impl)
    # Some hundred operators, looked at twice for a model; then their tables are changed and undone.
    collected = remembered(operators, exported_program._collect_all_valid_cia_ops)
    exported_program._collect_all_valid_cia_ops = collected
    override = exported_program._override_composite_implicit_decomp
    exported_program._override_composite_implicit_decomp = Overriding(override)
    table = remembered(lambda: (operators(), set(rows())), capture.decomposition_table)
    capture.decomposition_table = lambda: dict(table())  # torch takes away from it


def when_changed(state: Callable[[], Any], act: Callable[[], None]) -> Callable[[], None]:
    """`act`, left out while `state` gives what it gave the last time."""
    last: list[Any] = [None]

    def acting() -> None:
        now = state()
        if now != last[0]:
            act()
            last[0] = now

    return acting


def remembered(state: Callable[[], Any], make: Callable[[], Any]) -> Callable[[], Any]:
    """What `make` gave, while `state` gives what it gave then. Nobody may change it."""
    last: list[Any] = []

    def remembering() -> Any:
        if not last or last[0] != state():
            made = make()  # which may add to the state
            last[:] = [state(), made]
        return last[1]

    return remembering


Tables = list[dict[Any, Any]]


@dataclass(frozen=True)
class _Overridden:
    """What an override was asked for, what it found, and what it made of that.

    `keys`: of which devices. `rules`: how fake tensors run the operators; there were none before.
    """

    wanted: Mapping[Any, Any]
    keys: list[Any]
    before: Tables
    after: Tables
    rules: Mapping[Any, Any]


class Overriding:
    """torch's override of composite operators, whose effect on tables is copied the next time.

    `original`: entered with a function for each operator, it changes the operators' tables, and
    leaves them as they were.
    """

    def __init__(self, original: Callable[[Any], AbstractContextManager[None]]) -> None:
        self._original = original
        self._last: _Overridden | None = None

    @contextmanager
    def __call__(self, wanted: Mapping[Any, Any]) -> Iterator[None]:
        from torch._subclasses import fake_impls
        from torch.export import exported_program as lists

        keys = [lists._AUTOGRAD_ALIAS_BACKEND_KEYS_TO_OVERRIDE, lists._BACKEND_KEYS_TO_OVERRIDE]
        rules = fake_impls.op_implementations_dict
        last, found = self._last, [op.py_kernels for op in wanted]
        free = not any(op in rules for op in wanted)
        same = last is not None and list(wanted.items()) == list(last.wanted.items())
        same = same and last is not None and keys == last.keys
        if last and free and same and found == last.before:
            _put(last.wanted, last.after)
            rules.update(last.rules)
            try:
                yield
            finally:
                _put(last.wanted, last.before)
                for op in last.wanted:
                    fake_impls._deregister_op_impl(op)
            return
        before = [dict(table) for table in found]
        with self._original(wanted):
            if free:
                after = [dict(op.py_kernels) for op in wanted]
                made = {op: rules[op] for op in wanted if op in rules}
                self._last = _Overridden(dict(wanted), keys, before, after, made)
            yield


def _put(operators: Mapping[Any, Any], tables: Tables) -> None:
    for op, table in zip(operators, tables, strict=True):
        op.py_kernels.clear()
        op.py_kernels.update(table)
        op._dispatch_cache.clear()


def without_annotations(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of the same source, whose inner functions' annotations are never evaluated."""
    text = textwrap.dedent(inspect.getsource(function))
    flags = __future__.annotations.compiler_flag
    code = compile(text, inspect.getfile(function), "exec", flags, dont_inherit=True)
    made: dict[str, Any] = {}
    exec(code, function.__globals__, made)
    return made[function.__name__]
