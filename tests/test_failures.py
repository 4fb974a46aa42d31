"""Every way a user's model, machine or disk can be wrong, as the command line shows it.

The exit code, the sentence, the place, what to do; and nothing is lost.
"""

from pathlib import Path

import pytest

from aot.cli import run_command

HEAD = "import torch\n"
GOOD = (
    HEAD
    + """
class Net(torch.nn.Module):
    def forward(self, x):
        return (x * 2).sum(-1)

model = Net()
example_inputs = (torch.ones(3, 4),)
"""
)

FAILURES = {
    "syntax error": ("model = (\n", 3, "MODEL_FILE", "m.py:1"),
    "raises": (HEAD + "model = 1 / 0\n", 3, "MODEL_FILE", "m.py:2"),
    "exits": ("import sys\nsys.exit(3)\n", 3, "MODEL_FILE", "m.py"),
    "no model": (HEAD + "example_inputs = ()\n", 3, "MODEL_FILE", "`model`"),
    "no inputs": (HEAD + "model = torch.nn.ReLU()\n", 3, "MODEL_FILE", "example_inputs"),
    "not a module": (HEAD + "model = 3\nexample_inputs = ()\n", 3, "MODEL_FILE", "model"),
    "model function raises": (
        HEAD + "def model():\n    raise OSError('no weights')\nexample_inputs = ()\n",
        3,
        "MODEL_FILE",
        "no weights",
    ),
    "too many inputs": (
        HEAD + "model = torch.nn.ReLU()\nexample_inputs = (torch.ones(2), torch.ones(2))\n",
        3,
        "INPUT_MISMATCH",
        "",
    ),
    "wrong sizes": (
        HEAD + "model = torch.nn.Linear(4, 2)\nexample_inputs = (torch.ones(3, 5),)\n",
        3,
        "INPUT_MISMATCH",
        "",
    ),
    "untraceable": (
        HEAD
        + """
class Net(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return x[:1]

model = Net()
example_inputs = (torch.ones(3),)
""",
        3,
        "EXPORT",
        "m.py:5",
    ),
    "unsupported operators": (
        HEAD
        + """
class Net(torch.nn.Module):
    def forward(self, x):
        y = torch.linalg.svdvals(x)
        z = torch.erf(torch.complex(y, y))
        return z.abs()

model = Net()
example_inputs = (torch.ones(4, 4),)
""",
        3,
        "UNSUPPORTED_OPERATOR",
        "m.py:6  z = torch.erf(torch.complex(y, y))",
    ),
    "dynamic size that cannot be": (
        HEAD
        + """
model = torch.nn.Linear(4, 2)
example_inputs = (torch.ones(3, 4),)
dynamic_shapes = ({1: torch.export.Dim("width", min=2, max=9)},)
""",
        3,
        "DYNAMIC_SHAPE",
        "width",
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_wrong_models(name: str, tmp_path: Path, capsys, monkeypatch) -> None:
    text, code, error, word = FAILURES[name]
    monkeypatch.chdir(tmp_path)
    Path("m.py").write_text(text)
    Path("m.pkg").write_bytes(b"an older package")
    assert run_command(["m.py", "-o", "m.pkg"]) == code
    shown = capsys.readouterr().err
    assert f"error[{error}]" in shown
    assert word in shown
    assert "what to do: " in shown
    assert "Traceback" not in shown
    assert Path("m.pkg").read_bytes() == b"an older package"


@pytest.mark.parametrize(
    ("path", "word"),
    [("none.py", "no model file"), ("none.pt2", "none.pt2"), ("folder", "folder")],
)
def test_missing_models(path: str, word: str, tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    assert run_command([path, "-o", "m.pkg"]) == 3
    assert word in capsys.readouterr().err


def test_a_saved_program_that_is_none(tmp_path: Path, capsys) -> None:
    path = tmp_path / "bad.pt2"
    path.write_bytes(b"nothing like it")
    assert run_command([str(path), "-o", str(tmp_path / "m.pkg")]) == 3
    assert "bad.pt2" in capsys.readouterr().err


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.py"
    path.write_text(GOOD)
    return path


def test_a_missing_compiler(good: Path, capsys) -> None:
    arguments = [str(good), "-o", str(good.with_suffix(".pkg")), "--no-cache"]
    assert run_command([*arguments, "--cxx", "no-such-compiler"]) == 4
    shown = capsys.readouterr().err
    assert "no-such-compiler" in shown
    assert "what to do: " in shown
    assert not good.with_suffix(".pkg").exists()


def test_a_failing_compiler_keeps_the_source(good: Path, tmp_path: Path, capsys) -> None:
    compiler = tmp_path / "bad-c++"
    compiler.write_text(
        '#!/bin/sh\ncase "$*" in *--version*) echo "g++ (bad) 12.2.0"; exit 0;; esac\n'
        "echo 'k.cc:1: no such register' >&2\nexit 1\n"
    )
    compiler.chmod(0o755)
    arguments = [str(good), "-o", str(tmp_path / "m.pkg"), "--no-cache", "--cxx", str(compiler)]
    assert run_command(arguments) == 4
    shown = capsys.readouterr().err
    assert "error[COMPILER_FAILED]" in shown
    assert str(compiler) in shown
    assert "no such register" in shown
    kept = next(line for line in shown.splitlines() if "where: " in line).split("where: ")[1]
    assert Path(kept).exists()


def test_an_output_that_cannot_be_written(good: Path, tmp_path: Path, capsys) -> None:
    assert run_command([str(good), "-o", str(tmp_path / "no" / "where.pkg")]) == 5
    shown = capsys.readouterr().err
    assert "error[PACKAGE_WRITE]" in shown
    assert "Create the directory" in shown


def test_the_good_model_is_good(good: Path, tmp_path: Path, capsys) -> None:
    assert run_command([str(good), "-o", str(tmp_path / "m.pkg"), "--check"]) == 0
    assert run_command(["verify", str(tmp_path / "m.pkg")]) == 0
