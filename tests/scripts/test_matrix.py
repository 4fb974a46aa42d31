"""`scripts/matrix` with a Python that only records how it is called."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.kernels import ROOT

RECORDER = """#!/usr/bin/env bash
case "$*" in
  *cpu_isa*) echo x86-64-v4 ;;
  *"--seed $FAILING"*) echo "= 1 failed, 2 passed in 3s ="; exit 1 ;;
  *) echo "$ATEN_CPU_CAPABILITY|$OPENBLAS_CORETYPE|$*"; echo "= 3 passed in 3s =" ;;
esac
"""


def _matrix(folder: Path, failing: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "bin").mkdir()
    (folder / "scripts").mkdir()
    python = folder / "bin" / "python"
    python.write_text(RECORDER, encoding="utf-8")
    python.chmod(0o755)
    # A copy, so that its logs are not those of a real run.
    script = shutil.copy(ROOT / "scripts" / "matrix", folder / "scripts")
    return subprocess.run(
        [script, *arguments],
        env={"PATH": os.defpath, "VENV": str(folder), "FAILING": failing},
        capture_output=True,
        text=True,
        check=False,
    )


def test_three_runs_differ_in_instruction_sets_seeds_and_levels(tmp_path: Path) -> None:
    done = _matrix(tmp_path, "none", "tests/ir")
    assert done.returncode == 0, done.stderr
    runs = [line for line in done.stdout.splitlines() if line.endswith("tests/ir")]
    assert len(runs) == 3
    assert [run.split("|")[:2] for run in runs] == [
        ["default", "Prescott"],
        ["avx2", "Haswell"],
        ["", "Sandybridge"],
    ]
    for run, choice in zip(
        runs, ("1 --level x86-64-v2", "2 --level x86-64-v3", "3 --level x86-64-v4"), strict=True
    ):
        assert f"--seed {choice} " in run


def test_one_failing_run_fails_and_the_others_still_run(tmp_path: Path) -> None:
    done = _matrix(tmp_path, "2")
    assert done.returncode == 1
    lines = [line.split()[1:3] for line in done.stdout.splitlines()[-3:]]
    assert lines == [["lowest", "ok"], ["middle", "FAILED"], ["other", "ok"]]
    assert "1 failed, 2 passed" in done.stdout.splitlines()[-2]
    assert (tmp_path / "build" / "matrix" / "middle.log").is_file()
