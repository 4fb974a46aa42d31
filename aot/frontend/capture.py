"""From the user's model to an exported program in the operators that we lower."""

from __future__ import annotations

import inspect
import logging
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from aot.errors import AotError, DynamicShapeError, ExportError, InputMismatch, ModelFileError
from aot.frontend.aliases import merge_aliases
from aot.frontend.decompose import decomposition_table
from aot.frontend.labels import wanted_sizes
from aot.frontend.open_dims import narrowed_by_model, traceable
from aot.frontend.places import UserCode, first_lines, is_users, place_of_error
from aot.frontend.recurrent import WholeLayers
from aot.frontend.source import ModelSource, ShapeSpec, read_model_file
from aot.frontend.user_kernels import analysing_kernels, launches_kernels

_TORCH_ADVICE = (
    "The error above occurred",
    "For more information",
    "For more debugging help",
    "For extended logs",
    "For C++ stack trace",
    "If you suspect",
    "consider using data-dependent",
)


@dataclass(frozen=True)
class Captured:
    """An exported program ready to be ingested, and what is known beside it.

    Attributes:
        name: The model's short name.
        program: Functional ATen operators, after our choice of decompositions.
        example: Positional and keyword example inputs.
        extra_inputs: More positional inputs, of other sizes.
        dynamic_shapes: What the user asked for; gives dims their labels.
        module: Computes reference outputs: the user's module in eval mode, or the program's.
        guards: torch's conditions on input sizes under which the program is valid, as Python text.
        parameter_names: Names of forward's parameters, in the order of the example inputs.
        root: Directory of the model file, None when it came from Python.
    """

    name: str
    program: ExportedProgram
    example: tuple[tuple[Any, ...], Mapping[str, Any]]
    extra_inputs: tuple[tuple[Any, ...], ...]
    dynamic_shapes: ShapeSpec
    module: torch.nn.Module
    guards: tuple[str, ...]
    parameter_names: tuple[str, ...]
    root: Path | None


def capture_file(path: Path, operators: Sequence[str] = ()) -> Captured:
    """Captures a model file, or a saved ExportedProgram (`.pt2`).

    Args:
        path: The file.
        operators: Names of custom operators that stay calls, as `--operator` has them.

    Raises:
        ModelFileError, InputMismatch, ExportError, DynamicShapeError: See aot.errors.
    """
    if path.suffix == ".pt2":
        program = _load_program(path)
        return capture_program(program, name=path.stem, path=path.resolve(), operators=operators)
    return capture(read_model_file(path), operators)


def capture_module(
    module: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: ShapeSpec = None,
    extra_inputs: Sequence[Sequence[Any]] = (),
    name: str = "",
    operators: Sequence[str] = (),
) -> Captured:
    """Captures a module from Python. `operators` and errors: as `capture_file`."""
    extra = tuple(tuple(e) for e in extra_inputs)
    chosen = name or type(module).__name__
    return capture(
        ModelSource(chosen, module, tuple(args), dict(kwargs or {}), dynamic_shapes, extra),
        operators,
    )


def capture(source: ModelSource, operators: Sequence[str] = ()) -> Captured:
    """Exports the model in eval mode (a package is for inference) and decomposes it.

    Raises:
        InputMismatch, ExportError, DynamicShapeError: See aot.errors.
    """
    _check_arguments(source)
    args, kwargs = _one_for_each((source.args, source.kwargs))
    source = replace(source, args=args, kwargs=kwargs)
    with eval_mode(source.module), _quiet(), torch.no_grad():
        names = _parameter_names(source)
        with UserCode(_export_error(source)):
            program = _traced(source, names)
        return _decomposed(program, source, source.module, names, operators)


def _one_for_each(example: Any) -> Any:
    """The example with a tensor for each input: torch takes one that is given twice for one."""
    seen: set[int] = set()

    def own(x: torch.Tensor) -> torch.Tensor:
        if id(x) in seen:
            return x.detach().clone(memory_format=torch.preserve_format)
        seen.add(id(x))
        return x

    return pytree.tree_map_only(torch.Tensor, own, example)


def _traced(source: ModelSource, names: Sequence[str]) -> ExportedProgram:
    """Exports the module; sizes that the user left open become as wide as the model allows.

    Raises:
        RuntimeError: The module cannot be exported, and narrower sizes do not help.
        AssertionError: The same, where torch asserts it.
    """
    shapes = source.dynamic_shapes
    example = source.args, source.kwargs
    args, kwargs = traceable(example, wanted_sizes(example, names, shapes))

    def export(dynamic_shapes: ShapeSpec) -> ExportedProgram:
        with WholeLayers():
            return torch.export.export(
                source.module, args, kwargs, dynamic_shapes=dynamic_shapes, strict=False
            )

    try:
        return export(shapes)
    except (RuntimeError, AssertionError) as error:
        narrowed = narrowed_by_model(shapes)
        if not _violates_range(error) or narrowed is shapes:
            raise
        return export(narrowed)


def capture_program(
    program: ExportedProgram,
    *,
    name: str = "model",
    path: Path | None = None,
    operators: Sequence[str] = (),
) -> Captured:
    """Captures a program that the user exported. Raises ExportError."""
    example = program.example_inputs
    args, kwargs = example if example is not None else ((), {})
    module = program.module()
    source = ModelSource(name, module, tuple(args), dict(kwargs), path=path)
    with _quiet(), torch.no_grad():
        return _decomposed(program, source, module, (), operators)


def _decomposed(
    program: ExportedProgram,
    source: ModelSource,
    module: torch.nn.Module,
    names: tuple[str, ...],
    operators: Sequence[str],
) -> Captured:
    guards = tuple(getattr(program, "_guards_code", None) or ())
    merge_aliases(program)
    apart = launches_kernels(program, operators)
    with UserCode(_export_error(source)), _without_guards(program), analysing_kernels():
        lowered = program.run_decompositions(
            decomposition_table(), decompose_custom_triton_ops=apart
        )
    return Captured(
        source.name,
        lowered,
        (source.args, source.kwargs),
        source.extra_inputs,
        source.dynamic_shapes,
        module,
        guards,
        names,
        source.root,
    )


@contextmanager
def _without_guards(program: ExportedProgram) -> Iterator[None]:
    """Takes the guards, which we check ourselves, out of the module that torch takes apart.

    They read the sizes of all inputs, and fail at one that the model does not use.
    """
    program.module = partial(program.module, check_guards=False)  # type: ignore[method-assign]
    try:
        yield
    finally:
        del program.module


def _load_program(path: Path) -> ExportedProgram:
    if not path.is_file():
        raise ModelFileError(f"there is no file {path}", where=path)
    if not zipfile.is_zipfile(path):
        raise ModelFileError(
            f"{path.name} is not an exported program",
            where=path,
            advice="Write it with torch.export.save.",
        )

    def convert(error: BaseException) -> AotError:
        return ModelFileError(
            f"{path.name} is not an exported program of this torch ({torch.__version__})",
            where=path,
            details=first_lines(error),
            advice="Write it with torch.export.save of the same torch version.",
        )

    with _quiet(), UserCode(convert):
        return torch.export.load(path)


def _check_arguments(source: ModelSource) -> None:
    """Too few, too many or unknown arguments, before torch says it less clearly.

    Raises:
        InputMismatch: The example inputs do not fit forward's parameters.
    """
    signature = inspect.signature(source.module.forward)
    try:
        signature.bind(*source.args, **source.kwargs)
    except TypeError as error:
        raise InputMismatch(
            f"the example inputs do not fit forward{signature}: {error}",
            where=place_of_model(source),
            advice="Make `example_inputs` (and `example_kwargs`) match forward's parameters.",
        ) from error


def place_of_model(source: ModelSource) -> str:
    """The place of the module's forward ("file:line") when the user wrote it, else the file."""
    code = getattr(source.module.forward, "__code__", None)
    if code is not None and is_users(code.co_filename):
        return f"{code.co_filename}:{code.co_firstlineno}"
    return str(source.path or "")


def _parameter_names(source: ModelSource) -> tuple[str, ...]:
    signature = inspect.signature(source.module.forward)
    bound = signature.bind(*source.args, **source.kwargs)
    names: list[str] = []
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            names += [f"{name}_{k}" for k in range(len(value))]
        elif kind is not inspect.Parameter.VAR_KEYWORD and name not in source.kwargs:
            names.append(name)
    return (*names, *source.kwargs)


@contextmanager
def eval_mode(module: torch.nn.Module) -> Iterator[None]:
    """Dropout and batch norm as at inference; every submodule's mode is restored afterwards."""
    # Flags are set by hand: an exported program's module refuses `eval()`, having no modes.
    training = [m for m in module.modules() if m.training]
    for m in training:
        m.training = False
    try:
        yield
    finally:
        for m in training:
            m.training = True


@contextmanager
def _quiet() -> Iterator[None]:
    """No warnings and log lines of torch's tracing: what matters is in the error we raise."""
    logger = logging.getLogger("torch")
    disabled = [name for name in logger.manager.loggerDict if name.startswith("torch")]
    levels = {name: logging.getLogger(name).level for name in (*disabled, "torch")}
    for name in levels:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def _export_error(source: ModelSource) -> Callable[[BaseException], AotError]:
    """Sorts a failure of torch.export: the inputs, the dynamic shapes, or the model."""

    def convert(error: BaseException) -> AotError:
        where = place_of_error(error, source.root) or place_of_model(source)
        details = first_lines(error, _TORCH_ADVICE)
        if type(error).__name__ == "UserError" and _about_shapes(str(error)):
            return DynamicShapeError(
                "the model does not allow the dynamic shapes that were asked for",
                where=place_of_model(source),
                details=details,
                advice=_shape_advice(str(error)),
            )
        eager = _eager_failure(source)
        if eager is not None:
            return InputMismatch(
                "the model itself fails with the example inputs",
                where=place_of_error(eager, source.root) or where,
                details=first_lines(eager),
            )
        tied = _tied_buffers(source.module)
        if tied:
            return ExportError(
                f"torch.export cannot trace the model, whose buffers {' and '.join(tied)} are the "
                "same memory",
                where=where,
                details=details,
                advice="When the model changes one of them, register the tensor once.",
            )
        return ExportError("torch.export cannot trace the model", where=where, details=details)

    return convert


def _tied_buffers(module: torch.nn.Module) -> list[str]:
    """Names of the first buffers found that are one tensor."""
    names: dict[int, list[str]] = {}
    for name, buffer in module.named_buffers(remove_duplicate=False):
        names.setdefault(id(buffer), []).append(name)
    return next((found for found in names.values() if len(found) > 1), [])


def _about_shapes(message: str) -> bool:
    return "Constraints violated" in message or "dynamic_shapes" in message


def _violates_range(error: BaseException) -> bool:
    """Whether some dimension's range is too wide for the model, and none is a constant in it."""
    text = str(error)
    # torch fails an assertion of its own where it would print a bound that is no integer.
    broken = isinstance(error, AssertionError) and text.startswith("Expected op to be '=='")
    return broken or ("Constraints violated" in text and "to be a constant" not in text)


def _shape_advice(message: str) -> str:
    if "to be a constant (1)" in message or "to be a constant (0)" in message:
        return "Use an example size of at least 2 in dynamic dimensions: torch fixes 0 and 1."
    if "specialized it to be a constant" in message:
        return (
            "Make the dimension static. Where nothing in the model asks for this very size, some "
            "size computed from it is 0 or 1 in the example, which torch fixes: use a larger one."
        )
    if "generated guard" in message:
        return "Give the named dimensions the range that the guards allow: Dim(…, min=…, max=…)."
    return ""


def _eager_failure(source: ModelSource) -> BaseException | None:
    """What the model raises when it just runs; None when it works."""
    failures: list[BaseException] = []

    def keep(error: BaseException) -> AotError:
        failures.append(error)
        return InputMismatch(str(error))

    try:
        with UserCode(keep):
            source.module(*source.args, **source.kwargs)
    except InputMismatch:
        return failures[0] if failures else None
    return None
