"""Operators by element types beside eager, at random extents."""
