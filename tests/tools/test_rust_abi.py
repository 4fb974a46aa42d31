"""The Rust crate's declarations are those of today's header."""

import pytest
from pycparser import c_parser

from tools.rust_abi import TARGET, generate, preprocessed, rust_type


def test_the_file_is_what_the_header_makes() -> None:
    assert TARGET.read_text("utf-8") == generate(), "run: python -m tools.rust_abi"


@pytest.mark.parametrize(
    ("c", "rust"),
    [
        ("const char* x;", "*const c_char"),
        ("const char* const* x;", "*const *const c_char"),
        ("void** x;", "*mut *mut c_void"),
        ("uint8_t x;", "u8"),
        (
            "void (*x)(size_t a, void* type);",
            'Option<unsafe extern "C" fn(a: usize, r#type: *mut c_void)>',
        ),
        ("int32_t (*x)(void);", 'Option<unsafe extern "C" fn() -> i32>'),
    ],
)
def test_types_of_c_are_said_in_rust(c: str, rust: str) -> None:
    names = "typedef unsigned char uint8_t; typedef int int32_t; typedef unsigned long size_t;"
    assert rust_type(c_parser.CParser().parse(names + c).ext[-1].type) == rust


def test_what_is_unknown_stops_it() -> None:
    with pytest.raises(TypeError, match="no Rust for this C type"):
        rust_type(c_parser.CParser().parse("union u { int a; } x;").ext[0].type)


def test_every_function_of_the_header_is_there() -> None:
    functions = preprocessed().count(" aot_")
    assert functions > 60
    assert generate().count("    pub fn aot_") > 60
