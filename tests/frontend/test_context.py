"""The collections that readers of a program share: what a block has of its own, and what not."""

import pytest
import torch

from aot.errors import MissingOperator, Origin, UnsupportedOperators
from aot.frontend.context import Context, Given, GraphOps, MeasuredSizes, Refusals
from aot.frontend.places import SourcePaths
from aot.ir.dtypes import FLOAT32
from aot.ir.tensors import SizeRelation, TensorType, ValueRef
from aot.symbolic import dim, integer

SCALAR = TensorType(FLOAT32, (), ())
HERE = Origin("model.py", 3, "cond")


def context() -> Context:
    program = torch.export.export(torch.nn.Identity(), (torch.ones(2),))
    return Context(program, SourcePaths())


def test_a_block_has_operators_and_nodes_of_its_own_and_shares_the_rest() -> None:
    outer = context()
    outer.ops.call("aten.sin.default", (ValueRef("x"),), "a", SCALAR, HERE)
    outer.bindings.bind("x", ValueRef("x"))
    inner = outer.inner("c.true", HERE)
    inner.ops.call("aten.cos.default", (ValueRef("a"),), "b", SCALAR, HERE)
    inner.given.add_input("y")
    assert [op.outputs for op in outer.ops.written] == [("a",)]
    assert [op.outputs for op in inner.ops.written] == [("b",)]
    assert set(outer.ops.types) == {"a", "b"}
    assert not inner.bindings.nodes
    assert "y" in outer.given
    assert (inner.prefix, inner.around) == ("c.true.", HERE)


def test_masks_that_were_measured_outside_are_known_in_a_block_but_not_the_other_way() -> None:
    outer = context()
    outer.bindings.bind_true_places("m", ValueRef("rows"))
    inner = outer.inner("c.true", HERE)
    inner.bindings.bind_true_places("n", ValueRef("others"))
    assert set(inner.bindings.true_places) == {"m", "n"}
    assert set(outer.bindings.true_places) == {"m"}


def test_draws_are_numbered_through_the_blocks() -> None:
    outer = context()
    first = next(outer.draws)
    assert [first, next(outer.inner("c.true", HERE).draws), next(outer.draws)] == [0, 1, 2]


def test_a_value_has_the_type_that_was_declared_last() -> None:
    ops = GraphOps()
    ops.declare("a", SCALAR)
    dense = TensorType(FLOAT32, (integer(2),), (integer(1),))
    assert ops.declare("a", dense) == ValueRef("a")
    assert ops.types["a"] == dense
    assert not ops.written


def test_inputs_weights_and_states_are_told_apart() -> None:
    given, tensor = Given(), torch.ones(2)
    assert [given.add_input("x"), given.add_input("y")] == [0, 1]
    given.add_weight("w", "layer.weight", tensor)
    given.add_state("s", "cache", tensor)
    assert all(name in given for name in ("x", "y", "w", "s"))
    assert "z" not in given
    assert dict(given.weights) == {"w": "layer.weight"}
    assert dict(given.states) == {"s": "cache"}
    assert set(given.tensors) == {"layer.weight", "cache"}


def test_measured_sizes_are_numbered_and_what_is_claimed_of_them_is_told() -> None:
    sizes = MeasuredSizes()
    first, second = (sizes.add(0, None, 64, "nonzero of x") for _ in range(2))
    assert (first, second) == (dim("m0"), dim("m1"))
    sizes.claim(second)
    assert sizes.claimed == {"m1"}
    relation = SizeRelation(second, "<=", integer(4), "at most four")
    sizes.require(relation)
    assert sizes.relations == [relation]


def test_bounds_that_torch_has_wrong_are_remembered_with_their_symbol() -> None:
    sizes = MeasuredSizes()
    sizes.overstate("u0", "4")
    assert sizes.is_overstated(["u0", "4"])
    assert not sizes.is_overstated(["u1", "4"])


def test_refusals_of_one_operator_for_one_reason_are_one_with_all_places() -> None:
    refusals = Refusals()
    refusals.raise_any()
    other = Origin("model.py", 9, "aten.sin.default")
    for origin, reason in ((HERE, "why"), (other, "why"), (HERE, "because")):
        refusals.add(MissingOperator("aten.sin.default", (origin,), reason))
    with pytest.raises(UnsupportedOperators) as raised:
        refusals.raise_any()
    found = [(item.reason, item.origins) for item in raised.value.missing]
    assert found == [("why", (HERE, other)), ("because", (HERE,))]


def test_only_tensors_of_types_that_packages_hold_have_a_type() -> None:
    with pytest.raises(ValueError, match="it gives a int, not a tensor"):
        context().type_of(3)
    with pytest.raises(ValueError, match="bits8, which has no kernels"):
        context().type_of(torch.empty(1, dtype=torch.bits8))
