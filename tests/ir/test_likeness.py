"""What differs in names alone is alike, and nothing else is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aot.ir.dtypes import BFLOAT16, FLOAT32, DType
from aot.ir.kernels import KernelGraph, NestKernel
from aot.ir.likeness import Likeness, likeness_of, likeness_of_nests
from aot.ir.scalar import Node, binary, const, unary
from tests.backends.kernel_runner import GraphMaker, axes, nest


def kernels(
    *,
    names: tuple[str, str, str] = ("x", "y", "o"),
    dtype: DType = FLOAT32,
    columns: int = 8,
    strides: tuple[int, int] | None = None,
    value: object = None,
    read: int = 1,
    mode: str = "set",
    call: str = "n",
) -> KernelGraph:
    """A kernel that stores what two buffers' elements give; `read` names the second."""
    maker = GraphMaker()
    i, j = axes(4, columns)
    first, second, out = names
    maker.buffer(first, dtype, [4, columns])
    maker.buffer(second, dtype, [4, columns], strides=strides)
    maker.output(out, dtype, [4, columns])
    at = i.symbol, j.symbol
    made = binary("mul", maker.read(first, *at), maker.read(names[read], *at))
    if isinstance(value, Node):
        made = binary("add", made, value)
    made_nest = nest(call, [i, j], [], (out, list(at), made))
    store = replace(made_nest.stores[0], mode=mode)
    maker.kernel([replace(made_nest, stores=(store,))], outer=1)
    return maker.graph()


def alike(graph: KernelGraph) -> Likeness:
    (kernel,) = graph.kernels
    assert isinstance(kernel, NestKernel)
    return likeness_of(kernel, graph.buffers)


PLAIN = kernels()


def test_names_of_buffers_nests_and_kernels_do_not_count() -> None:
    other = kernels(names=("b", "a", "z"), call="m")
    (kernel,) = other.kernels
    assert isinstance(kernel, NestKernel)
    called = likeness_of(replace(kernel, name="k7"), other.buffers)
    assert called.key == alike(PLAIN).key
    assert hash(called.key) == hash(alike(PLAIN).key)
    assert alike(PLAIN).renamed(("o", "x", "x"), called) == ("z", "b", "b")
    assert called.numbers(("z", "b")) == alike(PLAIN).numbers(("x", "o"))
    with pytest.raises(ValueError):
        called.renamed(("x",), called)


@pytest.mark.parametrize(
    "other",
    [
        kernels(dtype=BFLOAT16),
        kernels(columns=9),
        kernels(strides=(1, 4)),
        kernels(read=0),
        kernels(mode="add"),
        kernels(value=const(0.0, FLOAT32)),
    ],
    ids=["type", "size", "strides", "read twice", "mode", "operation"],
)
def test_all_else_does(other: KernelGraph) -> None:
    assert alike(other).key != alike(PLAIN).key


def test_constants_that_python_takes_for_equal_are_not() -> None:
    keys = [alike(kernels(value=const(zero, FLOAT32))).key for zero in (0.0, -0.0)]
    assert keys[0] != keys[1]


def test_a_value_that_is_used_twice_is_not_two_values() -> None:
    maker = GraphMaker()
    (i,) = axes(4)
    for name in "xyo":
        maker.buffer(name, FLOAT32, [4])
    x, y = (unary("exp", maker.read(name, i.symbol)) for name in "xy")
    once, twice = (
        likeness_of_nests((i,), [nest("n", [i], [], ("o", [i.symbol], value))], maker.buffers)
        for value in (binary("add", x, x), binary("add", x, y))
    )
    assert once.key != twice.key


def test_who_writes_what_another_nest_reads_counts() -> None:
    maker = GraphMaker()
    (i,) = axes(4)
    for name in "xyzo":
        maker.buffer(name, FLOAT32, [4])

    def chain(source: str) -> Likeness:
        first = nest("a", [i], [], ("y", [i.symbol], maker.read("x", i.symbol)))
        second = nest("b", [i], [], ("o", [i.symbol], maker.read(source, i.symbol)))
        return likeness_of_nests((i,), [first, second], maker.buffers)

    assert len({chain(source).key for source in "xyz"}) == 3
