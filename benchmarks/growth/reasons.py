"""Why rows of the table are beyond its limits: by device and family, for the last column.

Shown where a row is ▲ or above the limit of ratios (`Row.is_exception`). A reason says what costs,
and why it is not mended; a family that is mended leaves the table. Reasons are judgements from the
times at each size and from the code, not from counters.
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

_COUNTERS = (
    "what is counted or summed at random (8 MB and 4 MB) leaves the second level of cache in the "
    "last step, where ours takes 7 times as long: values of a vector join memory one after the "
    "other, with fewer misses in flight than eager's plain loop has; level up to a quarter of it"
)
_FIXED = (
    "a call of eager takes a fixed time (launches, sizes read back) up to the middle sizes, which "
    "ours does not; in the last step both grow as the work does"
)
_LAST_WRITER = (
    "of several writes to a place the last one stays, as on a CPU: notes of it are a pass at "
    "random places that eager does without, since it leaves open which write stays"
)
_DIGITS = (
    "eight bits a pass, each of which reads the keys twice (counts, then places); eager's library "
    "finds places while it counts. At the smaller sizes ours is ahead"
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
        "affine_grid": "8 MB of results in the last step, which leave the second level of cache on "
        "both sides; below it ours is ahead",
        "bincount": _COUNTERS,
        "index_add, column": _COUNTERS,
        "scatter_add": _COUNTERS,
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
    "cuda": {
        "GRU, n steps": _FIXED,
        "LSTM, n steps": _FIXED,
        "argsort, one row": _FIXED,
        "bincount": _FIXED,
        "histc": _FIXED,
        "index_copy": _LAST_WRITER,
        "index_put, a mask": _FIXED,
        "index_put, distinct": _LAST_WRITER,
        "index_put, pairs": _LAST_WRITER,
        "logcumsumexp, one row": _FIXED,
        "mm of a wide matrix": _FIXED,
        "mode, one row": _FIXED,
        "normalize, one row": _FIXED,
        "quantile, one row": _FIXED,
        "sort, 64 columns": _FIXED,
        "sort, many rows": _FIXED,
        "sort, one row": _DIGITS,
        "sort, stable and descending, many rows": _FIXED,
        "sort, stable and descending, one row": _DIGITS,
        "topk of many, one row": _FIXED,
        "unique_consecutive": "how many elements there are is measured before they are written: "
        "places that differ are marked, counted, then chosen, three passes; eager's library makes "
        "one, into memory for as many as there can be",
        "scatter_reduce prod": "products compare and swap, at random places beyond the cache in "
        "the last step; eager does as well, with one value a thread",
        "unique": "digits are sorted with positions that nobody asks for, and values are gathered "
        "by them at random: a sort of values alone would be about 1.3",
    },
}
