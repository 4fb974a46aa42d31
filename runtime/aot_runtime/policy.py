"""What a program allows of the packages that it loads."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import NamedTuple

from .errors import InvalidArgument
from .limits import Limits

NativePolicy = tuple[list[str], int, bool, bool, list[str] | None, bool, dict[str, int]]
VERIFY = {False: 0, True: 1, "full": 1, "lazy": 2}
"""What `load` calls them, and the runtime."""


class Policy(NamedTuple):
    """What is allowed of a package; whatever is not raises `Refused` when it is loaded.

    Nothing of a refused package was mapped executable or given to the dynamic linker or a driver.

    Attributes:
        keys: Ed25519 public keys that are trusted: 64 hexadecimal digits, PEM text, or the path of
            a PEM file (`aot-package keygen` writes one).
        signatures: How many of them must have signed the package; 0: one, where there are keys.
        trust_weights: With keys, weights are checked before they are first used; True: they are
            not, as without keys.
        operator_libraries: Whether the package may carry libraries of custom operators.
        code: SHA-256 in hexadecimal of all code that is allowed; None: any.
        require_proved: Refuse kernels that do not declare what they touch.
        limits: The most that each session of the package may use, whatever it asks for.
    """

    keys: Sequence[str | os.PathLike[str]] = ()
    signatures: int = 0
    trust_weights: bool = False
    operator_libraries: bool = True
    code: Collection[str] | None = None
    require_proved: bool = False
    limits: Limits = Limits()

    def native(self) -> NativePolicy:
        """The row that the native module takes.

        Raises:
            OSError: A key's file cannot be read.
            InvalidArgument: `keys` is a text, or a limit is not positive.
        """
        if isinstance(self.keys, str):
            raise InvalidArgument("a policy's keys are a list of keys, not a text")
        return (
            [_key(key) for key in self.keys],
            self.signatures,
            self.trust_weights,
            self.operator_libraries,
            None if self.code is None else sorted(self.code),
            self.require_proved,
            self.limits.as_native(),
        )


def _key(key: str | os.PathLike[str]) -> str:
    if isinstance(key, str) and (len(key) == 64 or "-----BEGIN" in key):
        return key
    with open(key, encoding="ascii") as file:  # noqa: PTH123 - pathlib loads slowly
        return file.read()


def native_verify(verify: bool | str) -> int:
    """The number that the native module takes.

    Raises:
        InvalidArgument: it is none of `VERIFY`.
    """
    if verify not in VERIFY:
        raise InvalidArgument(f"verify is {verify!r}, must be True, False, 'full' or 'lazy'")
    return VERIFY[verify]
