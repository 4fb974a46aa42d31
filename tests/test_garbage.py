"""The collector of circular garbage: seldom asked, and never about what stays."""

from __future__ import annotations

import gc
import weakref

import pytest

from aot import garbage


@pytest.fixture(autouse=True)
def _collector_as_it_was():
    thresholds, frozen = gc.get_threshold(), gc.get_freeze_count()
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()
    if frozen:
        gc.freeze()  # as tests/conftest.py wants it
    gc.enable()


class Circle:
    def __init__(self) -> None:
        self.itself = self


def test_circles_are_still_found():
    garbage.search_seldom()
    assert gc.isenabled()
    seen = weakref.ref(Circle())
    circles = [Circle() for _ in range(10 * gc.get_threshold()[0])]
    assert len(circles) > 0 and seen() is None


def test_what_is_made_within_is_kept_out_of_searches():
    with garbage.kept_for_good():
        assert not gc.isenabled()
        held = Circle()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
    assert not any(found is held for found in gc.get_objects())


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    with garbage.kept_for_good():
        pass
    assert not gc.isenabled()


def test_an_import_that_fails_leaves_the_collector_on():
    with pytest.raises(ImportError), garbage.kept_for_good():
        raise ImportError("no torch")
    assert gc.isenabled()
