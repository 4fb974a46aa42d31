"""What the tools say when something is wrong: what happened, where, and what to do about it.

Each class is one way to be wrong, with a stable `code` for programs and an exit code for shells.
The compiler adds its own (`aot.errors`); what the loader raises is in `aot_runtime.errors`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

REPORT_ADVICE = (
    "This is a bug in aot-package, not in your model. Please report it with the model file and "
    "the output of the same command with --debug."
)


@dataclass(frozen=True)
class Origin:
    """The place in the user's model that something came from.

    Attributes:
        file: Path of the source file as torch recorded it, "" when unknown.
        line: 1-based line, 0 when unknown.
        operator: Overload name of the ATen operator, for example "aten.add.Tensor"; "" if none.
        code: The source line's text, stripped; where no line of the user's is known, the module
            that the operator belongs to; "" when unknown.
    """

    file: str = ""
    line: int = 0
    operator: str = ""
    code: str = ""

    def __str__(self) -> str:
        """`file:line (operator)`, leaving out what is unknown."""
        if not self.place:
            return self.operator
        return f"{self.place} ({self.operator})" if self.operator else self.place

    @property
    def place(self) -> str:
        """`file:line`, or what else is known of the place: the file, or the code."""
        return f"{self.file}:{self.line}" if self.line else self.file or self.code


class AotError(Exception):
    """Base of all errors that the compiler raises on purpose.

    Args:
        message: What happened, one sentence, naming the thing that is wrong.
        where: The model line, file or entry that it is about.
        advice: What the user can do next, in the imperative.
        details: More text that helps (a compiler's stderr, torch's report), shown indented.
    """

    code: ClassVar[str] = "AOT"
    exit_code: ClassVar[int] = 1
    default_advice: ClassVar[str] = ""

    def __init__(
        self,
        message: str,
        *,
        where: Origin | Path | str | None = None,
        advice: str = "",
        details: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.where = "" if where is None else str(where)
        self.advice = advice or self.default_advice
        self.details = details.rstrip()

    def __str__(self) -> str:
        """The whole text as the command line prints it, without the leading `error`."""
        lines = [self.message]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.details:
            lines.extend("  | " + line for line in self.details.splitlines())
        if self.advice:
            lines.append(f"  what to do: {self.advice}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, object]:
        """The error as `--json` prints it: code, message, where, details, advice, exit_code."""
        return {
            "code": self.code,
            "message": self.message,
            "where": self.where,
            "details": self.details,
            "advice": self.advice,
            "exit_code": self.exit_code,
        }


class UsageError(AotError):
    """An option or argument of the command line or of `aot.package` has no meaning."""

    code = "USAGE"
    exit_code = 2
    default_advice = "See `aot-package --help`."


class UserError(AotError):
    """Base of errors about the user's model and its inputs."""

    code = "MODEL"
    exit_code = 3


class InputMismatch(UserError):
    """The example inputs do not fit the model's `forward`, or each other."""

    code = "INPUT_MISMATCH"
    default_advice = "Call the model with the example inputs in PyTorch first; it must work there."


class ToolchainError(AotError):
    """Base of errors about compilers on the build machine."""

    code = "TOOLCHAIN"
    exit_code = 4


class ToolchainMissing(ToolchainError):
    """No usable compiler was found: of C++, or Triton for GPU kernels."""

    code = "TOOLCHAIN_MISSING"
    default_advice = (
        "Install g++ or clang++, set CXX to one, or `pip install ziglang`, which brings a compiler "
        "along."
    )


class PackageError(AotError):
    """Base of errors about package files."""

    code = "PACKAGE"
    exit_code = 5


class PackageWriteError(PackageError):
    """The package could not be written; an older file of that name is untouched."""

    code = "PACKAGE_WRITE"
    default_advice = "Choose another output path with -o, or free the resource that is named."


class PackageReadError(PackageError):
    """The file is missing or cannot be read."""

    code = "PACKAGE_READ"
    default_advice = "Check the path and its permissions."


class CorruptPackage(PackageError):
    """The file is damaged, or is not a package."""

    code = "CORRUPT_PACKAGE"
    default_advice = "Copy or build the package again."


class IncompatiblePackage(PackageError):
    """The file is a package of a format that this version does not read."""

    code = "INCOMPATIBLE_PACKAGE"
    default_advice = "Update aot-package, or build the package again with this version."


class SignatureError(PackageError):
    """The package is not signed by whom it must be."""

    code = "SIGNATURE"
    default_advice = (
        "Take the package from whom you trust, or have it signed: aot-package sign PACKAGE --key …"
    )


class VerificationFailed(AotError):
    """The package computes something else than its golden values.

    Args:
        message: How many outputs differ.
        where: The package.
        results: Every comparison as a line of text.
        records: The same for `--json`.
        advice: What to do, where it is not what the class says.
    """

    code = "VERIFICATION_FAILED"
    exit_code = 1
    default_advice = (
        "Run with the level that is right (--isa, or `isa=` when loading), and report the kernel "
        "that is named. If no level is right, package the model again with --check."
    )

    def __init__(
        self,
        message: str,
        *,
        where: Origin | Path | str | None = None,
        results: Sequence[str] = (),
        records: Sequence[dict[str, object]] = (),
        advice: str = "",
    ) -> None:
        super().__init__(message, where=where, details="\n".join(results), advice=advice)
        self.records = tuple(records)

    def to_json(self) -> dict[str, object]:
        """As the base, with `results`: every comparison."""
        return {**super().to_json(), "results": list(self.records)}


class InternalError(AotError):
    """An invariant of the compiler does not hold."""

    code = "INTERNAL"
    exit_code = 70
    default_advice = REPORT_ADVICE
