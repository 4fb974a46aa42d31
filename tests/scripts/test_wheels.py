"""The distributions: what is in them always; with `--wheels FOLDER`, installed and used.

`make test-wheels` builds and installs them, in minutes; the rest builds sdists alone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import aot_runtime
import pytest
import torch
from aot_runtime.version import VERSION

import aot
from aot.backends.cpp.toolchain import CONTRACTS
from tests.kernels import ROOT

PACKAGE = ROOT / "tests" / "packages" / "small-1.1.pkg"
RUNTIME_BYTES = 2_000_000
OTHERS = ("torch", "triton", "sympy", "click", "rich", "jinja2", "safetensors", "ml_dtypes", "aot")
"""What a machine with the runtime's wheel alone does not have."""

CONSUMER = """
cmake_minimum_required(VERSION 3.21)
project(consumer LANGUAGES CXX)
find_package(aot_runtime 0.1 REQUIRED)
add_executable(app app.cc)
target_compile_features(app PRIVATE cxx_std_17)
target_link_libraries(app PRIVATE aot::runtime)
"""


def run(*command: object, **settings: str) -> str:
    """The output of a command in an environment, and a folder, without this one's modules."""
    clean = {n: v for n, v in os.environ.items() if n not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    done = subprocess.run(
        [str(word) for word in command],
        env={**clean, **settings},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def sdist(folder: Path, project: Path) -> tuple[str, set[str], dict[str, str]]:
    """A project's sdist: its top folder, the files below it, and what PKG-INFO says."""
    script = f"from scikit_build_core.build import build_sdist; build_sdist({str(folder)!r})"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=project, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*.tar.gz")
    with tarfile.open(path) as file:
        top = path.name.removesuffix(".tar.gz")
        names = {name.removeprefix(f"{top}/") for name in file.getnames()}
        text = file.extractfile(f"{top}/PKG-INFO").read().decode()
    head = text.partition("\n\n")[0]
    return top, names, _told(head)


def _told(head: str) -> dict[str, str]:
    """What PKG-INFO says, but of extras."""
    lines = (line for line in head.splitlines() if ": " in line and "extra ==" not in line)
    return dict(line.split(": ", 1) for line in lines)


def project(path: Path) -> dict[str, object]:
    return tomllib.loads((path / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("path", [ROOT, ROOT / "runtime"], ids=["compiler", "runtime"])
def test_metadata_is_complete(path: Path) -> None:
    wanted = {"authors", "classifiers", "description", "keywords", "license", "readme", "scripts"}
    told = project(path)
    assert wanted <= {key for key, value in told.items() if value}
    assert told["requires-python"] == ">=3.11"
    assert "version" in told["dynamic"]


def test_the_version_is_written_once() -> None:
    assert aot.__version__ == aot_runtime.__version__ == VERSION
    files = [ROOT / "CMakeLists.txt", ROOT / "pyproject.toml", ROOT / "runtime/pyproject.toml"]
    for folder in ("aot", "cmake", "runtime", "tools"):
        files += [p for p in (ROOT / folder).rglob("*") if p.suffix in {".py", ".cmake", ".in"}]
    written = [p for p in files if f'"{VERSION}"' in p.read_text(encoding="utf-8")]
    assert written == [ROOT / "runtime/aot_runtime/version.py"]


def test_the_sdist_of_the_runtime_has_all_that_its_build_reads(tmp_path: Path) -> None:
    top, names, told = sdist(tmp_path, ROOT / "runtime")
    assert top == f"aot_runtime-{VERSION}"
    assert (told["Name"], told["Version"]) == ("aot-runtime", VERSION)
    assert told["Requires-Dist"] == "numpy"
    lists = (ROOT / "CMakeLists.txt").read_text(), (ROOT / "cmake/Python.cmake").read_text()
    named = re.findall(r"^\s+cpp/src/\S+\.cc", lists[0], re.MULTILINE)
    assert len(named) > 50
    assert {f"source/{name.strip()}" for name in named} <= names
    own = re.findall(r"AOT_PYTHON_DIR}/(src/\S+\.\w+)", lists[1])
    assert {f"aot_runtime/{name}" for name in own} <= names
    modules = [p for p in (ROOT / "runtime/aot_runtime").rglob("*.py")]
    assert {p.relative_to(ROOT / "runtime").as_posix() for p in modules} <= names
    assert {"LICENSE", "source/cpp/include/aot/aot.hpp", "source/cpp/src/exports.map"} <= names
    assert not any(name.endswith((".so", ".pyc")) for name in names)


def test_the_sdist_of_the_compiler_has_all_of_it(tmp_path: Path) -> None:
    top, names, told = sdist(tmp_path, ROOT)
    assert top == f"aot_package-{VERSION}"
    assert (told["Name"], told["Version"]) == ("aot-package", VERSION)
    kept = [p for p in (ROOT / "aot").rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    assert {p.relative_to(ROOT).as_posix() for p in kept} <= names
    assert {f"cpp/include/aot/{name}" for name in CONTRACTS} <= names
    assert {"runtime/aot_runtime/version.py", "LICENSE"} <= names
    extra = {n for n in names if n.startswith("runtime/") and n.endswith(".py")}
    assert extra == {"runtime/aot_runtime/version.py"}


def test_the_script_is_honest_about_what_it_needs(tmp_path: Path) -> None:
    done = subprocess.run(
        [shutil.which("bash") or "bash", ROOT / "scripts" / "wheels", tmp_path],
        env={"PATH": "/usr/bin:/bin", "PYTHONS": str(tmp_path / "no-python")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "no-python is no interpreter of Python >= 3.11" in done.stderr


@pytest.fixture
def wheels(request: pytest.FixtureRequest) -> Path:
    folder = request.config.getoption("--wheels")
    if folder is None:
        pytest.skip("needs --wheels: make test-wheels")
    return Path(folder).resolve()


def runtime_wheels(folder: Path) -> list[Path]:
    found = sorted(folder.glob(f"aot_runtime-{VERSION}-*.whl"))
    assert found, f"{folder} holds no wheel of the runtime"
    return found


def interpreter(wheel: Path) -> str | None:
    """The Python that a wheel is for, if it is here and has `venv`."""
    digits = re.search(r"-cp3(\d+)-", wheel.name)[1]
    if int(digits) == sys.version_info.minor:
        return sys.executable
    for name in (f"python3.{digits}", Path.home() / f".pyenv/versions/3.{digits}*/bin/python"):
        found = shutil.which(name) if isinstance(name, str) else None
        for path in [found] if found else map(str, Path("/").glob(str(name).lstrip("/"))):
            done = subprocess.run([path, "-c", "import venv"], capture_output=True, check=False)
            if done.returncode == 0:
                return path
    return None


def environment(folder: Path, python: str, wheels: Path) -> Path:
    """A new virtual environment with the runtime of these wheels, as the documents say: its
    folder of programs."""
    run(python, "-m", "venv", folder)
    pip = (folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "-qq")
    run(*pip, "install", "--only-binary", ":all:", "numpy")
    run(*pip, "install", "--no-index", "--find-links", wheels, "aot-runtime")
    return folder / "bin"


def use_from_cpp(folder: Path, prefix: Path) -> None:
    """Build and run a program against an installed interface, by CMake and by pkg-config."""
    folder.mkdir()
    shutil.copy(ROOT / "cpp/tests/consumer/app.cc", folder / "app.cc")
    (folder / "CMakeLists.txt").write_text(CONSUMER)
    build = folder / "build"
    run("cmake", "-S", folder, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", build)
    assert "NOT_FOUND: cannot open package" in run(build / "app", "/no/such.pkg")
    if shutil.which("pkg-config"):
        options = run("pkg-config", "--cflags", "--libs", "aot_runtime",
                      PKG_CONFIG_PATH=str(prefix / "lib/pkgconfig")).split()  # fmt: skip
        command = ["g++", "-std=c++17", folder / "app.cc", "-o", folder / "app", *options]
        run(*command, f"-Wl,-rpath,{prefix / 'lib'}")
        assert "NOT_FOUND: cannot open package" in run(folder / "app", "/no/such.pkg")


def test_sizes_and_tags(wheels: Path) -> None:
    for wheel in runtime_wheels(wheels):
        assert wheel.stat().st_size <= RUNTIME_BYTES
        with zipfile.ZipFile(wheel) as file:
            names = file.namelist()
        assert any(re.fullmatch(r"aot_runtime/_native\..*\.so", name) for name in names)
        assert "aot_runtime/lib/libaot_runtime.so" in names
        assert "aot_runtime/include/aot/abi.h" in names
        assert not any(name.endswith((".cc", ".a", ".pyc")) for name in names)
    with zipfile.ZipFile(wheels / f"aot_package-{VERSION}-py3-none-any.whl") as file:
        names = file.namelist()
    assert {f"aot/backends/cpp/include/aot/{name}" for name in CONTRACTS} <= set(names)


def test_the_runtime_runs_packages_without_torch(wheels: Path, tmp_path: Path) -> None:
    tried = 0
    for wheel in runtime_wheels(wheels):
        python = interpreter(wheel)
        if python is None:
            continue
        tried += 1
        folder = tmp_path / wheel.name
        bin = environment(folder, python, wheels)
        for name in OTHERS:
            found = run(bin / "python", "-c", f"import importlib.util as u; "
                        f"print(u.find_spec({name!r}))")  # fmt: skip
            assert found == "None\n", name
        assert run(bin / "aot-runtime", "--version") == f"aot-runtime, version {VERSION}\n"
        for command in (["inspect"], ["verify"], ["run"], ["bench", "--runs", "5"]):
            assert run(bin / "aot-runtime", command[0], PACKAGE, *command[1:])
        script = f"import aot_runtime; print(aot_runtime.load({str(PACKAGE)!r}, verify=True).isa)"
        assert run(bin / "python", "-c", script).startswith("x86-64")
        prefix = Path(run(bin / "aot-runtime", "--prefix").strip())
        assert prefix.is_relative_to(folder)
        use_from_cpp(tmp_path / f"{wheel.name}.cpp", prefix)
    assert tried


def test_the_compiler_packages_with_torch(wheels: Path, tmp_path: Path) -> None:
    here = [wheel for wheel in runtime_wheels(wheels) if interpreter(wheel) == sys.executable]
    assert here, "no wheel is for this Python"
    folder = tmp_path / "compiler"
    run(sys.executable, "-m", "venv", folder)
    # Torch and what it needs, as they are installed here: gigabytes else.
    (site,) = folder.glob("lib/python3*/site-packages")
    (site / "zz_torch.pth").write_text(f"{Path(torch.__file__).parents[1]}\n")
    bin = folder / "bin"
    wheel = wheels / f"aot_package-{VERSION}-py3-none-any.whl"
    pip = (bin / "python", "-m", "pip", "--disable-pip-version-check", "-qq")
    # What is installed here may have both in place.
    run(*pip, "install", "--no-deps", "--ignore-installed", *here, wheel)
    place = run(
        bin / "python", "-c", "import aot, aot_runtime as r; print(aot.__file__, r.__file__)"
    )
    assert all(Path(path).is_relative_to(folder) for path in place.split())
    package = tmp_path / "mlp.pkg"
    run(bin / "aot-package", ROOT / "examples/01_mlp/model.py", "-o", package)
    assert "ok, error" in run(bin / "aot-package", "verify", package)
    assert "float32[8, 10]" in run(bin / "aot-runtime", "run", package)
    told = run(
        bin / "python", "-c", "import importlib.metadata as m; print(m.requires('aot-package'))"
    )
    assert f"aot-runtime=={VERSION}" in told
    assert "torch>=2.11" in told


def test_the_sdist_builds_with_the_systems_compiler(wheels: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    pip = (tmp_path / "venv/bin/python", "-m", "pip", "--disable-pip-version-check", "-qq")
    run(*pip, "wheel", "--no-deps", "-w", tmp_path, wheels / f"aot_runtime-{VERSION}.tar.gz")
    (wheel,) = tmp_path.glob("aot_runtime-*.whl")
    run(*pip, "install", wheel)
    script = "import aot_runtime; print(aot_runtime.__version__)"
    assert run(tmp_path / "venv/bin/python", "-c", script) == f"{VERSION}\n"


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg-deb")
def test_the_debian_package(wheels: Path, tmp_path: Path) -> None:
    build = tmp_path / "build"
    # The interpreter that has the headers which Debian has not installed.
    chosen = ["-DCMAKE_BUILD_TYPE=Release", f"-DPython_EXECUTABLE={sys.executable}"]
    chosen += [f"-DAOT_BUILD_{part}=OFF" for part in ("SERVE", "TOOLS", "TRITON")]  # not in it
    run("cmake", "-S", ROOT, "-B", build, "-G", "Ninja", *chosen)
    run("cmake", "--build", build)
    run("cpack", "-G", "DEB", "--config", build / "CPackConfig.cmake", "-B", tmp_path)
    (package,) = tmp_path.glob("*.deb")
    assert package.name == f"libaot-runtime-dev_{VERSION}_amd64.deb"
    run("dpkg-deb", "-x", package, tmp_path / "root")
    use_from_cpp(tmp_path / "cpp", tmp_path / "root" / "usr")
