"""The CUDA backend: Triton kernels, compiled for named architectures with no GPU present."""
