"""`aot-package MODEL -o PACKAGE` with the processor seconds of each stage on stdout, as JSON."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from aot import garbage
from aot.backends.registry import begin
from aot.kept_code import methods_kept
from aot.options import from_environment
from aot.report.observers import Silent
from aot.torch_library import no_source_read


class Clock(Silent):
    """Processor seconds of this process in each stage; compilers are processes of their own."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {"start and imports": 0.0}
        self._begin = 0.0

    def stage_begin(self, name: str) -> None:
        """Note the time."""
        self._begin = time.process_time()
        if name == "capture":
            self.seconds["start and imports"] = self._begin

    def stage_end(self, name: str, value: object, seconds: float) -> None:
        """Note what has passed."""
        self.seconds[name] = time.process_time() - self._begin


def main() -> None:
    """Packages as the command does."""
    garbage.search_seldom()
    chosen = from_environment(output=Path(sys.argv[2]))
    begin(chosen)
    with garbage.kept_for_good(), methods_kept("torch"), no_source_read():
        from aot.api import driver
    clock = Clock()
    driver.build(Path(sys.argv[1]), chosen, clock)
    print(json.dumps(clock.seconds))


if __name__ == "__main__":
    main()
