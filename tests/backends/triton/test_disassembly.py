"""The checks of machine code, on kernels of which one knows what they must become."""

from __future__ import annotations

import dataclasses

import pytest

from aot.backends.triton.compile import compile_kernels
from aot.options import default_cache_dir, environment
from tests.backends.triton.disassembly import disassemble
from tests.backends.triton.kernels import add, matmul, spilling

ARCHS = ("sm_80", "sm_90")


def machine_code(source, arch):
    (image,) = compile_kernels([source], arch, 1, default_cache_dir(environment()))
    return disassemble(image, arch)


@pytest.mark.parametrize("arch", (*ARCHS, "sm_100", "sm_120"))
def test_matrix_products_use_tensor_cores(arch):
    assert machine_code(matmul(), arch).uses_tensor_cores
    assert not machine_code(add(), arch).uses_tensor_cores


@pytest.mark.parametrize("arch", ARCHS)
def test_loads_of_known_alignment_are_wide(arch):
    product = machine_code(matmul(), arch)
    assert product.vector_loads == product.loads > 0
    unknown = machine_code(add(), arch)
    assert unknown.vector_loads == 0 < unknown.loads
    unmasked = dataclasses.replace(add(), text=add().text.replace(", m)", ")"))
    known = machine_code(unmasked, arch)
    assert known.vector_loads == known.loads == 4


@pytest.mark.parametrize("arch", ARCHS)
def test_values_that_fit_no_registers_are_seen(arch):
    assert machine_code(add(), arch).local_bytes == 0
    crowded = machine_code(spilling(), arch)
    assert crowded.local_bytes > 256
    assert crowded.registers > machine_code(add(), arch).registers
