"""Toolchains, shared objects and the cache."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aot.backends.base import UNNAMED, EmittedGraph, KernelSource
from aot.backends.cpp import build as build_module
from aot.backends.cpp.backend import CppBackend
from aot.backends.cpp.build import Builder, Unit, make_units
from aot.backends.cpp.kernel import SIGNATURE
from aot.backends.cpp.toolchain import Toolchain, find_toolchain, headers_digest
from aot.backends.registry import backend_for
from aot.errors import CompilerFailed, ToolchainError, ToolchainMissing, UsageError
from aot.ir.dtypes import FLOAT32
from aot.ir.scalar import unary
from aot.options import (
    _COMPILER_PATHS,
    ALL_CPU,
    CPU_LEVELS,
    BuildOptions,
    Target,
    default_cache_dir,
    environment,
)
from tests.backends.kernel_runner import GraphMaker, Program, axes, in_turn, machine_levels, nest
from tests.settings import SETTINGS

ONE = Target("cpu", ("x86-64-v2",))


def small_graph(op="exp"):
    maker = GraphMaker()
    (i,) = axes(100)
    maker.buffer("x", FLOAT32, [100])
    value = unary(op, maker.read("x", i.symbol))
    maker.kernel([nest("n", [i], [], (maker.output("o", FLOAT32, [100]), [i.symbol], value))])
    return maker.graph()


def cache_of(tmp_path):
    """An empty cache but for precompiled headers, which are those of all tests."""
    cache = tmp_path / "cache"
    headers = default_cache_dir(environment()) / "cpp" / "headers"
    headers.mkdir(parents=True, exist_ok=True)
    (cache / "cpp").mkdir(parents=True, exist_ok=True)
    if not (cache / "cpp" / "headers").exists():
        (cache / "cpp" / "headers").symlink_to(headers)
    return cache


def options(tmp_path, **more):
    return BuildOptions(jobs=2, cache_dir=cache_of(tmp_path), **more)


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


def test_programs_of_tests_take_levels_in_turn(monkeypatch):
    monkeypatch.setattr(SETTINGS, "sweeps", False)
    made = [in_turn(f"kernel {k}", CPU_LEVELS) for k in range(40)]
    assert {len(run) for run, _ in made} == {1}
    assert {run[0] for run, _ in made} == set(machine_levels())
    others = set(CPU_LEVELS) - set(machine_levels())
    assert {level for _, looked_at in made for level in looked_at} == others
    assert not others or sum(bool(looked_at) for _, looked_at in made) < len(made) / 2
    monkeypatch.setattr(SETTINGS, "sweeps", True)
    assert in_turn("kernel 0", CPU_LEVELS)[0] == machine_levels()


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


def source_of(name, value, headers=()):
    unnamed = f'extern "C" void {UNNAMED}{SIGNATURE} {{ *args->fault = {value}; }}\n'
    text = unnamed.replace(UNNAMED, name)
    return KernelSource(name, text, headers, unnamed=unnamed)


def test_a_changed_function_changes_its_own_unit_and_the_table():
    functions = [source_of(f"k{k}", k) for k in range(24)]
    before = make_units(functions, '"level"')
    for k in (0, 11, 23):
        changed = [*functions[:k], source_of(f"k{k}", 1000 + k), *functions[k + 1 :]]
        after = make_units(changed, '"level"')
        new = {unit.text for unit in after} - {unit.text for unit in before}
        # Its own, one more where it ended a unit or ends one now, and the table.
        assert len(new) <= 4 < len(before)


def test_functions_that_move_are_not_compiled_again():
    functions = [source_of(f"k{k}", k) for k in range(24)]
    moved = [source_of("k0", 77), *(source_of(f"k{k + 1}", k) for k in range(24))]
    before, after = make_units(functions, '"level"'), make_units(moved, '"level"')
    assert len({unit.text for unit in after} - {unit.text for unit in before}) <= 3
    assert '{"k24", ' in after[-1].text


def test_functions_of_one_text_are_compiled_once_and_have_an_entry_each():
    alike = [source_of(f"k{k}", 1, ("aot/tmpl/scan.h",)) for k in range(2)]
    kernels, table = make_units(alike, '"level"')
    assert kernels.text.count("*args->fault") == 1
    assert re.findall(r'{"(k\d)", (kernel_\w+)}', table.text) == [
        ("k0", symbol := re.search(r"kernel_\w{24}", kernels.text)[0]),
        ("k1", symbol),
    ]


def test_few_small_functions_are_one_unit_with_their_table(tmp_path, monkeypatch):
    units = make_units([source_of("k0", 1)], '"level"')
    assert [unit.name for unit in units] == ["kernels0"] and units[0].vectors
    started = []
    run = Builder._run
    monkeypatch.setattr(Builder, "_run", lambda *given: started.append(given[1]) or run(*given))
    library = Builder(find_toolchain(), cache_of(tmp_path), 1, tmp_path).build(units, ONE.archs)
    assert ["-c" in command for command in started] == [True, False]
    assert b"k0\0" in library[ONE.archs[0]]
    # What takes long to compile is not compiled again because another is called.
    assert len(make_units([source_of("k0", 1, ("aot/tmpl/scan.h",))], '"level"')) == 2


def templates(units):
    """How many functions the units have whose includes name a template."""
    return [u.text.count("extern") for u in units if "aot/tmpl" in u.text]


def test_functions_of_many_templates_are_units_of_their_own():
    plain = [source_of(f"k{k}", k) for k in range(8)]
    dear = [source_of(f"dear{k}", 99 + k, ("aot/tmpl/matmul.h",)) for k in range(4)]
    units = make_units([*plain[:4], *dear, *plain[4:]], '"level"')
    assert templates(units) == [1] * 4
    assert {u.text for u in units[4:-1]} == {u.text for u in make_units(plain, '"level"')[:-1]}


def test_few_functions_of_the_same_templates_are_one_unit():
    plain = [source_of(f"k{k}", k) for k in range(8)]
    products = [source_of(f"p{k}", 99 + k, ("aot/tmpl/matmul.h",)) for k in range(3)]
    scans = [source_of(f"s{k}", 199 + k, ("aot/tmpl/scan.h",)) for k in range(2)]
    units = make_units([products[0], *plain, scans[0], *products[1:], scans[1]], '"level"')
    assert templates(units) == [3, 2]
    assert {u.text for u in units[2:-1]} == {u.text for u in make_units(plain, '"level"')[:-1]}


def test_compilers_that_read_headers_for_each_unit_get_two():
    functions = [source_of(f"k{k}", k) for k in range(24)]
    assert len(make_units(functions, '"level"', few=True)) == 3
    assert len(make_units(functions[:1], '"level"', few=True)) == 1  # with its table
    assert len(make_units([], '"level"', few=True)) == 1


def test_micro_kernels_of_all_heights_are_in_a_unit_that_models_share():
    functions = [replace(source_of(f"k{k}", k), tables=("float",)) for k in range(3)]
    units = make_units([source_of("plain", 9), *functions], '"level"')
    (shared,) = [unit for unit in units if unit.long]
    for table in ("whole", "half"):
        assert f"SharedTables<MultiplyAdd<float>>::{table} =" in shared.text
    others = make_units([replace(source_of("k", 7), tables=("double", "float"))], '"level"')
    assert shared.text in [unit.text for unit in others if unit.long]
    assert not any(unit.long for unit in make_units([source_of("plain", 9)], '"level"'))


def test_long_units_are_begun_first(tmp_path, monkeypatch):
    begun = []
    monkeypatch.setattr(Builder, "_link", lambda self, root, arch, units: b"")

    def compiled(self, root, unit, arch, headers):
        begun.append((unit.name, arch))
        (root / f"{unit.name}.{arch}.o").write_bytes(b"")

    monkeypatch.setattr(Builder, "_compile", compiled)
    units = [Unit("kernels0", "text" * 100), Unit("tables0", "text", long=True)]
    Builder(find_toolchain(), None, 1, tmp_path).build(units, ("x86-64-v2", "x86-64-v3"))
    assert [name for name, _ in begun] == ["tables0", "tables0", "kernels0", "kernels0"]


@pytest.mark.parametrize(
    ("jobs", "exact", "levels", "most"),
    [(2, False, 3, 3), (2, True, 3, 2), (1, False, 3, 1), (2, False, 2, 2), (4, False, 3, 6)],
)
def test_all_levels_of_a_unit_are_compiled_at_once_where_nobody_said_how_many(
    tmp_path, monkeypatch, jobs, exact, levels, most
):
    running, found, lock = [0], [0], threading.Lock()
    together = threading.Barrier(most)

    def compiled(self, root, unit, arch, headers):
        with lock:
            running[0] += 1
            found[0] = max(found[0], running[0])
        together.wait(30)
        with lock:
            running[0] -= 1
        together.wait(30)
        (root / f"{unit.name}.{arch}.o").write_bytes(b"")

    monkeypatch.setattr(Builder, "_compile", compiled)
    monkeypatch.setattr(Builder, "_link", lambda self, root, arch, units: b"")
    units = [Unit(f"kernels{k}", "text") for k in range(4)]
    builder = Builder(find_toolchain(), None, jobs, tmp_path, exact=exact)
    builder.build(units, CPU_LEVELS[:levels])
    assert found == [most]


def test_objects_of_an_earlier_build_are_linked_as_they_are(tmp_path, monkeypatch):
    functions = [source_of(f"k{k}", k) for k in range(12)]
    builder = Builder(find_toolchain(), cache_of(tmp_path), 1, tmp_path / "keep")
    builder.build(make_units(functions, '"level"'), ONE.archs)
    compiled = []
    run = Builder._run

    def counted(self, command, root, unit):
        compiled.extend([unit.text] if "-c" in command else [])
        run(self, command, root, unit)

    monkeypatch.setattr(Builder, "_run", counted)
    units = make_units([source_of("k0", 55), *functions[1:]], '"level"')
    library = builder.build(units, ONE.archs)
    assert len(compiled) <= 3 < len(units)
    monkeypatch.undo()
    whole = Builder(find_toolchain(), None, 1, tmp_path / "keep").build(units, ONE.archs)
    assert whole == library


def fake_compiler(folder, text="a"):
    folder.mkdir(exist_ok=True)
    program = folder / "c++"
    program.write_text(f"#!/bin/sh\n# {text}\n")
    program.chmod(0o755)
    return str(program)


A_UNIT = Unit("a", "text")


def key_of(tools, arch="x86-64-v3", units=(A_UNIT,), headers=""):
    builder = Builder(tools, None, 1, Path())
    builder.__dict__["_headers"] = headers
    return builder.key(units, arch), builder._digest(arch, units[0].text)


def test_a_change_of_anything_that_a_result_depends_on_is_compiled(tmp_path, monkeypatch):
    for name in _COMPILER_PATHS:
        monkeypatch.delenv(name, raising=False)
    command = fake_compiler(tmp_path / "bin")
    tools = Toolchain((command,), "gcc", "c++ 12.2.0")
    first = key_of(tools)
    assert key_of(tools) == first
    others = {
        "level": key_of(tools, arch="x86-64-v4"),
        "text": key_of(tools, units=(Unit("a", "texts"),)),
        "headers": key_of(tools, headers="other"),
        "version": key_of(replace(tools, version="c++ 12.2.1")),
        "family": key_of(replace(tools, family="clang")),
        "option in the command": key_of(replace(tools, command=(command, "-DX"))),
        "compiler of the same version": key_of(
            replace(tools, command=(fake_compiler(tmp_path / "other", "b"),))
        ),
    }
    for flags in ("compile_flags", "link_flags"):
        with monkeypatch.context() as patch:
            patch.setattr(Toolchain, flags, lambda self, arch: ("-O0",))
            others[flags] = key_of(tools)
    for name in _COMPILER_PATHS:
        with monkeypatch.context() as patch:
            patch.setenv(name, "/somewhere")
            others[name] = key_of(tools)
    for name in ("as", "ld"):
        with monkeypatch.context() as patch:
            own = tmp_path / name
            own.mkdir()
            shutil.copy(command, own / name)
            patch.setenv("PATH", f"{own}:/usr/bin:/bin")
            others[name] = key_of(tools)
    fake_compiler(tmp_path / "bin", "is another one now")
    others["compiler in its place"] = key_of(tools)
    libraries = [first[0], *(library for library, _ in others.values())]
    assert len(set(libraries)) == len(libraries)
    objects = [first[1], *(part for name, (_, part) in others.items() if name != "link_flags")]
    assert len(set(objects)) == len(objects)


def test_units_that_only_run_together_are_other_units():
    tools = Toolchain(("c++",), "gcc", "1")
    apart = key_of(tools, units=(Unit("a", "text"), Unit("b", "")))[0]
    assert apart != key_of(tools, units=(Unit("a", "text\0b\0"),))[0]


def test_headers_that_change_their_text_name_or_place_have_another_digest(tmp_path):
    found = []
    for k, (name, text) in enumerate(
        [("a/x.h", "1"), ("a/x.h", "2"), ("a/y.h", "1"), ("b/x.h", "1")]
    ):
        folder = tmp_path / str(k)
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(text)
        found.append(headers_digest((folder,)))
    assert len(set(found)) == len(found)


def test_builds_at_the_same_time_share_a_cache(tmp_path):
    units = make_units([source_of(f"k{k}", k) for k in range(6)], '"level"')
    cache = cache_of(tmp_path)
    builders = [Builder(find_toolchain(), cache, 2, tmp_path) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        built = list(pool.map(lambda builder: builder.build(units, ONE.archs), builders))
    assert built.count(built[0]) == 4
    assert not list(cache.rglob("*.tmp"))


def test_a_cache_that_is_only_read_serves_what_it_has(tmp_path, monkeypatch):
    units = make_units([source_of("k0", 1)], '"level"')
    builder = Builder(find_toolchain(), cache_of(tmp_path), 1, tmp_path)
    first = builder.build(units, ONE.archs)

    def refuse(*arguments, **options):
        raise PermissionError("read-only file system")

    monkeypatch.setattr(Path, "write_bytes", refuse)
    monkeypatch.setattr(Path, "mkdir", refuse)
    assert builder.build(units, ONE.archs) == first
    other = make_units([source_of("k0", 2)], '"level"')
    with pytest.raises(ToolchainError, match="cannot be kept"):
        builder.build(other, ONE.archs)
