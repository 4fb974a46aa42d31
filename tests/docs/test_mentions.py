"""What documents name exists: options of commands, variables, codes, names of the interfaces."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator

import pytest
from aot_runtime.errors import BY_CODE

from aot.errors import all_errors
from aot.options import ENVIRONMENT
from tests.blocks import ROOT
from tools.site.commands import helps

GUIDES = [p.relative_to(ROOT).as_posix() for p in sorted((ROOT / "docs/guides").glob("*.md"))]
DOCUMENTS = [
    "README.md",
    "docs/security.md",
    "docs/performance.md",
    "docs/errors.md",
    "docs/abi.md",
    "docs/format.md",
    "docs/architecture.md",
    "docs/custom-operators.md",
    *GUIDES,
]

HELPS = dict(helps())
OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z-]+)")
COMMAND = re.compile(r"\b(aot-package|aot-runtime)(?: ([a-z]+))?\b([^\n`|#;)]*)")
SWITCHES = {"AOT_BUILD_TESTS"}
"""Of CMake."""

CODES = {*BY_CODE, *(error.code for error in all_errors())}
NO_CODES = {"PASSES"}
"""Constants of the compiler that documents name."""


def text_of(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8").replace("\\\n", " ")


def commands(text: str) -> Iterator[tuple[str, str, str]]:
    """(program, command or "", what follows), of every call of ours."""
    for found in COMMAND.finditer(text):
        yield found[1], found[2] or "", found[3]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_options_of_commands_exist(document: str) -> None:
    for program, command, rest in commands(text_of(document)):
        known = HELPS.get(f"{program} {command}") or HELPS.get(f"aot-runtime {command}")
        known = known or HELPS["aot-package build"] + HELPS[program]
        for option in OPTION.findall(rest):
            assert option in OPTION.findall(known), f"{program} {command} has no {option}"


@pytest.mark.parametrize("document", GUIDES)
def test_options_by_themselves_exist(document: str) -> None:
    every = {option for text in HELPS.values() for option in OPTION.findall(text)}
    alone = re.findall(r"`(--[a-z][a-z-]+)", text_of(document))
    assert set(alone) <= every


@pytest.mark.parametrize("document", DOCUMENTS)
def test_variables_and_constants_exist(document: str) -> None:
    headers = "".join(p.read_text("utf-8") for p in (ROOT / "cpp/include/aot").glob("*.h*"))
    for name in set(re.findall(r"\bAOT_[A-Z_]+\b", text_of(document))):
        assert name in ENVIRONMENT or re.search(rf"\b{name}\b", headers) or name in SWITCHES


@pytest.mark.parametrize("document", DOCUMENTS)
def test_codes_exist(document: str) -> None:
    named = set(re.findall(r"`([A-Z][A-Z_]{3,})`", text_of(document)))
    variables = {name for name in named if name.startswith("AOT_")} | set(ENVIRONMENT)
    assert named - variables - NO_CODES <= CODES


@pytest.mark.parametrize("document", DOCUMENTS)
def test_python_names_exist(document: str) -> None:
    for module, name in re.findall(r"\b(aot_runtime|aot)\.([A-Za-z_]\w*)", text_of(document)):
        if (module, name) == ("aot", "hpp"):
            continue
        found = hasattr(importlib.import_module(module), name)
        assert found or importlib.util.find_spec(f"{module}.{name}"), f"{module}.{name}"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_targets_and_modules_exist(document: str) -> None:
    text, makefile = text_of(document), (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"make {target}"
    for module in re.findall(r"python -m ((?:benchmarks|tools|tests|aot)[\w.]*)", text):
        path = ROOT / ("runtime" if module.startswith("aot_runtime") else ".")
        path /= module.replace(".", "/")
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), module
    for script in re.findall(r"python (benchmarks/[\w/]+\.py)", text):
        assert (ROOT / script).is_file(), script


def test_a_name_that_does_not_exist_is_found() -> None:
    assert ("aot-package", "build", " m.py --no-such") in commands(
        "`aot-package build m.py --no-such`"
    )
    assert "--no-such" not in OPTION.findall(HELPS["aot-package build"])
