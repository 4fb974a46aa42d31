"""Plans for tests: the smallest that use every part of the schema."""

from dataclasses import replace

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
    GridLaunch,
    InputStorage,
    KernelCode,
    KernelRef,
    Library,
    OutputStorage,
    Parameter,
    Plan,
    Program,
    Signature,
    Step,
    TensorSpec,
    TreeConstant,
    TreeDict,
    TreeInput,
    TreeOutput,
    TreeSequence,
    WorkLaunch,
)

ROW_BYTES = ("*", 16, "s0")


def small_plan() -> Plan:
    """x[s0, 4] (float32) times a weight, through a temporary, into one output."""
    return Plan(
        compiler="aot-package test",
        model="small",
        dims=(Dim("s0", "batch", 0, 64, 1, DimSource(0, 0)),),
        inputs=(TensorSpec("x", "float32", ("s0", 4), (4, 1)),),
        outputs=(TensorSpec("output", "float32", ("s0", 4), (4, 1)),),
        signature=Signature(
            (
                Parameter("x", "positional", TreeInput(0)),
                Parameter("scale", "keyword", TreeConstant(2.5)),
            ),
            TreeDict((("y", TreeSequence("tuple", (TreeOutput(0), TreeConstant(None)))),)),
        ),
        programs=(host_program(),),
        checks=(Check("s0", "<=", 64, "batch is at most 64"),),
        origins=(
            Origin("model.py", 3, "aten.mm.default", "x @ w"),
            Origin("model.py", 4, "aten.relu.default", "y.relu()"),
        ),
        golden=(GoldenSet(("golden/0/inputs/0",), ("golden/0/outputs/0",), (1e-6,), (1e-5,)),),
    )


def host_program() -> Program:
    """Two steps, with a temporary between them."""
    return Program(
        device="cpu",
        arch="",
        buffers=(
            Buffer("x", "float32", ROW_BYTES, InputStorage(0)),
            Buffer("w", "float32", 64, EntryStorage("weights/w")),
            Buffer("buf0", "float32", ROW_BYTES, ArenaStorage()),
            Buffer("output", "float32", ROW_BYTES, OutputStorage(0)),
        ),
        arena=(ArenaSlot(2, ()),),
        libraries=(Library("kernels/cpu/x86-64-v2", "x86-64-v2"),),
        kernels=(KernelRef("k0"), KernelRef("k1")),
        steps=(
            Step(0, (0, 1, 2), ("s0",), WorkLaunch("s0", 16, 0), 0),
            Step(1, (2, 3), ("s0",), WorkLaunch(("//", ("+", "s0", 3), 4), 1, 256), 1),
        ),
        outputs=(3,),
    )


def device_program(arch: str = "sm_90") -> Program:
    """The same in one step, as a device runs it that loads kernels one by one."""
    code = KernelCode(f"kernels/cuda/{arch}/k0", "k0", 128, 4096, 256, 16, faults=True)
    return Program(
        device="cuda",
        arch=arch,
        buffers=(
            Buffer("x", "float32", ROW_BYTES, InputStorage(0)),
            Buffer("w", "float32", 64, EntryStorage("weights/w")),
            Buffer("output", "float32", ROW_BYTES, OutputStorage(0)),
        ),
        kernels=(KernelRef("k0", code),),
        steps=(Step(0, (0, 1, 2), ("s0",), GridLaunch(("//", ("+", "s0", 3), 4), 1, 1), 1),),
        outputs=(2,),
    )


def wide_plan() -> Plan:
    """The small plan for two devices."""
    plan = small_plan()
    return replace(plan, programs=(*plan.programs, device_program()))
