"""flex_attention computes what torch's does, also of open sizes; sums of scores are attention."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.export import Dim
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from aot.frontend.capture import capture_module, capture_program
from aot.frontend.ingest import ingest
from tests.calls import Calls
from tests.conformance.executors import interpret_lowered

HEADS = 4
SLOPES = torch.tensor([0.5, 0.25, 0.125, 0.0625])
DOCUMENTS = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 2, 2])
N = Dim("n", min=2, max=10)

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def _causal(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return q >= k


def _alibi(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return score + SLOPES[h] * (k - q)


def _left_out(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return torch.where((q >= k) & (DOCUMENTS[q] == DOCUMENTS[k]), score - 0.1 * h, -math.inf)


def _capped(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return 2.0 * torch.tanh(score / 2.0)


def _other_value(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return torch.where(q >= k, score, 0.5)


def _taken_from(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return 0.1 * k - score


def _whole(q: Tensor, k: Tensor, v: Tensor) -> Any:
    return flex_attention(q, k, v)


def _grouped(q: Tensor, k: Tensor, v: Tensor) -> Any:
    return flex_attention(q, k[:, :2], v[:, :2], score_mod=_alibi, enable_gqa=True, scale=0.3)


def _with_sums(q: Tensor, k: Tensor, v: Tensor) -> Any:
    return flex_attention(q, k, v, score_mod=_alibi, return_lse=True)


def _of_scores(function: Callable[..., Tensor]) -> Callable[..., Any]:
    return lambda q, k, v: flex_attention(q, k, v, score_mod=function)


def _masked(q: Tensor, k: Tensor, v: Tensor) -> Any:
    mask = create_block_mask(_causal, None, None, q.shape[2], k.shape[2], device="cpu")
    return flex_attention(q, k, v, block_mask=mask)


CALLS: dict[str, tuple[Callable[..., Any], bool]] = {
    "no functions": (_whole, True),
    "slopes": (_of_scores(_alibi), True),
    "left out": (_of_scores(_left_out), True),
    "fewer heads": (_grouped, True),
    "capped": (_of_scores(_capped), False),
    "another value": (_of_scores(_other_value), False),
    "the score taken from something": (_of_scores(_taken_from), False),
    "with sums": (_with_sums, True),
}
"""Name -> the call, and whether it is attention as it is lowered else."""


def _given(n: int, seed: int = 0) -> tuple[Tensor, ...]:
    made = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(2, HEADS, n, 8, generator=made) for _ in range(3))


@pytest.mark.parametrize("name", CALLS)
def test_as_torch_computes_it_of_open_sizes(name: str) -> None:
    call, is_attention = CALLS[name]
    captured = capture_module(Calls(call), _given(5), dynamic_shapes={"args": ({2: N},) * 3})
    targets = {getattr(op, "target", "") for op in ingest(captured)[0].ops}
    assert ("aten.scaled_dot_product_attention.default" in targets) == is_attention
    for n in (2, 5, 10):
        given = _given(n, seed=n)
        found = interpret_lowered(captured, given)
        wanted = call(*given)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        for x, y in zip(found, wanted, strict=True):
            np.testing.assert_allclose(x, y, 1e-4, 1e-5)


def test_masks_of_blocks() -> None:
    captured = capture_module(Calls(_masked), _given(6))
    (found,) = interpret_lowered(captured, _given(6, seed=1))
    np.testing.assert_allclose(found, _masked(*_given(6, seed=1)), 1e-4, 1e-5)


def test_halves_are_not_rounded_where_something_is_added() -> None:
    given = tuple(x.to(torch.bfloat16) for x in _given(6))
    call = _of_scores(_alibi)
    (found,) = interpret_lowered(capture_module(Calls(call), given), given)
    exact = call(*(x.double() for x in given))
    np.testing.assert_allclose(found.astype(float), exact, 0.02, 0.02)


def test_programs_that_users_export() -> None:
    program = torch.export.export(Calls(_of_scores(_capped)), _given(5), strict=False)
    (found,) = interpret_lowered(capture_program(program), _given(5, seed=3))
    np.testing.assert_allclose(found, _of_scores(_capped)(*_given(5, seed=3)), 1e-4, 1e-5)
