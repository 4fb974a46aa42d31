"""Times operators by element types beside eager: benchmarks/results/types.md.

    python -m benchmarks.types.run [--seed N] [--only REGEX] [--json OUT] [--jobs N] ...

Conversions between ten types, arithmetic, comparisons, reductions, scans, sorts, selections and
what only moves elements: of matrices of about 2^20 elements whose extents the seed draws. Ours and
eager's calls alternate; on the CPU the time is the processor's.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator

from benchmarks import problems
from benchmarks.options import staged_options
from benchmarks.processes import Event, Settings
from benchmarks.types.cases import names, problem, shape_of

ABOUT = """# Operators by types

`python -m benchmarks.types.run` writes this page and `types_<device>.json`. Rows say the seed that
the extents are drawn from, the operator and the type.
"""


def build_row(name: str, settings: Settings) -> str:
    """Packages a row; why there is no package, or ""."""
    return problems.build(problem(name), settings)


def times_row(name: str, settings: Settings) -> Iterator[Event]:
    """Times a row."""
    yield from problems.times(problem(name), settings)


def main() -> None:
    """The command line."""
    parser = staged_options("types", __doc__, seconds=0.1, most=5.0)
    parser.add_argument("--seed", type=int, default=None, help="default: today, as 20261123")
    parser.add_argument("--every", type=int, default=1, help="of the rows, in their order")
    options = parser.parse_args()
    seed = options.seed or int(f"{datetime.date.today():%Y%m%d}")
    chosen = [name for name in names(seed) if re.search(options.only, name)][:: options.every]
    for name in chosen:
        print(name, "{} x {}".format(*shape_of(name)), flush=True)
    problems.run(options, "types", ABOUT, chosen, build_row, times_row)


if __name__ == "__main__":
    main()
