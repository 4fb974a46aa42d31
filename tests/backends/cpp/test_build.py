"""Toolchains, shared objects and the cache."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aot.backends.base import EmittedGraph, KernelSource
from aot.backends.cpp import build as build_module
from aot.backends.cpp.backend import CppBackend
from aot.backends.cpp.toolchain import Toolchain, find_toolchain
from aot.backends.registry import backend_for
from aot.errors import CompilerFailed, ToolchainError, ToolchainMissing, UsageError
from aot.ir.dtypes import FLOAT32
from aot.ir.scalar import unary
from aot.options import ALL_CPU, BuildOptions, Target
from tests.backends.kernel_runner import GraphMaker, Program, axes, machine_levels, nest

ONE = Target("cpu", ("x86-64-v2",))


def small_graph(op="exp"):
    maker = GraphMaker()
    (i,) = axes(100)
    maker.buffer("x", FLOAT32, [100])
    value = unary(op, maker.read("x", i.symbol))
    maker.kernel([nest("n", [i], [], (maker.output("o", FLOAT32, [100]), [i.symbol], value))])
    return maker.graph()


def options(tmp_path, **more):
    return BuildOptions(jobs=2, cache_dir=tmp_path / "cache", **more)


def test_objects_depend_on_nothing_but_libc_and_libm_and_export_one_symbol(tmp_path):
    backend = CppBackend()
    source = backend.emit(small_graph("lgamma"), ALL_CPU)
    for binary in backend.compile(source, ALL_CPU, options(tmp_path)):
        path = tmp_path / f"{binary.arch}.so"
        path.write_bytes(binary.data)
        dynamic = subprocess.run(
            ["readelf", "-dW", "--dyn-syms", path], capture_output=True, text=True, check=True
        ).stdout
        needed = set(re.findall(r"Shared library: \[(.*?)\]", dynamic))
        assert needed <= {"libm.so.6", "libc.so.6"}
        defined = re.findall(r"GLOBAL\s+DEFAULT\s+\d+\s+(\S+)", dynamic)
        assert defined == ["aot_kernel_library_query"]
        assert b"/include" not in binary.data and str(tmp_path).encode() not in binary.data


def test_the_same_sources_give_the_same_bytes_and_the_cache_is_used(tmp_path, monkeypatch):
    backend = CppBackend()
    source = backend.emit(small_graph(), ONE)
    first = backend.compile(source, ONE, options(tmp_path))
    again = backend.compile(source, ONE, options(tmp_path / "elsewhere"))
    assert first == again
    assert backend.emit(small_graph(), ONE) == source

    def refuse(*args, **kwargs):
        raise AssertionError("a compiler was run although the cache holds the result")

    monkeypatch.setattr(build_module.Builder, "_run", refuse)
    assert backend.compile(source, ONE, options(tmp_path)) == first


def test_a_failing_compiler_is_reported_with_its_words_and_the_kept_source(tmp_path):
    backend = CppBackend()
    emitted = backend.emit(small_graph(), ONE)
    bad = EmittedGraph(emitted.graph, (KernelSource("k0", "this is not C++;\n"),), emitted.launches)
    with pytest.raises(CompilerFailed) as caught:
        backend.compile(bad, ONE, options(tmp_path))
    error = caught.value
    assert "this" in error.stderr
    assert "-march=x86-64-v2" in error.command
    assert "this is not C++" in error.source.read_text(encoding="utf-8")
    assert tmp_path in error.source.parents


def test_a_compiler_that_cannot_be_run_is_named(tmp_path):
    with pytest.raises(ToolchainMissing, match="no-such-compiler"):
        find_toolchain("no-such-compiler")
    backend = CppBackend()
    source = backend.emit(small_graph(), ONE)
    with pytest.raises(ToolchainError, match="no-such-compiler"):
        backend.compile(source, ONE, options(tmp_path, compiler="no-such-compiler"))


def test_without_any_compiler_the_user_is_told_what_to_install(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ToolchainMissing) as caught:
        find_toolchain()
    assert "ziglang" in str(caught.value)


def test_a_full_cache_directory_is_an_error_that_says_so(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a directory", encoding="utf-8")
    backend = CppBackend()
    source = backend.emit(small_graph(), ONE)
    with pytest.raises(ToolchainError, match="cannot be kept"):
        backend.compile(source, ONE, BuildOptions(jobs=1, cache_dir=blocked))


def other_toolchains():
    found = []
    if shutil.which("clang++"):
        found.append("clang++")
    if importlib.util.find_spec("ziglang"):
        found.append(f"{sys.executable} -m ziglang c++")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("compiler", other_toolchains())
def test_other_compilers_give_the_same_results(compiler, tmp_path):
    graph = small_graph("tanh")
    program = Program(graph, compiler=compiler, levels=("x86-64-v3",))
    assert isinstance(find_toolchain(compiler), Toolchain)
    program.check({"x": np.linspace(-4, 4, 100, dtype="f4")})


def test_targets_without_a_backend_are_refused():
    assert backend_for(ALL_CPU).name == "cpp"
    with pytest.raises(UsageError, match="tpu"):
        backend_for(Target("tpu", ("v1",)))
    assert machine_levels()
    assert not CppBackend().supports(replace(ALL_CPU, archs=("x86-64-v9",)))


def test_headers_travel_with_the_package():
    from aot.backends.cpp.toolchain import include_directories

    for header in ("aot/kernel/prelude.h", "aot/vec/vec.h", "aot/kernel_abi.h"):
        assert any((Path(d) / header).exists() for d in include_directories()), header
