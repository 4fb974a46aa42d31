"""Sphinx's settings for the documentation site; `make site` stages the pages and builds it."""

from aot.version import VERSION
from tools.site.docstrings import restructured

project = "aot-package"
author = "The aot-package maintainers"
copyright = "the aot-package maintainers; Apache 2.0"
version = release = VERSION

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
highlight_language = "none"
smartquotes_action = "qe"  # quotes and ellipses; dashes would make one of `--debug`'s two

html_theme = "furo"
html_title = f"aot-package {VERSION}"
html_show_sphinx = False
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["site.css"]
html_theme_options = {"navigation_with_keys": True}
pygments_style = "friendly"
pygments_dark_style = "github-dark"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 80
# Types of other projects: their pages are not here, and a build looks nothing up in the network.
nitpick_ignore_regex = [
    (r"py:.*", r"(collections|os|pathlib|typing|types|torch|np|numpy|_native)\..*"),
    (r"py:.*", r"aot_runtime\._native\..*"),
    (r"py:.*", r"(?:Path|Any|Callable|Mapping|Sequence|PathLike|ExportedProgram|array_like)"),
]


def as_restructured_text(app, what, name, obj, options, lines):  # noqa: ANN001, ANN201
    """What autodoc asks for each docstring; `lines` are changed in place."""
    lines[:] = restructured(lines)


def setup(app):  # noqa: ANN001, ANN201
    """Sphinx asks for it."""
    app.connect("autodoc-process-docstring", as_restructured_text)
