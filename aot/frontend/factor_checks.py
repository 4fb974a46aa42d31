"""Checks of factorizations in functions of loops and branches.

torch keeps such a check in its place among operators with effects, by a token that goes through the
graph. Functions of loops have no tokens: it loses the check there, and keeps a token that nothing
makes. In programs with such functions a check is an assertion as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import GraphModule

from aot.frontend.assertions import failure_of_factors

_untyped: Any = torch
"""torch, for functions of it that have no types."""

_CHECK: Any = torch.ops.aten._linalg_check_errors.default


def _asserted(info: Tensor, api_name: str, *, is_matrix: bool) -> None:
    good = (info == 0).all()
    torch.ops.aten._assert_async.msg(good, f"{api_name}: {failure_of_factors(api_name)}")


@contextmanager
def checks_inside(program: ExportedProgram) -> Iterator[Mapping[Any, Callable[..., Any]]]:
    """Inside of it, the checks of a program with functions of loops have no tokens.

    Yields:
        What the table of decompositions needs for that.
    """
    parts = [m for m in program.graph_module.modules() if isinstance(m, GraphModule)]
    registered = _untyped._library.simple_registry.singleton.find(_CHECK._name)
    held = getattr(registered, "effect", None)  # of newer versions of torch
    if len(parts) == 1 or getattr(held, "_effect", None) is None:
        yield {}
        return
    with patch.object(held, "_effect", None):
        yield {_CHECK: _asserted}
