"""Builds the documentation site: stages its pages, makes those of sources, runs Sphinx.

    python -m tools.site.build build/site

The tree has no copies: `docs/` and the documents elsewhere in `ELSEWHERE` are staged beside the
site, with links as `links.relinked` makes them. Any warning of Sphinx is a failure.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.code_facts import ROOT
from tools.site import commands, headers
from tools.site.links import relinked

ELSEWHERE: Mapping[str, str] = {
    "README.md": "project/readme.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "cpp/README.md": "project/cpp.md",
    "runtime/README.md": "project/runtime.md",
    "examples/README.md": "examples/index.md",
    "benchmarks/growth/README.md": "figures/growth-tool.md",
    "benchmarks/shapes/README.md": "figures/shapes-tool.md",
}
"""Document outside of docs/ -> its place in the site; see also `FOLDERS`."""

FOLDERS: Mapping[str, str] = {
    "benchmarks/results/*.md": "figures/{stem}.md",
    "examples/*/README.md": "examples/{folder}.md",
}
"""Documents outside of docs/ by pattern -> their places in the site."""

OPTIONAL = ("serving", "embeddings", "integrations", "bindings")
"""Pages of docs/ that a list of contents may name before they are there."""

C_HEADERS = ("abi.h", "operator_abi.h", "kernel_abi.h")
CPP_HEADERS = ("aot.hpp", "result.hpp", "tensor.hpp", "operator.hpp")
STAGED = (".md", ".png", ".css")
INCLUDE = "cpp/include/aot"
DECISION = re.compile(r"docs/adr/\d{4}-[^/]*")
LEXERS = {"jsonc": "text", "sh": "bash"}
"""Language of a block -> what Pygments calls it, where it has another name."""


def pages(root: Path) -> dict[str, str]:
    """Path in the repository -> path in the site, of every page and image that is staged."""
    inside = [p for p in (root / "docs").rglob("*") if p.suffix in STAGED]
    found = {
        p.relative_to(root).as_posix(): p.relative_to(root / "docs").as_posix() for p in inside
    }
    found |= {path: place for path, place in ELSEWHERE.items() if (root / path).is_file()}
    for pattern, place in FOLDERS.items():
        for path in sorted(root.glob(pattern)):
            name = place.format(stem=path.stem, folder=path.parent.name)
            found[path.relative_to(root).as_posix()] = name
    return found


def staged(text: str, path: str, known: Mapping[str, str], root: Path) -> str:
    """A document as Sphinx is given it.

    Args:
        text: The document.
        path: Its path in the repository.
        known: As `pages` gives it.
        root: The repository.
    """
    folders = {parent.as_posix() for page in known for parent in Path(page).parents}
    files = folders | {p for p in _targets(text, path) if (root / p).exists()}
    made = relinked(text, path, known, files)
    made = re.sub(r"(?m)^```(\w+)(?: \S+)?$", lambda m: f"```{LEXERS.get(m[1], m[1])}", made)
    missing = [name for name in OPTIONAL if not (root / "docs" / f"{name}.md").exists()]
    made = re.sub(rf"(?m)^(?:{'|'.join(missing)})\n", "", made) if missing else made
    # Their page lists them: links to all, beside every page, took a quarter of the build.
    return f"---\norphan: true\n---\n\n{made}" if DECISION.fullmatch(path) else made


def _targets(text: str, path: str) -> set[str]:
    """The paths in the repository that a document's links lead to."""
    found = re.findall(r"\]\(([^)#:\s]+)", text)
    whole = ((ROOT / path).parent / target for target in found)
    return {
        p.resolve().relative_to(ROOT).as_posix() for p in whole if p.resolve().is_relative_to(ROOT)
    }


def made_pages(root: Path) -> dict[str, str]:
    """Path in the site -> text, of the pages that are made of sources."""

    def read(names: Sequence[str]) -> list[tuple[str, str]]:
        paths = [f"{INCLUDE}/{name}" for name in names]
        return [(path, (root / path).read_text(encoding="utf-8")) for path in paths]

    return {
        "reference/c.md": headers.markdown("C interface", "c", read(C_HEADERS)),
        "reference/cpp.md": headers.markdown("C++ interface", "cpp", read(CPP_HEADERS)),
        "reference/commands.md": commands.page(),
    }


def stage(root: Path, folder: Path) -> None:
    """Write all that Sphinx reads below the folder, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    known = pages(root)
    for path, place in known.items():
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.suffix == ".md":
            text = (root / path).read_text(encoding="utf-8")
            target.write_text(staged(text, path, known, root), encoding="utf-8")
        else:
            shutil.copyfile(root / path, target)
    for place, text in made_pages(root).items():
        (folder / place).write_text(text, encoding="utf-8")
    shutil.copyfile(root / "docs" / "conf.py", folder / "conf.py")


def main(arguments: Sequence[str]) -> int:
    """Build the site into the folder that is given; Sphinx's exit code."""
    out = Path(arguments[0]) if arguments else ROOT / "build" / "site"
    source = out.with_name(out.name + "-source")
    stage(ROOT, source)
    shutil.rmtree(out, ignore_errors=True)
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-n", "-q"]
    return subprocess.run([*command, str(source), str(out)], check=False, cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
