"""Every stage's value has a text, and every graph is checked."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from aot_runtime.format.plan_json import plan_from_json, plan_text

from aot import driver
from aot.errors import InternalError
from aot.frontend.capture import capture_module
from aot.options import STAGES, BuildOptions
from aot.passes.pipeline import PASSES
from aot.report.model import PerProgram
from aot.report.observers import Dump, Keep, Several, Verify
from aot.report.summary import kernel_reports
from aot.report.texts import stage_texts, verify_stage
from tests.link.plans import small_plan


class Chain(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x * 2 + 1, dim=-1)


def test_a_dump_shows_every_stage(tmp_path: Path) -> None:
    observers = Several([Dump(tmp_path, stage_texts), Verify(verify_stage)])
    captured = capture_module(Chain(), (torch.randn(4, 6),), name="chain")
    report = driver.build(captured, BuildOptions(output=tmp_path / "chain.pkg"), observers)
    files = sorted(path.name for path in tmp_path.iterdir() if path.suffix not in ("", ".pkg"))
    expected = {stage: "txt" for stage in STAGES} | {"emit": "cc", "assemble": "json"}
    silent = ("build", "write")
    assert files == [
        f"{number:02}_{stage}.{expected[stage]}"
        for number, stage in enumerate(STAGES, 1)
        if stage not in silent
    ]
    assert "aten.softmax" in (tmp_path / "02_ingest.txt").read_text().replace("_softmax", "softmax")
    assert report.programs[0].kernels[0].text.startswith("kernel ")
    assert [t.stage for t in report.timings] == list(STAGES)
    names = [step.name for step in PASSES]
    passes = sorted(path.name for path in (tmp_path / "04_passes").iterdir())
    target = "cpu_x86-64-v2_x86-64-v3_x86-64-v4"
    assert passes == [f"{target}.{k:02}_{name}.txt" for k, name in enumerate(names, 1)]
    texts = [(tmp_path / "04_passes" / name).read_text() for name in passes]
    assert texts[names.index("align_slices")] == "(unchanged)\n"
    assert "exp" in texts[names.index("inline")]
    assert texts[-1] == (tmp_path / "04_passes.txt").read_text()
    assert [[name for name, _ in t.passes] for t in report.timings if t.passes] == [names]
    assert all(seconds >= 0 for t in report.timings for _, seconds in t.passes)


def test_plan_text_is_the_plan() -> None:
    text = plan_text(small_plan())
    assert plan_from_json(json.loads(text)) == small_plan()
    assert len(text.splitlines()) > 20


def test_other_values_have_no_text() -> None:
    assert stage_texts(object()) == {}
    assert stage_texts(3) == {}


@dataclasses.dataclass(frozen=True)
class Function:
    name: str
    text: str
    signature: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Emitted:
    functions: tuple[Function, ...]
    host: tuple[Function, ...] = ()


def test_texts_of_several_programs_have_their_targets() -> None:
    host = Emitted((Function("k0", "int k0;"),))
    device = Emitted((Function("k0", "def k0(): ...", ("*fp32",)),))
    targets = ("cpu:x86-64-v3+x86-64-v4", "cuda:sm_90")
    assert stage_texts(PerProgram(targets, (host, device))) == {
        "cpu_x86-64-v3_x86-64-v4.cc": "// k0\nint k0;",
        "cuda_sm_90.py": "# k0\ndef k0(): ...",
    }
    assert stage_texts(PerProgram(("cpu",), (host,))) == {"cc": "// k0\nint k0;"}
    left = dataclasses.replace(device, host=(Function("host::lu", "void @NAME@();"),))
    assert stage_texts(left)["host.cc"] == "// host::lu\nvoid @NAME@();"


def test_each_program_is_verified() -> None:
    class Linked:
        plan = dataclasses.replace(small_plan(), programs=())

    with pytest.raises(InternalError, match="invariant"):
        verify_stage(PerProgram(("cpu", "cuda:sm_90"), (None, Linked())))


def test_broken_values_are_refused() -> None:
    class Linked:
        plan = dataclasses.replace(small_plan(), programs=())

    with pytest.raises(InternalError, match="invariant"):
        verify_stage(Linked())


def test_kernel_reports_count_a_real_graph() -> None:
    kept = Keep()
    captured = capture_module(Chain(), (torch.randn(4, 6),), name="chain")
    with pytest.raises(driver.Stopped):
        driver.build(captured, BuildOptions(stop_after="fuse"), kept)
    (kernel,) = kernel_reports(kept.values["fuse"][0])
    assert kernel.kind == "reduction"
    assert kernel.nbytes == 2 * 4 * 6 * 4
    assert kernel.flops >= 4 * 6 * 5
