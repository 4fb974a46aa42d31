"""Things made once for all workers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.once import digest_of, files_below, made_once


def test_many_who_ask_at_once_get_one(tmp_path: Path) -> None:
    makes: list[Path] = []

    def make(folder: Path) -> None:
        makes.append(folder)
        (folder / "a").write_text("made")

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: made_once("x", "1", make, tmp_path), range(8)))
    assert len(makes) == 1
    assert {(folder / "a").read_text() for folder in found} == {"made"}


def test_another_digest_makes_it_anew_without_what_was_there(tmp_path: Path) -> None:
    first = made_once("x", "1", lambda folder: (folder / "a").write_text("1"), tmp_path)
    again = made_once("x", "2", lambda folder: (folder / "b").write_text("2"), tmp_path)
    assert first == again
    assert not (again / "a").exists()


def test_what_failed_is_tried_again(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_text("")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        made_once("x", "1", fail, tmp_path)
    made = made_once("x", "1", lambda folder: (folder / "a").write_text("1"), tmp_path)
    assert not (made / "half").exists()


def test_digests_are_of_contents(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("a")
    first = digest_of("x", *files_below(tmp_path))
    file.write_text("b")
    assert digest_of("x", *files_below(tmp_path)) != first
    assert digest_of("ab", "c") != digest_of("a", "bc")
