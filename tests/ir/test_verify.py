"""Each invariant of the loop graph and the kernel graph has a graph that breaks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from aot.errors import InternalError
from aot.ir.dtypes import FLOAT32, INT64
from aot.ir.kernels import (
    Kernel,
    KernelGraph,
    NestKernel,
    Packed,
    Shares,
    Stage,
    Strip,
    TemplateKernel,
)
from aot.ir.loops import LoopGraph
from aot.ir.nests import Axis, DerivedWeight, View
from aot.ir.origin import NO_ORIGIN
from aot.ir.scalar import binary, const, index_value, load, make, reduce_
from aot.ir.templates.matmul import Matmul
from aot.ir.templates.scan import Scan
from aot.ir.tensors import Signature, Tree
from aot.ir.verify import verify_kernels, verify_loops
from aot.symbolic import as_expr, row_major_strides, var
from tests.ir.nests import I0, I1, R0, S0, axes, buffer, graph, nest, row_sums

X = load("x", FLOAT32, (I0,))
BUFFERS = (buffer("x", 4, kind="input"), buffer("y", 4), buffer("z", 4))
COPY = nest(axes(i0=4), X)


def _with(*ops, **changes: object) -> LoopGraph:
    return replace(graph(BUFFERS, ops), **changes)


def test_good_graphs_pass() -> None:
    verify_loops(row_sums())
    verify_loops(_with(COPY))


LOOPS: dict[str, tuple[str, Callable[[], LoopGraph]]] = {
    "inputs are not the input buffers": ("buffers of kind input", lambda: _with(COPY, inputs=())),
    "output strides of another rank": ("strides", lambda: _with(COPY, output_strides=((),))),
    "output never written": ("result y is never written", _with),
    "unknown buffer": (
        "no buffer w",
        lambda: _with(nest(axes(i0=4), load("w", FLOAT32, (I0,)))),
    ),
    "read before written": (
        "reads z before anything writes it",
        lambda: _with(nest(axes(i0=4), load("z", FLOAT32, (I0,)))),
    ),
    "written twice": ("writes y again", lambda: _with(COPY, COPY)),
    "input written": ("writes x again", lambda: _with(COPY, nest(axes(i0=4), X, buffer="x"))),
    "axes share a symbol": (
        "share a symbol",
        lambda: _with(nest((*axes(i0=4), *axes(i0=4)), X, index=(I0,))),
    ),
    "extent over a loop variable": (
        "not over dims",
        lambda: _with(nest((*axes(i0=4), *axes(i1=I0)), X, index=(I0,))),
    ),
    "index of another rank": (
        "2 indices for x of rank 1",
        lambda: _with(nest(axes(i0=4), load("x", FLOAT32, (I0, I0)))),
    ),
    "index over an unknown symbol": (
        "uses",
        lambda: _with(nest(axes(i0=4), load("x", FLOAT32, (I1,)))),
    ),
    "reduction axis outside of a reduce": (
        "reduction axis",
        lambda: _with(nest(axes(i0=4), load("x", FLOAT32, (R0,)), axes(r0=4))),
    ),
    "reduction axis in a store": (
        "uses",
        lambda: _with(nest(axes(i0=4), reduce_("sum", X), axes(r0=4), index=(R0,))),
    ),
    "reduce without reduction axes": (
        "without a reduction axis",
        lambda: _with(nest(axes(i0=4), reduce_("sum", X))),
    ),
    "reduce inside of a reduce": (
        "inside of a reduce",
        lambda: _with(nest(axes(i0=4), reduce_("max", reduce_("sum", X)), axes(r0=4))),
    ),
    "operands of two types": (
        "not well formed",
        lambda: _with(nest(axes(i0=4), make("add", FLOAT32, X, const(1, INT64)))),
    ),
    "load of another type": (
        "as int64",
        lambda: _with(nest(axes(i0=4), load("x", INT64, (I0,)))),
    ),
    "store of another type": (
        "stores int64",
        lambda: _with(nest(axes(i0=4), index_value(I0))),
    ),
    "reads above the end": (
        r"leaves \[0, 4\) of x",
        lambda: _with(nest(axes(i0=4), load("x", FLOAT32, (I0 + 1,)))),
    ),
    "reads below the start": (
        r"leaves \[0, 4\) of x",
        lambda: _with(nest(axes(i0=4), load("x", FLOAT32, (I0 - 1,)))),
    ),
    "writes beyond the end": (
        r"leaves \[0, 4\) of y",
        lambda: _with(nest(axes(i0=4), X, index=(2 * I0,))),
    ),
    "template that reads out of bounds": (
        "leaves",
        lambda: _with(
            Scan(
                "t0",
                View("y", axes(v0=4), (var("v0"),)),
                NO_ORIGIN,
                x=View("x", axes(v0=5), (var("v0"),)),
                combine="sum",
            )
        ),
    ),
}


@pytest.mark.parametrize("broken", LOOPS)
def test_broken_loop_graph(broken: str) -> None:
    message, build = LOOPS[broken]
    with pytest.raises(InternalError, match=message):
        verify_loops(build())


def test_masked_reads_may_leave_the_buffer() -> None:
    inside = binary("lt", index_value(I0), const(3, INT64))
    verify_loops(_with(nest(axes(i0=4), load("x", FLOAT32, (I0 + 1,), mask=inside))))


def test_a_dynamic_size_that_may_be_zero_is_still_checked() -> None:
    buffers = (buffer("x", S0, kind="input"), buffer("y", S0))
    op = nest(axes(i0=S0), load("x", FLOAT32, (I0 + 1,)))
    with pytest.raises(InternalError, match=r"leaves \[0, s0\) of x"):
        verify_loops(graph(buffers, [op]))


def _kernels(kernel: Kernel, strides: tuple[int, ...] | None = (1,)) -> KernelGraph:
    fixed = None if strides is None else tuple(as_expr(s) for s in strides)
    buffers = {b.name: replace(b, strides=fixed) for b in BUFFERS}
    signature = Signature((), Tree("leaf", 0))
    return KernelGraph("hand", (), buffers, (kernel,), ("x",), ("y",), signature, (), ())


LOOP = axes(i0=4)
STAGE = Stage(LOOP, (), LOOP, LOOP[0], (COPY,))
SHORT = axes(i0=2)
SHORTER = Stage(SHORT, (), SHORT, SHORT[0], (nest(SHORT, X, name="n1", buffer="z"),))
WIDE = axes(i0=4, i1=1, i2=1)
WIDER = nest(WIDE, X, index=(I0,))
KERNEL = NestKernel("k0", (), (STAGE,), None, (), ("x",), ("y",))


def test_good_kernel_passes() -> None:
    verify_kernels(_kernels(KERNEL))


KERNELS: dict[str, tuple[str, Callable[[], KernelGraph]]] = {
    "no strides": ("has no strides", lambda: _kernels(KERNEL, None)),
    "reads not listed": ("reads", lambda: _kernels(replace(KERNEL, reads=()))),
    "writes not listed": ("writes", lambda: _kernels(replace(KERNEL, writes=("z",)))),
    "axes of another stage": (
        "not over its stage's axes",
        lambda: _kernels(replace(KERNEL, stages=(replace(STAGE, inner=axes(i1=4)),))),
    ),
    "order without an axis": (
        "not of its own axes",
        lambda: _kernels(replace(KERNEL, stages=(replace(STAGE, order=(), vector=None),))),
    ),
    "vector axis of another stage": (
        "none of its loops",
        lambda: _kernels(replace(KERNEL, stages=(replace(STAGE, vector=axes(i1=4)[0]),))),
    ),
    "loops within the vector loop": (
        "more than one loop",
        lambda: _kernels(replace(KERNEL, stages=(Stage(WIDE, (), WIDE, WIDE[0], (WIDER,)),))),
    ),
    "strip of a foreign axis": (
        "strip's axis",
        lambda: _kernels(replace(KERNEL, strip=Strip(axes(i1=4)[0], 8))),
    ),
    "a variable of two extents": (
        "i0 has two extents: 4 and 2",
        lambda: _kernels(replace(KERNEL, stages=(STAGE, SHORTER), writes=("y", "z"))),
    ),
    "shares besides strips": (
        "more than one nest with one store",
        lambda: _kernels(replace(KERNEL, shares=Shares(0, 4), strip=Strip(LOOP[0], 2))),
    ),
    "shares by the innermost loop": (
        "not by loops outside of others",
        lambda: _kernels(replace(KERNEL, shares=Shares(0, 4))),
    ),
    "a nest reads its own stage": (
        "of its own stage",
        lambda: _kernels(
            replace(
                KERNEL,
                stages=(
                    replace(
                        STAGE,
                        nests=(
                            COPY,
                            nest(LOOP, load("y", FLOAT32, (I0,)), name="n1", buffer="z"),
                        ),
                    ),
                ),
                writes=("y", "z"),
            )
        ),
    ),
}


@pytest.mark.parametrize("broken", KERNELS)
def test_broken_kernel_graph(broken: str) -> None:
    message, build = KERNELS[broken]
    with pytest.raises(InternalError, match=message):
        verify_kernels(build())


def _view(name: str, *own: Axis) -> View:
    return View(name, own, tuple(axis.symbol for axis in own))


_KINDS = {"x": "input", "w": "weight", "y": "temp", "panels": "weight", "space": "temp"}


def _product(kinds: dict[str, str] = _KINDS, **changes: object) -> KernelGraph:
    """A product of the input x and the weight w, whose packed form may be `panels`."""
    i, j, ka, kb = axes(i0=4, i1=4, i2=4, i3=4)
    call = Matmul("mm", _view("y", i, j), NO_ORIGIN, _view("x", i, ka), _view("w", kb, j))
    kernel = TemplateKernel("k0", call, (), (), ("x", "w"), ("y",))
    square = (as_expr(4), as_expr(4))
    buffers = {
        name: replace(buffer(name, 4, 4, kind=kind), strides=row_major_strides(square), fqn=name)
        for name, kind in kinds.items()
    }
    return replace(
        _kernels(KERNEL),
        buffers=buffers,
        kernels=(replace(kernel, **changes),),
        inputs=tuple(name for name, kind in kinds.items() if kind == "input"),
        derived=(DerivedWeight("panels", "pack_matmul", ("w",)),),
    )


PACKED = Packed("w", "panels")
PREPARED: dict[str, Callable[[], KernelGraph]] = {
    "as it is": _product,
    "packed": lambda: _product(packed=PACKED, reads=("x", "panels")),
    "with a workspace": lambda: _product(workspace="space", writes=("y", "space")),
}


@pytest.mark.parametrize("made", PREPARED)
def test_good_prepared_kernels_pass(made: str) -> None:
    verify_kernels(PREPARED[made]())


BROKEN: dict[str, tuple[str, Callable[[], KernelGraph]]] = {
    "packed and read as it was": ("reads", lambda: _product(packed=PACKED)),
    "packed by nothing": (
        "panels is not derived from the weight w",
        lambda: replace(_product(packed=PACKED, reads=("x", "panels")), derived=()),
    ),
    "packed and no weight": (
        "panels is not derived from the weight w",
        lambda: _product({**_KINDS, "w": "input"}, packed=PACKED, reads=("x", "panels")),
    ),
    "a workspace that is a weight": (
        "its workspace panels is another's too",
        lambda: _product(workspace="panels", writes=("y", "panels")),
    ),
    "a workspace that another writes": (
        "its workspace space is another's too",
        lambda: _read_again(_product(workspace="space", writes=("y", "space"))),
    ),
}


def _read_again(graph: KernelGraph) -> KernelGraph:
    """The graph with a second kernel that writes its first one's workspace."""
    copied = nest(LOOP, load("x", FLOAT32, (I0, I0)), buffer="space", index=(I0, I0))
    stage = replace(STAGE, nests=(copied,))
    other = NestKernel("k1", (), (stage,), None, (), ("x",), ("space",))
    return replace(graph, kernels=(*graph.kernels, other))


@pytest.mark.parametrize("broken", BROKEN)
def test_broken_prepared_kernel(broken: str) -> None:
    message, build = BROKEN[broken]
    with pytest.raises(InternalError, match=message):
        verify_kernels(build())
