"""What the user wrote: a model file, or a module with its arguments."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from aot.errors import AotError, ModelFileError
from aot.frontend.places import UserCode, first_lines, place_of_error

ShapeSpec = Any
"""torch.export's `dynamic_shapes`: a dict by parameter name, or a tuple by position, or None."""


@dataclass(frozen=True)
class ModelSource:
    """A model as the user gave it.

    Attributes:
        name: Short name for plans and dumps.
        module: What is traced.
        args: Positional example inputs.
        kwargs: Keyword example inputs.
        dynamic_shapes: As `torch.export` takes it, or None.
        extra_inputs: More positional inputs, of other sizes, for golden values and benchmarks.
        path: The model file, None when it came from Python.
        extra_kwargs: Keyword inputs of each of `extra_inputs`; what is left out is as in `kwargs`.
    """

    name: str
    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    dynamic_shapes: ShapeSpec = None
    extra_inputs: tuple[tuple[Any, ...], ...] = ()
    path: Path | None = None
    extra_kwargs: tuple[Mapping[str, Any], ...] = ()

    @property
    def root(self) -> Path | None:
        """Directory of the model file."""
        return self.path.parent if self.path else None


def read_model_file(path: Path) -> ModelSource:
    """Runs a model file and takes what it defines.

    Raises:
        ModelFileError: The file is missing, raises, or does not define what it must.
    """
    if not path.is_file():
        raise ModelFileError(f"there is no model file {path}", where=path)
    path = path.resolve()
    module = _run(path)
    model = _call_if_function(_defined(module, "model", path), path, torch.nn.Module)
    if not isinstance(model, torch.nn.Module):
        raise ModelFileError(
            f"`model` is a {type(model).__name__}, not an nn.Module or a function that returns one",
            where=path,
        )

    def given(name: str, default: Any) -> Any:
        return _call_if_function(getattr(module, name, default), path)

    kwargs = given("example_kwargs", {})
    if not isinstance(kwargs, Mapping):
        raise ModelFileError("`example_kwargs` is not a dict", where=path)
    if not kwargs:
        _defined(module, "example_inputs", path)
    extra = _sequence(given("extra_inputs", ()), "extra_inputs", path)
    extra_kwargs = _sequence(given("extra_kwargs", ()), "extra_kwargs", path)
    if not all(isinstance(e, Mapping) for e in extra_kwargs):
        raise ModelFileError("`extra_kwargs` is not a list of dicts", where=path)
    return ModelSource(
        path.parent.name if path.stem == "model" else path.stem,
        model,
        _inputs(given("example_inputs", ()), "example_inputs", path),
        dict(kwargs),
        given("dynamic_shapes", None),
        tuple(_inputs(e, "extra_inputs", path) for e in extra),
        path,
        tuple(dict(e) for e in extra_kwargs),
    )


def _run(path: Path) -> ModuleType:
    name = f"_aot_model_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ModelFileError(f"{path.name} is not a Python file", where=path)
    module = importlib.util.module_from_spec(spec)
    with _importable(path.parent), UserCode(_model_file_error(path, "the model file raises")):
        sys.modules[name] = module  # pickling and dataclasses look their module up
        spec.loader.exec_module(module)
    return module


@contextmanager
def _importable(directory: Path) -> Iterator[None]:
    """The model file may import its neighbours, as a script may."""
    sys.path.insert(0, str(directory))
    try:
        yield
    finally:
        sys.path.remove(str(directory))


def _model_file_error(path: Path, what: str) -> Callable[[BaseException], AotError]:
    def convert(error: BaseException) -> AotError:
        where = place_of_error(error, path.parent) or str(path)
        return ModelFileError(
            f"{what} {type(error).__name__}",
            where=where,
            details=first_lines(error),
            advice="Run the file with Python by itself; it must work there.",
        )

    return convert


def _defined(module: ModuleType, name: str, path: Path) -> Any:
    if not hasattr(module, name):
        raise ModelFileError(f"{path.name} defines no `{name}`", where=path)
    return getattr(module, name)


def _call_if_function(value: Any, path: Path, already: type | tuple[type, ...] = ()) -> Any:
    """Functions without arguments stand for what they return."""
    if isinstance(value, already) or not callable(value):
        return value
    name = getattr(value, "__name__", "function")
    with _importable(path.parent), UserCode(_model_file_error(path, f"`{name}()` raises")):
        return value()


def _inputs(value: Any, name: str, path: Path) -> tuple[Any, ...]:
    if isinstance(value, Mapping):
        by_name = {"example_inputs": "example_kwargs", "extra_inputs": "extra_kwargs"}[name]
        raise ModelFileError(
            f"`{name}` holds a dict where a tuple of inputs is wanted",
            where=path,
            advice=f"Inputs that are given by name are in `{by_name}`; an input that is a dict is "
            f"written as a tuple with a comma: `(inputs,)`.",
        )
    if isinstance(value, torch.Tensor) or not isinstance(value, Sequence) or isinstance(value, str):
        raise ModelFileError(
            f"`{name}` is a {type(value).__name__}, not a tuple of inputs",
            where=path,
            advice=f"One input is written as a tuple with a comma: `{name} = (x,)`.",
        )
    return tuple(value)


def _sequence(value: Any, name: str, path: Path) -> Sequence[Any]:
    if isinstance(value, torch.Tensor) or not isinstance(value, Sequence):
        raise ModelFileError(f"`{name}` is not a list of input tuples", where=path)
    return value
