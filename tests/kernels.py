"""A package with hand-written kernels, for tests of the tools: y = relu(x * w), in two steps."""

import dataclasses
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from aot_runtime.format.declarations import DeclaredBuffer, encode_declarations
from aot_runtime.format.plan import Library, Plan, TreeOutput, WorkLaunch

from aot.link.entry import Entry, bytes_entry
from aot.link.package import write_package
from tests.link.plans import host_declarations, host_program, small_plan

ROOT = Path(__file__).parents[1]
WEIGHT = np.array([1.0, -2.0, 0.5, 3.0], np.float32)

SOURCE = r"""
#include <stddef.h>
#include "aot/kernel_abi.h"
static void k0(const aot_kernel_args* a, int64_t begin, int64_t end) {
  const float* x = a->buffers[0]; const float* w = a->buffers[1]; float* y = a->buffers[2];
  for (int64_t i = 4 * begin; i < 4 * end; ++i) y[i] = x[i] * w[i % 4];
}
static void k1(const aot_kernel_args* a, int64_t begin, int64_t end) {
  const float* x = a->buffers[0]; float* y = a->buffers[1];
  for (int64_t i = 4 * begin; i < 4 * end; ++i) y[i] = (x[i] > 0 ? x[i] : 0) + (ERROR);
}
static const aot_kernel_entry kernels[] = {{"k0", k0}, {"k1", k1}};
static const aot_kernel_library library = {AOT_KERNEL_ABI_VERSION, 2, ISA, kernels};
__attribute__((visibility("default")))
const aot_kernel_library* aot_kernel_library_query(uint32_t version) {
  return version == AOT_KERNEL_ABI_VERSION ? &library : NULL;
}
"""


def compile_library(folder: Path, isa: str, error: str) -> bytes:
    """A kernel library for one level, which declares what it touches.

    `error` is added to every result.
    """
    source, binary = folder / f"{isa}.c", folder / f"{isa}.so"
    source.write_text(SOURCE)
    flags = [f"-march={isa}", "-O1", "-shared", "-fPIC", "-fvisibility=hidden"]
    macros = [f'-DISA="{isa}"', f"-DERROR={error}", f"-I{ROOT / 'cpp' / 'include'}"]
    subprocess.run(["gcc", *flags, *macros, str(source), "-o", str(binary)], check=True)
    return binary.read_bytes() + declarations()


def declarations() -> bytes:
    """What stands behind the code of the library."""
    first, second = host_declarations()
    x, _, y = first.declaration.buffers
    weight = DeclaredBuffer("float32", 16, "read")
    own = dataclasses.replace(first.declaration, scratch=256)
    return encode_declarations(
        [
            dataclasses.replace(kernel, declaration=dataclasses.replace(own, buffers=buffers))
            for kernel, buffers in ((first, (x, weight, y)), (second, (x, y)))
        ]
    )


def reference(x: np.ndarray) -> np.ndarray:
    return np.maximum(x * WEIGHT, 0)


def kernel_plan(errors: dict[str, str], golden: bool) -> Plan:
    plan, program = small_plan(), host_program()
    steps = tuple(
        dataclasses.replace(step, launch=WorkLaunch("s0", 1, 256)) for step in program.steps
    )
    buffers = list(program.buffers)
    buffers[1] = dataclasses.replace(buffers[1], bytes=16)
    return dataclasses.replace(
        plan,
        programs=(
            dataclasses.replace(
                program,
                steps=steps,
                buffers=tuple(buffers),
                libraries=tuple(Library(f"kernels/cpu/{isa}", isa) for isa in errors),
            ),
        ),
        golden=plan.golden if golden else (),
        signature=dataclasses.replace(plan.signature, result=TreeOutput(0)),
    )


def write_kernels(
    folder: Path, errors: dict[str, str], *, golden: bool = True, more: Sequence[Entry] = ()
) -> Path:
    """A package for the levels in `errors`; each value is added to the results of that level.

    `more`: entries besides.
    """
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    entries = [
        bytes_entry(f"kernels/cpu/{isa}", compile_library(folder, isa, error))
        for isa, error in errors.items()
    ]
    entries += [Entry("weights/w", "float32", (4,), lambda: (WEIGHT.data,)), *more]
    if golden:
        entries.append(Entry("golden/0/inputs/0", "float32", (3, 4), lambda: (x.data,)))
        y = reference(x)
        entries.append(Entry("golden/0/outputs/0", "float32", (3, 4), lambda: (y.data,)))
    path = folder / "kernels.pkg"
    write_package(path, kernel_plan(errors, golden), entries)
    return path
