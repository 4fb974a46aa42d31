"""Building the C++ examples as their readers do."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.kernels import ROOT

TOOLS = Path(sys.executable).parent
EXAMPLES = ROOT / "examples"


def tool(name: str) -> str:
    """A build tool from the environment, else from the system."""
    own = TOOLS / name
    return str(own) if own.exists() else str(shutil.which(name))


def cmake(*arguments: object) -> None:
    """Runs CMake as in the activated environment, whose packages carry headers."""
    done = subprocess.run(
        [tool("cmake"), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": os.pathsep.join([str(TOOLS), os.environ["PATH"]])},
    )
    assert done.returncode == 0, done.stdout + done.stderr


def configure(source: Path, build: Path, *options: str) -> None:
    ninja = f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}"
    cmake("-S", source, "-B", build, "-G", "Ninja", ninja, "-DCMAKE_BUILD_TYPE=Release", *options)


def run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False
    )
