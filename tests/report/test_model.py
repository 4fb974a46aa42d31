"""Numbers for people."""

import pytest
from aot_runtime.tools.units import format_bytes, format_seconds

from aot.report.model import Roofline, format_count
from tests.report.samples import sample_report


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1840, "1.84 kB"), (2.5e6, "2.5 MB"), (5e12, "5e+03 GB")],
)
def test_bytes(count: float, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("count", "text"), [(7, "7"), (2_500_000_000, "2.5 G"), (1.5e15, "1.5e+03 T")]
)
def test_counts(count: float, text: str) -> None:
    assert format_count(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(12.34e-6, "12.3 µs"), (0.0456, "45.6 ms"), (3.14159, "3.14 s")]
)
def test_seconds(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_roofline_takes_the_slower_of_the_two() -> None:
    roofline = Roofline(100, 1000)
    assert roofline.seconds(200, 100) == 2
    assert roofline.seconds(2, 4000) == 4


def test_a_least_time_is_of_the_smallest_cache_that_holds_all() -> None:
    roofline = Roofline(100, 1000, caches=((10, 1000), (100, 500)))
    assert [roofline.seconds(n, 0) for n in (10, 100, 200)] == [0.01, 0.2, 2]


def test_time_of_a_build_is_the_sum_of_its_stages() -> None:
    assert sample_report().seconds == 1.75
