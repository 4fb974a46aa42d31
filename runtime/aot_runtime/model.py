"""A loaded package as a callable."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _native
from .arrays import Converter, converter_for, current_stream, entry_to_numpy, to_numpy
from .errors import InvalidArgument
from .html import table
from .limits import Limits, nanoseconds
from .memory import DeviceAllocator
from .policy import Policy, native_verify
from .signature import Signature
from .states import read_states, write_seed, write_states
from .tensors import TensorInfo, tensor_info
from .trace import Trace

if TYPE_CHECKING:
    import numpy as np


_FILES = "files/"
"""How the entries of files begin that a package carries (docs/format.md)."""


class StepTime(NamedTuple):
    """Time of one step: wall nanoseconds summed over `calls`.

    `median`: nanoseconds of the middle one of all runs, which no run that was interrupted moves.
    """

    kernel: str
    origin: str
    calls: int
    nanoseconds: int
    median: int = 0


def _step_time(runs: Sequence[tuple[str, str, int, int]]) -> StepTime:
    kernel, origin, _, _ = runs[0]
    times = sorted(nanoseconds for _, _, _, nanoseconds in runs)
    calls = sum(count for _, _, count, _ in runs)
    return StepTime(kernel, origin, calls, sum(times), times[len(times) // 2])


class Added(NamedTuple):
    """What is added to a weight: `scale` times `value`, an array of the weight's type and shape."""

    value: Any
    scale: float = 1.0


class LowRank(NamedTuple):
    """What is added to a weight: `scale * up @ down`, as low-rank adapters have it.

    `up` (rows, rank) and `down` (rank, columns…) are arrays of floating-point types; the weight is
    seen as a matrix of its first dimension and all others.
    """

    up: Any
    down: Any
    scale: float = 1.0


class Described:
    """What a package says of its model, read once for all sessions: a plan has a megabyte or two.

    Attributes are those of `Model`.
    """

    def __init__(self, package: _native.Package) -> None:
        self.inputs = tuple(tensor_info(row) for row in package.inputs())
        self.outputs = tuple(tensor_info(row) for row in package.outputs())
        self.states = tuple(tensor_info(row) for row in package.states())
        self.plan: dict[str, Any] = json.loads(package.plan())
        self.signature = Signature(
            self.plan.get("signature", {}), len(self.inputs), len(self.outputs)
        )


class Model:
    """A package ready to run; call it like the model that it was made from.

    Inputs are NumPy arrays, anything with `__dlpack__`, and Python numbers; outputs are arrays of
    the same kind and share no memory with inputs. Inputs that the model changes in place are
    changed; buffers that it changes are `states`, kept from call to call by each session. Calls
    from several threads wait for each other: give each thread a `session()` of its own to run at
    the same time. The GIL is released while the model runs.

    On a GPU, arrays there are read in place, and outputs stay there; arrays of the host are copied
    both ways. With arrays of torch or cupy a call enqueues its work in their current stream and
    returns, as their own operations do; wrong indices in the data are then reported by the next
    call or by `synchronize()`.

    Made by `load` and `session`, not directly.
    """

    device: str
    """Where the model runs: "cpu" or "cuda:0"."""
    inputs: tuple[TensorInfo, ...]
    """The inputs in the order of the plan."""
    outputs: tuple[TensorInfo, ...]
    """The outputs in the order of the plan."""
    states: tuple[TensorInfo, ...]
    """What a session keeps from call to call: buffers that the model changes."""
    plan: dict[str, Any]
    """The execution plan, as docs/format.md describes it. Do not change it."""

    def __init__(
        self,
        package: _native.Package,
        device: str | None,
        isa: str | None,
        num_threads: int | None,
        graphs: bool,
        limits: Limits,
        device_allocator: DeviceAllocator | None,
        described: Described | None = None,
    ) -> None:
        session = package.session(
            device=device or "",
            isa=isa or "",
            num_threads=num_threads or 0,
            graphs=graphs,
            limits=limits.as_native(),
            device_allocator=device_allocator,
        )
        known = described or Described(package)
        self._set_up(package, known, session, graphs, limits, device_allocator)

    def _set_up(
        self,
        package: _native.Package,
        described: Described,
        session: _native.Session,
        graphs: bool,
        limits: Limits,
        device_allocator: DeviceAllocator | None,
    ) -> None:
        self._package = package
        self._graphs = graphs
        self._limits = limits
        self._device_allocator = device_allocator
        self._session = session
        self._on_gpu = self._session.on_gpu
        self.device = self._session.device
        self._described = described
        self.inputs, self.outputs = described.inputs, described.outputs
        self.states = described.states
        self.plan, self._signature = described.plan, described.signature
        # The shortest way of the common call: nothing of it is Python's.
        self._call = session.caller(self._signature.plain, self._signature.unflatten)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the model.

        Raises:
            InvalidArgument: arguments that do not fit the signature, a dtype, a device.
            ShapeMismatch: a rank or size outside the contract.
            AotError: any other failure; see aot_runtime.errors.
        """
        if not kwargs:
            result = self._call(*args)
            if result is not NotImplemented:
                return result
        signature = self._signature
        return signature.unflatten(self._run(signature.flatten(args, kwargs)))

    def run(
        self,
        inputs: Sequence[Any],
        *,
        timeout: float | None = None,
        cancel: _native.Cancellation | None = None,
        out: Sequence[Any | None] | None = None,
    ) -> list[Any]:
        """Runs the model on one array per input of the plan, past its signature.

        Args:
            inputs: as for a call.
            timeout: seconds. A run that takes longer ends between two steps; work that a GPU has
                been given by then is waited for.
            cancel: ends the run when another thread calls its `cancel()`, in the same places.
            out: memory for each output, None for one in fresh memory: writable arrays of the
                output's dtype and shape, which overlap no input. After a run that failed their
                content is undefined.

        Returns:
            One array per output of the plan: that of `out`, or one of the kind of the first input.

        Raises:
            DeadlineExceeded: the timeout has passed.
            Cancelled: through `cancel`.
            AotError: as for a call.
        """
        leaves = list(inputs)
        if timeout is None and cancel is None and out is None:
            return self._run(leaves)
        convert = converter_for(leaves)
        places = [] if out is None else list(out)
        outputs = self._session.run(
            leaves,
            *self._placing(leaves, convert),
            timeout_ns=0 if timeout is None else nanoseconds(timeout, "timeout"),
            cancellation=cancel,
            places=places,
        )
        given = [place is not None for place in places] or [False] * len(outputs)
        return [o if kept else convert(o) for o, kept in zip(outputs, given, strict=True)]

    def run_named(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Runs the model on arrays by the names of `inputs`; gives those of `outputs`.

        Raises:
            InvalidArgument: an input is missing, or the model has none of that name.
            AotError: as for a call.
        """
        given = dict(inputs)
        leaves = []
        for info in self.inputs:
            if info.name not in given:
                raise InvalidArgument(f"input '{info.name}' is missing")
            leaves.append(given.pop(info.name))
        if given:
            known = ", ".join(f"'{info.name}'" for info in self.inputs) or "none"
            raise InvalidArgument(
                f"the model has no input '{next(iter(given))}'; its inputs: {known}"
            )
        outputs = self._run(leaves)
        return {info.name: value for info, value in zip(self.outputs, outputs, strict=True)}

    def output_shapes(self, inputs: Sequence[Any]) -> list[tuple[int | None, ...]]:
        """The outputs' shapes for inputs of these shapes; None for a size that only a run knows.

        Raises:
            AotError: as for a call with these inputs.
        """
        rows = self._session.output_sizes(list(inputs))
        return [tuple(None if size < 0 else size for size in row) for row in rows]

    def prewarm(self, inputs: Sequence[Any]) -> None:
        """Makes all ready for calls with inputs of these shapes: sizes, kernels, memory.

        Raises:
            AotError: as for a call with these inputs.
        """
        self._session.prewarm(list(inputs))

    def memory(self) -> dict[str, int]:
        """Bytes that this session holds, by what for: see aot_memory_info in aot/abi.h."""
        return self._session.memory()

    def trim(self) -> None:
        """Frees what the session can do without until the next call."""
        self._session.trim()

    def _run(self, leaves: list[Any]) -> list[Any]:
        outputs = self._session.run_exchanged(leaves)
        if outputs is not None:
            return outputs
        convert = converter_for(leaves)
        return [convert(o) for o in self._session.run(leaves, *self._placing(leaves, convert))]

    def _placing(self, leaves: list[Any], convert: Converter) -> tuple[int, bool]:
        """The stream to run in (0: the session's own), and whether outputs go to the host."""
        return (current_stream(leaves), convert is to_numpy) if self._on_gpu else (0, True)

    def synchronize(self) -> None:
        """Waits for the last call on a GPU.

        Raises:
            InvalidArgument: that call found a wrong index in its data.
            DeviceError: that call failed.
        """
        self._session.synchronize()

    @property
    def isa(self) -> str:
        """The instruction set of the kernels in use, such as "x86-64-v3" or "sm_90"."""
        return self._session.isa

    @property
    def num_threads(self) -> int:
        """Threads of the host that a call may use, the caller's included."""
        return self._session.num_threads

    def session(
        self,
        *,
        device: str | None = None,
        isa: str | None = None,
        num_threads: int | None = None,
        graphs: bool | None = None,
        limits: Limits | None = None,
        device_allocator: DeviceAllocator | None = None,
    ) -> Model:
        """A second model on the same package: own memory and threads, shared weights.

        Args:
            device: as for `load`; None: this model's.
            isa: the instruction set; None: the best that package and device have.
            num_threads: None: as this model on its own device, else as for `load`.
            graphs: as for `load`; None: as this model.
            limits: as for `load`; None: as this model.
            device_allocator: as for `load`; None: as this model.
        """
        keep = self._graphs if graphs is None else graphs
        bounds = self._limits if limits is None else limits
        memory = device_allocator or self._device_allocator
        place = device or self.device
        # A caller that runs sessions side by side has said so when it loaded the first.
        threads = num_threads or (self.num_threads if place == self.device else None)
        known = self._described
        return Model(self._package, place, isa, threads, keep, bounds, memory, known)

    def clone(self) -> Model:
        """A second model with own states, which begin as this one's are now; shared weights."""
        copy = Model.__new__(Model)
        session = self._session.clone()
        allocator = self._device_allocator
        copy._set_up(self._package, self._described, session, self._graphs, self._limits, allocator)
        return copy

    def reset(self) -> None:
        """Gives every state the value that it had when the model was packaged."""
        self._session.reset()

    def state_dict(self) -> dict[str, np.ndarray]:
        """A copy of every state as a NumPy array, by the model's names.

        Raises:
            Unsupported: a bfloat16 state without the package ml_dtypes.
        """
        return read_states(self._session, self.states)

    def load_state_dict(self, values: Mapping[str, Any], strict: bool = True) -> None:
        """Writes states by name, all of them or, if something is wrong, none.

        Args:
            values: arrays of the states' shapes and types.
            strict: every state must have a value.

        Raises:
            InvalidArgument: a name, shape or dtype is not the model's.
        """
        write_states(self._session, self.states, values, strict)

    def seed(self, seed: int) -> None:
        """Chooses the random numbers of the runs that follow, from the first one on.

        Args:
            seed: any int64. A new session has the seed 0.

        Raises:
            InvalidArgument: the model draws no random numbers.
        """
        write_seed(self._session, self.states, seed)

    def replace_weights(
        self,
        weights: str | os.PathLike[str] | Mapping[str, Any],
        *,
        partial: bool = False,
        restart: bool = False,
        ignore_unknown: bool = False,
    ) -> None:
        """Gives the weights new values, in this model and in all sessions of its package.

        What was folded or packed is computed again. Calls that begin later see all new weights;
        calls under way in other threads finish with the old ones. On failure nothing changes.

        Args:
            weights: a safetensors file, or arrays in the host's memory by their names in the
                model's state dict; `Added` and `LowRank` add to a weight instead.
            partial: weights that are not given stay as they are.
            restart: begin with the package's own weights, not with the present ones.
            ignore_unknown: leave out names that the model does not have.

        Raises:
            Unsupported: the package was built without `--swappable`.
            InvalidArgument: a name, a dtype, a missing weight, or one that the package would have
                to keep (`--keep-originals`).
            ShapeMismatch: a shape.
            NotFound, CorruptPackage: the file is not there, or is no safetensors file.
        """
        if isinstance(weights, (str, os.PathLike)):
            self._package.load_weights(os.fspath(weights), partial, restart, ignore_unknown)
            return
        updates = [_update(name, value) for name, value in weights.items()]
        self._package.replace_weights(updates, partial, restart, ignore_unknown)

    def profile(self, *args: Any, runs: int = 10, **kwargs: Any) -> list[StepTime]:
        """Times every step over `runs` calls with these arguments, after one to warm up.

        Each call begins with the states' first values. Returns one row per step of the plan, in
        order. A step without work has no calls.
        """
        leaves = self._signature.flatten(args, kwargs)
        session = self._package.session(
            device=self.device, isa=self.isa, num_threads=self.num_threads, profile=True
        )
        placing = self._placing(leaves, converter_for(leaves))
        session.run(leaves, *placing)
        rows: list[list[tuple[str, str, int, int]]] = []
        for _ in range(runs):
            session.reset()
            session.reset_profile()
            session.run(leaves, *placing)
            rows.append(session.profile())
        return [_step_time(step) for step in zip(*rows, strict=True)]

    def trace(self, *, capacity: int = 65536, nvtx: bool = False, events: bool = True) -> Trace:
        """A timeline of the calls in its `with` block; see `Trace`.

        On a GPU, traced calls launch kernels one by one and are over when they return.

        Args:
            capacity: how many events are kept, the first ones; memory for all is taken at once.
            nvtx: what is traced is also a range for NVIDIA's tools, if one watches the process.
            events: False: ranges alone, and calls run as they do without a trace.

        Raises:
            InvalidArgument: at the block's begin, if the model is traced already.
        """
        place = f"{self.device} ({self.isa})"
        return Trace(self._session, place, capacity, nvtx, events)

    def write_perf_map(self) -> None:
        """Names the CPU kernels for `perf`, with the model's lines, in /tmp/perf-PID.map.

        Raises:
            DeviceError: the file cannot be written.
        """
        self._package.write_perf_map()

    def run_observed(
        self, observer: Callable[[int, int, bytes], object], *args: Any, **kwargs: Any
    ) -> Any:
        """Runs once; after each step calls observer(step, buffer, bytes) for each of its buffers.

        Step and buffer are positions in the plan. An exception of the observer ends the
        observation and is raised when the run is over.
        """
        leaves = self._signature.flatten(args, kwargs)
        convert = converter_for(leaves)
        placing = self._placing(leaves, convert)
        outputs = self._session.run_observed(leaves, observer, *placing)
        return self._signature.unflatten([convert(o) for o in outputs])

    @property
    def entries(self) -> list[str]:
        """Names of the file's entries, sorted."""
        return self._package.entry_names()

    def entry(self, name: str) -> np.ndarray:
        """An entry of the file as a read-only NumPy array that shares the mapping.

        Raises:
            NotFound: there is no such entry.
        """
        return entry_to_numpy(self._package.entry(name))

    @property
    def files(self) -> list[str]:
        """Names of the files that the package carries beside the model, sorted."""
        names = sorted(self._package.entry_names())
        return [name.removeprefix(_FILES) for name in names if name.startswith(_FILES)]

    def file(self, name: str) -> bytes:
        """What a file that the package carries holds; it is checked the first time.

        Raises:
            NotFound: the package carries no such file; the message says which it carries.
            CorruptPackage: its bytes are not those that were packaged.
        """
        return self._package.file(name)

    def __repr__(self) -> str:
        """The model's name, signature and instruction set."""
        name = self.plan.get("model", "")
        place = f"{self.device} ({self.isa})" if self._on_gpu else self.isa
        return f"<aot_runtime.Model {name}{self._signature} on {place}>"

    def _repr_html_(self) -> str:
        """The same for notebooks, with a row for each input, output and state."""
        kinds = (("input", self.inputs), ("output", self.outputs), ("state", self.states))
        rows = [
            (kind, info.name, f"{info.dtype}[{', '.join(map(str, info.shape))}]")
            for kind, infos in kinds
            for info in infos
        ]
        return table(repr(self), ("", "name", "type"), rows)


def load(
    path: str | os.PathLike[str],
    device: str | None = None,
    *,
    isa: str | None = None,
    num_threads: int | None = None,
    graphs: bool = True,
    verify: bool | str = False,
    policy: Policy | None = None,
    weights: str | os.PathLike[str] | None = None,
    limits: Limits | None = None,
    device_allocator: DeviceAllocator | None = None,
    copy: bool = False,
) -> Model:
    """Opens a package and makes it callable. Nothing is unpacked, no file is created.

    Args:
        path: the package's file. Without `copy` it must not be changed in place while the model
            lives.
        device: "cpu", or "cuda" or "cuda:1" for a GPU by its number; None: the CPU.
        isa: "x86-64-v2", "x86-64-v3" or "x86-64-v4"; None: the best that package and CPU have.
        num_threads: threads that a call may use; None: the physical cores of this process.
        graphs: on a GPU, replay the kernels of a repeated shape as one CUDA graph.
        verify: header, plan and code are always checked. "full" or True checks every byte of the
            file now, with all cores; "lazy" those of the weights before they are first used.
        policy: what is allowed of the package: who must have signed it, which code it may bring.
        weights: the file of the weights, of a package that does not hold them; None: the one that
            the package names, beside it.
        limits: what the model may use; None: the defaults.
        device_allocator: where memory of a GPU comes from but for weights, for example
            `TorchAllocator()`; None: the driver.
        copy: read the files into memory of this process, in large pages where the system has them,
            in place of mapping them. That takes as long as reading, and shares no memory with
            other processes; what becomes of the files then does not matter.

    Raises:
        NotFound: no such file.
        CorruptPackage: not a package, or damaged.
        Incompatible: of a newer format.
        Unavailable: no kernels for this device or for `isa`, no such device, no driver for it.
        OutOfMemory: the device has no room for the weights, or the machine for a copy.
        InvalidArgument: `num_threads` below 1, a device that is no name, a policy without
            meaning, or `weights` for a package that holds them.
        Refused: the policy does not allow the package.
    """
    if num_threads is not None and num_threads < 1:
        raise InvalidArgument(f"num_threads is {num_threads}, must be at least 1")
    apart = "" if weights is None else os.fspath(weights)
    allowed = None if policy is None else policy.native()
    package = _native.Package(os.fspath(path), native_verify(verify), apart, allowed, copy)
    bounds = limits or Limits()
    return Model(package, device, isa, num_threads, graphs, bounds, device_allocator)


def _update(name: str, value: Any) -> tuple[str, Any, bool, Any, Any, float]:
    """The row that the native module takes.

    Raises:
        InvalidArgument: The value is a number.
    """
    if isinstance(value, LowRank):
        return name, None, True, value.up, value.down, value.scale
    if isinstance(value, Added):
        return name, value.value, True, None, None, value.scale
    if isinstance(value, (bool, int, float)):
        raise InvalidArgument(f"weight '{name}' must be an array, not a number")
    return name, value, False, None, None, 1.0
