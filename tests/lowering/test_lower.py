"""Lowering as a whole: what is supported, what is refused and how, dynamic sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from aot.errors import UnsupportedOperators
from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.frontend.weights import to_array
from aot.ir.interpreter import bind_dims, interpret_loops
from aot.ir.loops import LoopGraph
from aot.ir.nests import LoopNest
from aot.ir.scalar import loads
from aot.ir.verify import verify_loops
from aot.lowering.lower import lower, supported_operators
from aot.lowering.registry import Registry
from aot.symbolic import FloorDiv, Modulo
from tests.settings import seeded


class Applied(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def lowered(function: Callable[..., Any], *args: torch.Tensor, sizes: Any = None) -> LoopGraph:
    """The loop graph of a function; `sizes`: dynamic shapes per argument."""
    spec = None if sizes is None else (tuple(sizes),)
    graph, _ = ingest(capture_module(Applied(function), args, dynamic_shapes=spec))
    loops = lower(graph)
    verify_loops(loops)
    return loops


def run(loops: LoopGraph, *args: torch.Tensor) -> list[np.ndarray]:
    arrays = {n: to_array(a) for n, a in zip(loops.inputs, args, strict=True)}
    dims = bind_dims(loops.dims, [tuple(a.shape) for a in args])
    return list(interpret_loops(loops, arrays, lambda fqn: np.zeros(0), dims))


def test_every_supported_operator_is_an_operator_of_torch() -> None:
    for target in supported_operators():
        namespace, name, overload = target.split(".")
        packet = getattr(getattr(torch.ops, namespace), name)
        assert overload in packet.overloads(), target


def test_an_operator_has_one_lowering() -> None:
    registry = Registry()
    registry.row("aten.x.default")(lambda call: ())
    with pytest.raises(ValueError, match=r"aten\.x\.default has two lowerings"):
        registry.row("aten.x.default")(lambda call: ())


def test_all_missing_operators_are_listed_with_their_lines() -> None:
    def gradients(x: torch.Tensor) -> Any:
        back = torch.ops.aten.upsample_linear1d_backward
        return back(x[None], [3], [1, 3, 3], False) + back(x[None] + 1, [3], [1, 3, 3], False)

    with pytest.raises(UnsupportedOperators) as raised:
        lowered(gradients, torch.randn(3, 3))
    (missing,) = raised.value.missing
    assert missing.operator == "aten.upsample_linear1d_backward.default"
    assert {o.file.rpartition("/")[2] for o in missing.origins} == {"test_lower.py"}
    assert all(o.line > 0 and o.code for o in missing.origins)


def test_operators_without_a_row_say_what_to_do() -> None:
    with pytest.raises(UnsupportedOperators) as caught:
        lowered(lambda x: torch.ops.aten.binomial.default(x, x), torch.eye(3))
    assert "package the model, not a program" in caught.value.missing[0].reason


def test_refused_calls_say_why_and_do_not_hide_each_other() -> None:
    from aot.ir.dtypes import BOOL, FLOAT32
    from aot.ir.origin import Origin
    from aot.ir.tensors import Signature, TensorGraph, TensorOp, TensorType, Tree, ValueRef
    from aot.symbolic import as_expr

    shape, strides = (as_expr(4),), (as_expr(1),)
    types = {n: TensorType(FLOAT32, shape, strides) for n in ("x", "a", "b", "c", "d")}
    types["m"] = TensorType(BOOL, shape, strides)
    x, m = ValueRef("x"), ValueRef("m")

    def op(target: str, *args: Any, result: str, line: int) -> TensorOp:
        return TensorOp(target, args, (), (result,), Origin("model.py", line, target))

    ops = (
        op("aten.index.Tensor", x, (m,), result="a", line=1),
        op("aten.pad.default", ValueRef("a"), (1, 1), "odd", result="b", line=2),
        op("aten._pad_circular.default", ValueRef("b"), (-4, 2), result="c", line=3),
        op("aten.relu.default", ValueRef("c"), result="d", line=4),
    )
    graph = TensorGraph("g", (), ("x", "m"), (), ops, ("d",), types, Signature((), Tree("leaf", 0)))
    with pytest.raises(UnsupportedOperators) as raised:
        lower(graph)
    reasons = {item.operator: item.reason for item in raised.value.missing}
    assert reasons == {
        "aten.index.Tensor": "the result's size depends on the values of a mask",
        "aten.pad.default": "padding mode 'odd'",
        "aten._pad_circular.default": "circular padding of a dimension that is cut off whole",
    }


BATCH = torch.export.Dim("batch", min=0, max=64)
LENGTH = torch.export.Dim("length", min=0, max=64)
SOME_LENGTH = torch.export.Dim("length", min=1, max=64)
DYNAMIC: dict[str, Callable[[torch.Tensor], Any]] = {
    "softmax": lambda x: x.softmax(1),
    "mean": lambda x: (x.mean(1), x.mean(-1)),
    "var": lambda x: x.var(1),
    "reshape": lambda x: x.reshape(x.shape[0], -1),
    "merge": lambda x: x.reshape(-1, 6).sum(1),
    "heads": lambda x: x.reshape(x.shape[0], x.shape[1], 2, 3).transpose(1, 2).amax(-1),
    "cat": lambda x: torch.cat([x, x[:, :1], x], 1),
    "flip": lambda x: x.flip(1),
    "roll": lambda x: (x.roll(2, 1), x.roll(-9, 1), x.roll(x.shape[1], 2)),
    "pad circular": lambda x: F.pad(x.transpose(1, 2), (1, 1), mode="circular"),
    "pad circular cut": lambda x: tuple(
        F.pad(F.pad(x.transpose(1, 2), (2, 2)), widths, mode="circular")
        for widths in ((2, -1), (-2, 1), (-1, -1), (1, -2))
    ),
    "pad": lambda x: F.pad(x, (1, 2, 3, 0), value=2.0),
    "positions": lambda x: x + torch.arange(x.shape[1])[None, :, None],
    "tril": lambda x: x.new_ones(x.shape[1], x.shape[1]).tril(),
    "last": lambda x: x[:, -1:],
    "expand": lambda x: x[:, :, :1].expand(-1, -1, 4) * 2,
    "repeat": lambda x: x.repeat(2, 1, 1),
    "size as a number": lambda x: x * x.shape[1] + x.shape[0],
    "stack": lambda x: torch.stack([x, x * 2], 2),
    "argmax": lambda x: x.argmax(-1),
    "layer_norm": lambda x: F.layer_norm(x, (6,)),
    "vectors of a dynamic length": lambda x: F.scaled_dot_product_attention(
        *[x.transpose(1, 2)] * 3
    ),
    "group_norm": lambda x: F.group_norm(x.transpose(1, 2), 3),
}

NOT_EMPTY = ("var", "pad circular", "reshape", "cat", "last", "argmax")
"""Functions that eager refuses for a size of 0, or whose graph is of another shape then."""


@pytest.mark.parametrize("name", DYNAMIC)
def test_one_graph_serves_all_sizes(name: str) -> None:
    torch.manual_seed(seeded())
    function = DYNAMIC[name]
    length = SOME_LENGTH if name in NOT_EMPTY else LENGTH
    loops = lowered(function, torch.randn(4, 5, 6), sizes=[{0: BATCH, 1: length}])
    empty = () if name in NOT_EMPTY else ((0, 3), (2, 0))
    for batch, length in ((4, 5), (1, 7), (3, 2), (2, 9), *empty):
        x = torch.randn(batch, length, 6)
        expected = function(x)
        expected = expected if isinstance(expected, tuple) else (expected,)
        for actual, wanted in zip(run(loops, x), expected, strict=True):
            np.testing.assert_allclose(actual, wanted.numpy(), rtol=2e-5, atol=2e-6)


def test_dividends_are_never_negative() -> None:
    """C divides towards zero, our expressions towards minus infinity."""
    loops = lowered(lambda x: x.roll((2, -9), (1, 2)), torch.randn(4, 5, 6), sizes=[{1: LENGTH}])
    (op,) = loops.ops
    assert isinstance(op, LoopNest)
    ranges = loops.ranges(*op.axes)
    divisions = [
        part
        for access in (n.attr for n in loads(op.roots))
        for expr in access.index
        for part in expr.atoms(Modulo, FloorDiv)
    ]
    assert divisions
    assert all(ranges.nonnegative(part.args[0]) for part in divisions)


def test_views_read_and_do_nothing_else() -> None:
    loops = lowered(lambda x: x.permute(2, 0, 1)[1:].flip(0).unsqueeze(1), torch.randn(4, 5, 6))
    for op in loops.ops:
        assert isinstance(op, LoopNest)
        assert [store.value.op for store in op.stores] == ["load"]


def test_copies_of_half_types_do_not_pass_through_float32() -> None:
    loops = lowered(lambda x: x.clone(memory_format=torch.contiguous_format), _half().t())
    (op,) = loops.ops
    assert isinstance(op, LoopNest)
    assert op.stores[0].value.op == "load"


def _half() -> torch.Tensor:
    return torch.randn(3, 4).to(torch.bfloat16)


def test_statistics_of_weights_do_not_read_inputs() -> None:
    """So that they fold when the package is built."""

    class Normalised(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.BatchNorm2d(3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(x)

    graph, _ = ingest(capture_module(Normalised(), (torch.randn(2, 3, 4, 4),)))
    loops = lower(graph)
    *statistics, last = loops.ops
    for op in statistics:
        assert isinstance(op, LoopNest)
        assert len(op.axes) == 1
    assert isinstance(last, LoopNest)
    assert len(last.axes) == 4
