"""Times every family at its sizes beside eager: benchmarks/results/growth.md.

    python -m benchmarks.growth.run [--device cpu|cuda] [--only REGEX] [--rows] [--most-seconds S]
                                    [--json OUT] [--jobs N] …

Families run in processes of their own, which may hang, die or ask for too much memory: the run
goes on. On a GPU they are built while others are timed. What --only leaves out stays as it is in
the JSON file, from which the page is written: `--only '^$'` writes it anew and times nothing.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import tempfile
from pathlib import Path

from benchmarks.growth.families import FAMILIES, scaled_families
from benchmarks.growth.family import Family
from benchmarks.growth.measure import build_family, times_of
from benchmarks.growth.table import Row, page, row_from_json
from benchmarks.options import bounded_options
from benchmarks.processes import Settings, Timer, build_all, own_target

RESULTS = Path(__file__).parents[1] / "results"
TITLES = {"cpu": "CPU, one thread", "cuda": "GPU"}
HEAD = """# Growth: families of problems at n, 4n, 16n, 64n, beside eager

`make growth` writes this page and `growth_<device>.json`; benchmarks/growth/README.md says what is
measured. Exponents are slopes of log time over log n, the largest sizes weighing most. ▲ and △ are
above eager's by more than 0.1; △: ours is below eager at every size, and would be at the next one
if both grew once more as in the last step. ▲ and ratios above 1.5 are exceptions, with the reason
in the last column (benchmarks/growth/reasons.py). Sorted by the ratio at the largest size that both
reached.
"""


def main() -> None:
    """Runs what is chosen, keeping the files up to date all the while."""
    options = _options()
    chosen = _chosen(options)
    out: Path = options.json or RESULTS / f"growth_{options.device}.json"
    rows = {r["name"]: row_from_json(r) for r in _read(out).get("rows", [])}
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(
            options.device,
            options.target or own_target(options.device),
            Path(folder),
            options.most_seconds,
            options.seconds,
            options.memory,
        )
        names = [family.name for family in chosen]
        built = build_all(names, build_family, settings, options.jobs)
        with Timer(times_of, settings) as timer:
            for family in chosen:
                built[family.name].result()
                row = rows[family.name] = Row(family.name)
                timer.tell(family.name, row)
                ratio = "" if row.ratio is None else f"{row.ratio:8.2f}"
                own, other = (row.exponent(who) or 0.0 for who in ("ours", "eager"))
                print(
                    f"{family.name:36s} {ratio:8s} {own:.2f} {other:.2f} {'; '.join(row.notes)}",
                    flush=True,
                )
                _write(out, options.note, rows)
    _write_page(out.parent)


def _options() -> argparse.Namespace:
    parser = bounded_options("growth", __doc__, seconds=0.5, most=2.0)
    parser.add_argument("--rows", action="store_true", help="the tests' operator rows too, scaled")
    return parser.parse_args()


def _chosen(options: argparse.Namespace) -> list[Family]:
    every = [*FAMILIES, *(scaled_families() if options.rows else ())]
    return [family for family in every if re.search(options.only, family.name)]


def _read(path: Path) -> dict[str, list[dict[str, object]]]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _write(path: Path, note: str, rows: dict[str, Row]) -> None:
    import torch

    about = f"{note or platform.node()}; torch {torch.__version__}".strip("; ")
    found = {"about": about, "rows": [row.to_json() for row in rows.values()]}
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _write_page(folder: Path) -> None:
    """The page of what the folder has of each device."""
    parts = [HEAD]
    for device, title in TITLES.items():
        found = _read(folder / f"growth_{device}.json")
        if found:
            rows = [row_from_json(r) for r in found["rows"]]
            parts.append(page(rows, device, f"## {title}\n\n{found['about']}"))
    (folder / "growth.md").write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
