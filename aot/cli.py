"""The command line. `aot-package model.py -o model.pkg` is short for `aot-package build …`.

Exit codes: 0 done, 1 verification failed, 2 wrong usage, 3 the model or its inputs, 4 the
toolchain, 5 a package or file, 70 our own bug, 130 interrupted. Results go to stdout (as JSON with
--json), progress and errors to stderr. What is about packages alone is in `aot_runtime.tools`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from types import ModuleType
from typing import Any, NoReturn

import aot_runtime
import click
from aot_runtime.format.reader import PackageFile
from aot_runtime.tools import commands
from aot_runtime.tools.arrays import size_given
from aot_runtime.tools.bench import BenchResult, Observed, Rival
from aot_runtime.tools.commands import Extras, print_json
from aot_runtime.tools.failures import end_by_interrupt, exit_code
from aot_runtime.tools.files import writing
from aot_runtime.tools.units import format_bytes, format_seconds
from rich.console import Console

from aot import garbage
from aot import options as build_options
from aot.backends.registry import begin
from aot.errors import ToolchainMissing, VerificationFailed
from aot.kept_code import methods_kept
from aot.lowering.lower import supported_operators
from aot.options import CPU_LEVELS, HOST, STAGES, TUNED, BuildOptions
from aot.report.explain import explain_text
from aot.report.model import TYPICAL_CORE, BuildReport
from aot.report.observers import Dump, Keep, Observer, Several, Silent, Verify
from aot.report.operators import coverage, coverage_text
from aot.report.progress import Progress
from aot.report.summary import partial_report
from aot.report.texts import stage_texts, verify_stage
from aot.torch_library import import_what_builds_ask_for, no_source_read
from aot.trust_commands import keygen, require_signers, sign
from aot.version import VERSION
from aot.watching import watch

PROGRAM = "aot-package"
Decorated = Callable[..., Any]


class _DefaultToBuild(click.Group):
    """A group whose first word may be left out: then it is `build`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `build` in front of anything that is neither a command nor an option of the group."""
        if args and args[0] not in self.commands and args[0] not in ("--help", "--version", "-h"):
            self._refuse_misspelt(ctx, args[0])
            args = ["build", *args]
        return super().parse_args(ctx, args)

    def _refuse_misspelt(self, ctx: click.Context, word: str) -> None:
        """A word that is no file, and nearly a command or alone a word, is no model."""
        near = get_close_matches(word, self.commands, n=1)
        if Path(word).exists() or word.startswith("-"):
            return
        if near:
            raise click.UsageError(
                f"There is no command or file '{word}'. Did you mean '{near[0]}'?", ctx
            )
        if word.isidentifier():
            raise click.UsageError(
                f"There is no command or file '{word}'. Commands: {', '.join(self.commands)}.", ctx
            )


@click.group(
    cls=_DefaultToBuild,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="`aot-package MODEL -o PACKAGE` is short for `aot-package build MODEL -o PACKAGE`.",
)
@click.version_option(VERSION, prog_name=PROGRAM)
def cli() -> None:
    """Packages a PyTorch model into one file that a small C++ and Python runtime loads and runs."""


_json = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
_debug = click.option("--debug", is_flag=True, help="Show tracebacks; keep generated sources.")


def _together(*decorators: Callable[[Decorated], Decorated]) -> Callable[[Decorated], Decorated]:
    """Several click decorators as one, top to bottom."""

    def apply(command: Decorated) -> Decorated:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return apply


_build_arguments = _together(
    click.argument("model", type=click.Path(path_type=Path)),
    click.option(
        "--target",
        "targets",
        multiple=True,
        metavar="TARGET",
        help="cpu (all levels, the default), cpu:x86-64-v3, cuda:sm_80+sm_90, …; may be repeated.",
    ),
    click.option("-j", "--jobs", type=click.IntRange(1), help="Compilers that run at once."),
    click.option("--cxx", "compiler", help="The C++ compiler; the default is found."),
    click.option(
        "--dump",
        "dump_dir",
        type=click.Path(file_okay=False, path_type=Path),
        help="Write each stage's text to this directory.",
    ),
    click.option(
        "--operator",
        "operators",
        multiple=True,
        metavar="NS::NAME",
        help="A custom operator that the loading program registers (ns::* for all of a namespace); "
        "may be repeated.",
    ),
    click.option(
        "--operator-library",
        "operator_libraries",
        multiple=True,
        type=click.Path(path_type=Path),
        help="A shared object with custom operators for the package to carry; may be repeated.",
    ),
    click.option(
        "--file",
        "files",
        multiple=True,
        metavar="NAME=PATH",
        help="A file for the package to carry under that name, such as a tokenizer; may be "
        "repeated.",
    ),
    click.option(
        "--exact-floats",
        is_flag=True,
        help="On GPUs round no float32 to TF32, whatever torch's settings let eager do.",
    ),
    click.option(
        "--decide-as-example",
        is_flag=True,
        help="Take each decision on values (`if mask.any():`) as the example does; a run that "
        "decides otherwise is refused.",
    ),
    click.option(
        "--typical",
        multiple=True,
        metavar="DIM=N",
        help="A dynamic size that kernels are chosen for, where the example's is not what will be "
        "run; may be repeated.",
    ),
    click.option(
        "--tune",
        is_flag=False,
        flag_value=TUNED,
        type=click.IntRange(1),
        metavar="[N]",
        help="Measure N block sizes of each GPU kernel that has a choice on this machine's GPU, "
        f"{TUNED} unless N says how many, and take the fastest.",
    ),
    click.option("--no-cache", is_flag=True, help="Compile every kernel again."),
    click.option("--check", is_flag=True, help="Check every graph's invariants after every stage."),
)


def _options(
    targets: Sequence[str],
    no_cache: bool,
    check: bool,
    files: Sequence[str] = (),
    typical: Sequence[str] = (),
    **choices: object,
) -> BuildOptions:
    parsed = build_options.merge_targets([build_options.parse_target(t) for t in targets])
    carried = tuple(build_options.parse_file(text) for text in files)
    sizes = tuple(size_given(text, "--typical") for text in typical)
    made = build_options.from_environment(
        targets=parsed or None, verify=check or None, files=carried, typical=sizes, **choices
    )
    return build_options.without_cache(made) if no_cache else made


def torch_side() -> ModuleType:
    """What imports torch."""
    # Imported here: it brings torch along, which the other commands do without.
    try:
        with garbage.kept_for_good(), methods_kept("torch"), no_source_read():
            from aot import api

            import_what_builds_ask_for()
    except ModuleNotFoundError as error:
        raise _missing(error) from error

    return api


def _page_side() -> ModuleType:
    # Imported here: charts take half a second to import, and few commands draw any.
    try:
        from aot.report import html
    except ModuleNotFoundError as error:
        raise _missing(error) from error

    return html


def _missing(error: ModuleNotFoundError) -> Exception:
    """The error of a package that is not installed; a module of ours that is not there is a bug."""
    if (error.name or "").startswith("aot"):
        return error
    return ToolchainMissing(
        f"this command needs {error.name}, which is not installed",
        advice=f"pip install {error.name}, or aot-package again, which brings it along.",
    )


def _build(model: Path, options: BuildOptions, observer: Observer) -> BuildReport:
    begin(options)  # compilers work while torch is imported and the model captured
    api = torch_side()
    driver = api.driver
    kept = Keep()
    observers: list[Observer] = [observer, kept]
    if options.dump_dir is not None:
        observers.append(Dump(options.dump_dir, stage_texts))
    if options.verify:
        observers.append(Verify(verify_stage))
    try:
        report: BuildReport = driver.build(
            model, options, Several(observers), tune=api.tuning.measured
        )
    except driver.Stopped:
        report = partial_report(kept.values, kept.timings)
    return report


@contextmanager
def _shown(*, quiet: bool) -> Iterator[Observer]:
    """What shows a build's stages, or nothing."""
    if quiet:
        yield Silent()
        return
    with Progress(Console(stderr=True)) as progress:
        yield progress


def _observed_build(model: Path, options: BuildOptions, quiet: bool) -> BuildReport:
    with _shown(quiet=quiet) as observer:
        return _build(model, options, observer)


def _kernel_counts(report: BuildReport) -> str:
    """Like "7 kernels"; with programs of different numbers, "7/9 kernels"."""
    counts = list(dict.fromkeys(str(len(program.kernels)) for program in report.programs))
    return f"{'/'.join(counts)} kernel{'' if counts == ['1'] else 's'}"


@cli.command(short_help="Package a model.")
@_build_arguments
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="The package; default: MODEL.pkg here."
)
@click.option("--stop-after", type=click.Choice(STAGES), help="Go no further; write no package.")
@click.option(
    "--swappable", is_flag=True, help="Weights can be replaced at run time, all of them together."
)
@click.option(
    "--keep-originals",
    is_flag=True,
    help="As --swappable, some of them alone or added to; keeps weights that others are derived "
    "from.",
)
@click.option(
    "--weights-file",
    default="",
    metavar="NAME",
    help="Keep the weights in a file of that name beside the package, not in it.",
)
@click.option("--no-golden", is_flag=True, help="Leave out example inputs and outputs (`verify`).")
@click.option(
    "--watch", "watched", is_flag=True, help="Package again when a file of the model changes."
)
@_json
@_debug
def build(
    *,
    model: Path,
    output: Path | None,
    stop_after: str | None,
    no_golden: bool,
    watched: bool,
    as_json: bool,
    debug: bool,
    **choices: Any,
) -> None:
    """Package MODEL: a Python file that defines `model` and `example_inputs`, or a .pt2 file."""
    target = None if stop_after else (output or Path(model.with_suffix(".pkg").name))
    options = _options(
        **choices, output=target, stop_after=stop_after, golden=not no_golden, debug=debug
    )
    work = partial(_build_and_tell, model, options, as_json=as_json)
    if not watched:
        work()
        return
    torch_side()  # once, for all builds
    told = [*(["--json"] if as_json else []), *(["--debug"] if debug else [])]
    files = (model, *options.operator_libraries, *(path for _, path in options.files))
    watch(partial(exit_code, told, work), files, _written_by(options))


def _written_by(options: BuildOptions) -> list[Path]:
    """Where a build writes."""
    out = options.output
    apart = out.with_name(options.weights_file) if out and options.weights_file else None
    places = (out, apart, options.cache_dir, options.headers_dir, options.dump_dir)
    return [Path(gettempdir()) / "aot-package", *(place for place in places if place is not None)]


def _build_and_tell(model: Path, options: BuildOptions, *, as_json: bool) -> None:
    report = _observed_build(model, options, quiet=as_json)
    if as_json:
        print_json(report.to_json())
    elif report.output is not None:
        click.echo(
            f"{report.output}: {format_bytes(report.nbytes)}, {_kernel_counts(report)} for "
            f"{', '.join(report.targets)}, in {format_seconds(report.seconds)}"
        )
        for line in report.measured:
            click.echo(f"measured: {line}")
        for decision in report.decided:
            click.echo(f"checked in each run: {decision}")
        calls = dict.fromkeys(str(c) for program in report.programs for c in program.host_calls)
        if calls:
            click.echo(f"GPUs leave to the host: {', '.join(calls)}")
        if report.operators:
            click.echo(f"custom operators: {', '.join(map(str, report.operators))}")
    else:
        click.echo(f"stopped after {options.stop_after}; no package was written")


@cli.command(short_help="Tell what was fused, what was not, and why.")
@_build_arguments
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a page to this file instead of text.",
)
@_json
@_debug
def explain(model: Path, html: Path | None, as_json: bool, debug: bool, **choices: Any) -> None:
    """Tell what became one kernel, what did not, and why, for MODEL."""
    options = _options(**choices, stop_after="plan_memory", debug=debug)
    report = _observed_build(model, options, quiet=as_json)
    if as_json:
        print_json(report.to_json())
    elif html is not None:
        with writing("the page", html, "--html"):
            html.write_text(_page_side().explain_html(report), encoding="utf-8")
        click.echo(str(html))
    else:
        click.echo(explain_text(report, TYPICAL_CORE), nl=False)


@cli.command(short_help="Package a model, run it beside eager, say where it differs first.")
@_build_arguments
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Keep the package here; default: none."
)
@click.option(
    "--size",
    "sizes",
    multiple=True,
    metavar="DIM=N",
    help="A dynamic size for one more set of random inputs; may be repeated.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of random inputs.")
@click.option("--device", help="Where to run: cpu, cuda, cuda:1; default: the host.")
@_json
@_debug
def check(
    *,
    model: Path,
    output: Path | None,
    sizes: Sequence[str],
    seed: int,
    device: str | None,
    as_json: bool,
    debug: bool,
    **choices: Any,
) -> None:
    """Package MODEL and run the package beside eager, on its own inputs and on random ones.

    Dynamic sizes take several values. Prints the greatest error of each output, measured against
    eager in float64. Where one is too large, the exit code is 1, and the first difference is told:
    the stage of the compiler, the kernel, the model's line.
    """
    api = torch_side()
    chosen = dict(size_given(text) for text in sizes)
    with TemporaryDirectory() as folder, _shown(quiet=as_json) as observer:
        place = output or Path(folder) / "model.pkg"
        options = _options(**_one_level(choices), output=place, debug=debug)
        begin(options)
        report = api.checking.check(
            model,
            options,
            sizes=chosen,
            seed=seed,
            device=device,
            observer=observer,
            tune=api.tuning.measured,
        )
    if report.wrong:
        raise VerificationFailed(
            f"{len(report.wrong)} of {len(report.checked)} outputs differ from eager",
            where=model,
            results=report.lines(),
            records=report.to_json()["results"],
            advice="Report it with the model and the first difference; docs/guides/wrong-result.md "
            "says what else to look at.",
        )
    if as_json:
        print_json(report.to_json())
    else:
        click.echo("\n".join(report.lines()))


def _one_level(choices: Mapping[str, Any]) -> dict[str, Any]:
    """The same, for this machine's own level where no target was named: others would not run."""
    level = aot_runtime.cpu_isa()
    own = f"{HOST}:{level}" if level in CPU_LEVELS else HOST
    return {**choices, "targets": choices["targets"] or (own,)}


@cli.command(short_help="Measure block sizes for a model's GPU kernels on this machine.")
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--target", required=True, metavar="TARGET", help="This machine's: cuda:sm_90, …")
@click.option("--rounds", type=click.IntRange(1), help="Candidates of each problem; default: all.")
@click.option(
    "--database",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Add the winners to this file; default: the compiler's own.",
)
@click.option("-j", "--jobs", type=click.IntRange(1), help="Compilers that run at once.")
@_json
@_debug
def tune(
    *,
    model: Path,
    target: str,
    rounds: int | None,
    database: Path | None,
    jobs: int | None,
    as_json: bool,
    debug: bool,
) -> None:
    """Measure block sizes for MODEL's GPU kernels here, and keep the winners for later builds."""
    tuning = torch_side().tuning
    options = build_options.from_environment(jobs=jobs, debug=debug)
    report = tuning.tune(model, build_options.parse_target(target), options, rounds=rounds)
    kept = tuning.record(report, database)
    if as_json:
        print_json({**report.to_json(), "database": str(kept)})
    else:
        click.echo(tuning.text(report) + f"kept in {kept}")


@cli.command(short_help="List the operators that can be packaged.")
@click.option("--table", is_flag=True, help="PyTorch's operators: type, device, samples, reasons.")
@_json
@_debug
def ops(table: bool, as_json: bool, debug: bool) -> None:
    """List the operators that can be packaged."""
    names = supported_operators()
    if table:
        kept = coverage()
        click.echo(json.dumps(kept.to_json()) if as_json else coverage_text(kept))
    elif as_json:
        print_json(names)
    else:
        click.echo("\n".join(names))


def _rival(model: Path, inputs: Sequence[Any]) -> Rival:
    rival: Rival = partial(torch_side().eager, model, inputs)
    return rival


def _page(package: PackageFile, result: BenchResult, observed: Observed) -> str:
    text: str = _page_side().bench_html(package, result, observed)
    return text


def _of_runtime(name: str, short: str) -> click.Command:
    """A command that the runtime has too; its options are for that to read."""

    def command(arguments: Sequence[str]) -> None:
        commands.run_command([name, *arguments], PROGRAM, Extras(_rival, require_signers, _page))

    return click.Command(
        name,
        callback=command,
        params=[click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)],
        short_help=short,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True},
    )


for _name, (_short, _) in commands.COMMANDS.items():
    cli.add_command(_of_runtime(_name, _short))
cli.add_command(keygen)
cli.add_command(sign)


def run_command(arguments: Sequence[str]) -> int:
    """Run one command and give its exit code; prints, never raises."""

    def work() -> int:
        try:
            result = cli.main(list(arguments), prog_name=PROGRAM, standalone_mode=False)
        except click.ClickException as error:
            error.show()
            return error.exit_code
        except click.Abort as error:
            raise KeyboardInterrupt from error
        return result if isinstance(result, int) else 0

    return exit_code(arguments, work)


def main() -> NoReturn:
    """The `aot-package` program."""
    end_by_interrupt()
    garbage.search_seldom()
    sys.exit(run_command(sys.argv[1:]))


if __name__ == "__main__":
    main()
