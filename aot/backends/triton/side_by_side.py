"""The function of a joined launch: each program runs the function of one kernel, by its number."""

from __future__ import annotations

from collections.abc import Sequence

from aot.backends.triton.context import PROGRAM
from aot.backends.triton.kernel import FAULT, NAME, EmittedKernel, line_grid
from aot.symbolic import Expr, integer

_NUMBER = "program_number"
"""A part's own program."""


def joined(parts: Sequence[EmittedKernel]) -> EmittedKernel:
    """One kernel whose programs are those of the parts, one part after the other."""
    ends: list[Expr] = []
    for part in parts:
        ends.append(part.grid[0] + (ends[-1] if ends else integer(0)))
    # Numbers of programs that need sizes are arguments, computed when sizes are bound.
    unknown = [k for k, end in enumerate(ends[:-1]) if not end.is_Integer]
    parameters = [*_parameters(parts), *((f"end_{k}", "i64") for k in unknown)]
    bounds = [f"end_{k}" if k in unknown else str(end) for k, end in enumerate(ends)]
    names = ", ".join(name for name, _ in parameters)
    texts = [part.function for part in parts]
    same = [texts.index(text) for text in texts]  # equal parts share a function
    functions = "".join(_part_function(parts[k], k) for k in dict.fromkeys(same))
    branches = "".join(_branch(part, k, same[k], bounds) for k, part in enumerate(parts))
    body = f"    program = {PROGRAM}\n{branches}"
    options = sorted(key_value for part in parts for key_value in part.options)
    return EmittedKernel(
        f"{functions}@triton.jit\ndef {NAME}({names}):\n{body}",
        tuple(name for name, _ in parameters),
        tuple(kind for _, kind in parameters),
        tuple(dict(options).items()),  # of several numbers the greatest, which comes last
        any(part.faults for part in parts),
        all(part.waits for part in parts),
        tuple(name for part in parts for name in part.buffers),
        (*(size for part in parts for size in part.sizes), *(ends[k] for k in unknown)),
        line_grid(ends[-1]),
    )


def _parameters(parts: Sequence[EmittedKernel]) -> list[tuple[str, str]]:
    """Names and types in the order of a launch: buffers, the fault, sizes; of each part in turn."""
    buffers: list[tuple[str, str]] = []
    sizes: list[tuple[str, str]] = []
    for k, part in enumerate(parts):
        own = [
            (f"{name}_{k}", kind)
            for name, kind in zip(part.parameters, part.signature, strict=True)
            if name != FAULT
        ]
        buffers += own[: len(part.buffers)]
        sizes += own[len(part.buffers) :]
    fault = [(FAULT, "*i32")] if any(part.faults for part in parts) else []
    return [*buffers, *fault, *sizes]


def _part_function(part: EmittedKernel, number: int) -> str:
    """A part's function, which gets its program's number from the one that calls it."""
    names = ", ".join((*part.parameters, _NUMBER))
    own, head, text = part.function.rpartition(f"def {NAME}(")
    _, _, body = text.partition(":\n")
    whole = f"{own}{head}{names}):\n{body.replace(PROGRAM, _NUMBER)}\n\n"
    return whole.replace(NAME, f"{NAME}_part{number}")


def _branch(part: EmittedKernel, number: int, function: int, bounds: Sequence[str]) -> str:
    """The programs of a part, which run that part's function."""
    head = "else" if number + 1 == len(bounds) else f"if program < {bounds[number]}"
    head = f"el{head}" if number > 0 and head != "else" else head
    # A bound that is an argument has 64 bits; numbers of programs have 32, as in a lone launch.
    own = "program" if number == 0 else f"(program - {bounds[number - 1]}).to(tl.int32)"
    names = (n if n == FAULT else f"{n}_{number}" for n in part.parameters)
    return f"    {head}:\n        {NAME}_part{function}({', '.join((*names, own))})\n"
