"""The page of the command lines has every command, with what its help says."""

from __future__ import annotations

import subprocess
import sys

from tools.site.commands import helps, page


def test_every_command_is_there() -> None:
    text = page()
    for name in ("build", "explain", "tune", "ops", "keygen", "sign"):
        assert f"## `aot-package {name}`" in text
    for name in ("inspect", "plan", "run", "verify", "bench", "compare"):
        assert f"## `aot-runtime {name}`" in text


def test_it_is_what_the_program_prints() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "aot_runtime", "inspect", "--help"],
        env={"COLUMNS": "98"},  # argparse leaves two free
        capture_output=True,
        text=True,
        check=True,
    )
    assert dict(helps())["aot-runtime inspect"].split() == done.stdout.split()


def test_lines_do_not_depend_on_the_terminal(monkeypatch) -> None:
    before = page()
    monkeypatch.setenv("COLUMNS", "40")
    assert page() == before
