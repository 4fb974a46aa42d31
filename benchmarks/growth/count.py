"""Counts the work of families on both machines, without building or running a kernel.

    python -m benchmarks.growth.count [--only REGEX] [--rows]

A line for each family whose work, or number of kernels, grows faster than it should; `!` marks
those. tests/growth does the same for a sample and knows those that are bad today.
"""

from __future__ import annotations

import argparse
import re

from aot.errors import AotError
from benchmarks.growth.families import FAMILIES, scaled_families
from benchmarks.growth.work import growth_of_work


def main() -> None:
    """Counts what is chosen."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="a regular expression of names")
    parser.add_argument("--rows", action="store_true", help="the tests' operator rows too, scaled")
    options = parser.parse_args()
    for family in [*FAMILIES, *(scaled_families() if options.rows else ())]:
        if not re.search(options.only, family.name):
            continue
        try:
            grown = growth_of_work(family)
        except (AotError, RuntimeError) as error:
            print(f"? {family.name:40s} {str(error).splitlines()[0][:100]}", flush=True)
            continue
        for device, growth in grown.items():
            mark = "!" if growth.problem else " "
            numbers = (
                f"{growth.points:5.2f} of {growth.expected:4.2f} kernels {growth.kernels:5.2f}"
            )
            print(f"{mark} {family.name:40s} {device:4s} {numbers}", flush=True)


if __name__ == "__main__":
    main()
