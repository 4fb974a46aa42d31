"""Functions that run on the device: Triton source, which the compiler reads as text (helpers.py).

Nothing imports these files when a model is built, so that Triton need not be there.
"""
