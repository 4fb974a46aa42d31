"""The plan's JSON form: canonical text out, checked values in. The schema is docs/format.md's."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from aot.errors import CorruptPackage, IncompatiblePackage, Origin
from aot.link.plan import (
    FORMAT_VERSION,
    ArenaSlot,
    ArenaStorage,
    Buffer,
    Check,
    Dim,
    DimSource,
    EntryStorage,
    Expr,
    GoldenSet,
    InputStorage,
    KernelRef,
    Library,
    OutputStorage,
    Parameter,
    Plan,
    Signature,
    Step,
    Storage,
    TensorSpec,
    Tree,
    TreeConstant,
    TreeDict,
    TreeInput,
    TreeOutput,
    TreeSequence,
)

T = TypeVar("T")


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
    return {
        "format": list(plan.format),
        "compiler": plan.compiler,
        "model": plan.model,
        "dims": [_dim_out(dim) for dim in plan.dims],
        "inputs": [_tensor_out(spec) for spec in plan.inputs],
        "outputs": [_tensor_out(spec) for spec in plan.outputs],
        "signature": {
            "parameters": [
                {"name": p.name, "kind": p.kind, "tree": _tree_out(p.tree)}
                for p in plan.signature.parameters
            ],
            "result": _tree_out(plan.signature.result),
        },
        "buffers": [
            {
                "name": b.name,
                "dtype": b.dtype,
                "bytes": _expr_out(b.bytes),
                "storage": _storage_out(b.storage),
            }
            for b in plan.buffers
        ],
        "arena": [{"buffer": s.buffer, "above": list(s.above)} for s in plan.arena],
        "libraries": [
            {"entry": b.entry, "device": b.device, "isa": b.isa, "sha256": b.sha256}
            for b in plan.libraries
        ],
        "kernels": [{"name": k.name} for k in plan.kernels],
        "steps": [_step_out(step) for step in plan.steps],
        "checks": [
            {
                "left": _expr_out(c.left),
                "relation": c.relation,
                "right": _expr_out(c.right),
                "message": c.message,
            }
            for c in plan.checks
        ],
        "origins": [
            {"file": o.file, "line": o.line, "operator": o.operator, "code": o.code}
            for o in plan.origins
        ],
        "entries": dict(plan.entries),
        "golden": [
            {
                "inputs": list(g.inputs),
                "outputs": list(g.outputs),
                "atol": list(g.atol),
                "rtol": list(g.rtol),
            }
            for g in plan.golden
        ],
    }


def plan_from_json(value: object) -> Plan:
    """The plan in a decoded JSON value; errors name the path of the value that is wrong.

    Raises:
        CorruptPackage: A key is missing, or a value has the wrong type.
        IncompatiblePackage: The format's major version is another than ours.
    """
    root = _Value(value, "plan")
    version = root["format"].each(_Value.integer)
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
        inputs=root["inputs"].each(_tensor_in),
        outputs=root["outputs"].each(_tensor_in),
        signature=Signature(
            signature["parameters"].each(_parameter_in), _tree_in(signature["result"])
        ),
        buffers=root["buffers"].each(
            lambda b: Buffer(
                b["name"].text(), b["dtype"].text(), b["bytes"].expr(), _storage_in(b["storage"])
            )
        ),
        arena=root["arena"].each(
            lambda s: ArenaSlot(s["buffer"].integer(), s["above"].each(_Value.integer))
        ),
        libraries=root["libraries"].each(
            lambda b: Library(
                b["entry"].text(), b["device"].text(), b["isa"].text(), b["sha256"].text()
            )
        ),
        kernels=root["kernels"].each(lambda k: KernelRef(k["name"].text())),
        steps=root["steps"].each(_step_in),
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
        entries=tuple((name, item.text()) for name, item in root["entries"].members()),
        golden=root["golden"].each(
            lambda g: GoldenSet(
                g["inputs"].each(_Value.text),
                g["outputs"].each(_Value.text),
                g["atol"].each(_Value.number),
                g["rtol"].each(_Value.number),
            )
        ),
    )


class _Value:
    """A JSON value with its path, so that every complaint can say where."""

    def __init__(self, value: object, path: str) -> None:
        self.value = value
        self.path = path

    def wrong(self, wanted: str) -> CorruptPackage:
        """The error for a value that is not `wanted`."""
        shown = json.dumps(self.value, default=str)[:60]
        return CorruptPackage(f"{self.path} must be {wanted}, not {shown}", where="entry plan")

    def __getitem__(self, key: str) -> _Value:
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        if key not in self.value:
            raise CorruptPackage(f"{self.path} has no key {key!r}", where="entry plan")
        return _Value(self.value[key], f"{self.path}.{key}")

    def has(self, key: str) -> bool:
        return isinstance(self.value, dict) and key in self.value

    def each(self, read: Callable[[_Value], T]) -> tuple[T, ...]:
        if not isinstance(self.value, list):
            raise self.wrong("a list")
        return tuple(read(_Value(v, f"{self.path}[{i}]")) for i, v in enumerate(self.value))

    def members(self) -> list[tuple[str, _Value]]:
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        return [(key, _Value(v, f"{self.path}[{key!r}]")) for key, v in self.value.items()]

    def integer(self) -> int:
        if not isinstance(self.value, int) or isinstance(self.value, bool):
            raise self.wrong("an integer")
        return self.value

    def number(self) -> float:
        if not isinstance(self.value, int | float) or isinstance(self.value, bool):
            raise self.wrong("a number")
        return float(self.value)

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.wrong("a string")
        return self.value

    def one_of(self, *choices: str) -> str:
        if self.value not in choices:
            raise self.wrong("one of " + ", ".join(choices))
        return str(self.value)

    def expr(self) -> Expr:
        if isinstance(self.value, str):
            return self.value
        if isinstance(self.value, list):
            return self.each(_Value.expr)
        return self.integer()


def _expr_out(expr: Expr) -> int | str | list[Any]:
    return [_expr_out(e) for e in expr] if isinstance(expr, tuple | list) else expr


def _dim_out(dim: Dim) -> Mapping[str, Any]:
    source = dim.source
    return {
        "name": dim.name,
        "label": dim.label,
        "min": dim.min,
        "max": dim.max,
        "multiple_of": dim.multiple_of,
        "source": {
            "input": source.input,
            "axis": source.axis,
            "divisor": source.divisor,
            "offset": source.offset,
        },
    }


def _dim_in(v: _Value) -> Dim:
    source = v["source"]
    return Dim(
        v["name"].text(),
        v["label"].text(),
        v["min"].integer(),
        None if v["max"].value is None else v["max"].integer(),
        v["multiple_of"].integer(),
        DimSource(
            source["input"].integer(),
            source["axis"].integer(),
            source["divisor"].integer(),
            source["offset"].integer(),
        ),
    )


def _tensor_out(spec: TensorSpec) -> Mapping[str, Any]:
    return {
        "name": spec.name,
        "dtype": spec.dtype,
        "shape": [_expr_out(e) for e in spec.shape],
        "strides": [_expr_out(e) for e in spec.strides],
        "buffer": spec.buffer,
    }


def _tensor_in(v: _Value) -> TensorSpec:
    return TensorSpec(
        v["name"].text(),
        v["dtype"].text(),
        v["shape"].each(_Value.expr),
        v["strides"].each(_Value.expr),
        v["buffer"].integer(),
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


def _tree_in(v: _Value) -> Tree:
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


def _pair_in(v: _Value) -> tuple[str, Tree]:
    both = v.each(lambda item: item)
    if len(both) != 2:
        raise v.wrong("a pair of key and tree")
    return both[0].text(), _tree_in(both[1])


def _parameter_in(v: _Value) -> Parameter:
    kind = v["kind"].one_of("positional", "keyword")
    return Parameter(v["name"].text(), kind, _tree_in(v["tree"]))  # type: ignore[arg-type]  # checked


def _storage_out(storage: Storage) -> Mapping[str, Any]:
    match storage:
        case InputStorage(index):
            return {"kind": "input", "index": index}
        case OutputStorage(index):
            return {"kind": "output", "index": index}
        case EntryStorage(entry, offset):
            return {"kind": "entry", "entry": entry, "offset": offset}
        case ArenaStorage():
            return {"kind": "arena"}


def _storage_in(v: _Value) -> Storage:
    match v["kind"].one_of("input", "output", "entry", "arena"):
        case "input":
            return InputStorage(v["index"].integer())
        case "output":
            return OutputStorage(v["index"].integer())
        case "entry":
            return EntryStorage(v["entry"].text(), v["offset"].integer())
        case _:
            return ArenaStorage()


def _step_out(step: Step) -> Mapping[str, Any]:
    return {
        "kernel": step.kernel,
        "buffers": list(step.buffers),
        "sizes": [_expr_out(e) for e in step.sizes],
        "work": _expr_out(step.work),
        "grain": _expr_out(step.grain),
        "scratch": _expr_out(step.scratch),
        "origin": step.origin,
    }


def _step_in(v: _Value) -> Step:
    return Step(
        v["kernel"].integer(),
        v["buffers"].each(_Value.integer),
        v["sizes"].each(_Value.expr),
        v["work"].expr(),
        v["grain"].expr(),
        v["scratch"].expr(),
        v["origin"].integer(),
    )
