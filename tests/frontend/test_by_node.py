"""Programs taken apart node by node are what torch makes of them, or are left to torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import pytest
import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export
from torch.utils import _pytree as pytree

from aot.frontend import capture
from aot.frontend.by_node import decomposed_by_node
from aot.frontend.capture import capture_module, capture_program
from aot.frontend.decompose import decomposition_table
from aot.frontend.ingest import ingest
from aot.ir.tensors import Assertion
from benchmarks.packaging import layers

Function = Callable[..., Any]


class Model(nn.Module):
    """Of a function."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self._function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self._function(*args)


def pieces(x: torch.Tensor) -> torch.Tensor:
    """Composite operators: in several results, in sizes that are open, in ones that do nothing."""
    left, right = x.chunk(2, -1)
    rows = (left * right).flatten(0, 1).contiguous().reshape(-1, 2).to(x.dtype)
    return rows.to(torch.float64) + torch.ones(2).expand_as(rows)


def heads(x: torch.Tensor) -> Any:
    """Sizes that are asked for, of an input and of what is made of it, and computed with."""
    b, s, w = x.shape
    parts = x.reshape(b, s, 2, w // 2).transpose(1, 2)
    rows = parts.flatten(0, 1)
    mask = torch.arange(rows.shape[1])[None, :] < x.shape[1] - 1
    return (parts + mask[..., None]).reshape(b * 2, s, -1) + rows.numel(), rows.size(0) // 2


def overwritten(x: torch.Tensor) -> Any:
    """Writes over values that nobody else has, also twice, and read before and after."""
    y = x * 2
    z = y.relu_().add_(1, alpha=2)
    seen = y.sum(-1)
    w = (seen + 1).clamp_(0, 3)
    return y, z.mul_(z), w.masked_fill_(seen > 1, 0.5), nn.functional.hardswish(seen, inplace=True)


def constants(x: torch.Tensor) -> Any:
    """Tensors that the code makes of numbers, which tracing copies."""
    weights = torch.tensor([0.25, 0.5, 0.25])
    return x[..., :3] * weights.view(1, 3) + torch.tensor(2.0), weights


class Cells(nn.Module):
    """Cells of recurrent layers, which write over what they have made."""

    def __init__(self) -> None:
        super().__init__()
        self.long, self.gated, self.plain = nn.LSTMCell(8, 4), nn.GRUCell(4, 3), nn.RNNCell(3, 2)

    def forward(self, x: torch.Tensor) -> Any:
        h, c = self.long(x[:, 0])
        h, c = self.long(x[:, 1], (h, c))
        gated = self.gated(h)
        return h, c, self.gated(c, gated), self.plain(gated)


def stages() -> nn.Module:
    layers = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.SiLU(), nn.ReLU(inplace=True), nn.Dropout()
    return nn.Sequential(*layers, nn.Flatten(1))


OPEN = ({0: Dim("rows", min=1, max=64)},)
BOTH = ({0: Dim("rows", min=2, max=64), 1: Dim("columns", min=3, max=64)},)
X = torch.ones(4, 6, 8)

ALONE: Sequence[tuple[str, nn.Module, tuple[torch.Tensor, ...], Any]] = [
    ("nothing to do", nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Softmax(-1)), (X,), None),
    ("layers", layers.layers(2, "activation"), layers.inputs(), None),
    ("images", stages(), (torch.ones(1, 3, 5, 5),), None),
    ("pieces", Model(pieces), (X,), None),
    ("open sizes", Model(pieces), (X,), OPEN),
    ("values written over", Model(overwritten), (X,), OPEN),
    ("sizes asked for", Model(heads), (X,), OPEN),
    ("two sizes asked for", Model(heads), (X,), BOTH),
    ("constants", Model(constants), (X,), OPEN),
    ("cells", Cells(), (X,), OPEN),
    ("random numbers", Model(lambda x: torch.rand(3) + x.new_zeros(3) + x.sum()), (X,), None),
    ("an input that comes back", Model(lambda x: (x.contiguous(), x.detach(), x + 1)), (X,), None),
]


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of torch's own
@pytest.mark.parametrize(
    ("model", "inputs", "sizes"), [row[1:] for row in ALONE], ids=[r[0] for r in ALONE]
)
def test_nodes_become_what_torch_makes_of_the_program(
    model: nn.Module, inputs: tuple[torch.Tensor, ...], sizes: Any
) -> None:
    with torch.no_grad():
        ours = export(model.eval(), inputs, dynamic_shapes=_sizes(model, sizes))
        theirs = ours.run_decompositions(decomposition_table())
        assert decomposed_by_node(ours)
    assert _told(ours) == _told(theirs)
    ours.graph.lint()


def _sizes(model: nn.Module, sizes: Any) -> Any:
    return (sizes,) if sizes and isinstance(model, Model) else sizes  # those of `*args`


def _told(program: ExportedProgram) -> list[Any]:
    """All that is known of the nodes, which have numbers for names. Sizes stand for their nodes."""
    names: dict[str, str] = {}
    told: list[Any] = []
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            names[node.name] = str(value)
            continue
        names[node.name] = f"v{len(told)}" if node.op == "call_function" else node.name
        given = torch.fx.map_arg((node.args, node.kwargs), lambda n: names[n.name])
        place = (node.meta.get("stack_trace"), node.meta.get("nn_module_stack"))
        told.append((str(node.target), str(given), pytree.tree_map(_form, value), place[1]))
        if node.op == "call_function":
            told[-1] = (*told[-1], place[0])
    outputs = program.graph_signature.output_specs
    return [*told, *((o.kind, names.get(getattr(o.arg, "name", ""))) for o in outputs)]


def _form(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.dtype, tuple(map(str, value.shape)), tuple(map(str, value.stride()))
    return value


def written(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y[0] = 1
    return y


def seen_through(x: torch.Tensor) -> Any:
    y = x * 2
    part = y[0]
    return y.relu_(), part


def halved(x: torch.Tensor) -> torch.Tensor:
    """A size that torch computes in a tensor, which it knows while it traces."""
    half = torch.div(x.size(0), 2, rounding_mode="trunc")
    return nn.functional.gelu(x).view(half, -1)


WHOLE: Sequence[tuple[str, Function, torch.Tensor]] = [
    ("writes into memory", written, X),
    ("writes into an input", lambda x: x.relu_() + 1, X),
    ("writes into what is seen elsewhere", seen_through, X),
    ("writes through another name", lambda x: (x * 2).reshape(4, 2, 3, 8).add_(1), X),
    ("draws numbers", lambda x: (x * 2).uniform_(), X),
    ("a number of elements", lambda x: x[x > 0], X),
    ("a conjugate that is yet to be taken", lambda x: torch.matmul(x, x.mH), X[0] + 0j),
    ("a graph of its own", lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)), X),
    ("a number of an element", lambda x: x + x.sum().item(), X),
]


@pytest.mark.parametrize(("function", "x"), [row[1:] for row in WHOLE], ids=[r[0] for r in WHOLE])
def test_another_program_is_left_as_it_is(function: Function, x: torch.Tensor) -> None:
    program = export(Model(function), (x,))
    before = str(program)
    assert not decomposed_by_node(program)
    assert str(program) == before


def test_checks_of_factorizations_stay_without_their_order() -> None:
    """Each is read alone, as what torch makes of the program is read without its tokens."""

    def factors(x: torch.Tensor) -> Any:
        return torch.linalg.inv(x) + torch.linalg.cholesky(x), torch.linalg.solve(x, x)

    x = torch.eye(3) + 0.1
    found = []
    for apart in (True, False):
        traced = mock.patch.object(
            ExportedProgram,
            "run_decompositions",
            autospec=True,
            side_effect=ExportedProgram.run_decompositions,
        )
        own = decomposed_by_node if apart else lambda program: False
        with traced as counted, mock.patch.object(capture, "decomposed_by_node", own):
            graph, _ = ingest(capture_module(Model(factors), (x,)))
        assert counted.call_count == (not apart)
        told = [op.message if isinstance(op, Assertion) else op.target for op in graph.ops]
        found.append((told, [str(t) for t in graph.types.values()]))
    assert found[0] == found[1]
    assert sum("singular" in text for text in found[0][0]) == 2


@pytest.mark.parametrize(("function", "times"), [(pieces, 0), (written, 1), (halved, 1)])
def test_torch_traces_again_what_is_left_to_it(function: Function, times: int) -> None:
    traced = mock.patch.object(
        ExportedProgram,
        "run_decompositions",
        autospec=True,
        side_effect=ExportedProgram.run_decompositions,
    )
    with traced as counted:
        capture_module(Model(function), (X,))
    assert counted.call_count == times


def test_a_program_of_the_users_stays_as_it_is() -> None:
    program = export(Model(pieces), (X,))
    before = str(program)
    captured = capture_program(program)
    assert str(program) == before != str(captured.program)
    torch.testing.assert_close(captured.program.module()(X), program.module()(X))


def test_inputs_of_a_program_of_the_users_keep_their_names() -> None:
    """One of nn.Sequential's is called `input`, which a copied graph would call otherwise."""
    program = export(
        torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh()), (torch.ones(2, 4),)
    )
    captured = capture_program(program)
    (given,) = captured.program.graph_signature.user_inputs
    nodes = [node.name for node in captured.program.graph.nodes if node.op == "placeholder"]
    assert given == "input" and given in nodes


def test_a_size_that_a_check_settles_is_a_number() -> None:
    """As the bins of experts, of which grouped products have so many: it had no node."""

    def bins(x: torch.Tensor) -> torch.Tensor:
        counts = torch.bincount(x.argmax(-1) % 4, minlength=4)
        torch._check(counts.shape[0] == 4)
        return counts.reshape(counts.shape[0], 1) + counts.numel()

    captured = capture_module(Model(bins), (X[0],))
    torch.testing.assert_close(captured.program.module()(X[0]), bins(X[0]))
