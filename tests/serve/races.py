"""What the thread sanitizer reported of aot-serve: ours, apart from gRPC's.

gRPC and protobuf, as Debian builds them, are not compiled for the sanitizer: it does not see what
orders their accesses, of which it reports some hundreds in a minute. Their mutexes are told to it
(cpp/tests/tsan_abseil.cc), their atomic counters are not. A report is ours where one of its two
accesses is made by our code: the first frame that belongs to no standard library lies in
cpp/serve, cpp/src or aot.hpp. Memory that is obtained is no access: what we allocate is gRPC's to
look at once it has it.

    cmake -S . -B build/tsan --preset tsan -DAOT_BUILD_SERVE=ON
    cmake --build build/tsan --target aot-serve
    TSAN_OPTIONS="exitcode=0 log_path=$PWD/out/races" pytest tests/serve -k grpc \\
      --serve build/tsan/cpp/serve/aot-serve
    python -m tests.serve.races out/races.*
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

OURS = re.compile(r"/cpp/(serve|src|include/aot)/")
GENERATED = re.compile(r"open_inference\.(grpc\.)?pb\.")
OBTAINED = re.compile(r"#0 (operator new|\w*alloc)\b")
PASSED_OVER = re.compile(
    r"operator delete|\b(std|__gnu_cxx)::|#\d+ \w*(mem(cpy|set|move|cmp)|free)\b"
    r"|/include/c\+\+/|libsanitizer"
)
ACCESS = re.compile(
    r"^  (?:Previous )?(?:atomic )?(?:write|read) of size .*?\n((?:    #\d+ .*\n)+)",
    re.MULTILINE | re.IGNORECASE,
)


def reports(text: str) -> Iterator[str]:
    """Each report of a race."""
    for part in text.split("==================\n"):
        if "WARNING: ThreadSanitizer" in part:
            yield part


def accesses(report: str) -> list[str]:
    """The frame that made each of a report's two accesses."""
    found = []
    for stack in ACCESS.findall(report):
        frames = [frame.strip() for frame in stack.splitlines()]
        own = (f for f in frames if not PASSED_OVER.search(f))
        found.append(frames[0] if OBTAINED.match(frames[0]) else next(own, frames[0]))
    return found


def is_ours(report: str) -> bool:
    """Whether our code made one of the accesses; reports of other kinds (locks, leaks) are."""
    found = accesses(report)
    return not found or any(OURS.search(f) and not GENERATED.search(f) for f in found)


def main(logs: Sequence[str]) -> int:
    """The exit status: 1 where a race is ours."""
    all_reports = [r for path in logs for r in reports(Path(path).read_text(errors="replace"))]
    ours = [report for report in all_reports if is_ours(report)]
    print("\n".join(ours))
    print(f"{len(all_reports)} reports, {len(ours)} of our accesses")
    return 1 if ours else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
