"""The list of passes: named, documented, told of, and each one checked."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from aot import driver
from aot.errors import InternalError
from aot.frontend.capture import capture_module
from aot.ir.loops import LoopGraph
from aot.ir.machine import Machine
from aot.options import BuildOptions, parse_target
from aot.passes import pipeline
from aot.passes.pipeline import PASSES, Loops, Pass
from aot.report.observers import Verify
from aot.report.texts import verify_stage

ROOT = Path(__file__).parents[2]


def test_the_document_lists_them() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = text.partition("### The passes, in order")[2].partition("### ")[0]
    listed = re.findall(r"^\| `([a-z_]+)` \|", table, re.MULTILINE)
    assert listed == [step.name for step in PASSES]
    assert len(set(listed)) == len(listed)


def _broken(loops: Loops, _: Machine) -> Loops:
    def forget_a_writer(part: LoopGraph) -> LoopGraph:
        return replace(part, ops=part.ops[1:])

    return loops.map(forget_a_writer)


@pytest.mark.parametrize("place", [1, 7, len(PASSES)])
def test_a_pass_that_breaks_an_invariant_is_named(
    place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = (*PASSES[:place], Pass("planted", _broken), *PASSES[place:])
    monkeypatch.setattr(pipeline, "PASSES", planted)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Softmax(-1))
    captured = capture_module(model.eval(), (torch.randn(3, 4),), name="small")
    with pytest.raises(InternalError, match="after pass planted for cpu:x86-64-v2: small"):
        options = BuildOptions(targets=(parse_target("cpu:x86-64-v2"),), stop_after="passes")
        driver.build(captured, options, Verify(verify_stage))
