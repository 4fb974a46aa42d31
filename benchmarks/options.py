"""Options that the runs of benchmarks share."""

from __future__ import annotations

import argparse
import math
from pathlib import Path


def common_options(name: str, about: str | None, *, seconds: float) -> argparse.ArgumentParser:
    """A parser of what every run takes: device, choice, times, and where the numbers go.

    Args:
        name: Of the results: benchmarks/results/`name`_<device>.json.
        about: The run's own docstring, whose first line is shown.
        seconds: The default of --seconds.
    """
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--target", help="default: this machine's own level or GPU")
    parser.add_argument("--only", default="", help="a regular expression of names")
    parser.add_argument("--seconds", type=float, default=seconds, help="for the calls of one row")
    parser.add_argument("--jobs", type=int, default=1, help="packages built at the same time")
    where = f"default: benchmarks/results/{name}_<device>.json"
    parser.add_argument("--json", type=Path, help=where)
    parser.add_argument("--note", default="", help="when, where and how quiet, for the page")
    return parser


def bounded_options(
    name: str, about: str | None, *, seconds: float, most: float
) -> argparse.ArgumentParser:
    """The shared options of runs that end problems which take too long or too much memory.

    Args:
        name: Of the results.
        about: The run's own docstring.
        seconds: The default of --seconds.
        most: The default of --most-seconds.
    """
    parser = common_options(name, about, seconds=seconds)
    parser.add_argument("--most-seconds", type=float, default=most, help="of a call, then it ends")
    parser.add_argument("--memory", type=float, default=12.0, help="GiB of a problem, on the CPU")
    return parser


def staged_options(
    name: str, about: str | None, *, seconds: float, most: float
) -> argparse.ArgumentParser:
    """The bounded options of runs whose rows are packaged first and timed in several short goes."""
    parser = bounded_options(name, about, seconds=seconds, most=most)
    parser.add_argument("--folder", type=Path, help="where packages are kept for the next go")
    parser.add_argument("--package-only", action="store_true", help="times nothing")
    parser.add_argument("--missing", action="store_true", help="only rows without times so far")
    parser.add_argument(
        "--within", type=float, default=math.inf, help="seconds after which no row begins"
    )
    return parser
