"""How much a session may use."""

from __future__ import annotations

from typing import NamedTuple

from .errors import InvalidArgument


class Limits(NamedTuple):
    """What a session may use; None stands for the default.

    Attributes:
        plan_bytes: Of what is kept resolved for sets of sizes (256 MiB); the least used goes first.
        arena_bytes: Of temporaries while one call runs (unlimited).
        state_bytes: Of all states (unlimited).
        output_bytes: Of all outputs of one call (unlimited).
        loop_turns: Of all loops of one call together (2**32).
        run_seconds: Of one call (unlimited).
    """

    plan_bytes: int | None = None
    arena_bytes: int | None = None
    state_bytes: int | None = None
    output_bytes: int | None = None
    loop_turns: int | None = None
    run_seconds: float | None = None

    def as_native(self) -> dict[str, int]:
        """The limits that are set, as the native module takes them.

        Raises:
            InvalidArgument: One is below 1, or `run_seconds` is not above 0.
        """
        given = {k: v for k, v in self._asdict().items() if v is not None and k != "run_seconds"}
        if self.run_seconds is not None:
            given["run_ns"] = nanoseconds(self.run_seconds, "run_seconds")
        for name, value in given.items():
            if value < 1:
                raise InvalidArgument(f"the limit {name} is {value}, must be at least 1")
        return given


def nanoseconds(seconds: float, name: str) -> int:
    """What the runtime takes for so many seconds.

    Raises:
        InvalidArgument: It is not above 0; `name` says which.
    """
    if not seconds > 0:
        raise InvalidArgument(f"{name} is {seconds}, must be above 0 seconds")
    return max(1, min(round(seconds * 1e9), 2**63 - 1))
