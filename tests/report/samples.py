"""A small build report for the tests of what is shown."""

from dataclasses import replace
from pathlib import Path

from aot.errors import Origin
from aot.ir.kernels import Decision
from aot.report.model import BuildReport, KernelReport, ProgramReport, StageTime

ADD = Origin("model.py", 12, "aten.add.Tensor", "x = a + b")
SUM = Origin("model.py", 13, "aten.sum.dim_IntList", "return x.sum(dim=1)")
MM = Origin("model.py", 15, "aten.mm.default", "y @ self.weight")
GELU = Origin("model.py", 16, "aten.gelu.default", "F.gelu(<y>)")


def sample_report() -> BuildReport:
    """Two kernels, one of them a matmul with an epilogue, and two decisions."""
    return BuildReport(
        model="sample",
        output=Path("sample.pkg"),
        nbytes=1_234_567,
        weight_bytes=1_048_576,
        targets=("cpu:x86-64-v3", "cpu:x86-64-v4"),
        programs=(
            ProgramReport(
                target="cpu:x86-64-v3+x86-64-v4",
                kernels=(
                    KernelReport(
                        "k0_add_sum",
                        "reduction",
                        (ADD, SUM),
                        ("aten.add.Tensor", "aten.sum.dim_IntList"),
                        ("n0", "n1"),
                        ("a", "b"),
                        ("sum",),
                        8_000_000,
                        2_000_000,
                        "for s0, 64:\n  sum",
                    ),
                    KernelReport(
                        "k1_mm_gelu",
                        "matmul",
                        (MM, GELU),
                        ("aten.mm.default", "aten.gelu.default"),
                        ("t2", "n3"),
                        ("sum", "weight"),
                        ("output",),
                        1_100_000,
                        134_000_000,
                    ),
                ),
                decisions=(
                    Decision("fuse", ("add", "sum"), "fused", "sum reads add at the same points"),
                    Decision("fuse", ("sum", "mm"), "not fused", "a matmul has no prologue here"),
                    Decision("fuse", ("a+b+c+d", "e"), "not fused", "it would make a cycle"),
                    Decision("inline", ("scale",), "inlined", "one user, 1 operation"),
                ),
                arena_bytes=4096,
            ),
        ),
        timings=(StageTime("capture", 1.25), StageTime("build", 0.5)),
        sizes=(("batch", 8),),
    )


def wide_report() -> BuildReport:
    """The same for a second device, where both kernels are one."""
    report = sample_report()
    (host,) = report.programs
    first, second = host.kernels
    fused = replace(
        first, name="k0_all", origins=(*first.origins, *second.origins), writes=second.writes
    )
    device = ProgramReport("cuda:sm_90", (fused,), host.decisions[:1], 0, on_host=False)
    return replace(report, targets=(*report.targets, "cuda:sm_90"), programs=(host, device))
