"""Every choice a build can make, as frozen values; the one place that reads the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from aot_runtime.format import devices

from aot.errors import UsageError

CPU_LEVELS = devices.CPU_LEVELS
"""Instruction set levels of the `cpu` target, slowest first."""

GPU_ARCHS = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
"""Architectures of the `cuda` target, oldest first."""

HOST = devices.HOST
"""The device that every machine has."""

GPU = "cuda"
"""The device of GPU targets."""

DEVICES: Mapping[str, tuple[str, ...]] = {HOST: CPU_LEVELS, GPU: GPU_ARCHS}
"""Every device and its architectures, in the order of a package's programs."""

STAGES = (
    "capture",
    "ingest",
    "lower",
    "passes",
    "fuse",
    "prepare",
    "plan_memory",
    "emit",
    "build",
    "assemble",
    "write",
)
"""The compiler's stages in order: the names of dumps, timings, `--stop-after` and the docs."""

TUNED = 8
"""Configurations of a template that are measured unless more or fewer are asked for."""

ENVIRONMENT = {
    "AOT_CACHE_DIR": "where compiled kernels are kept between builds",
    "AOT_JOBS": "how many compilers run at once",
    "AOT_STAY": "for how many seconds a process stays that does the next `aot-package` sooner",
    "CXX": "the C++ compiler",
    "XDG_CACHE_HOME": "parent of the default cache",
}
"""Every environment variable that is read, and its meaning (docs/errors.md shows the table)."""

_STEERING = ("TRITON_", "PTXAS_", "DISABLE_", "LLVM_", "MLIR_", "NVPTX_", "USE_IR_LOC")
"""Beginnings of the names of variables that Triton reads."""

_COMPILER_PATHS = (
    *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH"),
    *("GCC_EXEC_PREFIX", "CCC_OVERRIDE_OPTIONS"),
)
"""Variables by which C++ compilers take other headers, libraries, programs or options."""


@dataclass(frozen=True)
class Target:
    """A device kind and the architectures of it that the package shall carry.

    Attributes:
        device: "cpu" or "cuda".
        archs: Architectures, some of the device's in `DEVICES`, in that order.
    """

    device: str
    archs: tuple[str, ...]

    def __str__(self) -> str:
        """The text that `parse_target` reads."""
        return f"{self.device}:{'+'.join(self.archs)}"


ALL_CPU = Target("cpu", CPU_LEVELS)
DEFAULT_TARGETS = ("cpu",)
"""What is packaged for when nothing is said, as `parse_target` reads it."""


@dataclass(frozen=True)
class BuildOptions:
    """What `aot.package` and `aot-package build` are asked for.

    Attributes:
        output: Where the package goes; None builds without writing (`explain`).
        targets: Devices and architectures the package shall run on.
        jobs: Compilers that run at once.
        exact_jobs: Whether somebody said how many: then never more run. Else C++ compilers may be
            up to two more, so that all levels of a file share the processors.
        cache_dir: Where compiled kernels are kept between builds; None keeps none.
        headers_dir: Where precompiled headers are kept, which change no byte of what is compiled;
            None: in `cache_dir`.
        dump_dir: Each stage's text is written there when set.
        stop_after: A name of `STAGES`: go no further, write no package.
        golden: Store example inputs and eager outputs in the package, for `verify`.
        compiler: C++ compiler to use; "" finds one.
        verify: Check the invariants of every graph after every stage.
        debug: Keep generated sources and show tracebacks.
        swappable: Weights can be replaced at run time: the package holds the weight program.
        keep_originals: Some weights alone can be replaced even where others are folded into what
            they are derived for, and updates can be added: the package holds the model's own
            weights besides what is derived from them. Implies `swappable`.
        weights_file: Name of a file beside the package that the weights go to; "": into it.
        exact_floats: Nothing rounds float32 to TF32, whatever torch's settings let eager do.
        decide_as_example: A decision of the model on values is that of the example, in every run:
            one that decides otherwise is refused.
        typical: Dynamic sizes that kernels are chosen for, by the dim's name; of other dims, the
            example's.
        tune: Configurations of each GPU template that are measured on this machine's GPU, for the
            fastest to be taken; 0: models of the machine decide.
        operators: Names of custom operators ("ns::name", "ns::*") that whoever loads the package
            gives.
        operator_libraries: Shared objects with custom operators that the package carries.
        files: Files that the package carries, such as a tokenizer: their names in it, and where
            they are now.
    """

    output: Path | None = None
    targets: tuple[Target, ...] = (ALL_CPU,)
    jobs: int = field(default_factory=lambda: default_jobs({}))
    exact_jobs: bool = True
    cache_dir: Path | None = None
    headers_dir: Path | None = None
    dump_dir: Path | None = None
    stop_after: str | None = None
    golden: bool = True
    compiler: str = ""
    verify: bool = False
    debug: bool = False
    swappable: bool = False
    keep_originals: bool = False
    weights_file: str = ""
    exact_floats: bool = False
    decide_as_example: bool = False
    typical: tuple[tuple[str, int], ...] = ()
    tune: int = 0
    operators: tuple[str, ...] = ()
    operator_libraries: tuple[Path, ...] = ()
    files: tuple[tuple[str, Path], ...] = ()

    def __post_init__(self) -> None:
        """Reject values without meaning at once, where the caller can see why.

        Raises:
            UsageError: The stage, jobs, targets or name of the weights' file make no sense.
        """
        if self.stop_after is not None and self.stop_after not in STAGES:
            raise UsageError(
                f"there is no stage {self.stop_after!r}",
                advice="Stages, in order: " + ", ".join(STAGES) + ".",
            )
        if self.jobs < 1:
            raise UsageError(f"jobs must be at least 1, not {self.jobs}")
        if self.tune < 0:
            raise UsageError(f"tune must be at least 0, not {self.tune}")
        if not self.targets:
            raise UsageError("no target given", advice="Give --target cpu, or leave it out.")
        own = self.output.name if self.output else ""
        if self.weights_file and self.weights_file in (own, ".", ".."):
            raise UsageError(
                f"the weights cannot go to {self.weights_file!r}, which is the package itself",
                advice="Give --weights-file another name than the package has.",
            )
        if self.weights_file != Path(self.weights_file).name:
            raise UsageError(
                f"the weights' file {self.weights_file!r} must be a name without a folder",
                advice="It is written beside the package, and looked for there.",
            )

    @property
    def compiles(self) -> bool:
        """Whether compilers run, or would but for what the cache holds."""
        return self.stop_after is None or STAGES.index(self.stop_after) >= STAGES.index("build")

    @property
    def has_weight_program(self) -> bool:
        """Whether weights can be replaced at run time."""
        return self.swappable or self.keep_originals


def parse_target(text: str) -> Target:
    """The target that the text names: `cpu` (all levels), `cpu:x86-64-v3`, `cuda:sm_80+sm_90`.

    Raises:
        UsageError: The device or an architecture is not known.
    """
    device, _, rest = text.partition(":")
    known = DEVICES.get(device)
    if known is None:
        raise UsageError(
            f"unknown device {device!r} in target {text!r}",
            advice=f"Devices: {', '.join(DEVICES)}; for example --target cpu:{CPU_LEVELS[1]}.",
        )
    names = f"Architectures of {device}: {', '.join(known)}; several are joined by +."
    if not rest:
        if device == HOST:
            return ALL_CPU
        raise UsageError(f"target {text!r} names no architecture", advice=names)
    archs = rest.split("+")
    unknown = [repr(arch) for arch in archs if arch not in known]
    if unknown:
        raise UsageError(
            f"unknown architecture {', '.join(unknown)} in target {text!r}", advice=names
        )
    return Target(device, tuple(arch for arch in known if arch in archs))


def parse_file(text: str) -> tuple[str, Path]:
    """A file to carry, and its name in the package: `tokenizer.json=path/to/tokenizer.json`.

    Raises:
        UsageError: One of the two is missing.
    """
    name, _, path = text.partition("=")
    if not name or not path:
        raise UsageError(
            f"--file {text!r} does not say which file gets which name",
            advice="Give --file NAME=PATH, for example --file tokenizer.json=my/tokenizer.json.",
        )
    return name, Path(path)


def merge_targets(targets: Sequence[Target]) -> tuple[Target, ...]:
    """One target a device, with the union of the architectures, in a fixed order."""
    archs: dict[str, set[str]] = {}
    for target in targets:
        archs.setdefault(target.device, set()).update(target.archs)
    return tuple(
        Target(device, tuple(arch for arch in known if arch in archs[device]))
        for device, known in DEVICES.items()
        if device in archs
    )


def default_jobs(environ: Mapping[str, str]) -> int:
    """`AOT_JOBS`, or the number of processors this process may use.

    Raises:
        UsageError: `AOT_JOBS` is no positive integer.
    """
    text = environ.get("AOT_JOBS", "")
    if not text:
        return len(os.sched_getaffinity(0))
    if not text.isdigit() or int(text) < 1:
        raise UsageError(f"AOT_JOBS must be a positive integer, not {text!r}")
    return int(text)


def default_cache_dir(environ: Mapping[str, str]) -> Path:
    """`AOT_CACHE_DIR`, else `aot-package` in the user's cache directory."""
    if environ.get("AOT_CACHE_DIR"):
        return Path(environ["AOT_CACHE_DIR"])
    parent = environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(parent) / "aot-package"


def environment() -> Mapping[str, str]:
    """The process's environment, restricted to the variables in `ENVIRONMENT`."""
    return {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}


def compile_environment(changes: Mapping[str, str]) -> dict[str, str]:
    """The environment of a kernel compiler's process: the process's own, with `changes`.

    Variables that would change what comes out of the compiler are left out, so that equal
    sources give equal machine code whatever the user has set.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith(_STEERING)}
    return {**kept, **changes}


def seconds_to_stay(environ: Mapping[str, str]) -> float:
    """`AOT_STAY`, or 0: nobody stays.

    Raises:
        UsageError: It is no number of seconds.
    """
    text = environ.get("AOT_STAY", "") or "0"
    if not text.isdigit():
        raise UsageError(f"AOT_STAY must be a number of seconds, not {text!r}")
    return float(text)


def everything_set() -> dict[str, str]:
    """The whole environment of this process, for one that does a command in its place."""
    return dict(os.environ)


def set_anew(values: Mapping[str, str], names: Sequence[str]) -> None:
    """Gives variables of these names the values that they have in another process, or none."""
    for name in names:
        os.environ.pop(name, None)
    os.environ.update(values)


def compiler_paths() -> Mapping[str, str]:
    """What is set of the variables by which a C++ compiler makes other code of the same source."""
    return {name: os.environ[name] for name in _COMPILER_PATHS if name in os.environ}


def from_environment(**choices: object) -> BuildOptions:
    """`BuildOptions` with defaults from the environment; `choices` that are None are left out.

    Raises:
        UsageError: A variable or a choice makes no sense.
    """
    environ = environment()
    seconds_to_stay(environ)  # used ahead of all else, where nothing can be told
    defaults: dict[str, object] = {
        "jobs": default_jobs(environ),
        "exact_jobs": bool(environ.get("AOT_JOBS")) or choices.get("jobs") is not None,
        "cache_dir": default_cache_dir(environ),
        "compiler": environ.get("CXX", ""),
    }
    given = {name: value for name, value in choices.items() if value is not None}
    return BuildOptions(**{**defaults, **given})  # type: ignore[arg-type]  # checked by callers


def without_cache(options: BuildOptions) -> BuildOptions:
    """The same options, compiling everything again: only the compiler's own headers are kept."""
    return replace(options, cache_dir=None, headers_dir=options.cache_dir)
