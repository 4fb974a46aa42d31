"""The text of a package's signatures, as it is in the header's metadata.

To make and to verify them is for `aot.trust.signing`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from aot_runtime.format.errors import CorruptPackage

ALGORITHM = "ed25519"


@dataclass(frozen=True)
class PackageSignature:
    """One signer's: the public key and the signature, both in hex."""

    key: str
    signature: str


def encode_signatures(signatures: Sequence[PackageSignature]) -> str:
    """The text for the header; "" for none."""
    rows = [{"algorithm": ALGORITHM, "key": s.key, "signature": s.signature} for s in signatures]
    return json.dumps(rows, separators=(",", ":")) if rows else ""


def decode_signatures(text: str) -> tuple[PackageSignature, ...]:
    """The signatures of the text, those of other algorithms left out.

    Raises:
        CorruptPackage: The text is malformed.
    """
    if not text:
        return ()
    try:
        known = [row for row in json.loads(text) if row["algorithm"] == ALGORITHM]
        return tuple(PackageSignature(str(row["key"]), str(row["signature"])) for row in known)
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptPackage(f"the signatures are malformed: {error}") from error
