from aot_runtime.embeddings.grouping import companions, groups
from hypothesis import given, settings
from hypothesis import strategies as st

LENGTHS = st.lists(st.integers(1, 60), min_size=1, max_size=40)


def padding(lengths: list[int], rows: list[int]) -> int:
    longest = max(lengths[i] for i in rows)
    return sum(longest - lengths[i] for i in rows)


@settings(deadline=None)
@given(LENGTHS, st.integers(1, 8), st.integers(0, 50))
def test_every_row_runs_once_and_little_is_padded(
    lengths: list[int], most: int, spare: int
) -> None:
    made = groups(lengths, most, spare)
    assert sorted(i for group in made for i in group) == list(range(len(lengths)))
    assert all(len(group) <= most and padding(lengths, group) <= spare for group in made)


def test_like_lengths_run_together() -> None:
    assert groups([5, 40, 6, 41], 8, 4) == [[3, 1], [2, 0]]
    assert len(groups([7] * 20, 8)) == 3


@settings(deadline=None)
@given(LENGTHS, st.integers(1, 8), st.integers(0, 50))
def test_the_row_that_waits_longest_goes_first(lengths: list[int], most: int, spare: int) -> None:
    chosen = companions(lengths, most, spare)
    assert chosen[0] == 0 and chosen == sorted(set(chosen))
    assert len(chosen) <= most and padding(lengths, chosen) <= spare


def test_others_of_its_length_go_with_it() -> None:
    assert companions([10, 40, 11, 9, 41], 8, 4) == [0, 2, 3]
    assert companions([10, 10, 10, 10], 2) == [0, 1]
