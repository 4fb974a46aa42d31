"""Attention's table of operations a second: what a row takes, and the page."""

from benchmarks.processes import Event
from benchmarks.shapes.rates import COLUMNS, TOKENS, Rate, page, rate_of


def rate(head: int, length: int, *, causal: bool, **seconds: float) -> Rate:
    """A row of these times."""
    made = Rate(head, length, causal)
    for who, taken in seconds.items():
        made.take(Event(who, 0, taken))
    return made


def test_a_name_says_all_of_the_problem() -> None:
    made = rate(128, 4096, causal=True)
    assert rate_of(made.name) == made
    assert (made.batch * made.length, made.heads * made.head) == (TOKENS, COLUMNS)


def test_the_fastest_of_torch_counts_and_a_mask_leaves_half_of_the_work() -> None:
    made = rate(128, 16384, causal=False, ours=1.0, flash=4.0, cudnn=2.0)
    whole = made.work
    assert whole == 4.0 * TOKENS * COLUMNS * 16384
    made.seconds = {who: taken * whole / 1e15 for who, taken in made.seconds.items()}
    assert made.cell() == "1000 / 500"
    assert rate(128, 16384, causal=True).work == whole / 2


def test_what_has_no_time_says_so() -> None:
    made = rate(64, 1024, causal=True, flash=1.0)
    made.take(Event("stop", 0, text="no package"))
    assert made.cell() == "–"
    assert made.notes == ["no package"]


def test_the_page_has_a_row_a_head_and_a_column_a_length() -> None:
    rows = [rate(head, n, causal=True, ours=1.0, cudnn=1.0) for head in (64, 32) for n in (1, 2)]
    text = page(rows, "one GPU")
    assert "| head | 1 | 2 |\n|---|---|---|\n| 32 |" in text
    assert "Without a mask" not in text
