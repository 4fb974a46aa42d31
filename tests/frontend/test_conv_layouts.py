"""Results of convolutions lie where eager's do, which torch.export does not know."""

from __future__ import annotations

from pathlib import Path

import aot_runtime
import pytest
import torch
from torch import nn

from aot import package
from aot.frontend.conv_layouts import eager_convolutions
from tests.levels import target_of

LAST = torch.channels_last_3d


def strides_of(module: nn.Module, x: torch.Tensor, tmp_path: Path) -> tuple[int, ...]:
    package(module, (x,), path=tmp_path / "c.pkg", targets=[target_of()], golden=False)
    found = aot_runtime.load(tmp_path / "c.pkg")(x)
    expected = module(x)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert found.stride() == expected.stride()
    return found.stride()


@pytest.mark.parametrize("groups", [1, 8])
def test_volumes_with_channels_last(groups: int, tmp_path: Path) -> None:
    module = nn.Conv3d(8, 8, 3, padding=1, groups=groups).eval()
    x = torch.randn(2, 8, 5, 6, 7)
    torch.export.export(module, (x.to(memory_format=LAST),))  # what torch remembers is not asked
    with torch.no_grad():
        assert strides_of(module, x.to(memory_format=LAST), tmp_path)[1] == 1
        assert strides_of(module, x, tmp_path)[1] == 5 * 6 * 7


@pytest.mark.parametrize("by_name", [False, True])
def test_operands_are_found_as_any_version_of_torch_gives_them(by_name: bool) -> None:
    """The choice of 2.11 is asked for by names alone, that of 2.13 not."""
    x, weight = torch.randn(2, 8, 5, 6, 7).to(memory_format=LAST), torch.randn(8, 8, 3, 3, 3)
    rest = {"stride": [1] * 3, "padding": [0] * 3, "dilation": [1] * 3, "output_padding": [0] * 3}
    rest |= {"transposed": False, "groups": 1, "bias": None, "bias_sizes": None}
    operands = {"input": x, "weight": weight}
    expected = torch._C._select_conv_backend(x, weight, **rest)
    with eager_convolutions():
        torch._C._set_mkldnn_enabled(False)
        choose = torch._C._select_conv_backend
        found = choose(**operands, **rest) if by_name else choose(x, weight, **rest)
        assert not torch._C._get_mkldnn_enabled()
        torch._C._set_mkldnn_enabled(True)
    assert found == expected


def test_torch_is_left_as_it_was(tmp_path: Path) -> None:
    """An export of the user's own says what it said."""
    module, x = nn.Conv3d(8, 8, 3).eval(), torch.randn(2, 8, 5, 6, 7).to(memory_format=LAST)
    before = torch.export.export(module, (x,)).graph
    with torch.no_grad():
        strides_of(module, x, tmp_path)
    after = torch.export.export(module, (x,)).graph
    said = [list(g.nodes)[-2].meta["val"].stride() for g in (before, after)]
    assert said[0] == said[1]


def test_open_sizes_stay_open(tmp_path: Path) -> None:
    module, x = nn.Conv3d(8, 8, 3).eval(), torch.randn(2, 8, 5, 6, 7).to(memory_format=LAST)
    sizes = {"input": {0: torch.export.Dim("n", max=64), 4: torch.export.Dim("w", min=4, max=99)}}
    path = tmp_path / "c.pkg"
    package(module, (x,), path=path, targets=[target_of()], dynamic_shapes=sizes, golden=False)
    other = torch.randn(1, 8, 5, 6, 30)
    with torch.no_grad():
        expected = module(other)
    torch.testing.assert_close(aot_runtime.load(path)(other), expected, rtol=1e-4, atol=1e-5)
