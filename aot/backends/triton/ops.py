"""The table of scalar operations as Triton expressions.

Transcendental functions are those of CUDA's libdevice, which eager on a GPU uses as well, but for
the error function in single precision.
"""

from __future__ import annotations

from collections.abc import Callable

from aot.backends.triton.text import memory_type, value_type
from aot.errors import InternalError
from aot.ir.dtypes import BOOL, DType

_INFIX = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^"}
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_LIBDEVICE = {
    **{
        name: name
        for name in (
            "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh "
            "acosh atanh erfc erfinv lgamma floor ceil trunc fmod pow atan2 hypot copysign "
            "nextafter rsqrt"
        ).split()
    },
    "round": "rint",
    "i0": "cyl_bessel_i0",
    "i1": "cyl_bessel_i1",
}
_INTEGER = {
    "floordiv": "safe_floor_div",
    "mod": "safe_floor_mod",
    "truncdiv": "safe_trunc_div",
    "div": "safe_trunc_div",
    "fmod": "safe_trunc_mod",
    "pow": "integer_power",
    "gcd": "integer_gcd",
}
_BOOL: dict[str, Callable[..., str]] = {
    "not": lambda a: f"{a} == 0",
    "bitnot": lambda a: f"{a} == 0",
    "and": lambda a, b: f"{a} & {b}",
    "mul": lambda a, b: f"{a} & {b}",
    "minimum": lambda a, b: f"{a} & {b}",
    "or": lambda a, b: f"{a} | {b}",
    "add": lambda a, b: f"{a} | {b}",
    "maximum": lambda a, b: f"{a} | {b}",
    "xor": lambda a, b: f"{a} != {b}",
    "ne": lambda a, b: f"{a} != {b}",
    "sub": lambda a, b: f"{a} != {b}",
    "eq": lambda a, b: f"{a} == {b}",
    "lt": lambda a, b: f"({a} == 0) & {b}",
    "le": lambda a, b: f"({a} == 0) | {b}",
    "gt": lambda a, b: f"{a} & ({b} == 0)",
    "ge": lambda a, b: f"{a} | ({b} == 0)",
    "abs": lambda a: a,
}

_LOOPS = (
    *("chebyshev_t", "chebyshev_u", "chebyshev_v", "chebyshev_w"),
    *("hermite_h", "hermite_he", "laguerre_l", "legendre_p"),
)
"""Operations that are device functions with loops, of the same names."""

ASK_LANES = frozenset([*_LOOPS, "igamma", "igammac", "gcd", "digamma"])
"""Operations that go on, or take a way, while some point of a tile wants it."""


def _called(name: str) -> Callable[..., str]:
    return lambda a, b: f"{name}({a}, {b})"


_FLOAT: dict[str, Callable[..., str]] = {
    # Triton 3.6 takes what is negated from 0, which leaves 0 positive.
    "neg": lambda a: f"{a} * -1.0",
    "abs": lambda a: f"tl.abs({a})",
    "sign": lambda a: f"sign_of({a})",
    "isnan": lambda a: f"{a} != {a}",
    "isinf": lambda a: f"tl.abs({a}) == float('inf')",
    "not": lambda a: f"{a} == 0",
    "floordiv": lambda a, b: f"libdevice.floor({a} / {b})",
    "truncdiv": lambda a, b: f"libdevice.trunc({a} / {b})",
    "mod": lambda a, b: f"{a} - {b} * libdevice.floor({a} / {b})",
    "minimum": lambda a, b: f"min_nan({a}, {b})",
    "maximum": lambda a, b: f"max_nan({a}, {b})",
    "fmin": lambda a, b: f"tl.minimum({a}, {b})",
    "fmax": lambda a, b: f"tl.maximum({a}, {b})",
    "fma": lambda a, b, c: f"tl.fma({a}, {b}, {c})",
    "sigmoid": lambda a: f"1.0 / (1.0 + libdevice.exp(-{a}))",
    "i0e": lambda a: f"i0_scaled({a})",
    "i1e": lambda a: f"i1_scaled({a})",
    "digamma": lambda a: f"digamma({a})",
    **{name: _called(name) for name in (*_LOOPS, "igamma", "igammac")},
}
_BY_WIDTH: dict[str, tuple[Callable[..., str], Callable[..., str]]] = {
    "div": (lambda a, b: f"tl.div_rn({a}, {b})", lambda a, b: f"{a} / {b}"),
    "reciprocal": (
        lambda a: f"tl.div_rn(tl.full([], 1.0, tl.float32), {a})",
        lambda a: f"1.0 / {a}",
    ),
    "sqrt": (lambda a: f"tl.sqrt_rn({a})", lambda a: f"tl.sqrt({a})"),
    "erf": (lambda a: f"erf_float32({a})", lambda a: f"libdevice.erf({a})"),
}
"""Operations that are written in two ways, for 4 and for 8 bytes: "/" is not exact in 4."""

_WHOLE: dict[str, Callable[..., str]] = {
    "neg": lambda a: f"-{a}",
    "abs": lambda a: f"tl.abs({a})",
    "sign": lambda a: f"sign_of({a})",
    "bitnot": lambda a: f"~{a}",
    "not": lambda a: f"{a} == 0",
    "isnan": lambda a: f"{a} != {a}",
    "isinf": lambda a: f"{a} != {a}",
    "signbit": lambda a: f"{a} < 0",
    "minimum": lambda a, b: f"tl.minimum({a}, {b})",
    "maximum": lambda a, b: f"tl.maximum({a}, {b})",
    "fmin": lambda a, b: f"tl.minimum({a}, {b})",
    "fmax": lambda a, b: f"tl.maximum({a}, {b})",
    "shl": lambda a, b: f"{a} << {b}",
    "shr": lambda a, b: f"{a} >> {b}",
    "floor": lambda a: a,
    "ceil": lambda a: a,
    "trunc": lambda a: a,
    "round": lambda a: a,
    "fma": lambda a, b, c: f"{a} * {b} + {c}",
}


def operation(op: str, operand: DType, args: list[str]) -> str:
    """The expression for an operation on operands of one dtype.

    Raises:
        InternalError: There is no such operation on this dtype.
    """
    if op == "where":
        return f"tl.where({', '.join(args)})"
    if operand.is_float and op in _BY_WIDTH:
        return _BY_WIDTH[op][operand.compute.itemsize == 8](*args)
    table = _BOOL if operand == BOOL else _FLOAT if operand.is_float else _WHOLE
    if op in table:
        return table[op](*args)
    if operand != BOOL and op in _INFIX:
        return f"{args[0]} {_INFIX[op]} {args[1]}"
    if op in _COMPARISONS:
        return f"{args[0]} {_COMPARISONS[op]} {args[1]}"
    if operand.is_float and op == "signbit":
        bits = "tl.int64" if operand.compute.itemsize == 8 else "tl.int32"
        return f"{args[0]}.to({bits}, bitcast=True) < 0"
    if operand.is_float and op in _LIBDEVICE:
        return f"libdevice.{_LIBDEVICE[op]}({', '.join(args)})"
    if operand.is_integral and op in _INTEGER:
        return f"{_INTEGER[op]}({', '.join(args)})"
    raise InternalError(f"the Triton backend has no {op} of {operand} operands")


def conversion(text: str, source: DType, target: DType) -> str:
    """`text`, a value of dtype `source`, as one of dtype `target`."""
    if target == BOOL:
        return text if source == BOOL else f"({text} != 0)"
    if target != target.compute:
        return from_memory(in_memory(text, target), target)
    if source.is_float and target.kind == "u" and target.itemsize < 8:
        # Through a wide integer: negative values wrap, as eager's do.
        return f"{text}.to(tl.int64).to({value_type(target)})"
    if value_type(source) == value_type(target):
        return text
    return f"{text}.to({value_type(target)})"


def in_memory(text: str, dtype: DType) -> str:
    """`text`, a value of a dtype or a number to be rounded to it, as memory holds it."""
    if not dtype.is_float8:
        return f"({text}).to({memory_type(dtype)})"
    return f"{_float8(dtype, 'code')}(({text}).to(tl.float32){_format(dtype)})"


def from_memory(text: str, dtype: DType) -> str:
    """`text`, an element as memory holds it, as a value of its dtype."""
    if dtype.is_float8:
        return f"{_float8(dtype, 'value')}({text}{_format(dtype)})"
    return text if dtype == dtype.compute else f"{text}.to(tl.float32)"


_FORMATS = {
    "float8_e4m3fn": (3, 7, 0x7E, 0x7F),
    "float8_e4m3fnuz": (3, 8, 0x80, 0x80),
    "float8_e5m2": (2, 15, 0x7C, 0x7F),
    "float8_e5m2fnuz": (2, 16, 0x80, 0x80),
}
"""What `float8_value` and `float8_code` take; the other float8 is all exponent."""


def _float8(dtype: DType, what: str) -> str:
    return f"float8_{what}" if dtype.name in _FORMATS else f"power8_{what}"


def _format(dtype: DType) -> str:
    return "".join(f", {number}" for number in _FORMATS.get(dtype.name, ()))


def reinterpretation(text: str, source: DType, target: DType) -> str:
    """The bits of `text`, a value of dtype `source`, as a value of dtype `target`."""
    narrow = in_memory(text, source) if source != source.compute else text
    return from_memory(f"{narrow}.to({memory_type(target)}, bitcast=True)", target)
