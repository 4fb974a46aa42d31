"""Plans for tests: the smallest that use every part of the schema."""

from aot.errors import Origin
from aot.link.plan import (
    ArenaSlot,
    ArenaStorage,
    Buffer,
    Check,
    Dim,
    DimSource,
    EntryStorage,
    GoldenSet,
    InputStorage,
    KernelRef,
    Library,
    OutputStorage,
    Parameter,
    Plan,
    Signature,
    Step,
    TensorSpec,
    TreeConstant,
    TreeDict,
    TreeInput,
    TreeOutput,
    TreeSequence,
)


def small_plan() -> Plan:
    """x[s0, 4] (float32) times a weight, through a temporary, into one output."""
    row_bytes = ("*", 16, "s0")
    return Plan(
        compiler="aot-package test",
        model="small",
        dims=(Dim("s0", "batch", 0, 64, 1, DimSource(0, 0)),),
        inputs=(TensorSpec("x", "float32", ("s0", 4), (4, 1), 0),),
        outputs=(TensorSpec("output", "float32", ("s0", 4), (4, 1), 3),),
        signature=Signature(
            (
                Parameter("x", "positional", TreeInput(0)),
                Parameter("scale", "keyword", TreeConstant(2.5)),
            ),
            TreeDict((("y", TreeSequence("tuple", (TreeOutput(0), TreeConstant(None)))),)),
        ),
        buffers=(
            Buffer("x", "float32", row_bytes, InputStorage(0)),
            Buffer("w", "float32", 64, EntryStorage("weights/w")),
            Buffer("buf0", "float32", row_bytes, ArenaStorage()),
            Buffer("output", "float32", row_bytes, OutputStorage(0)),
        ),
        arena=(ArenaSlot(2, ()),),
        libraries=(Library("kernels/cpu/x86-64-v2", "cpu", "x86-64-v2"),),
        kernels=(KernelRef("k0"), KernelRef("k1")),
        steps=(
            Step(0, (0, 1, 2), ("s0",), "s0", 16, 0, 0),
            Step(1, (2, 3), ("s0",), ("//", ("+", "s0", 3), 4), 1, 256, 1),
        ),
        checks=(Check("s0", "<=", 64, "batch is at most 64"),),
        origins=(
            Origin("model.py", 3, "aten.mm.default", "x @ w"),
            Origin("model.py", 4, "aten.relu.default", "y.relu()"),
        ),
        golden=(GoldenSet(("golden/0/inputs/0",), ("golden/0/outputs/0",), (1e-6,), (1e-5,)),),
    )
