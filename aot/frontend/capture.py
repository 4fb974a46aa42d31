"""From the user's model to an exported program in the operators that we lower."""

from __future__ import annotations

import inspect
import logging
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy, deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.export._trace  # export would import it later, amid searches for garbage
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from aot.errors import AotError, DynamicShapeError, InputMismatch, ModelFileError
from aot.frontend.aliases import merge_aliases
from aot.frontend.associative import open_scans
from aot.frontend.batches import open_batches
from aot.frontend.branch_constants import lift_constants
from aot.frontend.by_node import decomposed_by_node
from aot.frontend.collected import collected_once
from aot.frontend.composites import COMPOSITES, Traceable
from aot.frontend.computed_sizes import SmallSizes, computed_sizes
from aot.frontend.conv_layouts import eager_convolutions
from aot.frontend.conversions import settled_modules
from aot.frontend.decisions import Demands, asserted, checks_of, of_example
from aot.frontend.decompose import decomposition_table
from aot.frontend.derivatives import (
    export_above_autograd,
    export_below_autograd,
    takes_derivatives,
)
from aot.frontend.factor_checks import checks_inside
from aot.frontend.failures import (
    depends_on_values,
    export_error,
    fixes_size,
    place_of_model,
    violates_range,
    without_graphs,
)
from aot.frontend.fixed_sizes import FixedSize, fixed_size_error, fixing
from aot.frontend.flexible import attention_of_functions
from aot.frontend.joined import joining
from aot.frontend.labels import wanted_sizes
from aot.frontend.loop_functions import traced_functions
from aot.frontend.numerics import rounded_kinds
from aot.frontend.open_dims import as_hints, traceable, unasked_layouts
from aot.frontend.open_math import open_math, truncating
from aot.frontend.packed import PackedSequences
from aot.frontend.places import UserCode, first_lines, places_of
from aot.frontend.quick_export import quick_export
from aot.frontend.recurrent import WholeLayers
from aot.frontend.remade_views import remade_views
from aot.frontend.run_numbers import Namespace, asks_for_number, open_numbers, user_modules
from aot.frontend.size_decisions import SizeDecision, hearing
from aot.frontend.source import ModelSource, ShapeSpec, read_model_file
from aot.frontend.structures import name_parts, register_dataclasses, shapes_by_part, spelled_out
from aot.frontend.transformer_masks import settled_masks
from aot.frontend.true_loops import TrueLoops, Turn, TurnFails
from aot.frontend.turns import settle
from aot.frontend.user_kernels import analysing_kernels, launches_kernels
from aot.frontend.weights import holds_wrappers
from aot.frontend.written_views import open_sizes_kept, select_parts


@dataclass(frozen=True)
class Captured:
    """An exported program ready to be ingested, and what is known beside it.

    Attributes:
        name: The model's short name.
        program: Functional ATen operators, after our choice of decompositions.
        example: Positional and keyword example inputs.
        extra: More inputs, of other sizes: positional ones, and keyword ones.
        dynamic_shapes: What the user asked for; gives dims their labels.
        module: Computes reference outputs: the user's module in eval mode, or the program's.
        guards: torch's conditions on input sizes under which the program is valid, as Python text.
        decisions: Those of the user's code on sizes; none for a program that the user exported.
        parameter_names: Names of forward's parameters, in the order of the example inputs.
        root: Directory of the model file, None when it came from Python.
        tf32: As `TensorGraph.tf32`: what torch's settings allowed at the time.
        decided: Decisions on values that are those of the example: what runs that decide
            otherwise are told.
        derivatives: Whether forward takes derivatives, which callers without gradients turn off.
    """

    name: str
    program: ExportedProgram
    example: tuple[tuple[Any, ...], Mapping[str, Any]]
    extra: tuple[tuple[tuple[Any, ...], Mapping[str, Any]], ...]
    dynamic_shapes: ShapeSpec
    module: torch.nn.Module
    guards: tuple[str, ...]
    decisions: tuple[SizeDecision, ...]
    parameter_names: tuple[str, ...]
    root: Path | None
    tf32: tuple[str, ...] = ()
    decided: tuple[str, ...] = ()
    derivatives: bool = False


def capture_file(
    path: Path, operators: Sequence[str] = (), *, decide_as_example: bool = False
) -> Captured:
    """Captures a model file, or a saved ExportedProgram (`.pt2`).

    Args:
        path: The file.
        operators: Names of custom operators that stay calls, as `--operator` has them.
        decide_as_example: Decisions on values are those of the example, and are checked.

    Raises:
        ModelFileError, InputMismatch, ExportError, DynamicShapeError: See aot.errors.
    """
    if path.suffix == ".pt2":
        program = _load_program(path)
        return capture_program(program, name=path.stem, path=path.resolve(), operators=operators)
    return capture(read_model_file(path), operators, decide_as_example=decide_as_example)


def capture_module(
    module: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: ShapeSpec = None,
    extra_inputs: Sequence[Sequence[Any]] = (),
    extra_kwargs: Sequence[Mapping[str, Any]] = (),
    name: str = "",
    operators: Sequence[str] = (),
    decide_as_example: bool = False,
) -> Captured:
    """Captures a module from Python. The last two and errors: as `capture_file`."""
    extra = tuple(tuple(e) for e in extra_inputs)
    more = tuple(dict(e) for e in extra_kwargs)
    chosen = name or type(module).__name__
    source = ModelSource(
        chosen, module, tuple(args), dict(kwargs or {}), dynamic_shapes, extra, extra_kwargs=more
    )
    return capture(source, operators, decide_as_example=decide_as_example)


def capture(
    source: ModelSource, operators: Sequence[str] = (), *, decide_as_example: bool = False
) -> Captured:
    """Exports the model in eval mode (a package is for inference) and decomposes it.

    Raises:
        InputMismatch, ExportError, DynamicShapeError: See aot.errors.
    """
    _check_arguments(source)
    args, kwargs = _one_for_each((source.args, source.kwargs))
    register_dataclasses((args, kwargs))
    shapes = shapes_by_part(
        inspect.signature(source.module.forward), (args, kwargs), source.dynamic_shapes
    )
    source = replace(source, args=args, kwargs=kwargs, dynamic_shapes=shapes)
    with eval_mode(source.module), _quiet(), torch.no_grad():
        names = _parameter_names(source)
        with UserCode(export_error(source, names)):
            program, learnt = _traced(source, names, _Learnt(as_example=decide_as_example))
        with computed_sizes() as small:
            captured = _decomposed(program, source, names, operators, learnt)
        with UserCode(export_error(source, names)):
            again = _at_larger_sizes(source, names, replace(learnt, larger=_more(learnt, small)))
        return (
            captured if again is None else _decomposed(again[0], source, names, operators, again[1])
        )


def _one_for_each(example: Any) -> Any:
    """The example with a tensor for each input: torch takes one that is given twice for one."""
    seen: set[int] = set()

    def own(x: torch.Tensor) -> torch.Tensor:
        if id(x) in seen:
            return x.detach().clone(memory_format=torch.preserve_format)
        seen.add(id(x))
        return x

    return pytree.tree_map_only(torch.Tensor, own, example)


_UNKNOWN_RESULT = "in output, which is not a known type"


@dataclass(frozen=True)
class _Learnt:
    """What tracing, and its failures, have taught of a model.

    Attributes:
        checks: Its decisions that are assertions, once these were looked for.
        as_example: Whether decisions on values shall be those of the example.
        modules: Modules of its code that make numbers of values.
        failing: Turns of its loops that no run may make, and what the model raises in them.
        sizes: Its decisions on sizes.
        larger: Sizes of the example that computed ones made too small -> what they are traced with.
        derivatives: Whether it takes some.
        joined: Whether other decisions on values are branches.
    """

    checks: Demands | None = None
    as_example: bool = False
    modules: tuple[Namespace, ...] = ()
    failing: Mapping[Turn, str] = field(default_factory=dict)
    sizes: tuple[SizeDecision, ...] = ()
    larger: Mapping[int, int] = field(default_factory=dict)
    derivatives: bool = False
    joined: bool = False

    def decided(self) -> tuple[str, ...]:
        """The decisions that are those of the example, as a run that differs is told of them."""
        return tuple(c.message for c in (self.checks or {}).values() if c.of_example)


def _traced(
    source: ModelSource, names: Sequence[str], learnt: _Learnt
) -> tuple[ExportedProgram, _Learnt]:
    """Exports the module; sizes that the user left open become as wide as the model allows.

    Returns:
        The program, and what has been learnt of the model.

    Raises:
        DynamicShapeError: The model makes a constant of a size that shall be dynamic.
        RuntimeError: The module cannot be exported, and sizes as hints do not help.
        AssertionError: The same, where torch asserts it.
    """
    failure: BaseException | None = None
    with fixing() as fixed, computed_sizes() as small:
        try:
            found = _exported(source, names, learnt)
        except (RuntimeError, AssertionError, AttributeError) as error:
            failure = error
    larger = _more(learnt, small)
    if failure is None:
        return _at_larger_sizes(source, names, replace(found[1], larger=larger)) or found
    if _UNKNOWN_RESULT in str(failure):
        args, kwargs = source.args, source.kwargs
        if register_dataclasses(source.module(*args, **kwargs)):
            return _traced(source, names, learnt)
    taught = _taught(source, failure, learnt, fixed())
    if taught is not None:
        return _traced(source, names, taught)
    joined = _joined(source, names, failure, learnt)
    if joined is not None:
        return joined
    again = _at_larger_sizes(source, names, replace(learnt, larger=larger))
    if again is not None:
        return again
    raise fixed_size_error(failure, fixed()) or failure from failure.__cause__


def _joined(
    source: ModelSource, names: Sequence[str], failure: BaseException, learnt: _Learnt
) -> tuple[ExportedProgram, _Learnt] | None:
    """As `_traced`, decisions on values joined; None where that is no help: the failure stays."""
    if learnt.joined or not depends_on_values(failure):
        return None
    try:
        return _traced(source, names, replace(learnt, joined=True))
    except (RuntimeError, AssertionError, AttributeError, TypeError, ValueError, AotError):
        return None


def _more(learnt: _Learnt, small: SmallSizes) -> Mapping[int, int]:
    """Sizes to trace with where some that were computed are 0 or 1; none the second time."""
    return {} if learnt.larger else small.larger()


def _at_larger_sizes(
    source: ModelSource, names: Sequence[str], learnt: _Learnt
) -> tuple[ExportedProgram, _Learnt] | None:
    """As `_traced`, where sizes that are computed are not 0 or 1.

    None where there are none, where the model cannot be traced so, or decides otherwise there.
    """
    if not learnt.larger:
        return None
    try:
        found = _traced(source, names, learnt)
    except (RuntimeError, AssertionError, DynamicShapeError):
        return None
    answers = [{(d.place, d.answer) for d in some.sizes} for some in (learnt, found[1])]
    return found if not learnt.sizes or answers[0] == answers[1] else None


def _exported(
    source: ModelSource, names: Sequence[str], learnt: _Learnt
) -> tuple[ExportedProgram, _Learnt]:
    """Exports the module with what has been learnt; raises as `_traced`."""
    shapes = source.dynamic_shapes
    example = source.args, source.kwargs
    register_dataclasses(example)
    name_parts(example)
    args, kwargs = traceable(example, wanted_sizes(example, names, shapes), learnt.larger)

    def export(dynamic_shapes: ShapeSpec) -> tuple[ExportedProgram, _Learnt]:
        given = spelled_out(source.module, (args, kwargs))
        loops = TrueLoops(learnt.failing)
        with (
            WholeLayers(),
            PackedSequences(),
            Traceable(),
            loops,
            loops.unrolled(),
            settled_modules(),
            settled_masks(),
            open_numbers(learnt.modules),
            open_math(),
            open_scans(),
            traced_functions(Traceable, COMPOSITES),
            open_batches(),
            asserted(learnt.checks or {}),
            without_graphs(),
            unasked_layouts(),
            eager_convolutions(),
            hearing() as decisions,
            quick_export(),
            given as plain,
            joining(source.module, learnt.checks or {}) if learnt.joined else nullcontext(),
        ):
            record = export_below_autograd if learnt.derivatives else export_above_autograd
            program = record(source.module, plain[0], plain[1], dynamic_shapes)
        settle(program)
        lift_constants(program)
        return program, replace(learnt, sizes=decisions())

    try:
        return export(shapes)
    except (RuntimeError, AssertionError) as error:
        hints = as_hints(shapes)
        if not violates_range(error) or hints is shapes:
            raise
        return export(hints)


def _taught(
    source: ModelSource, error: BaseException, learnt: _Learnt, fixed: Sequence[FixedSize]
) -> _Learnt | None:
    """What was known, and what the failure adds to it; None where that is nothing."""
    if isinstance(error, TurnFails):
        return replace(learnt, failing={**learnt.failing, error.turn: error.message})
    if takes_derivatives(error):
        return None if learnt.derivatives else replace(learnt, derivatives=True)
    module = asks_for_number(error)
    asking = [module] if module is not None else []
    if fixes_size(error):
        asking += user_modules(source.module, [f.names for f in fixed])
    new = [m for m in asking if not any(m is known for known in learnt.modules)]
    if new:
        return replace(learnt, modules=(*learnt.modules, *new))
    if learnt.checks is None and depends_on_values(error):
        checks = _checks(source, as_example=learnt.as_example)
        return replace(learnt, checks=checks) if checks else None
    return None


def _checks(source: ModelSource, *, as_example: bool) -> Demands:
    """The model's decisions on values that are assertions; what its runs change is undone."""
    told = partial(of_example, places_of(source.root)) if as_example else None
    kept = [(b, b.clone()) for b in source.module.buffers() if not b.is_meta]

    def run() -> None:
        args, kwargs = pytree.tree_map_only(torch.Tensor, torch.clone, (source.args, source.kwargs))
        with torch.random.fork_rng(devices=[]):
            source.module(*args, **kwargs)

    def undo() -> None:
        for buffer, before in kept:
            buffer.copy_(before)

    dynamic = source.dynamic_shapes is not None
    return checks_of(run, undo, dynamic=dynamic, as_example=told)


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
        return _decomposed(_copied(program), source, (), operators, _Learnt())


def _copied(program: ExportedProgram) -> ExportedProgram:
    """The same program with a graph of its own: the user's stays as it is. Weights are shared."""
    own, graph = copy(program), deepcopy(program.graph)
    for new, old in zip(graph.nodes, program.graph.nodes, strict=True):
        new.name = old.name  # copies are called otherwise where that is a name of Python's: `input`
    own._graph_module = torch.fx.GraphModule(program.graph_module, graph)
    own._graph_module.meta.update(program.graph_module.meta)
    own._graph_signature = deepcopy(program.graph_signature)
    own._constants = dict(program.constants)
    return own


def _decomposed(
    program: ExportedProgram,
    source: ModelSource,
    names: tuple[str, ...],
    operators: Sequence[str],
    learnt: _Learnt,
) -> Captured:
    guards = tuple(getattr(program, "_guards_code", None) or ())
    merge_aliases(program)
    told = UserCode(export_error(source))
    with told, unasked_layouts(), eager_convolutions(), truncating():
        traced = learnt.derivatives or holds_wrappers(program)
        if traced or not decomposed_by_node(program):
            with open_sizes_kept(program, source.dynamic_shapes):
                program = _traced_again(program, operators)
    return Captured(
        source.name,
        program,
        (source.args, source.kwargs),
        _extra(source),
        source.dynamic_shapes,
        source.module,
        guards,
        learnt.sizes,
        names,
        source.root,
        rounded_kinds(),
        learnt.decided(),
        learnt.derivatives,
    )


def _traced_again(program: ExportedProgram, operators: Sequence[str]) -> ExportedProgram:
    apart = launches_kernels(program, operators)
    select_parts(program)
    with collected_once():
        table = decomposition_table()
    with (
        checks_inside(program) as checks,
        _without_guards(program),
        analysing_kernels(),
        attention_of_functions(),
        open_batches(),
        remade_views(),
        collected_once(),
        quick_export(),
    ):
        again: ExportedProgram = program.run_decompositions(
            {**table, **checks}, decompose_custom_triton_ops=apart
        )
    return again


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


def _extra(source: ModelSource) -> tuple[tuple[tuple[Any, ...], dict[str, Any]], ...]:
    """Each of the extra inputs with its keyword inputs, which those of the example fill up.

    Raises:
        InputMismatch: There are not as many of both.
    """
    args, kwargs = source.extra_inputs, source.extra_kwargs
    if args and kwargs and len(args) != len(kwargs):
        raise InputMismatch(
            f"there are {len(args)} extra inputs and {len(kwargs)} extra keyword inputs",
            where=str(source.path or ""),
            advice="Give `extra_kwargs` one dict for each of `extra_inputs`; both may be empty.",
        )
    count = len(args) or len(kwargs)
    return tuple(
        (args[k] if args else source.args, {**source.kwargs, **(kwargs[k] if kwargs else {})})
        for k in range(count)
    )


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
    # The others have that of "torch". Each change makes all loggers think again.
    levels = {n: own for n, own in levels.items() if own or not n.startswith("torch.")}
    for name in levels:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
