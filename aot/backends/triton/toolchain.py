"""Finds Triton and its assembler without importing it, and says what both are."""

from __future__ import annotations

import hashlib
import importlib.util
import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from aot.backends.triton.gpu import GPUS
from aot.errors import ToolchainError, ToolchainMissing

OLDEST = (3, 6)
"""The oldest Triton whose interface the worker speaks."""

SHARED_LIMIT = {arch: gpu.shared_bytes for arch, gpu in GPUS.items()}
"""Bytes of shared memory that one program instance may have, by architecture."""

_INSTALL = (
    "Install the compiler of GPU kernels: pip install 'aot-package[gpu]', or pip install triton. "
    "It needs no GPU. Without it, package for the CPU alone."
)
_NEWEST_OF_OLD_ASSEMBLER = 100
_NEEDS_NEW_DRIVER = (13,)


@dataclass(frozen=True)
class Triton:
    """An installed Triton, with the assembler to use for one architecture.

    Attributes:
        version: Its version, such as "3.9.0".
        folder: The package's folder.
        assembler: The `ptxas` that makes the machine code.
        assembler_version: What that says of itself.
    """

    version: str
    folder: Path
    assembler: Path
    assembler_version: str

    def key(self) -> str:
        """Identifies the compiler in cache keys."""
        text = f"{self.version}\0{self.assembler_version}"
        return hashlib.sha256(text.encode()).hexdigest()

    def tool(self, name: str) -> Path:
        """One of the programs that come with Triton: "nvdisasm", "cuobjdump"."""
        return _tools(self.folder) / name


def capability(arch: str) -> int:
    """The number in an architecture's name: 90 for "sm_90"."""
    return int(arch.removeprefix("sm_"))


def find_triton(arch: str) -> Triton:
    """The installed Triton.

    Raises:
        ToolchainMissing: Triton is not installed, or is older than `OLDEST`.
        ToolchainError: Its assembler cannot be run.
    """
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        raise ToolchainMissing("Triton is not installed", advice=_INSTALL)
    folder = Path(spec.origin).parent
    version = _version(Path(spec.origin))
    if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise ToolchainMissing(
            f"Triton {version} is too old, {wanted} is the oldest that will do",
            where=folder,
            advice=_INSTALL,
        )
    assembler = _assembler(folder, arch)
    return Triton(version, folder, assembler, _said_version(assembler))


def _version(init: Path) -> str:
    found = re.search(r"^__version__ = ['\"](.*)['\"]", init.read_text(encoding="utf-8"), re.M)
    return found.group(1) if found else "0"


def _tools(folder: Path) -> Path:
    return folder / "backends" / "nvidia" / "bin"


def _assembler(folder: Path, arch: str) -> Path:
    """The newest of Triton's assemblers; where the architecture allows, of those of CUDA 12.

    Machine code of CUDA 12 is taken by drivers from 525 on, that of CUDA 13 from 580 on only. Code
    of 12.8 reads registers that nothing has written (ADR 0051).
    """
    names = [_tools(folder) / name for name in ("ptxas", "ptxas-blackwell")]
    found = [path for path in names if path.exists()]
    if capability(arch) < _NEWEST_OF_OLD_ASSEMBLER:
        found = [path for path in found if _release(path) < _NEEDS_NEW_DRIVER] or found
    return max(found, key=_release, default=names[0])


def _release(assembler: Path) -> tuple[int, ...]:
    """The numbers of its version: (12, 9, 86)."""
    found = re.search(r"\bV(\d+)\.(\d+)\.(\d+)", _said_version(assembler))
    return tuple(int(part) for part in found.groups()) if found else ()


@cache
def _said_version(assembler: Path) -> str:
    try:
        ran = subprocess.run(
            [assembler, "--version"], capture_output=True, text=True, timeout=120, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ToolchainError(
            f"Triton's assembler cannot be run: {error}", where=assembler, advice=_INSTALL
        ) from error
    return ran.stdout
