"""Runs the packaged detector with the operator in Python: `python run.py detector.pkg`."""

import sys

import aot_runtime
import numpy as np


def suppress(boxes: np.ndarray, scores: np.ndarray, threshold: float) -> np.ndarray:
    """Which boxes stay, as the model's own operator says."""
    keep = np.ones(len(boxes), bool)
    area = np.clip(boxes[:, 2:] - boxes[:, :2], 0, None).prod(1)
    for best in np.argsort(-scores, kind="stable"):
        if keep[best]:
            low = np.maximum(boxes[:, :2], boxes[best, :2])
            high = np.minimum(boxes[:, 2:], boxes[best, 2:])
            common = np.clip(high - low, 0, None).prod(1)
            overlaps = common > threshold * (area + area[best] - common)
            keep &= ~(overlaps & (scores < scores[best]))
    return keep


aot_runtime.register_operator("detect::suppress", suppress)
model = aot_runtime.load(sys.argv[1])
boxes, scores = model(np.random.default_rng(0).standard_normal((100, 16)).astype(np.float32))
print(f"{np.count_nonzero(scores)} of {len(boxes)} boxes stay")
