"""Dear sides of selections behind tests: which, and that values stay as they were."""

from __future__ import annotations

import numpy as np

from aot.backends.guards import MOST_NESTED, find_guards
from aot.ir.dtypes import FLOAT32, FLOAT64
from aot.ir.scalar import Node, binary, cast, const, load, unary, where
from tests.backends.kernel_runner import GraphMaker, Program, axes, nest
from tests.settings import seeded

N = 83


def dear(x: Node, steps: int = 30) -> Node:
    """A long chain of arithmetic."""
    for k in range(steps):
        x = binary("add", binary("mul", x, x), const(-1.0 / (k + 2), x.dtype))
        x = binary("mul", x, const(0.5, x.dtype))
    return x


def test_the_dear_side_is_guarded_and_what_it_shares_comes_first():
    x = load("x", FLOAT64, ())
    shared = unary("exp", x)
    near, far = dear(binary("add", shared, x)), binary("mul", shared, x)
    node = where(binary("gt", x, const(0.0, FLOAT64)), near, far)
    (guard,) = find_guards([node]).values()
    assert guard.sides == (1,)
    assert {node.args[0], far, shared, x} <= set(guard.before)
    assert near not in guard.before
    assert near in guard.behind
    assert not guard.behind & {shared, far, x}


def test_cheap_sides_constants_and_what_others_want_are_not_guarded():
    x = load("x", FLOAT64, ())
    test = binary("gt", x, const(0.0, FLOAT64))
    value, other = dear(x), binary("add", x, x)
    assert not find_guards([where(test, binary("mul", x, x), other)])
    assert not find_guards([where(test, value, const(0.0, FLOAT64))])
    assert not find_guards([where(test, value, other), value])
    assert not find_guards([where(binary("gt", value, x), value, other)])


def test_sides_within_sides_are_evaluated_where_a_lane_wants_them():
    rng = np.random.default_rng(seeded(3))
    maker = GraphMaker()
    (i,) = axes(N)
    inputs = {maker.buffer("x", FLOAT32, [N]): rng.normal(0, 1, N).astype(np.float32)}
    inputs["x"][:40] = np.abs(inputs["x"][:40])  # whole vectors of one side, and mixed ones
    x = maker.read("x", i.symbol)
    wide = cast(x, FLOAT64)
    inner = where(binary("gt", wide, const(1.0, FLOAT64)), dear(wide, 20), dear(unary("neg", wide)))
    below = dear(binary("mul", wide, const(0.25, FLOAT64)), 25)
    value = where(binary("gt", wide, const(0.0, FLOAT64)), inner, below)
    inputs[maker.buffer("s", FLOAT32, [])] = np.array(1.0, np.float32)
    positive = binary("gt", maker.read("s"), const(0.0, FLOAT32))
    uniform = where(positive, dear(x, 40), unary("abs", x))
    assert len(find_guards([value])) == 2
    outs = [(maker.output("o", FLOAT64, [N]), [i.symbol], value)]
    outs.append((maker.output("u", FLOAT32, [N]), [i.symbol], uniform))
    maker.kernel([nest("n", [i], [], *outs)])
    Program(maker.graph()).check(inputs, rtol=1e-5, atol=1e-6)


def test_long_chains_are_guarded_in_their_outermost_levels():
    x = load("x", FLOAT64, ())
    value: Node = binary("mul", x, x)
    nodes = []
    for k in range(300):
        here = binary("mul", binary("sub", x, const(float(k), FLOAT64)), x)
        value = where(binary("lt", x, const(float(k), FLOAT64)), value, here)
        nodes.append(value)
    guards = find_guards([value])
    assert len(guards) == MOST_NESTED
    assert set(guards) == set(nodes[-MOST_NESTED:])
    innermost = guards[nodes[-MOST_NESTED]]
    assert nodes[-MOST_NESTED - 1] in innermost.behind
