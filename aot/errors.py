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


class ModelFileError(UserError):
    """The model file is missing, raises when run, or does not define what it must."""

    code = "MODEL_FILE"
    default_advice = (
        "A model file defines `model` (an nn.Module, or a function that returns one) and "
        "`example_inputs` (a tuple, or a function that returns one)."
    )


class InputMismatch(UserError):
    """The example inputs do not fit the model's `forward`, or each other."""

    code = "INPUT_MISMATCH"
    default_advice = "Call the model with the example inputs in PyTorch first; it must work there."


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
    ) -> None:
        super().__init__(message, where=where, details="\n".join(results))
        self.records = tuple(records)

    def to_json(self) -> dict[str, object]:
        """As the base, with `results`: every comparison."""
        return {**super().to_json(), "results": list(self.records)}


class InternalError(AotError):
    """An invariant of the compiler does not hold."""

    code = "INTERNAL"
    exit_code = 70
    default_advice = REPORT_ADVICE


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
