"""The model's assertions: of tensors, and of sizes that it measures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import Node
from torch.utils._sympy.solve import try_solve

from aot.frontend.context import Context, NodeCall
from aot.ir.dtypes import BOOL
from aot.ir.origin import Origin
from aot.ir.tensors import Assertion, SizeRelation, TensorType, ValueRef

ASSERTIONS = ("aten._assert", "aten.sym_constrain", "aten._functional_sym_constrain")
"""How their names begin. Those of sizes that inputs bind say what guards say already."""

_OF_VALUES = ("aten._assert_async", "aten._assert_scalar", "aten._functional_assert")
"""Those whose first argument must hold; the others say what types and ranges say already."""

EFFECT = "with_effects"
"""What torch wraps around an operator that must not move or vanish, with a token that orders it."""

CONDITIONAL = "aot.when.default"
"""A value with the bool that must hold where it is read (composites.py)."""

_FACTORS = "aten._linalg_check_errors.default"
"""Raises where info, an int32 for each matrix, says that a factorization failed."""

_RELATIONS = {
    "GreaterThan": ("<=", True),
    "StrictGreaterThan": ("<", True),
    "LessThan": ("<=", False),
    "StrictLessThan": ("<", False),
    "Equality": ("==", False),
}
"""sympy's class -> our relation, and whether its sides are exchanged."""


def read_assertion(context: Context, call: NodeCall) -> tuple[SizeRelation, ...]:
    """Adds an assertion of a tensor to the operators; gives those of measured sizes.

    Raises ValueError for one that has no counterpart.
    """
    node = call.node
    if not call.target.startswith(_OF_VALUES):
        return ()
    if not node.args or not isinstance(node.args[0], torch.fx.Node):
        return ()
    condition = node.args[0]
    message = str(node.args[1]) if len(node.args) > 1 else "it is false"
    known, value = condition.meta.get("val"), context.bindings.nodes.get(condition.name)
    if isinstance(known, torch.SymBool):
        expr = known.node.expr
        if not context.sizes.are_measured(expr):
            return ()
        if context.measured.is_overstated([str(side) for side in expr.args]):
            return ()
        if _is_concluded(node.graph, known):
            return ()
        if type(expr).__name__ in _RELATIONS:
            return (_relation(context, expr, message, call.origin),)
    if isinstance(value, ValueRef):
        context.ops.add(Assertion(_truth(context, call, value), message, call.origin))
    return ()


def _is_concluded(graph: torch.fx.Graph, asserted: torch.SymBool) -> bool:
    """Whether torch says this only as another assertion says more, of sizes as it traces them.

    From `m >= n` it concludes `m >= 2`: it takes no dynamic size of an input for 0 or 1.
    """
    condition, env = asserted.node.expr, asserted.node.shape_env
    if type(condition).__name__ != "GreaterThan" or not condition.args[0].is_Symbol:
        return False
    measured, least = condition.args
    # Every measured number is asserted not to be negative: others are not looked through for that.
    if not (least.is_Integer and least > 0):
        return False
    for other in _conditions(graph):
        solved = try_solve(other, measured)
        if solved is None or type(solved[0]).__name__ != "GreaterThan":
            continue
        sizes = solved[1].free_symbols
        of_inputs = bool(sizes) and sizes <= env.backed_var_to_val.keys()
        if of_inputs and env.bound_sympy(solved[1]).lower >= least:
            return True
    return False


def _conditions(graph: torch.fx.Graph) -> Iterator[Any]:
    """What a program asserts of sizes, as torch's expressions."""
    for node in graph.nodes:
        if node.op == "call_function" and str(node.target).startswith(_OF_VALUES) and node.args:
            value = node.args[0].meta.get("val") if isinstance(node.args[0], Node) else None
            if isinstance(value, torch.SymBool):
                yield value.node.expr


def read_conditional(context: Context, call: NodeCall) -> ValueRef:
    """The value, after the assertion that reading it is: torch drops the node if nobody does.

    Raises ValueError for one that is known when the program is made.
    """
    value, condition = (context.argument(a) for a in call.node.args[:2])
    if not isinstance(value, ValueRef) or not isinstance(condition, ValueRef):
        raise ValueError("it depends on no value")
    context.ops.add(Assertion(condition.name, str(call.node.args[2]), call.origin))
    return value


def read_effect(context: Context, call: NodeCall) -> None:
    """Adds the assertion that an effect is.

    Raises ValueError for one that has no counterpart.
    """
    _, operator, *args = call.node.args
    if str(operator) != _FACTORS:
        raise ValueError("an operator with effects that packages do not have")
    info, name = context.argument(args[0]), context.argument(args[1])
    if not isinstance(info, ValueRef):
        raise ValueError("it checks no result of a factorization")
    shape = context.ops.types[info.name]
    each = TensorType(BOOL, shape.shape, shape.strides)
    whole = TensorType(BOOL, (), ())
    good, all_good = f"{call.name}.good", f"{call.name}.all_good"
    ref = context.ops.call("aten.eq.Scalar", (info, 0), good, each, call.origin)
    ref = context.ops.call("aten.all.default", (ref,), all_good, whole, call.origin)
    context.ops.add(Assertion(ref.name, f"{name}: {failure_of_factors(name)}", call.origin))


_SINGULAR = "the input matrix is singular"
_FAILURES = {
    "linalg.cholesky": "the input is not positive-definite",
    "linalg.eigh": "the algorithm did not converge",
    "linalg.eigvalsh": "the algorithm did not converge",
    "linalg.svd": "the algorithm did not converge",
    "linalg.svdvals": "the algorithm did not converge",
}
"""What has failed, by the operator's name as torch gives it."""


def failure_of_factors(name: str) -> str:
    """What has failed where a factorization of this name did."""
    return _FAILURES.get(name, _SINGULAR)


def _truth(context: Context, call: NodeCall, value: ValueRef) -> str:
    """A bool without dimensions that says whether the value is not 0."""
    type_ = context.ops.types[value.name]
    if type_.dtype == BOOL and not type_.shape:
        return value.name
    name, scalar = f"{call.name}.holds", TensorType(BOOL, (), ())
    return context.ops.call("aten.any.default", (value,), name, scalar, call.origin).name


def _relation(context: Context, expr: Any, message: str, origin: Origin) -> SizeRelation:
    relation, exchanged = _RELATIONS[type(expr).__name__]
    left, right = (context.sizes.foreign(side) for side in expr.args)
    if exchanged:
        left, right = right, left
    place = f", at {origin.place}" if origin.place else ""
    text = f"an assertion of the model fails: {message}{place}"
    return SizeRelation(left, relation, right, text)
