"""Pairs of resizings: which become one call, and that it computes the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.ir.loops import LoopGraph
from aot.ir.templates import Resample, Resample2, Resample2Support, Support, Walks
from aot.ir.templates.base import TemplateCall
from aot.lowering.lower import lower
from aot.passes.join_templates import join_templates
from tests.schedule.graphs import DEVICE, check_same

LIMITS = Walks(least_taps=9, most_taps=8, most_inner_taps=32, most_inside=4)
WALKS = replace(DEVICE, templates=(Support(Resample), Resample2Support(Resample2, walks=LIMITS)))
IMAGE = torch.zeros(2, 3, 9, 10)


class Resize(torch.nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def lowered(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> LoopGraph:
    graph, _ = ingest(capture_module(Resize(function), (x,)))
    return lower(graph)


def kinds(graph: LoopGraph) -> list[tuple[str, int]]:
    calls = [op for op in graph.ops if isinstance(op, TemplateCall)]
    return [(call.kind, dict(call.attributes)["axis"]) for call in calls]


def first_axis(graph: LoopGraph) -> str:
    (call,) = (op for op in graph.ops if isinstance(op, TemplateCall))
    return str(dict(call.attributes)["first"])


def resize(size: tuple[int, ...], mode: str, **settings: bool) -> Callable[..., torch.Tensor]:
    return lambda x: F.interpolate(x, size=size, mode=mode, **settings)


@pytest.mark.parametrize(
    "function",
    [
        resize((20, 23), "bicubic"),
        resize((5, 3), "bicubic"),  # windows that leave rows out
        resize((18, 5), "bilinear", align_corners=True),
        resize((6, 7), "bilinear", antialias=True),
        resize((1, 1), "bilinear"),
    ],
)
def test_two_axes_in_one_call_give_the_same(function: Callable[..., torch.Tensor]) -> None:
    graph = lowered(function, IMAGE)
    paired = join_templates(graph, WALKS)
    assert kinds(paired) == [("resample2", 2)]
    assert first_axis(paired) == "inner"
    assert paired.decisions[-1].verdict == "one call"
    check_same(graph, paired, tolerance=1e-5)


def test_of_three_axes_the_innermost_are_a_pair() -> None:
    graph = lowered(resize((7, 3, 20), "trilinear"), torch.zeros(1, 2, 5, 6, 7))
    paired = join_templates(graph, WALKS)
    assert kinds(paired) == [("resample", 2), ("resample2", 3)]
    check_same(graph, paired, tolerance=1e-5)


def test_devices_without_the_template_keep_their_calls() -> None:
    graph = lowered(resize((20, 23), "bicubic"), IMAGE)
    assert join_templates(graph, DEVICE) is graph


def test_one_axis_has_no_partner() -> None:
    graph = lowered(resize((20, 10), "bilinear"), IMAGE)
    assert join_templates(graph, WALKS) is graph


def refusal(function: Callable[..., torch.Tensor], x: torch.Tensor) -> str:
    graph = lowered(function, x)
    paired = join_templates(graph, WALKS)
    assert {kind for kind, _ in kinds(paired)} == {"resample"}
    decision = paired.decisions[-1]
    assert decision.verdict == "two calls"
    return decision.reason


def test_bytes_are_rounded_in_between() -> None:
    reason = refusal(resize((20, 23), "bicubic"), IMAGE.to(torch.uint8))
    assert reason == "bytes are rounded in between"


@pytest.mark.parametrize("last", [False, True], ids=["planes", "channels last"])
def test_many_taps_are_summed_along_the_outer_axis_first(last: bool) -> None:
    image = torch.zeros(1, 3, 64, 48)
    image = image.contiguous(memory_format=torch.channels_last) if last else image
    graph = lowered(resize((4, 10), "bilinear", antialias=True), image)
    paired = join_templates(graph, WALKS)
    assert kinds(paired) == [("resample2", 2)]
    assert first_axis(paired) == "outer"
    check_same(graph, paired, tolerance=1e-5)


def test_a_row_of_many_taps_stays_a_pass() -> None:
    reason = refusal(resize((4, 4), "bilinear", antialias=True), torch.zeros(1, 1, 64, 400))
    assert reason.endswith(f"more than {LIMITS.most_inner_taps}")


def test_few_taps_down_the_image_stay_two_passes() -> None:
    reason = refusal(resize((9, 4), "bilinear", antialias=True), torch.zeros(1, 1, 12, 60))
    assert "a walk pays from" in reason


def test_many_channels_in_a_pixel_stay_two_passes() -> None:
    smaller = resize((4, 10), "bilinear", antialias=True)
    deep = torch.zeros(1, 5, 64, 48).contiguous(memory_format=torch.channels_last)
    assert "may have many elements" in refusal(smaller, deep)
    # The layout of what the model computes is chosen later.
    assert "may have many elements" in refusal(lambda x: smaller(x * 2), torch.zeros(1, 1, 64, 48))


def test_the_same_axis_twice_is_no_pair() -> None:
    def twice(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(
            F.interpolate(x, size=(20, 10), mode="bilinear"), size=(30, 10), mode="bilinear"
        )

    assert refusal(twice, IMAGE) == "both resize the same axis"


def test_an_image_in_between_that_others_want_is_stored() -> None:
    def both(x: torch.Tensor) -> torch.Tensor:
        once = F.interpolate(x, size=(20, 10), mode="bilinear")
        return torch.cat([F.interpolate(once, size=(20, 23), mode="bilinear"), once], -1)

    assert refusal(both, IMAGE).endswith("is wanted by others too")
