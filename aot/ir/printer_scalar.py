"""Scalar expressions as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aot.ir.scalar import Access, IndexCheck, IndexValue, Node, postorder
from aot.symbolic import Expr, Symbol, substitute, to_text, var

_INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "and": "&",
    "or": "|",
    "xor": "^",
    "shl": "<<",
    "shr": ">>",
    "floordiv": "//",
    "mod": "%",
}
_LEAVES = ("const", "load", "index")


def index_text(index: Iterable[Expr]) -> str:
    """`[i0, 2*i1]`."""
    return "[" + ", ".join(to_text(e) for e in index) + "]"


class ScalarPrinter:
    """Text of the nodes below some roots; what is used more than once gets a name of its own.

    `lines` are the definitions of these names, in order; `text` gives a root's expression.
    """

    def __init__(self, roots: Sequence[Node]) -> None:
        self.lines: list[str] = []
        self._text: dict[int, str] = {}
        self._names = 0
        shared = _shared(roots)
        for node in postorder(roots):
            text = self._node(node)
            if id(node) in shared:
                name = f"v{self._names}"
                self._names += 1
                self.lines.append(f"{name} = {text}")
                text = name
            self._text[id(node)] = text

    def text(self, node: Node) -> str:
        """The expression of a root, without outer parentheses."""
        text = self._text[id(node)]
        whole = text.startswith("(") and node.op in _INFIX
        return text[1:-1] if whole else text

    def index(self, index: Iterable[Expr], binds: Sequence[tuple[Symbol, Node]]) -> str:
        """An index whose indirect symbols are replaced by the names of their values."""
        names = {symbol: var(self._text[id(node)]) for symbol, node in binds}
        return index_text(substitute(e, names) for e in index)

    def _node(self, node: Node) -> str:
        args = [self._text[id(a)] for a in node.args]
        attr = node.attr
        if isinstance(attr, Access):
            bound = list(zip(attr.binds, node.args, strict=False))
            mask = f" if {args[-1]}" if attr.masked else ""
            return f"{attr.buffer}{self.index(attr.index, bound)}{mask}".join(
                ("(", ")") if attr.masked else ("", "")
            )
        if isinstance(attr, IndexValue):
            bound = list(zip(attr.binds, node.args, strict=True))
            return f"index{self.index((attr.expr,), bound)}"
        if isinstance(attr, IndexCheck):
            kind = "wrapped" if attr.wrap else "checked"
            return f"{kind}({args[0]}, {to_text(attr.size)})"
        if node.op == "const":
            return repr(attr)
        if node.op == "cast":
            return f"{node.dtype}({args[0]})"
        if node.op == "bitcast":
            return f"bits_as_{node.dtype}({args[0]})"
        if node.op == "reduce":
            return f"{attr}({_bare(args[0], node.args[0])})"
        if node.op in _INFIX:
            return f"({args[0]} {_INFIX[node.op]} {args[1]})"
        return f"{node.op}({', '.join(_bare(t, a) for t, a in zip(args, node.args, strict=True))})"


def _bare(text: str, node: Node) -> str:
    whole = text.startswith("(") and node.op in _INFIX
    return text[1:-1] if whole else text


def _shared(roots: Sequence[Node]) -> set[int]:
    """Nodes that get a name: used by several nodes and not trivial, or standing for an index."""
    users: dict[int, int] = {}
    found: set[int] = set()
    for node in postorder(roots):
        for position, a in enumerate(node.args):
            users[id(a)] = users.get(id(a), 0) + 1
            binds = node.attr.binds if isinstance(node.attr, (Access, IndexValue)) else ()
            # Names, not texts, can stand in an index.
            if position < len(binds):
                found.add(id(a))
            if users[id(a)] > 1 and not _is_short(a):
                found.add(id(a))
    return found


def _is_short(node: Node) -> bool:
    if node.op == "cast":
        return _is_short(node.args[0])
    return node.op in _LEAVES and not node.args
