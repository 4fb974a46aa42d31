"""What follows from kernels and buffers: who reads from whom, how deep, how long."""

from aot.report.model import BufferReport
from aot.report.page import Link, PageKernel, PageProgram, lanes


def kernel(name: str, reads: str, writes: str) -> PageKernel:
    return PageKernel(name, "pointwise", (), tuple(reads.split()), tuple(writes.split()), 0)


def program(*kernels: PageKernel, buffers: tuple[BufferReport, ...] = ()) -> PageProgram:
    return PageProgram("cpu", (), kernels, buffers)


def test_a_reader_follows_the_last_writer() -> None:
    found = program(
        kernel("a", "x", "t"), kernel("b", "t", "t"), kernel("c", "t x", "y"), kernel("d", "x", "z")
    )
    assert found.links == (Link(0, 1, "t"), Link(1, 2, "t"))
    assert found.columns == (0, 1, 2, 0)


def test_two_buffers_are_two_links_and_one_step() -> None:
    found = program(kernel("a", "x", "s t"), kernel("b", "s t", "y"))
    assert [link.buffer for link in found.links] == ["s", "t"]
    assert found.columns == (0, 1)


def test_lives_are_those_of_placed_buffers() -> None:
    buffers = (BufferReport("t", "temporary", 64, 0), BufferReport("x", "input", 64))
    found = program(
        kernel("a", "x", "t"), kernel("b", "x", "y"), kernel("c", "t", "y"), buffers=buffers
    )
    assert found.lives == {"t": (0, 2)}


def test_lanes_keep_neighbours_apart_and_lines_short() -> None:
    links = (Link(0, 2, "t"), Link(1, 3, "u"))
    # The second column's kernels stand beside what they read.
    assert lanes((0, 0, 1, 1), links) == (-0.5, 0.5, -0.5, 0.5)
    assert lanes((0, 0, 1, 1), (Link(1, 2, "t"), Link(0, 3, "u"))) == (-0.5, 0.5, 0.5, -0.5)
