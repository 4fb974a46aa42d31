"""What every process that builds or times needs: imported once, before they are forked."""

import aot_runtime
import torch

import aot

__all__ = ["aot", "aot_runtime", "torch"]
