"""Plans for tests: the smallest that use every part of the schema."""

from dataclasses import replace

from aot_runtime.format.declarations import (
    Declaration,
    DeclaredBuffer,
    KernelDeclaration,
    Variable,
    declared_code,
)
from aot_runtime.format.golden_sets import GoldenSet
from aot_runtime.format.plan import (
    ArenaSlot,
    ArenaStorage,
    BranchStep,
    Buffer,
    CallStep,
    Check,
    CheckStep,
    CopyStep,
    Derived,
    Dim,
    DimSource,
    EntryStorage,
    GridLaunch,
    InputStorage,
    KernelCode,
    KernelRef,
    Library,
    OperatorArgument,
    OperatorLibrary,
    OutputStorage,
    Parameter,
    Plan,
    Program,
    RepeatStep,
    Routine,
    Signature,
    SizesStep,
    SliceStorage,
    StateSpec,
    StateStorage,
    Step,
    TensorOperand,
    TensorSpec,
    TreeConstant,
    TreeDict,
    TreeInput,
    TreeOutput,
    TreeSequence,
    Update,
    WeightProgram,
    WeightSpec,
    WhileStep,
    WorkLaunch,
)

from aot.errors import Origin

ROW_BYTES = ("*", 16, "s0")
ROW_BLOCKS = ("//", ("+", "s0", 3), 4)


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
            Step(0, (0, 1, 2), ("s0",), WorkLaunch("s0", 16, 0), 0, values=("s0",)),
            Step(1, (2, 3), ("s0",), WorkLaunch(ROW_BLOCKS, 1, 256), 1, values=("s0",)),
        ),
        outputs=(3,),
    )


def device_program(arch: str = "sm_90") -> Program:
    """The same in one step, as a device runs it that loads kernels one by one."""
    code = KernelCode(f"kernels/cuda/{arch}/k0", "k0", 128, 4096, 256, 16, faults=True, waits=True)
    return Program(
        device="cuda",
        arch=arch,
        buffers=(
            Buffer("x", "float32", ROW_BYTES, InputStorage(0)),
            Buffer("w", "float32", 64, EntryStorage("weights/w")),
            Buffer("output", "float32", ROW_BYTES, OutputStorage(0)),
        ),
        kernels=(KernelRef("k0", code),),
        steps=(Step(0, (0, 1, 2), ("s0",), GridLaunch(ROW_BLOCKS, 1, 1), 1, values=("s0",)),),
        outputs=(2,),
    )


def host_declarations() -> tuple[KernelDeclaration, KernelDeclaration]:
    """What the kernels of `host_program` declare; the second one's rows are 16 bytes in fours."""
    v0 = Variable(0, 64)
    rows = ("*", 16, "v0")
    first = Declaration(
        (v0,),
        (),
        ("v0",),
        (
            DeclaredBuffer("float32", rows, "read"),
            DeclaredBuffer("float32", 64, "read"),
            DeclaredBuffer("float32", rows, "write"),
        ),
        "v0",
        0,
    )
    second = replace(
        first,
        buffers=(first.buffers[0], first.buffers[2]),
        work=("//", ("+", 3, "v0"), 4),
        scratch=256,
    )
    return KernelDeclaration("k0", first), KernelDeclaration("k1", second)


def device_declarations() -> tuple[KernelDeclaration]:
    """What the kernel of `device_program` declares."""
    host = host_declarations()[0].declaration
    blocks = ("//", ("+", "v0", 3), 4)
    declared = replace(host, work=0, grid=(blocks, 1, 1))
    code = device_program().kernels[0].code
    assert code is not None
    return (KernelDeclaration("k0", declared, declared_code(code)),)


def weight_program() -> WeightProgram:
    """The entry of w follows from a weight v."""
    body = replace(
        host_program(),
        buffers=(
            Buffer("source0", "float32", 64, InputStorage(0)),
            Buffer("result", "float32", 64, OutputStorage(0)),
        ),
        arena=(),
        steps=(Step(1, (0, 1), (), WorkLaunch(4, 1, 0), 1),),
        outputs=(1,),
    )
    spec = TensorSpec("source0", "float32", (4, 4), (4, 1))
    routine = Routine((spec,), (replace(spec, name="result"),), body)
    return WeightProgram((routine,), (Derived("weights/w", ("v",), 0),))


def swappable_plan() -> Plan:
    """The small plan with weights that can be replaced."""
    return replace(
        small_plan(),
        programs=(replace(host_program(), weights=weight_program()),),
        weights=(
            WeightSpec("v", "float32", (4, 4), ("tied",), "", required=True),
            WeightSpec("w", "float32", (4, 4), (), "weights/w", required=False),
        ),
    )


def wide_plan() -> Plan:
    """The small plan for two devices."""
    plan = small_plan()
    return replace(plan, programs=(*plan.programs, device_program()))


def state_plan() -> Plan:
    """The small plan with two states, one written in place and one by an update, beside `x`'s."""
    plan, program = small_plan(), host_program()
    weight = replace(program.buffers[1], storage=StateStorage(0))
    program = replace(
        program,
        buffers=(program.buffers[0], weight, *program.buffers[2:]),
        updates=(Update("input", 0, 2), Update("state", 1, 2)),
    )
    return replace(
        plan,
        inputs=(replace(plan.inputs[0], changed=True),),
        states=(StateSpec("w", "float32", (16,), "state/w"), StateSpec("sum", "float32", (4,))),
        programs=(program,),
    )


def control_plan() -> Plan:
    """The small plan with a step of each kind around its launches, and a size that it measures."""
    plan = small_plan()
    temporaries = (
        Buffer("flag", "bool", 1, ArenaStorage()),
        Buffer("count", "int64", 8, ArenaStorage()),
        Buffer("row", "float32", 16, SliceStorage(2, 16, 5)),
        Buffer("some", "float32", ("*", 16, "m0"), ArenaStorage()),
    )
    base = host_program()
    first, second = base.steps
    steps = (
        BranchStep(4, 1, 1, 0),
        first,
        CopyStep(2, 3, 0),
        WhileStep(4, 0, 1, 0),
        second,
        RepeatStep("s0", 1, 0),
        replace(second, buffers=(0, 6)),
        CheckStep(4, "all is well", 1),
        SizesStep((("m0", 5),), 1, 1),
        replace(first, buffers=(0, 1, 7), sizes=("m0",), values=("m0",)),
    )
    arena = (ArenaSlot(2, ()), ArenaSlot(4, (2,)), ArenaSlot(5, (4,)), ArenaSlot(7, ()))
    program = replace(base, buffers=(*base.buffers, *temporaries), steps=steps, arena=arena)
    measured = Dim("m0", "found", 0, 64, 1, None)
    return replace(plan, dims=(*plan.dims, measured), programs=(program,))


def operator_plan() -> Plan:
    """The small plan whose second launch is a custom operator, with every kind of argument."""
    plan, program = small_plan(), host_program()
    x = TensorOperand(2, ("s0", 4))
    call = CallStep(
        "demo::scale",
        (
            OperatorArgument("x", "tensor", (x,)),
            OperatorArgument("others", "tensor[]", (x, TensorOperand(1, (4, 4)))),
            OperatorArgument("factors", "float[]", (0.5, float("inf"), float("-inf"))),
            OperatorArgument("rows", "int", ("s0",)),
            OperatorArgument("axes", "int[]", (-1, ("+", "s0", 1))),
            OperatorArgument("mode", "string", ("plain",)),
            OperatorArgument("checked", "bool", (True,)),
            OperatorArgument("bias", "none", ()),
            OperatorArgument("total", "tensor", (TensorOperand(2, (4,)),), changed=True),
        ),
        (TensorOperand(3, ("s0", 4)),),
        1,
    )
    libraries = (OperatorLibrary("operators/cpu/demo.so"),)
    steps = (program.steps[0], call)
    return replace(plan, programs=(replace(program, steps=steps, operator_libraries=libraries),))
