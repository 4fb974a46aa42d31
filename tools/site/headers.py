"""Reference pages of C and C++ headers: every public declaration with the comment above it.

    // Gives x back.
    inline int same(int x) { return x; }

becomes a heading, the comment as prose, and the declaration without its body. Comments between the
members of a struct or class stay where they are; private members do not appear.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

_HIDDEN = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])'", re.DOTALL)
_FRAME = re.compile(r"namespace\b|extern \"C\"|}\s*(/\*|//)|#")
_RULE = re.compile(r"-{5,} (?P<title>[\w ]+)\n*")
_NAMES = (
    re.compile(r"^#define (\w+)"),
    re.compile(r"\(\*(\w+)\)\("),
    re.compile(r"^(?:typedef )?(?:class|struct|enum)(?: \[\[\w+\]\])? (\w+)", re.MULTILINE),
    re.compile(r"^using (\w+)", re.MULTILINE),
    re.compile(r"(\w+)\("),
    re.compile(r"(\w+);"),
)
"""What gives a declaration its name: the first that finds one."""

_CONTAINER = re.compile(r"\s*(template <[^{;]*>\s*)?(typedef )?(class|struct|enum|union)\b")
_INITIALISERS = re.compile(r"\)(\s*(?:const|noexcept))*\s*:(?!:)")
_WORD = re.compile(
    r"`[^`\n]+`|(?:\w[\w:.]*)?\w_\w+(?:[:.]+\w+)*(?:\(\)|\*)?|\b\w+(?:::\w+)+(?:\(\))?|\b[A-Za-z]\w*\(\)"
)
"""What is code in a comment: marked as such, names with underscores or colons, calls."""

_SPECIAL = re.compile(r"([\\`*_\[\]<>#|$])")


@dataclass(frozen=True)
class Item:
    """A declaration, or some that stand together.

    Attributes:
        name: What is declared, the first of them.
        prose: The comment above it, without its marks.
        code: The declarations, without bodies.
    """

    name: str
    prose: str
    code: str


@dataclass(frozen=True)
class Section:
    """A part of a header: below its beginning, or below a ruled comment with a title."""

    title: str
    prose: str
    items: tuple[Item, ...]


def masked(text: str) -> str:
    """The text with blanks for comments and literals, so that brackets can be counted."""
    return _HIDDEN.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def sections(header: str) -> list[Section]:
    """What a header has, in its order; the first section's prose is what it says of itself."""
    found = [Section("", "", ())]
    for said, code, apart in _blocks(header):
        ruled = _RULE.match(said)
        if ruled:
            found.append(Section(ruled["title"], said[ruled.end() :], ()))
        comment, last = "" if ruled else said, found[-1]
        if not code:
            found[-1] = replace(last, prose=f"{last.prose}\n\n{comment}".strip())
        elif last.items and not comment and not apart:
            before = last.items[-1]
            joined = replace(before, code=f"{before.code}\n{without_bodies(code)}")
            found[-1] = replace(last, items=(*last.items[:-1], joined))
        else:
            item = Item(_name(code), comment, without_bodies(code))
            found[-1] = replace(last, items=(*last.items, item))
    return [s for s in found if s.items or s.prose]


def _blocks(header: str) -> Iterator[tuple[str, str, bool]]:
    """(comment, declaration or "", whether a blank line is before it), in order."""
    lines, covered = header.splitlines(), masked(header).splitlines()
    position, comment, apart = 0, "", True
    while position < len(lines):
        line = lines[position]
        if not line.strip() or _is_frame(line):
            if comment:
                yield comment, "", apart
            comment, apart, position = "", True, position + 1
        elif not covered[position].strip():
            end = _end_of_comment(lines, position)
            comment, position = _unmarked(lines[position:end]), end
        else:
            end = _end_of_declaration(covered, position)
            yield comment, "\n".join(lines[position:end]), apart
            comment, apart, position = "", False, end


def _is_frame(line: str) -> bool:
    """What frames declarations: guards, includes, namespaces; not a constant of the interface."""
    return bool(_FRAME.match(line)) and not re.match(r"#define AOT_\w+ [^_]", line)


def _end_of_comment(lines: Sequence[str], start: int) -> int:
    if lines[start].startswith("/*"):
        return next(i for i in range(start, len(lines)) if "*/" in lines[i]) + 1
    end = start
    while end < len(lines) and lines[end].startswith("//"):
        end += 1
    return end


def _end_of_declaration(covered: Sequence[str], start: int) -> int:
    depth = 0
    for end in range(start, len(covered)):
        line = covered[end].rstrip()
        depth += sum(map(line.count, "{(")) - sum(map(line.count, "})"))
        if depth == 0 and (line.endswith((";", "}")) or line.startswith("#")):
            return end + 1
    return len(covered)


def _unmarked(lines: Sequence[str]) -> str:
    """A comment's text, with what is indented in it still so."""
    text = "\n".join(lines)
    if text.startswith("/*"):
        body = text.removeprefix("/*").removesuffix("*/").strip()
        return re.sub(r"^ \* ?", "", body, flags=re.MULTILINE).rstrip("\n *")
    return re.sub(r"^// ?", "", text, flags=re.MULTILINE).strip()


def _name(code: str) -> str:
    plain = masked(code)
    head = re.sub(r"^template <[^\n]*>\n|^AOT_API ", "", plain)
    return next((m[1] for m in (name.search(head) for name in _NAMES) if m), head.split("\n")[0])


def without_bodies(code: str) -> str:
    """Declarations alone: functions end where their bodies begin, private members are gone."""
    plain, kept, begin, position, inside = masked(code), "", 0, 0, 0
    while position < len(plain):
        inside += {"(": 1, ")": -1}.get(plain[position], 0)
        if inside:
            kept, position = kept + code[position], position + 1
        elif plain[position] in ";}" or plain.startswith(("public:", "private:"), position):
            begin = plain.find(":", position) + 1 if plain[position] == "p" else position + 1
            kept, position = kept + code[position:begin], begin
        elif plain[position] == "{" and _is_initialiser(plain[begin:position]):
            end = _closing(plain, position) + 1
            kept, position = kept + code[position:end], end
        elif plain[position] == "{" and _is_body(plain[begin:position]):
            kept = _signature(kept, plain[begin:position]) + ";"
            begin = position = _closing(plain, position) + 1
        elif plain[position] == "{" and _CONTAINER.match(plain[begin:position]):
            kept, position = kept + code[position], position + 1
            begin = position
        else:
            kept, position = kept + code[position], position + 1
    return re.sub(r" *// NOLINT[^\n]*", "", _without_private(kept))


def _is_body(head: str) -> bool:
    """Whether what follows the head is a function's body, not members or a value."""
    return "(" in head and not head.rstrip().endswith("=") and not _CONTAINER.match(head)


def _is_initialiser(head: str) -> bool:
    """Whether what follows the head is a member's first value: `: a_{1}`."""
    return bool(_INITIALISERS.search(head)) and bool(re.search(r"\w$", head))


def _signature(kept: str, head: str) -> str:
    """What is kept, without the blanks and initialisers at the end of a function's head."""
    found = _INITIALISERS.search(head)
    cut = len(head) - (
        found.start() + len(found[0].rstrip(": \n")) if found else len(head.rstrip())
    )
    return kept[: len(kept) - cut] if cut else kept


def _closing(plain: str, start: int) -> int:
    depth = 0
    for position in range(start, len(plain)):
        depth += {"{": 1, "}": -1}.get(plain[position], 0)
        if depth == 0:
            return position
    return len(plain) - 1


def _without_private(code: str) -> str:
    plain = masked(code)
    while (at := plain.find("\n private:")) >= 0:
        depth, end = 0, at
        while depth >= 0 and end < len(plain) - 1:
            end += 1
            depth += {"{": 1, "}": -1}.get(plain[end], 0)
        code = code[:at].rstrip() + "\n" + code[end:]
        plain = masked(code)
    return code.replace(" public:\n", "")


def markdown(title: str, language: str, headers: Sequence[tuple[str, str]]) -> str:
    """A page of some headers.

    Args:
        title: The page's.
        language: "c" or "cpp", for the colours.
        headers: (path, text) of each.
    """
    lines = [f"# {title}", ""]
    for path, text in headers:
        lines += [f"## `{path.partition('include/')[2] or path}`", "", f"From `{path}`.", ""]
        for section in sections(text):
            lines += [f"### {section.title.capitalize()}", ""] if section.title else []
            lines += [prose(section.prose, language), ""]
            depth = "####" if section.title else "###"
            for item in section.items:
                lines += [f"{depth} `{item.name}`", "", f"```{language}", item.code, "```", ""]
                lines += [prose(item.prose, language), ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def prose(comment: str, language: str) -> str:
    """A comment as Markdown: names are code, indented lines are blocks, signs mean themselves."""
    made: list[str] = []
    for paragraph in re.split(r"\n\s*\n", comment):
        for kind, text in _parts(paragraph):
            if kind == "code":
                made.append(f"```{language}\n{_dedented(text)}\n```")
            elif kind == "item" and made and made[-1].startswith("- "):
                made[-1] += f"\n- {_inline(text)}"
            else:
                made.append(_inline(text) if kind == "text" else f"- {_inline(text)}")
    return "\n\n".join(made)


def _parts(paragraph: str) -> list[tuple[str, str]]:
    """What a paragraph is made of: ("text", …), ("item", …) of a list, ("code", …)."""
    parts: list[tuple[str, str]] = []
    for line in paragraph.splitlines():
        last = parts[-1][0] if parts else ""
        if line.lstrip().startswith("- "):
            parts.append(("item", line.lstrip()[2:]))
            continue
        kind = "text" if not line.startswith("  ") else "item" if last == "item" else "code"
        if kind == last:
            between = "\n" if kind == "code" else " "
            parts[-1] = (kind, parts[-1][1] + between + (line if kind == "code" else line.strip()))
        elif line.strip():
            parts.append((kind, line))
    return parts


def _dedented(text: str) -> str:
    lines = text.rstrip("\n").splitlines()
    margin = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
    return "\n".join(line[margin:] for line in lines)


def _inline(text: str) -> str:
    parts, end = "", 0
    for found in _WORD.finditer(text):
        parts += _SPECIAL.sub(r"\\\1", text[end : found.start()]) + f"`{found[0].strip('`')}`"
        end = found.end()
    return parts + _SPECIAL.sub(r"\\\1", text[end:])
