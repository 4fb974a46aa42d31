"""A package as data (docs/format.md): read with its checks, and written as text. Runs nothing."""
