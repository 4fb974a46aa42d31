"""The Rust declarations of `abi.h`, made from the header: `python -m tools.rust_abi` writes them.

The C preprocessor and pycparser read the header; a type, field or function that this file does not
know how to say in Rust stops it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pycparser import c_ast, c_parser

from tools.code_facts import ROOT

TARGET = ROOT / "bindings" / "rust" / "src" / "sys.rs"
INCLUDE = ROOT / "cpp" / "include"

HEAD = """\
//! The C interface of the runtime as it stands in `aot/abi.h`, whose comments say who owns what,
//! which threads may call and what a failure leaves. Made by `python -m tools.rust_abi`.
#![allow(non_camel_case_types, non_upper_case_globals)]

use std::os::raw::{c_char, c_int, c_uint, c_void};

"""

SCALARS = {
    **{f"int{bits}_t": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}_t": f"u{bits}" for bits in (8, 16, 32, 64)},
    "size_t": "usize",
    "double": "f64",
    "int": "c_int",
    "char": "c_char",
    "void": "c_void",
}
"""C's names of plain types -> Rust's."""

STANDARD = {
    "stddef.h": "typedef unsigned long size_t;\n#define NULL ((void*)0)\n",
    "stdint.h": "".join(
        f"typedef {kind} {name};\n"
        for kind, name in (
            ("signed char", "int8_t"),
            ("unsigned char", "uint8_t"),
            ("short", "int16_t"),
            ("unsigned short", "uint16_t"),
            ("int", "int32_t"),
            ("unsigned int", "uint32_t"),
            ("long", "int64_t"),
            ("unsigned long", "uint64_t"),
        )
    ),
}
"""What stands in for the C library's headers: names alone matter."""


def preprocessed() -> str:
    """The header with everything that it includes, without attributes."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in STANDARD.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        command = ["cc", "-E", "-P", "-nostdinc", "-D__attribute__(x)=", f"-I{folder}"]
        done = subprocess.run(
            [*command, f"-I{INCLUDE}", str(INCLUDE / "aot" / "abi.h")],
            check=True,
            capture_output=True,
            text=True,
        )
    return done.stdout


def rust_type(node: c_ast.Node) -> str:
    """A C type as Rust spells it."""
    match node:
        case c_ast.PtrDecl(type=c_ast.FuncDecl() as function):
            return f"Option<{function_type(function)}>"
        case c_ast.PtrDecl(type=inner):
            constant = "const" in getattr(inner, "quals", [])
            return f"*{'const' if constant else 'mut'} {rust_type(inner)}"
        case c_ast.TypeDecl(type=inner):
            return rust_type(inner)
        case c_ast.IdentifierType(names=[name]):
            return SCALARS.get(str(name), str(name))
        case c_ast.Struct(name=str(name)):
            return name
    raise TypeError(f"no Rust for this C type: {node}")


def function_type(node: c_ast.FuncDecl) -> str:
    """A C function as the type of a pointer to it."""
    return f'unsafe extern "C" fn({parameters(node)}){result(node)}'


def parameters(node: c_ast.FuncDecl) -> str:
    """What a function takes, with names; "" for `(void)`."""
    texts = [
        f"{field_name(str(one.name))}: {rust_type(one.type)}"
        for one in (node.args.params if node.args else ())
        if isinstance(one, c_ast.Decl)
    ]
    return ", ".join(texts)


def result(node: c_ast.FuncDecl) -> str:
    """What a function gives, with its arrow."""
    text = rust_type(node.type)
    return "" if text == "c_void" else f" -> {text}"


def field_name(name: str) -> str:
    """A name that may be a word of Rust's."""
    return {"type": "r#type", "self": "this"}.get(name, name)


def structure(name: str, fields: list[c_ast.Decl] | None) -> Iterator[str]:
    """A struct of the same layout; one without fields is behind pointers alone."""
    yield "#[repr(C)]"
    if fields is None:
        yield f"pub struct {name} {{"
        yield "    _private: [u8; 0],"
    else:
        yield "#[derive(Clone, Copy)]"
        yield f"pub struct {name} {{"
        for one in fields:
            yield f"    pub {field_name(str(one.name))}: {rust_type(one.type)},"
    yield "}\n"


def enumeration(name: str, node: c_ast.Enum) -> Iterator[str]:
    """A C enum: a number, since a newer library may give more of them, and its values."""
    yield f"pub type {name} = c_uint;"
    for one in node.values.enumerators:
        value = re.sub(r"[uU]$", "", one.value.value)
        yield f"pub const {one.name}: {name} = {value};"
    yield ""


def constants() -> Iterator[str]:
    """The header's own numbers."""
    for header in ("dlpack.h", "operator_abi.h", "abi.h"):
        text = (INCLUDE / "aot" / header).read_text(encoding="utf-8")
        for name, value in re.findall(r"^#define (\w+_VERSION) (\d+)u?\b", text, flags=re.M):
            yield f"pub const {name}: u32 = {value};"
    yield ""


def generate() -> str:
    """The whole file."""
    lines: list[str] = [*constants()]
    functions: list[str] = []
    for node in c_parser.CParser().parse(preprocessed(), "abi.h").ext:
        match node:
            case c_ast.Typedef(name=name) if name in SCALARS:
                continue
            case c_ast.Typedef(name=name, type=c_ast.TypeDecl(type=c_ast.Struct(decls=fields))):
                lines += structure(name, fields)
            case c_ast.Typedef(name=name, type=c_ast.TypeDecl(type=c_ast.Enum() as values)):
                lines += enumeration(name, values)
            case c_ast.Typedef(name=name, type=pointer):
                lines += [f"pub type {name} = {rust_type(pointer)};", ""]
            case c_ast.Decl(name=name, type=c_ast.FuncDecl() as function):
                functions.append(f"    pub fn {name}({parameters(function)}){result(function)};")
            case _:
                raise TypeError(f"no Rust for this declaration: {node}")
    return HEAD + "\n".join([*lines, 'extern "C" {', *functions, "}"]) + "\n"


def main() -> None:
    """Writes the file."""
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(generate(), encoding="utf-8")
    sys.stdout.write(f"{TARGET.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
