"""Pages for tests: of any number of kernels, and a real browser to read them with."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aot.ir.decisions import Decision
from aot.report.model import BufferReport
from aot.report.page import Page, PageKernel, PageProgram, TimelineEvent

KINDS = ("pointwise", "matmul", "reduction")


def layered_page(layers: int) -> Page:
    """A model of many layers: a product, a sum of rows, and what joins both, in each."""
    kernels: list[PageKernel] = []
    buffers = [BufferReport("x0", "input", 4096)]
    for layer in range(layers):
        x, y, z, out = (f"{name}{layer}" for name in "xyzw")
        out = f"x{layer + 1}"
        for name, reads, writes in (
            ("mm", (x, "weight"), (y,)),
            ("sum", (x,), (z,)),
            ("add", (y, z), (out,)),
        ):
            index = len(kernels)
            kernels.append(
                PageKernel(
                    name=f"k{index}_{name}",
                    kind=KINDS[index % 3],
                    places=((f"model.py:{10 + index % 3}", (f"aten.{name}.default",)),),
                    reads=reads,
                    writes=writes,
                    nbytes=4096 * (1 + index % 7),
                    flops=1000,
                    seconds=1e-6 * (1 + index % 5),
                    details=f"loops of <kernel> {index}",
                )
            )
        buffers += [
            BufferReport(name, "temporary", 4096, 4096 * place)
            for place, name in enumerate((y, z, out))
        ]
    events = [
        TimelineEvent(kernel.name, "kernels", 1e-5 * index, 1e-5 * index + 5e-6, index)
        for index, kernel in enumerate(kernels)
    ]
    program = PageProgram(
        title="cpu",
        facts=("Sample.",),
        kernels=tuple(kernels),
        buffers=tuple(buffers),
        events=tuple(events),
        decisions=(Decision("fuse", ("a", "b"), "not fused", "they <differ>"),),
        timed=True,
    )
    return Page("layers", "timed", ("A sample.",), (program,))


def browser() -> str | None:
    """Where a browser is; None: there is none."""
    return shutil.which("chromium") or shutil.which("google-chrome")


@dataclass(frozen=True)
class Seen:
    """What a script found in a page, and what the page's console has said."""

    found: Any
    console: tuple[str, ...]


def ask(text: str, folder: Path, script: str, *flags: str) -> Seen:
    """Opens a page in a browser, and asks it by a script once its charts are drawn.

    Args:
        text: The page.
        folder: Where it may be written.
        script: The body of a function that returns what JSON can say.
        flags: More for the browser.
    """
    asked = (
        "<script>const asking = setInterval(() => {"
        " if (document.body.dataset.ready !== '1') return;"
        " clearInterval(asking);"
        f" const found = (() => {{ {script} }})();"
        " const answer = document.createElement('pre');"
        " answer.textContent = JSON.stringify(found);"
        " document.body.replaceChildren(answer); }, 50)</script></body>"
    )
    path = folder / "page.html"
    path.write_text(text.replace("</body>", asked), encoding="utf-8")
    command = [browser() or "", "--headless=new", "--no-sandbox", "--disable-gpu"]
    command += ["--disable-dev-shm-usage", "--window-size=1200,1400", "--enable-logging=stderr"]
    command += [f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=60000"]
    done = subprocess.run(
        [*command, *flags, "--dump-dom", path.as_uri()],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    answer = re.search(r"<body[^>]*><pre>(.*)</pre></body>", done.stdout, re.S)
    assert answer, done.stderr[-2000:]
    console = re.findall(r'INFO:CONSOLE[^"]*"(.*)", source:', done.stderr)
    said = tuple(line for line in console if not line.startswith("[bokeh"))
    return Seen(json.loads(html.unescape(answer[1])), said)
