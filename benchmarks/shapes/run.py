"""Times random shapes beside eager and checks their errors: benchmarks/results/shapes.md.

    make shapes                                        # CPU, one thread, the seed of the day
    make shapes ARGS='--device cuda --jobs 16 --count 400'
    make shapes ARGS='--device cuda --jobs 31 --count 400 --gpus 0,1'
    make shapes ARGS='--seed 20261123 --index 17,42'   # these places of that seed alone
    make shapes ARGS='--only "^conv2d first"'

Cases run in processes of their own, which may hang, die or ask for too much memory: the run goes
on. On a GPU they are built while others are timed; several GPUs each take the next case. Of one
case nothing is written, nor of any selection unless --json says where.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from benchmarks.options import bounded_options
from benchmarks.processes import Settings, build_all, own_target, time_all
from benchmarks.shapes.cases import case_at, family_at, name_of
from benchmarks.shapes.measure import build_case, times_of
from benchmarks.shapes.table import Row, page, row_from_json, summary

RESULTS = Path(__file__).parents[1] / "results"
TITLES = {"cpu": "CPU, one thread", "cuda": "GPU"}
HEAD = """# Random shapes beside eager

`make shapes` writes this page and `shapes_<device>.json`; benchmarks/shapes/README.md says what is
measured. Errors are the greatest ones beside float64's greatest magnitude. One row again:
`make shapes ARGS='--seed SEED --index PLACE'`.
"""


def main() -> None:
    """Runs what is chosen, keeping the files up to date all the while."""
    options = _options()
    print(f"seed {options.seed}", flush=True)
    rows = list(_rows(options))
    names = [name_of(options.seed, row.index) for row in rows]
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(
            options.device,
            options.target or own_target(options.device),
            Path(folder),
            options.most_seconds,
            options.seconds,
            options.memory,
        )
        built = build_all(names, build_case, settings, options.jobs)
        done: list[Row] = []

        def keep(row: Row) -> None:
            done.append(row)
            print(row.line(), flush=True)
            _keep(sorted(done, key=lambda row: row.index), options)

        named = list(zip(names, rows, strict=True))
        time_all(named, built, times_of, settings, options.gpus, keep)
    print(summary(rows, options.device))


def _options() -> argparse.Namespace:
    parser = bounded_options("shapes", __doc__, seconds=0.5, most=5.0)
    parser.add_argument("--seed", type=int, default=None, help="default: today, as 20261123")
    parser.add_argument("--count", type=int, default=200, help="cases, of all families")
    parser.add_argument("--gpus", default="", help="numbers, with commas: cases are shared out")
    parser.add_argument("--index", default="", help="places, with commas: these cases alone")
    options = parser.parse_args()
    if options.seed is None:
        options.seed = int(f"{datetime.date.today():%Y%m%d}")
    return options


def _rows(options: argparse.Namespace) -> Iterator[Row]:
    """Empty rows of what is chosen."""
    places: Sequence[int] = range(options.count)
    if options.index:
        places = [int(place) for place in options.index.split(",")]
    for index in places:
        text = case_at(options.seed, index, options.device).text
        if re.search(options.only, text):
            yield Row(index, family_at(index), text)


def _keep(rows: Sequence[Row], options: argparse.Namespace) -> None:
    """Writes the numbers and the page; those of a part only where that is asked for."""
    out: Path = options.json or RESULTS / f"shapes_{options.device}.json"
    if options.json is None and (options.only or options.index):
        return
    about = f"Seed {options.seed}. {options.note or platform.node()}; torch {torch.__version__}"
    found = {"about": about, "rows": [row.to_json() for row in rows]}
    out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    _write_page(out.parent)


def _write_page(folder: Path) -> None:
    """The page of what the folder has of each device."""
    parts = [HEAD]
    for device, title in TITLES.items():
        path = folder / f"shapes_{device}.json"
        if path.exists():
            found = json.loads(path.read_text(encoding="utf-8"))
            rows = [row_from_json(row) for row in found["rows"]]
            parts.append(page(rows, device, f"## {title}\n\n{found['about']}\n"))
    (folder / "shapes.md").write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
