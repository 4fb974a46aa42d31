"""Kernels that memory bounds, beside a copy of as many bytes: benchmarks/results/bandwidth.md.

    python -m benchmarks.shapes.bandwidth --jobs 15 [--only REGEX] [--compile]

A kernel must move its arguments and its results once. Beside each stands a copy on the same GPU
that moves as many bytes, called in turn with it: their ratio is the share of measured bandwidth.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F
from torch.utils import _pytree as pytree

from benchmarks import problems
from benchmarks.clocks import Call
from benchmarks.options import bounded_options
from benchmarks.problems import Problem, Timed, read_rows
from benchmarks.processes import Event, Settings

SHORT = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.float64: "f64"}
IMAGES = 4
"""Of a batch, with three channels."""

SIDES = {"1 MP": 1000, "4 MP": 2000, "8 MP": 2830}
LAYOUTS = {"cf": torch.contiguous_format, "cl": torch.channels_last}
SUITE = (
    ("aa", (1200, 1300), (200, 300)),
    ("aa", (2345, 2456), (1234, 1345)),
    ("aa", (1234, 1345), (2345, 2456)),
    ("aa", (2345, 2456), (120, 200)),
    ("bicubic", (1234, 1345), (2345, 2456)),
)
"""Group A of benchmarks/gpu, from one megapixel on: how, from what size, to what size."""

ABOUT = """# Kernels that memory bounds, on a GPU

`python -m benchmarks.shapes.bandwidth --compile` writes this page and `bandwidth_cuda.json`.
A kernel must move its arguments and results once; `share` is the time of a copy on the same GPU
that moves as many bytes over ours, all sides called in turn, medians. `cf` and `cl`: channels
first and last, batches of four images of three channels, float32.
"""

Tensor = torch.Tensor
Draw = Callable[[str], Tensor]


def drawn(
    *shape: int, dtype: torch.dtype = torch.float32, layout: torch.memory_format | None = None
) -> Draw:
    """Normal numbers; only a GPU needs them: packaging and the counting of bytes see shapes."""

    def draw(device: str) -> Tensor:
        if device == "cuda":
            torch.manual_seed(0)
            found = torch.randn(shape, dtype=torch.float32, device=device).to(dtype)
        else:
            found = torch.zeros(shape, dtype=dtype, device=device)
        return found.contiguous(memory_format=layout) if layout else found

    return draw


def classes(count: int, width: int) -> Draw:
    """A class for each of `count` rows."""
    return lambda device: torch.arange(count, device=device) * 7919 % width


def _all(draws: Sequence[Draw], device: str) -> tuple[Tensor, ...]:
    return tuple(draw(device) for draw in draws)


# ---- the kernels ----


def gelu_norm(x: Tensor, rest: Tensor, bias: Tensor, weight: Tensor, shift: Tensor) -> Tensor:
    """What stands between two products."""
    return F.layer_norm(F.gelu(x + bias) + rest, (x.shape[-1],), weight, shift)


def norm_chain(x: Tensor, rest: Tensor, weight: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
    """The sum stays, for the next layer."""
    total = x + rest
    return total, F.gelu(F.layer_norm(total, (x.shape[-1],), weight, shift))


def swiglu_norm(x: Tensor, weight: Tensor) -> Tensor:
    """A norm, and one half of it by the other."""
    size = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6).to(x.dtype)
    a, b = (x * size * weight).chunk(2, -1)
    return F.silu(a) * b


def masked_softmax(x: Tensor, mask: Tensor) -> Tensor:
    """Attention's probabilities."""
    return torch.softmax(x * 0.125 + mask, -1)


def cross_entropy(x: Tensor, target: Tensor) -> Tensor:
    """In single precision."""
    return F.cross_entropy(x.float(), target)


def rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Two halves turned."""
    low, high = x.chunk(2, -1)
    return x * cos + torch.cat((-high, low), -1) * sin


def _rows() -> Iterator[tuple[str, Callable[..., Any], Sequence[Draw]]]:
    f32, f16, bf16, f64 = torch.float32, torch.float16, torch.bfloat16, torch.float64
    for n, w, t in ((8192, 4096, bf16), (65536, 1024, bf16), (16384, 4096, f32)):
        pair, row = (drawn(n, w, dtype=t),) * 2, (drawn(w, dtype=t),)
        yield f"gelu norm {n}x{w} {SHORT[t]}", gelu_norm, (*pair, *row * 3)
    for n, w, t in ((60787, 1104, bf16), (4096, 16384, bf16), (16384, 4096, f32)):
        pair, row = (drawn(n, w, dtype=t),) * 2, (drawn(w, dtype=t),)
        yield f"norm chain {n}x{w} {SHORT[t]}", norm_chain, (*pair, *row * 2)
    yield (
        "swiglu norm 8192x8192 bf16",
        swiglu_norm,
        (drawn(8192, 8192, dtype=bf16), drawn(8192, dtype=bf16)),
    )
    for b, h, n, t in ((16, 12, 1024, f16), (4, 16, 2048, bf16), (4, 12, 1024, f32)):
        both = drawn(b, h, n, n, dtype=t), drawn(b, 1, n, n, dtype=t)
        yield f"masked softmax {b}x{h}x{n}x{n} {SHORT[t]}", masked_softmax, both
    for n, w, t in ((8192, 50304, bf16), (4096, 50304, f32), (16384, 32000, bf16)):
        both = drawn(n, w, dtype=t), classes(n, w)
        yield f"cross entropy {n}x{w} {SHORT[t]}", cross_entropy, both
    for n, w, t in ((512, 131072, f32), (512, 131072, bf16), (65536, 2048, f32)):
        yield f"softmax {n}x{w} {SHORT[t]}", partial(torch.softmax, dim=-1), (drawn(n, w, dtype=t),)
    for n, w, t in ((65536, 1024, f32), (65536, 1024, bf16), (3728270, 18, f64)):
        yield (
            f"variance down {n}x{w} {SHORT[t]}",
            partial(torch.var, dim=0),
            (drawn(n, w, dtype=t),),
        )
    for h, n, w, t in ((32, 16384, 128, bf16), (32, 16384, 64, f16), (32, 16384, 128, f32)):
        table = drawn(n, w, dtype=t)
        yield f"rotary {h}x{n}x{w} {SHORT[t]}", rotary, (drawn(h, n, w, dtype=t), table, table)


def _resized(kind: str, size: tuple[int, int], x: Tensor) -> Tensor:
    if kind == "bicubic":
        return F.interpolate(x, size=size, mode="bicubic", align_corners=False)
    return F.interpolate(x, size=size, mode="bilinear", antialias=True, align_corners=False)


def _images() -> Iterator[tuple[str, Callable[..., Any], Sequence[Draw]]]:
    cases = [(kind, f"{a[0]}x{a[1]}", a, b) for kind, a, b in SUITE]
    for size, side in SIDES.items():
        for kind, to in (("aa", side // 2), ("aa", 224), ("aa", side * 3 // 2)):
            cases.append((kind, size, (side, side), (to, to)))
        cases.append(("bicubic", size, (side, side), (side * 3 // 2,) * 2))
    for kind, named, before, after in cases:
        for name, layout in LAYOUTS.items():
            row = f"A {kind} {named} to {after[0]}x{after[1]} {name}"
            image = drawn(IMAGES, 3, *before, layout=layout)
            yield row, partial(_resized, kind, after), (image,)


@cache
def every(*, compiles: bool = False) -> dict[str, Problem]:
    """All rows, by their names; `compiles`: torch.compile is a peer of those that it fuses."""
    found = {}
    for rows, fused in ((_rows(), True), (_images(), False)):
        for name, function, draws in rows:
            peers = partial(_peers, name, function, compiles=compiles and fused)
            found[name] = Problem(name, function, partial(_all, draws), peers)
    return found


def nbytes(problem: Problem) -> int:
    """What a call must move at least."""
    args = problem.draw("meta")
    moved = pytree.tree_leaves((args, problem.function(*args)))
    return sum(x.numel() * x.element_size() for x in moved)


def _peers(
    name: str, function: Callable[..., Any], args: tuple[Tensor, ...], *, compiles: bool
) -> Mapping[str, Call]:
    half = nbytes(every()[name]) // 2
    source = torch.empty(half, dtype=torch.uint8, device=args[0].device).random_(0, 255)
    copied = torch.empty_like(source)
    calls: dict[str, Call] = {
        "eager": lambda: function(*args),
        "copy": lambda: copied.copy_(source),
    }
    if compiles:
        compiled = torch.compile(function, dynamic=False)
        calls["compile"] = lambda: compiled(*args)
    return calls


def build_row(name: str, settings: Settings) -> None:
    """Packages a row."""
    problems.build(every()[name], settings)


def times_row(name: str, settings: Settings) -> Iterator[Event]:
    """Times a row beside eager and a copy."""
    yield from problems.times(every()[name], settings)


def build_compiled(name: str, settings: Settings) -> None:
    """As `build_row`; torch.compile's code is then in its cache, too."""
    build_row(name, settings)
    problem = every(compiles=True)[name]
    if problem.peers is not None:
        args = problem.draw(settings.device)
        problem.peers(args).get("compile", lambda: None)()


def times_compiled(name: str, settings: Settings) -> Iterator[Event]:
    """As `times_row`, beside torch.compile, too."""
    yield from problems.times(every(compiles=True)[name], settings)


# ---- the page ----


def page(folder: Path, name: str, about: str) -> str:
    """A table of the kernels, and one of group A."""
    path = folder / f"{name}_cuda.json"
    rows = read_rows(path)
    said = json.loads(path.read_text(encoding="utf-8"))["about"] if rows else ""
    parts = [about, f"{said}\n"]
    for title, images in (("Kernels that reduce and join", False), ("Group A: resizing", True)):
        chosen = [row for row in rows.values() if row.name.startswith("A ") is images]
        if not chosen:
            continue
        parts += [f"## {title}\n", _summary(chosen), *_table(chosen), ""]
    return "\n".join(parts)


def _summary(rows: Sequence[Timed]) -> str:
    shares = [s for s in map(share, rows) if s]
    ratios = [row.ratio for row in rows if row.ratio]
    if not shares or not ratios:
        return ""
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    return (
        f"{sum(s >= 0.9 for s in shares)} of {len(shares)} at 90 % of the copy or more; least "
        f"{min(shares):.0%}. Of eager: geometric mean {mean:.2f}, at most {max(ratios):.2f}.\n"
    )


def share(row: Timed) -> float | None:
    """Of the bandwidth of a copy."""
    ours, copy = row.seconds.get("ours"), row.seconds.get("copy")
    return copy / ours if ours and copy else None


def _table(rows: Sequence[Timed]) -> Iterator[str]:
    yield "| kernel | MB | ours, us | copy | share | eager | torch.compile | ours / eager |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in rows:
        part = share(row)
        if part is None or row.ratio is None:
            yield f"| {row.name} | | | | | | | {'; '.join(row.notes)} |"
            continue
        times = {who: f"{1e6 * seconds:.1f}" for who, seconds in row.seconds.items()}
        moved = nbytes(every()[row.name]) / 1e6
        yield (
            f"| {row.name} | {moved:.0f} | {times['ours']} | {times['copy']} | {part:.0%} "
            f"| {times['eager']} | {times.get('compile', '–')} | {row.ratio:.2f} |"
        )


def main() -> None:
    """Runs what is chosen, keeping the page up to date all the while."""
    parser = bounded_options("bandwidth", __doc__, seconds=0.2, most=0.5)
    parser.add_argument("--compile", action="store_true", help="torch.compile beside it")
    parser.set_defaults(device="cuda")
    options = parser.parse_args()
    names = [name for name in every() if re.search(options.only, name)]
    rows = (build_compiled, times_compiled) if options.compile else (build_row, times_row)
    problems.run(options, "bandwidth", ABOUT, names, *rows, page=page, quiet=True)


if __name__ == "__main__":
    main()
