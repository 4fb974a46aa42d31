"""What a kernel costs, counted by hand for small ones; sizes by the user's names."""

from types import SimpleNamespace

import aot.symbolic as sym
from aot.ir.kernels import MemoryPlan, Placement
from aot.report.summary import arena_nbytes, by_labels

S0 = sym.dim("s0")
SIZES = {S0: 10}


def test_arena_is_placed_as_the_format_says() -> None:
    memory = MemoryPlan(
        (
            Placement("a", sym.as_expr(100), ()),
            Placement("b", sym.as_expr(8 * S0), ("a",)),
            Placement("c", sym.as_expr(50), ()),
        ),
        (),
    )
    assert arena_nbytes(memory, SIZES) == 128 + 80


def test_sizes_have_the_users_names() -> None:
    dims = [SimpleNamespace(name="s1", label="batch"), SimpleNamespace(name="s10", label="")]
    graph = SimpleNamespace(dims=dims)
    assert by_labels("for s1 * s10, buf_s1", graph) == "for batch * s10, buf_s1"
    assert by_labels("for s1", SimpleNamespace(dims=[])) == "for s1"
