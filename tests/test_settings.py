"""The settings of a run of the tests: what `--seed` and `--level` change."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.kernels import ROOT
from tests.settings import SETTINGS, seeded


def test_a_seed_of_the_run_changes_every_seed_and_none_meets_anothers(monkeypatch):
    monkeypatch.setattr(SETTINGS, "seed", 0)
    own = [seeded(k) for k in range(1000)]
    assert own == list(range(1000))
    monkeypatch.setattr(SETTINGS, "seed", 2)
    assert not set(own) & {seeded(k) for k in range(1000)}


@pytest.mark.slow
def test_operator_rows_run_on_the_level_that_is_asked_for():
    rows = ["tests/conformance/test_rows.py", "-k", "conv3d", "--sweeps", "--collect-only", "-q"]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *rows]
    found = {
        option: subprocess.run(
            [*command, *option], cwd=ROOT, capture_output=True, text=True, check=False
        ).stdout
        for option in ((), ("--level", "x86-64-v2"), ("--executors", "loops"))
    }
    counts = {option: text.count("conv3d-") for option, text in found.items()}
    assert list(counts.values()) == [3, 4, 1]
    assert "conv3d-cpu:x86-64-v2" in found["--level", "x86-64-v2"]
