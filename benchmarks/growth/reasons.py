"""Why rows of the table are beyond its limits: by device and family, for the last column.

Shown where a row is ▲ or above the limit of ratios (`Row.is_exception`). A reason says what costs,
and why it is not mended; a family that is mended leaves the table.
"""

from __future__ import annotations

from collections.abc import Mapping

_STREAMS = (
    "reads and writes 16 MB each at the largest size: memory bounds both sides there, while the "
    "smaller sizes are in a cache, where ours leads"
)
_SCATTERED = (
    "what is named at random leaves the second level of cache at the largest size: both sides "
    "wait for the same misses, so a lead in instructions shrinks"
)
_BAGS = (
    "each position misses the cache once the table (16 MB) outgrows it, on both sides; besides, "
    "checked positions are a copy of 8 MB that ours writes and reads again"
)

REASONS: Mapping[str, Mapping[str, str]] = {
    "cpu": {
        "attention, n keys": "up to 128 keys a call of eager costs more than its work; both take "
        "15 times as long in the last step",
        "cdist": "up to 512 points what a call of eager costs (30 µs) weighs on its times; the "
        "last step is that of n² on our side, 16 MB of results",
        "conv1d": "ours grows as n does; eager's slope is that of its library's set-up in the "
        "smaller sizes",
        "cumsum, many rows": _STREAMS,
        "cumsum, one row": _STREAMS,
        "embedding_bag sum, bags of 20": _BAGS,
        "gather": _SCATTERED,
        "index_put, duplicates": _SCATTERED,
        "normalize, one row": _STREAMS,
        "pad, matrix": _STREAMS,
        "pdist": "the 8 MB of results leave the second level of cache in the last step; work is "
        "that of n² on both sides",
        "pixel_shuffle": _STREAMS,
        "recommender, 4 tables": _BAGS,
        "scatter, a number": _SCATTERED,
        "softmax, one row": _STREAMS,
        "topk of many, one row": "131,072 pairs of 16 bytes are sorted by digits, which leave the "
        "second level of cache in the last step; eager partitions in place",
    },
    "cuda": {},
}
