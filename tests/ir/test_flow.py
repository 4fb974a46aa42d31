"""Control flow around parts: every item is seen, in order, and every part is mapped."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from aot.ir.flow import (
    Assert,
    Branch,
    Copy,
    CustomCall,
    Flow,
    Measured,
    Outline,
    Repeat,
    Slice,
    Straight,
    flows_in,
    items_of,
    map_flow,
    map_items,
    parts_of,
    scopes_of,
    slices_of,
    touched_by,
)
from aot.ir.origin import NO_ORIGIN
from aot.ir.tensors import Signature, TensorGraph, Tree, ValueRef
from aot.symbolic import as_expr

FRAME = TensorGraph("test", (), (), (), (), (), {}, Signature((), Tree("leaf", 0)))


def part(name: str) -> Straight[str]:
    return Straight(name)


INNER: Flow[str] = (part("c"), Measured((("s1", "m"),), (part("d"),), NO_ORIGIN))
LOOP: Repeat[str] = Repeat((part("b"),), "p", None, (Slice("row", "rows"),), INNER, NO_ORIGIN)
BRANCH: Branch[str] = Branch("q", (part("e"),), (LOOP, part("f")), NO_ORIGIN)
CALL = CustomCall(
    "ns::f", (("x", "", ValueRef("u")), ("y", "", (ValueRef("v"), 2))), ("w",), NO_ORIGIN
)
FLOW: Flow[str] = (
    part("a"),
    Measured((("s0", "n"),), (BRANCH, Copy("r", "t", NO_ORIGIN)), NO_ORIGIN),
    CALL,
    Assert("ok", "must hold", NO_ORIGIN),
)


def test_parts_come_in_the_order_in_which_they_may_run() -> None:
    assert parts_of(FLOW) == ("a", "e", "b", "c", "d", "f")


def test_every_item_comes_before_those_inside_of_it() -> None:
    kinds = [type(item).__name__ for item in items_of(FLOW) if not isinstance(item, Straight)]
    assert kinds == ["Measured", "Branch", "Repeat", "Measured", "Copy", "CustomCall", "Assert"]


def test_mapping_parts_keeps_the_flow() -> None:
    upper = map_flow(FLOW, str.upper)
    assert parts_of(upper) == ("A", "E", "B", "C", "D", "F")
    assert map_flow(upper, str.lower) == FLOW


def test_items_are_mapped_from_the_inside_out() -> None:
    seen: list[str] = []

    def change(item: Any) -> Any:
        seen.append(item.graph if isinstance(item, Straight) else type(item).__name__)
        return replace(item, predicate="z") if isinstance(item, Repeat) else item

    changed = map_items((BRANCH,), change)
    assert seen == ["e", "b", "c", "d", "Measured", "Repeat", "f", "Branch"]
    (loop,) = (item for item in items_of(changed) if isinstance(item, Repeat))
    assert (loop.predicate, loop.body) == ("z", INNER)


def test_a_loop_that_counts_has_no_condition() -> None:
    counted = Repeat((), "", as_expr(3), (), INNER, NO_ORIGIN)
    assert flows_in(counted) == (INNER,)
    assert flows_in(LOOP) == ((part("b"),), INNER)
    assert flows_in(CALL) == ()


@pytest.mark.parametrize(
    ("item", "reads", "writes"),
    [
        (BRANCH, ("q",), ()),
        (LOOP, ("p", "row", "rows"), ()),
        (replace(LOOP, condition=()), ("row", "rows"), ()),
        (Copy("r", "t", NO_ORIGIN), ("r",), ("t",)),
        (FLOW[1], ("n",), ()),
        (CALL, ("u", "v"), ("w",)),
        (replace(CALL, changed=("u",)), ("u", "v"), ("w", "u")),
        (FLOW[3], ("ok",), ()),
        (part("a"), (), ()),
    ],
)
def test_what_an_item_touches_itself(item: Any, reads: tuple, writes: tuple) -> None:
    assert touched_by(item) == (reads, writes)


def test_slices_and_scopes_of_all_depths() -> None:
    assert slices_of(FLOW) == {"row": "rows"}
    assert scopes_of(FLOW) == {"s0": 1, "s1": 2}


def test_a_model_of_one_part_is_that_part() -> None:
    assert Outline(FRAME, (part("a"),)).only == "a"
    assert Outline(FRAME, FLOW).only is None
    assert Outline(FRAME, FLOW).map(str.upper).flow == map_flow(FLOW, str.upper)
