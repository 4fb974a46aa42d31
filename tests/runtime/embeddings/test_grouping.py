import random

import pytest
from aot_runtime.embeddings.grouping import RUN_TOKENS, RunCost, companions, groups
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


@pytest.mark.parametrize("slower", [1.0, 7.0])
@pytest.mark.parametrize("run_tokens", [0, 3, 40])
def test_what_a_run_costs_is_learned(run_tokens: int, slower: float) -> None:
    cost, chance = RunCost(), random.Random(1)
    assert cost.tokens == RUN_TOKENS
    for _ in range(300):
        tokens = chance.randint(5, 200)
        noise = chance.uniform(0.9, 1.1)
        cost.saw(tokens, slower * 1e-4 * (run_tokens + tokens) * noise)
    assert abs(cost.tokens - run_tokens) <= 2 + run_tokens // 10


def test_the_newest_runs_count() -> None:
    cost, chance = RunCost(), random.Random(2)
    for run_tokens in (60, 10):
        for _ in range(1500):
            tokens = chance.randint(5, 200)
            cost.saw(tokens, run_tokens + tokens)
    assert abs(cost.tokens - 10) <= 2


def test_runs_of_one_size_tell_nothing() -> None:
    cost, chance = RunCost(), random.Random(3)
    for _ in range(300):
        cost.saw(64, chance.random())
    assert cost.tokens == RUN_TOKENS


def test_times_without_sense_stay_in_bounds() -> None:
    cost = RunCost()
    for number in range(300):
        cost.saw(1 + number % 100, 0.0 if number % 2 else 1.0)
        assert 0 <= cost.tokens <= 512
