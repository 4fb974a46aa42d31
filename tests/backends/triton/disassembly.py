"""What is in a cubin: instructions by name, registers and local memory of its kernel."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass

from aot.backends.triton.toolchain import find_triton
from aot.ir.images import KernelImage

_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)", re.M)
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
    """

    instructions: Counter[str]
    registers: int
    local_bytes: int

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
    return MachineCode(instructions, numbers["REG"], numbers["STACK"] + numbers["LOCAL"])


def _output(command) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
