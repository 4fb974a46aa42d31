"""Words: names of types that two modules define with different meanings."""

from pathlib import Path

from tools.words import FORMS, doubled_names, unused_forms


def test_every_name_of_ours_has_one_meaning() -> None:
    assert doubled_names() == []


def test_every_form_that_is_listed_exists_twice() -> None:
    assert unused_forms() == []


def test_a_name_of_two_meanings_is_told_of(tmp_path: Path) -> None:
    for module, text in {
        "aot/a": "class Walk:\n    pass\n",
        "aot/b": "Walk = int\n",
    }.items():
        _write(tmp_path, module, text)
    assert doubled_names(tmp_path) == ["Walk: aot/a.py:1, aot/b.py:1"]


def test_repeated_aliases_forms_and_twins_of_backends_are_one_idea(tmp_path: Path) -> None:
    form = next(iter(FORMS))
    for module, text in {
        "aot/a": f"Shape = tuple[int, ...]\nclass {form}:\n    pass\n",
        "aot/b": f"Shape = tuple[int, ...]\nclass {form}:\n    pass\n",
        "aot/backends/cpp/body": "class Body:\n    pass\n",
        "aot/backends/triton/body": "class Body:\n    pass\n",
    }.items():
        _write(tmp_path, module, text)
    assert doubled_names(tmp_path) == []
    assert form not in unused_forms(tmp_path)


def test_a_backend_that_defines_a_name_twice_is_told_of(tmp_path: Path) -> None:
    for module in ("aot/backends/cpp/a", "aot/backends/cpp/b", "aot/backends/triton/a"):
        _write(tmp_path, module, "class Walk:\n    pass\n")
    assert len(doubled_names(tmp_path)) == 1


def _write(root: Path, module: str, text: str) -> None:
    path = root / f"{module}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
