"""What all kinds of template calls share: operands and attributes from their fields."""

from __future__ import annotations

from dataclasses import replace

from aot.ir.dtypes import BFLOAT16, FLOAT32
from aot.ir.hints import Hints
from aot.ir.nests import Buffer
from aot.ir.origin import NO_ORIGIN
from aot.ir.scalar import const
from aot.ir.templates import Attention, Matmul, Support
from aot.ir.templates.base import TemplateCall, operand_dtype, takes_all
from aot.ir.templates.builder import NestBuilder
from tests.ir.templates.views import view

CALL = Attention("t", view(1, 2, 5, 8), NO_ORIGIN, *(view(1, 2, 5, 8),) * 3, 0.5, causal=False)


def test_views_are_operands_and_the_rest_are_attributes() -> None:
    assert [role for role, _ in CALL.operands] == ["q", "k", "v"]
    assert dict(CALL.attributes)["scale"] == 0.5
    assert "mask" not in dict(CALL.attributes)
    masked = replace(CALL, mask=view(5, 5))
    assert [role for role, _ in masked.operands] == ["q", "k", "v", "mask"]
    assert not {"name", "output", "origin"} & {*dict(CALL.attributes), *dict(CALL.operands)}


def test_a_call_with_the_same_views_is_the_same_call() -> None:
    assert CALL.with_views(lambda _, v: v) is CALL
    other = CALL.with_views(lambda role, v: replace(v, buffer="other") if role == "k" else v)
    assert [v.buffer == "other" for _, v in other.operands] == [False, True, False]
    assert other.output == CALL.output


def test_results_are_stored_in_the_type_of_their_buffer() -> None:
    axes = CALL.output.axes
    buffers = {
        CALL.output.buffer: Buffer(
            CALL.output.buffer, BFLOAT16, tuple(a.extent for a in axes), None, "temp"
        )
    }
    store = CALL.stored(const(1.5, FLOAT32), NestBuilder(buffers, {}))
    assert (store.buffer, store.index) == (CALL.output.buffer, CALL.output.index)
    assert store.value.dtype == BFLOAT16
    assert operand_dtype(CALL, buffers) == BFLOAT16


def test_a_backend_that_says_nothing_takes_every_call() -> None:
    support = Support(Matmul)
    assert support.accepts is takes_all and not support.takes_producer
    assert takes_all(CALL, {}, Hints({})) == ""


def test_a_kind_that_says_nothing_stays_as_it_is() -> None:
    support = Support(Attention)
    product = Matmul("m", view(4, 6), NO_ORIGIN, view(4, 8), view(8, 6))
    assert TemplateCall.split(product, None, support, 64, Hints({})) is None
    assert Matmul.joined(product, product, support, lambda _: None) is None
    assert product.composed(lambda _: None, lambda _: True, lambda *_: None) is product
