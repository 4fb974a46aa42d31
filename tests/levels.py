"""Targets of packages that hold the levels of instructions which their test runs, and no others.

Compilers take most of the tests' time, and each level is compiled by itself.
"""

from __future__ import annotations

import aot_runtime

OWN = aot_runtime.cpu_isa()
"""The best level of this machine, which a package's loader takes when it is not told."""

LOWEST = "x86-64-v2"


def target_of(*levels: str) -> str:
    """A target of these levels, each once; of this machine's when none is named."""
    return f"cpu:{'+'.join(dict.fromkeys(levels or (OWN,)))}"
