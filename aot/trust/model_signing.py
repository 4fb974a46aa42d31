"""A signature beside the package in the format of OpenSSF's model signing.

`PACKAGE.sig` is a Sigstore bundle with a DSSE envelope around an in-toto statement that has the
SHA-256 of the whole file, as the tool `model_signing` writes and verifies with a key of its own
(`model_signing verify key`). It knows ECDSA keys on NIST's curves, and no Ed25519.
"""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from aot.errors import PackageReadError, PackageWriteError, UsageError
from aot.trust import signing as signing  # noqa: PLC0414  the commands find it here

BUNDLE_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://model_signing/signature/v1.0"

_CURVES: dict[str, hashes.HashAlgorithm] = {
    "secp256r1": hashes.SHA256(),
    "secp384r1": hashes.SHA384(),
    "secp521r1": hashes.SHA512(),
}
_IGNORED = (".git", ".gitattributes", ".github", ".gitignore")


def sign_beside(path: Path, key: ec.EllipticCurvePrivateKey) -> Path:
    """Signs a file as it is now; the signature's file.

    Raises:
        UsageError: The key's curve is none that `model_signing` knows.
        PackageReadError: The file cannot be read.
        PackageWriteError: The signature cannot be written.
    """
    if key.curve.name not in _CURVES:
        raise UsageError(f"model_signing knows the curves {', '.join(_CURVES)}")
    payload = json.dumps(_statement(path), indent=2).encode()
    signed = key.sign(
        signing.pre_authentication(PAYLOAD_TYPE, payload), ec.ECDSA(_CURVES[key.curve.name])
    )
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    bundle = {
        "mediaType": BUNDLE_TYPE,
        "verificationMaterial": {
            "publicKey": {"hint": hashlib.sha256(public).hexdigest()},
            "tlogEntries": [],
        },
        "dsseEnvelope": {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [{"sig": base64.b64encode(signed).decode(), "keyid": ""}],
        },
    }
    beside = path.with_name(f"{path.name}.sig")
    try:
        beside.write_text(json.dumps(bundle), encoding="utf-8")
    except OSError as error:
        raise PackageWriteError(f"cannot write it: {error.strerror}", where=beside) from error
    return beside


def _statement(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise PackageReadError(f"cannot read it: {error.strerror}", where=path) from error
    return {
        "_type": STATEMENT_TYPE,
        # The root is the hash of all files' hashes, of which there is one.
        "subject": [{"name": path.name, "digest": {"sha256": hashlib.sha256(digest).hexdigest()}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "serialization": {
                "method": "files",
                "hash_type": "sha256",
                "allow_symlinks": False,
                "ignore_paths": list(_IGNORED),
            },
            "resources": [{"name": ".", "algorithm": "sha256", "digest": digest.hex()}],
        },
    }
