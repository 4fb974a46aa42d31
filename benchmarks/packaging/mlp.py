"""Three products, for `benchmarks.packaging`: three templates to instantiate."""

from __future__ import annotations

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(
    nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 64)
).eval()
example_inputs = (torch.randn(32, 256),)
