"""The container: a safetensors header with every entry on 64 bytes (docs/format.md, "Container").

Both sides of it: the layout that the writer streams into, and the checks that the reader makes
before it trusts an offset.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from aot_runtime.format.errors import CorruptPackage

ALIGNMENT = 64
MAX_HEADER_BYTES = 100_000_000
VERSION = "1.1"
"""Of the container that is written: the first with a manifest."""

OLD_VERSION = "1.0"
"""Of packages without a manifest."""

METADATA = {"format": "aot-package"}
WEIGHTS_METADATA = {"format": "aot-weights"}
"""Of a file with the weights of a package alone."""

WEIGHT_GROUPS = ("weights/", "packed/")
"""The entries that hold weights, which a file of their own takes."""

WEIGHTS_PAD = "pad/weights/"
"""How fillers of that file begin: the names of both files differ."""

SLSA_ENTRY = "provenance/slsa.json"
BOM_ENTRY = "provenance/bom.json"
"""Where a package comes from: documents that the writer makes."""

FILES_GROUP = "files/"
"""How the entries of files begin that a package carries beside the model."""

MAX_FILE_NAME_BYTES = 200

NO_HASH = "0" * 64

TO_SAFETENSORS = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2": "F8_E5M2",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e8m0fnu": "F8_E8M0",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
}
"""Our names of element types to those in the header."""

FROM_SAFETENSORS = {theirs: ours for ours, theirs in TO_SAFETENSORS.items()}

ITEM_BYTES = {
    "F64": 8,
    "F32": 4,
    "F16": 2,
    "BF16": 2,
    "F8_E4M3": 1,
    "F8_E4M3FNUZ": 1,
    "F8_E5M2": 1,
    "F8_E5M2FNUZ": 1,
    "F8_E8M0": 1,
    "I64": 8,
    "I32": 4,
    "I16": 2,
    "I8": 1,
    "U64": 8,
    "U32": 4,
    "U16": 2,
    "U8": 1,
    "BOOL": 1,
}


@dataclass(frozen=True)
class EntryInfo:
    """Where an entry is.

    Attributes:
        name: The entry's name.
        dtype: Element type in our words ("float32", …).
        shape: Sizes; the bytes are C-contiguous.
        begin: First byte, relative to the data section.
        end: One past the last byte.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.end - self.begin


def entry_bytes(dtype: str, shape: Sequence[int]) -> int:
    """Bytes of a contiguous tensor."""
    return ITEM_BYTES[TO_SAFETENSORS[dtype]] * math.prod(shape)


def file_name_fault(name: str) -> str | None:
    """Why a file that a package carries cannot be called so; None: it can."""
    if not name or len(name.encode()) > MAX_FILE_NAME_BYTES:
        return "it is empty or too long"
    if not name.isprintable() or "\\" in name:
        return "it has characters that names of files lack"
    if any(part in ("", ".", "..") for part in name.split("/")):
        return "it leads out of a folder, or has an empty part"
    return None


def lay_out(
    tensors: Sequence[tuple[str, str, tuple[int, ...]]], pad: str = "pad/"
) -> tuple[EntryInfo, ...]:
    """Places (name, dtype, shape) one after the other, with pad entries where a gap is needed."""
    placed: list[EntryInfo] = []
    offset = pads = 0
    for name, dtype, shape in tensors:
        gap = -offset % ALIGNMENT
        if gap:
            placed.append(EntryInfo(f"{pad}{pads}", "uint8", (gap,), offset, offset + gap))
            pads += 1
            offset += gap
        end = offset + entry_bytes(dtype, shape)
        placed.append(EntryInfo(name, dtype, shape, offset, end))
        offset = end
    return tuple(placed)


@dataclass(frozen=True)
class WeightsFile:
    """The file that holds a package's weights, where they are not in the package.

    Attributes:
        name: Of the file, without a folder; it lies beside the package.
        sha256: The hash of its entries' names and hashes, which both files say.
    """

    name: str
    sha256: str


def encode_header(
    entries: Sequence[EntryInfo],
    plan_sha256: str = NO_HASH,
    weights: WeightsFile | None = None,
    manifest_sha256: str = "",
    signatures: str = "",
    version: str = VERSION,
) -> bytes:
    """The length word and the JSON, padded so that the data section begins on 64 bytes.

    Args:
        entries: The layout.
        plan_sha256: The hash of the plan's bytes: every other hash is in the plan.
        weights: Where the weights are, if elsewhere.
        manifest_sha256: The hash of the manifest's bytes; "": a package of format 1.0.
        signatures: Of the manifest, as text (aot/trust/signing.py).
        version: Of the format of a package with a manifest.
    """
    metadata = {**METADATA, "format_version": version if manifest_sha256 else OLD_VERSION}
    metadata["plan_sha256"] = plan_sha256
    if manifest_sha256:
        metadata["manifest_sha256"] = manifest_sha256
    if weights is not None:
        metadata |= {"weights_file": weights.name, "weights_sha256": weights.sha256}
    if signatures:
        sha256 = hashlib.sha256(signatures.encode()).hexdigest()
        metadata |= {"signatures": signatures, "signatures_sha256": sha256}
    return _encode(entries, metadata)


def encode_weights_header(
    entries: Sequence[EntryInfo], sha256: str = NO_HASH, version: str = VERSION
) -> bytes:
    """As `encode_header`, of the file that holds a package's weights."""
    metadata = {**WEIGHTS_METADATA, "format_version": version, "weights_sha256": sha256}
    return _encode(entries, metadata)


def rows_sha256(entries: Sequence[EntryInfo]) -> str:
    """The hash of a header's rows: its text after the metadata, without the spaces at the end."""
    return hashlib.sha256(_rows(entries)).hexdigest()


def _rows(entries: Sequence[EntryInfo]) -> bytes:
    table: dict[str, Any] = {
        entry.name: {
            "dtype": TO_SAFETENSORS[entry.dtype],
            "shape": list(entry.shape),
            "data_offsets": [entry.begin, entry.end],
        }
        for entry in entries
    }
    text = json.dumps(table, ensure_ascii=False, separators=(",", ":"))
    return (f",{text[1:]}" if table else "}").encode("utf-8")


def _encode(entries: Sequence[EntryInfo], metadata: dict[str, str]) -> bytes:
    table = {"__metadata__": metadata}
    text = json.dumps(table, ensure_ascii=False, separators=(",", ":"))[:-1].encode("utf-8")
    text += _rows(entries)
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


@dataclass(frozen=True)
class Header:
    """What the header says.

    Attributes:
        entries: In file order, pads included.
        start: Offset of the data section.
        plan_sha256: The hash of the entry `plan`, in hex; "" when it does not say.
        weights: The file of the weights; of that file itself, its hash and no name.
        manifest_sha256: The hash of the entry `manifest`, in hex; "" when there is none.
        signatures: The text of the signatures; "" when there are none.
        version: Of the format.
        text: All bytes before the data section.
    """

    entries: tuple[EntryInfo, ...]
    start: int
    plan_sha256: str
    weights: WeightsFile | None = None
    manifest_sha256: str = ""
    signatures: str = ""
    version: str = OLD_VERSION
    text: bytes = b""


def decode_header(data: memoryview, wanted: Mapping[str, str] = METADATA) -> Header:
    """The header of a file, checked.

    Args:
        data: The whole file.
        wanted: METADATA, or WEIGHTS_METADATA for a file of weights (its `format`).

    Raises:
        CorruptPackage: The file is too short, its header is no valid table, or the entries
            overlap, leave holes, or do not end where the file does.
    """
    if len(data) < 8:
        raise CorruptPackage(f"the file has {len(data)} bytes; a package has at least 8")
    length = int.from_bytes(data[:8], "little")
    if length > MAX_HEADER_BYTES or length > len(data) - 8:
        raise CorruptPackage(
            f"the header claims {length} bytes of a file of {len(data)}; this is no package, or "
            "it was cut off"
        )
    start = 8 + length
    if start % ALIGNMENT:
        raise CorruptPackage(f"the data begins at byte {start}, no multiple of {ALIGNMENT}")
    try:
        table = json.loads(bytes(data[8:start]).decode("utf-8"), object_pairs_hook=_no_duplicates)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise CorruptPackage(f"the header is not JSON: {error}") from error
    if not isinstance(table, dict):
        raise CorruptPackage("the header is no JSON object")
    metadata = table.pop("__metadata__", None)
    if not isinstance(metadata, dict) or metadata.get("format") != wanted["format"]:
        raise CorruptPackage(
            "the file is a safetensors file but no package: its metadata does not say "
            f"format={wanted['format']}"
        )
    entries = sorted((_entry(name, row) for name, row in table.items()), key=lambda e: e.begin)
    position = 0
    for entry in entries:
        if entry.begin != position:
            kind = "overlaps the one before" if entry.begin < position else "leaves a hole before"
            raise CorruptPackage(f"entry {entry.name} {kind} it", where=f"byte {entry.begin}")
        if entry.begin % ALIGNMENT and not entry.name.startswith("pad/"):
            raise CorruptPackage(
                f"entry {entry.name} begins at byte {entry.begin}, no multiple of {ALIGNMENT}"
            )
        position = entry.end
    if position != len(data) - start:
        raise CorruptPackage(
            f"the entries need {position} bytes of data, the file has {len(data) - start}; "
            "it was cut off or has something appended"
        )
    return Header(
        tuple(entries),
        start,
        str(metadata.get("plan_sha256", "")),
        _weights_file(metadata),
        str(metadata.get("manifest_sha256", "")),
        str(metadata.get("signatures", "")),
        str(metadata.get("format_version", "")),
        bytes(data[:start]),
    )


def _weights_file(metadata: Mapping[str, Any]) -> WeightsFile | None:
    if "weights_sha256" not in metadata:
        return None
    name = str(metadata.get("weights_file", ""))
    if name != Path(name).name or name == "..":
        raise CorruptPackage(f"the weights are said to be in {name!r}, which is no plain file name")
    return WeightsFile(name, str(metadata["weights_sha256"]))


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        names = [name for name, _ in pairs]
        twice = sorted({name for name in names if names.count(name) > 1})
        raise CorruptPackage(f"the header names {', '.join(twice)} twice")
    return table


def _entry(name: str, row: object) -> EntryInfo:
    wrong = CorruptPackage(f"the header's row for entry {name} is malformed", where=str(row)[:100])
    if not isinstance(row, dict):
        raise wrong
    shape, offsets = row.get("shape"), row.get("data_offsets")
    if not (_sizes(shape) and _sizes(offsets) and len(offsets) == 2):
        raise wrong
    if row.get("dtype") not in FROM_SAFETENSORS:
        raise CorruptPackage(f"entry {name} has the unknown dtype {row.get('dtype')!r}")
    dtype = FROM_SAFETENSORS[row["dtype"]]
    begin, end = offsets
    if end - begin != entry_bytes(dtype, shape):
        raise CorruptPackage(
            f"entry {name} has {end - begin} bytes; {dtype} of shape {list(shape)} needs "
            f"{entry_bytes(dtype, shape)}"
        )
    return EntryInfo(name, dtype, tuple(shape), begin, end)


def _sizes(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(
        isinstance(v, int) and not isinstance(v, bool) and 0 <= v < 2**63 for v in value
    )
