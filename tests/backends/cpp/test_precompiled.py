"""Precompiled headers: they change no byte, are made again when they must be, or done without."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from aot.backends.cpp import build as build_module
from aot.backends.cpp import precompiled
from aot.backends.cpp import toolchain as toolchain_module
from aot.backends.cpp.apart import DECLARED
from aot.backends.cpp.build import Builder, Unit
from aot.backends.cpp.precompiled import EVERY, KEPT, flags_at_hand, header_flags, start
from aot.backends.cpp.toolchain import find_toolchain, headers_digest, include_directories
from aot.errors import CompilerFailed

LEVEL = "x86-64-v2"
KERNEL = Unit(
    "kernels0",
    '#include "aot/kernel/prelude.h"\n'
    'extern "C" void k(const float* x, float* o) {\n'
    "  aot::store(o, aot::exp(aot::load<float, 4>(x)));\n}\n"
    'extern "C" int aot_kernel_library_query() { return 1; }\n',
)

pytestmark = pytest.mark.skipif(
    not find_toolchain().precompiles, reason="the compiler precompiles in another way"
)


def write_header(path: Path, answer: int) -> None:
    lines = ["#ifndef A_H", "#define A_H", f"inline int answer() {{ return {answer}; }}", "#endif"]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture
def small_header(tmp_path, monkeypatch):
    """One short header instead of our own, which take a second."""
    folder = tmp_path / "include"
    every = folder / EVERY
    every.parent.mkdir(parents=True)
    every.write_text('#include "answer.h"\n', encoding="utf-8")
    write_header(folder / "answer.h", 41)
    for module in (precompiled, toolchain_module, build_module):
        monkeypatch.setattr(module, "include_directories", lambda: (folder,))
    return folder / "answer.h"


def made(cache: Path) -> list[Path]:
    return sorted(cache.glob(f"cpp/headers/*/{EVERY}.gch"))


def wait(begun: list[threading.Thread]) -> None:
    for thread in begun:
        thread.join()


def builder(cache: Path | None, keep: Path) -> Builder:
    return Builder(find_toolchain(), cache, 1, keep)


def test_every_header_is_among_those_that_are_precompiled():
    own = include_directories()[0]
    flags = [f"-I{folder}" for folder in include_directories()]
    command = [*find_toolchain().command, *flags, "-march=x86-64-v3", "-std=c++17", "-MM"]
    listed = subprocess.run(
        [*command, "-xc++", own / EVERY], capture_output=True, text=True, check=True
    ).stdout
    # Linear algebra is in few models, and long; calls of the host are in few packages for GPUs.
    own_headers = {p for p in own.rglob("*.h") if p.parent.name not in ("linalg", "host")}
    own_headers.remove(own / DECLARED)  # units decide whether micro-kernels are theirs
    assert [str(path) for path in own_headers if str(path) not in listed] == []


def test_a_library_has_the_same_bytes_with_and_without(tmp_path):
    header_flags(find_toolchain(), LEVEL, tmp_path / "cache")
    assert len(made(tmp_path / "cache")) == 1
    with_headers = builder(tmp_path / "cache", tmp_path).build([KERNEL], [LEVEL])
    assert builder(None, tmp_path).build([KERNEL], [LEVEL]) == with_headers


def test_units_really_use_the_file(tmp_path, small_header):
    flags = header_flags(find_toolchain(), LEVEL, tmp_path)
    compile_flags = find_toolchain().compile_flags(LEVEL)
    assert made(tmp_path)
    # The header's text would not compile now, so what compiles has not read it.
    small_header.write_text("#error read again\n", encoding="utf-8")
    source = tmp_path / "unit.cpp"
    source.write_text("int f() { return answer(); }\n", encoding="utf-8")
    others = [f"-I{folder}" for folder in precompiled.include_directories()]
    command = [*find_toolchain().command, *compile_flags, *flags, *others, "-c", str(source)]
    subprocess.run([*command, "-o", str(tmp_path / "unit.o")], check=True)


def test_a_changed_header_is_precompiled_again_and_the_object_compiled_again(
    tmp_path, small_header
):
    query = 'extern "C" __attribute__((visibility("default"))) int aot_kernel_library_query()'
    unit = Unit("kernels0", f'#include "answer.h"\n{query} {{ return answer(); }}\n')
    header_flags(find_toolchain(), LEVEL, tmp_path)
    first = builder(tmp_path, tmp_path).build([unit], [LEVEL])
    write_header(small_header, 42)
    second = builder(tmp_path, tmp_path).build([unit], [LEVEL])
    header_flags(find_toolchain(), LEVEL, tmp_path)
    assert len(made(tmp_path)) == 2
    assert first != second
    assert builder(None, tmp_path).build([unit], [LEVEL]) == second


def test_other_flags_and_levels_have_files_of_their_own(tmp_path, small_header):
    tools = find_toolchain()
    for level in (LEVEL, "x86-64-v3"):
        header_flags(tools, level, tmp_path)
    header_flags(replace(tools, version="another"), LEVEL, tmp_path)
    assert len(made(tmp_path)) == 3


def test_builds_at_the_same_time_make_a_file_once(tmp_path, small_header, monkeypatch):
    runs = []
    popen = subprocess.Popen

    def counted(command, **options):
        runs.append(command)
        return popen(command, **options)

    monkeypatch.setattr(subprocess, "Popen", counted)
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(header_flags, find_toolchain(), LEVEL, tmp_path) for _ in range(8)]
        flags = {future.result() for future in asked}
    assert len(flags) == 1 and len(runs) == 1
    assert flags.pop()


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path, small_header):
    blocked = tmp_path / "file"
    blocked.write_text("not a directory", encoding="utf-8")
    assert header_flags(find_toolchain(), LEVEL, blocked) == ()


def test_a_cache_that_is_only_read_serves_what_it_has(tmp_path, small_header, monkeypatch):
    flags = header_flags(find_toolchain(), LEVEL, tmp_path)

    def refuse(*arguments, **options):
        raise PermissionError("read-only file system")

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert header_flags(find_toolchain(), LEVEL, tmp_path) == flags != ()
    assert header_flags(find_toolchain(), "x86-64-v3", tmp_path) == ()


def test_headers_that_do_not_compile_leave_the_telling_to_the_unit(tmp_path, small_header):
    small_header.write_text("#error broken\n", encoding="utf-8")
    assert header_flags(find_toolchain(), LEVEL, tmp_path) == ()
    unit = Unit("kernels0", '#include "answer.h"\n')
    with pytest.raises(CompilerFailed, match="broken"):
        builder(tmp_path, tmp_path).build([unit], [LEVEL])


def test_a_dropped_file_is_not_missed(tmp_path):
    tools = find_toolchain()
    flags = header_flags(tools, LEVEL, tmp_path)
    for path in made(tmp_path):
        path.unlink()
    source = tmp_path / "unit.cpp"
    source.write_text(KERNEL.text, encoding="utf-8")
    others = [f"-I{folder}" for folder in include_directories()]
    command = [*tools.command, *tools.compile_flags(LEVEL), *flags, *others, "-c", str(source)]
    subprocess.run([*command, "-o", str(tmp_path / "unit.o")], check=True)


def test_the_files_made_last_are_kept(tmp_path, small_header):
    for k in range(KEPT + 2):
        write_header(small_header, k)
        last = header_flags(find_toolchain(), LEVEL, tmp_path)
    assert len(made(tmp_path)) == KEPT
    assert Path(last[0].removeprefix("-I")) in [path.parents[2] for path in made(tmp_path)]


def test_a_compiler_that_precompiles_in_another_way_gets_no_flags(tmp_path):
    other = replace(find_toolchain(), family="clang")
    assert header_flags(other, LEVEL, tmp_path) == ()
    assert not made(tmp_path)


def test_starting_makes_what_is_missing_and_never_fails(tmp_path, small_header):
    wait(start("no-such-compiler", (LEVEL,), tmp_path, 2))
    assert not made(tmp_path)
    wait(start("", (LEVEL, "x86-64-v3"), tmp_path, 3))
    assert len(made(tmp_path)) == 2


def test_few_units_do_not_wait_and_many_make_the_file(tmp_path, small_header):
    query = '#include "answer.h"\nextern "C" int aot_kernel_library_query() { return answer(); }\n'
    units = [Unit("kernels0", query)]
    built = builder(tmp_path, tmp_path).build(units, [LEVEL])
    assert built and not made(tmp_path)
    more = (f'#include "answer.h"\nint f{k}() {{ return answer() + {k}; }}\n' for k in range(4))
    units += [Unit(f"kernels{k + 1}", text) for k, text in enumerate(more)]
    builder(tmp_path, tmp_path).build(units, [LEVEL])
    assert len(made(tmp_path)) == 1


def test_headers_may_be_kept_where_kernels_are_not(tmp_path, small_header, monkeypatch):
    for module in (precompiled, build_module):
        monkeypatch.setattr(module, "headers_digest", lambda folders: "unchanged")
    header_flags(find_toolchain(), LEVEL, tmp_path)
    # The header's text would not compile now, so what compiles has not read it.
    small_header.write_text("#error read again\n", encoding="utf-8")
    unit = Unit("kernels0", 'extern "C" int aot_kernel_library_query() { return answer(); }\n')
    with pytest.raises(CompilerFailed, match="answer"):
        builder(None, tmp_path).build([unit], [LEVEL])
    assert replace(builder(None, tmp_path), headers=tmp_path).build([unit], [LEVEL])
    assert not list(tmp_path.glob("cpp/??/*"))


def test_headers_are_read_once_for_all_levels(tmp_path, small_header, monkeypatch):
    levels = (LEVEL, "x86-64-v3")
    read = []

    def counted(folders):
        read.append(folders)
        return headers_digest(folders)

    for module in (precompiled, build_module):
        monkeypatch.setattr(module, "headers_digest", counted)
    wait(start("", levels, tmp_path, 3))
    assert len(made(tmp_path)) == 2 and len(read) == 1
    query = '#include "answer.h"\nextern "C" int aot_kernel_library_query() { return answer(); }\n'
    builder(tmp_path, tmp_path).build([Unit("kernels0", query)], levels)
    assert len(made(tmp_path)) == 2 and len(read) == 2


def test_nobody_begins_a_file_while_few_units_do_without(tmp_path, small_header):
    tools = find_toolchain()
    with flags_at_hand(tools, LEVEL, tmp_path) as flags:
        assert flags == ()
        begun = start("", (LEVEL,), tmp_path, 2)
        time.sleep(0.3)
        assert not made(tmp_path)
    wait(begun)
    with flags_at_hand(tools, LEVEL, tmp_path) as flags:
        assert flags == header_flags(tools, LEVEL, tmp_path) != ()


ENDING = """
import sys, time
from pathlib import Path
from aot.backends.cpp.precompiled import start
cache = Path(sys.argv[1])
start("", ("x86-64-v2",), cache, 2)
while not list(cache.glob("cpp/headers/*/aot/kernel/making-*")):
    time.sleep(0.001)
"""


def test_what_is_being_made_when_the_process_ends_leaves_nothing(tmp_path):
    subprocess.run([sys.executable, "-c", ENDING, str(tmp_path)], check=True, timeout=600)
    assert not made(tmp_path)
    assert not list(tmp_path.glob("cpp/headers/*/aot/kernel/making-*"))
