"""Kernels of templates: a device function of `device/`, and functions that it is given.

A template's function computes tiles; what depends on the model, such as loads of operands through
views and the epilogue with its stores, are functions that are written here for each kernel, the
hooks. The template's function gets them as arguments, and hands them, as their first argument,
what the kernel was launched with: `args`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from aot.backends.triton.body import Body
from aot.backends.triton.context import KernelContext
from aot.backends.triton.kernel import (
    GLUON,
    NAME,
    TRITON,
    EmittedKernel,
    Grid,
    finish,
    parameters,
    program_id,
)
from aot.backends.triton.text import Writer, index_text
from aot.ir.kernels import TemplateKernel
from aot.symbolic import Expr


def places(context: KernelContext, blocks: Expr | None) -> dict[str, str]:
    """The arguments `program` and `batch`: a block and the element of the batch that it is of.

    `blocks`: of one element; None without a batch.
    """
    program = program_id(context)
    if blocks is None:
        return {"program": program, "batch": "0"}
    each = index_text(blocks, context.names)
    return {"program": f"{program} % ({each})", "batch": f"{program} // ({each})"}


def in_tuple(names: Sequence[str]) -> str:
    """Names as a tuple's text, to pack or unpack."""
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"


class Hooks:
    """The functions that one kernel gives to its template's function, in `language`."""

    def __init__(self, context: KernelContext, language: str = TRITON) -> None:
        self._context = context
        self._language = language
        self._bodies: dict[str, tuple[tuple[str, ...], Body]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._bodies

    @contextmanager
    def function(self, name: str, *parameters: str) -> Iterator[Body]:
        """The statements of a function of that name; `args` is the parameter before these."""
        body = Body(self._context, Writer(), 2, gluon=self._language == GLUON)
        # The template's function waits, or the kernel before all.
        body.waited = True
        yield body
        self._bodies[name] = (parameters, body)

    def emit(
        self,
        kernel: TemplateKernel,
        function: str,
        arguments: Mapping[str, str],
        grid: Grid,
        options: dict[str, int],
        *,
        early: bool = True,
        waits: bool = False,
    ) -> EmittedKernel:
        """The kernel that calls a device function with `args`, the hooks and these arguments.

        `early`: see `kernel.finish`. `waits`: the device function waits by itself.
        """
        body = Body(self._context, Writer(), 2)
        body.faults = any(own.faults for _, own in self._bodies.values())
        body.waited = body.waited or waits
        names, _ = parameters(kernel, body)
        args = in_tuple(names)
        given = {"args": args, **{n: f"{NAME}_{n}" for n in self._bodies}, **arguments}
        body.writer.line(f"{function}(")
        with body.writer.deeper():
            for name, text in given.items():
                body.writer.line(f"{name}={text},")
        body.writer.line(")")
        emitted = finish(kernel, body, grid, options, early=early, language=self._language)
        hooks = "".join(
            f"@triton.jit\ndef {NAME}_{name}({', '.join(('args', *own))}):\n"
            f"    {args} = args\n{hook.writer.text()}\n\n"
            for name, (own, hook) in self._bodies.items()
        )
        return replace(emitted, function=hooks + emitted.function)
