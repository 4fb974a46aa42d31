"""The programs of torch's export database: what torch.export supports must package and match."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any

import aot_runtime
import numpy as np
import pytest
import torch
from torch.utils import _pytree as pytree

with warnings.catch_warnings():
    # The database's own classes are deprecated in some versions of torch.
    warnings.simplefilter("ignore")
    from torch._export.db.case import SupportLevel

    with torch.random.fork_rng(devices=[]):
        # The cases' inputs are drawn as their modules are imported: the same in every worker.
        torch.manual_seed(0)
        from torch._export.db.examples import all_examples

import aot
from tests.comparing import complaint
from tests.examples.accuracy import arrays_of, default_double, widen

CASES = {
    name: case
    for name, case in sorted(all_examples().items())
    if case.support_level is SupportLevel.SUPPORTED
}


def _package(name: str, path: Path) -> Any:
    case = CASES[name]
    return aot.package(
        case.model,
        copy.deepcopy(case.example_args),
        kwargs=copy.deepcopy(case.example_kwargs),
        dynamic_shapes=case.dynamic_shapes,
        path=path,
        targets=["cpu:x86-64-v3"],
        golden=False,
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", list(CASES))
def test_supported_program_matches_eager(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    _package(name, tmp_path / "case.pkg")
    ours = aot_runtime.load(tmp_path / "case.pkg")(
        *copy.deepcopy(case.example_args), **copy.deepcopy(case.example_kwargs)
    )
    eager = _called(case, case.model, lambda tensor: tensor)
    with default_double():
        exact = _called(case, copy.deepcopy(case.model).double(), widen)
    leaves, eager_leaves = pytree.tree_leaves(ours), pytree.tree_leaves(eager)
    assert len(leaves) == len(eager_leaves)
    for a, b in zip(leaves, eager_leaves, strict=True):
        if not isinstance(b, torch.Tensor):
            assert np.asarray(a).item() == b
    triples = zip(
        *(
            arrays_of([_tensor(leaf) for leaf in pytree.tree_leaves(r)])
            for r in (ours, eager, exact)
        ),
        strict=True,
    )
    for triple in triples:
        assert complaint(*triple) == ""


def _called(case: Any, model: torch.nn.Module, convert: Any) -> Any:
    args, kwargs = pytree.tree_map_only(
        torch.Tensor, convert, copy.deepcopy((case.example_args, case.example_kwargs))
    )
    with torch.no_grad():
        return model(*args, **kwargs)


def _tensor(leaf: Any) -> Any:
    """A number as a tensor of its own type: packages return tensors of no dimension."""
    return leaf if isinstance(leaf, torch.Tensor) else torch.as_tensor(np.asarray(leaf))
