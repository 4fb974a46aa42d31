"""Views at computed places that torch makes again when what they show has been written to.

`cache[pos] = x; return cache, cache[pos]`: while a program is taken apart, torch makes the second
result again from the new cache. The view's place in memory is then a new unknown number, which no
node of the graph gives, and torch takes that for a mistake of an operator. Nobody asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from torch._functorch._aot_autograd import functional_utils
from torch._guards import detect_fake_mode

_MAKES_AGAIN = "sync_functional_tensor"


@contextmanager
def remade_views() -> Iterator[None]:
    """Inside of it, the places of views that are made again are nothing to account for."""
    own = getattr(functional_utils, _MAKES_AGAIN, None)
    if own is None:
        yield
        return
    with mock.patch.object(functional_utils, _MAKES_AGAIN, _unaccounted(own)):
        yield


def _unaccounted(own: Callable[[Any], None]) -> Callable[[Any], None]:
    def made_again(view: Any) -> None:
        mode = detect_fake_mode()
        env = None if mode is None else mode.shape_env
        if env is None:
            own(view)
            return
        with env.ignore_fresh_unbacked_symbols():
            own(view)

    return made_again
