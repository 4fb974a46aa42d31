"""What ingest makes of exported programs: values, dims, trees, weights, origins, refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch.export import Dim

from aot.errors import AotError, DynamicShapeError, ExportError, UnsupportedOperators
from aot.frontend.capture import capture_module
from aot.frontend.golden import examples
from aot.frontend.ingest import ingest
from aot.frontend.sizes import InputSizes, read_guards
from aot.frontend.weights import TorchWeights
from aot.ir import tensors
from aot.ir.dtypes import FLOAT32, INT64
from aot.ir.tensors import TensorGraph, Tree
from aot.symbolic import Maximum, dim, integer, to_text
from tests.calls import Calls
from tests.conformance.executors import interpret_lowered


def read(module: Any, *args: Any, **settings: Any) -> tuple[TensorGraph, TorchWeights]:
    wrapped = module if isinstance(module, torch.nn.Module) else Calls(module)
    return ingest(capture_module(wrapped, args, **settings))


def rows(*specs: Any) -> dict[str, Any]:
    return {"dynamic_shapes": {"args": specs}}


def targets(graph: TensorGraph) -> list[str]:
    return [op.target for op in graph.ops]


def test_values_have_eagers_types_and_strides() -> None:
    graph, _ = read(lambda x: x.t() + 1, torch.ones(3, 4))
    (name,) = graph.outputs
    assert graph.types[name].shape == (4, 3)
    assert graph.types[name].strides == (1, 4)
    assert targets(graph) == ["aten.t.default", "aten.add.Tensor"]


def test_dims_come_from_inputs_with_the_users_range_and_name() -> None:
    batch = Dim("batch", min=0, max=64)
    graph, _ = read(lambda x: x * 2, torch.ones(5, 3), **rows({0: batch}))
    (only,) = graph.dims
    assert (only.minimum, only.maximum, only.hint) == (0, 64, 5)
    assert (only.source, only.label) == ((0, 0, 1, 0), "batch")


def test_derived_sizes_are_expressions() -> None:
    n = Dim("n", min=2, max=9)
    graph, _ = read(torch.outer, torch.ones(4), torch.ones(9), **rows({0: n}, {0: 2 * n + 1}))
    (only,) = graph.dims
    left, right = (graph.types[name].shape[0] for name in graph.inputs)
    assert left == dim(only.name)
    assert right == 2 * dim(only.name) + 1


def test_a_size_that_only_an_affine_input_gives() -> None:
    n = Dim("n", min=2, max=9)
    graph, _ = read(lambda x: x * 2, torch.ones(9), **rows({0: 2 * n + 1}))
    assert graph.dims[0].source == (0, 0, 2, 1)


def test_sizes_that_must_divide_are_counted_in_units() -> None:
    n = Dim("n", min=2, max=64)
    graph, _ = read(lambda x: x.view(-1, 4).sum(1), torch.ones(16), **rows({0: 4 * n}))
    assert to_text(graph.types[graph.outputs[0]].shape[0]) == graph.dims[0].name
    halves, _ = read(
        lambda x: x.view(x.shape[0] // 2, 2) if x.shape[0] % 2 == 0 else x,
        torch.ones(8),
        **rows({0: Dim.AUTO}),
    )
    (only,) = halves.dims
    assert only.source == (0, 0, 2, 0)
    assert halves.types[halves.outputs[0]].shape == (dim(only.name), 2)


def test_conditions_between_sizes_become_relations() -> None:
    def shorter(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] < y.shape[0] else y

    graph, _ = read(shorter, torch.ones(4), torch.ones(9), **rows({0: Dim.AUTO}, {0: Dim.AUTO}))
    (relation,) = graph.relations
    assert relation.relation == "<"
    assert {str(s) for s in relation.left.free_symbols} == {graph.dims[1].name} or len(graph.dims)


def test_sizes_left_open_are_as_wide_as_the_model_allows() -> None:
    n, table = Dim("n"), torch.arange(64.0)
    graph, _ = read(lambda x: x + table[: x.shape[0]], torch.ones(5), **rows({0: n}))
    (only,) = graph.dims
    assert (only.minimum, only.maximum, only.label) == (0, 64, "n")
    fours, _ = read(lambda x: x.reshape(-1, 4), torch.ones(8), **rows({0: n}))
    assert fours.dims[0].source == (0, 0, 4, 0)
    same, _ = read(torch.add, torch.ones(5), torch.ones(5), **rows({0: n}, {0: Dim("m")}))
    assert len(same.dims) == 1
    rest, _ = read(lambda x: x[4:], torch.ones(9, 2), **rows({0: n}))
    assert rest.dims[0].minimum == 4


def test_a_range_that_the_user_gives_is_not_narrowed() -> None:
    table = torch.arange(64.0)
    with pytest.raises(DynamicShapeError, match="does not allow"):
        read(lambda x: x + table[: x.shape[0]], torch.ones(5), **rows({0: Dim("n", min=2, max=99)}))


@pytest.mark.parametrize("used", [True, False])
def test_strides_that_no_size_determines_are_dense(used: bool) -> None:
    padded = torch.ones(13, 7)[:, :6]
    graph, _ = read(
        lambda x, y: (x if used else y) * 2, padded, torch.ones(3), **rows({1: Dim("n")}, None)
    )
    (only,) = graph.dims
    assert graph.types[graph.inputs[0]].strides == (dim(only.name), 1)


def test_a_size_fixed_for_the_example_alone_is_explained() -> None:
    with pytest.raises(DynamicShapeError, match="a larger example"):
        read(lambda x: x[5:].squeeze(0) @ x[0], torch.ones(6, 2), **rows({0: Dim("n")}))


def test_sizes_are_what_torch_took_them_for() -> None:
    """A slice that has one row for every traced size broadcasts, as it did for torch."""
    graph, _ = read(
        lambda x, table: x + table[max(0, 1 - x.shape[0]) :],
        torch.ones(6, 5),
        torch.ones(1, 5),
        **rows({0: Dim("n")}, None),
    )
    (added,) = [op for op in graph.ops if op.target == "aten.add.Tensor"]
    assert graph.types[added.args[1].name].shape == (1, 5)


def test_guards_with_extrema_become_relations() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return y[: max(x.shape[0], 9)] if max(x.shape[0], 9) < y.shape[0] else y

    graph, _ = read(function, torch.ones(4), torch.ones(19), **rows({0: Dim.AUTO}, {0: Dim.AUTO}))
    assert any("max(" in r.message for r in graph.relations)


@pytest.mark.parametrize("module", ["", "torch.sym_"], ids=["older", "since 2.14"])
def test_guards_name_extrema_as_each_torch_writes_them(module: str) -> None:
    n = dim("n")
    sizes = InputSizes({("x",): (n,)})
    dims = (tensors.Dim("n", 1, 300, 6, (0, 0, 1, 0), "n"),)
    text = f"{module}max(5, L['x'].size()[0]) <= 2 * L['x'].size()[0]"
    (relation,) = read_guards([text], sizes, dims)
    assert (relation.left, relation.right) == (Maximum(integer(5), n), 2 * n)
    # That a size is not 1 is torch's own condition, whatever the size is made of.
    torchs = f"(L['x'].size()[0] + ((-1)*{module}max(0, (-50) + L['x'].size()[0]))) != 1"
    assert read_guards([torchs], sizes, dims) == ()


def test_least_sizes_of_the_user_and_of_the_model_stay() -> None:
    (only,) = read(lambda x: x * 2, torch.ones(5), **rows({0: Dim("n", min=2)}))[0].dims
    assert only.minimum == 2

    def long(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] > 3 else x

    graph, _ = read(long, torch.ones(5), **rows({0: Dim("n")}))
    assert graph.dims[0].minimum == 4


def test_arithmetic_on_sizes_is_folded() -> None:
    graph, _ = read(
        lambda x: x.reshape(-1)[: x.shape[0] * 2], torch.ones(4, 3), **rows({0: Dim("n", min=2)})
    )
    assert all(t.startswith("aten.") and "sym_size" not in t for t in targets(graph))
    assert graph.types[graph.outputs[0]].shape == (2 * dim(graph.dims[0].name),)


class Nested(torch.nn.Module):
    """Containers in and out, a keyword, constants."""

    def forward(self, x: Any, d: Any, *, k: Any, flag: bool = True, z: Any = None) -> Any:
        return {"a": (x + d["u"][0], None), "b": [d["v"] * k, 3]}


def test_signature_trees() -> None:
    one = torch.ones(2)
    graph, _ = read(Nested(), one, {"u": [one], "v": one}, kwargs={"k": one, "flag": False, "z": 2})
    x, d, k, flag, z = graph.signature.parameters
    assert (x.name, x.keyword_only, x.tree) == ("x", False, Tree("leaf", 0))
    leaf = Tree("list", None, (Tree("leaf", 1),))
    assert d.tree == Tree("dict", None, (leaf, Tree("leaf", 2)), ("u", "v"))
    assert (k.name, k.keyword_only, k.tree) == ("k", True, Tree("leaf", 3))
    assert (flag.tree, z.tree) == (Tree("constant", False), Tree("constant", 2))
    result = graph.signature.result
    assert result.keys == ("a", "b")
    assert result.children[0].children == (Tree("leaf", 0), Tree("constant", None))
    assert result.children[1].children == (Tree("leaf", 1), Tree("constant", 3))


class Tied(torch.nn.Module):
    """Two names for one weight, a slice that is not contiguous, an unused weight."""

    def __init__(self) -> None:
        super().__init__()
        self.one = torch.nn.Linear(3, 3, bias=False)
        self.two = torch.nn.Linear(3, 3, bias=False)
        self.two.weight = self.one.weight
        self.register_buffer("turned", torch.arange(6.0).view(2, 3).t())
        self.unused = torch.nn.Parameter(torch.ones(1000))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.two(self.one(x)) @ self.turned + torch.tensor([1.0, 2.0])


def test_weights_are_named_once_and_share_memory() -> None:
    module = Tied()
    graph, weights = read(module, torch.ones(1, 3))
    fqns = [fqn for _, fqn in graph.weights]
    assert sorted(fqns) == sorted(set(fqns)) == list(weights.names())
    assert len(fqns) == 3
    assert "unused" not in fqns
    linears = [op for op in graph.ops if op.target == "aten.linear.default"]
    assert linears[0].args[1] == linears[1].args[1]
    tied = next(f for f in fqns if f.endswith(".weight"))
    assert weights.array(tied).ctypes.data == module.one.weight.data_ptr()
    turned = weights.array("turned")
    assert turned.flags.c_contiguous
    np.testing.assert_array_equal(turned, module.turned.numpy())
    value = next(name for name, fqn in graph.weights if fqn == "turned")
    assert graph.types[value].strides == (2, 1)


def test_bfloat16_weights_keep_their_bits() -> None:
    _, weights = read(torch.nn.Linear(3, 2).bfloat16(), torch.ones(1, 3).bfloat16())
    array = weights.array("weight")
    assert array.dtype.name == "bfloat16"
    assert array.shape == (2, 3)


def test_calls_that_do_nothing_vanish() -> None:
    def nothing(x: torch.Tensor) -> torch.Tensor:
        return x.detach().clone().contiguous().to(torch.float32) + 1

    graph, _ = read(nothing, torch.ones(2, 3))
    assert targets(graph) == ["aten.add.Tensor"]


def test_a_copy_that_changes_the_layout_stays() -> None:
    graph, _ = read(lambda x: x.t().contiguous(), torch.ones(2, 3))
    assert targets(graph) == ["aten.t.default", "aten.clone.default"]


def test_outputs_that_are_inputs_or_sizes_are_results() -> None:
    graph, _ = read(lambda x: (x, x.shape[0], 7), torch.ones(4), **rows({0: Dim("n", min=2)}))
    assert targets(graph) == ["aten.clone.default", "aten.full.default"]
    assert [graph.types[o].dtype for o in graph.outputs] == [FLOAT32, INT64]
    assert graph.signature.result.children[2] == Tree("constant", 7)


def test_unused_results_and_operators_are_dropped() -> None:
    graph, _ = read(lambda x: (torch.max(x, 1)[1], x * 3)[0], torch.ones(2, 3))
    (op,) = graph.ops
    assert op.target == "aten.max.dim"
    assert op.outputs[0] is None
    assert op.outputs[1] == graph.outputs[0]


def test_origins_are_the_users_lines() -> None:
    graph, _ = read(
        Nested(),
        *[torch.ones(2), {"u": [torch.ones(2)], "v": torch.ones(2)}],
        kwargs={"k": torch.ones(2)},
    )
    origin = graph.ops[0].origin
    assert origin.file.endswith("test_ingest.py")
    assert origin.code.startswith('return {"a"')
    assert origin.line > 0


class Counter(torch.nn.Module):
    """Changes its buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x + self.count


def test_changed_buffers_are_states_and_changed_inputs_stay_inputs() -> None:
    graph, weights = read(Counter(), torch.ones(1))
    assert graph.states == (("b_count", "count"),)
    assert [m.target for m in graph.mutations] == ["b_count"]
    assert weights.array("count") == 0
    graph, _ = read(lambda x: x.add_(1), torch.ones(1))
    assert [m.target for m in graph.mutations] == ["args_0"]
    assert not graph.states


def test_first_values_of_states_are_those_at_packaging() -> None:
    module = Counter()
    _, weights = read(module, torch.ones(1))
    module(torch.ones(1))
    assert weights.array("count") == 0


class TiedBuffers(torch.nn.Module):
    """One tensor under two names, changed through one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))
        self.register_buffer("other", self.count)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x + self.other


def test_memory_that_changes_under_two_names_is_refused() -> None:
    with pytest.raises(ExportError, match="are the same memory"):
        read(TiedBuffers(), torch.ones(1))


def test_types_without_kernels_are_listed_with_lines() -> None:
    def bad(x: torch.Tensor) -> Any:
        # torch until 2.12 cannot print a graph with bits8.
        return x.view(torch.int16).view(torch.bits16).view(torch.int16)

    with pytest.raises(UnsupportedOperators) as caught:
        read(bad, torch.ones(4))
    reasons = {m.operator: m.reason for m in caught.value.missing}
    assert "bits16, which has no kernels" in reasons["aten.view.dtype"]
    assert all(m.origins[0].line for m in caught.value.missing)


def test_scale_factors_give_integer_sizes() -> None:
    def twice(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.interpolate(x, scale_factor=1.5)

    sizes = {2: Dim("h", min=4, max=64)}
    graph, _ = read(twice, torch.ones(1, 1, 8, 8), **rows(sizes))
    shape = graph.types[graph.outputs[0]].shape
    assert to_text(shape[2]) == f"(3*{graph.dims[0].name} // 2)"
    assert shape[3] == 12


def test_examples_are_flat_arrays_with_eagers_outputs() -> None:
    captured = capture_module(
        Calls(lambda x: {"y": x + 1}), (torch.ones(2),), extra_inputs=[(torch.zeros(2),)]
    )
    first, second = examples(captured)
    np.testing.assert_array_equal(first.outputs[0], [2, 2])
    np.testing.assert_array_equal(second.inputs[0], [0, 0])


def test_sizes_that_are_rounded_up_and_conversions_that_change_nothing() -> None:
    class Rounding(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.layer = self.layer.to(torch.float32)
            n = x.shape[0]
            return self.layer(x) + math.ceil(n / 3) * 100 + math.ceil(0.75 * n)

    model = Rounding().eval()
    dims = ({0: torch.export.Dim("rows")},)
    captured = capture_module(model, (torch.ones(7, 4),), dynamic_shapes=dims)
    for n in (2, 3, 4, 9, 10):
        with torch.no_grad():
            expected = model(torch.ones(n, 4))
        (found,) = interpret_lowered(captured, (torch.ones(n, 4),))
        torch.testing.assert_close(torch.as_tensor(found), expected)


def test_a_size_that_is_only_checked_is_measured() -> None:
    def checks(x: torch.Tensor) -> torch.Tensor:
        torch._check(x.nonzero().shape[0] <= 2)
        return x + 1

    graph, _ = ingest(capture_module(Calls(checks), (torch.ones(5),)))
    (relation,) = graph.relations
    assert str(relation.left) in {d.name for d in graph.dims}


class _Sparse(torch.nn.Module):
    """A matrix of few elements, which the module keeps or makes."""

    def __init__(self, matrix: torch.Tensor | None) -> None:
        super().__init__()
        self.matrix = matrix

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        matrix = self.matrix
        if matrix is None:
            matrix = torch.sparse_coo_tensor(at, x[:, 0], (3, 3))
        return torch.sparse.mm(matrix, x)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (torch.eye(3).to_sparse(), "holds matrix, a sparse tensor"),
        (None, r"of a sparse tensor, .*index_add"),
    ],
    ids=["kept", "made"],
)
def test_sparse_tensors_are_refused(matrix: torch.Tensor | None, message: str) -> None:
    at = torch.tensor([[0, 1, 2], [1, 0, 2]])
    with pytest.raises(AotError, match=message):
        ingest(capture_module(_Sparse(matrix), (torch.ones(3, 2), at)))


def test_a_tensor_that_tracing_leaves_in_a_constant_is_refused() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        y, push = torch.func.linearize(torch.sin, x)
        return y + push(x)

    with pytest.raises(ExportError, match="without values that was made while it was traced"):
        ingest(capture_module(Calls(model), (torch.ones(3),)))
