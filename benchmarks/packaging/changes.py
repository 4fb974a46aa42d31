"""Wall time after a change of one layer: `python -m benchmarks.packaging.changes [--layers 12]`.

Each model is packaged with no kernels kept (headers are), again, and with each of `CHANGES`, which
no build before has seen: by a command each time, by commands of which the first stays (`AOT_STAY`),
then by one that watches the file. Needs a machine with nothing else to do.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHANGES = {
    "activation": "another activation",
    "width": "another width",
    "weights": "other weights",
    "added": "a layer more",
    "example": "larger inputs",
}
"""What is changed of a model, and how the table calls it."""

TEXTS: dict[str, Callable[[int, str], str]] = {
    "layers": lambda count, changed: (
        "from benchmarks.packaging.layers import inputs, layers\n"
        f"model = layers({count}, {changed!r})\nexample_inputs = inputs({changed!r})\n"
    ),
    "images": lambda count, changed: (
        "from benchmarks.packaging.images import images, inputs\n"
        f"model = images({changed!r})\nexample_inputs = inputs({changed!r})\n"
    ),
}


class Place:
    """A folder with a model file and a cache, of which the headers stay."""

    def __init__(
        self,
        folder: Path,
        cache: Path,
        text: Callable[[str], str],
        target: str,
        changes: Sequence[str],
    ) -> None:
        self._model, self.cache, self._text = folder / "model.py", cache, text
        self.changes = ("", "", *changes)
        variables = [f"AOT_CACHE_DIR={self.cache}", f"PYTHONPATH={ROOT}"]
        self.command = ["env", *variables, sys.executable, "-m", "aot", str(self._model)]
        self.command += ["-o", str(folder / "model.pkg"), "--target", target]

    def forget(self) -> None:
        """No kernel is kept."""
        for folder in (*self.cache.glob("cpp/??"), self.cache / "triton"):
            shutil.rmtree(folder, ignore_errors=True)

    def write(self, changed: str) -> None:
        """The model, with this changed."""
        self._model.write_text(self._text(changed), encoding="utf-8")


def by_commands(place: Place) -> list[float]:
    """Seconds of each command."""
    place.forget()
    return [_timed(place, changed) for changed in place.changes]


def _timed(place: Place, changed: str) -> float:
    place.write(changed)
    begin = time.perf_counter()
    subprocess.run(place.command, cwd=ROOT, capture_output=True, check=True)
    return time.perf_counter() - begin


def by_watching(place: Place) -> list[float]:
    """Seconds from each change to the package, of one command; the first from its start."""
    place.forget()
    place.write("")
    command = [*place.command, "--watch"]
    begin, found = time.perf_counter(), []
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for changed in (*place.changes[1:], None):
            while not process.stderr.readline().startswith("watching"):
                pass
            found.append(time.perf_counter() - begin)
            if changed is not None:
                time.sleep(0.3)
                begin = time.perf_counter()
                place.write(changed)
        process.send_signal(signal.SIGTERM)
    return found


def by_staying(place: Place) -> list[float]:
    """As `by_commands`, where a process stays after the first."""
    for left in place.cache.glob("resident/*"):
        left.unlink()
    place.command.insert(1, "AOT_STAY=20")
    found = by_commands(place)
    place.command.remove("AOT_STAY=20")
    return found


WAYS = {"commands": by_commands, "staying": by_staying, "watching": by_watching}


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--model", choices=TEXTS, action="append")
    parser.add_argument("--way", choices=WAYS, action="append")
    parser.add_argument("--change", choices=CHANGES, action="append")
    parser.add_argument("--target", default="cpu")
    parser.add_argument(
        "--cache", type=Path, help="one that has headers, which are else made first"
    )
    chosen = parser.parse_args()
    changes = chosen.change or list(CHANGES)
    heads = ["nothing kept", "all kept", *(CHANGES[changed] for changed in changes)]
    print(f"| | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}")
    for name in chosen.model or TEXTS:
        with tempfile.TemporaryDirectory() as folder:
            make = partial(TEXTS[name], chosen.layers)
            cache = chosen.cache or Path(folder) / "cache"
            place = Place(Path(folder), cache, make, chosen.target, changes)
            if chosen.cache is None:
                _timed(place, "")
            for way in chosen.way or WAYS:
                seconds = WAYS[way](place)
                row = " | ".join(f"{s:.2f} s ({s / seconds[0]:.0%})" for s in seconds)
                print(f"| {name}, {way} | {row} |", flush=True)


if __name__ == "__main__":
    main()
