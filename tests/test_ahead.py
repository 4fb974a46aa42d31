"""Processes that wait for their work are told it once, and end with who forked them."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import closing
from pathlib import Path

import pytest

from aot.ahead import Told, fork_ahead, receive, send


def forked(work):
    """A fork that does `work` with what it is told, and nothing of pytest's."""
    fork = fork_ahead()
    if isinstance(fork, Told):
        try:
            work(fork)
        finally:
            os._exit(3)
    return fork


def test_a_fork_does_what_it_is_told_with_what_it_is_given(tmp_path: Path) -> None:
    def work(told: Told) -> None:
        os.write(told.descriptors[0], told.data * 2)

    fork = forked(work)
    file = tmp_path / "out"
    with file.open("wb") as out:
        fork.tell(b"abc" * 100_000, [out.fileno()])
    assert os.waitstatus_to_exitcode(os.waitpid(fork.process, 0)[1]) == 3
    assert file.read_bytes() == b"abc" * 200_000


def test_a_fork_that_is_never_told_ends(tmp_path: Path) -> None:
    fork = forked(lambda told: (tmp_path / "begun").touch())
    fork.way.close()
    assert os.waitstatus_to_exitcode(os.waitpid(fork.process, 0)[1]) == 0
    assert not (tmp_path / "begun").exists()


@pytest.mark.parametrize("sent", [0, 5, 8, 20])
def test_a_message_that_is_cut_is_none(sent: int) -> None:
    ours, theirs = socket.socketpair()
    with closing(theirs), closing(ours):
        made = (20).to_bytes(8, "little") + b"x" * 20
        ours.sendall(made[:sent])
        ours.close()
        assert receive(theirs) is None


def test_messages_come_whole_and_in_order() -> None:
    ours, theirs = socket.socketpair()
    texts = [b"", b"a", b"b" * 3_000_000]
    with closing(theirs), closing(ours):
        sender = threading.Thread(target=lambda: [send(ours, text) for text in texts])
        sender.start()
        assert [receive(theirs) for _ in texts] == [Told(text, ()) for text in texts]
        sender.join()
