"""Index expressions: integer arithmetic over loop variables and sizes.

The only package that imports sympy; the others build expressions with `var`, `dim`, `integer` and
the operators + - *, and with the functions exported here.
"""

from aot.symbolic.affine import affine_coefficients, coefficient_of, depends_on, substitute
from aot.symbolic.encode import decode, encode, evaluate, from_foreign, to_c, to_text
from aot.symbolic.functions import (
    Add,
    Expr,
    FloorDiv,
    Maximum,
    Minimum,
    Modulo,
    Mul,
    Pow,
    Symbol,
    exact_quotient,
    expand,
    terms,
)
from aot.symbolic.parts import (
    constant_and_rest,
    divisors,
    extrema,
    factor_without,
    factors,
    number_and_rest,
    quotients,
    remainders,
)
from aot.symbolic.ranges import Ranges
from aot.symbolic.shapes import (
    as_expr,
    ceil_div,
    dim,
    from_front,
    integer,
    is_int,
    product,
    ravel,
    refine_shapes,
    row_major_strides,
    unravel,
    var,
)

__all__ = [
    "Add",
    "Expr",
    "FloorDiv",
    "Maximum",
    "Minimum",
    "Modulo",
    "Mul",
    "Pow",
    "Ranges",
    "Symbol",
    "affine_coefficients",
    "as_expr",
    "ceil_div",
    "coefficient_of",
    "constant_and_rest",
    "decode",
    "depends_on",
    "dim",
    "divisors",
    "encode",
    "evaluate",
    "exact_quotient",
    "expand",
    "extrema",
    "factor_without",
    "factors",
    "from_foreign",
    "from_front",
    "integer",
    "is_int",
    "number_and_rest",
    "product",
    "quotients",
    "ravel",
    "refine_shapes",
    "remainders",
    "row_major_strides",
    "substitute",
    "terms",
    "to_c",
    "to_text",
    "unravel",
    "var",
]
