"""The one table of lowerings; the family modules fill it when `aot.lowering.lower` imports them."""

from __future__ import annotations

from aot.lowering.registry import Registry

REGISTRY = Registry()
