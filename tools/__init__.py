"""Scripts for developers of this repository."""
