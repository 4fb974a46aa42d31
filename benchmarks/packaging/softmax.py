"""One softmax, for `benchmarks.packaging`: what every build costs."""

from __future__ import annotations

import torch

model = torch.nn.Softmax(-1)
example_inputs = (torch.randn(64, 512),)
