"""What every architecture's process needs, imported once: the processes are forks of this one.

Importing torch, its exporter and four libraries is most of the work of packaging a small model.
A package is made, too: the exporter and the compiler import much when they are first called.
"""

from __future__ import annotations

import importlib
import os
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import torch

import aot
from tests.models.check import CPU
from tests.models.libraries import library

IMPORTED_LATE = (
    *("modeling_utils", "masking_utils", "quantizers.auto"),
    *("generation.utils", "models.auto"),
)
"""What transformers imports with the first model."""


def warm() -> int:
    """Imports and packages; gives the number of threads, which is 1 where a fork is safe."""
    # A driver that has been asked answers no fork. These processes are those of CPUs.
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    torch.set_num_threads(1)
    for name in ("transformers", "timm", "torchvision", "torchaudio"):
        with suppress(ImportError):
            library(name)
    for name in IMPORTED_LATE:
        with suppress(ImportError):
            importlib.import_module(f"transformers.{name}")
    dims = {"input": {0: torch.export.Dim("batch")}}
    with tempfile.TemporaryDirectory() as folder:
        aot.package(
            torch.nn.Linear(3, 5),
            kwargs={"input": torch.randn(2, 3)},
            path=Path(folder) / "model.pkg",
            targets=[CPU],
            dynamic_shapes=dims,
            golden=False,
        )
    for thread in threading.enumerate():
        # The first package of changed headers has them precompiled beside what comes.
        if thread is not threading.main_thread():
            thread.join()
    for _ in range(100):
        # A thread that was joined may take a moment to be gone.
        threads = len(list(Path("/proc/self/task").iterdir()))
        if threads == 1:
            break
        time.sleep(0.01)
    return threads


THREADS = warm()
