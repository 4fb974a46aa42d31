"""torch's library is loaded by a thread of the command's, and only where torch will be imported."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from aot import torch_library
from aot.cli import cli
from aot.torch_library import NO_TORCH, load_ahead, no_source_read

LINKS = """
import importlib.machinery, sys
from aot.torch_library import _LINKED
for name in _LINKED:
    __import__(name)
create = importlib.machinery.ExtensionFileLoader.create_module
def told(loader, spec):
    print(spec.name)
    return create(loader, spec)
importlib.machinery.ExtensionFileLoader.create_module = told
import aot.kept_code, aot.cli
"""

WITH_TORCH = {"build", "explain", "check", "tune"}

LOADED = """
import sys
from aot.torch_library import _LINKED, load_ahead
thread = load_ahead(["model.py"])
thread.join()
assert "torch" not in sys.modules
with open("/proc/self/maps") as maps:
    assert "libtorch_cpu.so" in maps.read()
for name in _LINKED:
    assert name in sys.modules
import torch
assert torch.softmax(torch.zeros(4), -1).tolist() == [0.25] * 4
"""


def test_every_command_is_known_to_import_torch_or_not() -> None:
    assert set(cli.commands) - WITH_TORCH == {word for word in NO_TORCH if word[0] != "-"}


def test_a_process_has_the_library_before_it_imports_torch() -> None:
    folder = torch_library._folder()
    if folder is None or (folder / "libtorch_cuda.so").exists():
        pytest.skip("a torch for CUDA finds its libraries itself")
    subprocess.run([sys.executable, "-c", LOADED], check=True)


def test_nothing_that_the_command_imports_waits_for_the_library() -> None:
    ran = subprocess.run([sys.executable, "-c", LINKS], check=True, capture_output=True, text=True)
    assert ran.stdout == ""


@pytest.mark.parametrize("arguments", [[], ["inspect", "m.pkg"], ["--help"]])
def test_what_imports_no_torch_loads_nothing(arguments: list[str]) -> None:
    assert load_ahead(arguments) is None


BUILD = """
import sys
from pathlib import Path
from aot import cli
from aot.options import BuildOptions
driver = cli.torch_side().driver
before = set(sys.modules)
try:
    driver.build(Path(sys.argv[1]), BuildOptions(stop_after="emit"))
except driver.Stopped:
    pass
print(*(name for name in sys.modules if name not in before and not name.startswith("_aot_model")))
"""
"""Prints what a build imports that a process which waits for one has not."""


def test_a_build_imports_nothing_that_a_fork_ahead_of_it_could_have(tmp_path: Path) -> None:
    model = tmp_path / "model.py"
    model.write_text(
        "import torch\nfrom torch import nn\n"
        "model = nn.Sequential(nn.LayerNorm(24), nn.Linear(24, 8))\n"
        "example_inputs = (torch.ones(5, 24),)\n",
        encoding="utf-8",
    )
    ran = subprocess.run(
        [sys.executable, "-c", BUILD, str(model)], check=True, capture_output=True, text=True
    )
    imported = ran.stdout.split()
    # Which modules torch imports late is one version's; sympy's and ours are always known.
    if not torch.__version__.startswith("2.13"):
        imported = [name for name in imported if not name.startswith("torch")]
    assert imported == []


def test_a_torch_for_cuda_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "libtorch_cuda.so").touch()
    monkeypatch.setattr(torch_library, "_folder", lambda: tmp_path)
    assert load_ahead(["model.py"]) is None


def test_libraries_that_are_not_there_are_for_torch_to_tell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(torch_library, "_folder", lambda: tmp_path)
    thread = load_ahead(["model.py"])
    assert thread is not None
    thread.join()


def test_places_are_the_same_without_their_text() -> None:
    frame = sys._getframe()
    before = inspect.getframeinfo(frame)
    with no_source_read():
        within, asked = inspect.getframeinfo(frame), inspect.getframeinfo(frame, 1)
    assert (within.filename, within.function) == (before.filename, before.function)
    assert before.code_context and asked.code_context and within.code_context is None
    assert inspect.getframeinfo(frame).code_context


def test_a_frame_is_of_the_module_that_its_names_say() -> None:
    own, there = sys.modules[__name__], inspect.getmodule
    with no_source_read():
        assert inspect.getmodule is not there
        assert inspect.getmodule(sys._getframe()) is own
        assert inspect.getmodule(load_ahead) is torch_library
    assert inspect.getmodule is there


def test_torchs_settings_alone_have_no_text() -> None:
    settings = importlib.import_module("torch.fx.config")
    with no_source_read():
        assert inspect.getsource(settings) == ""
        assert "def load_ahead" in inspect.getsource(torch_library)
        assert inspect.getsource(load_ahead).startswith("def load_ahead")
    assert inspect.getsource(settings)
