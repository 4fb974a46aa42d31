"""Runs emitted kernels through ctypes, on NumPy arrays, for ISA levels of this machine."""

from __future__ import annotations

import ctypes
import itertools
import subprocess
import tempfile
import zlib
from functools import cache
from pathlib import Path

import numpy as np

from aot.backends.base import EmittedGraph
from aot.backends.cpp.backend import CppBackend
from aot.backends.cpp.build import make_units
from aot.backends.cpp.precompiled import header_flags
from aot.backends.cpp.toolchain import find_toolchain, include_directories
from aot.ir.dtypes import DType
from aot.ir.interpreter import interpret_kernels
from aot.ir.kernels import Kernel, KernelGraph, NestKernel, Stage, Strip
from aot.ir.nests import Axis, Buffer, LoopNest, Store
from aot.ir.origin import NO_ORIGIN
from aot.ir.scalar import Node, load
from aot.ir.tensors import Dim, Signature, Tree
from aot.options import CPU_LEVELS, BuildOptions, Target, default_cache_dir, environment
from aot.symbolic import Expr, as_expr, dim, evaluate, row_major_strides, var
from tests.backends.emitting import emit
from tests.launches import units_of
from tests.sampling import turn
from tests.settings import SETTINGS

_FLAGS = {"x86-64-v2": "sse4_2", "x86-64-v3": "avx2", "x86-64-v4": "avx512dq"}


class _Args(ctypes.Structure):
    _fields_ = [
        ("buffers", ctypes.POINTER(ctypes.c_void_p)),
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("scratch", ctypes.c_void_p),
        ("fault", ctypes.POINTER(ctypes.c_int32)),
    ]


GUARD = 1 << 14
"""Bytes behind the scratch of a kernel, which it must leave alone."""

_FN = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Args), ctypes.c_int64, ctypes.c_int64)


class _Entry(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("run", _FN)]


class _Library(ctypes.Structure):
    _fields_ = [
        ("abi_version", ctypes.c_uint32),
        ("kernel_count", ctypes.c_uint32),
        ("isa", ctypes.c_char_p),
        ("kernels", ctypes.POINTER(_Entry)),
    ]


@cache
def machine_levels():
    """The ISA levels that this machine runs."""
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("flags", 1)[1].split("\n")[0]
    return tuple(level for level in CPU_LEVELS if f" {_FLAGS[level]}" in flags)


_LOOKED_AT = 4
"""Of so many programs the compiler looks at one for levels that the machine does not run."""


class Program:
    """A kernel graph compiled for a level that this machine runs: for all of them with `--sweeps`.

    Which one is decided by the kernels' text, so programs take turns. For levels that the machine
    does not run the compiler looks at the text of some programs (`--sweeps`: of all), all that it
    instantiates included, and makes no code of it, which would take most of the time.

    Attributes:
        levels: Those that it can be run on.
    """

    def __init__(self, graph: KernelGraph, compiler: str = "", levels=CPU_LEVELS) -> None:
        self.graph = graph
        backend = CppBackend()
        self.emitted = emit(backend, graph, Target("cpu", tuple(levels)))
        # With the cache, for its precompiled headers.
        cache = default_cache_dir(environment())
        options = BuildOptions(jobs=2, compiler=compiler, cache_dir=cache)
        text = "".join(function.text for function in self.emitted.functions)
        run, others = in_turn(text, levels)
        self.levels = run
        self.binaries = backend.compile(self.emitted, Target("cpu", run), options)
        self._tables = {b.arch: self._load(b.data) for b in self.binaries}
        for level in others:
            _look_at(self.emitted, level, options)

    def _load(self, data):
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(data)
            file.flush()
            self._handle = ctypes.CDLL(file.name)
        query = self._handle.aot_kernel_library_query
        query.restype, query.argtypes = ctypes.POINTER(_Library), [ctypes.c_uint32]
        assert not query(99)
        library = query(1).contents
        entries = [library.kernels[k] for k in range(library.kernel_count)]
        return {e.name.decode(): e.run for e in entries}

    def run(self, level, inputs, dims):
        """Outputs of the graph by the kernels of one level; also the fault flag."""
        symbols = {dim(k): v for k, v in dims.items()}
        arrays, fault = {}, ctypes.c_int32(0)
        for name, buffer in self.graph.buffers.items():
            arrays[name] = _strided(buffer, symbols, inputs.get(name))
        for weight in self.emitted.graph.derived:
            sources = [inputs[source] for source in weight.sources]
            recipe = CppBackend().recipes()[weight.recipe]
            packed = recipe.whole(*sources, **dict(weight.params))
            buffer = self.emitted.graph.buffers[weight.name]
            assert packed.shape == tuple(int(n) for n in buffer.shape)
            arrays[weight.name] = packed
        for launch in self.emitted.launches:
            over = units_of(launch)
            work = int(evaluate(as_expr(over.units), symbols))
            room = int(evaluate(over.scratch, symbols))
            scratch = np.full(64 + room + GUARD, 0x7F, np.uint8)
            base = scratch.ctypes.data + (-scratch.ctypes.data) % 64
            pointers = [arrays[b].__array_interface__["data"][0] for b in launch.buffers]
            sizes = [int(evaluate(e, symbols)) for e in launch.sizes]
            args = _Args(
                (ctypes.c_void_p * max(len(pointers), 1))(*pointers),
                (ctypes.c_int64 * max(len(sizes), 1))(*sizes),
                base,
                ctypes.pointer(fault),
            )
            run = self._tables[level][launch.function]
            for begin, end in _ranges(work):
                run(ctypes.byref(args), begin, end)
            behind = scratch[base - scratch.ctypes.data + room :]
            assert (behind == 0x7F).all(), f"{launch.function} writes behind its {room} bytes"
        return tuple(np.array(arrays[n], order="C") for n in self.graph.outputs), fault.value

    def check(self, inputs, dims=None, *, rtol=2e-6, atol=1e-6, exact=False):
        """Compares each of its levels with the interpreter."""
        dims = dims or {}
        wanted = interpret_kernels(self.graph, inputs, lambda fqn: inputs[fqn], dims)
        for level in self.levels:
            got, fault = self.run(level, inputs, dims)
            assert fault == 0
            for name, w, g in zip(self.graph.outputs, wanted, got, strict=True):
                message = f"{name} at {level}, {dims}"
                if exact or w.dtype.kind not in "fV":
                    np.testing.assert_array_equal(g, w, err_msg=message)
                else:
                    np.testing.assert_allclose(
                        np.asarray(g, np.float64),
                        np.asarray(w, np.float64),
                        rtol=_tolerance(w.dtype, rtol),
                        atol=atol,
                        err_msg=message,
                    )


def in_turn(text, levels):
    """Of these levels those that kernels of this text are compiled for, and are looked at for."""
    run = tuple(level for level in levels if level in machine_levels())
    others = tuple(level for level in levels if level not in run)
    if SETTINGS.sweeps or not run:
        return run, others
    looked_at = zlib.adler32(text.encode()) % _LOOKED_AT == 0
    return (turn(run, text, (), SETTINGS.seed),), others if looked_at else ()


def _look_at(emitted: EmittedGraph, level: str, options: BuildOptions) -> None:
    """Has the compiler check the kernels' text for a level; raises CalledProcessError."""
    tools = find_toolchain(options.compiler)
    includes = [*header_flags(tools, level, options.cache_dir)]
    includes += [f"-I{folder}" for folder in include_directories()]
    command = [*tools.command, *tools.compile_flags(level), *includes, "-fsyntax-only"]
    with tempfile.TemporaryDirectory() as folder:
        # Those of long units are the same for all models, and are run at the levels that run.
        units = make_units(emitted.functions, f'"{level}"', few=True)
        for unit in [unit for unit in units if not unit.long]:
            source = Path(folder) / f"{unit.name}.cpp"
            source.write_text(unit.text)
            subprocess.run([*command, str(source)], check=True)


def _tolerance(dtype, rtol):
    return {"bfloat16": 1e-2, "float16": 2e-3}.get(dtype.name, rtol)


def _ranges(work):
    """An uneven split of the work units, and an empty range."""
    cuts = sorted({0, work // 3, max(work - 1, 0), work})
    return [*itertools.pairwise(cuts), (work, work)]


def _strided(buffer, symbols, value):
    shape = tuple(int(evaluate(e, symbols)) for e in buffer.shape)
    strides = [int(evaluate(e, symbols)) for e in buffer.strides]
    size = 1 + sum((n - 1) * abs(s) for n, s in zip(shape, strides, strict=True)) if shape else 1
    memory = np.zeros(max(size, 1) if 0 not in shape else 1, buffer.dtype.numpy)
    memory.view(np.uint8)[...] = 0x55
    byte_strides = tuple(s * buffer.dtype.itemsize for s in strides)
    # By integers of the size: NumPy makes views by names of types, of which one float8 has none.
    bits = memory.view(f"u{buffer.dtype.itemsize}")
    array = np.lib.stride_tricks.as_strided(bits, shape, byte_strides).view(buffer.dtype.numpy)
    if value is not None:
        array[...] = value
    return array


class GraphMaker:
    """Builds kernel graphs by hand: buffers, and one kernel a nest."""

    def __init__(self, dims: tuple[Dim, ...] = ()) -> None:
        self.dims = dims
        self.buffers: dict[str, Buffer] = {}
        self.kernels: list[Kernel] = []
        self.outputs: list[str] = []

    def buffer(self, name: str, dtype: DType, shape, strides=None, kind="input") -> str:
        """Declares a buffer; row-major unless strides are given."""
        sizes = tuple(as_expr(s) for s in shape)
        steps = row_major_strides(sizes) if strides is None else tuple(as_expr(s) for s in strides)
        self.buffers[name] = Buffer(name, dtype, sizes, steps, kind, name)
        return name

    def read(self, name: str, *index: Expr) -> Node:
        """A load of a buffer."""
        return load(name, self.buffers[name].dtype, index)

    def output(self, name: str, dtype: DType, shape, strides=None) -> str:
        """Declares a result."""
        self.outputs.append(name)
        return self.buffer(name, dtype, shape, strides, "temp")

    def kernel(
        self,
        nests: list[LoopNest],
        *,
        outer: int = 0,
        scalar: bool = False,
        strip: int = 0,
        order=None,
    ) -> None:
        """One kernel of one stage; the last axis is the vector unless `order` says otherwise."""
        self.staged([(nests, order)], outer=outer, scalar=scalar, strip=strip)

    def staged(self, stages, *, outer=0, scalar=False, strip=0, local=()) -> None:
        """One kernel of several stages, given as (nests, order or None)."""
        first = stages[0][0][0]
        outer_axes = first.axes[:outer]
        made = []
        for nests, order in stages:
            reduction = next((n.reduction for n in nests if n.reduction), ())
            base = next((n for n in nests if n.reduction), nests[0])
            inner = base.axes[outer:]
            loops = tuple(order) if order is not None else (*inner, *reduction)
            vector = loops[-1] if loops and not scalar else None
            made.append(Stage(inner, reduction, loops, vector, tuple(nests)))
        everything = [n for nests, _ in stages for n in nests]
        writes = tuple(dict.fromkeys(s.buffer for n in everything for s in n.stores))
        reads = tuple(dict.fromkeys(b for n in everything for b in _reads(n)))
        split = Strip(made[0].inner[-1], strip) if strip else None
        self.kernels.append(
            NestKernel(
                f"k{len(self.kernels)}",
                outer_axes,
                tuple(made),
                split,
                tuple(local),
                tuple(b for b in reads if b not in writes and b not in local),
                tuple(b for b in writes if b not in local),
            )
        )

    def graph(self) -> KernelGraph:
        """The graph of everything made so far."""
        inputs = tuple(n for n, b in self.buffers.items() if b.kind == "input")
        return KernelGraph(
            "test",
            self.dims,
            dict(self.buffers),
            tuple(self.kernels),
            inputs,
            tuple(self.outputs),
            Signature((), Tree("leaf", 0)),
            (),
            (),
        )


def _reads(nest: LoopNest):
    from aot.ir.loops import reads

    return reads(nest)


def axes(*sizes, prefix="i"):
    """Axes named i0, i1, … of these sizes."""
    return tuple(Axis(var(f"{prefix}{k}"), as_expr(s)) for k, s in enumerate(sizes))


def nest(name, kept, reduction, *stores):
    """A nest; stores as (buffer, index, value)."""
    made = tuple(s if isinstance(s, Store) else Store(s[0], tuple(s[1]), s[2]) for s in stores)
    return LoopNest(name, tuple(kept), tuple(reduction), made, NO_ORIGIN)
