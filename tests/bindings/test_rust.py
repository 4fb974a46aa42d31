"""The Rust crate: its own tests, its documentation and its example, with packages made here."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.blocks import ROOT, blocks

CRATE = ROOT / "bindings" / "rust"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("cargo"), reason="needs cargo (scripts/setup)"),
]


def cargo(packages: Path, prefix: Path, *arguments: str) -> str:
    """What cargo prints; nothing is fetched."""
    done = subprocess.run(
        ["cargo", arguments[0], "--offline", *arguments[1:]],
        cwd=CRATE,
        env={
            **os.environ,
            "AOT_RUNTIME_PREFIX": str(prefix),
            "AOT_TEST_PACKAGES": str(packages),
            "CARGO_TARGET_DIR": str(ROOT / "build" / "rust"),
            "RUSTFLAGS": "-D warnings",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_crate_s_own_tests_pass(packages: Path, prefix: Path) -> None:
    told = cargo(packages, prefix, "test", "--test", "run")
    assert "10 passed; 0 failed" in told


def test_the_example_runs(packages: Path, prefix: Path) -> None:
    told = cargo(packages, prefix, "run", "-q", "--example", "run", str(packages / "mlp.pkg"))
    assert sum(float(word) for word in told.split()) == pytest.approx(1, abs=1e-3)


def test_the_crate_has_the_version_of_the_runtime() -> None:
    version = (ROOT / "runtime/aot_runtime/version.py").read_text("utf-8").split('"')[-2]
    assert f'\nversion = "{version}"\n' in (CRATE / "Cargo.toml").read_text("utf-8")


def test_the_document_shows_the_example() -> None:
    (block,) = (b for b in blocks("docs/bindings.md") if b.file == "bindings/rust/examples/run.rs")
    assert block.text == (ROOT / block.file).read_text("utf-8")
