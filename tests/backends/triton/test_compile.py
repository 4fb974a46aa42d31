"""Machine code from Triton kernels with no GPU: bytes, metadata, cache and errors."""

from __future__ import annotations

import dataclasses
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from aot.backends.triton import compile as compile_module
from aot.backends.triton import toolchain, workers
from aot.backends.triton.compile import compile_kernels, try_compile
from aot.backends.triton.toolchain import SHARED_LIMIT, find_triton
from aot.errors import KernelRefused, ToolchainMissing
from tests.backends.triton.kernels import add, gather, matmul, row_sum

ELF = b"\x7fELF"


def broken(name="broken"):
    return dataclasses.replace(add(name), text=add(name).text.replace("tl.load(y", "tl.lode(y"))


def test_every_architecture_gets_its_own_code():
    images = {arch: compile_kernels([add()], arch, 1, None)[0] for arch in SHARED_LIMIT}
    for arch, image in images.items():
        assert image.data.startswith(ELF)
        assert (image.name, image.symbol, image.threads) == ("add", "add", 128), arch
        assert (image.shared, image.scratch, image.faults) == (0, 0, False)
    assert len({image.data for image in images.values()}) == len(SHARED_LIMIT)


def test_the_metadata_is_the_kernel_s():
    made = compile_kernels([row_sum(), gather(), matmul()], "sm_90", 2, None)
    rows, gathered, product = made
    assert [image.name for image in made] == ["row_sum", "gather", "matmul"]
    assert rows.shared > 0 and not rows.faults
    assert gathered.faults
    assert product.shared > rows.shared
    wide = dataclasses.replace(add(), options=(("num_warps", 8),))
    assert compile_kernels([wide], "sm_80", 1, None)[0].threads == 256


def test_two_builds_give_the_same_bytes_wherever_they_run(tmp_path, monkeypatch):
    sources = [add(), row_sum(), matmul()]
    first = compile_kernels(sources, "sm_90", 2, None)
    elsewhere = tmp_path / "another folder"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("TMPDIR", str(elsewhere))
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setenv("DISABLE_PTXAS_OPT", "1")
    again = compile_kernels(sources[::-1], "sm_90", 1, None)[::-1]
    assert again == first
    for image in first:
        assert b".py" not in image.data and b"aot-triton" not in image.data
        assert str(Path.home()).encode() not in image.data
    assert list(elsewhere.iterdir()) == []


def test_nothing_is_written_to_the_user_s_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    compile_kernels([add()], "sm_80", 1, None)
    assert list(tmp_path.iterdir()) == []


def test_the_cache_is_used_and_keyed_by_all_that_counts(tmp_path, monkeypatch):
    first = compile_kernels([add(), gather()], "sm_90", 2, tmp_path)

    def refuse(requests, *rest, **more):
        assert not requests, "a compiler was asked although the cache holds the result"
        return []

    monkeypatch.setattr(compile_module, "answer_all", refuse)
    assert compile_kernels([gather(), add()], "sm_90", 2, tmp_path) == first[::-1]
    others = [
        (add("other"), "sm_90"),
        (add(), "sm_80"),
        (dataclasses.replace(add(), options=(("num_warps", 2),)), "sm_90"),
        (dataclasses.replace(add(), signature=("*fp16", "*fp32", "*fp32", "i64")), "sm_90"),
        (dataclasses.replace(add(), text=add().text + "\n"), "sm_90"),
    ]
    for source, arch in others:
        with pytest.raises(AssertionError, match="a compiler was asked"):
            compile_kernels([source], arch, 1, tmp_path)


def test_a_damaged_cache_file_is_made_again(tmp_path):
    first = compile_kernels([add()], "sm_90", 1, tmp_path)
    (kept,) = tmp_path.rglob("*.kernel")
    for damage in (kept.read_bytes()[:-1], b"", b"{}\n"):
        kept.write_bytes(damage)
        assert compile_kernels([add()], "sm_90", 1, tmp_path) == first
    assert kept.read_bytes().endswith(first[0].data)


def test_a_refused_kernel_is_named_with_its_place_and_the_reason():
    places = {"broken": "sum_1 at model.py:12 (aten.sum)"}
    with pytest.raises(KernelRefused) as caught:
        compile_kernels([add(), broken()], "sm_90", 1, None, places)
    text = str(caught.value)
    assert "broken does not compile for sm_90" in text
    assert "model.py:12" in text
    assert "lode" in text
    assert "what to do" in text


def test_the_other_kernels_are_made_in_spite_of_a_failure(tmp_path):
    sources = [broken("b0"), add("a0"), broken("b1"), add("a1")]
    made = try_compile(sources, "sm_90", 1, tmp_path)
    assert [type(m) for m in made[::2]] == [KernelRefused] * 2
    assert [m.name for m in made[1::2]] == ["a0", "a1"]
    assert len(list(tmp_path.rglob("*.kernel"))) == 2


def test_a_signature_of_another_length_is_refused():
    short = dataclasses.replace(add(), signature=("*fp32", "*fp32"))
    with pytest.raises(KernelRefused, match="2 types for parameters x, y, o, n"):
        compile_kernels([short], "sm_90", 1, None)


def test_loops_keep_fewer_stages_in_flight_where_memory_is_scarce():
    deep = matmul(stages=6, tile=128)
    roomy, scarce = (compile_kernels([deep], a, 1, None)[0].shared for a in ("sm_80", "sm_86"))
    assert scarce <= SHARED_LIMIT["sm_86"] < roomy <= SHARED_LIMIT["sm_80"]


def test_a_kernel_that_cannot_fit_is_refused():
    with pytest.raises(KernelRefused, match="bytes of shared memory, sm_86 has 101376"):
        compile_kernels([matmul(tile=128, depth=256)], "sm_86", 1, None)


def test_a_kernel_that_takes_too_long_is_given_up(monkeypatch):
    request = {"name": "k", "text": "while True: pass\n", "signature": [], "options": {}}
    environment = compile_module.compile_environment({})
    (answer,) = workers.answer_all([request], environment, 1, limit_s=2.0)
    assert answer == workers.Failure("the compiler was stopped after 2 s")


def test_a_compiler_that_dies_is_reported_and_replaced():
    environment = compile_module.compile_environment({})
    dies = {"name": "k", "text": "import os\nos.kill(os.getpid(), 9)\n", "signature": []}
    dies["options"] = {}
    fails = dict(dies, text="raise ValueError('no good')\n")
    first, second = workers.answer_all([dies, fails], environment, 1)
    assert first.reason == "the compiler ended: killed by signal 9"
    assert second.reason.endswith("ValueError: no good")


def test_a_compiler_hashes_nothing_of_triton_s():
    text = "import triton\nraise ValueError(f'<{triton.runtime.cache.triton_key()}>')\n"
    request = {"name": "k", "text": text, "signature": [], "options": {}}
    (answer,) = workers.answer_all([request], compile_module.compile_environment({}), 1)
    assert answer.reason.endswith("ValueError: <>")


def test_without_triton_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ToolchainMissing, match=r"pip install 'aot-package\[gpu\]'"):
        compile_kernels([add()], "sm_90", 1, None)


def test_all_backends_load_where_triton_is_not_installed():
    program = (
        "import sys\n"
        "sys.modules['triton'] = None\n"
        "from aot.backends.registry import backend_for\n"
        "from aot.options import parse_target\n"
        "print(backend_for(parse_target('cpu')).name, backend_for(parse_target('cuda:sm_90')).name)"
    )
    root = Path(__file__).parents[3]
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "cpp triton\n"


def test_an_old_triton_is_refused(tmp_path, monkeypatch):
    init = tmp_path / "triton" / "__init__.py"
    init.parent.mkdir()
    init.write_text("__version__ = '3.1.0'\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "triton", raising=False)
    with pytest.raises(ToolchainMissing, match=r"Triton 3\.1\.0 is too old, 3\.6"):
        toolchain.find_triton("sm_90")


RELEASES = {"ptxas": "V12.8.93", "ptxas-blackwell": "V12.9.86"}


@pytest.mark.parametrize(
    ("releases", "older", "newer"),
    [
        (RELEASES, "ptxas-blackwell", "ptxas-blackwell"),
        ({"ptxas": "V12.9.86", "ptxas-blackwell": "V13.4.59"}, "ptxas", "ptxas-blackwell"),
        ({"ptxas": "V12.8.93"}, "ptxas", "ptxas"),
        ({"ptxas-blackwell": "V13.4.59"}, "ptxas-blackwell", "ptxas-blackwell"),
        ({"ptxas": "V12.10.1", "ptxas-blackwell": "V12.9.86"}, "ptxas", "ptxas"),
    ],
)
def test_the_assembler_is_the_newest_that_old_drivers_take(
    releases, older, newer, tmp_path, monkeypatch
):
    folder = tmp_path / "triton" / "backends" / "nvidia" / "bin"
    folder.mkdir(parents=True)
    (tmp_path / "triton" / "__init__.py").write_text("__version__ = '3.6.0'\n")
    for name, release in releases.items():
        program = folder / name
        program.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release x, {release}'\n")
        program.chmod(0o755)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: Found(tmp_path))
    for arch, name in (("sm_80", older), ("sm_90", older), ("sm_100", newer)):
        assert find_triton(arch).assembler == folder / name


class Found:
    """What `find_spec` says of a Triton in a folder."""

    def __init__(self, root):
        self.origin = str(root / "triton" / "__init__.py")
