"""`make size`: rows 1-7, 10 and 11 of our list of qualities, counted, with the limits that we keep.

Exits 1 when a limit is broken, naming every place.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tools.clones import clones
from tools.code_facts import Finding, PythonFile, native_files, python_files
from tools.import_rules import breaches, circles, kind_tests
from tools.machine_facts import machine_facts
from tools.mirror_rules import OURS
from tools.unused import unused_names
from tools.words import doubled_names

DEVICES = "runtime/aot_runtime/format/devices.py"
FAILURES = "runtime/aot_runtime/tools/failures.py"
MAX_FILE = 600
MAX_MEDIAN = 200
LONG_FUNCTION = 60
MAX_FUNCTION = 100
MAX_LONG_SHARE = 0.02
MAX_LOCAL_IMPORTS = 5
"""Of what takes long to import and few need: torch, the ecosystem's signer, charts, NumPy."""


@dataclass(frozen=True)
class Row:
    """One line of the table: what is counted, its figure and limit, and the places that matter."""

    number: str
    question: str
    figure: str
    limit: str
    holds: bool
    places: tuple[str, ...] = ()


def table() -> list[Row]:
    """All rows, for the repository as it is."""
    files = python_files()
    return [
        *_file_tail(files),
        _function_tail(files),
        *_layering(files),
        _count("4", "hidden inputs outside cli.py", files, "hidden_inputs", ("aot/cli.py",)),
        _count(
            "5",
            "device names outside backends/, options.py, devices.py",
            files,
            "device_literals",
            ("aot/backends/", "aot/options.py", DEVICES, "tools/"),
        ),
        _count("6", "broad excepts outside failures.py", files, "broad_excepts", (FAILURES,)),
        _kinds(files),
        _machines(),
        _untyped(files),
        *_mutation(files),
        *_documented(files),
        _unused(),
        _clones(),
        _mirrored(),
        _doubled(),
    ]


def _file_tail(files: Sequence[PythonFile]) -> Iterator[Row]:
    sizes = {str(f.path): f.lines for f in files} | {str(p): n for p, n in native_files()}
    largest = max(sizes, key=lambda path: sizes[path])
    long = tuple(f"{path}: {n} lines" for path, n in sizes.items() if n > MAX_FILE)
    total = sum(sizes.values())
    share = sum(n for n in sizes.values() if n > MAX_FILE) / total
    figure = f"{share:.0%} of {total} lines; max {sizes[largest]} ({largest})"
    yield Row("1", f"lines in files > {MAX_FILE}", figure, "0 %", not long, long)
    ours = sum(n for path, n in sizes.items() if path.startswith("aot/"))
    yield Row("1", "lines of aot/", str(ours), "fewer is better", holds=True)
    median = statistics.median(n for n in sizes.values() if n > 1)
    yield Row("1", "median file", f"{median:.0f}", f"<= {MAX_MEDIAN}", median <= MAX_MEDIAN)


def _function_tail(files: Sequence[PythonFile]) -> Row:
    every = [(f, function) for f in files for function in f.functions]
    long = [(f, g) for f, g in every if g.lines > LONG_FUNCTION]
    share = len(long) / len(every)
    places = tuple(f"{f.path}:{g.line}: {g.name} has {g.lines} lines" for f, g in long)
    longest = max(g.lines for _, g in every)
    return Row(
        "2",
        f"functions > {LONG_FUNCTION} lines",
        f"{share:.1%} of {len(every)}; max {longest}",
        f"<= {MAX_LONG_SHARE:.0%}, none > {MAX_FUNCTION}",
        share <= MAX_LONG_SHARE and longest <= MAX_FUNCTION,
        places,
    )


def _layering(files: Sequence[PythonFile]) -> Iterator[Row]:
    local = tuple(f"{f.path}:{i.line}: {i.module}" for f in files for i in f.imports if i.local)
    holds = len(local) <= MAX_LOCAL_IMPORTS
    yield Row("3", "local imports", str(len(local)), f"<= {MAX_LOCAL_IMPORTS}", holds, local)
    wrong = tuple(breaches(files))
    yield Row("3", "imports against the rules", str(len(wrong)), "0", not wrong, wrong)
    pairs = tuple(circles(files))
    yield Row("3", "files that import each other", str(len(pairs)), "0", not pairs, pairs)


def _count(
    number: str, question: str, files: Sequence[PythonFile], field: str, allowed: tuple[str, ...]
) -> Row:
    places = tuple(
        _place(f, finding)
        for f in files
        if not str(f.path).startswith(allowed)
        for finding in getattr(f, field)
    )
    return Row(number, question, str(len(places)), "0", not places, places)


def _kinds(files: Sequence[PythonFile]) -> Row:
    found = tuple(kind_tests(files))
    return Row("5", "kinds asked for outside the templates", str(len(found)), "0", not found, found)


def _machines() -> Row:
    found = tuple(machine_facts())
    question = "facts of machines outside Machine, backends/"
    return Row("5", question, str(len(found)), "0", not found, found)


def _untyped(files: Sequence[PythonFile]) -> Row:
    """Attributes of the IR that are looked up by name, so that no type is known."""
    places = tuple(
        _place(f, found)
        for f in files
        if str(f.path).startswith("aot/")
        for found in f.attributes
        if found.text in ("attr()", "attrs")
    )
    return Row("5", "attributes looked up by name", str(len(places)), "0", not places, places)


def _mutation(files: Sequence[PythonFile]) -> Iterator[Row]:
    ir = [f for f in files if str(f.path).startswith("aot/ir/")]
    yield _count("7", "dataclasses in ir/ that are not frozen", ir, "mutable_dataclasses", ())
    # A tensor of torch keeps what is made of it: a table of ours would keep both for ever.
    own = ("aot/symbolic/", "aot/frontend/element_writes.py")
    yield _count("7", "attributes set from outside", files, "sets_after_init", own)


def _documented(files: Sequence[PythonFile]) -> Iterator[Row]:
    functions = [(f, g) for f in files for g in f.functions]
    bare = tuple(f"{f.path}:{g.line}: {g.name}" for f, g in functions if not g.annotated)
    share = 1 - len(bare) / len(functions)
    yield Row("11", "annotated functions", f"{share:.1%}", "100 %", not bare, bare)
    public = [(f, g) for f, g in functions if g.public]
    mute = [f"{f.path}:{g.line}: {g.name}" for f, g in public if not g.documented]
    mute += [_place(f, c) for f in files for c in f.undocumented_classes]
    count = len(public) + sum(f.public_classes for f in files)
    share = 1 - len(mute) / count
    yield Row("11", "documented public names", f"{share:.1%}", "100 %", not mute, tuple(mute))


def _unused() -> Row:
    places = tuple(f"{path}:{found.line}: {found.text}" for path, found in unused_names())
    return Row("10", "names that only tests use", str(len(places)), "0", not places, places)


def _clones() -> Row:
    found = tuple(clones())
    return Row("10", "functions that are written twice", str(len(found)), "0", not found, found)


def _mirrored() -> Row:
    found = tuple(OURS.breaches())
    return Row("10", "tests and sources without each other", str(len(found)), "0", not found, found)


def _doubled() -> Row:
    found = tuple(doubled_names())
    return Row("10", "type names with two meanings", str(len(found)), "0", not found, found)


def _place(file: PythonFile, finding: Finding) -> str:
    return f"{file.path}:{finding.line}: {finding.text}"


def markdown(rows: Sequence[Row]) -> str:
    """The table as Markdown, with the places below the rows that do not hold."""
    lines = ["| # | what | ours | limit | |", "|---|---|---|---|---|"]
    lines += [
        f"| {r.number} | {r.question} | {r.figure} | {r.limit} | {'ok' if r.holds else '**no**'} |"
        for r in rows
    ]
    for row in rows:
        if not row.holds and row.places:
            lines += ["", f"{row.question}:", *(f"  {place}" for place in row.places)]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Print the table; 1 when a limit is broken."""
    rows = table()
    sys.stdout.write(markdown(rows))
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
