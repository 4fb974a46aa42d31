"""Micro-kernels in units of their own: found by what objects call, compiled once for all models."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from aot.backends.base import UNNAMED, KernelSource
from aot.backends.cpp.apart import DECLARED, text_of, wanted
from aot.backends.cpp.build import Builder, Unit, make_units
from aot.backends.cpp.toolchain import find_toolchain, include_directories

LEVEL = "x86-64-v4"
TOOLS = find_toolchain()
KERNELS = {
    "x86-64-v3": [
        "micro_kernel<{float}, 2, 3>",
        "micro_kernel<{double}, 1, 1>",
        "half_kernel<{float}, 4>",
        "half_kernel<{double}, 2>",
        "joined_kernel<{float}, 3>",
    ],
    "x86-64-v4": [
        "micro_kernel<{bf16}, 9, 2>",
        "half_last_kernel<{float}, 1, 1>",
        "half_last_kernel<{float}, 3, 2>",
    ],
}
PASSES = {
    "double": ["{0}, Held<{0}>, Held<{0}>", "{0}, Held<{0}>, Factored<{0}, true, false>"],
    "float": [
        "{0}, Apart<{0}, true>, Held<{0}>",
        "{0}, Held<{0}>, Beside<{0}>",
        "{0}, Held<{0}>, Results<{0}, true, true>",
        "{0}, Turned<{0}, false>, Held<{0}>",
    ],
}
OPERATIONS = {"float": "MultiplyAdd<float>", "double": "MultiplyAdd<double>", "bf16": "Bf16Dot"}

pytestmark = pytest.mark.skipif(not TOOLS.tells_symbols, reason="the compiler gets whole units")


def compiled(text: str, folder: Path, level: str, *more: str) -> bytes:
    """The object of a unit; `more` flags."""
    source, target = folder / "unit.cpp", folder / "unit.o"
    source.write_text(text, encoding="utf-8")
    includes = [f"-I{place}" for place in include_directories()]
    flags = [*TOOLS.compile_flags(level), *more, *includes]
    subprocess.run([*TOOLS.command, *flags, "-c", source, "-o", target], check=True)
    return target.read_bytes()


def product(name: str, rows: int) -> KernelSource:
    """A function that multiplies so many rows by one panel."""
    text = (
        f'extern "C" void {UNNAMED}(const aot_kernel_args* args, int64_t, int64_t) {{\n'
        "  const auto* m = static_cast<const aot::tmpl::MicroArgs<float>*>(args->buffers[0]);\n"
        f"  aot::tmpl::micro<aot::tmpl::MultiplyAdd<float>, 1 << {rows - 1}>({rows}, 1, *m);\n}}\n"
    )
    return KernelSource(name, text.replace(UNNAMED, name), ("aot/tmpl/gemm.h",), unnamed=text)


@pytest.mark.parametrize("level", KERNELS)
def test_what_is_called_from_elsewhere_is_found_and_then_there(level: str, tmp_path: Path) -> None:
    spelled = {key: f"aot::tmpl::{name}" for key, name in OPERATIONS.items()}
    names = [f"aot::tmpl::{kernel.format(**spelled)}" for kernel in KERNELS[level]]
    takes = "".join(f"void* f{k}() {{ return (void*)&{name}; }}\n" for k, name in enumerate(names))
    heads = '#include "aot/tmpl/bf16.h"\n'
    calls = compiled(f'{heads}#include "{DECLARED}"\n{takes}', tmp_path, level)
    found = wanted([calls])
    assert len(found) == len(names)
    made = [compiled(text_of(symbol), tmp_path, level) for symbol in found]
    assert wanted([calls, *made]) == []
    assert wanted([calls, *made[1:]]) == found[:1]
    assert wanted(made) == []
    alone = compiled(f"{heads}{takes}", tmp_path, level)
    assert wanted([alone]) == [] == wanted([calls, alone])


@pytest.mark.parametrize("kind", PASSES)
def test_so_are_passes_of_transforms_whose_length_a_run_knows(kind: str, tmp_path: Path) -> None:
    names = [f"pass_of<{words.format(kind)}>" for words in PASSES[kind]]
    takes = "".join(f"void* f{k}() {{ return (void*)&{name}; }}\n" for k, name in enumerate(names))
    text = f'#include "{DECLARED}"\nnamespace aot::tmpl::fft_detail {{\n{takes}}}\n'
    calls = compiled(f'#include "aot/tmpl/fft_open.h"\n{text}', tmp_path, "x86-64-v3")
    found = wanted([calls])
    assert len(found) == len(names)
    made = [compiled(text_of(symbol), tmp_path, "x86-64-v3") for symbol in found]
    assert wanted([calls, *made]) == []


MATRICES = {
    "conquer.h": ["conquer<{T}, false>", "conquer<{T}, true>"],
    "large_eig.h": [
        "hessenberg_basis<{M}>",
        "find_spectrum<{M}>",
        "find_vectors<{M}, {T}>",
        "turn_back<{M}, {S}>",
    ],
    "large_qr.h": ["reflect_blocks<{M}>"],
}
REDUCED = ("Tridiagonal", "Bidiagonal", "Hessenberg")


@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize("parts", ["", "Complex"], ids=["real", "complex"])
def test_so_is_what_is_done_with_one_large_matrix(kind: str, parts: str, tmp_path: Path) -> None:
    given = {"T": kind, "M": f"{parts}Dense<{kind}>", "S": f"{parts}Seen<{kind}>"}
    headers = [*MATRICES, *(f"{name.lower()}.h" for name in REDUCED)]
    names = [f"(void*)&{name.format_map(given)}" for all in MATRICES.values() for name in all]
    names += [
        f"(void*)static_cast<void (*)(const {name}<{given['M']}>&, Room)>(&reduce)"
        for name in REDUCED
    ]
    takes = "".join(f"void* f{k}() {{ return {name}; }}\n" for k, name in enumerate(names))
    heads = "".join(f'#include "aot/linalg/{name}"\n' for name in headers)
    text = f'#include "{DECLARED}"\nnamespace aot::linalg {{\n{takes}}}\n'
    calls = compiled(heads + text, tmp_path, "x86-64-v3")
    found = wanted([calls])
    assert len(found) == len(names)
    made = compiled("".join(map(text_of, found)), tmp_path, "x86-64-v3", "-O0")
    assert wanted([made]) == [] == wanted([calls, made])
    assert wanted([calls]) == found


def test_no_file_of_the_compiler_s_asks_for_nothing() -> None:
    assert wanted([b"", b"!<arch>\n"]) == []


def test_a_second_model_compiles_no_micro_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, sources = Builder._run, []

    def counted(self: Builder, command: list[str], root: Path, unit: Unit) -> None:
        sources.extend([unit.text] if "-c" in command else [])
        run(self, command, root, unit)

    monkeypatch.setattr(Builder, "_run", counted)
    builder = Builder(TOOLS, tmp_path / "kernels", 1, tmp_path, headers=tmp_path / "headers")
    first = make_units([product("a", 2)], '"level"', apart=True)
    library = builder.build(first, [LEVEL])
    micro = [text for text in sources if text.startswith('#include "aot/tmpl/micro.h"')]
    assert len(micro) == 1
    sources.clear()
    builder.build(make_units([product("other", 2)], '"level"', apart=True), [LEVEL])
    assert len(sources) == 1  # the name is the table's alone
    builder.build(make_units([product("a", 3)], '"level"', apart=True), [LEVEL])
    assert len([text for text in sources if "MicroArgs<aot::tmpl::Mul" in text]) == 1
    sources.clear()
    uncached = replace(builder, cache=None)  # `--no-cache`: these are kept where headers are
    assert uncached.build(first, [LEVEL]) == library
    assert len(sources) == 2  # the function's, and the table
    assert Builder(TOOLS, None, 2, tmp_path).build(first, [LEVEL]) == library
    (tmp_path / "file").write_text("no folder")
    elsewhere = Builder(TOOLS, None, 1, tmp_path, headers=tmp_path / "file")
    assert elsewhere.build(first, [LEVEL]) == library


def test_objects_that_the_linker_optimises_are_not_asked() -> None:
    assert not replace(TOOLS, command=("g++", "-flto=4")).tells_symbols
    assert not replace(TOOLS, family="clang").tells_symbols
    units = make_units([product("a", 2)], '"level"')
    assert not any(DECLARED in unit.text for unit in units)


def test_units_of_no_templates_declare_nothing() -> None:
    plain = replace(product("a", 2), headers=())
    assert not any(DECLARED in unit.text for unit in make_units([plain], '"level"', apart=True))
