"""The reference page of the command lines: what each program and command says with --help."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import click
from aot_runtime.tools import commands as of_runtime
from aot_runtime.tools import main as runtime_main

from aot.cli import PROGRAM, cli

WIDTH = 96

_HEAD = f"""# Command lines

Made from the programs' own help. `{PROGRAM}` is the compiler's; `aot-runtime` comes with the
runtime and has the commands about packages, with the same options. Results go to stdout (as JSON
with `--json`), progress and errors to stderr; exit codes are in [Errors](../errors.md).
"""


def helps() -> Iterator[tuple[str, str]]:
    """(program and command, what it says with --help), of each."""
    settings = {**cli.context_settings, "max_content_width": WIDTH, "terminal_width": WIDTH}
    context = click.Context(cli, info_name=PROGRAM, **settings)
    yield PROGRAM, cli.get_help(context)
    for name, command in sorted(cli.commands.items()):
        if name not in of_runtime.COMMANDS:
            below = click.Context(command, parent=context, info_name=name, **settings)
            yield f"{PROGRAM} {name}", command.get_help(below)
    yield runtime_main.PROGRAM, runtime_main.help_text()
    for name, parser in of_runtime.parsers(runtime_main.PROGRAM).items():
        parser.formatter_class = _Wide
        yield f"{runtime_main.PROGRAM} {name}", parser.format_help()


class _Wide(argparse.HelpFormatter):
    """Lines of one width, whatever terminal there is."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=WIDTH)


def page() -> str:
    """The page, in Markdown."""
    parts = [f"## `{name}`\n\n```text\n{text.rstrip()}\n```\n" for name, text in helps()]
    return "\n".join([_HEAD, *parts])
