"""KServe: where it is not there, and its own server with a package where it is."""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kernels import ROOT


@pytest.mark.skipif(importlib.util.find_spec("kserve") is not None, reason="KServe is here")
def test_without_kserve_the_error_says_what_to_install() -> None:
    with pytest.raises(ImportError, match="needs KServe: pip install kserve"):
        importlib.import_module("aot_runtime.integrations.kserve")


@pytest.mark.slow
def test_its_server_answers_for_a_package(
    package: Path, python_with: Callable[[str], Path]
) -> None:
    program = Path(__file__).parent / "kserve_client.py"
    done = subprocess.run(
        [python_with("kserve"), program, package.parent, ROOT / "integrations" / "kserve"],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "answered rightly" in done.stdout
