"""The slope, what a row makes of times, and the page."""

import math

import pytest
import torch

from benchmarks.growth.families import FAMILIES, family_named
from benchmarks.growth.family import Blank, Draw, Family
from benchmarks.growth.fit import exponent
from benchmarks.growth.measure import by_one_thread, difference
from benchmarks.growth.reasons import REASONS
from benchmarks.growth.scaled import PREFIX, scaled_family
from benchmarks.growth.table import FLOOR, Row, page, row_from_json
from benchmarks.processes import Event
from tests.conformance.indexing_rows import ROWS as INDEXING

SIZES = (64, 256, 1024, 4096)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_a_power_is_found(power: float) -> None:
    assert math.isclose(exponent([(n, 3.0 * n**power) for n in SIZES]), power, abs_tol=1e-9)


def test_the_largest_sizes_weigh_most() -> None:
    launch_then_square = exponent([(n, 1e5 + n**2) for n in SIZES])
    square_then_flat = exponent([(n, min(n**2, 256**2)) for n in SIZES])
    assert launch_then_square > 0.9
    assert square_then_flat < 0.7


def test_one_size_has_no_slope() -> None:
    assert exponent([(64, 1.0)]) is None


def row(ours: float, eager: float, name: str = "x") -> Row:
    """Times that grow with these powers, above the floor."""
    made = Row(name)
    for n in SIZES:
        made.take(Event("ours", n, 10 * FLOOR * n**ours))
        made.take(Event("eager", n, 10 * FLOOR * n**eager))
    return made


def test_a_row_has_the_ratio_of_the_largest_size_of_both() -> None:
    made = row(2.0, 1.0)
    made.take(Event("eager", 16384, 1.0))
    assert made.largest == 4096
    assert math.isclose(made.ratio, 4096)
    assert made.steeper
    assert not row(1.05, 1.0).steeper
    assert row_from_json(made.to_json()) == made


def test_times_at_the_floor_are_no_growth() -> None:
    made = Row("x")
    for n, seconds in zip(SIZES, (1e-6, 2e-6, 1e-3, 4e-3), strict=True):
        made.take(Event("ours", n, seconds))
    assert math.isclose(made.exponent("ours"), 1.0)


def test_the_page_puts_the_worst_first_and_counts() -> None:
    unfinished = Row("hangs")
    unfinished.take(Event("stop", 64, text="no answer | at all"))
    text = page([row(1.0, 1.0, "even"), row(2.0, 1.0, "steep"), unfinished], "cpu", "## CPU")
    assert [text.index(name) for name in ("hangs", "steep", "even")] == sorted(
        text.index(name) for name in ("hangs", "steep", "even")
    )
    assert "3 families, 2 timed" in text
    assert "64.00 (aim: 0.5), 1 above 1.5" in text
    assert "1 with an exponent above eager's by more than 0.1: 0 of them △, 1 ▲" in text
    assert "Of the 1 ▲ or above 1.5, **1 without a reason**" in text
    assert "2.00 ▲ | 1.00 | 4096.00 | **no reason yet** |" in text
    assert "no answer / at all at 64" in text


def of_ratios(*ratios: float) -> Row:
    """Times of ours by eager's, which grow as n does."""
    made = Row("x")
    for n, ratio in zip(SIZES, ratios, strict=True):
        made.take(Event("ours", n, 100 * FLOOR * n * ratio))
        made.take(Event("eager", n, 100 * FLOOR * n))
    return made


@pytest.mark.parametrize(
    ("ratios", "leads"),
    [
        ((0.1, 0.2, 0.4, 0.6), True),
        ((0.1, 0.2, 0.4, 0.7), False),  # 1.2 would follow
        ((0.3, 1.1, 0.4, 0.5), False),
        ((0.5, 0.5, 0.5, 0.5), True),
    ],
)
def test_a_row_leads_below_eager_and_at_the_next_size_too(
    ratios: tuple[float, ...], leads: bool
) -> None:
    made = of_ratios(*ratios)
    assert made.leads == leads
    assert made.is_exception == (made.steeper and not leads)


def test_rows_that_lead_have_a_mark_of_their_own() -> None:
    text = page([of_ratios(0.05, 0.1, 0.2, 0.3)], "cpu", "## CPU")
    assert " △ | 1.00 | 0.30 |  |" in text
    assert "1 of them △, 0 ▲" in text


def test_a_reason_is_shown_where_one_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REASONS, "cpu", {"steep": "as it is", "even": "unused"})
    text = page([row(1.0, 1.0, "even"), row(2.0, 1.0, "steep")], "cpu", "## CPU")
    assert "| as it is |" in text
    assert "unused" not in text
    assert "**0 without a reason**" in text


def test_reasons_are_of_families_that_exist() -> None:
    known = {family.name for family in FAMILIES}
    for device, reasons in REASONS.items():
        assert device in ("cpu", "cuda")
        assert set(reasons) <= known
        assert all(reason and "|" not in reason for reason in reasons.values())


@pytest.mark.parametrize(
    ("ours", "said"),
    [
        ([1.0, 2.0, 4.0], ""),
        ([1.0, 2.0, 4.0001], ""),
        ([1.0, 2.0, 3.0], "off by 0.2 of the largest"),
        ([1.0, 2.0], "[2] instead of [3]"),
        ([1.0, 2.0, math.inf], "finite elsewhere"),
    ],
)
def test_differences_are_told(ours: list[float], said: str) -> None:
    assert difference(torch.tensor(ours), torch.tensor([1.0, 2.0, 4.0])) == said


def test_whole_numbers_are_equal_or_not() -> None:
    assert difference(torch.tensor([1, 2]), torch.tensor([1, 3])) == "1 of 2 differ"


def test_of_several_writes_the_last_one_is_the_truth() -> None:
    (family,) = (f for f in FAMILIES if f.name == "put")
    assert family.last_wins
    threads = torch.get_num_threads()
    function, x, places, values = family.problem(4096, Draw())
    expected = x.tolist()
    for place, value in zip(places.tolist(), values.tolist(), strict=True):
        expected[place] = value
    assert by_one_thread(function, (x, places, values)).tolist() == expected
    assert torch.get_num_threads() == threads


def test_names_are_unique_and_lead_to_their_family() -> None:
    names = [family.name for family in FAMILIES]
    assert len(set(names)) == len(names)
    assert family_named("index_add").name == "index_add"
    assert family_named(f"{PREFIX}pdist").name == f"{PREFIX}pdist"


def test_sizes_rise_and_are_larger_on_a_gpu() -> None:
    family = Family("x", lambda n, d: (torch.neg, d.floats(n)), top=4096)
    assert family.sizes("cpu") == (64, 256, 1024, 4096)
    assert family.sizes("cuda")[-1] == 65536


def test_inputs_are_the_same_again_and_blank_ones_are_alike() -> None:
    for family in FAMILIES:
        n = family.least
        _, *first = family.problem(n, Draw())
        _, *again = family.problem(n, Draw())
        _, *blank = family.problem(n, Blank())
        for a, b, c in zip(first, again, blank, strict=True):
            assert torch.equal(a, b), family.name
            assert (a.shape, a.dtype) == (c.shape, c.dtype), family.name


def test_a_row_of_the_tests_grows_in_one_size() -> None:
    (searched,) = (r for r in INDEXING if r.name == "searchsorted rows")
    family = scaled_family(searched)
    shapes = [[tuple(a.shape) for a in family.problem(n, Draw())[1:]] for n in (18, 180)]
    assert shapes == [[(3, 6), (3, 4)], [(30, 6), (30, 4)]]
    _, edges, _ = family.problem(180, Draw())
    assert bool((edges.diff() >= 0).all()), "what was sorted still is"


def test_positions_grow_with_what_they_lie_in() -> None:
    (reduced,) = (r for r in INDEXING if r.name == "scatter_reduce amax")
    function, x, source, at = scaled_family(reduced).problem(12 * 50, Draw())
    assert int(at.max()) > 4
    assert function(x, source, at).shape == x.shape
