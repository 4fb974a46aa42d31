"""The order of digits by instructions, which are carried out here for all threads in step."""

from __future__ import annotations

import re

import numpy as np
import pytest

from aot.backends.triton.digit_order import WARPS, digit_numbers, digit_order, register_types
from aot.backends.triton.tiling import WARP
from tests.settings import seeded

THREADS = WARP * WARPS


class Threads:
    """Registers of a program's threads, uint32 or bool, and its memory."""

    def __init__(self, operands: list[np.ndarray]) -> None:
        self.lane = np.arange(THREADS, dtype=np.uint32) % WARP
        self.registers: dict[str, np.ndarray] = {
            "%tid.x": np.arange(THREADS, dtype=np.uint32),
            "%laneid": self.lane,
            "%lanemask_lt": ((1 << self.lane.astype(np.uint64)) - 1).astype(np.uint32),
            **{f"${len(operands) + k}": own for k, own in enumerate(operands)},
        }
        self.memory = np.full(1 << 16, 0xAAAAAAAA, np.uint32)
        self.top = 0

    def declare(self, name: str, words: int) -> None:
        self.registers[name] = np.full(THREADS, 4 * self.top, np.uint32)
        self.top += words

    def value(self, text: str) -> np.ndarray:
        if re.fullmatch(r"-?\d+", text):
            return np.full(THREADS, int(text) & 0xFFFFFFFF, np.uint32)
        return self.registers[text]

    def cells(self, text: str, guard: np.ndarray) -> np.ndarray:
        base, _, offset = text.strip("[]").partition("+")
        places = self.value(base) + np.uint32(int(offset or 0))
        assert not (places[guard] % 4).any() and (places[guard] < 4 * self.top).all()
        return places // 4

    def alone(self, text: str, guard: np.ndarray) -> np.ndarray:
        """Words that one thread each writes: which of several does is not said."""
        cells = self.cells(text, guard)[guard]
        assert len(np.unique(cells)) == len(cells)
        return cells

    def warps(self, values: np.ndarray) -> np.ndarray:
        return values.reshape(WARPS, WARP)

    def do(self, statement: str) -> None:
        guard = np.full(THREADS, True)
        if statement.startswith("@"):
            name, statement = statement[1:].split(" ", 1)
            guard = ~self.registers[name[1:]] if name[0] == "!" else self.registers[name]
        op, *rest = statement.split(" ", 1)
        args = [a.strip() for a in rest[0].split(",")] if rest else []
        if op.startswith("bar."):
            return
        if op == "st.shared.b32":
            cells = self.alone(args[0], guard)
            self.memory[cells] = self.value(args[1])[guard]
            return
        if op in ("red.shared.add.u32", "atom.shared.add.u32"):
            place, number = args[-2:]
            cells = self.cells(place, guard)[guard] if op[0] == "r" else self.alone(place, guard)
            before = self.memory.copy()
            np.add.at(self.memory, cells, self.value(number)[guard])
            if op[0] == "r":
                return
            self.registers.setdefault(args[0], np.zeros(THREADS, np.uint32))
            self.registers[args[0]] = self.registers[args[0]].copy()
            self.registers[args[0]][guard] = before[cells]
            return
        target, _, flag = args[0].partition("|")
        if flag:
            self.registers[flag] = self.lane >= int(args[2])
        if op == "ld.shared.b32":
            made = self.value("0").copy()
            made[guard] = self.memory[self.cells(args[1], guard)[guard]]
        else:
            made = self.result(op, args[1:])
        before = self.registers.get(target, made)
        self.registers[target] = np.where(guard, made, before)

    def result(self, op: str, args: list[str]) -> np.ndarray:
        a, *more = (self.value(text) for text in args)
        if op == "vote.sync.ballot.b32":
            bits = self.warps(a).astype(np.uint64) << np.arange(WARP, dtype=np.uint64)
            return np.repeat(bits.sum(1).astype(np.uint32), WARP)
        if op == "shfl.sync.idx.b32":
            source = self.warps(more[0]).astype(int)
            return np.take_along_axis(self.warps(a), source, 1).reshape(-1)
        if op == "shfl.sync.up.b32":
            return np.roll(self.warps(a), int(args[1]), 1).reshape(-1)
        return {
            "mov.u32": lambda: a,
            "and.b32": lambda: a & more[0],
            "not.b32": lambda: ~a,
            "shr.u32": lambda: a >> more[0],
            "add.u32": lambda: a + more[0],
            "sub.u32": lambda: a - more[0],
            "mad.lo.u32": lambda: a * more[0] + more[1],
            "min.u32": lambda: np.minimum(a, more[0]),
            "brev.b32": lambda: np.array([int(f"{v:032b}"[::-1], 2) for v in a], np.uint32),
            "clz.b32": lambda: np.array([32 - int(v).bit_length() for v in a], np.uint32),
            "setp.lt.u32": lambda: a < more[0],
            "setp.eq.and.u32": lambda: (a == more[0]) & more[1],
            "setp.ne.u32": lambda: a != more[0],
            "setp.eq.u32": lambda: a == more[0],
            "setp.gt.u32": lambda: a > more[0],
            "popc.b32": lambda: np.bitwise_count(a).astype(np.uint32),
        }[op]()


def carried_out(text: str, operands: list[np.ndarray]) -> list[np.ndarray]:
    """What the instructions leave in the results' registers."""
    threads = Threads(operands)
    for statement in re.split(r"[;\n]+\s*", text.strip("{}\n")):
        shared = re.fullmatch(r"\.shared .* (\w+)\[(\d+)\]", statement)
        if shared:
            threads.declare(shared[1], int(shared[2]))
        elif statement and not statement.startswith(".reg"):
            threads.do(statement)
    return [threads.registers[f"${k}"] for k in range(len(operands))]


@pytest.mark.parametrize("held", ("apart", "together", "shuffled"))
@pytest.mark.parametrize("each", (1, 4, 8))
def test_numbers_get_into_the_order_of_their_digits(each, held):
    size = each * THREADS
    bits, rng = size.bit_length() - 1, np.random.default_rng(seeded(each))
    digits = rng.integers(0, 256, size)
    digits[: size // 3] = 77  # equal ones keep their order
    numbers = ((digits << bits) | np.arange(size)).astype(np.uint32)
    places = np.arange(size)
    if held == "together":
        places = places.reshape(THREADS, each).T.reshape(-1)
    elif held == "shuffled":
        rng.shuffle(places)
    operands = list(numbers[places].reshape(each, THREADS))
    found = np.concatenate(carried_out(digit_order(each, bits), operands))
    assert np.array_equal(found, np.sort(numbers)[places])


@pytest.mark.parametrize("digit", (0, 255))
def test_all_digits_alike(digit):
    numbers = ((digit << 10) | np.arange(2 * THREADS)).astype(np.uint32)
    found = carried_out(digit_order(2, 10), list(numbers.reshape(2, THREADS)))
    assert np.array_equal(np.concatenate(found), numbers)


def test_how_often_there_are_digits():
    digits = np.random.default_rng(seeded()).integers(0, 256, 2 * THREADS)
    digits[:99] = 255
    numbers = ((digits << 10) | np.arange(2 * THREADS)).astype(np.uint32)
    found = carried_out(digit_numbers(2, 10), list(numbers.reshape(2, THREADS)))
    counts = np.concatenate(found)
    assert np.array_equal(counts[:256], np.bincount(digits, minlength=256))
    assert not counts[256:].any()


def test_registers():
    assert register_types(2) == "=r,=r,r,r"
