"""Keys and signatures: the commands, the runtime's policy, and the ecosystem's own verifier."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path

import aot_runtime
import model_signing
import numpy as np
import pytest
from aot_runtime import Policy
from aot_runtime.format.reader import PackageFile
from aot_runtime.tools.commands import run_command as runtime_command
from click.testing import CliRunner

from aot.cli import cli, run_command
from aot.errors import CorruptPackage, SignatureError, UsageError
from aot.trust import signing
from aot.trust.model_signing import sign_beside
from tests.trust.packages import X, runnable, write, write_old


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with keys: alice and bob sign packages, carol for model_signing."""
    folder = tmp_path_factory.mktemp("keys")
    for name, kind in (("alice", "ed25519"), ("bob", "ed25519"), ("carol", "ecdsa-p256")):
        assert run_command(["keygen", str(folder / name), "--kind", kind]) == 0
    return folder


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return write(tmp_path / "p.pkg")


def sign(package: Path, *keys: Path) -> None:
    assert run_command(["sign", str(package), *(f"--key={key}" for key in keys)]) == 0


def output(*arguments: str) -> str:
    result = CliRunner().invoke(cli, list(arguments))
    assert result.exit_code == 0, result.output
    return result.output


def test_keys_are_kept_and_secret(keys: Path, tmp_path: Path) -> None:
    assert stat.S_IMODE((keys / "alice.key").stat().st_mode) == 0o600
    assert run_command(["keygen", str(keys / "alice")]) == 5
    told = json.loads(output("keygen", "--json", str(tmp_path / "new")))
    key = signing.read_public_key(tmp_path / "new.pub")
    assert told["key"] == signing.key_id(key)
    assert len(told["key"]) == 64


def test_several_signers(package: Path, keys: Path) -> None:
    with PackageFile(package) as file:
        before = package.read_bytes()[file.header.start :]
    model = aot_runtime.load(package)(X)["y"]
    sign(package, keys / "alice.key")
    with pytest.raises(aot_runtime.Refused, match="has 0 of them"):
        aot_runtime.load(package, policy=Policy(keys=[keys / "bob.pub"]))
    sign(package, keys / "bob.key")
    both = [keys / "alice.pub", (keys / "bob.pub").read_text()]
    loaded = aot_runtime.load(package, verify="full", policy=Policy(keys=both, signatures=2))
    np.testing.assert_array_equal(loaded(X)["y"], model)
    sign(package, keys / "bob.key")  # again: in the place of the first
    with PackageFile(package) as file:
        assert len(signing.decode_signatures(file.header.signatures)) == 2
        assert package.read_bytes()[file.header.start :] == before
        assert list(file.damaged()) == []


def test_signing_replaces_the_file_and_keeps_its_mode(package: Path, keys: Path) -> None:
    package.chmod(0o640)
    inode = package.stat().st_ino
    with package.open("rb") as old:
        sign(package, keys / "alice.key")
        assert package.stat().st_ino != inode
        assert b"signatures" not in old.read(2000)
    assert stat.S_IMODE(package.stat().st_mode) == 0o640
    assert [path.name for path in package.parent.iterdir()] == ["p.pkg"]


def test_verify_says_who_signed(package: Path, keys: Path) -> None:
    sign(package, keys / "alice.key")
    alice = signing.key_id(signing.read_public_key(keys / "alice.pub"))
    pub = {name: f"--key={keys / name}.pub" for name in ("alice", "bob", "carol")}
    assert f"signed by {alice}" in output("verify", str(package), pub["alice"])
    assert json.loads(output("verify", "--json", str(package), pub["alice"]))["signers"] == [alice]
    assert run_command(["verify", str(package), pub["alice"], pub["bob"]]) == 5
    assert output("verify", str(package), pub["alice"], pub["bob"], "--signatures=1")
    assert run_command(["verify", str(package), pub["carol"]]) == 2
    assert f"says to be signed by {alice}" in output("inspect", str(package))
    with PackageFile(package) as file, pytest.raises(SignatureError, match="1 of 2 keys"):
        bob = signing.read_public_key(keys / "bob.pub")
        signing.require_signatures(file, [signing.read_public_key(keys / "alice.pub"), bob])


def test_the_runtime_alone_says_whether_they_signed(package: Path, keys: Path, capsys) -> None:
    sign(package, keys / "alice.key")
    alice, bob = (["--key", str(keys / f"{name}.pub")] for name in ("alice", "bob"))
    capsys.readouterr()
    runtime_command(["verify", str(package), *alice, *bob, "--signatures", "1"], "aot-runtime")
    assert f"signed by {keys / 'alice.pub'}\n" in capsys.readouterr().out
    with pytest.raises(SignatureError, match="1 of 2 keys have signed this package, 2 must"):
        runtime_command(["verify", str(package), *alice, *bob], "aot-runtime")


def test_integrity_comes_first(package: Path, keys: Path) -> None:
    sign(package, keys / "alice.key")
    data = bytearray(package.read_bytes())
    data[-1] ^= 1
    package.write_bytes(data)
    with pytest.raises(CorruptPackage, match="weights/large"):
        CliRunner().invoke(
            cli, ["verify", str(package), f"--key={keys / 'bob.pub'}"], catch_exceptions=False
        )


def test_a_wrong_signature(package: Path, keys: Path) -> None:
    sign(package, keys / "alice.key")
    other = write(package.with_name("other.pkg"), _changed())
    sign(other, keys / "alice.key")
    with PackageFile(package) as file, PackageFile(other) as donor:
        header, stolen = file.header, donor.header.signatures
        forged = signing.encode_header(
            header.entries, header.plan_sha256, None, header.manifest_sha256, stolen
        )
        data = package.read_bytes()[header.start :]
    package.write_bytes(forged + data)
    with pytest.raises(aot_runtime.Refused, match="is wrong"):
        aot_runtime.load(package, policy=Policy(keys=[keys / "alice.pub"]))
    assert run_command(["verify", str(package), f"--key={keys / 'alice.pub'}"]) == 5
    aot_runtime.load(package)  # nobody asked


def _changed():
    package = runnable()
    package.add("weights/more", np.ones(3, np.float32))
    return package


def test_what_cannot_be_signed(package: Path, keys: Path, tmp_path: Path) -> None:
    old = write_old(tmp_path / "old.pkg")
    alice = signing.read_private_key(keys / "alice.key")
    with pytest.raises(SignatureError, match=r"format 1\.0 has no manifest"):
        signing.sign_package(old, [alice])
    data = bytearray(package.read_bytes())
    with PackageFile(package) as file:
        place = file.header.start + file.entries["kernels/cpu/x86-64-v2"].begin
    data[place + 50] ^= 1
    package.write_bytes(data)
    with pytest.raises(CorruptPackage, match="kernels/cpu/x86-64-v2"):
        signing.sign_package(package, [alice])
    for arguments in (
        [],
        [f"--key={keys / 'alice.pub'}"],
        [f"--key={keys / 'carol.key'}"],
        [f"--model-signing={keys / 'alice.key'}"],
    ):
        assert run_command(["sign", str(package), *arguments]) == 2
    assert run_command(["sign", str(package), f"--key={keys / 'none.key'}"]) == 5


def test_wrong_places_and_files_of_keys(package: Path, keys: Path, tmp_path: Path, capsys) -> None:
    for arguments, code, advice in (
        (["keygen", str(tmp_path / "none" / "k")], 5, "have a folder in front, which must be"),
        (["keygen", str(keys / "alice")], 5, "An existing key is never replaced"),
        (["sign", str(package)], 2, "`aot-package keygen NAME` makes a pair of keys"),
        (["sign", str(package), "--key", __file__], 2, "Give a .key file of `aot-package keygen`"),
        (["verify", str(package), "--key", __file__], 2, "Give a .pub file of `aot-package keyg"),
    ):
        assert run_command(arguments) == code, arguments
        assert advice in capsys.readouterr().err


def test_without_the_package_cryptography(package: Path) -> None:
    program = (
        "import sys; sys.modules['cryptography.exceptions'] = None\n"
        "from aot.cli import run_command\n"
        "sys.exit(run_command(['sign', sys.argv[1], '--key=k']))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, package], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2
    assert "signing needs the package cryptography" in ran.stderr
    assert "pip install 'aot-package[sign]'" in ran.stderr


def test_model_signing_verifies(package: Path, keys: Path) -> None:
    arguments = ["sign", str(package), f"--key={keys / 'alice.key'}"]
    assert str(package) + ".sig" in output(*arguments, f"--model-signing={keys / 'carol.key'}")
    beside = package.with_name("p.pkg.sig")
    verifier = model_signing.verifying.Config().use_elliptic_key_verifier(
        public_key=keys / "carol.pub"
    )
    verifier.verify(package, beside)
    data = bytearray(package.read_bytes())
    data[-1] ^= 1
    package.write_bytes(data)
    with pytest.raises(ValueError, match="mismatch"):
        verifier.verify(package, beside)


def test_curves_of_model_signing(package: Path, tmp_path: Path) -> None:
    for curve in (signing.ec.SECP384R1(), signing.ec.SECP521R1()):
        key = signing.ec.generate_private_key(curve)
        public = tmp_path / "k.pub"
        public.write_bytes(
            key.public_key().public_bytes(
                signing.Encoding.PEM, signing.PublicFormat.SubjectPublicKeyInfo
            )
        )
        verifier = model_signing.verifying.Config().use_elliptic_key_verifier(public_key=public)
        verifier.verify(package, sign_beside(package, key))
    with pytest.raises(UsageError, match="secp256r1"):
        sign_beside(package, signing.ec.generate_private_key(signing.ec.SECP256K1()))
