"""What a service of large models is told to cost: results are looked at, memory is seen."""

import mmap

import aot_runtime
import numpy as np
import pytest

from benchmarks.scale.serve import memory, soak
from tests.runtime.make_package import small_package


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> aot_runtime.Model:
    path = small_package(width=64, most=None).write(tmp_path_factory.mktemp("p") / "m.pkg")
    return aot_runtime.load(path)


def test_memory_is_seen_before_and_after_each_tenth(model: aot_runtime.Model) -> None:
    seen = soak(model, [np.ones((2, 64), "f4")], runs=80, threads=4)
    assert len(seen) == 11
    assert all(0 < each["anonymous"] <= each["greatest"] for each in seen)


def test_pages_that_are_written_are_anonymous() -> None:
    before = memory()["anonymous"]
    # Pages that nobody has had before: an allocator may have some left.
    kept = mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    kept.write(b"1" * len(kept))
    assert memory()["anonymous"] - before > 7
    kept.close()


def test_a_wrong_result_is_told(model: aot_runtime.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "run", lambda _: [np.zeros(1, "f4")] * 2)
    with pytest.raises(AssertionError, match="gave other results"):
        soak(model, [np.ones((2, 64), "f4")], runs=10, threads=1)
