"""Declarations behind machine code: round trip, the text, and every way to be malformed."""

import json
from dataclasses import replace

import pytest
from aot_runtime.format.declarations import (
    MAGIC,
    KernelDeclaration,
    decode_declarations,
    encode_declarations,
)

from aot.errors import CorruptPackage
from tests.link.plans import device_declarations, host_declarations

CODE = b"\x7fELF" + bytes(99)


def rich() -> KernelDeclaration:
    """One with all that the schema has."""
    kernel = host_declarations()[1]
    declaration = replace(
        kernel.declaration,
        variables=(*kernel.declaration.variables, replace(kernel.declaration.variables[0])),
        relations=((("+", "v0", "v1"), "<=", 64), ("v0", "<", "v1")),
    )
    return replace(kernel, declaration=declaration)


@pytest.mark.parametrize("kernels", [(), host_declarations(), device_declarations(), (rich(),)])
def test_round_trip(kernels: tuple[KernelDeclaration, ...]) -> None:
    data = CODE + encode_declarations(kernels)
    assert decode_declarations(data, "kernels/k") == kernels
    assert decode_declarations(memoryview(data), "kernels/k") == kernels
    assert data.startswith(CODE)


def test_text_is_the_documented_one() -> None:
    text = encode_declarations(host_declarations()[1:])
    length = int.from_bytes(text[-16:-8], "little")
    assert text.endswith(MAGIC) and length == len(text) - 16
    assert json.loads(text[:-16]) == {
        "kernels": [
            {
                "name": "k1",
                "dims": [{"min": 0, "max": 64, "multiple_of": 1}],
                "relations": [],
                "sizes": ["v0"],
                "buffers": [
                    {"dtype": "float32", "bytes": ["*", 16, "v0"], "access": "read"},
                    {"dtype": "float32", "bytes": ["*", 16, "v0"], "access": "write"},
                ],
                "work": ["//", ["+", 3, "v0"], 4],
                "scratch": 256,
            }
        ]
    }
    (device,) = json.loads(encode_declarations(device_declarations())[:-16])["kernels"]
    assert list(device)[5:] == [
        *("grid", "threads", "shared", "scratch", "scratch_alignment", "faults", "waits")
    ]


def test_code_without_declarations() -> None:
    assert decode_declarations(CODE, "kernels/k") is None
    assert decode_declarations(b"", "kernels/k") is None


def _trailer(text: bytes, length: int | None = None) -> bytes:
    return text + (len(text) if length is None else length).to_bytes(8, "little") + MAGIC


def _with(**changes: object) -> bytes:
    """The second kernel with some keys changed; None: left out."""
    kernel = json.loads(encode_declarations(host_declarations()[1:])[:-16])["kernels"][0]
    kernel = {k: v for k, v in (kernel | changes).items() if v is not None}
    return _trailer(json.dumps({"kernels": [kernel]}).encode())


MALFORMED = {
    "claim 4000 bytes of an entry of 119": CODE + _trailer(b"", 4000),
    "of an entry of 8": MAGIC,
    "are not JSON": CODE + _trailer(b"{"),
    "has no key 'kernels'": _trailer(b"{}"),
    "kernels[0] has no key 'work'": _with(work=None),
    "kernels[0].dims[0].min must be an integer": _with(
        dims=[{"min": "0", "max": None, "multiple_of": 1}]
    ),
    "relations[0] must be a relation of two": _with(relations=[["v0", "<="]]),
    "relations[0][1] must be one of": _with(relations=[["v0", ">", 3]]),
    "buffers[0].dtype must be one of": _with(
        buffers=[{"dtype": "float8", "bytes": 0, "access": "read"}]
    ),
    "buffers[0].access must be one of": _with(
        buffers=[{"dtype": "bool", "bytes": 0, "access": "all"}]
    ),
    "kernels[0].grid must be three numbers": _with(grid=[1, 1]),
}


@pytest.mark.parametrize("problem", MALFORMED)
def test_malformed_declarations_are_refused(problem: str) -> None:
    with pytest.raises(CorruptPackage) as caught:
        decode_declarations(MALFORMED[problem], "kernels/k")
    assert problem in str(caught.value)
    assert "entry kernels/k" in str(caught.value)
