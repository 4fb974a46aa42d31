"""Kernels that a model brings along, in the language of a backend."""

from __future__ import annotations

from dataclasses import dataclass

from aot.symbolic import Expr

TRITON = "triton"
"""The language of `triton.jit`."""


@dataclass(frozen=True)
class UserKernel:
    """A kernel, and how one call launches it.

    Attributes:
        language: What `text` is written in.
        text: A module that needs nothing but the language's own packages.
        function: The kernel's name in it.
        constants: Parameters that are known when it is compiled, as text of the language.
        grid: Program instances in three dimensions.
        options: Of the compilation, such as ("num_warps", 4).
        configurations: Of constants and options, of which these are the first.
    """

    language: str
    text: str
    function: str
    constants: tuple[tuple[str, str], ...]
    grid: tuple[Expr, Expr, Expr]
    options: tuple[tuple[str, int], ...]
    configurations: int = 1
