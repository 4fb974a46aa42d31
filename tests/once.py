"""What several tests need, and several of pytest's workers: made by the first that asks for it."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACE = ROOT / ".cache" / "tests"
_DONE = "done"


def digest_of(*parts: str | Path) -> str:
    """A hash of texts and of the contents of files."""
    digest = hashlib.sha256()
    for part in parts:
        content = part.read_bytes() if isinstance(part, Path) else part.encode()
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()[:24]


def files_below(*folders: Path) -> Iterable[Path]:
    """Every file in the folders, in an order that is always the same."""
    return sorted(p for folder in folders for p in folder.rglob("*") if p.is_file())


def made_once(name: str, digest: str, make: Callable[[Path], object], place: Path = PLACE) -> Path:
    """The folder that `make` has filled, which stays until the digest is another.

    `digest`: a hash of all that it is made of. What fails is tried again by the next who asks.
    """
    folder = place / name
    place.mkdir(parents=True, exist_ok=True)
    with (place / f"{name}.lock").open("w") as lock:
        # The system ends it with the process.
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder / _DONE
        if not done.is_file() or done.read_text(encoding="utf-8") != digest:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            done.write_text(digest, encoding="utf-8")
    return folder
