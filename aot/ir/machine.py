"""What a device is: the facts that passes and the scheduler choose by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """What cost models need to know of a device; sizes in bytes.

    `templates`: kinds of TemplateCall that the backend implements. `preferred_conv_layout`:
    "channels_last" or "contiguous". `local_bytes`: how much memory private to one work unit may
    take. `lanes`: of the widest vectors, for elements of 4 bytes.
    `tiles`: a work unit evaluates whole tiles of points at once and keeps values in registers
    alone, so that what nests of a kernel pass on is computed again where it is needed, but for
    reduced values; otherwise it loops over points, one vector at a time, and has local memory.
    `matrix_dtypes`: element types that the matmul, conv and attention templates take; empty: all.
    `conv_in_place`: the conv template reads its operands where they lie, so that they should lie in
    the order in which it walks them; otherwise it packs them.
    `head_size`: greatest size of a head that the attention template takes; 0: any.
    `attention_parts`: the attention template can leave the sums of parts of the keys.
    `prologues`: kinds of templates that evaluate pointwise nests in place of loading an operand.
    `alignment`: of the addresses that kernels are given, in bytes; 1: any will do.
    `sort_run`: elements of rows that the argsort template sorts well; longer ones are merged from
    such runs (a power of two); 0: any.
    `languages`: of the kernels that a model may bring along.
    `units`: parallel work units from which a launch keeps the device busy. `cut_units`: from which
    no loop is cut into strips for more of them.
    """

    local_bytes: int
    templates: frozenset[str]
    preferred_conv_layout: str
    grain_bytes: int
    tiles: bool = False
    alignment: int = 1
    lanes: int = 16
    units: int = 8
    cut_units: int = 16
    matrix_dtypes: frozenset[str] = frozenset()
    head_size: int = 0
    attention_parts: bool = False
    conv_in_place: bool = False
    prologues: frozenset[str] = frozenset()
    sort_run: int = 0
    languages: frozenset[str] = frozenset()
