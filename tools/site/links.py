"""Links of the repository's documents, as the site has them.

On a code host a document may link to any file. The site has pages alone: a link to one of them
leads there; one to another file becomes its path, as no public address of the files is known.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Mapping

_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
_FENCE = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)
_ADDRESS = re.compile(r"[a-z]+:")


def relinked(text: str, path: str, pages: Mapping[str, str], files: Collection[str]) -> str:
    """The text of a document with its links as the site has them; code is left alone.

    Args:
        text: The document.
        path: Its path in the repository.
        pages: Path in the repository -> path in the site, of every page and image.
        files: Every other path of the repository that may be linked to, folders too.
    """

    def one(link: re.Match[str]) -> str:
        if _ADDRESS.match(link["path"]):
            return link[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link["path"]))
        if target in pages:
            place = posixpath.relpath(pages[target], posixpath.dirname(pages[path]) or ".")
            return f"{link['image']}[{link['text']}]({place}{link['anchor'] or ''})"
        if target not in files:
            return link[0]  # Sphinx says that it leads nowhere
        said = link["text"].strip("`")
        return f"`{target}`" if said == target else f"{link['text']} (`{target}`)"

    parts = _FENCE.split(text)
    return "".join(p if p.startswith("```") else _LINK.sub(one, p) for p in parts)
