"""Arrays for the tools: from entries of a package, from .npz files, or random by contract."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aot_runtime.arrays import numpy_dtype as loader_dtype
from aot_runtime.errors import Unsupported
from aot_runtime.format.errors import InputMismatch, ToolchainMissing, UsageError
from aot_runtime.format.expr import evaluate
from aot_runtime.format.pairs import from_pairs, is_complex
from aot_runtime.format.plan import Dim, Plan, TensorSpec
from aot_runtime.format.reader import PackageFile
from aot_runtime.tools.files import writing

Array = np.ndarray[Any, np.dtype[Any]]

DEFAULT_SIZE = 8
"""A dynamic dim's size when nothing else is said, within its range."""


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy type of one of our element types; those that NumPy lacks are ml_dtypes'.

    Raises:
        ToolchainMissing: It is one of these, and ml_dtypes is not installed.
    """
    try:
        return loader_dtype(name, "values")
    except Unsupported as error:
        raise ToolchainMissing(str(error), advice="pip install ml_dtypes") from error


def entry_array(package: PackageFile, name: str) -> Array:
    """An entry as an array of its own (a copy)."""
    info = package.entries[name]
    return np.frombuffer(package.data(name), numpy_dtype(info.dtype)).reshape(info.shape).copy()


def tensor_array(package: PackageFile, name: str, spec: TensorSpec) -> Array:
    """An entry that holds values of an input or an output, as callers see them."""
    return from_pairs(entry_array(package, name), numpy_dtype(spec.dtype))


def golden_inputs(package: PackageFile, index: int = 0) -> list[Array]:
    """The example inputs of a golden set; none when the package has no such set."""
    if index >= len(package.plan.golden):
        return []
    names, plan = package.plan.golden[index].inputs, package.plan
    return [
        tensor_array(package, name, spec) for name, spec in zip(names, plan.inputs, strict=True)
    ]


def load_inputs(plan: Plan, path: Path) -> list[Array]:
    """One array for each input of the plan, from a .npz file with their names.

    Raises:
        InputMismatch: The file is missing or no .npz file, or its names are not the inputs'.
    """
    try:
        with path.open("rb") as file:
            # What is no archive is not for NumPy to open, which takes it for a pickle.
            if not zipfile.is_zipfile(file):
                raise zipfile.BadZipFile("this is no .npz file")
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                arrays = dict(archive.items())
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        told = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise InputMismatch(
            f"cannot read inputs: {told}",
            where=path,
            advice="Write the file with numpy.savez(path, <input name>=array, …).",
        ) from error
    wanted = [spec.name for spec in plan.inputs]
    missing = [name for name in wanted if name not in arrays]
    extra = [name for name in arrays if name not in wanted]
    if missing or extra:
        parts = [f"no array for {', '.join(missing)}"] if missing else []
        parts += [f"no input is called {', '.join(extra)}"] if extra else []
        raise InputMismatch(
            "; ".join(parts), where=path, advice=f"The inputs are {', '.join(wanted)}."
        )
    return [arrays[name] for name in wanted]


def save_outputs(plan: Plan, outputs: Sequence[Array], path: Path) -> None:
    """Write the outputs to a .npz file under their names.

    Raises:
        PackageWriteError: The file cannot be written.
    """
    arrays = {spec.name: array for spec, array in zip(plan.outputs, outputs, strict=True)}
    # An open file: to a path NumPy appends ".npz", also to that of a folder.
    with writing("outputs", path, "-o"), path.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def random_inputs(
    plan: Plan, sizes: Mapping[str, int], seed: int, examples: Sequence[Array] = ()
) -> list[Array]:
    """Random arrays that fit the contract.

    Args:
        plan: The contract.
        sizes: Dim label or symbol to its value.
        seed: Equal seeds give equal arrays.
        examples: Example inputs. They set the sizes that `sizes` leaves open and the range of
            integers (which may be indices, whose bounds no contract tells).

    Raises:
        UsageError: `sizes` names no dim, or a value that the contract forbids.
    """
    values = _dim_values(plan, sizes, examples)
    generator = np.random.default_rng(seed)
    arrays: list[Array] = []
    for index, spec in enumerate(plan.inputs):
        shape = [evaluate(e, values) for e in spec.shape]
        example = examples[index] if examples else None
        arrays.append(_random(generator, spec, shape, example))
    return arrays


def size_given(text: str, option: str = "--size") -> tuple[str, int]:
    """A dim's name and value from "DIM=N", which was given as that option.

    Raises:
        UsageError: It is nothing like that.
    """
    name, _, value = text.partition("=")
    if not value.isdigit():
        raise UsageError(
            f"{option} wants DIM=N, not {text!r}",
            advice="N is a whole number; `aot-package inspect` lists the dims.",
        )
    return name, int(value)


def _dim_values(plan: Plan, sizes: Mapping[str, int], examples: Sequence[Array]) -> dict[str, int]:
    given_by_inputs = [dim for dim in plan.dims if dim.source is not None]
    known = {name for dim in given_by_inputs for name in (dim.name, dim.label)}
    unknown = [name for name in sizes if name not in known]
    if unknown:
        raise UsageError(
            f"--size names {', '.join(unknown)}, which is no dynamic dim",
            advice="Dynamic dims: " + (", ".join(_labels(given_by_inputs)) or "none") + ".",
        )
    values: dict[str, int] = {}
    for dim in plan.dims:
        if dim.source is None:
            continue  # a run measures it
        given = sizes.get(dim.name, sizes.get(dim.label))
        if given is None:
            values[dim.name] = _default_size(dim, examples)
        else:
            _check_size(dim, given)
            values[dim.name] = given
    return values


def _labels(dims: Iterable[Dim]) -> list[str]:
    return sorted({dim.label or dim.name for dim in dims})


def _default_size(dim: Dim, examples: Sequence[Array]) -> int:
    source = dim.source
    if examples and source is not None:
        return (int(examples[source.input].shape[source.axis]) - source.offset) // source.divisor
    size = max(DEFAULT_SIZE, dim.min)
    size += -size % dim.multiple_of
    return size if dim.max is None else min(size, dim.max - dim.max % dim.multiple_of)


def _check_size(dim: Dim, value: int) -> None:
    if value < dim.min or (dim.max is not None and value > dim.max) or value % dim.multiple_of:
        upper = "any" if dim.max is None else str(dim.max)
        unit = f", in multiples of {dim.multiple_of}" if dim.multiple_of != 1 else ""
        raise UsageError(
            f"{dim.label} = {value} is not allowed",
            advice=f"It goes from {dim.min} to {upper}{unit}.",
        )


def _random(
    generator: np.random.Generator, spec: TensorSpec, shape: Sequence[int], example: Array | None
) -> Array:
    dtype = numpy_dtype(spec.dtype)
    if spec.dtype == "bool":
        return generator.integers(0, 2, shape).astype(dtype)
    if np.issubdtype(dtype, np.integer):
        low, high = (0, 1) if example is None or not example.size else _bounds(example)
        return generator.integers(low, high, shape, dtype, endpoint=True)
    values: Array = generator.standard_normal(shape)
    if is_complex(dtype):
        values = values + 1j * generator.standard_normal(shape)
    return values.astype(dtype)


def _bounds(example: Array) -> tuple[int, int]:
    return int(example.min()), int(example.max())
