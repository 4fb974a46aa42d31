"""Timelines, names for profilers, and the log, from Python; the timeline of a transformer."""

from __future__ import annotations

import json
import logging
import os
import re
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import aot_runtime
import numpy as np
import pytest
import torch
from aot_runtime.log import emit

from aot import api
from aot.cli import run_command
from tests.conformance.executors import gpu_target
from tests.runtime.make_package import chain_package, gather_package, small_package

SCHEMA = json.loads(Path(__file__).with_name("trace_event_schema.json").read_text("utf-8"))
X = np.ones((6, 8), np.float32)


class Layer(torch.nn.Module):
    """A layer of BERT's kind."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.mix = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)
        self.first = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)
        self.second = torch.nn.LayerNorm(width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        split = (batch, length, 3, self.heads, width // self.heads)
        query, key, value = self.mix(x).view(split).permute(2, 0, 3, 1, 4)
        mixed = torch.nn.functional.scaled_dot_product_attention(query, key, value, mask)
        x = self.first(x + self.out(mixed.transpose(1, 2).reshape(batch, length, width)))
        return self.second(x + self.down(torch.nn.functional.gelu(self.up(x))))


class Encoder(torch.nn.Module):
    """A small encoder of BERT's kind."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(100, 32)
        self.layers = torch.nn.ModuleList(Layer(32, 4) for _ in range(2))

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x, mask[:, None, None, :])
        return x


INPUTS = (torch.arange(24).reshape(2, 12), torch.ones(2, 12, dtype=torch.bool))


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("encoder") / "encoder.pkg"
    api.package(Encoder().eval(), INPUTS, path=path, targets=["cpu:x86-64-v3"])
    return path


def check_schema(document: dict[str, Any]) -> None:
    jsonschema = pytest.importorskip("jsonschema")  # not on every machine with a GPU
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(json.dumps(document)))


def spans(document: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [e for e in document["traceEvents"] if e["ph"] == "X" and e["cat"] == kind]


def check_kernels(document: dict[str, Any], model: aot_runtime.Model, runs: int) -> None:
    """Every launch of the plan is there once a run, under its model's line."""
    kernels = spans(document, "kernel")
    for kernel in kernels:
        assert re.fullmatch(r"\S+\.py:\d+", kernel["args"]["line"])
        assert kernel["name"] == f"{kernel['args']['line']} {kernel['args']['kernel']}"
        assert kernel["args"]["operator"].startswith("aten.")
        assert kernel["args"]["bytes"] > 0
    device = model.device.partition(":")[0]
    (program,) = (p for p in model.plan["programs"] if p["device"] == device)
    counts = Counter(kernel["args"]["step"] for kernel in kernels)
    assert counts == dict.fromkeys(range(len(program["steps"])), runs)


def test_the_timeline_of_a_transformer(encoder: Path, tmp_path: Path) -> None:
    model = aot_runtime.load(encoder, num_threads=2)
    arrays = [value.numpy() for value in INPUTS]
    begin = time.perf_counter_ns()
    with model.trace() as trace:
        for _ in range(2):
            model(*arrays)
    end = time.perf_counter_ns()
    assert trace.dropped == 0
    assert all(begin <= e.begin_ns <= e.end_ns <= end for e in trace.events)
    trace.save(tmp_path / "out.json")
    document = json.loads((tmp_path / "out.json").read_text("utf-8"))
    check_schema(document)
    check_kernels(document, model, 2)
    assert [span["args"]["run"] for span in spans(document, "run")] == [1, 2]
    assert {e["pid"] for e in document["traceEvents"]} == {os.getpid()}
    names = {e["name"]: e["args"]["name"] for e in document["traceEvents"] if e["ph"] == "M"}
    assert names["process_name"] == "aot_runtime on cpu (x86-64-v3)"
    assert names["thread_name"].startswith(("caller ", "worker "))
    model(*arrays)  # untraced again
    assert len(spans(trace.to_json(), "run")) == 2


def test_bench_writes_a_timeline(encoder: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "out.json"
    assert run_command(["bench", str(encoder), "--runs", "2", "--trace", str(out)]) == 0
    document = json.loads(out.read_text("utf-8"))
    check_schema(document)
    check_kernels(document, aot_runtime.load(encoder), 3)
    arguments = ["bench", str(encoder), "--runs", "2", "--trace", str(tmp_path / "no" / "x.json")]
    assert run_command(arguments) == 5
    assert "the timeline cannot be written" in capsys.readouterr().err


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_the_timeline_of_a_transformer_on_a_gpu(tmp_path: Path) -> None:
    path = tmp_path / "encoder.pkg"
    api.package(Encoder().eval(), INPUTS, path=path, targets=[gpu_target()])
    model = aot_runtime.load(path, "cuda")
    arrays = [value.cuda() for value in INPUTS]
    for _ in range(3):
        model(*arrays)
    with model.trace() as trace:
        for _ in range(2):
            model(*arrays)
    document = trace.to_json()
    check_schema(document)
    check_kernels(document, model, 2)
    kernels = [e for e in trace.events if e.kind == "kernel"]
    runs = {e.run: e for e in trace.events if e.kind == "run"}
    assert all(e.on_device for e in kernels)
    # The two clocks agree within what reading them together takes.
    slack = 1_000_000
    assert all(runs[e.run].begin_ns - slack <= e.begin_ns for e in kernels)
    assert all(e.end_ns <= runs[e.run].end_ns + slack for e in kernels)
    launches = {e.flow for e in trace.events if e.kind == "launch"}
    assert {e.flow for e in kernels} <= launches
    assert 0 not in launches


def test_a_failed_call_is_in_the_timeline(tmp_path: Path) -> None:
    model = aot_runtime.load(gather_package().write(tmp_path / "gather.pkg"))
    with model.trace() as trace, pytest.raises(aot_runtime.InvalidArgument):
        model(np.array([99]))
    check_schema(trace.to_json())
    assert [e.kind for e in trace.events][-1] == "run"


def test_calls_of_all_threads_are_in_it_and_room_is_limited(tmp_path: Path) -> None:
    model = aot_runtime.load(small_package().write(tmp_path / "small.pkg"))
    with model.trace() as trace:
        threads = [threading.Thread(target=lambda: model(X)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    check_schema(trace.to_json())
    assert len({e.track for e in trace.events if e.kind == "run"}) == 3
    with model.trace(capacity=2) as short:
        model(X)
    assert len(short.events) == 2
    assert short.dropped > 0
    assert short.to_json()["otherData"]["dropped_events"] == short.dropped


def test_a_model_is_traced_once_at_a_time(tmp_path: Path) -> None:
    model = aot_runtime.load(small_package().write(tmp_path / "small.pkg"))
    with model.trace():
        with pytest.raises(aot_runtime.InvalidArgument, match="traced already"), model.trace():
            pass
        model(X)
    with model.trace() as again:
        model(X)
    assert len([e for e in again.events if e.kind == "run"]) == 1
    with pytest.raises(aot_runtime.InvalidArgument, match="nothing"), model.trace(events=False):
        pass


def test_kernels_have_names_for_perf(encoder: Path) -> None:
    model = aot_runtime.load(encoder)
    path = Path(f"/tmp/perf-{os.getpid()}.map")
    path.unlink(missing_ok=True)
    model.write_perf_map()
    rows = [line.split(" ", 2) for line in path.read_text("utf-8").splitlines()]
    path.unlink()
    kernels = {kernel["name"] for kernel in model.plan["programs"][0]["kernels"]}
    assert {name.split(" ")[0] for *_, name in rows} <= kernels
    mapped = [
        line.split()[0]
        for line in Path("/proc/self/maps").read_text("utf-8").splitlines()
        if "aot-kernels" in line and "x" in line.split()[1]
    ]
    areas = [tuple(int(end, 16) for end in area.split("-")) for area in mapped]
    for begin, size, name in rows:
        first, last = int(begin, 16), int(begin, 16) + int(size, 16)
        assert any(low <= first < last <= high for low, high in areas), name
        assert re.search(r" \(\S+\.py:\d+ aten\.", name)


def test_messages_go_to_logging(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = small_package().write(tmp_path / "small.pkg")
    with caplog.at_level(logging.DEBUG, "aot_runtime"):
        aot_runtime.load(path)(X)
    levels = {record.levelno for record in caplog.records if record.name == "aot_runtime"}
    # The last: nothing proves what kernels of format 1.0 touch.
    assert levels == {logging.DEBUG, logging.INFO, logging.WARNING}
    assert any("package 'small'" in message for message in caplog.messages)
    assert any("temporaries" in message for message in caplog.messages)
    caplog.clear()
    with caplog.at_level(logging.WARNING, "aot_runtime"):
        aot_runtime.load(path)(X)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "aot_runtime"):
        emit(2, "of 100 %")
        emit(9, "of a level to come")
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
    assert caplog.messages[0] == "of 100 %"


def test_a_handler_that_raises_does_not_fail_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise RuntimeError("no room")

    unraisable: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", unraisable.append)
    logger = logging.getLogger("aot_runtime")
    handler = Broken()
    logger.addHandler(handler)
    monkeypatch.setattr(logger, "level", logging.INFO)
    try:
        model = aot_runtime.load(small_package().write(tmp_path / "small.pkg"))
    finally:
        logger.removeHandler(handler)
    assert model(X)["y"].shape == (6, 8)
    assert [str(hook.exc_value) for hook in unraisable] == ["no room"] * len(unraisable)
    assert unraisable


def test_inputs_and_outputs_by_name(tmp_path: Path) -> None:
    model = aot_runtime.load(chain_package().write(tmp_path / "chain.pkg"))
    names = [info.name for info in model.inputs]
    arrays = {
        info.name: np.ones([8 if isinstance(n, str) else n for n in info.shape], info.dtype)
        for info in model.inputs
    }
    found = model.run_named(arrays)
    assert list(found) == [info.name for info in model.outputs]
    for value, expected in zip(found.values(), model.run(list(arrays.values())), strict=True):
        np.testing.assert_array_equal(value, expected)
    with pytest.raises(aot_runtime.InvalidArgument, match="no input 'z'; its inputs: '"):
        model.run_named({**arrays, "z": X})
    del arrays[names[0]]
    with pytest.raises(aot_runtime.InvalidArgument, match=f"input '{names[0]}' is missing"):
        model.run_named(arrays)
