"""What a device is: the facts that passes and the scheduler choose by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aot.ir.templates.base import Support, TemplateCall


@dataclass(frozen=True)
class Machine:
    """What cost models need to know of a device; sizes in bytes.

    `templates`: what the backend has for the kinds of template calls. `local_bytes`: how much
    memory private to one work unit may take. `lanes`: of the widest vectors, for elements of 4
    bytes.
    `tiles`: a work unit evaluates whole tiles of points at once and keeps values in registers
    alone, so that what nests of a kernel pass on is computed again where it is needed, but for
    reduced values; otherwise it loops over points, one vector at a time, and has local memory.
    `alignment`: of the addresses that kernels are given, in bytes; 1: any will do.
    `languages`: of the kernels that a model may bring along.
    `units`: parallel work units from which a launch keeps the device busy. `cut_units`: from which
    no loop is cut into strips for more of them.
    """

    local_bytes: int
    grain_bytes: int
    templates: tuple[Support[Any], ...] = ()
    tiles: bool = False
    alignment: int = 1
    lanes: int = 16
    units: int = 8
    cut_units: int = 16
    languages: frozenset[str] = frozenset()

    def support(self, kind: type[TemplateCall]) -> Support[Any] | None:
        """What the backend has for a kind of template call; None: nothing."""
        return next((s for s in self.templates if s.kind is kind), None)

    def takes_producer(self, call: TemplateCall) -> bool:
        """Whether the call's kernel evaluates pointwise nests in place of loading an operand."""
        found = self.support(type(call))
        return found is not None and found.takes_producer
