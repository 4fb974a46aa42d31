"""Policies at load: what is not allowed is refused before any of it could run."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import aot_runtime
import numpy as np
import pytest
from aot_runtime import Policy, Refused
from aot_runtime.format.reader import PackageFile
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from aot.link.package import replace_header
from aot.trust import signing
from tests.runtime.make_package import Package, compile_kernels
from tests.trust.packages import X, runnable, write, write_old

ALICE = Ed25519PrivateKey.from_private_bytes(bytes([1] * 32))
KEY = signing.key_id(ALICE.public_key())
OTHER = signing.key_id(Ed25519PrivateKey.from_private_bytes(bytes([2] * 32)).public_key())
CODE = hashlib.sha256(compile_kernels()).hexdigest()

USE = """
import sys
import numpy as np
import aot_runtime
print("READY", flush=True)
keys = [k for k in sys.argv[2].split(",") if k]
policy = aot_runtime.Policy(keys=keys, operator_libraries=False) if keys else None
try:
    model = aot_runtime.load(sys.argv[1], policy=policy)
    print(float(model(np.ones((1, 8), np.float32))["y"][0, 1]))
except aot_runtime.Refused as error:
    print("REFUSED", error)
"""


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write(tmp_path_factory.mktemp("policy") / "signed.pkg")
    signing.sign_package(path, [ALICE])
    return path


def with_operators() -> Package:
    """A package that carries a library of operators; nothing calls it."""
    package = runnable()
    package.add("operators/cpu/x.so", np.frombuffer(b"\x7fELF code", np.uint8))
    package.program["operator_libraries"] = [
        {
            "entry": "operators/cpu/x.so",
            "sha256": package.plan["entries"]["operators/cpu/x.so"],
        }
    ]
    return package


def test_trusted_keys(signed: Path) -> None:
    model = aot_runtime.load(signed, policy=Policy(keys=[KEY.upper()]))
    assert model(X)["y"][0, 1] == 4
    with pytest.raises(Refused, match="the signatures of 2 of 2 keys, and the package has 1"):
        aot_runtime.load(signed, policy=Policy(keys=[KEY, OTHER], signatures=2))
    with pytest.raises(aot_runtime.AotError) as raised:
        aot_runtime.load(signed, policy=Policy(keys=[OTHER]))
    assert raised.value.code == "REFUSED"
    assert isinstance(raised.value, PermissionError)


@pytest.mark.parametrize("writer", [write, write_old])
def test_unsigned_packages(tmp_path: Path, writer: object) -> None:
    path = writer(tmp_path / "p.pkg")
    with pytest.raises(Refused, match="wants a signed package"):
        aot_runtime.load(path, policy=Policy(keys=[KEY]))
    assert aot_runtime.load(path)(X)["y"][0, 1] == 4


def test_code(signed: Path) -> None:
    assert aot_runtime.load(signed, policy=Policy(code={CODE}))
    for code in ((), ("0" * 64,)):
        with pytest.raises(Refused, match=f"does not list the code .*SHA-256 {CODE}"):
            aot_runtime.load(signed, policy=Policy(code=code))


def test_operator_libraries(tmp_path: Path, signed: Path) -> None:
    path = write(tmp_path / "p.pkg", with_operators())
    with pytest.raises(Refused, match=r"carries 'operators/cpu/x\.so'"):
        aot_runtime.load(path, policy=Policy(operator_libraries=False))
    assert aot_runtime.load(signed, policy=Policy(operator_libraries=False))


def test_proofs(signed: Path) -> None:
    with pytest.raises(Refused, match="does not declare what it touches"):
        aot_runtime.load(signed, policy=Policy(require_proved=True))


def test_limits_of_all_sessions(signed: Path) -> None:
    least = Policy(limits=aot_runtime.Limits(output_bytes=64))
    asked = aot_runtime.Limits(output_bytes=1 << 20)
    model = aot_runtime.load(signed, policy=least, limits=asked)
    assert model(X[:1])
    many = np.ones((9, 8), np.float32)
    for session in (model, model.session(), model.session(limits=asked)):
        with pytest.raises(aot_runtime.LimitExceeded, match="output_bytes"):
            session(many)
    with pytest.raises(aot_runtime.InvalidArgument, match="arena_bytes is 0"):
        aot_runtime.load(signed, policy=Policy(limits=aot_runtime.Limits(arena_bytes=0)))


def test_weights_are_checked_under_keys(signed: Path, tmp_path: Path) -> None:
    with PackageFile(signed) as file:
        place = file.header.start + file.entries["weights/bias"].begin
    data = bytearray(signed.read_bytes())
    data[place + 3] ^= 1
    path = tmp_path / "p.pkg"
    path.write_bytes(data)
    with pytest.raises(aot_runtime.CorruptPackage, match="checksum of 'weights/bias'"):
        aot_runtime.load(path, policy=Policy(keys=[KEY]))
    assert aot_runtime.load(path, policy=Policy(keys=[KEY], trust_weights=True))
    assert aot_runtime.load(path)
    with pytest.raises(aot_runtime.CorruptPackage, match="checksum of 'weights/bias'"):
        aot_runtime.load(path, verify="lazy")


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (Policy(keys=["z" * 64]), "no Ed25519 public key"),
        (Policy(keys=[KEY, KEY]), "is there twice"),
        (Policy(keys=[KEY], signatures=2), "2 of 1 keys"),
        (Policy(keys=KEY), "a list of keys"),
    ],
)
def test_policies_without_meaning(signed: Path, policy: Policy, message: str) -> None:
    with pytest.raises(aot_runtime.InvalidArgument, match=message):
        aot_runtime.load(signed, policy=policy)


def test_a_key_that_is_not_there(signed: Path) -> None:
    with pytest.raises(FileNotFoundError):
        aot_runtime.load(signed, policy=Policy(keys=["none.pub"]))
    with pytest.raises(aot_runtime.InvalidArgument, match="must be True"):
        aot_runtime.load(signed, verify="some")


def test_a_replaced_file_changes_nothing(signed: Path, tmp_path: Path) -> None:
    """A file changed in place after the check does not reach plan or code."""
    path = tmp_path / "p.pkg"
    shutil.copy(signed, path)
    model = aot_runtime.load(path, policy=Policy(keys=[KEY]))
    with PackageFile(path) as file:
        places = [
            (file.header.start + file.entries[name].begin, file.entries[name].nbytes)
            for name in ("plan", "manifest", "kernels/cpu/x86-64-v2")
        ]
    with path.open("r+b") as file:
        for begin, nbytes in places:
            file.seek(begin)
            file.write(bytes(nbytes))
    assert model(X)["y"][0, 1] == 4
    assert model.plan["model"] == "small"
    with pytest.raises(aot_runtime.CorruptPackage):
        aot_runtime.load(path)


def test_a_header_of_another_package(signed: Path, tmp_path: Path) -> None:
    path = tmp_path / "p.pkg"
    shutil.copy(signed, path)
    other = write(tmp_path / "other.pkg", with_operators())
    with PackageFile(other) as file:
        text, start = file.header.text, PackageFile(path).header.start
    replace_header(path, start, text)
    with pytest.raises(aot_runtime.CorruptPackage):
        aot_runtime.load(path)


STRACE = shutil.which("strace")


def traced(tmp_path: Path, package: Path, keys: str) -> tuple[str, list[str]]:
    """What the program printed, and its calls that map or make code after it said READY."""
    log = tmp_path / "trace"
    program = [sys.executable, "-c", USE, str(package), keys]
    calls = "trace=memfd_create,mmap,mprotect,openat,write,execve"
    ran = subprocess.run(
        [STRACE or "", "-f", "-o", str(log), "-e", calls, *program],
        capture_output=True,
        text=True,
        check=False,
    )
    if "PTRACE" in ran.stderr or not log.exists():
        pytest.skip("this machine lets nobody trace")
    lines = log.read_text(errors="replace").splitlines()
    ready = next(i for i, line in enumerate(lines) if "READY" in line)
    return ran.stdout, lines[ready:]


def of_package_code(lines: list[str]) -> list[str]:
    """Calls that make memory files, or map one of them executable."""
    descriptors: set[str] = set()
    found: list[str] = []
    for line in lines:
        made = re.search(r"memfd_create\(.*= (\d+)", line)
        opened = re.search(r'openat\(.*"/proc/self/fd/\d+".*= (\d+)', line)
        for match in (made, opened):
            if match is not None:
                descriptors.add(match.group(1))
                found.append(line)
        mapped = re.search(r"mmap\(.*PROT_EXEC.*, (-?\d+), \S+\)", line)
        if mapped is not None and mapped.group(1) in descriptors:
            found.append(line)
    return found


@pytest.mark.skipif(STRACE is None, reason="strace is not installed")
def test_nothing_of_a_refused_package_is_made_executable(signed: Path, tmp_path: Path) -> None:
    unsigned = write(tmp_path / "unsigned.pkg")
    forged = tmp_path / "forged.pkg"
    shutil.copy(signed, forged)
    data = forged.read_bytes()
    with PackageFile(signed) as file:
        text = file.header.signatures
    good = signing.decode_signatures(text)[0].signature
    wrong = ("0" if good[0] != "0" else "1") + good[1:]
    sums = [hashlib.sha256(t.encode()).hexdigest() for t in (text, text.replace(good, wrong))]
    for before, after in ((good, wrong), (sums[0], sums[1])):
        data = data.replace(before.encode(), after.encode())
    forged.write_bytes(data)
    carrying = write(tmp_path / "operators.pkg", with_operators())
    signing.sign_package(carrying, [ALICE])
    for package in (unsigned, forged, carrying):
        printed, lines = traced(tmp_path, package, KEY)
        assert "REFUSED" in printed
        assert of_package_code(lines) == []
        # Nor any other code, besides the cryptography that answers.
        executable = [line for line in lines if "PROT_EXEC" in line]
        libraries = [line for line in lines if re.search(r"openat\(.*\.so", line)]
        assert all(re.search(r"libcrypto|libz|libdl|ld\.so\.cache", line) for line in libraries)
        assert executable == [] or libraries
    # The same eyes see a package that is allowed.
    printed, lines = traced(tmp_path, signed, KEY)
    assert "4.0" in printed
    seen = of_package_code(lines)
    assert any("memfd_create" in line for line in seen)
    assert any("PROT_EXEC" in line for line in seen)
