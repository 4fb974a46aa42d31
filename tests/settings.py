"""What a run of the tests is given: the seed of its inputs, the level of its packages, how much.

pytest's `--seed`, `--level` and `--sweeps` set them (tests/conftest.py), so that `make matrix` can
run the suite on other numbers and other kernels. Tools outside pytest have the defaults.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

LEVEL = "x86-64-v3"
"""The level that every machine can run."""

_STRIDE = 100_003
"""Between the seeds of two runs: more than any test counts up from its own."""


@dataclass
class Settings:
    """The choices; see `SETTINGS`."""

    seed: int = 0
    level: str = LEVEL
    sweeps: bool = False


SETTINGS = Settings()
"""Those of this process, set once, before any test is collected."""


def seeded(own: int = 0) -> int:
    """The seed for a test's inputs: its own, or one that `--seed` makes of it."""
    return own + _STRIDE * SETTINGS.seed


def exact_floats() -> None:
    """Lets nothing round float32 to TF32 in this process: results are held to exact ones then.

    To be called before torch.testing's own tests are imported, which allow no such change.
    """
    if torch.backends.cudnn.allow_tf32:
        torch.backends.cudnn.allow_tf32 = False


def level() -> str:
    """The instruction set level of packages whose test names none."""
    return SETTINGS.level
