"""Why rows of the table are beyond its limits: by device and family, for the last column.

Shown where a row is ▲ or above the limit of ratios (`Row.is_exception`). A reason says what costs,
and why it is not mended; a family that is mended leaves the table.
"""

from __future__ import annotations

from collections.abc import Mapping

REASONS: Mapping[str, Mapping[str, str]] = {"cpu": {}, "cuda": {}}
