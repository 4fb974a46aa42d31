"""Servers beside each other: ours, and ONNX Runtime behind the same front."""
