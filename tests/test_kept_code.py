"""Dataclasses made of code that an earlier command has compiled are as those made anew."""

from __future__ import annotations

import dataclasses
import marshal
from pathlib import Path

import pytest

from aot.kept_code import methods_kept


def make(default: int = 3) -> type:
    """A class whose methods Python writes."""
    fields = [("x", int), ("y", "list[int]", dataclasses.field(default_factory=list))]
    fields.append(("z", int, dataclasses.field(default=default)))
    return dataclasses.make_dataclass("Made", fields, frozen=True, order=True)


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("AOT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "python"


def files(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is compiled from now on."""
    seen: list[str] = []

    def told(text: str, *arguments: object, **more: object) -> object:
        seen.append(text)
        return compile(text, *arguments, **more)  # type: ignore[call-overload]

    monkeypatch.setattr("aot.kept_code.compile", told, raising=False)
    return seen


def test_what_one_command_compiles_the_next_does_not(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    seen = compiled(monkeypatch)
    with methods_kept("part"):
        first = make()
    assert len(seen) > 3
    seen.clear()
    with methods_kept("part"):
        again = make()
    assert not seen
    for made in (first, again):
        assert repr(made(1)) == "Made(x=1, y=[], z=3)" and made(1) == made(1) < made(2)
        assert made.__eq__.__code__ == first.__eq__.__code__
        with pytest.raises(dataclasses.FrozenInstanceError):
            made(1).x = 2


def test_a_default_is_that_of_the_class_not_of_the_text(folder: Path) -> None:
    with methods_kept("part"):
        assert make(default=3)(1).z == 3
    with methods_kept("part"):
        assert make(default=4)(1).z == 4


def test_a_file_is_written_where_something_was_missing(folder: Path) -> None:
    with methods_kept("part"):
        make()
    first = files(folder)
    with methods_kept("part"):
        make()
    with methods_kept("other"):
        pass
    assert files(folder) == first and len(first) == 1
    with methods_kept("part"):
        dataclasses.make_dataclass("Wider", [*"abcdefgh"])
    assert files(folder).keys() == first.keys() and files(folder) != first


@pytest.mark.parametrize("data", [b"", b"neither", marshal.dumps(3), marshal.dumps({})])
def test_what_cannot_be_read_is_made_again(folder: Path, data: bytes) -> None:
    with methods_kept("part"):
        make()
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    path.write_bytes(data)
    with methods_kept("part"):
        assert make()(1).x == 1
    assert path.read_bytes() == whole


def test_a_place_that_cannot_be_written_keeps_nothing(folder: Path) -> None:
    folder.parent.write_text("a file where the folder would be")
    with methods_kept("part"):
        assert make()(1).x == 1


def test_an_import_that_fails_keeps_nothing_and_changes_nothing(folder: Path) -> None:
    with pytest.raises(ImportError), methods_kept("part"):
        make()
        raise ImportError("no torch")
    assert not folder.exists() and not hasattr(dataclasses, "exec")
