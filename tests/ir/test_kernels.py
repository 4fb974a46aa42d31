"""Kernels and their parts: what a launch computes, reads and writes."""

from __future__ import annotations

from dataclasses import replace

from aot.ir.dtypes import FLOAT32
from aot.ir.flow import CustomCall
from aot.ir.kernels import (
    ModelKernel,
    NestKernel,
    Stage,
    TemplateKernel,
    fused_parts,
    kernel_bases,
    kernel_ops,
    side_by_side,
)
from aot.ir.nests import Store, View
from aot.ir.origin import NO_ORIGIN
from aot.ir.scalar import load
from aot.ir.templates import Scan
from tests.ir.nests import I0, axes, nest

LOOPS = axes(i0=4)
READ = nest(LOOPS, load("x", FLOAT32, (I0,)), name="n0", buffer="a")
AFTER = nest(LOOPS, load("b", FLOAT32, (I0,)), name="n1", buffer="c")


def _view(name: str) -> View:
    return View(name, LOOPS, (I0,))


NESTS = NestKernel("k0", LOOPS, (Stage((), (), (), None, (READ,)),), None, (), ("x",), ("a",))
TEMPLATE = TemplateKernel(
    "k1",
    Scan("t0", _view("b"), NO_ORIGIN, x=_view("x"), combine="sum"),
    (Stage(LOOPS, (), LOOPS, LOOPS[0], (AFTER,)),),
    ("b",),
    ("x",),
    ("c",),
    (READ,),
)
OWN = ModelKernel("k2", CustomCall("ns::k", (), ("d",), NO_ORIGIN), (), ("d",))


def test_parts_are_what_is_generated() -> None:
    assert fused_parts(NESTS) == (NESTS,)
    assert fused_parts(TEMPLATE) == (TEMPLATE,)
    assert fused_parts(side_by_side((NESTS, TEMPLATE))) == (NESTS, TEMPLATE)
    assert fused_parts(OWN) == ()


def test_kernels_side_by_side_are_one_launch() -> None:
    joined = side_by_side((TEMPLATE, NESTS))
    assert (joined.name, joined.reads, joined.writes) == ("k1", ("x",), ("c", "a"))


def test_operations_run_in_order() -> None:
    assert [op.name for op in kernel_ops(TEMPLATE)] == ["n0", "t0", "n1"]
    assert [op.name for op in kernel_ops(side_by_side((NESTS, TEMPLATE)))] == [
        "n0",
        "n0",
        "t0",
        "n1",
    ]
    assert list(kernel_ops(OWN)) == []


def test_updates_name_what_they_take_over() -> None:
    (store,) = AFTER.stores
    updating = replace(AFTER, stores=(Store("c", store.index, store.value, base="s"),))
    stage = replace(TEMPLATE.stages[0], nests=(updating,))
    assert kernel_bases(NESTS) == {}
    assert kernel_bases(replace(TEMPLATE, stages=(stage,))) == {"c": "s"}
