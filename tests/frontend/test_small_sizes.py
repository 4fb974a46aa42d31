"""What is traced beside the module, at sizes at which its code would be answered otherwise."""

from __future__ import annotations

import torch
from torch.export import Dim

from aot.frontend.small_sizes import sizes_to_try
from aot.ir.tensors import SizeRelation
from aot.symbolic import Modulo, Ranges, dim, integer
from tests.frontend.test_size_decisions import X, messages, read

N = dim("n")
TRACED = Ranges({}, {N: (2, None)})


def test_which_sizes_are_tried() -> None:
    no_multiple = SizeRelation(integer(0), "<", Modulo(N, integer(4)), "")
    assert sizes_to_try([no_multiple], N, TRACED, (0, None)) == [0, 4, 8]
    assert sizes_to_try([no_multiple], N, TRACED, (1, 7)) == [4]
    above = SizeRelation(integer(1), "<", N, "")
    assert sizes_to_try([above], N, TRACED, (0, None)) == [0, 1]
    assert sizes_to_try([SizeRelation(integer(5), "<", N, "")], N, TRACED, (0, None)) is None
    few = SizeRelation(Modulo(N, integer(40)), "<", integer(20), "")
    assert sizes_to_try([few], N, TRACED, (0, None)) is None


def _filled(x: torch.Tensor, unit: int = 4) -> torch.Tensor:
    n = x.shape[0]
    return torch.nn.functional.pad(x, (0, 0, 0, unit - n % unit)) if n % unit else x


def test_a_remainder_that_makes_no_difference_is_asked_of_no_run() -> None:
    graph = read(lambda x: _filled(x).sum(0), X, n=Dim("n"))
    assert not messages(graph)
    differs = read(lambda x: _filled(x).mean(0), X, n=Dim("n"))
    assert "(n % 4) != 0" in messages(differs)[0]
    many = read(lambda x: x * 2 if x.shape[0] % 40 < 20 else x * 2.0, X, n=Dim("n"))
    assert "(n % 40) < 20" in messages(many)[0]  # too many to try


def test_a_trial_cuts_every_input_of_the_same_name() -> None:
    n = Dim("n")  # torch keeps two sizes apart whose filled ones are equal
    graph = read(lambda x, y: (_filled(x) * _filled(y)).sum(), X, X + 1, n=n, m=n)
    assert not any("decides" in m for m in messages(graph))
