"""Times random shapes beside eager and checks their errors: benchmarks/results/shapes.md.

    make shapes                                        # CPU, one thread, the seed of the day
    make shapes ARGS='--device cuda --jobs 16 --count 400'
    make shapes ARGS='--device cuda --jobs 31 --count 400 --gpus 0,1'
    make shapes ARGS='--seed 20261123 --index 17,42'   # these places of that seed alone
    make shapes ARGS='--only "^conv2d first"'
    make shapes ARGS='--device cuda --jobs 16 --above 1.15'   # kept rows above that, again
    make shapes ARGS='--jobs 16 --cores 0,1,2,3 --compile'    # torch.compile beside; four at a time
    make shapes ARGS='--jobs 16 --cores 0-3,4-7 --threads 4'  # the time that passes, of 4 threads
    make shapes ARGS='--device cuda --jobs 16 --tune 8 --above 1'    # each measured when packaged
    make shapes ARGS='--dynamic 8 --json dynamic.json'     # dynamic dims, packaged at an eighth

Cases run in processes of their own, which may hang, die or ask for too much memory: the run goes
on. On a GPU they are built while others are timed, but with --tune before any is; several GPUs, or
cores, each take the next case. Packages in a --folder stay for another go, which begins with them.
Of one case nothing is written, nor of any selection unless --json says where. With --above the kept
rows (of --json, if given) that are slower than that, wrong or failed are timed again, the slowest
first, and take the places of those before.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from benchmarks.options import bounded_options
from benchmarks.processes import Settings, build_all, own_target, package_all, time_all
from benchmarks.shapes.cases import case_at, family_at, name_of
from benchmarks.shapes.kept import Kept, read_kept
from benchmarks.shapes.measure import build_case, times_of
from benchmarks.shapes.table import Row, beside_compile, page, summary

RESULTS = Path(__file__).parents[1] / "results"
TITLES = {"cpu": "CPU, one thread", "cuda": "GPU"}
SMALLER = "packages have dynamic dims, made with extents so many times smaller than what is timed"
HEAD = """# Random shapes beside eager

`make shapes` writes this page and `shapes_<device>.json`; benchmarks/shapes/README.md says what is
measured. Errors are the greatest ones beside float64's greatest magnitude. One row again:
`make shapes ARGS='--seed SEED --index PLACE'`.
"""


def main() -> None:
    """Runs what is chosen, keeping the files up to date all the while."""
    options = _options()
    kept = read_kept(_path(options)) if options.above else None
    if kept is not None:
        options.seed = kept.seed
    print(f"seed {options.seed}", flush=True)
    rows = list(_rows(options) if kept is None else _again(kept, options))
    names = [name_of(options.seed, row.index) for row in rows]
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(
            options.device,
            options.target or own_target(options.device),
            options.folder or Path(folder),
            options.most_seconds,
            options.seconds,
            options.memory,
            threads=options.threads,
            compiles=options.compile,
            keeps=options.folder is not None,
            smaller=options.smaller,
            tune=options.tune,
        )
        if options.package_only or options.tune:
            package_all(names, build_case, settings, options.jobs)
        if options.package_only:
            return
        built = build_all(names, build_case, settings, options.jobs)
        done: list[Row] = []

        def keep(row: Row) -> None:
            done.append(row)
            print(row.line(), flush=True)
            _keep(sorted(done, key=lambda row: row.index), kept, options)

        named = list(zip(names, rows, strict=True))
        time_all(named, built, times_of, settings, options.units, keep)
    print(summary(rows, options.device))
    print(beside_compile(rows, options.device))


def _options() -> argparse.Namespace:
    parser = bounded_options("shapes", __doc__, seconds=0.5, most=5.0)
    parser.add_argument("--seed", type=int, default=None, help="default: today, as 20261123")
    parser.add_argument("--count", type=int, default=200, help="cases, of all families")
    for name, what in (("--gpus", "numbers"), ("--cores", "as 0,1 or 0-3,4-7")):
        parser.add_argument(name, dest="units", default="", help=f"{what}: cases are shared out")
    parser.add_argument("--threads", type=int, default=1, help="of a call, on a CPU")
    parser.add_argument("--compile", action="store_true", help="torch.compile beside it")
    parser.add_argument("--dynamic", dest="smaller", type=int, default=0, help=SMALLER)
    parser.add_argument("--tune", type=int, default=0, help="configurations that packages measure")
    parser.add_argument("--folder", type=Path, help="where packages are kept for the next go")
    parser.add_argument("--package-only", action="store_true", help="times nothing")
    parser.add_argument("--index", default="", help="places, with commas: these cases alone")
    parser.add_argument("--above", type=float, default=0.0, help="kept rows above this ratio again")
    options = parser.parse_args()
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
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


def _again(kept: Kept, options: argparse.Namespace) -> Iterator[Row]:
    """Empty rows of those that are to be timed again.

    Raises:
        SystemExit: The tables of kinds have changed, so that a place has another case by now.
    """
    for row in kept.above(options.above, options.device):
        text = case_at(kept.seed, row.index, options.device).text
        if text != row.text:
            sys.exit(f"place {row.index} of seed {kept.seed} was {row.text}, and is {text}")
        if re.search(options.only, text):
            yield Row(row.index, row.family, text)


def _path(options: argparse.Namespace) -> Path:
    """Where the numbers are kept."""
    chosen: Path | None = options.json
    return chosen or RESULTS / f"shapes_{options.device}.json"


def _keep(rows: Sequence[Row], kept: Kept | None, options: argparse.Namespace) -> None:
    """Writes the numbers and the page; those of a part only where that is asked for."""
    if kept is not None:
        found = kept.with_rows(rows, options.note)
    elif options.json is None and (options.only or options.index):
        return
    else:
        about = f"Seed {options.seed}. {options.note or platform.node()}; torch {torch.__version__}"
        found = Kept(options.seed, about, tuple(rows))
    found.write(_path(options))
    _write_page(_path(options).parent)


def _write_page(folder: Path) -> None:
    """The page of what the folder has of each device."""
    parts = [HEAD]
    for device, title in TITLES.items():
        path = folder / f"shapes_{device}.json"
        if path.exists():
            found = read_kept(path)
            parts.append(page(found.rows, device, f"## {title}\n\n{found.about}\n"))
    (folder / "shapes.md").write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
