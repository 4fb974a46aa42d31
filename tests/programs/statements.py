"""Kinds of statements: each draws its operands and arguments from what the program has so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tests.programs.program import DTYPES, FLOATS
from tests.programs.state import Draft, State, Value, one_of

Drawer = Callable[[State], Draft | None]

_EXACT_UNARY = """torch.neg({0}) torch.abs({0}) torch.relu({0}) {0}.clamp(-1,1) {0}.clone()
{0}*2 torch.sign({0}) {0}.clamp(min=0.5) {0}.contiguous()""".split()
_FLOAT_UNARY = """torch.sigmoid({0}) torch.tanh({0}) torch.sin({0}) torch.cos({0})
torch.exp({0}.clamp(-3,3)) torch.log({0}.abs()+0.5) torch.sqrt({0}.abs()+0.25)
torch.rsqrt({0}.abs()+0.5) torch.erf({0}) torch.nn.functional.gelu({0})
torch.nn.functional.silu({0}) torch.nn.functional.softplus({0}) ({0}.abs()+1).reciprocal()
{0}*0.3 {0}+1.7 {0}**2*0.25 torch.nn.functional.elu({0}) torch.expm1({0}.clamp(-3,3))
torch.nn.functional.leaky_relu({0},0.1) torch.atan({0})""".split()
_INT_UNARY = "{0}+1 {0}*3 -{0} {0}//2 {0}%3 {0}&5 {0}|2 {0}^1 ~{0} {0}.abs() {0}>>1".split()
_BOOL_UNARY = "~{0} torch.logical_not({0})".split()
_BINARY = "{0}+{1} {0}-{1} {0}*{1} torch.maximum({0},{1}) torch.minimum({0},{1})".split()
_FLOAT_BINARY = """{0}/({1}.abs()+0.5) torch.atan2({0},{1}.abs()+0.5) torch.lerp({0},{1},0.25)
torch.addcmul({0},{1},{1},value=0.5)""".split()
_COMPARE = "{0}<{1} {0}>={1} {0}=={1} {0}!={1}".split()
_LOGIC = "{0}&{1} {0}|{1} {0}^{1} torch.logical_xor({0},{1})".split()


def _fill(template: str, *values: Value) -> str:
    return template.format(*(v.name for v in values))


def unary(state: State) -> Draft | None:
    """One operand, elementwise."""
    value = state.pick()
    if value is None:
        return None
    if value.dtype == "bool":
        return Draft(_fill(one_of(state.choose, _BOOL_UNARY), value))
    if value.is_int:
        return Draft(_fill(one_of(state.choose, _INT_UNARY), value))
    if state.choose.integer(0, 3) == 0:
        return Draft(_fill(one_of(state.choose, _EXACT_UNARY), value))
    return Draft(_fill(one_of(state.choose, _FLOAT_UNARY), value), exact=False)


def _partner(state: State, value: Value, fits: Callable[[Value], bool]) -> Value | None:
    """A second operand that broadcasts with the first at both sizes."""
    return state.pick(
        lambda v: (
            fits(v)
            and _broadcasts(v.shape, value.shape)
            and _broadcasts(tuple(v.large.shape), tuple(value.large.shape))
        )
    )


def _broadcasts(a: Sequence[int], b: Sequence[int]) -> bool:
    pairs = zip(reversed(a), reversed(b), strict=False)
    return all(x == y or 1 in (x, y) for x, y in pairs)


def binary(state: State) -> Draft | None:
    """Two operands that broadcast."""
    first = state.pick(lambda v: v.dtype != "bool")
    second = first and _partner(state, first, lambda v: v.dtype != "bool")
    if first is None or second is None:
        return None
    if first.is_float and second.is_float and state.choose.integer(0, 2) == 0:
        return Draft(_fill(one_of(state.choose, _FLOAT_BINARY), first, second), exact=False)
    template = one_of(state.choose, _BINARY)
    integers = not (first.is_float or second.is_float)
    return Draft(_fill(template, first, second), exact=integers or "imum" in template)


def compare(state: State) -> Draft | None:
    """A mask from values on which everyone agrees, or from masks."""
    first = state.pick(lambda v: v.exact)
    second = first and _partner(
        state, first, lambda v: v.exact and (v.dtype == "bool") == (first.dtype == "bool")
    )
    if first is None or second is None:
        return None
    table = _LOGIC if first.dtype == "bool" else _COMPARE
    return Draft(_fill(one_of(state.choose, table), first, second))


def select(state: State) -> Draft | None:
    """where, masked_fill."""
    mask = state.pick(lambda v: v.dtype == "bool")
    first = mask and _partner(state, mask, lambda _: True)
    second = first and _partner(state, first, lambda v: v.dtype == first.dtype)
    if mask is None or first is None or second is None:
        return None
    if state.choose.integer(0, 2) == 0:
        return Draft(_fill("{1}.masked_fill({0},1)", mask, first))
    return Draft(_fill("torch.where({0},{1},{2})", mask, first, second))


def cast(state: State) -> Draft | None:
    """Another element type; to integers and bool only from what is exact."""
    value = state.pick()
    if value is None:
        return None
    dtype = one_of(state.choose, DTYPES)
    if dtype not in FLOATS and value.is_float:
        if not value.exact:
            return None
        source = f"{value.name}.abs()" if dtype == "uint8" else value.name
        return Draft(f"{source}.to({dtype})")
    widens = dtype == "float32" or not value.is_float
    return Draft(f"{value.name}.to({dtype})", exact=widens)


def _range(state: State, size: int) -> tuple[int, int]:
    start = state.choose.integer(0, max(size - 1, 0))
    return start, state.choose.integer(start, size)


def view(state: State) -> Draft | None:
    """Permutations, slices, flips, squeezes, expansions."""
    value = state.pick(lambda v: v.rank > 0)
    if value is None:
        return None
    v, axis = value.name, one_of(state.choose, range(value.rank))
    other = one_of(state.choose, range(value.rank))
    size = value.shape[axis]
    low, high = _range(state, size)
    colons = ":," * axis
    drafts = [
        f"{v}.transpose({axis},{other})",
        f"{v}.flip({axis})",
        f"{v}.unsqueeze({axis})",
        f"{v}[{colons}{low}:]",
        f"{v}[{colons}::2]",
        f"{v}[{colons}:-1]",
        f"torch.roll({v},{low},{axis})",
        f"{v}.flatten({min(axis, other)},{max(axis, other)})",
        f"{v}.movedim({axis},{other})",
    ]
    if value.fixed(axis):
        drafts.append(f"{v}[{colons}{low}:{high}]")
        if size > 0:
            drafts.append(f"{v}.select({axis},{low})")
        if size >= 3:
            drafts.append(f"{v}.unfold({axis},3,{1 + low % 2})")
        if size == 1:
            drafts += [f"{v}.squeeze({axis})", f"{v}.expand({_expanded(value, axis)})"]
        drafts += [f"{v}.unflatten({axis},(2,-1))"] if size % 2 == 0 and size else []
    if all(value.fixed(k) for k in range(value.rank)):
        drafts += [f"{v}.reshape(-1)", f"{v}.reshape({_reshaped(state, value)})"]
    return Draft(one_of(state.choose, drafts))


def _expanded(value: Value, axis: int) -> str:
    return ",".join("3" if k == axis else "-1" for k in range(value.rank))


def _reshaped(state: State, value: Value) -> str:
    count = value.small.numel()
    divisors = [d for d in range(1, count + 1) if count % d == 0] or [0]
    first = one_of(state.choose, divisors)
    return f"{first},{count // first if first else 3}"


def join(state: State) -> Draft | None:
    """cat, stack, pad, repeat."""
    first = state.pick(lambda v: v.rank > 0)
    if first is None:
        return None
    axis = one_of(state.choose, range(first.rank))
    second = state.pick(lambda v: v.rank == first.rank) or first
    mode = state.choose.integer(0, 3)
    if mode == 0:
        return Draft(f"torch.cat([{first.name},{second.name},{first.name}],{axis})")
    if mode == 1:
        same = state.pick(lambda v: v.shape == first.shape) or first
        return Draft(f"torch.stack([{first.name},{same.name}],{axis})")
    if mode == 2:
        left, right = state.choose.integer(-1, 2), state.choose.integer(0, 2)
        more = ",1,0" if first.rank > 1 else ""
        return Draft(f"torch.nn.functional.pad({first.name},({left},{right}{more}),value=1)")
    repeats = ",".join("2" if k == axis else "1" for k in range(first.rank))
    return Draft(f"{first.name}.repeat({repeats})")


_REDUCTIONS: Mapping[str, bool] = {
    "{0}.sum({1},keepdim={2})": False,
    "{0}.mean({1},keepdim={2})": False,
    "{0}.amax({1},keepdim={2})": True,
    "{0}.amin({1},keepdim={2})": True,
    "{0}.var({1},correction=0,keepdim={2})": False,
    "torch.logsumexp({0},{1},keepdim={2})": False,
    "{0}.norm(2,{1},keepdim={2})": False,
}
_INT_REDUCTIONS = (
    *("{0}.sum({1},keepdim={2})", "{0}.amax({1},keepdim={2})", "{0}.amin({1},keepdim={2})"),
    *("{0}.any({1},keepdim={2})", "{0}.all({1},keepdim={2})"),
)
_BOOL_REDUCTIONS = ("{0}.sum({1},keepdim={2})", *_INT_REDUCTIONS[3:])


def reduce(state: State) -> Draft | None:
    """Sums, means, extrema, over one axis or two."""
    value = state.pick(lambda v: v.rank > 0)
    if value is None:
        return None
    axis = one_of(state.choose, range(value.rank))
    kept = bool(state.choose.integer(0, 1))
    if not value.is_float:
        table = _BOOL_REDUCTIONS if value.dtype == "bool" else _INT_REDUCTIONS
        return Draft(one_of(state.choose, table).format(value.name, axis, kept))
    template = one_of(state.choose, tuple(_REDUCTIONS))
    several = value.rank > 1 and "norm" not in template and state.choose.integer(0, 2) == 0
    over = f"({axis},{(axis + 1) % value.rank})" if several else f"{axis}"
    return Draft(template.format(value.name, over, kept), exact=_REDUCTIONS[template])


def pick_extremum(state: State) -> Draft | None:
    """argmax, argmin, sort and cumulative operators of what is exact."""
    value = state.pick(lambda v: v.exact and v.rank > 0 and v.dtype != "bool")
    if value is None:
        return None
    v, axis = value.name, one_of(state.choose, range(value.rank))
    drafts = [f"{v}.argmax({axis})", f"{v}.argmin({axis},keepdim=True)"]
    drafts += [f"torch.sort({v},{axis},stable=True).indices", f"torch.sort({v},{axis}).values"]
    drafts += [f"torch.cummax({v},{axis}).values"]
    if value.is_int:
        drafts += [f"torch.cumsum({v},{axis})"]
    return Draft(one_of(state.choose, drafts))


def accumulate(state: State) -> Draft | None:
    """cumsum of floats."""
    value = state.pick(lambda v: v.is_float and v.rank > 0)
    if value is None:
        return None
    axis = one_of(state.choose, range(value.rank))
    return Draft(f"torch.cumsum({value.name},{axis})*0.25", exact=False)


_ROWS = (
    "torch.softmax({0},-1)",
    "torch.log_softmax({0},-1)",
    "torch.softmax({0},0)",
    "torch.nn.functional.layer_norm({0},({0}.shape[-1],))",
    "torch.nn.functional.rms_norm({0},({0}.shape[-1],))",
    "torch.nn.functional.normalize({0},dim=-1)",
)


def normalize(state: State) -> Draft | None:
    """softmax and norms over rows that are not constant."""
    value = state.pick(lambda v: v.is_float and v.rank > 0 and _varied(v))
    if value is None:
        return None
    if value.rank >= 3 and state.choose.integer(0, 3) == 0 and value.fixed(1) and value.shape[1]:
        return Draft(f"torch.nn.functional.group_norm({value.name},1)", exact=False)
    return Draft(_fill(one_of(state.choose, _ROWS), value), exact=False)


def _varied(value: Value) -> bool:
    """Rows whose variance is not small: dividing by it would only magnify roundings."""
    if value.shape[-1] < 2 or value.small.numel() == 0:
        return False
    rows = (value.small.double(), value.large.double())
    return all(float(r.var(-1, correction=0).min()) > 0.05 for r in rows)


def product(state: State) -> Draft | None:
    """Matrix products."""
    first = state.pick(lambda v: v.is_float and v.rank >= 2)
    if first is None:
        return None
    second = state.pick(lambda v: v.dtype == first.dtype and v.rank >= 2)
    if second is None:
        return None
    a, b = first.name, second.name
    drafts = [
        f"torch.matmul({a},{b})*0.25",
        f"torch.matmul({a},{b}.transpose(-1,-2))*0.25",
        f"torch.matmul({a}.transpose(-1,-2),{b})*0.25",
        f"torch.nn.functional.linear({a},{b})*0.25",
        f"torch.matmul({a},{b}[...,0])*0.25",
    ]
    return Draft(one_of(state.choose, drafts), exact=False)


def attend(state: State) -> Draft | None:
    """Attention of three-dimensional values."""
    value = state.pick(lambda v: v.is_float and v.rank >= 3)
    if value is None:
        return None
    other = state.pick(lambda v: v.dtype == value.dtype and v.rank == value.rank) or value
    v, o = value.name, other.name
    causal = bool(state.choose.integer(0, 1))
    text = f"torch.nn.functional.scaled_dot_product_attention({v},{o},{o},is_causal={causal})"
    return Draft(text, exact=False)


def index(state: State) -> Draft | None:
    """gather, index_select, advanced indexing, embedding."""
    value = state.pick(lambda v: v.rank > 0)
    if value is None:
        return None
    axis = one_of(state.choose, range(value.rank))
    # An index of no dimension is a number that depends on data.
    where = state.pick(lambda v: v.is_int and v.dtype != "uint8" and v.exact and v.rank > 0)
    size = value.shape[axis]
    if where is None or size == 0:
        return None
    v, at = value.name, f"({where.name}%{size}).long()"
    if state.choose.integer(0, 1) == 0 and where.rank == value.rank:
        return Draft(f"torch.gather({v},{axis},{at})")
    colons = ":," * axis
    drafts = [f"{v}[{colons}{at}]"]
    if where.rank == 1:
        drafts += [f"torch.index_select({v},{axis},{at})"]
    if value.rank == 2 and value.is_float:
        drafts += [
            f"torch.nn.functional.embedding(({where.name}%{value.shape[0] or 1}).long(),{v})"
        ]
    return Draft(one_of(state.choose, drafts))


def scatter(state: State) -> Draft | None:
    """scatter_add, index_add, index_put, scatter_reduce of what is exact."""
    value = state.pick(lambda v: v.rank > 0 and v.dtype != "bool")
    if value is None:
        return None
    axis = one_of(state.choose, range(value.rank))
    size = value.shape[axis]
    where = state.pick(lambda v: v.is_int and v.dtype != "uint8" and v.rank == value.rank)
    source = state.pick(lambda v: v.dtype == value.dtype and v.rank == value.rank)
    if where is None or source is None or size == 0 or not value.fixed(axis):
        return None
    v, at, s = value.name, f"({where.name}%{size}).long()", source.name
    exact = value.is_int
    drafts = [
        Draft(f"{v}.scatter_add({axis},{at},{s})", exact),
        Draft(f"{v}.scatter({axis},{at},1)"),
        Draft(f"{v}.scatter_reduce({axis},{at},{s},reduce='amax')"),
    ]
    if where.rank == 1 and value.rank == 1:
        drafts += [Draft(f"{v}.index_put(({at},),{s},accumulate=True)", exact)]
    return one_of(state.choose, drafts)


def triangle(state: State) -> Draft | None:
    """tril and triu."""
    value = state.pick(lambda v: v.rank >= 2)
    if value is None:
        return None
    name, diagonal = one_of(state.choose, ("tril", "triu")), state.choose.integer(-1, 1)
    return Draft(f"torch.{name}({value.name},{diagonal})")


def image(state: State) -> Draft | None:
    """Pooling, resizing and convolution of images."""
    value = state.pick(lambda v: v.is_float and v.rank == 4)
    if value is None:
        return None
    v, f = value.name, "torch.nn.functional"
    drafts = [
        Draft(f"{f}.max_pool2d({v},2,1)"),
        Draft(f"{f}.avg_pool2d({v},2,1)", False),
        Draft(f"{f}.interpolate({v},scale_factor=2,mode='nearest')"),
        Draft(f"{f}.interpolate({v},size=(5,4),mode='bilinear')", False),
        Draft(f"{f}.conv2d({v},{v}[:2].clamp(-1,1),padding=1)*0.1", False),
        Draft(f"{f}.adaptive_avg_pool2d({v},1)", False),
    ]
    return one_of(state.choose, drafts)


DRAWERS: Mapping[Drawer, int] = {
    unary: 6,
    binary: 6,
    compare: 2,
    select: 3,
    cast: 3,
    view: 8,
    join: 3,
    reduce: 4,
    pick_extremum: 1,
    accumulate: 1,
    normalize: 2,
    product: 3,
    attend: 1,
    index: 2,
    scatter: 2,
    triangle: 1,
    image: 1,
}
"""Kinds of statements, with how often they are drawn."""
