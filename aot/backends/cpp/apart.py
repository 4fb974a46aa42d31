"""Functions of templates that units call and do not compile, as models share them.

Micro-kernels are most of what a compiler has to do for a product, and depend on nothing but how
many rows and panels they take, which the templates' constants decide in C++; so are the passes of a
transform whose length a run knows, which depend on where points come from and go to, and what a
routine does with one large matrix, which depends on its numbers. So units are compiled first, and
say by their undefined symbols which they call. Each of these is a unit of its own, kept for all
models that will come.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator

DECLARED = "aot/tmpl/apart.h"
"""The header behind which a unit calls them from elsewhere."""

_OPERATIONS = {
    "11MultiplyAddIfE": ("MultiplyAdd<float>", "aot/tmpl/micro.h"),
    "11MultiplyAddIdE": ("MultiplyAdd<double>", "aot/tmpl/micro.h"),
    "7Bf16Dot": ("Bf16Dot", "aot/tmpl/bf16.h"),
}
"""How a symbol has an operation's type: its name, and the header that knows it."""

_SYMBOL = re.compile(
    r"_ZN3aot4tmpl\d+(?P<kernel>micro_kernel|half_last_kernel|half_kernel|joined_kernel)"
    rf"INS0_(?P<operation>{'|'.join(_OPERATIONS)})E"
    r"(?P<sizes>(?:Li\d+E)+)EEvRKNS0_9MicroArgsINT_4TypeEEE"
)

_FROM = (("Apart", (True,)), ("Turned", (False,)), ("Turned", (True,)))
_TO = (
    ("Beside", ()),
    ("Factored", (True, False)),
    ("Factored", (True, True)),
    ("Finished", (False,)),
    ("Finished", (True,)),
    ("Results", (True, False)),
    ("Results", (True, True)),
)
"""Where a transform's first pass has its points from, and its last one puts them: a template of
aot/tmpl/fft_open.h and what it is given behind the type. Between them are buffers (`Held`)."""


def _passes() -> dict[str, str]:
    """The symbols of passes, and what their template is given."""
    found = {}
    for kind in ("float", "double"):
        letter = kind[0]
        held = _points(kind, "Held", ())
        # A type that was said before is a number.
        pairs = [(held, ("S4_", held[1]))]
        pairs += [(_points(kind, *points), held) for points in _FROM]
        pairs += [(held, _points(kind, *points)) for points in _TO]
        for (first, given), (second, results) in pairs:
            symbol = f"_ZN3aot4tmpl10fft_detail7pass_ofI{letter}{first}{second}"
            found[f"{symbol}EEvilllPKT_RKT0_RKT1_"] = f"{kind}, {given}, {results}"
    return found


def _points(kind: str, name: str, flags: tuple[bool, ...]) -> tuple[str, str]:
    """How a symbol, and C++, have the type of where points are."""
    symbol = "".join(f"Lb{flag:d}E" for flag in flags)
    words = ", ".join([kind, *(str(flag).lower() for flag in flags)])
    return f"NS1_{len(name)}{name}I{kind[0]}{symbol}EE", f"{name}<{words}>"


_PASSES = _passes()

_MATRIX = re.compile(
    r"_ZN3aot6linalg\d+(?P<function>conquer|reduce|turn_back|reflect_blocks|hessenberg_basis"
    r"|find_spectrum|find_vectors)I(?:NS0_(?P<parts>5|12Complex)DenseI)?(?P<kind>[fd])"
    r"(?:Lb(?P<squares>[01])E)?(?:.*?(?P<what>Tridiagonal|Bidiagonal|Hessenberg)I)?.*"
)
"""A symbol of aot/linalg: a function, whether numbers are complex, their type, what it is given."""

_MATRIX_TAKES = {
    "conquer": ("void", "conquer", "const Conquer<{T}, {squares}>&, int64_t"),
    "reduce": ("void", "{header}", "const {what}<{M}>&, Room"),
    "turn_back": ("void", "turn_back", "{S}, {M}, int64_t, int64_t, {M}, int64_t, Room"),
    "reflect_blocks": ("void", "large_qr", "{M}, int64_t, int64_t, {M}, Room"),
    "hessenberg_basis": ("void", "hessenberg", "{M}, int64_t, {M}, {M}, Room"),
    "find_spectrum": ("bool", "large_eig", "const Multishift<{M}>&, Room"),
    "find_vectors": (
        "void",
        "large_eig",
        "const LargeEig<{M}, false>&, {M}, {M}, const Balance<{M}>&, {T}*, Room",
    ),
}
"""What each gives, its header, and what it takes: as aot/tmpl/apart.h declares it."""

_ELF64 = b"\x7fELF\2"
_SECTION = struct.Struct("<IIQQQQIIQQ")
_ENTRY = struct.Struct("<IBBHQQ")
_SYMBOLS = 2  # the type of a section of them
"""An ELF file's first bytes, section headers and symbols (System V ABI, chapter 4)."""


def wanted(objects: Iterable[bytes]) -> list[str]:
    """The functions that some of the objects call and none has, in order."""
    defined: dict[str, bool] = {}
    for data in objects:
        for name, here in _symbols(data):
            if name in _PASSES or _SYMBOL.fullmatch(name) or _MATRIX.fullmatch(name):
                defined[name] = defined.get(name, False) or here
    return sorted(name for name, here in defined.items() if not here)


def text_of(symbol: str) -> str:
    """The unit that has the function."""
    if symbol in _PASSES:
        return _text_of_pass(_PASSES[symbol])
    if (of_matrix := _MATRIX.fullmatch(symbol)) is not None:
        return _text_of_matrix(of_matrix)
    found = _SYMBOL.fullmatch(symbol)
    assert found is not None
    operation, header = _OPERATIONS[found["operation"]]
    arguments = ", ".join([f"aot::tmpl::{operation}", *re.findall(r"\d+", found["sizes"])])
    return (
        f'#include "{header}"\n\ntemplate void aot::tmpl::{found["kernel"]}<{arguments}>(\n'
        f"    const aot::tmpl::MicroArgs<aot::tmpl::{operation}::Type>&);\n"
    )


def _text_of_pass(arguments: str) -> str:
    kind = arguments.partition(",")[0]
    points = [f"const {part}&" for part in re.findall(r"\w+<[^>]*>", arguments)]
    takes = ", ".join(["int, int64_t, int64_t, int64_t", f"const {kind}*", *points])
    return (
        '#include "aot/tmpl/fft_open.h"\n\nnamespace aot::tmpl::fft_detail {\n'
        f"template void pass_of<{arguments}>(\n    {takes});\n}}\n"
    )


def _text_of_matrix(found: re.Match[str]) -> str:
    kind = {"f": "float", "d": "double"}[found["kind"]]
    complex = "Complex" if found["parts"] == "12Complex" else ""
    result, header, takes = _MATRIX_TAKES[found["function"]]
    names = {
        "T": kind,
        "M": f"{complex}Dense<{kind}>",
        "S": f"{complex}Seen<{kind}>",
        "squares": "true" if found["squares"] == "1" else "false",
        "what": found["what"],
        "header": (found["what"] or "").lower(),
    }
    return (
        f'#include "aot/linalg/{header.format_map(names)}.h"\n\nnamespace aot::linalg {{\n'
        f"template {result} {found['function']}({takes.format_map(names)});\n}}\n"
    )


def _symbols(data: bytes) -> Iterator[tuple[str, bool]]:
    """Names in an object file, and whether each is defined there."""
    if not data.startswith(_ELF64):
        return
    (at,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [_SECTION.unpack_from(data, at + k * size) for k in range(count)]
    for _, kind, _, _, begin, length, names, *_ in sections:
        if kind != _SYMBOLS:
            continue
        text = sections[names][4]
        for name, _, _, section, _, _ in _ENTRY.iter_unpack(data[begin : begin + length]):
            first = text + name
            yield data[first : data.index(b"\0", first)].decode(), section != 0
