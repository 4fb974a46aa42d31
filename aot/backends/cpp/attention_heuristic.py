"""Blocking of the CPU attention template, chosen when the package is built."""

from __future__ import annotations

from dataclasses import dataclass

from aot.backends.cpp.gemm_heuristic import PANEL

_QUERIES = 128
# Elements of queries and results of a unit up to which it has twice as many of a narrow type: its
# products are soon done on machines that multiply it, and then packing keys for few queries shows.
_NARROW = 65536
_KEYS = 192
# The most rows of a strip.
_STRIP = 2 * PANEL
_FEWEST_KEYS = 64
# Of packed keys and values of a block, which stay in L2 beside queries and results.
_PACKED_BYTES = 256 * 1024
_UNIT_MACS = 600_000
# Units that heads are not joined below, so that processors have some each.
_UNITS = 8


@dataclass(frozen=True)
class AttentionBlocking:
    """Template arguments of `aot::tmpl::attention` and what the plan needs to launch it.

    `d`, `dv`: sizes of a key and a value. `qb`: rows of a work unit, which are the queries of `hb`
    heads. `kb`: keys of a block, a multiple of 16. `grain`: units worth a thread of their own.
    """

    d: int
    dv: int
    qb: int
    kb: int
    grain: int
    accumulator_bytes: int
    hb: int = 1

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch a worker needs: the twin of `attention_scratch` in attention.h."""
        d, dv = _round_up(self.d), _round_up(self.dv)
        elements = self.qb * (d + PANEL) + self.kb * self.d + self.kb * dv
        elements += self.qb * (dv + PANEL) + _STRIP * (self.kb + PANEL) + _round_up(2 * self.qb)
        return elements * self.accumulator_bytes

    def work(self, batch: int, heads: int, queries: int) -> int:
        """Work units of a launch: batch * heads / hb * ceil(hb * queries / qb)."""
        return batch * heads // self.hb * -(-queries * self.hb // self.qb)


def attention_blocking(
    queries: int,
    keys: int,
    d: int,
    dv: int,
    *,
    heads: int,
    group: int = 1,
    queries_max: int | None = None,
    accumulator_bytes: int = 4,
    a_bytes: int | None = None,
) -> AttentionBlocking:
    """Chooses the blocking of an attention.

    `queries` and `keys` are the sizes, or the typical ones; `queries_max` is the greatest number
    of queries when it varies. `heads` counts the heads of all batch elements, at least 1; so many
    as `group` share a head of keys and values. `a_bytes`: of an element in memory, if narrower than
    its accumulator.
    """
    queries, keys = max(queries, 1), max(keys, 1)
    most = queries if queries_max is None else max(queries_max, 1)
    # Every unit packs the keys and values it reads, so few units alone justify small blocks.
    limit = _QUERIES if heads * -(-most // _QUERIES) >= _UNITS else _QUERIES // 2
    if a_bytes is not None and a_bytes < accumulator_bytes and 2 * limit * (d + dv) <= _NARROW:
        limit *= 2
    qb = -(-most // -(-most // limit))
    hb = max(
        n for n in range(1, group + 1) if group % n == 0 and (n == 1 or _joins(n, most, heads))
    )
    qb *= hb
    fit = _PACKED_BYTES // ((d + dv) * accumulator_bytes) // PANEL * PANEL
    kb = max(_FEWEST_KEYS, min(_KEYS, fit))
    if queries_max is None:
        kb = min(kb, _round_up(keys))
    unit = min(qb, hb * queries) * keys * (d + dv)
    return AttentionBlocking(
        d=d,
        dv=dv,
        qb=qb,
        kb=kb,
        grain=max(1, -(-_UNIT_MACS // max(unit, 1))),
        accumulator_bytes=accumulator_bytes,
        hb=hb,
    )


def _joins(count: int, queries: int, heads: int) -> bool:
    """Whether a unit may have so many heads, of at most so many queries each."""
    return count * queries <= _QUERIES // 2 and heads // count >= _UNITS


def _round_up(value: int) -> int:
    return -(-value // PANEL) * PANEL
