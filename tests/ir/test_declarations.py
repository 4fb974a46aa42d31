"""What emission declares of kernels: variables, memory around slices, shared functions."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from aot_runtime.format.declarations import DeclaredBuffer, Variable

from aot.backends.cpp.backend import CppBackend
from aot.errors import InternalError
from aot.ir.declarations import access_of, declare
from aot.ir.dtypes import FLOAT32, INT64
from aot.ir.kernels import KernelGraph, Launch, WorkUnits
from aot.ir.nests import Store
from aot.ir.scalar import binary, check_index, load, loads, unary
from aot.ir.tensors import Dim, SizeRelation
from aot.options import Target
from aot.symbolic import as_expr, decode, dim, evaluate, integer, var
from tests.backends.emitting import emit
from tests.backends.kernel_runner import GraphMaker, Program, axes, nest

TARGET = Target("cpu", ("x86-64-v2",))


def emitted_for_host(graph: KernelGraph):
    return emit(CppBackend(), graph, TARGET)


def rows(*sizes: Dim) -> GraphMaker:
    """A kernel for each size: o = -x, of [size, 8]."""
    maker = GraphMaker(sizes)
    for k, size in enumerate(sizes):
        i, j = axes(dim(size.name), 8)
        maker.buffer(f"x{k}", FLOAT32, [i.extent, 8])
        out = maker.output(f"o{k}", FLOAT32, [i.extent, 8])
        value = unary("neg", maker.read(f"x{k}", i.symbol, j.symbol))
        maker.kernel([nest("n", [i, j], [], (out, [i.symbol, j.symbol], value))], outer=1)
    return maker


def size(name: str, maximum: int | None = 64, multiple: int = 1) -> Dim:
    return Dim(name, 0, maximum, 8, (0, 0, 1, 0), multiple_of=multiple)


def test_variables_stand_for_dims() -> None:
    (function,) = emitted_for_host(rows(size("s7", None, 4)).graph()).functions
    declared = function.declaration
    assert declared is not None
    assert declared.variables == (Variable(0, None, 4),)
    assert declared.sizes == ("v0",) and declared.work == "v0" and declared.scratch == 0
    assert declared.buffers == (
        DeclaredBuffer("float32", ("*", 32, "v0"), "read"),
        DeclaredBuffer("float32", ("*", 32, "v0"), "write"),
    )


def test_names_of_dims_do_not_matter_but_ranges_do() -> None:
    emitted = emitted_for_host(rows(size("s0"), size("s1"), size("s2", 65)).graph())
    assert [la.function for la in emitted.launches] == ["k0", "k0", "k2"]
    assert [la.values for la in emitted.launches] == [(dim("s0"),), (dim("s1"),), (dim("s2"),)]
    texts = [f.text.replace(f.name, "") for f in emitted.functions]
    assert texts[0] == texts[1]


def test_relations_of_the_dims_and_of_those_that_they_name() -> None:
    sizes = [size(f"s{k}") for k in range(4)]
    relations = (
        SizeRelation(dim("s0"), "<=", dim("s2"), ""),
        SizeRelation(dim("s3"), "<", integer(9), ""),
        SizeRelation(dim("s2") * 2, "==", dim("s1"), ""),
    )
    emitted = emitted_for_host(replace(rows(*sizes).graph(), relations=relations))
    first, last = emitted.functions[0].declaration, emitted.functions[-1].declaration
    assert first is not None and last is not None
    assert first.relations == (("v0", "<=", "v1"), (("*", 2, "v1"), "==", "v2"))
    assert emitted.launches[0].values == (dim("s0"), dim("s2"), dim("s1"))
    assert last.relations == (("v0", "<", 9),)


def test_a_launch_knows_nothing_of_a_size_that_is_measured_after_it() -> None:
    relations = (SizeRelation(dim("m0"), "<=", dim("s0"), ""),)
    sizes = (size("s0"), Dim("m0", 0, 64, 8, None))
    graph = replace(rows(*sizes).graph(), relations=relations)
    launches = emitted_for_host(graph).launches
    (first, values), (second, _) = (
        declare(graph, k, la) for k, la in zip(graph.kernels, launches, strict=True)
    )
    assert (first.relations, values) == ((), (dim("s0"),))
    assert second.relations == (("v0", "<=", "v1"),)


def test_a_symbol_that_is_no_dim_is_refused() -> None:
    graph = rows(size("s0")).graph()
    launch = Launch("k0", "", (), (dim("s1"),), WorkUnits(*[integer(0)] * 3))
    with pytest.raises(InternalError, match="s1 in s1 is no dim of test"):
        declare(graph, graph.kernels[0], launch)


def slices(places, width: int = 5):
    """Kernels o[:, p] = -x[:, q] on [3, width, 24], for pairs (p, q) of positions."""
    maker = GraphMaker()
    i, j = axes(3, 24)
    maker.buffer("x", FLOAT32, [3, width, 24])
    maker.buffer("o", FLOAT32, [3, width, 24], kind="temp")
    maker.outputs.append("o")
    for target, source in places:
        value = unary("neg", maker.read("x", i.symbol, source, j.symbol))
        at = [i.symbol, as_expr(target), j.symbol]
        maker.kernel([nest("n", [i, j], [], ("o", at, value))], outer=1)
    return maker.graph()


def test_parts_of_one_tensor_share_a_function_that_says_how_far_it_reaches() -> None:
    graph = slices([(1, as_expr(2)), (4, as_expr(3))])
    emitted = emitted_for_host(graph)
    (function,) = emitted.functions
    declared = function.declaration
    assert declared is not None
    assert declared.variables == (Variable(0, None), Variable(0, None))
    assert declared.sizes == ("v0", "v1")
    # Two rows of 5 * 24 elements further, and 24 of the last row's part.
    reach = 4 * (2 * 120 + 24)
    assert [b.bytes for b in declared.buffers] == [
        ("+", reach, ("*", 4, "v0")),
        ("+", reach, ("*", 4, "v1")),
    ]
    assert [launch.values for launch in emitted.launches] == [(48, 24), (72, 96)]


def flipped(extent: int):
    """o[i] = x[extent - i] of more elements than that: addresses fall below where they begin."""
    maker = GraphMaker()
    (i,) = axes(extent)
    maker.buffer("x", FLOAT32, [40])
    out = maker.output("o", FLOAT32, [extent])
    value = unary("neg", maker.read("x", extent - i.symbol))
    maker.kernel([nest("n", [i], [], (out, [i.symbol], value))])
    return maker.graph()


def test_a_part_that_is_read_backwards_needs_room_before_it() -> None:
    emitted = emitted_for_host(flipped(7))
    declared = emitted.functions[0].declaration
    assert declared is not None
    assert declared.variables == (Variable(6, None),)
    assert emitted.launches[0].values == (7,)
    assert declared.buffers[0].bytes == ("+", 4, ("*", 4, "v0"))
    Program(flipped(7), levels=("x86-64-v2",)).check({"x": np.arange(40, dtype="f4")}, exact=True)


@pytest.mark.parametrize(
    "graph", [slices([(1, as_expr(2)), (4, as_expr(3))]), slices([(0, as_expr(4))]), flipped(9)]
)
def test_declared_bytes_hold_every_address(graph: KernelGraph) -> None:
    """Each access at each point of the kernels lies in the declared bytes."""
    emitted = emitted_for_host(graph)
    functions = {f.name: f.declaration for f in emitted.functions}
    for kernel, launch in zip(graph.kernels, emitted.launches, strict=True):
        declared = functions[launch.function]
        assert declared is not None
        values = {dim(f"v{k}"): v for k, v in enumerate(launch.values)}
        ends = {
            name: evaluate(decode(b.bytes).xreplace(values), {})
            for name, b in zip(launch.buffers, declared.buffers, strict=True)
        }
        found: dict[str, list[int]] = {}
        for op in (n for s in kernel.stages for n in s.nests):
            accesses = [(s.buffer, s.index) for s in op.stores]
            accesses += [(n.attr.buffer, n.attr.index) for n in loads(op.roots)]
            for point in itertools.product(*(range(int(a.extent)) for a in op.axes)):
                at = {a.symbol: p for a, p in zip(op.axes, point, strict=True)}
                for name, index in accesses:
                    steps = zip(index, graph.buffers[name].strides or (), strict=True)
                    offset = sum(evaluate(e, at) * int(s) for e, s in steps)
                    found.setdefault(name, []).append(4 * offset)
        for name, offsets in found.items():
            assert min(offsets) >= 0 and max(offsets) + 4 <= ends[name]


def test_access() -> None:
    maker = GraphMaker()
    (i,) = axes(9)
    maker.buffer("x", FLOAT32, [9])
    out, total = maker.output("o", FLOAT32, [9]), maker.output("t", FLOAT32, [1])
    value = maker.read("x", i.symbol)
    add = Store(total, (integer(0),), value, mode="add", base="start")
    maker.kernel([nest("n", [i], [], (out, [i.symbol], value)), nest("m", [i], [], add)])
    (kernel,) = maker.graph().kernels
    assert [access_of(kernel, name) for name in ("x", out, total)] == ["read", "write", "update"]
    assert access_of(replace(kernel, reads=("x", out)), out) == "update"
    own = replace(kernel, writes=(*kernel.writes, "w"))
    assert access_of(own, "w") == "write"


def looked_up(rows_of_table: Dim):
    """o[i] = table[ids[i]] and, in another kernel, copy = table with its rows ids[i] set to i."""
    maker = GraphMaker((rows_of_table,))
    i, j = axes(9, 16)
    s = dim(rows_of_table.name)
    maker.buffer("table", FLOAT32, [s, 16])
    maker.buffer("ids", INT64, [9])
    u = var("u0")
    row = check_index(maker.read("ids", i.symbol), s)
    out = maker.output("o", FLOAT32, [9, 16])
    value = load("table", FLOAT32, [u, j.symbol], {u: row})
    maker.kernel([nest("n", [i, j], [], (out, [i.symbol, j.symbol], value))], outer=1)
    changed = maker.output("changed", FLOAT32, [s, 16])
    store = Store(
        changed, (u, j.symbol), binary("add", value, value), binds=((u, row),), base="table"
    )
    maker.kernel([nest("m", [i, j], [], store)], outer=1)
    return maker.graph()


def test_nothing_is_touched_in_an_empty_dimension() -> None:
    program = Program(looked_up(size("s0")), levels=("x86-64-v2",))
    texts = [f.text for f in program.emitted.functions]
    assert "d0 > 0 ? " in texts[0] and "if (d0 > 0)" in texts[1]
    inputs = {"table": np.zeros((0, 16), "f4"), "ids": np.zeros(9, np.int64)}
    (found, _), fault = program.run("x86-64-v2", inputs, {"s0": 0})
    assert fault == 1
    # The memory behind the table is full of 0x55.
    assert not found.any()
    inputs = {"table": np.arange(48, dtype="f4").reshape(3, 16), "ids": np.arange(9) % 3}
    (found, _), fault = program.run("x86-64-v2", inputs, {"s0": 3})
    assert fault == 0
    np.testing.assert_array_equal(found, inputs["table"][inputs["ids"]])


def test_dimensions_that_are_never_empty_need_no_test() -> None:
    least = replace(size("s0"), minimum=1)
    texts = [f.text for f in emitted_for_host(looked_up(least)).functions]
    assert not any("d0 > 0" in text for text in texts)
