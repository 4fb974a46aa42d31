"""Where a package comes from, in the two formats that tools read.

They are entries like any other, so the manifest covers them and whoever signs it signs them.

`provenance/slsa.json` is SLSA provenance v1 as an in-toto statement; `provenance/bom.json` a
CycloneDX bill of materials. Equal builds give equal texts: neither holds times, paths or names of
machines.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aot_runtime.format.container import BOM_ENTRY, FILES_GROUP, SLSA_ENTRY, WEIGHT_GROUPS

from aot.link.package import Document
from aot.version import VERSION

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "urn:aot-package:build:v1"
BUILDER = "urn:aot-package:builder"
BOM_VERSION = "1.6"

_FILE_GROUPS = ("kernels/", "operators/", FILES_GROUP)
_PYTHON_PACKAGES = ("numpy", "sympy", "torch", "triton")


@dataclass(frozen=True)
class Tool:
    """What took part in a build: a Python package, or a compiler with what it says of itself."""

    name: str
    version: str

    @property
    def purl(self) -> str:
        """Its package URL, "" for what is no package of Python."""
        return f"pkg:pypi/{self.name}@{self.version}" if self.name in _PYTHON_PACKAGES else ""


@dataclass(frozen=True)
class BuildFacts:
    """What is known of a build.

    Attributes:
        model: The model's short name.
        source: Name and SHA-256 of the model's file; None for a model that came from Python.
        tools: Compilers and libraries.
        options: What was asked for.
    """

    model: str
    source: tuple[str, str] | None
    tools: tuple[Tool, ...]
    options: Mapping[str, Any]


def provenance_documents(facts: BuildFacts) -> tuple[Document, ...]:
    """The entries that tell of a build, complete when the others' hashes are known."""
    return (
        Document(SLSA_ENTRY, lambda hashes: _text(statement(facts, hashes))),
        Document(BOM_ENTRY, lambda hashes: _text(bill_of_materials(facts, hashes))),
    )


def statement(facts: BuildFacts, hashes: Mapping[str, str]) -> dict[str, Any]:
    """The in-toto statement with SLSA provenance about these entries."""
    return {
        "_type": STATEMENT_TYPE,
        "subject": [
            {"name": name, "digest": {"sha256": sha256}} for name, sha256 in sorted(hashes.items())
        ],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"model": facts.model, "options": dict(facts.options)},
                "internalParameters": {},
                "resolvedDependencies": _dependencies(facts),
            },
            "runDetails": {
                "builder": {
                    "id": BUILDER,
                    "version": {
                        "aot-package": VERSION,
                        **{tool.name: tool.version for tool in facts.tools},
                    },
                },
            },
        },
    }


def _dependencies(facts: BuildFacts) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if facts.source is not None:
        name, sha256 = facts.source
        found.append({"name": name, "digest": {"sha256": sha256}})
    found += [{"name": tool.name, "uri": tool.purl} for tool in facts.tools if tool.purl]
    return found


def bill_of_materials(facts: BuildFacts, hashes: Mapping[str, str]) -> dict[str, Any]:
    """The CycloneDX bill: the model, what made it, its code, files and weights."""
    tools = [Tool("aot-package", VERSION), *facts.tools]
    return {
        "$schema": f"http://cyclonedx.org/schema/bom-{BOM_VERSION}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": BOM_VERSION,
        "version": 1,
        "metadata": {
            "tools": {"components": [_tool_json(tool) for tool in tools]},
            "component": {
                "type": "machine-learning-model",
                "bom-ref": "model",
                "name": facts.model,
                **({} if facts.source is None else {"components": [_source_json(facts.source)]}),
            },
        },
        "components": [
            _entry_json(name, sha256)
            for name, sha256 in sorted(hashes.items())
            if name.startswith((*_FILE_GROUPS, *WEIGHT_GROUPS))
        ],
    }


def _tool_json(tool: Tool) -> dict[str, Any]:
    made = {"type": "application", "name": tool.name, "version": tool.version}
    return {**made, "type": "library", "purl": tool.purl} if tool.purl else made


def _source_json(source: tuple[str, str]) -> dict[str, Any]:
    name, sha256 = source
    return {"type": "file", "bom-ref": "source", "name": name, "hashes": _hashes_json(sha256)}


def _entry_json(name: str, sha256: str) -> dict[str, Any]:
    kind = "file" if name.startswith(_FILE_GROUPS) else "data"
    return {"type": kind, "bom-ref": name, "name": name, "hashes": _hashes_json(sha256)}


def _hashes_json(sha256: str) -> list[dict[str, str]]:
    return [{"alg": "SHA-256", "content": sha256}]


def _text(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def tools_of(lists: Sequence[Sequence[tuple[str, str]]]) -> tuple[Tool, ...]:
    """Tools that several backends used, each once, sorted."""
    return tuple(Tool(*pair) for pair in sorted({pair for one in lists for pair in one}))
