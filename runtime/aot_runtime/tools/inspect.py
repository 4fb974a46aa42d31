"""`inspect`: what is in a package, from its data alone; nothing of it is run."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aot_runtime.format.container import BOM_ENTRY, FILES_GROUP, SLSA_ENTRY, EntryInfo
from aot_runtime.format.declarations import KernelDeclaration, decode_declarations
from aot_runtime.format.errors import UsageError
from aot_runtime.format.plan import (
    CallStep,
    CheckStep,
    Dim,
    Expr,
    Plan,
    Program,
    StateSpec,
    Step,
    TensorSpec,
)
from aot_runtime.format.reader import PackageFile
from aot_runtime.format.signatures import decode_signatures
from aot_runtime.format.steps_json import origin_of
from aot_runtime.format.tensor_types import tensor_dtype_bytes
from aot_runtime.tools.units import format_bytes


def inspect_json(package: PackageFile, target: str | None = None) -> dict[str, Any]:
    """What `inspect --json` prints: contract, programs, sizes and weights.

    Args:
        package: An open package.
        target: Tell of this device's or program's alone ("cuda", "cuda:sm_90").
    """
    plan = package.plan
    return {
        "path": str(package.path),
        "bytes": package.nbytes,
        "format": list(plan.format),
        "compiler": plan.compiler,
        "model": plan.model,
        "inputs": [_tensor_json(spec) for spec in plan.inputs],
        "outputs": [_tensor_json(spec) for spec in plan.outputs],
        "states": [
            {"name": s.name, "dtype": s.dtype, "shape": list(s.shape), "bytes": state_nbytes(s)}
            for s in plan.states
        ],
        "changed": [spec.name for spec in plan.inputs if spec.changed],
        "dims": [
            {
                "name": d.name,
                "label": d.label,
                "min": d.min,
                "max": d.max,
                "multiple": d.multiple_of,
            }
            for d in plan.dims
        ],
        "programs": [_program_json(package, one) for one in chosen_programs(plan, target)],
        "groups": group_sizes(package),
        "weights": [
            {"name": name, "dtype": info.dtype, "shape": list(info.shape), "bytes": info.nbytes}
            for name, info in package.entries.items()
            if name.startswith(("weights/", "packed/"))
        ],
        "files": [
            {"name": info.name.removeprefix(FILES_GROUP), "bytes": info.nbytes}
            for info in carried_files(package)
        ],
        "golden": len(plan.golden),
        "manifest": _manifest_json(package),
        "signers": [s.key for s in decode_signatures(package.header.signatures)],
        "provenance": _document(package, SLSA_ENTRY),
        "bom": _document(package, BOM_ENTRY),
    }


def _manifest_json(package: PackageFile) -> dict[str, Any] | None:
    if package.manifest is None:
        return None
    digests = {name: digest.sha256 for name, digest in package.manifest.digests().items()}
    return {"sha256": package.header.manifest_sha256, "entries": digests}


def _document(package: PackageFile, entry: str) -> Any:
    return json.loads(bytes(package.data(entry))) if entry in package.entries else None


def carried_files(package: PackageFile) -> tuple[EntryInfo, ...]:
    """The files that a package carries beside the model."""
    return tuple(i for name, i in package.entries.items() if name.startswith(FILES_GROUP))


def chosen_programs(plan: Plan, target: str | None) -> tuple[Program, ...]:
    """The plan's programs for a target: a device, or a device with an architecture; None: all.

    Raises:
        UsageError: There is none.
    """
    if target is None:
        return plan.programs
    found = tuple(p for p in plan.programs if target in (p.device, p.target))
    if not found:
        have = ", ".join(p.target for p in plan.programs)
        raise UsageError(f"the package has no program for {target}", advice=f"It has {have}.")
    return found


def checks_of(program: Program) -> tuple[str, ...]:
    """What a run says that breaks an assertion of the model, each message once."""
    found = (step.message for step in program.steps if isinstance(step, CheckStep))
    return tuple(dict.fromkeys(found))


def _program_json(package: PackageFile, program: Program) -> dict[str, Any]:
    return {
        "device": program.device,
        "arch": program.arch,
        "libraries": [
            {"isa": b.isa, "bytes": package.entries[b.entry].nbytes} for b in program.libraries
        ],
        "kernels": [kernel.name for kernel in program.kernels],
        "steps": len(program.steps),
        "checks": list(checks_of(program)),
        "operators": list(called_operators(program)),
        "operator_libraries": [library.entry for library in program.operator_libraries],
        "bytes": code_nbytes(package, program),
        "declared": _declared_json(package, program),
    }


def _declared_json(package: PackageFile, program: Program) -> dict[str, Any] | None:
    declared = declared_kernels(package, program)
    if declared is None:
        return None
    return {
        kernel.name: [
            {"dtype": b.dtype, "bytes": expr_text(b.bytes), "access": b.access}
            for b in kernel.declaration.buffers
        ]
        for kernel in declared
    }


def called_operators(program: Program) -> tuple[str, ...]:
    """The custom operators that a program calls, each once."""
    names = (step.operator for step in program.steps if isinstance(step, CallStep))
    return tuple(dict.fromkeys(names))


def code_nbytes(package: PackageFile, program: Program) -> int:
    """Bytes of a program's machine code in the file."""
    entries = {library.entry for library in program.libraries}
    entries |= {kernel.code.entry for kernel in program.kernels if kernel.code is not None}
    return sum(package.entries[name].nbytes for name in entries)


def declared_kernels(
    package: PackageFile, program: Program
) -> tuple[KernelDeclaration, ...] | None:
    """What a program's kernels say that they touch; None where some code says nothing.

    Libraries of several levels declare alike; the first one's are shown.

    Raises:
        CorruptPackage: A declaration is not as docs/format.md says.
    """
    codes = [kernel.code.entry for kernel in program.kernels if kernel.code is not None]
    entries = codes or [library.entry for library in program.libraries[:1]]
    found: list[KernelDeclaration] = []
    for entry in entries:
        declared = decode_declarations(package.data(entry), entry)
        if declared is None:
            return None
        found += declared
    return tuple(found)


def inspect_text(package: PackageFile, *, weights: bool = False, target: str | None = None) -> str:
    """The same for people.

    Args:
        package: An open package.
        weights: List every weight, instead of their sum.
        target: As for `inspect_json`.
    """
    return "\n".join(_lines(package, weights, target)) + "\n"


def group_sizes(package: PackageFile) -> dict[str, int]:
    """Bytes of each group of entries: plan, kernels, weights, packed, golden, pad."""
    sizes: dict[str, int] = {}
    for name, info in package.entries.items():
        group = name.partition("/")[0]
        sizes[group] = sizes.get(group, 0) + info.nbytes
    return sizes


def expr_text(expr: Expr, labels: Mapping[str, str] | None = None) -> str:
    """An expression of the plan as arithmetic: "(batch + 3) // 4".

    Args:
        expr: The expression.
        labels: Dim names to the user's words for them.
    """
    if not isinstance(expr, tuple | list):
        return (labels or {}).get(str(expr), str(expr))
    op, *operands = expr
    texts = [expr_text(e, labels) for e in operands]
    if op in ("min", "max"):
        return f"{op}({', '.join(texts)})"
    nested = [
        f"({text})" if isinstance(e, tuple | list) and e[0] not in ("min", "max") else text
        for e, text in zip(operands, texts, strict=True)
    ]
    return f" {op} ".join(nested)


def state_nbytes(state: StateSpec) -> int:
    """Bytes that each session holds for a state."""
    return math.prod(state.shape) * tensor_dtype_bytes(state.dtype)


def tensor_text(spec: TensorSpec, labels: Mapping[str, str] | None = None) -> str:
    """`float32[batch, 64]`; `labels` as in `expr_text`."""
    return f"{spec.dtype}[{', '.join(expr_text(e, labels) for e in spec.shape)}]"


def _lines(package: PackageFile, weights: bool, target: str | None) -> Iterator[str]:
    plan = package.plan
    version = ".".join(map(str, plan.format))
    yield f"{plan.model}: format {version}, made by {plan.compiler}"
    yield f"{format_bytes(package.nbytes)}: " + ", ".join(
        f"{group} {format_bytes(size)}" for group, size in group_sizes(package).items()
    )
    yield ""
    labels = {dim.name: dim.label for dim in plan.dims}
    yield "inputs"
    for spec in plan.inputs:
        note = ", changed in place" if spec.changed else ""
        yield f"  {spec.name}: {tensor_text(spec, labels)}{note}"
    yield "outputs"
    yield from (f"  {spec.name}: {tensor_text(spec, labels)}" for spec in plan.outputs)
    if plan.states:
        total = format_bytes(sum(map(state_nbytes, plan.states)))
        yield f"states of each session: {total}"
        for state in plan.states:
            sizes = ", ".join(map(str, state.shape))
            yield f"  {state.name}: {state.dtype}[{sizes}]"
    if plan.dims:
        yield "dims"
        yield from (f"  {_dim_text(dim)}" for dim in plan.dims)
    for program in chosen_programs(plan, target):
        yield from _program_lines(package, program)
    named = [i for n, i in package.entries.items() if n.startswith(("weights/", "packed/"))]
    yield f"weights: {len(named)}, {format_bytes(sum(i.nbytes for i in named))}"
    if weights:
        digests = {} if package.manifest is None else package.manifest.digests()
        for info in named:
            sizes = ", ".join(map(str, info.shape))
            yield f"  {info.name}: {info.dtype}[{sizes}], {format_bytes(info.nbytes)}"
            if info.name in digests:
                yield f"    sha256 {digests[info.name].sha256}"
    files = carried_files(package)
    if files:
        yield "files"
    for info in files:
        yield f"  {info.name.removeprefix(FILES_GROUP)}: {format_bytes(info.nbytes)}"
    yield f"golden sets: {len(plan.golden)}"
    yield from _trust_lines(package)


def _trust_lines(package: PackageFile) -> Iterator[str]:
    if package.manifest is None:
        yield "manifest: none (format 1.0)"
        return
    yield f"manifest: {package.header.manifest_sha256}"
    signers = decode_signatures(package.header.signatures)
    for signature in signers:
        yield f"  says to be signed by {signature.key} (`verify --key` finds out)"
    if not signers:
        yield "  not signed"
    provenance = _document(package, SLSA_ENTRY)
    if provenance is None:
        return
    build = provenance["predicate"]["buildDefinition"]
    files = [row for row in build["resolvedDependencies"] if "digest" in row]
    for row in files:
        yield f"made from {row['name']}: {row['digest']['sha256']}"
    if not files:
        yield "made from a module"
    yield "made with"
    for name, version in provenance["predicate"]["runDetails"]["builder"]["version"].items():
        yield f"  {name}: {version}"


def _program_lines(package: PackageFile, program: Program) -> Iterator[str]:
    size = format_bytes(code_nbytes(package, program))
    yield f"runs on {program.target} ({size} of code)"
    for library in program.libraries:
        yield f"  {library.isa}: {format_bytes(package.entries[library.entry].nbytes)}"
    if called_operators(program):
        carried = ", ".join(library.entry for library in program.operator_libraries)
        where = f"carried in {carried}" if carried else "given at load"
        yield f"  custom operators: {', '.join(called_operators(program))}; {where}"
    checks = checks_of(program)
    if checks:
        yield "  what a run refuses"
        yield from (f"    {message}" for message in checks)
    yield f"  kernels: {len(program.kernels)}, launched in {len(program.steps)} steps"
    if declared_kernels(package, program) is None:
        yield "  their launches are trusted, not proved: they do not declare what they touch"
    used: dict[int, list[str]] = {}
    for step in program.steps:
        if isinstance(step, Step):
            used.setdefault(step.kernel, []).append(str(origin_of(package.plan, step)))
    places: dict[str, list[str]] = {}
    for index, kernel in enumerate(program.kernels):
        origins = list(dict.fromkeys(used.get(index, ())))
        more = f" and {len(origins) - 1} more" if len(origins) > 1 else ""
        place = f"{origins[0] if origins else 'not launched'}{more}"
        places.setdefault(place, []).append(kernel.name)
    # Layers of one line of the model, unrolled, have a kernel each.
    yield from (f"    {_names_text(names)}  {place}" for place, names in places.items())


def _names_text(names: Sequence[str]) -> str:
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{', '.join(names[: _NAMED - 1])} to {names[-1]}, {len(names)} kernels"


_NAMED = 3
"""Kernels of one place that are named; of more, the first ones and the last."""


def _dim_text(dim: Dim) -> str:
    bound = f"{dim.min} to {dim.max}" if dim.max is not None else f"at least {dim.min}"
    multiple = f", a multiple of {dim.multiple_of}" if dim.multiple_of != 1 else ""
    return f"{dim.label}: {bound}{multiple}"


def _tensor_json(spec: TensorSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "dtype": spec.dtype,
        "shape": [e if isinstance(e, int) else expr_text(e) for e in spec.shape],
    }
