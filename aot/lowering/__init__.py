"""Lowering: the tensor graph's operators become loop nests and template calls."""
