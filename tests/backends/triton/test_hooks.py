"""Kernels of templates: what the functions look like that a kernel gives to its template's."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

from aot.backends.triton.compile import compile_kernels
from aot.frontend.capture import Captured
from tests.backends.triton.templates import captured, check_close, emitted, tensors

ROWS = tensors((37, 300))[0]
INDEX = torch.arange(37).flip(0)


def text_of(model: Captured) -> str:
    (function,) = emitted(model).functions
    return function.text


def functions_of(text: str) -> dict[str, str]:
    """The lines of each function, by its head."""
    parts = re.split(r"^@triton\.jit\ndef ", text, flags=re.M)[1:]
    return dict(part.split(":\n", 1) for part in parts)


def test_a_kernel_is_a_call_of_its_template_with_functions_of_its_own() -> None:
    functions = functions_of(text_of(captured(lambda x: x.cumsum(1) * 2, (ROWS,))))
    own = [head for head in functions if head.startswith("k0")]
    assert own == [
        "k0_load(args, m, n)",
        "k0_running(args, values)",
        "k0_total(args, values)",
        "k0_finish(args, m, n, scanned)",
        "k0(p0, p1)",
    ]
    assert "load=k0_load," in functions["k0(p0, p1)"]
    assert "args=(p0, p1)," in functions["k0(p0, p1)"]
    assert functions["k0_load(args, m, n)"].startswith("    (p0, p1) = args\n")


def test_a_function_of_the_template_is_the_same_in_every_kernel() -> None:
    def template(model: Captured) -> str:
        functions = functions_of(text_of(model))
        return next(body for head, body in functions.items() if head.startswith("scan_rows("))

    other = captured(lambda x: x.exp().cumprod(0), (tensors((8, 50), dtype=torch.float16)[0],))
    assert template(captured(lambda x: x.cumsum(1), (ROWS,))) == template(other)


def test_hooks_report_wrong_indices_through_what_they_are_given() -> None:
    def function(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return x[i].cumsum(1)

    model = captured(function, (ROWS, INDEX))
    functions = functions_of(text_of(model))
    load = next(body for head, body in functions.items() if head.startswith("k0_load("))
    assert "fault" in load.splitlines()[0]
    assert "tl.store(fault" in load
    check_close(model, function, (ROWS, INDEX))


def test_sizes_reach_the_hooks_as_narrow_as_the_kernel_has_them() -> None:
    dim = torch.export.Dim("rows", max=100)
    text = text_of(captured(lambda x: x.cumsum(1), (ROWS,), ({0: dim},)))
    kernel = text.rpartition("def k0(")[2]
    assert kernel.index("d0 = d0.to(tl.int32)") < kernel.index("args=(p0, p1, d0)")


@pytest.mark.parametrize("name", ["scan", "product"])
def test_joined_kernels_have_hooks_of_their_own(name: str) -> None:
    left, right = tensors((5, 40), (7, 30))

    def function(x: Any, y: Any) -> Any:
        return (x.cumsum(1), y.cumsum(1)) if name == "scan" else (x[:1] @ x.T, y[:1] @ y.T)

    model = captured(function, (left, right))
    source = emitted(model)
    (joined,) = [f for f in source.functions if "_part1" in f.text]
    heads = list(functions_of(joined.text))
    assert len(set(heads)) == len(heads)
    assert {h.partition("_part")[2][0] for h in heads if "_part" in h} == {"0", "1"}
    assert compile_kernels([joined], "sm_90", 1, None)[0].data[:4] == b"\x7fELF"
    check_close(model, function, (left, right))
