"""Every error the compiler raises on purpose: what happened, where, and what to do about it.

Each class is one way to be wrong, with a stable `code` for programs, an exit code for shells and an
addressee: `UserError` is about the user's model, `ToolchainError` about the machine, `PackageError`
about files, `InternalError` is our own bug. `docs/errors.md` is generated from this module's
docstrings (`python -m aot.errors`), and a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from aot_runtime.format.errors import (
    REPORT_ADVICE,
    AotError,
    CorruptPackage,
    IncompatiblePackage,
    InputMismatch,
    InternalError,
    Origin,
    PackageError,
    PackageReadError,
    PackageWriteError,
    SignatureError,
    ToolchainError,
    ToolchainMissing,
    UsageError,
    UserError,
    VerificationFailed,
)

__all__ = [
    "REPORT_ADVICE",
    "WRONGLY_TRACED",
    "AotError",
    "CompilerFailed",
    "CorruptPackage",
    "DynamicShapeError",
    "ExportError",
    "IncompatiblePackage",
    "InputMismatch",
    "InternalError",
    "KernelRefused",
    "MissingOperator",
    "ModelFileError",
    "Origin",
    "PackageError",
    "PackageReadError",
    "PackageWriteError",
    "SignatureError",
    "ToolchainError",
    "ToolchainMissing",
    "UnsupportedOperators",
    "UsageError",
    "UserError",
    "VerificationFailed",
    "all_errors",
    "markdown_table",
    "wrongly_traced",
]


class ModelFileError(UserError):
    """The model file is missing, raises when run, or does not define what it must."""

    code = "MODEL_FILE"
    default_advice = (
        "A model file defines `model` (an nn.Module, or a function that returns one) and "
        "`example_inputs` (a tuple, or a function that returns one)."
    )


class ExportError(UserError):
    """`torch.export` could not trace the model."""

    code = "EXPORT"
    default_advice = (
        "Make the named line traceable: no control flow that depends on tensor values, no calls "
        "into code that torch cannot see."
    )


class DynamicShapeError(UserError):
    """The dynamic shapes that were asked for contradict the model."""

    code = "DYNAMIC_SHAPE"
    default_advice = "Widen or remove the dimension's range, or make the dimension static."


@dataclass(frozen=True)
class MissingOperator:
    """One operator that the compiler cannot lower.

    Attributes:
        operator: Overload name, for example "aten._fft_r2c.default".
        origins: Every place of the model that uses it, in program order.
        reason: Why it is not supported, "" when there is simply no lowering.
        advice: What to do, where that is another thing than for most operators.
    """

    operator: str
    origins: tuple[Origin, ...]
    reason: str = ""
    advice: str = ""


WRONGLY_TRACED = "this version of torch traces"


def wrongly_traced(computed: object, said: object) -> str:
    """Why an operator is refused whose results torch traces as other than they are.

    Some versions of torch do, and all that follows is traced with that type too.
    """
    return f"{WRONGLY_TRACED} a result of {computed} as one of {said}; a newer version may be right"


class UnsupportedOperators(UserError):
    """The model uses operators that have no lowering; the error lists all of them.

    Args:
        missing: All of them, in program order of their first use.
    """

    code = "UNSUPPORTED_OPERATOR"
    default_advice = (
        "Write the named lines with supported operators (`aot-package ops` lists them), or add a "
        "lowering: docs/adding-an-op.md."
    )

    def __init__(self, missing: Sequence[MissingOperator]) -> None:
        self.missing = tuple(missing)
        lines: list[str] = []
        for item in self.missing:
            lines.append(item.operator + (f": {item.reason}" if item.reason else ""))
            for origin in item.origins:
                place = f"{origin.file}:{origin.line}" if origin.line else "unknown line"
                lines.append(f"  {place}" + (f"  {origin.code}" if origin.code else ""))
        count = len(self.missing)
        noun = "operator has" if count == 1 else "operators have"
        first = next((o for item in self.missing for o in item.origins if o.line), None)
        super().__init__(
            f"{count} {noun} no lowering: " + ", ".join(item.operator for item in self.missing),
            where=first,
            advice=next((item.advice for item in self.missing if item.advice), ""),
            details="\n".join(lines),
        )

    def to_json(self) -> dict[str, object]:
        """As the base, with `missing`: operator, reason and places of each."""
        missing = [
            {
                "operator": item.operator,
                "reason": item.reason,
                "places": [{"file": o.file, "line": o.line, "code": o.code} for o in item.origins],
            }
            for item in self.missing
        ]
        return {**super().to_json(), "missing": missing}


class CompilerFailed(ToolchainError):
    """A compiler refused generated code.

    Args:
        command: The command line, one string an argument.
        stderr: What it printed.
        source: Where the source was kept for a look at it.
        returncode: Its exit status; negative for a signal.
    """

    code = "COMPILER_FAILED"
    default_advice = REPORT_ADVICE

    def __init__(
        self, command: Sequence[str], stderr: str, source: Path, returncode: int = 1
    ) -> None:
        self.command = tuple(command)
        self.stderr = stderr
        self.source = source
        self.returncode = returncode
        how = f"was killed by signal {-returncode}" if returncode < 0 else f"exited {returncode}"
        super().__init__(
            f"the C++ compiler {how}: {' '.join(command)}", where=source, details=stderr
        )


class KernelRefused(ToolchainError):
    """Triton refused a generated kernel, or its machine code does not fit the architecture.

    Args:
        kernel: The kernel's name.
        arch: The architecture, such as "sm_90".
        reason: What the compiler printed, or what does not fit.
        place: The nests and model lines that the kernel computes, "" when unknown.
    """

    code = "KERNEL_REFUSED"
    default_advice = REPORT_ADVICE

    def __init__(self, kernel: str, arch: str, reason: str, place: str = "") -> None:
        self.kernel = kernel
        self.arch = arch
        self.reason = reason
        where = f"{kernel}: {place}" if place else kernel
        super().__init__(f"{kernel} does not compile for {arch}", where=where, details=reason)


def all_errors() -> Iterator[type[AotError]]:
    """Every error class, in the order of this file."""
    for value in globals().values():
        if isinstance(value, type) and issubclass(value, AotError):
            yield value


def markdown_table() -> str:
    """The table of `docs/errors.md`: code, exit code, when, what to do."""
    rows = ["| code | exit | when | what to do |", "|---|---|---|---|"]
    for cls in all_errors():
        first = (cls.__doc__ or "").strip().splitlines()[0]
        rows.append(f"| `{cls.code}` | {cls.exit_code} | {first} | {cls.default_advice} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(markdown_table(), end="")
