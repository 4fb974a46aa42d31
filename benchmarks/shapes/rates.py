"""Attention's operations a second, by size of a head and length: benchmarks/results/attention.md.

    python -m benchmarks.shapes.rates --jobs 16
    python -m benchmarks.shapes.rates --jobs 31 --gpus 0,1 --only "128 .* causal"

Problems are those of the FlashAttention papers: 16,384 tokens in sequences of one length, heads
that are 2,048 columns together, in bfloat16. Under a causal mask half of the operations count.
Beside ours stands the fastest of torch's own kernels, each asked for by itself.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks import problems
from benchmarks.clocks import Call
from benchmarks.options import bounded_options
from benchmarks.problems import Problem
from benchmarks.processes import Event, Settings, build_all, own_target, time_all

RESULTS = Path(__file__).parents[1] / "results"
HEADS = (32, 40, 48, 64, 72, 80, 96, 128, 160, 192, 256)
LENGTHS = (1024, 2048, 4096, 8192, 16384)
TOKENS = 16384
COLUMNS = 2048
KERNELS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
}
"""Of torch, by the names that rows have them under."""

HEAD = """# Attention on a GPU, in TFLOP/s

`python -m benchmarks.shapes.rates` writes this page: 16,384 tokens in sequences of one length,
heads of 2,048 columns together, bfloat16, forward. Each cell: ours / the fastest of torch's kernels
(FlashAttention-2, cuDNN, memory-efficient), calls in turn, medians. Causal problems count half of
the operations.
"""


@dataclass
class Rate:
    """One problem: seconds of ours and of torch's kernels so far."""

    head: int
    length: int
    causal: bool
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What processes are told."""
        return f"{self.head} {self.length} {'causal' if self.causal else 'full'}"

    @property
    def batch(self) -> int:
        """Sequences."""
        return TOKENS // self.length

    @property
    def heads(self) -> int:
        """Heads of each."""
        return max(COLUMNS // self.head, 1)

    @property
    def work(self) -> float:
        """Multiplications and additions."""
        all_pairs = 4.0 * self.batch * self.heads * self.length**2 * self.head
        return all_pairs / 2 if self.causal else all_pairs

    def take(self, event: Event) -> None:
        """Adds what the process tells."""
        if event.what == "ours" or event.what in KERNELS:
            self.seconds[event.what] = event.seconds
        elif event.text:
            self.notes.append(event.text)

    def cell(self) -> str:
        """TFLOP/s of ours and of the best of torch's, and what ours is of that."""
        theirs = [s for who, s in self.seconds.items() if who in KERNELS]
        ours = self.seconds.get("ours")
        if ours is None or not theirs:
            return "–"
        return f"{self.work / ours / 1e12:.0f} / {self.work / min(theirs) / 1e12:.0f}"


def rate_of(name: str) -> Rate:
    """The problem of a name."""
    head, length, kind = name.split()
    return Rate(int(head), int(length), kind == "causal")


def problem_of(name: str) -> Problem:
    """The call of a name; its peers are those of torch's kernels that take it."""
    rate = rate_of(name)

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=rate.causal)

    def peers(operands: tuple[torch.Tensor, ...]) -> Mapping[str, Call]:
        forced = {who: _forced(k, operands, causal=rate.causal) for who, k in KERNELS.items()}
        return {who: call for who, call in forced.items() if _runs(call)}

    return Problem(name, attention, partial(_operands, rate), peers)


def _operands(rate: Rate, device: str) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(rate.head)
    shape = (rate.batch, rate.heads, rate.length, rate.head)
    return tuple(torch.randn(shape, device=device).to(torch.bfloat16) for _ in range(3))


def build_rate(name: str, settings: Settings) -> None:
    """Packages a problem; one that cannot be is left to the timing, which says why."""
    problems.build(problem_of(name), settings)


def times_of(name: str, settings: Settings) -> Iterator[Event]:
    """Seconds of a call of ours and of those of torch's kernels that take the problem."""
    yield from problems.times(problem_of(name), settings)


def _forced(kernel: SDPBackend, operands: Sequence[torch.Tensor], *, causal: bool) -> Call:
    q, k, v = operands

    def call() -> torch.Tensor:
        with sdpa_kernel(kernel):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return call


def _runs(call: Callable[[], object]) -> bool:
    """Whether the kernel takes the problem."""
    try:
        call()
        torch.cuda.synchronize()
    except RuntimeError:
        return False
    return True


def main() -> None:
    """Runs what is chosen, keeping the page up to date all the while."""
    parser = bounded_options("attention", __doc__, seconds=0.3, most=5.0)
    parser.add_argument("--gpus", default="", help="numbers, with commas: cases are shared out")
    parser.set_defaults(device="cuda")
    options = parser.parse_args()
    found = [Rate(h, n, c) for c in (False, True) for h in HEADS for n in LENGTHS]
    rates = [rate for rate in found if re.search(options.only, rate.name)]
    out: Path = options.json or RESULTS / "attention_cuda.json"
    about = f"{options.note or torch.cuda.get_device_name()}; torch {torch.__version__}"
    names = [rate.name for rate in rates]
    with tempfile.TemporaryDirectory() as folder:
        target = options.target or own_target(options.device)
        settings = Settings(
            *(options.device, target, Path(folder)),
            *(options.most_seconds, options.seconds, options.memory),
        )
        built = build_all(names, build_rate, settings, options.jobs)

        def keep(rate: Rate) -> None:
            print(rate.name, rate.cell(), "; ".join(rate.notes), flush=True)
            rows: list[dict[str, Any]] = [vars(rate) for rate in rates]
            out.write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")
            out.with_name("attention.md").write_text(page(rates, about), encoding="utf-8")

        time_all(
            list(zip(names, rates, strict=True)), built, times_of, settings, options.gpus, keep
        )


def page(rates: Sequence[Rate], about: str) -> str:
    """The page: a table a kind of mask, a row a size of a head."""
    parts = [HEAD, f"{about}\n"]
    for causal in (True, False):
        mine = {(rate.head, rate.length): rate for rate in rates if rate.causal is causal}
        lengths = sorted({length for _, length in mine})
        if not mine:
            continue
        parts += [
            f"## {'Causal' if causal else 'Without a mask'}\n",
            f"| head | {' | '.join(map(str, lengths))} |",
            f"|---|{'---|' * len(lengths)}",
        ]
        for head in sorted({head for head, _ in mine}):
            cells = [mine[head, n].cell() if (head, n) in mine else "–" for n in lengths]
            parts.append(f"| {head} | {' | '.join(cells)} |")
        parts.append("")
    return "\n".join(parts)


if __name__ == "__main__":
    main()
