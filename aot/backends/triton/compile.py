"""Machine code from Triton kernels: with no GPU, in parallel, cached by content, reproducibly."""

from __future__ import annotations

import base64
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aot.backends.base import KernelSource
from aot.backends.triton.cache import ImageCache, source_key
from aot.backends.triton.ready import READY
from aot.backends.triton.toolchain import SHARED_LIMIT, Triton, capability, find_triton
from aot.backends.triton.workers import Failure, answer_all
from aot.errors import KernelRefused, ToolchainError
from aot.ir.images import KernelImage
from aot.options import compile_environment

ALIGNMENT = 16
"""Bytes: kernels rely on it for every address that they are given."""

_AHEAD = 2
"""Compilers that import Triton before it is known whether any kernel is to be compiled."""

Places = Mapping[str, str]
"""Name of a kernel -> what of the model it computes: nests and model lines, for messages."""


def compile_kernels(
    sources: Sequence[KernelSource],
    arch: str,
    jobs: int,
    cache_dir: Path | None,
    places: Places | None = None,
) -> tuple[KernelImage, ...]:
    """An image of each kernel, in the order of the sources.

    Args:
        sources: Modules with one jitted function each, named as the source.
        arch: An architecture of `SHARED_LIMIT`, such as "sm_90".
        jobs: Compilers that run at once.
        cache_dir: Where images are kept between builds; None keeps none.
        places: Where kernels come from, for the message of a failure.

    Raises:
        ToolchainMissing: Triton is not installed.
        KernelRefused: A kernel does not compile, or does not fit into the architecture.
    """
    made = try_compile(sources, arch, jobs, cache_dir, places)
    for image in made:
        if isinstance(image, KernelRefused):
            raise image
    return tuple(image for image in made if isinstance(image, KernelImage))


def try_compile(
    sources: Sequence[KernelSource],
    arch: str,
    jobs: int,
    cache_dir: Path | None,
    places: Places | None = None,
) -> tuple[KernelImage | KernelRefused, ...]:
    """As `compile_kernels`, with the error in the place of each kernel that has no image."""
    triton = find_triton(arch)
    kept = ImageCache(cache_dir)
    keys = [source_key(source, arch, triton) for source in sources]
    done: dict[str, KernelImage | KernelRefused] = {}
    for key, source in zip(keys, sources, strict=True):
        found = kept.get(key, source)
        if found is not None:
            done[key] = found
    missing = {k: s for k, s in zip(keys, sources, strict=True) if k not in done}
    # Longest sources first, so that no long job is left for the end.
    order = sorted(missing, key=lambda k: -len(missing[k].text))
    for key, answer in zip(order, _answers(missing, order, arch, triton, jobs), strict=True):
        source = missing[key]
        made = _image(source, answer, arch, (places or {}).get(source.name, ""))
        if isinstance(made, KernelImage):
            kept.put(key, made)
        done[key] = made
    return tuple(done[key] for key in keys)


def _answers(
    missing: Mapping[str, KernelSource], order: Sequence[str], arch: str, triton: Triton, jobs: int
) -> list[dict[str, Any] | Failure]:
    requests = [_request(missing[key], arch) for key in order]
    environment = surroundings(triton)
    return answer_all(requests, environment, jobs, ready=lambda: READY.take(environment))


def surroundings(triton: Triton) -> dict[str, str]:
    """The environment of the processes that compile."""
    return compile_environment(
        {
            "TRITON_ALWAYS_COMPILE": "1",
            "TRITON_STORE_BINARY_ONLY": "1",
            "TRITON_DISABLE_LINE_INFO": "1",
            "TRITON_PTXAS_PATH": str(triton.assembler),
            "TRITON_PTXAS_BLACKWELL_PATH": str(triton.assembler),
        }
    )


def begin(arch: str, jobs: int) -> threading.Thread:
    """Has Triton imported, beside the caller, where an architecture's kernels will be compiled.

    By one process fewer than `jobs`, at most `_AHEAD`.
    """

    def environment() -> dict[str, str] | None:
        try:
            return surroundings(find_triton(arch))
        except ToolchainError:
            return None  # told where kernels are compiled

    return READY.start(environment, max(1, min(jobs - 1, _AHEAD)))


def _request(source: KernelSource, arch: str) -> dict[str, Any]:
    return {
        "name": source.name,
        "text": source.text,
        "signature": list(source.signature),
        "options": dict(source.options),
        "capability": capability(arch),
        "shared_limit": SHARED_LIMIT[arch],
        "alignment": ALIGNMENT,
    }


def _image(
    source: KernelSource, answer: dict[str, Any] | Failure, arch: str, place: str
) -> KernelImage | KernelRefused:
    if isinstance(answer, Failure):
        return KernelRefused(source.name, arch, answer.reason, place)
    limit = SHARED_LIMIT[arch]
    if answer["shared"] > limit:
        return KernelRefused(
            source.name,
            arch,
            f"it needs {answer['shared']} bytes of shared memory, {arch} has {limit}",
            place,
        )
    return KernelImage(
        source.name,
        answer["symbol"],
        base64.b64decode(answer["cubin"]),
        threads=answer["threads"],
        shared=answer["shared"],
        scratch=answer["scratch"],
        scratch_alignment=answer["scratch_alignment"],
        faults=source.faults,
        waits=source.waits,
    )
