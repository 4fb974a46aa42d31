"""The documentation site: what is staged for Sphinx, and the pages that are made of sources."""
