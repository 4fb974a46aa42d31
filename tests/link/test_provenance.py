"""Provenance and bill of materials: what the two formats ask for, and nothing that would differ."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from aot_runtime.format.reader import PackageFile
from click.testing import CliRunner

import aot
from aot.cli import cli
from aot.link.provenance import BOM_ENTRY, SLSA_ENTRY, Tool, bill_of_materials, statement
from tests.trust.packages import FACTS, write, write_old

MODEL = """
import torch
model = torch.nn.Linear(4, 3)
example_inputs = (torch.zeros(2, 4),)
"""
DIGEST = re.compile("[0-9a-f]{64}")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package that the command line has built, beside its model file."""
    folder = tmp_path_factory.mktemp("provenance")
    (folder / "tiny.py").write_text(MODEL)
    path = folder / "tiny.pkg"
    arguments = ["build", str(folder / "tiny.py"), "-o", str(path), "--target", "cpu:x86-64-v2"]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    return path


def documents(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    with PackageFile(path) as file:
        slsa, bom = (json.loads(bytes(file.data(name))) for name in (SLSA_ENTRY, BOM_ENTRY))
        hashes = dict(file.plan.entries)
        subjects = {row["name"]: row["digest"]["sha256"] for row in slsa["subject"]}
        assert {**subjects, SLSA_ENTRY: hashes[SLSA_ENTRY], BOM_ENTRY: hashes[BOM_ENTRY]} == hashes
        assert list(file.damaged()) == []
    return slsa, bom


def test_slsa(built: Path) -> None:
    slsa, _ = documents(built)
    # https://slsa.dev/spec/v1.0/provenance: what is required.
    assert slsa["_type"] == "https://in-toto.io/Statement/v1"
    assert slsa["predicateType"] == "https://slsa.dev/provenance/v1"
    assert slsa["subject"]
    for row in slsa["subject"]:
        assert DIGEST.fullmatch(row["digest"]["sha256"])
    build, run = slsa["predicate"]["buildDefinition"], slsa["predicate"]["runDetails"]
    assert build["buildType"]
    assert build["externalParameters"]["options"]["targets"] == ["cpu:x86-64-v2"]
    source = hashlib.sha256(MODEL.encode()).hexdigest()
    assert build["resolvedDependencies"][0] == {"name": "tiny.py", "digest": {"sha256": source}}
    assert all({"uri", "digest"} & set(row) for row in build["resolvedDependencies"])
    assert run["builder"]["id"]
    assert run["builder"]["version"]["torch"] == torch.__version__.split("+")[0] or (
        run["builder"]["version"]["torch"] == torch.__version__
    )
    assert run["builder"]["version"]["c++"]


def test_bill_of_materials(built: Path) -> None:
    _, bom = documents(built)
    assert (bom["bomFormat"], bom["specVersion"], bom["version"]) == ("CycloneDX", "1.6", 1)
    names = [row["name"] for row in bom["components"]]
    assert any(name.startswith("kernels/cpu/") for name in names)
    assert any(name.startswith(("weights/", "packed/")) for name in names)
    references = [row["bom-ref"] for row in bom["components"]]
    assert len(set(references)) == len(references)
    for row in bom["components"]:
        assert row["type"] in ("file", "data")
        assert row["hashes"][0]["alg"] == "SHA-256"
        assert DIGEST.fullmatch(row["hashes"][0]["content"])
    tools = {tool["name"] for tool in bom["metadata"]["tools"]["components"]}
    assert {"aot-package", "c++", "numpy", "sympy", "torch"} <= tools
    assert bom["metadata"]["component"]["type"] == "machine-learning-model"


def test_equal_builds_give_equal_bytes_elsewhere(built: Path, tmp_path: Path) -> None:
    (tmp_path / "tiny.py").write_text(MODEL.replace("model =", "torch.manual_seed(7)\nmodel ="))
    paths = [tmp_path / "a.pkg", tmp_path / "deeper" / "b.pkg"]
    paths[1].parent.mkdir()
    for path in paths:
        arguments = ["build", str(tmp_path / "tiny.py"), "-o", str(path)]
        result = CliRunner().invoke(cli, [*arguments, "--target", "cpu:x86-64-v2"])
        assert result.exit_code == 0, result.output
    assert paths[0].read_bytes() == paths[1].read_bytes()
    text = paths[0].read_bytes()
    assert str(tmp_path).encode() not in text


def test_a_model_from_python_has_no_file(tmp_path: Path) -> None:
    path = tmp_path / "p.pkg"
    aot.package(torch.nn.Linear(4, 3), (torch.zeros(2, 4),), path=path, targets=("cpu:x86-64-v2",))
    slsa, bom = documents(path)
    rows = slsa["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert not any("digest" in row for row in rows)
    assert "components" not in bom["metadata"]["component"]
    assert "made from a module" in CliRunner().invoke(cli, ["inspect", str(path)]).output


def test_inspect_shows_it(built: Path) -> None:
    text = CliRunner().invoke(cli, ["inspect", "--weights", str(built)]).output
    assert "made from tiny.py: " in text
    assert "not signed" in text
    with PackageFile(built) as file:
        assert f"manifest: {file.header.manifest_sha256}" in text
        assert all(f"sha256 {sha}" in text for n, sha in file.plan.entries if "weight" in n)
    told = json.loads(CliRunner().invoke(cli, ["inspect", "--json", str(built)]).output)
    assert told["provenance"]["predicateType"] == "https://slsa.dev/provenance/v1"
    assert told["bom"]["bomFormat"] == "CycloneDX"
    assert told["manifest"]["entries"]["plan"]
    assert told["signers"] == []


def test_texts_do_not_depend_on_the_order_of_entries(tmp_path: Path) -> None:
    hashes = {"weights/b": "1" * 64, "kernels/cpu/x": "2" * 64, "weights/a": "3" * 64}
    turned = dict(reversed(hashes.items()))
    assert statement(FACTS, hashes) == statement(FACTS, turned)
    assert bill_of_materials(FACTS, hashes) == bill_of_materials(FACTS, turned)
    assert Tool("ptxas", "12.8").purl == ""
    assert write(tmp_path / "a.pkg").read_bytes() == write(tmp_path / "b.pkg").read_bytes()


def test_inspect_of_a_package_without_a_manifest(tmp_path: Path) -> None:
    old = write_old(tmp_path / "old.pkg")
    assert "manifest: none (format 1.0)" in CliRunner().invoke(cli, ["inspect", str(old)]).output
    told = json.loads(CliRunner().invoke(cli, ["inspect", "--json", str(old)]).output)
    assert told["manifest"] is None
    with PackageFile(old) as file:
        assert list(file.damaged()) == []
