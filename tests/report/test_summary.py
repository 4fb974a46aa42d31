"""What a kernel costs, counted by hand for small ones."""

import aot.symbolic as sym
from aot.ir.kernels import MemoryPlan, Placement
from aot.report.summary import arena_nbytes

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
