"""Runs emitted Triton kernels on NumPy arrays through Triton's interpreter: no GPU needed."""

from __future__ import annotations

import atexit
import pickle
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from aot.backends.base import EmittedGraph
from aot.ir.flow import slices_of
from aot.ir.interpreter_flow import FlowRun
from aot.ir.kernels import ModelKernel, launched
from aot.ir.tensors import RANDOM_STATE
from aot.options import compile_environment
from aot.symbolic import as_expr, dim, evaluate
from tests.launches import grid_of

_PROGRAM = Path(__file__).with_name("interpreter_worker.py")
_POISON = 0x55


class Failed(AssertionError):
    """The interpreter refused a kernel, or died on it."""


class Interpreter:
    """A process that stays alive between launches, because starting it takes longer than most."""

    def __init__(self) -> None:
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115  `close` does
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(_PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env=compile_environment(
                {
                    "TRITON_INTERPRET": "1",
                    "TRITON_FRONT_END_DEBUGGING": "1",
                    "OMP_NUM_THREADS": "1",
                    "OPENBLAS_NUM_THREADS": "1",
                }
            ),
        )

    def run(self, request):
        """The buffers after all launches, and the fault flag."""
        try:
            pickle.dump(request, self._process.stdin)
            self._process.stdin.flush()
            answer = pickle.load(self._process.stdout)
        except (BrokenPipeError, EOFError) as error:
            raise Failed(self._last_words()) from error
        if answer[0] == "failed":
            raise Failed(answer[1])
        return answer[1:]

    def _last_words(self) -> str:
        status = self._process.wait()
        self._said.seek(0)
        text = self._said.read()[-4000:]
        interpreter.cache_clear()
        return f"the interpreter ended with status {status}\n{text}"

    def close(self) -> None:
        """Ends the process."""
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._said.close()


@cache
def interpreter() -> Interpreter:
    """The process of this test run."""
    made = Interpreter()
    atexit.register(made.close)
    return made


def run_emitted(emitted: EmittedGraph, inputs, weights, dims, in_place=()):
    """Outputs of a graph by its Triton kernels, and the fault flag.

    `inputs`: arrays by buffer name; `weights(fqn)`: an array; `dims`: sizes by name; `in_place`:
    pairs (result, dead input) that share memory.
    """
    graph = emitted.graph
    symbols = {dim(name): value for name, value in dims.items()}
    names = list(graph.buffers)
    shared = dict(in_place)

    def allocate(name):
        buffer = graph.buffers[name]
        value = weights(buffer.fqn) if _is_stored(buffer) else inputs.get(name)
        return _allocate(buffer, symbols, value)[0]

    memory, number = _placed(names, shared, allocate)
    before = {n: memory[number[n]].tobytes() for n in names if _is_constant(graph.buffers[n])}
    after, fault = _launch(emitted, emitted.launches, memory, number, symbols)
    for name, content in before.items():
        if name not in shared.values():
            assert after[number[name]] == content, f"{name} is read-only, and was written"
    results = []
    for name in graph.outputs:
        content = np.frombuffer(bytearray(after[number[name]]), np.uint8)
        results.append(np.array(_view(graph.buffers[name], symbols, content), order="C"))
    return results, fault


def run_flow(emitted: EmittedGraph, inputs, weights, dims, in_place=()):
    """As `run_emitted`, for a graph with control flow: each straight part by itself."""
    graph = emitted.graph
    shared, slices = dict(in_place), slices_of(graph.flow)
    sizes, faults = dict(dims), []
    arrays = dict(inputs)
    arrays.update((b.name, weights(b.fqn)) for b in graph.buffers.values() if _is_stored(b))

    def part(span):
        symbols = {dim(name): value for name, value in sizes.items()}
        kernels = graph.kernels[span.first :][: span.count]
        launches = [launch for _, launch in launched(kernels, emitted.launches)]
        for kernel in kernels:
            changed = kernel.call.changed if isinstance(kernel, ModelKernel) else ()
            for name in set(kernel.writes).difference(slices, changed):
                arrays.pop(name, None)  # of an earlier turn of a loop, perhaps of other sizes
        names = list(dict.fromkeys(name for launch in launches for name in launch.buffers))

        def held(name):
            content = arrays.get(name, arrays.get(shared.get(name)))
            return _allocate(graph.buffers[name], symbols, content)[0]

        memory, number = _placed(names, shared, held)
        after, fault = _launch(emitted, launches, memory, number, symbols)
        faults.append(fault)
        for name in names:
            content = after[number[name]]
            if _is_constant(graph.buffers[name]):
                continue
            view = _view(graph.buffers[name], symbols, np.frombuffer(bytearray(content), np.uint8))
            if name in slices:
                arrays[name][...] = view
            else:
                arrays[name] = view

    def allocate(name):
        buffer = graph.buffers[name]
        return _allocate(buffer, {dim(n): value for n, value in sizes.items()}, None)[1]

    FlowRun(arrays, sizes, part, allocate).run(graph.flow)
    return [np.array(arrays[name], order="C") for name in graph.outputs], max(faults, default=0)


def _is_stored(buffer):
    """Weights, and states with their first values; random numbers begin as they like."""
    return buffer.kind in ("weight", "state") and buffer.fqn != RANDOM_STATE


def _launch(emitted, launches, memory, number, symbols):
    """The contents of the memory after the launches, and the fault flag."""
    request = {
        "functions": {f.name: (f.text, f.signature) for f in emitted.functions},
        "buffers": [m.tobytes() for m in memory],
        "launches": [
            (
                launch.function,
                [number[b] for b in launch.buffers],
                [int(evaluate(as_expr(e), symbols)) for e in launch.sizes],
                tuple(int(evaluate(as_expr(e), symbols)) for e in grid_of(launch)),
            )
            for launch in launches
            if evaluate(launch.when, symbols)
        ],
    }
    return interpreter().run(request)


def _placed(names, shared, allocate):
    """Memory, and which of it each buffer has: those that share memory have the first one's."""
    memory: list[np.ndarray] = []
    number: dict[str, int] = {}
    held: dict[str, int] = {}
    for name in names:
        owner, made = _owner(name, shared), allocate(name)
        if owner in held and len(memory[held[owner]]) >= len(made):
            number[name] = held[owner]
            continue
        number[name] = len(memory)
        held.setdefault(owner, number[name])
        memory.append(made)
    return memory, number


def _owner(name, shared):
    while name in shared:
        name = shared[name]
    return name


def _is_constant(buffer) -> bool:
    return buffer.kind in ("input", "weight")


def _layout(buffer, symbols):
    shape = tuple(int(evaluate(as_expr(e), symbols)) for e in buffer.shape)
    strides = tuple(int(evaluate(as_expr(e), symbols)) for e in buffer.strides)
    return shape, strides


def _allocate(buffer, symbols, value):
    """Memory of the buffer, as bytes, with `value` in it or poison; and a view of it."""
    shape, strides = _layout(buffer, symbols)
    elements = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    if 0 in shape:
        elements = 1
    memory = np.full(elements * buffer.dtype.itemsize, _POISON, np.uint8)
    view = _view(buffer, symbols, memory)
    if value is not None:
        view[...] = np.asarray(value).reshape(shape)
    return memory, view


def _view(buffer, symbols, memory):
    shape, strides = _layout(buffer, symbols)
    elements = memory[: len(memory) // buffer.dtype.itemsize * buffer.dtype.itemsize]
    # By integers of the size: NumPy makes views by names of types, of which one float8 has none.
    kind = f"u{buffer.dtype.itemsize}"
    steps = tuple(s * buffer.dtype.itemsize for s in strides)
    strided = np.lib.stride_tricks.as_strided(elements.view(kind), shape, steps)
    return strided.view(buffer.dtype.numpy)
