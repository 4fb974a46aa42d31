"""aot: an ahead-of-time compiler and packager for PyTorch models."""
