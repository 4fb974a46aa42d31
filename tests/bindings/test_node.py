"""The module for Node.js: built and packed as it is released, installed from that, and run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.blocks import ROOT, blocks

MODULE = ROOT / "bindings" / "node"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not shutil.which("node") or not (MODULE / "node_modules").is_dir(),
        reason="needs node, npm and what bindings/node asks npm for (scripts/setup)",
    ),
]


def call(folder: Path, *command: object, **environment: object) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env={**os.environ, **{name: str(value) for name, value in environment.items()}},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def archive(prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `npm pack` makes, of a copy: several runs of the tests may go on in one checkout."""
    copy = tmp_path_factory.mktemp("module") / "node"
    shutil.copytree(MODULE, copy, ignore=shutil.ignore_patterns("prebuilds", "*.tgz"))
    told = call(copy, "npm", "pack", "--json", AOT_RUNTIME_PREFIX=prefix)
    (packed,) = json.loads(told[told.index("[") :])
    return copy / packed["filename"]


@pytest.fixture(scope="module")
def installed(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a program whose only dependency is the archive; nothing is compiled for it."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "package.json").write_text('{"name": "program", "private": true}')
    call(folder, "npm", "install", "--offline", "--no-audit", "--no-fund", archive, CXX="false")
    return folder / "node_modules" / "aot-runtime"


def test_the_archive_is_small_and_whole(archive: Path, installed: Path) -> None:
    assert archive.stat().st_size < 2_000_000
    prebuilt = {path.name for path in (installed / "prebuilds" / "linux-x64").iterdir()}
    assert "aot_runtime.node" in prebuilt
    assert any(name.startswith("libaot_runtime.so") for name in prebuilt)
    assert not (installed / "node_modules").exists()


def test_the_module_s_own_tests_pass(packages: Path, installed: Path) -> None:
    tests = (MODULE / "test" / "run.test.js").resolve()
    told = call(
        installed,
        *("node", "--expose-gc", "--test-reporter=tap", "--test", tests),
        AOT_TEST_PACKAGES=packages,
        AOT_TEST_MODULE=installed,
    )
    assert "# fail 0" in told
    assert "# skipped 0" in told


def test_the_example_runs(packages: Path, installed: Path) -> None:
    told = call(installed, "node", installed / "examples" / "run.js", packages / "mlp.pkg")
    assert sum(float(word) for word in told.split()) == pytest.approx(1, abs=1e-3)


def test_the_declarations_fit_what_is_there() -> None:
    call(MODULE, "npm", "run", "--silent", "types")


def test_the_module_has_the_version_of_the_runtime() -> None:
    version = (ROOT / "runtime/aot_runtime/version.py").read_text("utf-8").split('"')[-2]
    assert json.loads((MODULE / "package.json").read_text("utf-8"))["version"] == version


def test_the_document_shows_the_example() -> None:
    (block,) = (b for b in blocks("docs/bindings.md") if b.file == "bindings/node/examples/run.js")
    assert block.text == (ROOT / block.file).read_text("utf-8")
