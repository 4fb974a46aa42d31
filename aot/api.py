"""The compiler from Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from aot import check as checking  # noqa: F401  the command line finds it here
from aot import driver, options
from aot import tune as tuning
from aot.backends.registry import begin
from aot.errors import UsageError
from aot.frontend.capture import capture_file, capture_module, capture_program
from aot.frontend.eager import eager_call
from aot.report.model import BuildReport
from aot.report.notebook import progress


def package(
    module_or_program: torch.nn.Module | ExportedProgram,
    args: Sequence[Any] = (),
    *,
    path: str | Path,
    kwargs: Mapping[str, Any] | None = None,
    targets: Sequence[str] = options.DEFAULT_TARGETS,
    dynamic_shapes: Any = None,
    extra_inputs: Sequence[Sequence[Any]] = (),
    extra_kwargs: Sequence[Mapping[str, Any]] = (),
    golden: bool = True,
    swappable: bool = False,
    keep_originals: bool = False,
    weights_file: str = "",
    exact_floats: bool = False,
    decide_as_example: bool = False,
    typical: Mapping[str, int] | None = None,
    tune: int = 0,
    operators: Sequence[str] = (),
    operator_libraries: Sequence[str | Path] = (),
    files: Mapping[str, str | Path] | None = None,
) -> BuildReport:
    """Packages a module, or a program that `torch.export` made, into the file `path`.

    Args:
        module_or_program: What to package. A module is exported in eval mode.
        args: Example inputs of the module's forward; none for a program.
        path: The package to write; an older file is replaced when the new one is whole.
        kwargs: Example keyword inputs.
        targets: As `--target`: "cpu", "cpu:x86-64-v3", "cuda:sm_80+sm_90", …; one package for all.
        dynamic_shapes: As `torch.export.export` takes it.
        extra_inputs: More positional inputs, of other sizes, for the golden values.
        extra_kwargs: Keyword inputs of each of them; what is left out is as in `kwargs`.
        golden: Keep the example inputs and eager's outputs in the package, for `verify`.
        swappable: Weights can be replaced at run time, all of them together.
        keep_originals: The same, also some of them alone, or added to.
        weights_file: Name of a file beside the package that the weights go to; "": into it.
        exact_floats: Nothing rounds float32 to TF32, whatever torch's settings let eager do.
        decide_as_example: Take each decision on values (`if mask.any():`) as the example does; a
            run that decides otherwise is refused. Without it, such a model is.
        typical: Dynamic sizes that kernels are chosen for, by the name of a `Dim`; without, the
            example's. A package is right at all sizes, and fastest near these.
        tune: Measure so many configurations of each template on this machine's GPU, for which the
            package must be (`targets`); 8 are most of what can be gained. 0 measures nothing.
        operators: Custom operators ("ns::name", "ns::*") that the loading program registers.
        operator_libraries: Shared objects with custom operators for the package to carry.
        files: Files for the package to carry, such as a tokenizer, by their names in it.

    In a notebook, the cell shows the stages while it works, and the result as a table.

    Returns:
        What was built: kernels, decisions, timings.

    Raises:
        aot.errors.UsageError: An option has no meaning, or does not go with a program.
        aot.errors.AotError: One of its subclasses says what is wrong, where, and what to do.
    """
    chosen = options.from_environment(
        output=Path(path),
        targets=options.merge_targets([options.parse_target(t) for t in targets]),
        golden=golden,
        swappable=swappable,
        keep_originals=keep_originals,
        weights_file=weights_file,
        exact_floats=exact_floats,
        decide_as_example=decide_as_example,
        typical=tuple((typical or {}).items()),
        tune=tune,
        operators=tuple(operators),
        operator_libraries=tuple(Path(path) for path in operator_libraries),
        files=tuple((name, Path(path)) for name, path in (files or {}).items()),
    )
    if isinstance(module_or_program, ExportedProgram) and (
        args or kwargs or dynamic_shapes is not None
    ):
        raise UsageError(
            "a saved program has its inputs and dynamic shapes already",
            advice="Leave out args, kwargs and dynamic_shapes, or give the module itself.",
        )
    begin(chosen)  # compilers work while the model is captured
    if isinstance(module_or_program, ExportedProgram):
        capture = partial(capture_program, module_or_program)
    else:
        capture = partial(
            capture_module,
            module_or_program,
            args,
            kwargs,
            dynamic_shapes=dynamic_shapes,
            extra_inputs=extra_inputs,
            extra_kwargs=extra_kwargs,
            decide_as_example=decide_as_example,
        )
    return driver.build(
        lambda called: capture(operators=called), chosen, progress(), tune=tuning.measured
    )


def eager(path: Path, inputs: Sequence[Any], threads: int) -> Callable[[], object]:
    """The model of a file as a call in eager PyTorch, to compare a package with.

    Args:
        path: A model file, or a saved ExportedProgram (`.pt2`).
        inputs: One array for each input.
        threads: Threads that torch may use.
    """
    return eager_call(capture_file(path), inputs, threads)
