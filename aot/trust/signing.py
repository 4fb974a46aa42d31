"""Ed25519 signatures over a package's manifest, which lie in the package's own header.

The manifest has the digest of every entry, and the header is the one that follows from it, so a
signature of it is one of all bytes. What is signed is DSSE's encoding of the manifest with a type
of its own, so that a signature says nothing about anything else. The cryptography is the package
`cryptography`'s; this module alone imports it, besides `aot.trust.model_signing`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from aot_runtime.format.container import encode_header
from aot_runtime.format.reader import PackageFile
from aot_runtime.format.signatures import PackageSignature, decode_signatures, encode_signatures
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from aot.errors import CorruptPackage, PackageReadError, SignatureError, UsageError
from aot.link.package import replace_header

MANIFEST_TYPE = "application/vnd.aot-package.manifest+json"
KINDS = ("ed25519", "ecdsa-p256")
"""Of keys: the first signs packages, the second what `model_signing` reads: it takes no Ed25519."""

PrivateKey = Ed25519PrivateKey | ec.EllipticCurvePrivateKey


def pre_authentication(kind: str, body: bytes) -> bytes:
    """DSSE's encoding of a type and a text: what is really signed."""
    return f"DSSEv1 {len(kind.encode())} {kind} {len(body)} ".encode() + body


def make_keys(kind: str) -> tuple[bytes, bytes]:
    """A new private and its public key, as PEM; `kind` is one of `KINDS`."""
    private: PrivateKey = (
        Ed25519PrivateKey.generate()
        if kind == KINDS[0]
        else ec.generate_private_key(ec.SECP256R1())
    )
    public = private.public_key()
    return (
        private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
    )


def key_id(key: Ed25519PublicKey) -> str:
    """The raw public key in hex, as signatures and policies have it."""
    return key.public_bytes(Encoding.Raw, PublicFormat.Raw).hex()


def read_private_key(path: Path) -> PrivateKey:
    """The private key of a PEM file.

    Raises:
        PackageReadError: The file cannot be read.
        UsageError: It is no private key without a password, or of a kind that signs nothing here.
    """
    try:
        key = load_pem_private_key(_read(path), None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise UsageError(
            "the file holds no private key without a password",
            where=path,
            details=str(error),
            advice="Give a .key file of `aot-package keygen`.",
        ) from error
    if isinstance(key, Ed25519PrivateKey | ec.EllipticCurvePrivateKey):
        return key
    raise UsageError(
        f"a key of this kind signs nothing here; kinds: {', '.join(KINDS)}", where=path
    )


def read_public_key(path: Path) -> Ed25519PublicKey:
    """The Ed25519 public key of a PEM file.

    Raises:
        PackageReadError: The file cannot be read.
        UsageError: It is no such key.
    """
    try:
        key = load_pem_public_key(_read(path))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise UsageError(
            "the file holds no public key",
            where=path,
            details=str(error),
            advice="Give a .pub file of `aot-package keygen`.",
        ) from error
    if isinstance(key, Ed25519PublicKey):
        return key
    raise UsageError("packages are signed with Ed25519 keys; this one is another", where=path)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise PackageReadError(f"cannot read the key: {error.strerror}", where=path) from error


def sign_package(path: Path, keys: Sequence[Ed25519PrivateKey]) -> tuple[PackageSignature, ...]:
    """Adds signatures to a package, which is replaced by the signed one at once and whole.

    Plan, code and whatever else is small are compared with the manifest before; weights are copied
    as they are, and not read for it: who checks the signed package checks them.

    Args:
        path: The package. A signature that a key has made before is replaced.
        keys: Of the signers.

    Returns:
        All signatures that the package now has, sorted by key.

    Raises:
        CorruptPackage: An entry is not as it was written.
        SignatureError: The package has format 1.0, and so no manifest.
    """
    with PackageFile(path) as package:
        if package.manifest is None:
            raise SignatureError(
                "a package of format 1.0 has no manifest to sign",
                where=path,
                advice="Build the package again with this version.",
            )
        wrong = [info.name for info in package.damaged(weights=False)]
        if wrong:
            raise CorruptPackage(f"not as they were written: {', '.join(wrong)}", where=path)
        text = pre_authentication(MANIFEST_TYPE, bytes(package.data("manifest")))
        kept = {
            signature.key: signature for signature in decode_signatures(package.header.signatures)
        }
        for key in keys:
            made = PackageSignature(key_id(key.public_key()), key.sign(text).hex())
            kept[made.key] = made
        signatures = tuple(kept[key] for key in sorted(kept))
        header = package.header
        new = encode_header(
            header.entries,
            header.plan_sha256,
            header.weights,
            header.manifest_sha256,
            encode_signatures(signatures),
            header.version,
        )
        start = header.start
    replace_header(path, start, new)
    return signatures


def is_right(signature: PackageSignature, manifest: bytes) -> bool:
    """Whether the signature is its key's, over this manifest."""
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(signature.key))
        key.verify(bytes.fromhex(signature.signature), pre_authentication(MANIFEST_TYPE, manifest))
    except (ValueError, InvalidSignature):
        return False
    return True


def require_signatures(
    package: PackageFile, keys: Sequence[Ed25519PublicKey], wanted: int = 0
) -> tuple[str, ...]:
    """Those of the keys that have signed the package.

    Args:
        package: An open package.
        keys: Whom to trust.
        wanted: How many of them must have signed; 0: all.

    Raises:
        SignatureError: Fewer have.
    """
    manifest = bytes(package.data("manifest")) if package.manifest is not None else b""
    right = {
        s.key
        for s in decode_signatures(package.header.signatures)
        if manifest and is_right(s, manifest)
    }
    asked = {key_id(key) for key in keys}
    found = tuple(sorted(asked & right))
    if len(found) < (wanted or len(asked)):
        missing = ", ".join(sorted(asked - right))
        raise SignatureError(
            f"{len(found)} of {len(asked)} keys have signed this package, "
            f"{wanted or len(asked)} must",
            where=package.path,
            details=f"not, or wrongly, signed by {missing}",
        )
    return found
