"""Packages on engines that serve models: Ray Serve (`ray`), KServe (`kserve`).

Each module imports its engine, which is installed apart; `batches` and `open_inference` need NumPy
alone.
"""
