"""Assemble the execution plan and write the package (docs/format.md)."""
