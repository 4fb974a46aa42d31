"""Markdown from the peers' harness: every contender's median, ours against eager and the best peer.

python benchmarks/peers_table.py 1:t1.json 2:t2.json > benchmarks/results/cpu_peers.md
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PEERS = ("aoti_best", "ort", "openvino")
ASKED = {"A": "0.80", "B": "0.42", "C": "0.80"}

Row = dict[str, Any]


def geomean(values: Iterable[float]) -> float:
    """The geometric mean of positive numbers."""
    logs = [math.log(v) for v in values]
    return math.exp(sum(logs) / len(logs))


def median(row: Row, contender: str) -> float | None:
    """Seconds a call; None when the contender failed or was wrong."""
    entry = row.get(contender, {})
    right = entry.get("check", {}).get("ok", True)
    return float(entry["latency"]["median"]) if "latency" in entry and right else None


def table(threads: str, data: Row) -> str:
    """The section of one thread count."""
    rows: Row = data[f"t{threads}"]
    groups = {name: data["workloads"][name]["group"] for name in rows}
    lines = [f"## Threads: {threads}", ""]
    lines += ["| group | workloads | ours / eager | asked | best of all others / eager |"]
    lines += ["|---|---|---|---|---|"]
    for group, asked in ASKED.items():
        names = [n for n in rows if groups[n] == group and median(rows[n], "ours")]
        ours = geomean(_ratio(rows[n], "ours") for n in names)
        best = geomean(min(_ratio(rows[n], c) for c in ("eager", *PEERS)) for n in names)
        lines.append(f"| {group} | {len(names)} | {ours:.2f} | {asked} | {best:.2f} |")
    lines += ["", "| workload | eager ms | " + " | ".join(PEERS) + " | ours | ours / eager |"]
    lines += ["|---|---|" + "---|" * len(PEERS) + "---|---|"]
    for name in sorted(rows, key=lambda n: (groups[n], n)):
        row = rows[name]
        cells = [_milliseconds(median(row, c)) for c in ("eager", *PEERS, "ours")]
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {_ratio(row, 'ours'):.2f} |")
    return "\n".join(lines) + "\n"


def _ratio(row: Row, contender: str) -> float:
    own, eager = median(row, contender), median(row, "eager")
    return own / eager if own is not None and eager is not None else math.inf


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e3:.3f}"


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        count, _, path = argument.partition(":")
        print(table(count, json.loads(Path(path).read_text())))
