"""Why torch.export could not trace a model: what is wrong, where, and what its author can do."""

from __future__ import annotations

import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from typing import Any

import numpy as np
import torch

from aot.errors import AotError, DynamicShapeError, ExportError, InputMismatch
from aot.frontend.guards import check_to_add
from aot.frontend.labels import wanted_sizes
from aot.frontend.places import failure_of, first_lines, is_users, place_of_error
from aot.frontend.run_numbers import FIXED
from aot.frontend.source import ModelSource
from aot.frontend.structures import named_leaves, without_counterpart

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
class _Cause:
    """One way in which tracing fails.

    Attributes:
        sign: What "TypeOfError: message" begins with, or has in it, as a regular expression.
        message: What is wrong with the model.
        advice: What its author can do.
    """

    sign: str
    message: str
    advice: str


_CAUSES = (
    _Cause(
        r"^GuardOnDataDependentSymNode: Could not guard",
        "a decision of the model depends on the values of a tensor, which are known only when it "
        "runs",
        "Write a branch as torch.cond (one side runs) or torch.where (both do), a loop as "
        "torch.while_loop. A side that only raises may stay: it becomes an assertion. Where every "
        "run decides as the example does, --decide-as-example (decide_as_example=True) checks it.",
    ),
    _Cause(
        r"^GuardOnDataDependentSymNode: Could not extract",
        "the model uses a number as a constant that it computes from the values of a tensor",
        "Sizes and numbers of arithmetic may stay numbers of the run. Repeat by torch.while_loop; "
        "give a number that never changes to the model as an int.",
    ),
    _Cause(
        r"^AssertionError: Guard failed on the same frame.*on data-dependent",
        "a function that the model gives to torch.while_loop, scan, map or cond has a tensor whose "
        "size the values of another determine, beside one of a size of the inputs",
        "Cut it before (counts[:n]), so that both have the same size; torch.bincount, nonzero, "
        "unique and indexing by a mask make such tensors.",
    ),
    _Cause(
        FIXED,
        "the model uses a number as a constant that sizes determine",
        "Functions of the module `math` by that name (math.sqrt), round, min and max let it stay a "
        "number of the run; others want a whole number, or a tensor.",
    ),
    _Cause(
        r"item NYI for torch\.complex",
        "the model takes a complex number out of a tensor, and torch.export has no such numbers",
        "Keep it in a tensor without dimensions, or take x.real.item() and x.imag.item().",
    ),
    _Cause(
        r"^TypeError: unhashable type: non-nested SymInt",
        "a dynamic size is a key of a dict, an element of a set or an argument of a function that "
        "keeps its results (functools.lru_cache, einx), and it has no hash",
        "Write the named line without: torch's reshape, permute and arange take dynamic sizes, "
        "and so do einops and a list in place of a set. Or leave the dimension static.",
    ),
    _Cause(
        r"^DynamicOutputShapeException",
        "an operator's result is as large as the values of a tensor say, and torch.export has no "
        "number for that size",
        "Write it with operators whose results are as large as their inputs say, with nonzero or "
        "masks, or make this part a custom operator: docs/custom-operators.md.",
    ),
    _Cause(
        r"Exporting a ScriptModule is not supported",
        "TorchScript modules cannot be traced",
        "Package the Python module that the script was made from.",
    ),
    _Cause(
        r"__torch__\.torch\.classes|torch\.ScriptObject|LinearPackedParams",
        "the model holds weights packed for one of torch's own engines, as quantize_dynamic and "
        "torch.ao.quantization.convert make them",
        "Package the module as it was before that step. Weights in 8 bits that are plain tensors "
        "(int8 with scales, multiplied out in forward) can be packaged.",
    ),
    _Cause(
        r"\.numpy\(\) is not supported",
        "the model leaves PyTorch: it asks a tensor for a NumPy array",
        "Use operators of PyTorch, or make this part a custom operator: docs/custom-operators.md.",
    ),
    _Cause(
        r"NestedTensor|NestedInt|Unable to cast NotImplemented to Tensor",
        "the model makes tensors of a subclass, such as nested ones, which torch.export cannot "
        "trace",
        "Use padded tensors with a mask, or all values one after the other with their offsets.",
    ),
    _Cause(
        r"Constant \S+ is mutated in the forward",
        "forward changes a tensor that the module does not know as a buffer",
        "Give it to register_buffer; where another module holds it, that one has to be a submodule "
        "and no variable around forward.",
    ),
    _Cause(
        r"Found <class .* in output",
        "forward gives an object that torch cannot look into",
        "Return tensors, tuples, lists, dicts or dataclasses of them, or register the class: "
        "torch.utils._pytree.register_pytree_node.",
    ),
)


def place_of_model(source: ModelSource) -> str:
    """The place of the module's forward ("file:line") when the user wrote it, else the file."""
    code = getattr(source.module.forward, "__code__", None)
    if code is not None and is_users(code.co_filename):
        return f"{code.co_filename}:{code.co_firstlineno}"
    return str(source.path or "")


def export_error(
    source: ModelSource, names: tuple[str, ...] = ()
) -> Callable[[BaseException], AotError]:
    """Sorts a failure of torch.export: the inputs, the dynamic shapes, or the model.

    Args:
        source: The model.
        names: Of forward's parameters, in the order of the example inputs.
    """

    def convert(error: BaseException) -> AotError:
        where = place_of_error(error, source.root) or place_of_model(source)
        details = first_lines(error, _TORCH_ADVICE)
        if type(error).__name__ == "UserError" and _about_shapes(str(error)):
            misspelt = _misspelt_shapes(str(error))
            return DynamicShapeError(
                "the dynamic shapes that were asked for do not fit the inputs"
                if misspelt
                else "the model does not allow the dynamic shapes that were asked for",
                where=place_of_model(source),
                details=details,
                advice=misspelt or _shape_advice(str(error)),
            )
        given = _wrong_with_what_is_given(source, names, str(error))
        if given is not None:
            return given
        eager = failure_of(lambda: source.module(*source.args, **source.kwargs))
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
        scripted = _scripted_part(source.module)
        if scripted:
            return ExportError(
                f"torch.export cannot trace {scripted}, a TorchScript module with weights",
                where=where,
                details=details,
                advice="Use the Python module that it was made from; functions of torch.jit.script "
                "may stay.",
            )
        text = first_lines(error) + _through_nested(error)
        for cause in _CAUSES:
            if re.search(cause.sign, text):
                line = check_to_add(error, where)
                told = {"advice": line} if line else {"details": details, "advice": cause.advice}
                return ExportError(cause.message, where=where, **told)
        return ExportError("torch.export cannot trace the model", where=where, details=details)

    return convert


def _through_nested(error: BaseException) -> str:
    """A line that names nested tensors when the failure lies in torch's module for them, else "".

    The first one of a process to be made within a trace leaves a size there that the trace does
    not know, and torch's message names that size only.
    """
    frames = traceback.walk_tb(error.__traceback__)
    inside = any("torch/nested/" in f.f_code.co_filename for f, _ in frames)
    return "\nNestedTensor" if inside else ""


def _wrong_with_what_is_given(
    source: ModelSource, names: tuple[str, ...], message: str
) -> AotError | None:
    """An example out of range, an argument of an odd type, weights without values; else None."""
    where = place_of_model(source)
    if _OTHER_STRUCTURE in message and _rest(source):
        return DynamicShapeError(
            f"torch.export takes no dynamic shapes for inputs that **{_rest(source)} collects",
            where=where,
            advice="Make them parameters of forward, by name, or leave the shapes static.",
        )
    outside = _size_out_of_range(source, names) if _NOT_IN_RANGE in message else ""
    if outside:
        return DynamicShapeError(
            outside,
            where=where,
            advice="Give an example within the range, or ask for a wider one: "
            "Dim(…, min=…, max=…).",
        )
    beyond = _dimension_beyond(source, names) if _NO_DIMENSION in message else ""
    if beyond:
        return DynamicShapeError(
            beyond,
            where=where,
            advice="Dimensions are counted from 0: dynamic_shapes = ({0: Dim(…)}, …).",
        )
    odd = without_counterpart(names, (*source.args, *source.kwargs.values()))
    if odd is not None:
        return _without_counterpart(source, *odd)
    other = next((n for n, t in _inputs(source, names) if t.layout is not torch.strided), "")
    if other:
        return not_plain(other, where)
    meta = next((n for n, t in _weights(source.module) if t.is_meta), "")
    if meta:
        return ExportError(
            f"the weight {meta} is on the meta device, where tensors have no values",
            where=where,
            advice="Load the weights before packaging: load_state_dict(…, assign=True).",
        )
    return None


def not_plain(name: str, where: str = "") -> ExportError:
    """Of an input that is a nested or sparse tensor."""
    return ExportError(
        f"the input {name} is no plain tensor (a nested or sparse one), which a package cannot "
        "hold",
        where=where,
        advice="Give its parts as tensors: padded values and lengths, values and offsets, or "
        "values and indices.",
    )


_NOT_IN_RANGE = " not in range ["
_NO_DIMENSION = "list assignment index out of range"
"""torch's words where shapes name a dimension that an input does not have."""


def _asked_sizes(
    source: ModelSource, names: tuple[str, ...]
) -> Iterator[tuple[str, torch.Tensor, int, Any]]:
    """How each input is named for which a size was asked, itself, the dimension and the size."""
    example = source.args, source.kwargs
    tensors = list(_inputs(source, names))
    wanted = wanted_sizes(example, names, source.dynamic_shapes)
    for (position, axis), asked in wanted.items():
        path, tensor = tensors[position]
        yield path, tensor, axis, asked


def _dimension_beyond(source: ModelSource, names: tuple[str, ...]) -> str:
    """Which dimension was asked for that its input does not have; "" for none."""
    for path, tensor, axis, _ in _asked_sizes(source, names):
        if axis not in range(tensor.dim()):
            count = f"{tensor.dim()} dimension{'s' if tensor.dim() != 1 else ''}"
            return f"dynamic_shapes names dimension {axis} of {path}, which has {count}"
    return ""


def _size_out_of_range(source: ModelSource, names: tuple[str, ...]) -> str:
    """Which size of the example is outside of the range that was asked for; "" for none."""
    for path, tensor, axis, asked in _asked_sizes(source, names):
        low, high = getattr(asked, "min", None), getattr(asked, "max", None)
        size = tensor.shape[axis]
        if (low is not None and size < low) or (high is not None and size > high):
            return (
                f"the example's {path} has {size} elements along dimension {axis}, for which "
                f"{low} to {high} was asked for"
            )
    return ""


def _without_counterpart(source: ModelSource, path: str, kind: type[object]) -> AotError:
    if kind is np.ndarray:
        return InputMismatch(
            f"the argument {path} is an array of NumPy's, where torch wants a tensor",
            where=place_of_model(source),
            advice="Give torch.from_numpy(…); the package itself takes arrays of NumPy's.",
        )
    return ExportError(
        f"the argument {path} is a {kind.__name__}, which a package cannot hold",
        where=place_of_model(source),
        advice="Arguments are tensors, numbers, text, None, and tuples, lists, dicts and "
        "dataclasses of them: make the rest of such values in forward, or in a module around it.",
    )


def _inputs(source: ModelSource, names: Sequence[str]) -> Iterator[tuple[str, torch.Tensor]]:
    """The example's tensors, with their paths."""
    for name, value in zip(names, (*source.args, *source.kwargs.values()), strict=False):
        leaves = named_leaves(value, name)
        yield from ((path, leaf) for path, leaf in leaves if isinstance(leaf, torch.Tensor))


def _weights(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()


@contextmanager
def without_graphs() -> Iterator[None]:
    """Keeps from standard error the graph that torch prints of a model that it cannot trace."""
    shown, sys.stderr = sys.stderr, StringIO()
    graph = ""
    try:
        yield
    except RuntimeError as error:
        graph = f"{getattr(error, 'partial_fx_graph', '')}"
        raise
    finally:
        written, sys.stderr = sys.stderr.getvalue(), shown
        sys.stderr.write(written.replace(f"{graph}\n", "") if graph else written)


def _tied_buffers(module: torch.nn.Module) -> list[str]:
    """Names of the first buffers found that are one tensor."""
    names: dict[int, list[str]] = {}
    for name, buffer in module.named_buffers(remove_duplicate=False):
        names.setdefault(id(buffer), []).append(name)
    return next((found for found in names.values() if len(found) > 1), [])


def _scripted_part(module: torch.nn.Module) -> str:
    """The first part that is a TorchScript module with weights; "" for none."""
    for name, part in module.named_modules():
        if name and isinstance(part, torch.jit.ScriptModule) and any(True for _ in _weights(part)):
            return str(name)
    return ""


def _rest(source: ModelSource) -> str:
    """The parameter that takes all inputs that are given by other names, "" where there is none."""
    parameters = inspect.signature(source.module.forward).parameters.values()
    return next((p.name for p in parameters if p.kind is inspect.Parameter.VAR_KEYWORD), "")


_OTHER_STRUCTURE = "Must provide a tree_name"
"""torch's assertion where shapes and inputs are not nested alike."""


def _about_shapes(message: str) -> bool:
    return "Constraints violated" in message or "dynamic_shapes" in message


_UNPRINTED = ("Expected op to be '=='", "Cannot create Dim with inconsistent")


def violates_range(error: BaseException) -> bool:
    """Whether some dimension's range is too wide for the model, and none is a constant in it."""
    text = str(error)
    # torch fails assertions of its own where it would print a bound that is no integer, or none.
    broken = isinstance(error, AssertionError) and text.startswith(_UNPRINTED)
    return broken or ("Constraints violated" in text and "to be a constant" not in text)


def fixes_size(error: BaseException) -> bool:
    """Whether the model makes a constant of a size that shall be dynamic."""
    return "specialized it to be a constant" in str(error)


def depends_on_values(error: BaseException) -> bool:
    """Whether torch gave up where the model asks for a value."""
    return type(error).__name__ in ("GuardOnDataDependentSymNode", "DataDependentOutputException")


_MISSPELT_SHAPES = (
    (
        r"top-level keys must be the arg names",
        "Keys are the names of forward's parameters; or give a tuple with an entry for each input.",
    ),
    (
        r"Detected mismatch between the structure",
        "Give an entry for each input, nested as the inputs are; None where nothing is dynamic.",
    ),
    (
        r"Unexpected (dimension mapped|input tensor shape)",
        "An entry is {dimension: size}, {0: Dim(…, min=…, max=…)}; a size may be Dim.AUTO, "
        "Dim.DYNAMIC, Dim.STATIC, a number or None, too.",
    ),
)
"""What torch says of shapes that are not written as it takes them, and how they are."""


def _misspelt_shapes(message: str) -> str:
    """How dynamic shapes are written that torch does not understand; "" for those that it does."""
    return next((advice for sign, advice in _MISSPELT_SHAPES if re.search(sign, message)), "")


def _shape_advice(message: str) -> str:
    if "to be a constant (1)" in message or "to be a constant (0)" in message:
        return "Use an example size of at least 2 in dynamic dimensions: torch fixes 0 and 1."
    if "specialized it to be a constant" in message:
        return (
            "Make the dimension static. Where nothing in the model asks for this very size, some "
            "size computed from it is 0 or 1 in the example, which torch fixes: use a larger one. "
            "Loops of Python's make constants: write range(n) as torch.arange(n)."
        )
    if "generated guard" in message:
        return "Give the named dimensions the range that the guards allow: Dim(…, min=…, max=…)."
    return ""
