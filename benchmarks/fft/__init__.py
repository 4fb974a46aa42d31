"""Fourier transforms beside eager's MKL."""
