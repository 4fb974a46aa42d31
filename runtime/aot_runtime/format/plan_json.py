"""The plan's JSON form: canonical text out, checked values in. The schema is docs/format.md's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from aot_runtime.format.errors import CorruptPackage, IncompatiblePackage, Origin
from aot_runtime.format.golden_sets import KINDS, GoldenSet, Shared
from aot_runtime.format.json_value import JsonValue, expr_to_json
from aot_runtime.format.plan import (
    FORMAT_VERSION,
    Check,
    Dim,
    DimSource,
    Parameter,
    Plan,
    Signature,
    StateSpec,
    Tree,
    TreeConstant,
    TreeDict,
    TreeInput,
    TreeOutput,
    TreeSequence,
    WeightSpec,
)
from aot_runtime.format.program_json import (
    program_from_json,
    program_to_json,
    tensor_from_json,
    tensor_to_json,
)


def encode_plan(plan: Plan) -> bytes:
    """The plan as canonical JSON, UTF-8: equal plans give equal bytes."""
    text = json.dumps(plan_to_json(plan), ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8")


def plan_text(plan: Plan) -> str:
    """The plan as JSON for people: a value a line where it is long."""
    rows = []
    for key, value in plan_to_json(plan).items():
        if isinstance(value, list) and value:
            items = ",\n  ".join(json.dumps(item, ensure_ascii=False) for item in value)
            rows.append(f"{json.dumps(key)}: [\n  {items}]")
        else:
            rows.append(f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}")
    return "{" + ",\n ".join(rows) + "}\n"


def decode_plan(data: bytes | memoryview) -> Plan:
    """The plan in the bytes of a package's `plan` entry.

    Raises:
        CorruptPackage: Not JSON, a key is missing, or a value has the wrong type.
        IncompatiblePackage: The format's major version is another than ours.
    """
    try:
        value = json.loads(bytes(data).decode("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise CorruptPackage(f"the plan is not JSON: {error}", where="entry plan") from error
    return plan_from_json(value)


def plan_to_json(plan: Plan) -> dict[str, Any]:
    """The plan as plain dicts and lists, keys in the order of docs/format.md."""
    weights = {"weights": [_weight_out(w) for w in plan.weights]} if plan.weights else {}
    return {
        "format": list(plan.format),
        "compiler": plan.compiler,
        "model": plan.model,
        "dims": [_dim_out(dim) for dim in plan.dims],
        "inputs": [tensor_to_json(spec) for spec in plan.inputs],
        "outputs": [tensor_to_json(spec) for spec in plan.outputs],
        **({"states": [_state_out(spec) for spec in plan.states]} if plan.states else {}),
        "signature": {
            "parameters": [
                {"name": p.name, "kind": p.kind, "tree": _tree_out(p.tree)}
                for p in plan.signature.parameters
            ],
            "result": _tree_out(plan.signature.result),
        },
        "checks": [
            {
                "left": expr_to_json(c.left),
                "relation": c.relation,
                "right": expr_to_json(c.right),
                "message": c.message,
            }
            for c in plan.checks
        ],
        "origins": [
            {"file": o.file, "line": o.line, "operator": o.operator, "code": o.code}
            for o in plan.origins
        ],
        "programs": [program_to_json(program) for program in plan.programs],
        **weights,
        "entries": dict(plan.entries),
        "golden": [_golden_out(golden) for golden in plan.golden],
    }


def plan_from_json(value: object) -> Plan:
    """The plan in a decoded JSON value; errors name the path of the value that is wrong.

    Raises:
        CorruptPackage: A key is missing, or a value has the wrong type.
        IncompatiblePackage: The format's major version is another than ours.
    """
    root = JsonValue(value, "plan")
    version = root["format"].each(JsonValue.integer)
    if len(version) != 2:
        raise root["format"].wrong("two integers")
    if version[0] != FORMAT_VERSION[0]:
        raise IncompatiblePackage(
            f"the package has format {version[0]}.{version[1]}; "
            f"this version reads {FORMAT_VERSION[0]}.x"
        )
    signature = root["signature"]
    return Plan(
        format=(version[0], version[1]),
        compiler=root["compiler"].text(),
        model=root["model"].text(),
        dims=root["dims"].each(_dim_in),
        inputs=root["inputs"].each(tensor_from_json),
        outputs=root["outputs"].each(tensor_from_json),
        states=root["states"].each(_state_in) if root.has("states") else (),
        signature=Signature(
            signature["parameters"].each(_parameter_in), _tree_in(signature["result"])
        ),
        checks=root["checks"].each(
            lambda c: Check(
                c["left"].expr(),
                c["relation"].one_of("==", "<=", "<"),  # type: ignore[arg-type]  # just checked
                c["right"].expr(),
                c["message"].text(),
            )
        ),
        origins=root["origins"].each(
            lambda o: Origin(
                o["file"].text(), o["line"].integer(), o["operator"].text(), o["code"].text()
            )
        ),
        programs=root["programs"].each(program_from_json),
        weights=root["weights"].each(_weight_in) if root.has("weights") else (),
        entries=tuple((name, item.text()) for name, item in root["entries"].members()),
        golden=root["golden"].each(_golden_in),
    )


def _golden_out(golden: GoldenSet) -> Mapping[str, Any]:
    shared = [{"kind": s.kind, "axis": s.axis} for s in golden.shared]
    return {
        "inputs": list(golden.inputs),
        "outputs": list(golden.outputs),
        "atol": list(golden.atol),
        "rtol": list(golden.rtol),
        **({"shared": shared} if shared else {}),
    }


def _golden_in(g: JsonValue) -> GoldenSet:
    return GoldenSet(
        g["inputs"].each(JsonValue.text),
        g["outputs"].each(JsonValue.text),
        g["atol"].each(JsonValue.number),
        g["rtol"].each(JsonValue.number),
        g["shared"].each(lambda s: Shared(s["kind"].one_of(*KINDS), s["axis"].integer()))
        if g.has("shared")
        else (),
    )


def _dim_out(dim: Dim) -> Mapping[str, Any]:
    source = dim.source
    return {
        "name": dim.name,
        "label": dim.label,
        "min": dim.min,
        "max": dim.max,
        "multiple_of": dim.multiple_of,
        "source": None
        if source is None
        else {
            "input": source.input,
            "axis": source.axis,
            "divisor": source.divisor,
            "offset": source.offset,
        },
    }


def _dim_in(v: JsonValue) -> Dim:
    return Dim(
        v["name"].text(),
        v["label"].text(),
        v["min"].integer(),
        None if v["max"].value is None else v["max"].integer(),
        v["multiple_of"].integer(),
        None if v["source"].value is None else _source_in(v["source"]),
    )


def _source_in(v: JsonValue) -> DimSource:
    return DimSource(
        v["input"].integer(), v["axis"].integer(), v["divisor"].integer(), v["offset"].integer()
    )


def _weight_out(spec: WeightSpec) -> Mapping[str, Any]:
    return {
        "name": spec.name,
        "dtype": spec.dtype,
        "shape": list(spec.shape),
        "aliases": list(spec.aliases),
        "entry": spec.entry,
        "required": spec.required,
    }


def _weight_in(v: JsonValue) -> WeightSpec:
    return WeightSpec(
        v["name"].text(),
        v["dtype"].text(),
        v["shape"].each(JsonValue.integer),
        v["aliases"].each(JsonValue.text),
        v["entry"].text(),
        v["required"].boolean(),
    )


def _state_out(spec: StateSpec) -> Mapping[str, Any]:
    return {
        "name": spec.name,
        "dtype": spec.dtype,
        "shape": list(spec.shape),
        "entry": spec.entry or None,
    }


def _state_in(v: JsonValue) -> StateSpec:
    entry = v["entry"]
    return StateSpec(
        v["name"].text(),
        v["dtype"].text(),
        v["shape"].each(JsonValue.integer),
        "" if entry.value is None else entry.text(),
    )


def _tree_out(tree: Tree) -> Mapping[str, Any]:
    match tree:
        case TreeInput(index):
            return {"input": index}
        case TreeOutput(index):
            return {"output": index}
        case TreeConstant(value):
            return {"constant": value}
        case TreeSequence(kind, items):
            return {kind: [_tree_out(item) for item in items]}
        case TreeDict(members):
            return {"dict": [[key, _tree_out(item)] for key, item in members]}


def _tree_in(v: JsonValue) -> Tree:
    if v.has("input"):
        return TreeInput(v["input"].integer())
    if v.has("output"):
        return TreeOutput(v["output"].integer())
    if v.has("constant"):
        constant = v["constant"].value
        if constant is not None and not isinstance(constant, int | float | str):
            raise v["constant"].wrong("a number, bool, string or null")
        return TreeConstant(constant)
    if v.has("tuple"):
        return TreeSequence("tuple", v["tuple"].each(_tree_in))
    if v.has("list"):
        return TreeSequence("list", v["list"].each(_tree_in))
    if v.has("dict"):
        return TreeDict(v["dict"].each(_pair_in))
    raise v.wrong("a tree: input, output, constant, tuple, list or dict")


def _pair_in(v: JsonValue) -> tuple[str | int, Tree]:
    both = v.each(lambda item: item)
    if len(both) != 2:
        raise v.wrong("a pair of key and tree")
    key = both[0].integer() if isinstance(both[0].value, int) else both[0].text()
    return key, _tree_in(both[1])


def _parameter_in(v: JsonValue) -> Parameter:
    kind = v["kind"].one_of("positional", "keyword")
    return Parameter(v["name"].text(), kind, _tree_in(v["tree"]))  # type: ignore[arg-type]  # checked
