"""Complex values as pairs of values of a graph, and operators on them as operators on these."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from aot.ir.dtypes import COMPLEX32, COMPLEX64, DType
from aot.ir.origin import NO_ORIGIN, Origin
from aot.ir.tensors import GraphOp, TensorOp, TensorType, ValueRef
from aot.lowering.complex_table import PARTWISE, PRODUCTS
from aot.symbolic import as_expr, row_major_strides

FORMULA = "complex."
"""Begins the names of operators with formulas: they take parts as pairs, and give both."""


@dataclass(frozen=True)
class ComplexParts:
    """A complex value: those of its real and its imaginary parts.

    Attributes:
        re: The real part.
        im: The imaginary part.
        whole: The value as it lies in memory, where that is what the parts were separated from.
    """

    re: ValueRef
    im: ValueRef
    whole: ValueRef | None = None


GraphValue = ComplexParts | ValueRef
Part = Literal["re", "im"]


def stored(type_: TensorType) -> TensorType:
    """The type of a value's memory: a complex one has a last dimension of 2."""
    if not type_.dtype.is_complex:
        return type_
    shape, strides = (*type_.shape, as_expr(2)), (*(s * 2 for s in type_.strides), as_expr(1))
    return TensorType(type_.dtype.part, shape, strides)


def part_type(type_: TensorType) -> TensorType:
    """The type of each part of a complex value, or that of a real one."""
    return replace(type_, dtype=type_.dtype.part)


@dataclass
class Emitter:
    """Operators on reals, in order. `types`: of all values of the graph; grows."""

    types: dict[str, TensorType]
    ops: list[GraphOp] = field(default_factory=list)
    origin: Origin = NO_ORIGIN

    def fresh(self, name: str) -> str:
        """A name that no value has yet."""
        found, count = name, 1
        while found in self.types:
            count += 1
            found = f"{name}{count}"
        return found

    def emit(
        self, target: str, args: Sequence[Any], name: str, type_: TensorType, **kwargs: Any
    ) -> ValueRef:
        """One more operator, with one result, which is called like `name`."""
        return self.emit_many(target, args, kwargs, ((name, type_),))[0]

    def emit_many(
        self,
        target: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        results: Sequence[tuple[str, TensorType] | None],
    ) -> tuple[ValueRef, ...]:
        """One more operator; the results that the graph uses."""
        names: list[str | None] = []
        for result in results:
            if result is not None:
                name = self.fresh(result[0])
                self.types[name] = result[1]
            names.append(None if result is None else name)
        made = TensorOp(target, tuple(args), tuple(kwargs.items()), tuple(names), self.origin)
        self.ops.append(made)
        return tuple(ValueRef(name) for name in names if name is not None)

    def separated(self, whole: ValueRef, name: str, type_: TensorType) -> ComplexParts:
        """The parts of a value in memory. `type_`: its complex type; `name`: of the value."""
        return ComplexParts(
            *(
                self.emit("aten.select.int", (whole, -1, k), f"{name}.{part}", part_type(type_))
                for k, part in enumerate(("re", "im"))
            )
        )

    def joined(self, value: ComplexParts, name: str) -> ValueRef:
        """The value as it lies in memory, under that very name."""
        if value.whole is not None:
            self.name(name, "aten.alias.default", (value.whole,))
        else:
            self.name(name, "aten.stack.default", ((value.re, value.im), -1))
        return ValueRef(name)

    def name(self, name: str, target: str, args: Sequence[Any]) -> None:
        """An operator whose result is that value of the model's."""
        self.ops.append(TensorOp(target, tuple(args), (), (name,), self.origin))


@dataclass(frozen=True)
class ComplexCall:
    """An operator with complex operands or results.

    Attributes:
        emitter: Takes what it is made of.
        target: ATen's name of it.
        args: Complex values as `ComplexParts`.
        kwargs: Too.
        results: Name and type of each result, None of one that nothing reads.
    """

    emitter: Emitter
    target: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    results: tuple[tuple[str, TensorType] | None, ...]

    @property
    def result(self) -> TensorType:
        """The type of the only result, or of the first that is read."""
        return next(found[1] for found in self.results if found is not None)

    @property
    def name(self) -> str:
        """Of the only result, or of the first that is read."""
        return next(found[0] for found in self.results if found is not None)

    def real(
        self, target: str, *args: Any, type_: TensorType | None = None, **kwargs: Any
    ) -> ValueRef:
        """An operator on reals, with a result of the shape of this one's, or of another type."""
        made = part_type(self.result) if type_ is None else type_
        return self.emitter.emit(target, args, f"{self.name}.of", made, **kwargs)

    def call(
        self, target: str, *args: Any, type_: TensorType | None = None, **kwargs: Any
    ) -> GraphValue:
        """An operator on complex values, with a result of this one's type, or of another."""
        result = (f"{self.name}.of", type_ or self.result)
        made = replace(self, target=target, args=args, kwargs=kwargs, results=(result,))
        found = apply(made)[0]
        assert found is not None
        return found

    def type_of(self, value: GraphValue) -> TensorType:
        """The type of a real value, or of a complex one's parts."""
        return self.emitter.types[value.re.name if isinstance(value, ComplexParts) else value.name]

    def zeros(self, type_: TensorType) -> ValueRef:
        """Zeros of a type."""
        dense = replace(type_, strides=row_major_strides(type_.shape))
        return self.real("aten.full.default", type_.shape, 0, type_=dense, dtype=type_.dtype)

    def part(self, argument: Any, which: Part) -> Any:
        """The real or the imaginary part of an argument that is a number, a tensor, or several."""
        if isinstance(argument, ComplexParts):
            return argument.re if which == "re" else argument.im
        if isinstance(argument, complex):
            return argument.real if which == "re" else argument.imag
        if isinstance(argument, tuple):
            return tuple(self.part(a, which) for a in argument)
        if which == "re" or argument is None:
            return argument
        return self.zeros(self.type_of(argument)) if isinstance(argument, ValueRef) else 0


Composition = Callable[..., GraphValue]
"""composition(call, *args, **kwargs): the only result of an operator, of simpler ones."""

COMPOSED: dict[str, Composition] = {}
"""Operators that are composed of others; `complex_composed.py` fills it."""


def apply(call: ComplexCall) -> tuple[GraphValue | None, ...]:
    """The results of an operator, by the way that the tables know: by a formula, if none does."""
    if call.target not in PARTWISE and call.target not in AS_STORED and _is_narrow(call):
        return _in_single(call)
    if call.target in COMPOSED:
        return (COMPOSED[call.target](call, *call.args, **call.kwargs),)
    if call.target in PARTWISE:
        return _partwise(call)
    return _product(call) if call.target in PRODUCTS else by_formula(call)


AS_STORED = frozenset(
    f"aten.{name}"
    for name in (
        *("view_as_real.default", "view_as_complex.default"),
        *("real.default", "imag.default", "view.dtype"),
    )
)
"""Operators that look at parts as they are stored."""


def _narrow(value: Any) -> bool:
    return isinstance(value, TensorType) and value.dtype == COMPLEX32


def _is_narrow(call: ComplexCall) -> bool:
    """Whether an operand or a result is of complex32, in which nothing is computed."""
    given = [*call.args, *call.kwargs.values()]
    operands = [a for x in given for a in (x if isinstance(x, tuple) else (x,))]
    parts = [a for a in operands if isinstance(a, ComplexParts)]
    return any(call.type_of(a).dtype == COMPLEX32.part for a in parts) or any(
        _narrow(r[1]) for r in call.results if r is not None
    )


def _in_single(call: ComplexCall) -> tuple[GraphValue | None, ...]:
    """The operator in complex64, with results rounded once, as eager's are."""

    def cast(value: ComplexParts, part: DType) -> ComplexParts:
        target, made = "aten._to_copy.default", replace(call.type_of(value), dtype=part)
        re, im = (call.real(target, x, type_=made, dtype=part) for x in (value.re, value.im))
        return ComplexParts(re, im)

    def wide(argument: Any) -> Any:
        if isinstance(argument, tuple):
            return tuple(wide(a) for a in argument)
        if isinstance(argument, ComplexParts) and call.type_of(argument).dtype == COMPLEX32.part:
            return cast(argument, COMPLEX64.part)
        return COMPLEX64 if argument == COMPLEX32 else argument

    results = tuple(
        (f"{r[0]}.wide", replace(r[1], dtype=COMPLEX64)) if r is not None and _narrow(r[1]) else r
        for r in call.results
    )
    kwargs = {name: wide(a) for name, a in call.kwargs.items()}
    found = apply(replace(call, args=wide(call.args), kwargs=kwargs, results=results))
    return tuple(
        cast(value, COMPLEX32.part)
        if isinstance(value, ComplexParts) and r is not None and _narrow(r[1])
        else value
        for value, r in zip(found, call.results, strict=True)
    )


def _partwise(call: ComplexCall) -> tuple[GraphValue | None, ...]:
    values = PARTWISE[call.target]

    def on(which: Part, *, whole: bool = False) -> tuple[ValueRef, ...]:
        args = [call.part(a, which) if k in values else plain(a) for k, a in enumerate(call.args)]
        kwargs = {name: plain(a) for name, a in call.kwargs.items()}
        wanted = [
            r and (r if whole else (f"{r[0]}.{which}", part_type(r[1]))) for r in call.results
        ]
        return call.emitter.emit_many(call.target, args, kwargs, wanted)

    if not any(r and r[1].dtype.is_complex for r in call.results):
        # A new real tensor of an operator that takes a complex one for its type alone.
        real = iter(on("re", whole=True))
        return tuple(None if result is None else next(real) for result in call.results)
    made = iter(ComplexParts(re, im) for re, im in zip(on("re"), on("im"), strict=True))
    return tuple(None if result is None else next(made) for result in call.results)


def plain(argument: Any) -> Any:
    """An argument that parts share: a complex type is that of its parts."""
    return argument.part if isinstance(argument, DType) else argument


def _product(call: ComplexCall) -> tuple[GraphValue | None, ...]:
    """Four products of parts. What is added is with those whose sign is plus."""
    a, b, *rest = call.args
    added, others = rest[:1], rest[1:]
    none = [None] if others else []

    def product(first: Part, second: Part, more: Sequence[Any]) -> ValueRef:
        return call.real(call.target, call.part(a, first), call.part(b, second), *more, *others)

    re = product("re", "re", [call.part(x, "re") for x in added])
    im = product("re", "im", [call.part(x, "im") for x in added])
    minus, plus = product("im", "im", none), product("im", "re", none)
    re, im = call.real("aten.sub.Tensor", re, minus), call.real("aten.add.Tensor", im, plus)
    return (ComplexParts(re, im),)


def by_formula(call: ComplexCall) -> tuple[GraphValue | None, ...]:
    """An operator of the table of lowerings, which takes both parts of its operands."""

    def pairs(argument: Any) -> Any:
        if isinstance(argument, ComplexParts):
            return argument.re, argument.im
        if isinstance(argument, tuple):
            return tuple(pairs(a) for a in argument)
        return argument

    wanted: list[tuple[str, TensorType] | None] = []
    for result in call.results:
        if result is not None and result[1].dtype.is_complex:
            wanted += [(f"{result[0]}.{part}", part_type(result[1])) for part in ("re", "im")]
        else:
            wanted.append(result and (f"{result[0]}.of", result[1]))
    kwargs = {name: pairs(a) for name, a in call.kwargs.items()}
    target, args = FORMULA + call.target, [pairs(a) for a in call.args]
    made = iter(call.emitter.emit_many(target, args, kwargs, wanted))

    def value(result: tuple[str, TensorType] | None) -> GraphValue | None:
        if result is None:
            return None
        first = next(made)
        return ComplexParts(first, next(made)) if result[1].dtype.is_complex else first

    return tuple(value(result) for result in call.results)
