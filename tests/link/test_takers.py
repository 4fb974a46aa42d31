"""Takers in threads of their own: all pieces in order, errors in the giver, a bounded memory."""

import threading

import pytest

from aot.link.takers import AHEAD_BYTES, takers


def test_every_taker_has_all_pieces_in_order() -> None:
    pieces = [bytes([k]) * 100 for k in range(50)]
    taken: list[list[bytes]] = [[], []]
    with takers(2) as side:
        for piece in pieces:
            side.give(
                memoryview(piece),
                *((k, lambda x, to=to: to.append(bytes(x))) for k, to in enumerate(taken)),
            )
        side.finish()
    assert taken == [pieces, pieces]


def test_no_more_is_ahead_than_may_be() -> None:
    piece = memoryview(bytes(AHEAD_BYTES // 4))
    go, waits = threading.Semaphore(0), 0
    with takers(1) as side:

        def take(x: memoryview) -> None:
            go.acquire()

        for _ in range(4):
            side.give(piece, (0, take))
        fifth = threading.Thread(target=side.give, args=(piece, (0, take)))
        fifth.start()
        fifth.join(0.05)
        waits += fifth.is_alive()
        go.release(5)
        fifth.join()
        side.finish()
    assert waits == 1


def test_an_error_is_the_givers_and_ends_all() -> None:
    taken = []

    def fail(x: memoryview) -> None:
        raise OSError("full")

    with pytest.raises(OSError, match="full"), takers(2) as side:
        for _ in range(3):
            side.give(memoryview(bytes(AHEAD_BYTES)), (0, taken.append), (1, fail))
    assert len(taken) < 3


def test_pieces_of_no_bytes_are_waited_for_too() -> None:
    go, taken = threading.Event(), []

    def take(x: memoryview) -> None:
        go.wait()
        taken.append(len(x))

    with takers(1) as side:
        side.give(memoryview(b""), (0, take))
        threading.Timer(0.05, go.set).start()
        side.finish()
        assert taken == [0]
