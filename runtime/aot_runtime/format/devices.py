"""Kinds of devices, as plans name them."""

from __future__ import annotations

CPU_LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
"""Instruction set levels of the host, slowest first."""

HOST = "cpu"
"""The device that every machine has."""

GPU = "cuda"
"""The device of which engines give shares."""


def on_host(target: str) -> bool:
    """True for a device or target ("cpu", "cpu:x86-64-v3") of the machine's own processors."""
    return target.partition(":")[0] == HOST
