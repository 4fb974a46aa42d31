"""Paths among groups, found as a search of everything finds them, while groups are joined."""

from __future__ import annotations

import random

import pytest

from aot.schedule.precedence import Precedence

Followers = dict[int, set[int]]


def order_of(followers: Followers) -> Precedence:
    """The order of keys that are their own positions."""
    return Precedence({key: key for key in followers}, lambda key: followers[key])


def leads(followers: Followers, start: int, goal: int) -> bool:
    """Whether a path of two steps or more goes from one to the other."""
    seen: set[int] = set()
    left = [k for k in followers[start] if k != goal]
    while left:
        key = left.pop()
        if key in seen:
            continue
        seen.add(key)
        left += followers[key] - {goal}
    return any(goal in followers[key] for key in seen)


def joined(followers: Followers, first: int, second: int, key: int) -> None:
    """Two keys become one, in place."""
    followers[key] = (followers.pop(first) | followers.pop(second)) - {first, second}
    for other in followers.values():
        if other & {first, second}:
            other -= {first, second}
            other.add(key)


def test_a_path_goes_through_another_key() -> None:
    order = order_of({0: {1, 2}, 1: {2}, 2: set(), 3: set()})
    assert order.reaches(0, 2)
    assert not order.reaches(0, 1)
    assert not order.reaches(2, 0)
    assert not order.reaches(0, 3)


def test_what_follows_may_have_an_earlier_position() -> None:
    order = order_of({0: set(), 1: {0}, 2: {1}})
    assert order.reaches(2, 0)
    assert not order.reaches(0, 2)


@pytest.mark.parametrize("seed", range(8))
def test_answers_stay_right_while_keys_are_joined(seed: int) -> None:
    draw = random.Random(seed)
    names = draw.sample(range(24), 24)
    followers = {
        key: {other for other in names[place + 1 :] if draw.random() < 0.1}
        for place, key in enumerate(names)
    }
    order = order_of(followers)
    for fresh in range(24, 40):
        pairs = [(a, b) for a in followers for b in followers if a != b]
        for a, b in pairs:
            assert order.reaches(a, b) == leads(followers, a, b)
        free = [p for p in pairs if not leads(followers, *p) and not leads(followers, *p[::-1])]
        if not free:
            break
        first, second = draw.choice(free)
        order.merge(first, second, fresh)
        joined(followers, first, second, fresh)


def test_in_a_circle_paths_are_looked_for_everywhere() -> None:
    followers = {0: {1}, 1: {2}, 2: {0}, 3: {0}, 4: set()}
    order = order_of(followers)
    assert order.reaches(2, 1)
    assert order.reaches(3, 1)
    assert not order.reaches(0, 3)
    order.merge(3, 4, 5)
    joined(followers, 3, 4, 5)
    assert order.reaches(5, 1)
