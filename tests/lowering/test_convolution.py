"""What the lowering of convolutions promises the later stages."""

from __future__ import annotations

import torch

from aot.ir.templates import Conv
from tests.lowering.lowered import lowered, only_template


def test_convolution_attributes() -> None:
    conv = torch.nn.Conv2d(4, 6, 3, stride=(2, 1), padding=1, dilation=2, groups=2)
    call = only_template(lowered(conv, torch.ones(1, 4, 9, 9)), Conv)
    assert dict(call.attributes) == {
        "stride": (2, 1),
        "padding": (1, 1),
        "dilation": (2, 2),
        "groups": 2,
    }
