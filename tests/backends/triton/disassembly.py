"""What is in a cubin: instructions by name, registers and local memory of its kernel."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from aot.backends.triton.toolchain import find_triton
from aot.ir.images import KernelImage

_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)", re.M)
_LINE = re.compile(
    r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?(?P<name>[A-Z][\w.]*)\s*(?P<operands>.*?)\s*;"
)
_UNIFORM = re.compile(r"\bUR(\d+)\b")
_TENSOR = re.compile(r"(?:[HIDQO]?G?MMA|UTC\w*MMA)\b")
_LOAD = re.compile(r"(?:LDG|LDGSTS|UTMALDG|UBLKCP)\b")
_WIDE = re.compile(r"\.(?:64|128|256)\b")


@dataclass(frozen=True)
class MachineCode:
    """The machine code of one kernel.

    Attributes:
        instructions: How often each instruction occurs, with its modifiers.
        registers: Of a thread.
        local_bytes: Local memory of a thread: what did not fit into registers.
        unwritten: Uniform registers that are read before anything has written them, in the straight
            line from the entry: whatever was in them becomes a part of an address or descriptor.
        beside_products: Powers that are computed while asynchronous products run.
    """

    instructions: Counter[str]
    registers: int
    local_bytes: int
    unwritten: tuple[str, ...] = ()
    beside_products: int = 0

    @property
    def uses_tensor_cores(self) -> bool:
        """True when there is a matrix multiplication instruction."""
        return any(_TENSOR.match(name) for name in self.instructions)

    @property
    def loads(self) -> int:
        """Loads from global memory, those of the copy engine included."""
        return sum(n for name, n in self.instructions.items() if _LOAD.match(name))

    @property
    def vector_loads(self) -> int:
        """Of the loads, those of 8 bytes and more a thread, or of whole tiles."""
        return sum(
            n
            for name, n in self.instructions.items()
            if _LOAD.match(name) and (_WIDE.search(name) or name.startswith("U"))
        )


def disassemble(image: KernelImage, arch: str) -> MachineCode:
    """Takes the image apart with the programs that come with Triton."""
    triton = find_triton(arch)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(image.data)
        file.flush()
        code = _output([triton.tool("nvdisasm"), "-c", file.name])
        usage = _output([triton.tool("cuobjdump"), "-res-usage", file.name])
    (function,) = re.findall(r"Function (\w+):\s*\n\s*(.*)", usage)
    assert function[0] == image.symbol
    numbers = {key: int(value) for key, value in re.findall(r"(\w+):(\d+)", function[1])}
    instructions = Counter(_INSTRUCTION.findall(code))
    assert instructions["EXIT"] > 0, code[:500]
    local = numbers["STACK"] + numbers["LOCAL"]
    unwritten = tuple(unwritten_registers(code))
    return MachineCode(instructions, numbers["REG"], local, unwritten, beside_products(code))


def beside_products(code: str) -> int:
    """Of `MachineCode`, of disassembled code: behind a wait that leaves products running."""
    count, running = 0, False
    for line in code.splitlines():
        if "WARPGROUP.DEPBAR" in line:
            running = re.search(r"gsb0, 0x[1-9]", line) is not None
        count += running and "MUFU.EX2" in line
    return count


def unwritten_registers(code: str) -> Iterator[str]:
    """Those of `MachineCode.unwritten`, of disassembled code: up to the first label or branch."""
    written: set[int] = set()
    for line in code.splitlines():
        if line.startswith(".L_x") or re.search(r"\b(?:BRA|EXIT)\b", line):
            return
        found = _LINE.match(line)
        if found is None:
            continue
        name, operands = found["name"], found["operands"].split(",")
        writes = name.startswith(("U", "R2UR", "S2UR")) and operands[0].startswith("UR")
        read = operands[1:] if writes else operands
        for number in (int(n) for text in read for n in _UNIFORM.findall(text)):
            if number not in written:
                yield f"UR{number}"
        if writes:
            (first,) = map(int, _UNIFORM.findall(operands[0]))
            written |= set(range(first, first + _width(name)))


def _width(name: str) -> int:
    """Registers that an instruction writes."""
    return 4 if ".128" in name else 2 if ".64" in name or ".WIDE" in name else 1


def _output(command) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
