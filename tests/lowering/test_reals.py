"""Complex graphs become graphs of reals; what has no complex values stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from aot_runtime.format.pairs import from_pairs, in_pairs

from aot import driver
from aot.backends.registry import backend_for
from aot.errors import UnsupportedOperators
from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.ir.tensors import ComplexValues, TensorGraph, all_ops
from aot.ir.verify_tensors import verify_tensors
from aot.lowering.lower import lower_outline
from aot.lowering.outline import outline
from aot.lowering.reals import in_reals
from aot.options import ALL_CPU, parse_target
from tests.calls import Calls


def read(function: Callable[..., Any], *args: torch.Tensor) -> TensorGraph:
    return ingest(capture_module(Calls(function), args))[0]


Z = torch.randn(3, 4, dtype=torch.complex64)


def test_a_real_graph_is_its_own_graph_of_reals() -> None:
    graph = read(lambda x: x.exp() + 1, torch.ones(3))
    assert in_reals(graph) is graph


def test_values_are_whole_where_memory_is_shared_and_parts_elsewhere() -> None:
    graph = read(lambda z, w: torch.exp(z * w).conj(), Z, Z)
    assert all(graph.types[name].dtype.is_complex for name in (*graph.inputs, *graph.outputs))
    reals = in_reals(graph)
    verify_tensors(reals)
    assert not any(type_.dtype.is_complex for type_ in reals.types.values())
    assert reals.signature.complex == ComplexValues((0, 1), (0,))
    (name,) = reals.outputs
    assert reals.types[name].shape == (3, 4, 2)
    assert reals.types[name].strides == (8, 2, 1)
    assert [op.target for op in reals.ops if "." in op.target][:4] == ["aten.select.int"] * 4
    assert reals.ops[-1].target == "aten.stack.default"


def test_values_pass_whole_through_control_flow() -> None:
    def forward(z: torch.Tensor) -> torch.Tensor:
        def again(k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return k < 3

        def body(k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return k + 1, v * z

        loop = torch._higher_order_ops.while_loop
        return loop(again, body, (torch.tensor(0), z * 1j))[1]

    reals = in_reals(read(forward, Z))
    verify_tensors(reals)
    assert not any(type_.dtype.is_complex for type_ in reals.types.values())
    targets = [op.target for op in all_ops(reals.ops) if hasattr(op, "target")]
    assert targets.count("complex.aten.mul.Tensor") == 2


def test_what_has_no_way_is_refused_by_its_own_name() -> None:
    graph = read(torch.erf, Z)
    with pytest.raises(UnsupportedOperators) as caught:
        lower_outline(outline(graph))
    (missing,) = caught.value.missing
    assert (missing.operator, missing.reason) == (
        "aten.erf.default",
        "on complex numbers: write it with x.real and x.imag",
    )


def _rotary(x: torch.Tensor, freqs: torch.Tensor) -> torch.Tensor:
    """Llama's original code."""
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * freqs.view(1, 5, 1, 4)).flatten(3).type_as(x)


@pytest.mark.parametrize("target", [ALL_CPU, parse_target("cuda:sm_90")], ids=["cpu", "gpu"])
def test_a_rotary_embedding_is_one_kernel_without_temporaries(target: Any) -> None:
    freqs = torch.polar(torch.ones(5, 4), torch.randn(5, 4))
    graph = read(_rotary, torch.randn(2, 5, 3, 8), freqs)
    kernels = driver.schedule(graph, backend_for(target).machine(target))
    (kernel,) = kernels.kernels
    assert set(kernel.reads) == set(graph.inputs)
    assert set(kernel.writes) == set(kernels.outputs)


def test_pairs_are_the_memory_of_complex_arrays() -> None:
    values = np.array([[1 + 2j, 3 - 4j]], np.complex64)
    pairs = in_pairs(values)
    assert pairs.tolist() == [[[1, 2], [3, -4]]]
    assert in_pairs(values.T).tolist() == [[[1, 2]], [[3, -4]]]
    assert from_pairs(pairs, values.dtype).tolist() == values.tolist()
    real = np.ones(3)
    assert in_pairs(real) is real
    assert from_pairs(real, real.dtype) is real
