"""Device functions of our own, in the interpreter, against Python's in double precision."""

from __future__ import annotations

import ast
import importlib
import math
from pathlib import Path

import numpy as np
import pytest
import torch

import aot.backends.triton.device
from aot.backends.triton.compile import compile_kernels
from aot.backends.triton.helpers import definitions
from tests.backends.triton.templates import captured, emitted
from tests.conformance.executors import interpret_triton

_FILES = sorted(Path(aot.backends.triton.device.__file__).parent.glob("[a-z]*.py"))


def _functions(text):
    return [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]


def test_a_text_carries_what_its_functions_call_and_no_comments():
    text = definitions("y = hermite_h(x, n)\n")
    assert _functions(text) == ["greatest_of", "by_recurrence", "hermite_h", "hermite_h_step"]
    assert text.count("@triton.jit\ndef ") == 4
    assert '"""' not in text
    assert "#" not in text


def test_a_text_keeps_functions_of_its_own():
    assert definitions("def plus(a, b):\n    return b\n\n\nc = plus(a, b)\n") == ""


def test_every_device_function_is_found_once():
    names = [name for file in _FILES for name in _functions(file.read_text())]
    assert len(set(names)) == len(names)
    assert sorted(_functions(definitions("\n".join(names)))) == sorted(names)


@pytest.mark.parametrize("file", [file.stem for file in _FILES])
def test_device_files_are_modules_of_triton(file):
    module = importlib.import_module(f"aot.backends.triton.device.{file}")
    assert getattr(module, "gluon", getattr(module, "triton", None)).jit


def test_erf_is_right_to_two_units_in_the_last_place():
    steps = torch.cat([torch.linspace(-5, 5, 4001), torch.logspace(-30, 30, 200)])
    (found,) = interpret_triton(captured(torch.erf, (steps,)), (steps,))
    exact = np.array([math.erf(float(x)) for x in steps])
    unit = np.spacing(np.abs(exact).astype(np.float32))
    assert (np.abs(found - exact) <= 2 * unit).all()


def test_erf_at_the_ends():
    ends = torch.tensor([math.inf, -math.inf, math.nan, 0.0, -0.0, 3e38])
    (found,) = interpret_triton(captured(torch.erf, (ends,)), (ends,))
    np.testing.assert_array_equal(found, np.array([1, -1, math.nan, 0, 0, 1], np.float32))
    assert list(np.signbit(found[3:5])) == [False, True]


def test_one_more_than_erf_is_one_function():
    steps = torch.cat([torch.linspace(-6, 6, 4001), torch.logspace(-30, 30, 200)])
    steps = torch.cat([steps, torch.tensor([math.inf, -math.inf, math.nan, 0.0, -0.0])])
    for model in (lambda x: torch.erf(x) + 1.0, lambda x: 1.0 + torch.erf(x)):
        program = captured(model, (steps,))
        assert "erf_plus_one(v" in emitted(program).functions[0].text
        (found,) = interpret_triton(program, (steps,))
        exact = np.array([math.erfc(-float(x)) for x in steps])
        np.testing.assert_allclose(found, exact, rtol=0, atol=1.3e-7)
        small = exact < 0.1
        np.testing.assert_allclose(found[small], exact[small], rtol=0, atol=5e-8)


def test_functions_with_loops_take_numbers_too():
    """A kernel of one element has numbers where others have blocks, which Triton does not mix."""

    def model(n, m, x):
        polynomial = torch.special.laguerre_polynomial_l(x, n.float())
        return torch.gcd(n, m), polynomial, torch.special.gammainc(x, x + 1)

    numbers = (torch.tensor(12), torch.tensor(18), torch.tensor(0.5))
    functions = emitted(captured(model, numbers)).functions
    assert [image.data[:4] for image in compile_kernels(functions, "sm_90", 2, None)] == [
        b"\x7fELF" for _ in functions
    ]
