"""torch reads its dispatcher once for a model's decomposition, and finds the same operators."""

from __future__ import annotations

from unittest import mock

import pytest
import torch
from torch._export import utils

from aot.frontend import collected
from aot.frontend.capture import capture_module
from aot.frontend.collected import collected_once


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> mock.Mock:
    counted = mock.Mock(wraps=utils._materialize_cpp_cia_ops)
    monkeypatch.setattr(utils, "_materialize_cpp_cia_ops", counted)
    return counted


def test_the_same_operators_are_collected(reads: mock.Mock) -> None:
    before = utils._collect_all_valid_cia_ops()
    several = reads.call_count
    with collected_once():
        within = utils._collect_all_valid_cia_ops()
    assert within == before
    assert several > 10
    assert reads.call_count == several + 1


def test_what_is_declared_later_is_found_by_the_next() -> None:
    with collected_once():
        utils._collect_all_valid_cia_ops()
    with torch.library._scoped_library("collected_test", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x + x, "CompositeImplicitAutograd")
        with collected_once():
            found = utils._collect_all_valid_cia_ops()
        assert torch.ops.collected_test.twice.default in found


def test_a_model_that_writes_is_captured_with_two_reads(
    reads: mock.Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As outside of the tests, which remember what is collected from one model to the next.
    from torch.export import exported_program

    from aot.frontend import capture, decompose

    monkeypatch.setattr(capture, "decomposition_table", decompose.decomposition_table)
    monkeypatch.setattr(
        exported_program, "_collect_all_valid_cia_ops", utils._collect_all_valid_cia_ops
    )
    capture_module(torch.nn.ReLU(inplace=True), (torch.randn(2, 3),))
    assert reads.call_count == 2


def test_a_model_that_is_taken_apart_by_node_needs_none(reads: mock.Mock) -> None:
    capture_module(torch.nn.Softmax(-1), (torch.randn(2, 3),))
    assert not reads.call_count


def test_another_torch_collects_as_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collected, "_READ", "no_such_function")
    with collected_once():
        assert utils._collect_all_valid_cia_ops()
