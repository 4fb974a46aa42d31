"""Building the C++ examples as their readers do."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.kernels import ROOT
from tests.once import digest_of, files_below, made_once

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
        env={
            "CMAKE_GENERATOR": "Ninja",  # for new folders
            **os.environ,
            "PATH": os.pathsep.join([str(TOOLS), os.environ["PATH"]]),
        },
    )
    assert done.returncode == 0, done.stdout + done.stderr


def configure(source: Path, build: Path, *options: str) -> None:
    ninja = f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}"
    cmake("-S", source, "-B", build, "-G", "Ninja", ninja, "-DCMAKE_BUILD_TYPE=Release", *options)


def installed_runtime() -> Path:
    """The runtime, installed as a user installs it, from the folder that the README builds in."""
    build = ROOT / "build" / "install"

    def make(prefix: Path) -> None:
        # As all builds of ours: a cache of compiled files (Makefile) then finds them.
        chosen = ("-DAOT_BUILD_TESTS=OFF", "-DAOT_BUILD_SERVE=OFF", "-DAOT_WARNINGS_AS_ERRORS=ON")
        cmake("-S", ROOT, "-B", build, *chosen, "-DCMAKE_INSTALL_LIBDIR=lib")
        cmake("--build", build, "--parallel")
        cmake("--install", build, "--prefix", prefix, "--component", "development")

    listed = [ROOT / "CMakeLists.txt", ROOT / "runtime" / "aot_runtime" / "version.py"]
    folders = (ROOT / name for name in ("cmake", "cpp/include", "cpp/src", "cpp/tools"))
    return made_once("runtime", digest_of(*listed, *files_below(*folders)), make)


def run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False
    )
