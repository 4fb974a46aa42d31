"""The table of `make size`, on the sources as they are."""

from functools import cache

import pytest

from tools.size import table

_table = cache(table)  # which reads all sources


@pytest.mark.parametrize(
    "question",
    [
        "hidden inputs outside cli.py",
        "device names outside backends/, options.py, devices.py",
        "broad excepts outside failures.py",
        "dataclasses in ir/ that are not frozen",
        "attributes set from outside",
        "annotated functions",
        "documented public names",
        "lines in files > 600",
        "functions > 60 lines",
        "files that import each other",
        "names that only tests use",
        "functions that are written twice",
        "kinds asked for outside the templates",
        "attributes looked up by name",
        "facts of machines outside Machine, backends/",
        "tests and sources without each other",
    ],
)
def test_the_size_table_holds(question: str) -> None:
    row = next(row for row in _table() if row.question == question)
    assert row.holds, "\n".join(row.places)
