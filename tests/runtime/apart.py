"""Python code in a process of its own, for what may crash or hang."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run_apart(
    code: str, *args: object, seconds: int = 40, env: Mapping[str, str] | None = None
) -> str:
    """What the code prints. A test fails when it crashes, fails, or does not end in time."""
    paths = os.pathsep.join(str(path) for path in (ROOT / "runtime", ROOT))
    environment = {**os.environ, "PYTHONPATH": paths, **(env or {})}
    command = [sys.executable, "-X", "faulthandler", "-c", code, *map(str, args)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        pytest.fail(f"did not end within {seconds} s")
    if done.returncode != 0:
        pytest.fail(f"exit code {done.returncode}: {done.stdout}{done.stderr[-3000:]}")
    return done.stdout
