"""`aot-runtime`: the commands about packages, with NumPy and the loader alone."""

import json
import subprocess
import sys
from pathlib import Path

import aot_runtime
import pytest
from aot_runtime.tools.commands import COMMANDS, run_command
from aot_runtime.tools.failures import exit_code

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "tests" / "packages" / "small-1.1.pkg"
OTHERS = "aot,click,cryptography,jinja2,ml_dtypes,rich,safetensors,sympy,torch,triton"
ALONE = """
import sys
sys.modules.update(dict.fromkeys(sys.argv.pop(1).split(",")))  # importing them fails
from aot_runtime.tools.main import main
main()
"""


def alone(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The program where nothing but NumPy and the runtime is installed."""
    command = [sys.executable, "-c", ALONE, OTHERS, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_every_command_runs_with_the_runtime_alone(tmp_path: Path) -> None:
    for command, *more in (
        ["inspect", "--weights", "--checksums"],
        ["plan"],
        ["run", "-o", tmp_path / "out.npz"],
        ["verify"],
        ["bench", "--runs", "2", "--trace", tmp_path / "trace.json"],
        ["compare", PACKAGE, "--runs", "1"],
    ):
        done = alone(command, PACKAGE, *more)
        assert (done.returncode, done.stderr) == (0, ""), command
        assert done.stdout
    assert alone("--version").stdout == f"aot-runtime, version {aot_runtime.__version__}\n"
    assert all(f"  {name} " in alone("--help").stdout for name in COMMANDS)


def told(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Exit code, output and errors of a command."""
    words = [str(a) for a in arguments]
    code = exit_code(words, lambda: run_command(words, "aot-runtime"))
    return code, *capsys.readouterr()


def test_the_plan_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = told(capsys, "plan", PACKAGE)
    assert code == 0
    assert json.loads(out)["programs"][0]["device"] == "cpu"


@pytest.mark.parametrize("option", ["--against", "--html"])
def test_what_needs_the_compiler_says_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, option: str
) -> None:
    file = tmp_path / "file"
    code, _, err = told(capsys, "bench", PACKAGE, "--runs", "1", option, file)
    assert code == 2
    assert not file.exists()
    assert "pip install aot-package" in err


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (["inspect"], 2, "required: PACKAGE"),
        (["inspect", "p.pkg", "--weight"], 2, "unrecognized arguments"),
        (["inspect", "missing.pkg"], 5, "error[PACKAGE_READ]"),
        (["run", PACKAGE, "--threads", "0"], 2, "'0' is not a number of at least 1"),
        (["run", PACKAGE, "--size", "batch=1.5"], 2, "--size wants DIM=N"),
        (["run", PACKAGE, "--register", "missing.py"], 2, "registers operators fails"),
        (["verify", PACKAGE, "--key", "missing.pub"], 2, "no public key can be read"),
        (["bench", "--help"], 0, ""),
    ],
)
def test_wrong_usage(
    capsys: pytest.CaptureFixture[str], arguments: list[object], code: int, word: str
) -> None:
    found, _, err = told(capsys, *arguments)
    assert found == code
    assert word in err
    assert "Traceback" not in err


def test_errors_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = told(capsys, "run", "missing.pkg", "--json")
    assert code == json.loads(out)["error"]["exit_code"] == 5
