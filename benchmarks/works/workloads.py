"""The table of workloads: a network, its inputs, and what is dynamic; in the real size and small.

The real sizes are those of the networks' users; the small ones of tests, which also run in
Triton's interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from benchmarks.works import networks

Inputs = tuple[torch.Tensor, ...]

HOT = (3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1)
"""Lookups a bag of each table: those of MLPerf's DLRM v2, 214 in all."""


@dataclass(frozen=True)
class Workload:
    """One network.

    Attributes:
        name: Of the row.
        size: What its inputs are, in words.
        real, small: Make the network and its inputs.
        dynamic: As torch.export takes it; of the inputs, in order.
        half: Parameters that are bfloat16 on a GPU, and with them what is float among the inputs.
    """

    name: str
    size: str
    real: Callable[[], tuple[nn.Module, Inputs]]
    small: Callable[[], tuple[nn.Module, Inputs]]
    dynamic: Any = None
    half: tuple[str, ...] = ()

    def make(self, device: str, *, small: bool = False) -> tuple[nn.Module, Inputs]:
        """The network in eval mode and its inputs, as users of that device have them, on the host.

        They are the same in every process.
        """
        torch.manual_seed(0)
        module, inputs = (self.small if small else self.real)()
        module.eval().requires_grad_(requires_grad=False)
        if device == "cuda" and self.half:
            for name in self.half:
                parameter = module.get_parameter(name)
                parameter.data = parameter.data.bfloat16()
            inputs = tuple(x.bfloat16() if x.is_floating_point() else x for x in inputs)
        return module, inputs


def _graph(nodes: int, edges: int, features: int, heads: int) -> tuple[nn.Module, Inputs]:
    network = networks.GraphNetwork(features, heads)
    return network, (torch.randn(nodes, features), torch.randint(0, nodes, (2, edges)))


def _recommender(
    batch: int, rows: int, hot: tuple[int, ...], sizes: Mapping[str, Any]
) -> tuple[nn.Module, Inputs]:
    """Bags of `hot` lookups on average, some of them empty."""
    starts, indices = [], []
    for mean in hot:
        lengths = torch.randint(2 * mean + 1, (batch,))
        ends = lengths.cumsum(0)
        starts.append(torch.cat([torch.zeros(1, dtype=torch.int64), ends]))
        indices.append(torch.randint(0, rows, (int(ends[-1]),)))
    network = networks.Recommender(len(hot), rows, **sizes)
    return network, (torch.randn(batch, 13), torch.stack(starts), *indices)


def _experts(kind: type[nn.Module], tokens: int, **sizes: int) -> tuple[nn.Module, Inputs]:
    network = kind(**sizes)
    return network, (torch.randn(tokens, network.router.in_features),)


def _recurrent(batch: int, steps: int, inputs: int, width: int) -> tuple[nn.Module, Inputs]:
    return networks.Recurrent(inputs, width), (torch.randn(batch, steps, inputs),)


FEW = {"hidden": 32, "inner": 16, "experts": 3, "chosen": 2}
EXPERTS = ("gate", "up", "down")
NARROW = {"width": 16, "bottom": (32,), "top": (32, 16)}

WORKLOADS = (
    Workload(
        "graph network",
        "GCN and GAT (4 heads), 100,000 nodes of 64, 1,000,000 edges",
        lambda: _graph(100_000, 1_000_000, 64, 4),
        lambda: _graph(50, 200, 16, 2),
    ),
    Workload(
        "recommender",
        "DLRM, batch 2048, 26 tables of 100,000 x 64, 438,000 lookups",
        lambda: _recommender(2048, 100_000, HOT, {}),
        lambda: _recommender(8, 100, (1, 3, 5), NARROW),
    ),
    Workload(
        "experts with room",
        "64 experts (bfloat16 on a GPU), 8 chosen, 16,384 tokens of 512, SwiGLU of 256, room for "
        "1.25 times the mean",
        lambda: _experts(networks.MixtureOfExperts, 16_384),
        lambda: _experts(networks.MixtureOfExperts, 64, **FEW),
        half=EXPERTS,
    ),
    Workload(
        "experts in a loop",
        "64 experts (bfloat16 on a GPU), 8 chosen, 16,384 tokens of 512, SwiGLU of 256, no token "
        "dropped",
        lambda: _experts(networks.LoopOfExperts, 16_384),
        lambda: _experts(networks.LoopOfExperts, 64, **FEW),
        half=EXPERTS,
    ),
    Workload(
        "LSTM",
        "1000 steps (dynamic), batch 4, 64 inputs, width 256",
        lambda: _recurrent(4, 1000, 64, 256),
        lambda: _recurrent(2, 5, 8, 16),
        dynamic=({1: torch.export.Dim("steps", min=1, max=4096)},),
    ),
)


def workload_named(name: str) -> Workload:
    """The workload of this name."""
    return next(w for w in WORKLOADS if w.name == name)
