"""Which native file may include which: the borders that keep the runtime replaceable in parts."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ABI = {"aot/dlpack.h"}

ALLOWED = {
    "cpp/include/aot/dlpack.h": set(),
    "cpp/include/aot/kernel_abi.h": set(),
    "cpp/include/aot/operator_abi.h": ABI,
    "cpp/include/aot/operator.hpp": {"aot/operator_abi.h"},
    "cpp/include/aot/abi.h": ABI | {"aot/operator_abi.h"},
    "cpp/include/aot/result.hpp": {"aot/abi.h"},
    "cpp/include/aot/tensor.hpp": {"aot/abi.h"},
    "cpp/include/aot/aot.hpp": {
        "aot/abi.h",
        "aot/operator.hpp",
        "aot/result.hpp",
        "aot/tensor.hpp",
    },
    "runtime/aot_runtime/src/arrays.h": {"aot/aot.hpp", "exchange.h"},
    "runtime/aot_runtime/src/arrays.cc": {"arrays.h"},
    "runtime/aot_runtime/src/caller.h": {"aot/aot.hpp", "exchange.h"},
    "runtime/aot_runtime/src/caller.cc": {"caller.h", "arrays.h", "log.h", "operators.h"},
    "runtime/aot_runtime/src/exchange.h": {"aot/aot.hpp"},
    "runtime/aot_runtime/src/exchange.cc": {"exchange.h"},
    "runtime/aot_runtime/src/operators.h": {"aot/aot.hpp"},
    "runtime/aot_runtime/src/operators.cc": {"operators.h", "arrays.h"},
    "runtime/aot_runtime/src/allocator.h": {"aot/aot.hpp"},
    "runtime/aot_runtime/src/allocator.cc": {"allocator.h"},
    "runtime/aot_runtime/src/options.h": {"aot/aot.hpp"},
    "runtime/aot_runtime/src/options.cc": {"options.h"},
    "runtime/aot_runtime/src/module.cc": {
        *("allocator.h", "arrays.h", "caller.h", "log.h", "operators.h", "options.h", "trace.h"),
    },
    "cpp/tools/npy.h": {"aot/aot.hpp"},
    "cpp/tools/run.cc": {"npy.h"},
    "cpp/tools/bench_runner.cc": {"npy.h"},
}
# c_api → devices → a device's session → session, bound sizes, contract → plan → container: nobody
# looks up.
LAYERS = [
    {
        *("error", "dtype", "mapped_file", "sha256", "memory", "strided_copy", "thread_pool"),
        *("abi_struct", "isa", "half", "process", "lock", "run_control", "nvtx", "perf_map"),
        *("chunks", "descriptor"),
    },
    {"json_text", "signature", "status", "driver_abi", "workspace"},
    {"expr", "safetensors", "driver"},
    {"device", "manifest"},
    {"device_memory"},
    {"package_files"},
    {"shared_list", "cubin"},
    {
        *("plan", "plan_fields", "program", "program_flow", "operator_call"),
        *("weight_program", "upload", "graph", "memory_library"),
        # A plan is proved as it is parsed, and what is not proved checked as sizes are bound.
        *("fact", "polynomial", "prover", "declaration", "lifetimes", "rules"),
        *("memory_rules", "launch_rules", "verify", "bound_sizes"),
    },
    {"policy", "trace"},
    {"kernel_library", "integrity", "operators", "timeline", "weights"},
    {"contract", "output_pool", "bound_call", "bound_program", "bound_steps", "flow_runner"},
    {"weight_update", "run_device"},
    {"package"},
    {"session", "session_memory", "session_run", "input_copies", "device_program"},
    {"bound_launches"},
    {"cpu_run_device", "cuda_run_device", "cuda_streams", "cuda_launches"},
    {"devices"},
    {"handles"},
    {"c_api", "c_api_growth", "c_api_trace"},
]


def includes(path: Path) -> set[str]:
    """What a file includes of ours."""
    return set(re.findall(r'^#include "([^"]+)"', path.read_text(), re.MULTILINE))


@pytest.mark.parametrize("name", ALLOWED)
def test_public_headers_and_clients(name: str) -> None:
    assert includes(ROOT / name) <= ALLOWED[name]


@pytest.mark.parametrize("path", sorted((ROOT / "cpp/src").rglob("*.[hc]*")), ids=lambda p: p.name)
def test_no_source_looks_up(path: Path) -> None:
    if path.suffix == ".map":
        return
    level = {name: i for i, names in enumerate(LAYERS) for name in names}
    assert path.stem in level, "give the new file a place in LAYERS"
    for header in includes(path):
        if header.startswith("aot/"):
            assert header != "aot/aot.hpp", "the library is beneath its C++ header"
        else:
            assert level[Path(header).stem] <= level[path.stem], f"{path.name} includes {header}"
