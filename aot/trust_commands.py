"""The commands about trust: `keygen`, `sign`, and what `verify` and `inspect` do with signatures.

The package `cryptography` is needed here alone, and imported when one of them runs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import click
from aot_runtime.format.reader import PackageFile

from aot.errors import PackageWriteError, UsageError

_INSTALL = "pip install 'aot-package[sign]'"
KINDS = ("ed25519", "ecdsa-p256")


def _signing() -> tuple[ModuleType, ModuleType]:
    """The modules that sign, which bring the cryptography along.

    Raises:
        UsageError: A package that they need is not installed.
    """
    try:
        from aot.trust import model_signing
    except ModuleNotFoundError as error:
        raise UsageError(
            f"signing needs the package {error.name}, which is not installed", advice=_INSTALL
        ) from error
    return model_signing.signing, model_signing


@click.command(short_help="Make a pair of keys to sign packages with.")
@click.argument("name", type=click.Path(path_type=Path))
@click.option(
    "--kind",
    type=click.Choice(KINDS),
    default=KINDS[0],
    help="ed25519 for packages; ecdsa-p256 for `sign --model-signing`.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def keygen(*, name: Path, kind: str, as_json: bool, debug: bool) -> None:
    """Make a pair of keys: NAME.key, which you alone may read, and NAME.pub for everyone."""
    signing, _ = _signing()
    private, public = signing.make_keys(kind)
    files = (name.with_name(f"{name.name}.key"), name.with_name(f"{name.name}.pub"))
    for path, text, mode in zip(files, (private, public), (0o600, 0o644), strict=True):
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
            with os.fdopen(descriptor, "wb") as file:
                file.write(text)
        except OSError as error:
            raise PackageWriteError(
                f"cannot write the key: {error.strerror}",
                where=path,
                advice="An existing key is never replaced; choose another name."
                if isinstance(error, FileExistsError)
                else "NAME may have a folder in front, which must be there and yours to write to.",
            ) from error
    key = signing.key_id(signing.read_public_key(files[1])) if kind == KINDS[0] else ""
    if as_json:
        click.echo(json.dumps({"private": str(files[0]), "public": str(files[1]), "key": key}))
    else:
        click.echo(f"{files[0]} (keep it secret), {files[1]}" + (f": {key}" if key else ""))


@click.command(short_help="Sign a package.")
@click.argument("package", type=click.Path(path_type=Path))
@click.option(
    "--key",
    "keys",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A signer's Ed25519 private key (keygen's .key file); may be repeated.",
)
@click.option(
    "--model-signing",
    "beside",
    type=click.Path(path_type=Path),
    help="An ECDSA private key (keygen --kind ecdsa-p256): also write PACKAGE.sig, which OpenSSF's "
    "`model_signing verify key` reads.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def sign(
    *, package: Path, keys: Sequence[Path], beside: Path | None, as_json: bool, debug: bool
) -> None:
    """Sign PACKAGE, which stays one file: signatures that it has are kept, weights not read."""
    if not keys and beside is None:
        raise UsageError(
            "no key to sign with: give --key, --model-signing or both",
            advice="`aot-package keygen NAME` makes a pair of keys; NAME.key signs.",
        )
    signing, model_signing = _signing()
    private = [signing.read_private_key(path) for path in keys]
    for path, key in zip(keys, private, strict=True):
        if not isinstance(key, signing.Ed25519PrivateKey):
            raise UsageError(
                "packages are signed with Ed25519 keys",
                where=path,
                advice="Give an ECDSA key with --model-signing.",
            )
    apart = None if beside is None else signing.read_private_key(beside)
    if apart is not None and isinstance(apart, signing.Ed25519PrivateKey):
        raise UsageError(
            "model_signing takes ECDSA keys alone",
            where=beside,
            advice="aot-package keygen NAME --kind ecdsa-p256",
        )
    signatures = signing.sign_package(package, private) if private else ()
    written = None if apart is None else model_signing.sign_beside(package, apart)
    signers = [signature.key for signature in signatures]
    if as_json:
        click.echo(json.dumps({"signers": signers, "file": str(written) if written else None}))
        return
    for signer in signers:
        click.echo(f"signed by {signer}")
    if written is not None:
        click.echo(str(written))


def require_signers(package: PackageFile, keys: Sequence[Path], wanted: int) -> tuple[str, ...]:
    """Those of the keys in these files that have signed the package, as many as are wanted.

    Raises:
        SignatureError: Fewer have.
        UsageError: A file holds no Ed25519 public key, or `cryptography` is not installed.
    """
    signing, _ = _signing()
    found: tuple[str, ...] = signing.require_signatures(
        package, [signing.read_public_key(path) for path in keys], wanted
    )
    return found
