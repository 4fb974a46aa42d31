"""Declarations at the end of an entry of code: what its kernels are called with and touch.

    machine code | JSON | u64 little-endian length of the JSON | MAGIC

So they are under the entry's hash, and are read without loading the code, whose loaders look at
nothing behind its image. docs/format.md, "Declarations", says what they mean.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aot_runtime.format.errors import CorruptPackage
from aot_runtime.format.json_value import JsonValue, expr_to_json
from aot_runtime.format.plan import DTYPE_BYTES, RELATIONS, Expr, KernelCode

MAGIC = b"AOTDECL1"
_LENGTH_BYTES = 8

Declared = int | str | tuple["Declared", ...]
"""An expression in the plan's form, over the variables "v0", "v1", …"""


@dataclass(frozen=True)
class Variable:
    """The values that a variable may have; `maximum` None: unbounded."""

    minimum: int
    maximum: int | None
    multiple_of: int = 1


@dataclass(frozen=True)
class DeclaredBuffer:
    """A buffer argument: the bytes, from its beginning, that the function may touch.

    `access`: "read", "write" or "update" (both).
    """

    dtype: str
    bytes: Declared
    access: str


@dataclass(frozen=True)
class Declaration:
    """What a function is called with, and what it touches then.

    For all values of the variables in their ranges for which the relations hold, called with these
    sizes and with units in [0, work) or with this grid, it touches no byte outside of the declared
    ones, whatever the buffers hold, and ends.

    Attributes:
        variables: Ranges of v0, v1, ….
        relations: (left, relation, right) between variables.
        sizes: The value of each size argument.
        buffers: In argument order.
        work: Independent units; 0 where there is a grid.
        scratch: Bytes for each worker; 0 where there is a grid.
        grid: Program instances in three dimensions, for a device that counts in those.
    """

    variables: tuple[Variable, ...]
    relations: tuple[tuple[Declared, str, Declared], ...]
    sizes: tuple[Declared, ...]
    buffers: tuple[DeclaredBuffer, ...]
    work: Declared
    scratch: Declared
    grid: tuple[Declared, Declared, Declared] | None = None


@dataclass(frozen=True)
class DeclaredCode:
    """What a kernel with code of its own declares besides: see `plan.KernelCode`."""

    threads: int
    shared: int
    scratch: int
    scratch_alignment: int
    faults: bool
    waits: bool


def declared_code(code: KernelCode) -> DeclaredCode:
    """What the declaration of a kernel with this code says of it."""
    return DeclaredCode(
        threads=code.threads,
        shared=code.shared,
        scratch=code.scratch,
        scratch_alignment=code.scratch_alignment,
        faults=code.faults,
        waits=code.waits,
    )


@dataclass(frozen=True)
class KernelDeclaration:
    """A kernel's declaration under its name; `code`: of kernels that have code of their own."""

    name: str
    declaration: Declaration
    code: DeclaredCode | None = None


def encode_declarations(kernels: Sequence[KernelDeclaration]) -> bytes:
    """What is appended to the machine code of these kernels: equal kernels give equal bytes."""
    value = {"kernels": [_kernel_out(kernel) for kernel in kernels]}
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    return text + len(text).to_bytes(_LENGTH_BYTES, "little") + MAGIC


def decode_declarations(
    data: bytes | memoryview, entry: str
) -> tuple[KernelDeclaration, ...] | None:
    """The declarations at the end of an entry of code; None where it has none.

    Args:
        data: The entry's bytes.
        entry: Its name, for messages.

    Raises:
        CorruptPackage: They do not lie within the entry, or are not as docs/format.md says.
    """
    if bytes(data[-len(MAGIC) :]) != MAGIC:
        return None
    where = f"entry {entry}"
    end = len(data) - len(MAGIC) - _LENGTH_BYTES
    length = int.from_bytes(data[max(end, 0) : end + _LENGTH_BYTES], "little")
    if end < 0 or length > end:
        raise CorruptPackage(
            f"the declarations claim {length} bytes of an entry of {len(data)}", where=where
        )
    try:
        value = json.loads(bytes(data[end - length : end]).decode("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise CorruptPackage(f"the declarations are not JSON: {error}", where=where) from error
    return JsonValue(value, "declarations", where)["kernels"].each(_kernel_in)


def _kernel_out(kernel: KernelDeclaration) -> Mapping[str, Any]:
    declaration, code = kernel.declaration, kernel.code
    shared: dict[str, Any] = {
        "name": kernel.name,
        "dims": [
            {"min": v.minimum, "max": v.maximum, "multiple_of": v.multiple_of}
            for v in declaration.variables
        ],
        "relations": [
            [expr_to_json(left), relation, expr_to_json(right)]
            for left, relation, right in declaration.relations
        ],
        "sizes": [expr_to_json(e) for e in declaration.sizes],
        "buffers": [
            {"dtype": b.dtype, "bytes": expr_to_json(b.bytes), "access": b.access}
            for b in declaration.buffers
        ],
    }
    if declaration.grid is None or code is None:
        work, scratch = expr_to_json(declaration.work), expr_to_json(declaration.scratch)
        return {**shared, "work": work, "scratch": scratch}
    return {
        **shared,
        "grid": [expr_to_json(e) for e in declaration.grid],
        "threads": code.threads,
        "shared": code.shared,
        "scratch": code.scratch,
        "scratch_alignment": code.scratch_alignment,
        "faults": code.faults,
        "waits": code.waits,
    }


def _kernel_in(v: JsonValue) -> KernelDeclaration:
    grid, code = None, None
    work: Declared = 0
    scratch: Declared = 0
    if v.has("grid"):
        numbers = v["grid"].each(_expr_in)
        if len(numbers) != 3:
            raise v["grid"].wrong("three numbers")
        grid = (numbers[0], numbers[1], numbers[2])
        code = DeclaredCode(
            threads=v["threads"].integer(),
            shared=v["shared"].integer(),
            scratch=v["scratch"].integer(),
            scratch_alignment=v["scratch_alignment"].integer(),
            faults=v["faults"].boolean(),
            waits=v["waits"].boolean(),
        )
    else:
        work, scratch = _expr_in(v["work"]), _expr_in(v["scratch"])
    declaration = Declaration(
        v["dims"].each(_variable_in),
        v["relations"].each(_relation_in),
        v["sizes"].each(_expr_in),
        v["buffers"].each(_buffer_in),
        work,
        scratch,
        grid,
    )
    return KernelDeclaration(v["name"].text(), declaration, code)


def _variable_in(v: JsonValue) -> Variable:
    greatest = None if v["max"].value is None else v["max"].integer()
    return Variable(v["min"].integer(), greatest, v["multiple_of"].integer())


def _relation_in(v: JsonValue) -> tuple[Declared, str, Declared]:
    parts = v.each(lambda item: item)
    if len(parts) != 3:
        raise v.wrong("a relation of two expressions")
    left, relation, right = parts
    return _expr_in(left), relation.one_of(*RELATIONS), _expr_in(right)


def _buffer_in(v: JsonValue) -> DeclaredBuffer:
    return DeclaredBuffer(
        v["dtype"].one_of(*DTYPE_BYTES),
        _expr_in(v["bytes"]),
        v["access"].one_of("read", "write", "update"),
    )


def _expr_in(v: JsonValue) -> Declared:
    return _tuples(v.expr())


def _tuples(expr: Expr) -> Declared:
    return tuple(_tuples(e) for e in expr) if isinstance(expr, list | tuple) else expr
