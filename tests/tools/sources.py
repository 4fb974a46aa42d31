"""Small trees of sources, for tests of what looks at ours."""

from dataclasses import replace
from pathlib import Path

from tools.code_facts import PythonFile, read_python


def planted(tmp_path: Path, where: str, text: str) -> PythonFile:
    """What is counted in a file of that text, as if it stood there."""
    source = tmp_path / "planted.py"
    source.write_text(text)
    return replace(read_python(source), path=Path(where))


def write_sources(root: Path, **texts: str) -> None:
    (root / "aot").mkdir()
    for name, text in texts.items():
        (root / "aot" / f"{name}.py").write_text(text)
