"""Files of compiled code that builds keep."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from aot.errors import ToolchainError


def keep(path: Path, data: bytes) -> None:
    """Writes a file of a cache; other builds see it whole or not at all.

    Raises:
        ToolchainError: The place cannot be written.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_bytes(data)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise ToolchainError(
            f"compiled kernels cannot be kept in {path.parent}: {error}",
            advice="Free space there, or choose another place with AOT_CACHE_DIR.",
        ) from error
