"""What is changed between Triton's stages, on PTX of which one knows what it must become."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from aot.backends.triton.toolchain import find_triton
from aot.backends.triton.worker import change_stages, pairs_apart

BELOW = """
.version 8.4
.target {arch}a
.address_size 64
.visible .entry f(.param .u64 p)
{{
\t.reg .b16 %rs<4>;
\t.reg .b32 %r<5>;
\t.reg .b64 %rd<2>;
\tld.param.u64 %rd1, [p];
\tld.global.b16 %rs1, [%rd1];
\tmov.b32 \t%r1, {{%rs1, %rs2}};
\tmov.b32 \t%r2, 65533;
\tadd.s16x2 \t%r3, %r1, %r2;
\tmov.b32 \t{{%rs3, _}}, %r3;
\tmov.b32 \t%r4, {{%rs3, %rs3}};
\tst.global.b32 [%rd1+8], %r4;
\tret;
}}
"""
"""A number less 3, twice: LLVM's way for a tap's place, which is 3 before that of a result."""


def machine_code(assembly: str, arch: str, folder: Path) -> str:
    """What ptxas makes of PTX, in letters."""
    triton = find_triton(arch)
    source, cubin = folder / "f.ptx", folder / "f.cubin"
    source.write_text(assembly, encoding="utf-8")
    made = [str(triton.assembler), f"-arch={arch}a", str(source), "-o", str(cubin)]
    subprocess.run(made, check=True)
    command = [str(triton.tool("nvdisasm")), "-c", str(cubin)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout


@pytest.mark.parametrize("arch", ["sm_90", "sm_100", "sm_120"])
def test_the_constant_of_one_of_two_sums_is_kept(arch: str, tmp_path: Path) -> None:
    code = machine_code(pairs_apart(BELOW.format(arch=arch)), arch, tmp_path)
    assert "16x2" not in code
    assert "0xfffffffd" in code or "-0x3" in code


def test_what_adds_no_pairs_is_left_alone() -> None:
    text = BELOW.format(arch="sm_90").replace("add.s16x2", "add.s32")
    assert pairs_apart(text) == text


def test_several_pairs_in_one_block() -> None:
    twice = "\tadd.s16x2 \t%r3, %r1, %r2;\n" * 2
    assert pairs_apart(twice).count("add.s16 ") == 4


def test_the_stage_that_writes_ptx_ends_with_it() -> None:
    stages: dict[str, Any] = {"ptx": lambda source, metadata: source + metadata, "cubin": len}
    assert change_stages(None, stages, None, None, 90) is None
    assert stages["ptx"]("\tadd.s16x2 %r1, %r2, ", "%r3;").count("add.s16 ") == 2
    assert stages["cubin"] is len


def test_results_of_the_changed_stages_have_a_key_of_their_own() -> None:
    assert change_stages() == ("pairs_apart", "pairs_apart")
