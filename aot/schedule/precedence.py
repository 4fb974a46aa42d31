"""Which groups come after which, while groups are joined: a topological order that is kept.

Whether a path leads from one group to another is asked for every pair that is tried. Looked for
among all that follows, it takes as long as the model; in an order that agrees with every path, only
what stands between the two can be on one.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Mapping


class Precedence:
    """Keys in an order in which each comes before those that follow it.

    `followers`: of a key, those that it must come before, as they are when it is called. Where keys
    follow each other in a circle there is no such order, and paths are looked for everywhere.
    """

    def __init__(
        self, positions: Mapping[int, int], followers: Callable[[int], Collection[int]]
    ) -> None:
        self._followers = followers
        found = _sorted(positions, followers)
        self._ordered = len(found) == len(positions)
        self._keys: list[int | None] = [*found]
        """By place; None where a key was joined to another."""
        self._places = {key: place for place, key in enumerate(found)}

    def reaches(self, start: int, goal: int) -> bool:
        """True when a path leads from `start` to `goal` through at least one other key."""
        if self._ordered and self._places[start] > self._places[goal]:
            return False
        seen: set[int] = set()
        stack = [k for k in self._before(start, goal) if k != goal]
        while stack:
            key = stack.pop()
            if key in seen:
                continue
            seen.add(key)
            after = self._before(key, goal)
            if goal in after:
                return True
            stack.extend(after)
        return False

    def _before(self, key: int, goal: int) -> list[int]:
        """Followers from which a path may lead to the goal, and the goal itself."""
        after = self._followers(key)
        if not self._ordered:
            return list(after)
        end = self._places[goal]
        return [k for k in after if self._places[k] <= end]

    def merge(self, first: int, second: int, key: int) -> None:
        """`key` in place of two keys between which no path leads through another.

        To be called while `followers` knows the two, and not yet the new one.
        """
        if not self._ordered:
            return
        earlier, later = sorted((first, second), key=self._places.__getitem__)
        low, high = self._places[earlier], self._places[later]
        after: set[int] = set()
        stack = [earlier]
        while stack:
            fresh = set(self._before(stack.pop(), later)) - after
            after |= fresh
            stack.extend(fresh - {later})
        between = [k for k in self._keys[low + 1 : high] if k is not None]
        moved = [k for k in between if k not in after]
        moved += [key, *(k for k in between if k in after)]
        self._keys[low : high + 1] = [*moved, *([None] * (high + 1 - low - len(moved)))]
        del self._places[first], self._places[second]
        self._places.update({k: low + n for n, k in enumerate(moved)})


def _sorted(positions: Mapping[int, int], followers: Callable[[int], Collection[int]]) -> list[int]:
    """Each before its followers, early positions first; without those in or after a circle."""
    after = {key: set(followers(key)) for key in positions}
    waiting = dict.fromkeys(positions, 0)
    for keys in after.values():
        for key in keys:
            waiting[key] += 1
    ready = [(positions[key], key) for key, count in waiting.items() if not count]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        _, key = heapq.heappop(ready)
        order.append(key)
        for follower in after[key]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heapq.heappush(ready, (positions[follower], follower))
    return order
