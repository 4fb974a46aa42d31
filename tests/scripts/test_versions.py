"""`scripts/versions` with an installer and Pythons that only record how they are called."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.kernels import ROOT

PYTHON = """#!/usr/bin/env bash
version=$(basename "$(dirname "$(dirname "$0")")")
case "$*" in
  -c*) echo "$version" ;;
  *) echo "$version runs $*"
     [ "$version" != "torch-$FAILING" ] || { echo "= 1 failed, 2 passed in 3s ="; exit 1; }
     echo "= 3 passed in 3s =" ;;
esac
"""

UV = """#!/usr/bin/env bash
echo "uv $*" >&2
case "$*" in
  *"venv --clear"*) place=${@: -1}; mkdir -p "$place/bin" "$place/lib/python3.11/site-packages"
    cp "$TEMPLATE" "$place/bin/python" ;;
  *"torch==$MISSING"*) exit 1 ;;
esac
"""


@pytest.fixture
def run(tmp_path: Path) -> object:
    """Runs a copy of the script, so that its environments are not those of a real run."""
    for name, text in (("venv/bin/python", PYTHON), ("build/versions/tools/bin/uv", UV)):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
    (tmp_path / "venv/lib/python3.11/site-packages").mkdir(parents=True)
    (tmp_path / "scripts").mkdir()
    script = shutil.copy(ROOT / "scripts" / "versions", tmp_path / "scripts")

    def run(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        known = {"FAILING": "none", "MISSING": "none", "TEMPLATE": f"{tmp_path}/venv/bin/python"}
        return subprocess.run(
            [script, *arguments],
            env={"PATH": os.defpath, "VENV": f"{tmp_path}/venv", **known, **settings},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def summary(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stdout.splitlines() if line.startswith("[versions]")]


def test_each_version_has_an_environment_and_runs_the_tests(run, tmp_path: Path) -> None:
    done = run()
    assert done.returncode == 0, done.stderr
    told = summary(done)
    assert [line.split()[1] for line in told] == ["ok"] * 4
    assert [line.split(": ")[0].split()[-1] for line in told] == [
        f"torch-{version}" for version in ("2.11.0", "2.12.1", "2.14.1", "2.15.0")
    ]
    assert "torch==2.11.0 torchvision" in done.stderr
    (found,) = (tmp_path / "build/versions/torch-2.15.0").rglob("zz_project.pth")
    assert f'site.addsitedir("{tmp_path}/venv/lib/python3.11/site-packages")' in found.read_text()
    assert (tmp_path / "build/versions/summary.txt").read_text().splitlines() == told
    assert "installing" not in run().stderr  # it is kept


def test_versions_and_tests_are_chosen(run) -> None:
    done = run("2.12.1", "--", "tests/ir", "-k", "scalar")
    runs = [line for line in done.stdout.splitlines() if " runs " in line]
    assert len(runs) == 1
    assert runs[0].startswith("torch-2.12.1 runs -m pytest")
    assert runs[0].endswith("tests/ir -k scalar")


def test_one_failing_version_fails_and_the_others_still_run(run) -> None:
    done = run("2.11.0", "2.15.0", FAILING="2.11.0")
    assert done.returncode == 1
    assert [line.split()[1] for line in summary(done)] == ["FAILED", "ok"]
    assert "1 failed, 2 passed" in summary(done)[0]


def test_a_version_that_is_not_to_be_had_fails(run) -> None:
    done = run("2.11.0", "2.15.0", MISSING="2.11.0")
    assert done.returncode == 1
    assert [line.split()[1] for line in summary(done)] == ["FAILED", "ok"]
    assert "not installed" in summary(done)[0]
