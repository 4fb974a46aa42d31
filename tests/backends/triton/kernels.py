"""Small hand-written kernels, as sources that the backend could have emitted."""

from __future__ import annotations

from aot.backends.base import KernelSource

_HEAD = "import triton\nimport triton.language as tl\n\n\n"

_ADD = """@triton.jit
def {name}(x, y, o, n):
    i = tl.program_id(0).to(tl.int64) * 1024 + tl.arange(0, 1024)
    m = i < n
    tl.store(o + i, tl.load(x + i, m) + tl.load(y + i, m), m)
"""

_GATHER = """@triton.jit
def {name}(x, index, o, fault, n, rows):
    i = tl.program_id(0).to(tl.int64) * 128 + tl.arange(0, 128)
    m = i < n
    j = tl.load(index + i, m, 0)
    wrong = m & ((j < 0) | (j >= rows))
    tl.store(fault + i * 0, 1, wrong)
    tl.store(o + i, tl.load(x + j, m & ~wrong, 0.0), m)
"""

_ROW_SUM = """@triton.jit
def combine(a, b):
    return a + b


@triton.jit
def {name}(x, o, n):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros([256], tl.float32)
    for start in range(0, n, 256):
        i = start + tl.arange(0, 256)
        total += tl.load(x + row * n + i, i < n, 0.0).to(tl.float32)
    tl.store(o + row, tl.reduce(total, 0, combine))
"""

_MATMUL = """@triton.jit
def {name}(a, b, o, m):
    n: tl.constexpr = 1024
    k: tl.constexpr = 512
    i = tl.program_id(0).to(tl.int64) * {BM} + tl.arange(0, {BM})
    j = tl.program_id(1).to(tl.int64) * {BN} + tl.arange(0, {BN})
    total = tl.zeros([{BM}, {BN}], tl.float32)
    for start in range(0, k, {BK}):
        s = start + tl.arange(0, {BK})
        x = tl.load(a + i[:, None] * k + s, i[:, None] < m, 0.0)
        y = tl.load(b + s[:, None] * n + j)
        total = tl.dot(x, y, total)
    tl.store(o + i[:, None] * n + j, total.to(o.dtype.element_ty), i[:, None] < m)
"""


_SPILLS = """@triton.jit
def {name}(x, o):
    i = tl.arange(0, 64)[:, None] * 256 + tl.arange(0, 256)[None, :]
    v = tl.load(x + i)
    total = tl.sum(v)
    tl.store(o + i, v * total)
"""


def _source(body: str, name: str, signature: str, faults: bool = False, **tiles: int):
    options = (("num_warps", tiles.pop("num_warps", 4)), ("num_stages", tiles.pop("stages", 3)))
    text = _HEAD + body.format(name=name, **tiles)
    return KernelSource(name, text, (), tuple(signature.split()), options, faults)


def add(name: str = "add") -> KernelSource:
    """o[i] = x[i] + y[i], i < n; programs of 1024."""
    return _source(_ADD, name, "*fp32 *fp32 *fp32 i64")


def gather(name: str = "gather") -> KernelSource:
    """o[i] = x[index[i]], i < n, with a report of indices outside [0, rows); programs of 128."""
    return _source(_GATHER, name, "*fp32 *i64 *fp32 *i32 i64 i64", faults=True)


def row_sum(name: str = "row_sum") -> KernelSource:
    """o[r] = sum(x[r, :n]) of bfloat16 rows, a program each."""
    return _source(_ROW_SUM, name, "*bf16 *bf16 i64")


def matmul(name: str = "matmul", stages: int = 3, tile: int = 64, depth: int = 64) -> KernelSource:
    """o = a @ b of bfloat16 matrices m*512 and 512*1024; programs of tile*tile."""
    tiles = {"BM": tile, "BN": tile, "BK": depth}
    return _source(_MATMUL, name, "*bf16 *bf16 *bf16 i64", stages=stages, **tiles)


def spilling(name: str = "spilling") -> KernelSource:
    """A kernel of far more values than a thread has registers."""
    return _source(_SPILLS, name, "*fp32 *fp32", num_warps=1)
