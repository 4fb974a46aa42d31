"""Kernels of several sizes: one runs at each size, and it is the one that was made for such."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from aot.backends.by_size import MOST, MOST_OF_NESTS, Choice, by_size, spots
from aot.ir.dtypes import FLOAT32
from aot.ir.hints import LARGER, hints_of
from aot.ir.kernels import ALWAYS, JoinedKernel, KernelGraph, fused_parts
from aot.ir.scalar import unary
from aot.ir.tensors import Dim
from aot.symbolic import Expr, Maximum, Minimum, dim, evaluate, integer, product
from tests.backends.kernel_runner import GraphMaker, axes, nest
from tests.settings import seeded


def graph_of(*sizes: Dim) -> KernelGraph:
    """One kernel, o = -x, of all sizes."""
    maker = GraphMaker(sizes)
    loops = axes(*(dim(d.name) for d in sizes), 8)
    shape, index = [a.extent for a in loops], [a.symbol for a in loops]
    maker.buffer("x", FLOAT32, shape)
    out = maker.output("o", FLOAT32, shape)
    body = unary("neg", maker.read("x", *index))
    maker.kernel([nest("n", loops, [], (out, index, body))], outer=1)
    return maker.graph()


def size(name: str, hint: int, least: int = 1, most: int | None = None, multiple: int = 1) -> Dim:
    return Dim(name, least, most, hint, (0, 0, 1, 0), multiple_of=multiple)


def choices_of(graph: KernelGraph, made: Callable[[dict[str, int]], str | None]) -> list[Choice]:
    """The functions of the graph's kernel, which may have `MOST`. `made`: by the sizes of dims."""
    (kernel,) = (JoinedKernel("k0", fused_parts(k)) for k in graph.kernels)

    def emit(at: KernelGraph) -> str | None:
        return made({d.name: d.hint for d in at.dims})

    own = emit(graph)
    assert own is not None
    return list(by_size(kernel, graph, own, emit, lambda text: text))


def running(choices: list[Choice], sizes: dict[str, int]) -> str:
    """The function that runs at these sizes."""
    symbols = {dim(name): value for name, value in sizes.items()}
    found = [c.emitted for c in choices if c.when == ALWAYS or evaluate(c.when, symbols) == 1]
    others = [c for c in choices if c.when != ALWAYS and evaluate(c.when, symbols) == 0]
    assert len(found) == 1 and len(others) == len(choices) - 1
    return str(found[0])


def by_digits(sizes: dict[str, int]) -> str:
    """A function for each power of 16 of each size."""
    return " ".join(str((value.bit_length() - 1) // 4) for value in sizes.values())


@pytest.mark.parametrize(
    "dims",
    [
        (size("a", 32),),
        (size("a", 1),),
        (size("a", 7, 7, 9),),
        (size("a", 64, 8, 4096, 8),),
        (size("a", 2), size("b", 300)),
        (size("a", 2, 1, 4), size("b", 300, 1, 1000)),
        (size("a", 2), size("b", 16), size("c", 100)),
        (size("a", 2), size("b", 16), size("c", 100), size("d", 3, 3, 3)),
    ],
)
def test_one_function_runs_at_each_size(dims: tuple[Dim, ...]) -> None:
    choices = choices_of(graph_of(*dims), by_digits)
    assert len(choices) <= MOST and len({c.name for c in choices}) == len(choices)
    draw = random.Random(seeded())
    for _ in range(300):
        running(choices, {d.name: _drawn(d, draw) for d in dims})
    own = {d.name: d.hint for d in dims}
    assert running(choices, own) == by_digits(own)


def _drawn(d: Dim, draw: random.Random) -> int:
    most = 1 << 20 if d.maximum is None else d.maximum
    count = min(most, max(d.minimum, int(2 ** draw.uniform(0, 20))))
    return max(d.multiple_of, count // d.multiple_of * d.multiple_of)


def test_it_is_the_one_that_was_made_for_such_a_size() -> None:
    choices = choices_of(graph_of(size("a", 32)), lambda s: "few" if s["a"] < 100 else "many")
    assert [c.emitted for c in choices] == ["few", "many"]
    assert [c.name for c in choices] == ["k0", "k0_size1"]
    turn = 32 * 4  # as far from 32 as from 16 times that
    for count, wanted in [(1, "few"), (turn - 1, "few"), (turn, "many"), (1 << 40, "many")]:
        assert running(choices, {"a": count}) == wanted


def test_sizes_that_vary_on_their_own_are_told_apart() -> None:
    """Rows of 6 are no rows of 1000 because there are many of them."""
    made = choices_of(graph_of(size("n", 8), size("c", 6)), lambda s: f"{s['c'] >= 64}")
    assert running(made, {"n": 1 << 20, "c": 6}) == "False"
    assert running(made, {"n": 2, "c": 1000}) == "True"


def test_of_three_sizes_it_is_what_is_touched_that_counts() -> None:
    dims = (size("a", 4), size("b", 4), size("c", 4))

    def made(sizes: dict[str, int]) -> str:
        return f"{product(list(sizes.values())) > 4000}"

    choices = choices_of(graph_of(*dims), made)
    assert running(choices, {"a": 1, "b": 100_000, "c": 64}) == "True"
    assert running(choices, {"a": 1, "b": 2, "c": 64}) == "False"


@pytest.mark.parametrize("names", ["a", "ab", "abcd"])
def test_a_step_of_many_sizes_touches_as_much_more_as_one_of_one(names: str) -> None:
    graph = graph_of(*(size(name, 256) for name in names))
    found = spots(graph.kernels[0], graph)
    touched = sorted({product([d.hint for d in at.dims]) for at in found})
    assert all(b == LARGER * a for a, b in pairwise(touched)) or names == "ab"
    assert touched[-1] >= LARGER**2 * 256 ** len(names)


def test_a_function_that_cannot_be_had_is_that_of_the_nearest_size() -> None:
    def made(sizes: dict[str, int]) -> str | None:
        return None if sizes["a"] > 32 * LARGER else f"{sizes['a'] > 32}"

    choices = choices_of(graph_of(size("a", 32)), made)
    assert running(choices, {"a": 1 << 30}) == "True"


@pytest.mark.parametrize("dims", [(), (size("a", 5, 5, 5),)])
def test_sizes_that_are_known_need_one(dims: tuple[Dim, ...]) -> None:
    graph = graph_of(*dims)
    (only,) = choices_of(graph, lambda _: "any")
    assert only.when == ALWAYS and only.name == "k0"
    assert spots(graph.kernels[0], graph) == (graph,)


def test_loop_nests_have_fewer() -> None:
    graph = graph_of(size("a", 4096))
    found = by_size(
        graph.kernels[0],
        graph,
        "own",
        lambda at: f"{hints_of(at.dims).value(dim('a'))}",
        lambda text: text,
    )
    assert len(found) == MOST_OF_NESTS < MOST


def test_loop_nests_give_way_where_a_row_nearly_fills_the_larger_one() -> None:
    graph = graph_of(size("a", 32))
    made = by_size(graph.kernels[0], graph, "32", lambda at: str(at.dims[0].hint), str)
    turn, larger = 32 * LARGER * 3 // 4, str(32 * LARGER)
    assert [running(list(made), {"a": n}) for n in (turn - 1, turn)] == ["32", larger]


def test_of_many_the_farthest_are_kept_and_of_nests_the_nearest() -> None:
    graph = graph_of(size("a", 4096))
    found = choices_of(graph, lambda sizes: str(sizes["a"]))
    far = 4096 * LARGER**2
    assert [choice.emitted for choice in found] == ["4096", str(far), "16"]
    nests = by_size(graph.kernels[0], graph, "4096", lambda at: str(at.dims[0].hint), str)
    assert [choice.emitted for choice in nests] == ["4096", str(4096 * LARGER)]


def test_nothing_is_made_for_sizes_that_leave_nothing() -> None:
    """Where an extent is a - 10, there is no kernel for an `a` of 2."""
    graph = graph_of(size("a", 32))
    short: Expr = dim("a") - 10
    buffers = {n: replace(b, shape=(short, *b.shape[1:])) for n, b in graph.buffers.items()}
    seen = [at.dims[0].hint for at in spots(graph.kernels[0], replace(graph, buffers=buffers))]
    assert seen[0] == 32 and min(seen) > 10


def test_nothing_is_made_for_sizes_at_which_nothing_is_there() -> None:
    graph = graph_of(size("a", 32))
    there = Maximum(integer(0), Minimum(integer(1), dim("a") - 256))
    buffers = {
        n: replace(b, shape=(product((there, b.shape[0])), *b.shape[1:]))
        for n, b in graph.buffers.items()
    }
    seen = [at.dims[0].hint for at in spots(graph.kernels[0], replace(graph, buffers=buffers))]
    assert seen == [32, 32 * LARGER, 32 * LARGER**2]
