"""Compiles kernels in a process of its own: run as a program, with a request on each line of input.

It imports nothing of this package, so that it starts as fast as Triton does. The surroundings
(`compile_environment`) are the caller's business. A kernel that Triton refuses ends the process,
with the reason on the error stream: the compiler may not be sane after that.
"""

from __future__ import annotations

import base64
import json
import linecache
import os
import re
import shutil
import sys
from typing import Any

import triton
import triton.compiler.code_generator  # which Triton would import with the first kernel
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

MODULE = "<kernel>"
"""The file that Triton sees: always the same, because names of files end up in machine code."""

_PAIR_SUM = re.compile(r"^([ \t]*)add\.s16x2[ \t]+([^,;]+), ([^,;]+), ([^,;]+);", re.MULTILINE)

_TWO_SUMS = r"""\1{
\1.reg .b16 %left<2>, %right<2>;
\1mov.b32 {%left0, %left1}, \3;
\1mov.b32 {%right0, %right1}, \4;
\1add.s16 %left0, %left0, %right0;
\1add.s16 %left1, %left1, %right1;
\1mov.b32 \2, {%left0, %left1};
\1}"""

_BOOLEAN = ("enable_fp_fusion", "launch_cooperative_grid", "launch_pdl", "debug", "sched4reg")


def load_function(text: str, name: str) -> Any:
    """The jitted function `name` of a module's text.

    `triton.jit` asks `inspect` for its source, which looks into `linecache` for modules that are
    no files.
    """
    linecache.cache[MODULE] = (len(text), None, text.splitlines(keepends=True), MODULE)
    namespace: dict[str, Any] = {"__name__": "kernel"}
    exec(compile(text, MODULE, "exec"), namespace)
    return namespace[name]


def pairs_apart(assembly: str) -> str:
    """PTX that sums pairs of 16-bit numbers one by one.

    Where a constant is added to one of the two and only that one is read, ptxas (12.8, 12.9; sm_90
    and newer) adds 0. LLVM makes such pairs of indices that it knows to be small.
    """
    return _PAIR_SUM.sub(_TWO_SUMS, assembly)


def change_stages(*call: Any) -> tuple[str, str] | None:
    """Triton's hook for its stages: `pairs_apart` ends the one that writes PTX.

    It is called with the target's backend, the stages by name and more, to change these; and with
    nothing, for what makes cached results of so changed stages others.
    """
    if not call:
        return pairs_apart.__name__, pairs_apart.__name__
    stages = call[1]
    written = stages["ptx"]
    stages["ptx"] = lambda source, metadata: pairs_apart(written(source, metadata))
    return None


def without_key() -> None:
    """Triton makes no key of itself: a hash of all its files, half a gigabyte, for each process.

    It names what Triton keeps, and nothing that we make is kept there.
    """
    for name in ("triton.runtime.cache", "triton.compiler.compiler"):
        module: Any = sys.modules[name]
        if hasattr(module, "triton_key"):
            module.triton_key = str


def compile_kernel(request: dict[str, Any]) -> dict[str, Any]:
    """The answer to one request; loops keep fewer stages in flight where memory does not suffice.

    Request: name, text, signature (list of types), options, capability, shared_limit, alignment (of
    pointers, in bytes).
    Answer: cubin (base64), symbol, threads, shared, scratch, scratch_alignment.
    """
    options = {"enable_fp_fusion": True, "num_stages": 3, **request["options"]}
    options.update({key: bool(options[key]) for key in _BOOLEAN if key in options})
    while True:
        made = _compile(request, options)
        if made["shared"] <= request["shared_limit"] or options["num_stages"] <= 1:
            return made
        options["num_stages"] -= 1


def _compile(request: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    function = load_function(request["text"], request["name"])
    types = request["signature"]
    if len(types) != len(function.arg_names):
        raise TypeError(f"{len(types)} types for parameters {', '.join(function.arg_names)}")
    aligned = {
        (k,): [["tt.divisibility", request["alignment"]]]
        for k, kind in enumerate(types)
        if kind[0] == "*"
    }
    signature = dict(zip(function.arg_names, types, strict=True))
    made = triton.compile(
        _source_kind(function)(function, signature, None, aligned),
        target=GPUTarget("cuda", request["capability"], 32),
        options=options,
    )
    metadata = made.metadata
    return {
        "cubin": base64.b64encode(made.asm["cubin"]).decode(),
        "symbol": metadata.name,
        "threads": metadata.num_warps * 32,
        "shared": metadata.shared,
        "scratch": metadata.global_scratch_size or 0,
        "scratch_alignment": metadata.global_scratch_align or 1,
    }


def _source_kind(function: Any) -> Any:
    """What Triton's compiler takes a function as: text in Gluon has imported what that needs."""
    if function.is_gluon():
        return sys.modules["triton.experimental.gluon._runtime"].GluonASTSource
    return ASTSource


def main() -> None:
    """Answers each line of input with a line; what Triton prints goes to the error stream."""
    triton.knobs.runtime.add_stages_inspection_hook = change_stages
    without_key()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        print(json.dumps(compile_kernel(json.loads(line))), file=answers, flush=True)
    for folder in sys.argv[1:]:  # ours; who has started us may be gone
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)  # without taking apart what Triton has made, for which the caller would wait


if __name__ == "__main__":
    main()
