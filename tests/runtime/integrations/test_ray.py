"""Ray Serve: where it is not there, and a local Ray of several processes where it is."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.blocks import blocks
from tests.runtime.integrations.ray_head import Head, started

WORKERS = 4


@pytest.fixture(scope="module")
def head(python_with: Callable[[str], Path]) -> Iterator[Head]:
    """A Ray that both programs use."""
    with started(python_with("ray").with_name("ray"), WORKERS) as found:
        yield found


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is here")
def test_without_ray_the_error_says_what_to_install() -> None:
    with pytest.raises(ImportError, match=r"needs Ray Serve: pip install 'ray\[serve\]'"):
        importlib.import_module("aot_runtime.integrations.ray")


@pytest.mark.slow
def test_the_program_of_the_document_runs(
    package: Path, python_with: Callable[[str], Path], head: Head, tmp_path: Path
) -> None:
    (program,) = (b for b in blocks("docs/integrations.md") if b.file == "serve_ray.py")
    (tmp_path / program.file).write_text(program.text)
    shutil.copy(package, tmp_path / "relu.pkg")
    done = subprocess.run(
        [python_with("ray"), program.file],
        cwd=tmp_path,
        env=head.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "(2, 4)" in done.stdout


@pytest.mark.slow
def test_four_workers_answer_all_while_one_is_killed(
    package: Path, python_with: Callable[[str], Path], head: Head
) -> None:
    program = Path(__file__).parent / "ray_cluster.py"
    done = subprocess.run(
        [python_with("ray"), program, package, str(head.process)],
        env=head.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(next(row for row in done.stdout.splitlines() if row.startswith('{"')))
    assert told["answered"] == 2000
    assert told["killed_is_gone"]
    assert told["replicas_after"] == 4
    assert "65" in told["refused"]
