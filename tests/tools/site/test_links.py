"""Links of documents become those of the site, or paths."""

from __future__ import annotations

import pytest

from tools.site.links import relinked

PAGES = {
    "README.md": "project/readme.md",
    "docs/abi.md": "abi.md",
    "docs/images/a.png": "images/a.png",
}
FILES = {"aot/api.py", "LICENSE", "docs"}


@pytest.mark.parametrize(
    ("path", "text", "wanted"),
    [
        ("README.md", "[x](docs/abi.md#states)", "[x](../abi.md#states)"),
        ("README.md", "![x](docs/images/a.png)", "![x](../images/a.png)"),
        ("docs/abi.md", "[start](../README.md)", "[start](project/readme.md)"),
        ("README.md", "[aot/api.py](aot/api.py)", "`aot/api.py`"),
        ("README.md", "[`aot/api.py`](aot/api.py)", "`aot/api.py`"),
        ("docs/abi.md", "[the call](../aot/api.py)", "the call (`aot/api.py`)"),
        ("README.md", "[all](docs/)", "all (`docs`)"),
        ("README.md", "[x](https://example.org/a)", "[x](https://example.org/a)"),
        ("README.md", "[x](#more)", "[x](#more)"),
        ("README.md", "[x](docs/gone.md)", "[x](docs/gone.md)"),
    ],
)
def test_a_link(path: str, text: str, wanted: str) -> None:
    assert relinked(f"a {text} b", path, PAGES, FILES) == f"a {wanted} b"


def test_code_is_left_alone() -> None:
    code = "```cpp\nauto f = [x](LICENSE) {};\n```"
    assert relinked(code, "README.md", PAGES, FILES) == code
