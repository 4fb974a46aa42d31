"""Timelines: what a model's calls did when, for Perfetto and Chrome's chrome://tracing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, NamedTuple

from . import _native


class TraceEvent(NamedTuple):
    """A span of a timeline: see `aot_trace_event` in aot/abi.h.

    Times are those of `time.perf_counter_ns()`, also of what a GPU did.
    """

    kind: str
    """"run", "prepare", "kernel", "chunk", "call", "control", "copy", "wait" or "launch"."""
    name: str
    what: str
    """Of a copy: "input", "output", "state", "step" or "read"; of a wait: "session", "device"."""
    origin: str
    """The model's line and operator: "model.py:12 aten.add.Tensor", or ""."""
    on_device: bool
    track: int
    """The thread (`threading.get_native_id()`), or the stream."""
    begin_ns: int
    end_ns: int
    run: int
    """Counts the trace's calls, from 1."""
    step: int | None
    worker: int
    bytes: int | None
    flow: int
    """The same in a "launch" and in what the device made of it; 0: none."""


class Trace:
    """A timeline of a model's calls, made by `Model.trace()`; events are there when it has ended.

    >>> with model.trace() as trace:
    ...     model(x)
    >>> trace.save("out.json")  # open it in https://ui.perfetto.dev
    """

    def __init__(
        self, session: _native.Session, place: str, capacity: int, nvtx: bool, events: bool
    ) -> None:
        self._session = session
        self._place = place
        self._options = (capacity, nvtx, events)
        self.events: list[TraceEvent] = []
        """What happened, in the order of the ends."""
        self.dropped = 0
        """Events for which there was no room."""

    def __enter__(self) -> Trace:
        """Begins to trace the session's calls, those of other threads too."""
        self._session.trace_begin(*self._options)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Ends the trace, after a call in progress."""
        self.dropped, rows = self._session.trace_end()
        self.events = [TraceEvent(*row) for row in rows]

    def to_json(self) -> dict[str, Any]:
        """The timeline in the trace-event format that Perfetto and Chrome read."""
        process = os.getpid()
        return {
            "traceEvents": [
                *_metadata(self.events, self._place, process),
                *(record for event in self.events for record in _records(event, process)),
            ],
            "displayTimeUnit": "ns",
            "otherData": {"place": self._place, "dropped_events": self.dropped},
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes `to_json()` to a file."""
        with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123 - pathlib loads slowly
            json.dump(self.to_json(), file)


def _process(event: TraceEvent, process: int) -> int:
    """The host's process, or one that stands for the device: no process has the number 0."""
    return 0 if event.on_device else process


def _metadata(events: Iterable[TraceEvent], place: str, process: int) -> Iterator[dict[str, Any]]:
    """Names of processes and threads."""
    tracks: dict[tuple[int, int], str] = {}
    for event in events:
        key = (_process(event, process), event.track)
        if event.on_device:
            tracks[key] = f"stream {event.track:#x}"
        elif event.kind == "chunk" and event.worker > 0:
            tracks.setdefault(key, f"worker {event.worker}")
        elif event.kind != "chunk":
            tracks[key] = f"caller {event.track}"
    names = {key[0]: place if key[0] == 0 else f"aot_runtime on {place}" for key in tracks}
    for number, name in names.items():
        yield _name("process_name", name, number, 0)
    for (number, track), name in tracks.items():
        yield _name("thread_name", name, number, track)


def _name(what: str, name: str, process: int, track: int) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": process, "tid": track, "args": {"name": name}}


def _records(event: TraceEvent, process: int) -> Iterator[dict[str, Any]]:
    """A span, and where it has to do with the device, one end of the arrow between the two."""
    line, _, operator = event.origin.partition(" ")
    place = {"pid": _process(event, process), "tid": event.track}
    start = event.begin_ns / 1000
    arguments = {
        "kernel": event.name if event.kind in {"kernel", "chunk"} else None,
        "line": line or None,
        "operator": operator or None,
        "what": event.what or None,
        "step": event.step,
        "bytes": event.bytes,
        "run": event.run,
    }
    yield {
        "name": _title(event, line),
        "cat": event.kind,
        "ph": "X",
        "ts": start,
        "dur": (event.end_ns - event.begin_ns) / 1000,
        **place,
        "args": {key: value for key, value in arguments.items() if value is not None},
    }
    if event.flow:
        arrow = {"name": "launch", "cat": "launch", "id": event.flow, "ts": start, **place}
        yield {**arrow, "ph": "f", "bp": "e"} if event.on_device else {**arrow, "ph": "s"}


def _title(event: TraceEvent, line: str) -> str:
    """What the span is called: the model's line and the kernel, or what is copied or waited for."""
    if event.kind in {"copy", "wait"}:
        return f"{event.kind} {event.what} {event.name if event.kind == 'copy' else ''}".strip()
    named = f"{line} {event.name}" if line else event.name
    return f"launch {named}" if event.kind == "launch" else named
