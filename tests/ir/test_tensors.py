"""Operators and their blocks: what they read from outside, make, and measure."""

from __future__ import annotations

from aot.ir.origin import NO_ORIGIN
from aot.ir.tensors import (
    Block,
    Cond,
    Loop,
    OperatorCall,
    SizeRead,
    TensorOp,
    ValueRef,
    all_ops,
    all_outputs,
    blocks_of,
    dims_in,
    free_names,
    names_in,
    read_sizes,
    reads_of,
)
from aot.symbolic import dim


def op(result: str, *operands: str) -> TensorOp:
    args = tuple(ValueRef(name) for name in operands)
    return TensorOp("aten.op.default", args, (), (result,), NO_ORIGIN)


THEN = Block((op("t", "x", "w"),), ("t",))
OTHERWISE = Block((SizeRead("s1", "n", NO_ORIGIN),), ("y",))
BRANCH = Cond("p", THEN, OTHERWISE, ("r",), NO_ORIGIN)


def test_names_and_dims_of_arguments() -> None:
    argument = (ValueRef("a"), 3, ((ValueRef("b"), dim("s0")), None, ValueRef("a")))
    assert list(names_in(argument)) == ["a", "b", "a"]
    assert list(dims_in(argument)) == ["s0"]


def test_a_branch_reads_what_its_blocks_do_not_make() -> None:
    assert free_names(THEN) == ("x", "w")
    assert free_names(OTHERWISE) == ("n", "y")
    assert reads_of(BRANCH) == ("p", "x", "w", "n", "y")
    assert reads_of(op("z", "a", "b", "a")) == ("a", "b")


def test_blocks_are_walked_in_order() -> None:
    assert blocks_of(BRANCH) == (THEN, OTHERWISE)
    ops = (op("first", "x"), BRANCH, op("last", "r"))
    assert [type(o).__name__ for o in all_ops(ops)] == [
        "TensorOp",
        "Cond",
        "TensorOp",
        "SizeRead",
        "TensorOp",
    ]
    assert list(all_outputs(ops)) == ["first", "r", "t", "last"]
    assert read_sizes(ops) == {"s1"}


def test_a_loop_gives_its_blocks_names_of_its_own() -> None:
    body = Block((op("next", "c", "row", "table"), op("out", "next")), ("next", "out"))
    again = Block((op("more", "c", "limit"),), ("more",))
    loop = Loop((("c", "start"),), again, None, (("row", "rows"),), body, ("outs",), NO_ORIGIN)
    assert reads_of(loop) == ("start", "rows", "limit", "table")
    assert loop.outputs == ("c", "outs")
    assert blocks_of(loop) == (again, body)
    assert list(all_outputs((loop,))) == ["c", "outs", "row", "more", "next", "out"]
    counted = Loop((("c", "start"),), None, None, (), body, ("outs",), NO_ORIGIN)
    assert blocks_of(counted) == (body,)
    assert reads_of(counted) == ("start", "row", "table")


def test_an_operator_reads_what_it_does_not_make() -> None:
    arguments = (("x", "", ValueRef("a")), ("out", "", ValueRef("new")), ("n", "", 3))
    call = OperatorCall("ns::f", arguments, ("r",), NO_ORIGIN, (("new", "old"),))
    assert call.outputs == ("r", "new")
    assert call.operands == ("a", "old")
    assert reads_of(call) == ("a", "old")
