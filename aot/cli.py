"""The command line. `aot-package model.py -o model.pkg` is short for `aot-package build …`.

Exit codes: 0 done, 1 verification failed, 2 wrong usage, 3 the model or its inputs, 4 the
toolchain, 5 a package or file, 70 our own bug, 130 interrupted. Results go to stdout (as JSON with
--json), progress and errors to stderr. This is the one module that may catch everything.
"""

from __future__ import annotations

import json
import runpy
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NoReturn

import click
from rich.console import Console

from aot import garbage
from aot import options as build_options
from aot.backends.registry import begin
from aot.errors import AotError, InternalError, ToolchainMissing, UsageError, VerificationFailed
from aot.link.reader import PackageFile
from aot.lowering.lower import supported_operators
from aot.options import STAGES, BuildOptions
from aot.report import bench as bench_report
from aot.report import verify as verify_report
from aot.report.arrays import (
    golden_inputs,
    load_inputs,
    random_inputs,
    save_outputs,
    size_given,
)
from aot.report.explain import explain_text
from aot.report.files import writing
from aot.report.html import explain_html
from aot.report.inspect import inspect_json, inspect_text
from aot.report.model import TYPICAL_CORE, BuildReport, format_bytes, format_seconds
from aot.report.observers import Dump, Keep, Observer, Several, Silent, Verify
from aot.report.operators import coverage, coverage_text
from aot.report.progress import Progress
from aot.report.runtime import load_model
from aot.report.summary import partial_report
from aot.report.texts import stage_texts, verify_stage
from aot.trust_commands import keygen, require_signers, sign
from aot.version import VERSION

INTERRUPTED = 130
Command = Callable[..., Any]


class _DefaultToBuild(click.Group):
    """A group whose first word may be left out: then it is `build`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `build` in front of anything that is neither a command nor an option of the group."""
        if args and args[0] not in self.commands and args[0] not in ("--help", "--version", "-h"):
            args = ["build", *args]
        return super().parse_args(ctx, args)


@click.group(
    cls=_DefaultToBuild,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="`aot-package MODEL -o PACKAGE` is short for `aot-package build MODEL -o PACKAGE`.",
)
@click.version_option(VERSION, prog_name="aot-package")
def cli() -> None:
    """Packages a PyTorch model into one file that a small C++ and Python runtime loads and runs."""


_json = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
_debug = click.option("--debug", is_flag=True, help="Show tracebacks; keep generated sources.")


def _together(*decorators: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several click decorators as one, top to bottom."""

    def apply(command: Command) -> Command:
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
    click.option("--no-cache", is_flag=True, help="Compile everything again."),
    click.option("--check", is_flag=True, help="Check every graph's invariants after every stage."),
)


def _register(_context: click.Context, _option: click.Parameter, files: Sequence[Path]) -> None:
    """Run the user's files, which register custom operators.

    Raises:
        UsageError: One of them raises when it is run.
    """
    for file in files:
        try:
            runpy.run_path(str(file))
        except Exception as error:
            raise UsageError(
                "the file that registers operators fails",
                where=file,
                details=f"{type(error).__name__}: {error}",
                advice="Let it call aot_runtime.register_operator: docs/custom-operators.md.",
            ) from error


_run_options = _together(
    click.option(
        "--register",
        multiple=True,
        type=click.Path(path_type=Path),
        expose_value=False,
        callback=_register,
        help="A Python file that registers the model's custom operators, run first.",
    ),
    click.option("--device", help="Where to run: cpu, cuda, cuda:1; default: cpu if it can."),
    click.option("--isa", help="Force an instruction set level, for example x86-64-v3."),
    click.option("--threads", type=click.IntRange(1), help="Threads to run with."),
)

_package = click.argument("package", type=click.Path(path_type=Path))
_sizes = click.option(
    "--size",
    "sizes",
    multiple=True,
    metavar="DIM=N",
    help="Value of a dynamic dim, by label or symbol; may be repeated.",
)


def _options(
    targets: Sequence[str], no_cache: bool, check: bool, **choices: object
) -> BuildOptions:
    parsed = build_options.merge_targets([build_options.parse_target(t) for t in targets])
    made = build_options.from_environment(targets=parsed or None, verify=check or None, **choices)
    return build_options.without_cache(made) if no_cache else made


def _torch_side() -> ModuleType:
    # Imported here: it brings torch along, which the other commands do without.
    try:
        with garbage.kept_for_good():
            from aot import api
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("aot"):
            raise
        raise ToolchainMissing(
            f"this command needs {error.name}, which is not installed",
            advice="pip install 'aot-package[compile]'",
        ) from error

    return api


def _build(model: Path, options: BuildOptions, observer: Observer) -> BuildReport:
    begin(options)  # compilers work while torch is imported and the model captured
    driver = _torch_side().driver
    kept = Keep()
    observers: list[Observer] = [observer, kept]
    if options.dump_dir is not None:
        observers.append(Dump(options.dump_dir, stage_texts))
    if options.verify:
        observers.append(Verify(verify_stage))
    try:
        report: BuildReport = driver.build(model, options, Several(observers))
    except driver.Stopped:
        report = partial_report(kept.values, kept.timings)
    return report


def _observed_build(model: Path, options: BuildOptions, quiet: bool) -> BuildReport:
    if quiet:
        return _build(model, options, Silent())
    with Progress(Console(stderr=True)) as progress:
        return _build(model, options, progress)


def _print_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def _kernel_counts(report: BuildReport) -> str:
    """Like "7 kernels"; with programs of different numbers, "7/9 kernels"."""
    counts = dict.fromkeys(str(len(program.kernels)) for program in report.programs)
    return f"{'/'.join(counts)} kernels"


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
@_json
@_debug
def build(
    *,
    model: Path,
    output: Path | None,
    stop_after: str | None,
    no_golden: bool,
    as_json: bool,
    debug: bool,
    **choices: Any,
) -> None:
    """Package MODEL: a Python file that defines `model` and `example_inputs`, or a .pt2 file."""
    target = None if stop_after else (output or Path(model.with_suffix(".pkg").name))
    options = _options(
        **choices, output=target, stop_after=stop_after, golden=not no_golden, debug=debug
    )
    report = _observed_build(model, options, quiet=as_json)
    if as_json:
        _print_json(report.to_json())
    elif report.output is not None:
        click.echo(
            f"{report.output}: {format_bytes(report.nbytes)}, {_kernel_counts(report)} for "
            f"{', '.join(report.targets)}, in {format_seconds(report.seconds)}"
        )
        if report.operators:
            click.echo(f"custom operators: {', '.join(map(str, report.operators))}")
    else:
        click.echo(f"stopped after {stop_after}; no package was written")


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
        _print_json(report.to_json())
    elif html is not None:
        with writing("the page", html, "--html"):
            html.write_text(explain_html(report), encoding="utf-8")
        click.echo(str(html))
    else:
        click.echo(explain_text(report, TYPICAL_CORE), nl=False)


@cli.command(short_help="Show what is in a package.")
@_package
@click.option("--weights", is_flag=True, help="List every weight.")
@click.option("--target", help="Show this program's kernels alone: cpu, cuda, cuda:sm_90.")
@click.option("--checksums", is_flag=True, help="Compare every entry's bytes with its SHA-256.")
@_json
@_debug
def inspect(
    *,
    package: Path,
    weights: bool,
    target: str | None,
    checksums: bool,
    as_json: bool,
    debug: bool,
) -> None:
    """Show what is in PACKAGE, from its data alone; nothing of it is run."""
    with PackageFile(package) as file:
        if as_json:
            _print_json(inspect_json(file, target))
        else:
            click.echo(inspect_text(file, weights=weights, target=target), nl=False)
        if checksums:
            verify_report.check_entries(file)
            if not as_json:
                click.echo("checksums: all entries are as they were written")


def _inputs(package: Path, npz: Path | None, sizes: Sequence[str], seed: int) -> list[Any]:
    with PackageFile(package) as file:
        if npz is not None:
            return load_inputs(file.plan, npz)
        given = dict(size_given(text) for text in sizes)
        return random_inputs(file.plan, given, seed, golden_inputs(file))


_given_inputs = _together(
    click.option(
        "--inputs",
        "npz",
        type=click.Path(path_type=Path),
        help="A .npz file with one array for each input name; default: random by contract.",
    ),
    click.option("--seed", default=0, help="For random inputs."),
)


@cli.command(short_help="Run a package once.")
@_package
@_given_inputs
@_sizes
@_run_options
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write the outputs to this .npz file."
)
@_json
@_debug
def run(
    *,
    package: Path,
    npz: Path | None,
    seed: int,
    sizes: Sequence[str],
    device: str | None,
    isa: str | None,
    threads: int | None,
    output: Path | None,
    as_json: bool,
    debug: bool,
) -> None:
    """Run PACKAGE once, on inputs from a file or on random ones."""
    model = load_model(package, isa, threads, device)
    outputs = model.run(_inputs(package, npz, sizes, seed))
    if output is not None:
        save_outputs(model.plan, outputs, output)
    rows = [
        {"name": spec.name, "dtype": spec.dtype, "shape": list(array.shape)}
        for spec, array in zip(model.plan.outputs, outputs, strict=True)
    ]
    if as_json:
        _print_json({"outputs": rows, "file": str(output) if output else None})
        return
    for row, array in zip(rows, outputs, strict=True):
        click.echo(f"{row['name']}: {row['dtype']}{row['shape']}")
        if output is None:
            click.echo(str(array))


@cli.command(short_help="Check a package on this machine.")
@_package
@click.option(
    "--key",
    "keys",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A public key (a .pub file of keygen) that must have signed it; may be repeated.",
)
@click.option(
    "--signatures",
    default=0,
    type=click.IntRange(0),
    help="How many of the keys must have signed; default: all.",
)
@_run_options
@_json
@_debug
def verify(
    *,
    package: Path,
    keys: Sequence[Path],
    signatures: int,
    device: str | None,
    isa: str | None,
    threads: int | None,
    as_json: bool,
    debug: bool,
) -> None:
    """Check PACKAGE: all its bytes, signatures, then its golden values on every level it has."""
    with PackageFile(package) as file:
        verify_report.check_entries(file)
        signers = require_signers(file, keys, signatures) if keys else ()
        # Who asked for signatures has an answer without golden values too.
        golden = bool(file.plan.golden) or not keys
        results = verify_report.compare_golden(file, isa, threads, device) if golden else []
    wrong = [result for result in results if not result.ok]
    if wrong:
        raise VerificationFailed(
            f"{len(wrong)} of {len(results)} outputs differ from their golden values",
            where=package,
            results=[str(result) for result in results],
            records=[result.to_json() for result in results],
        )
    if as_json:
        told = {"signers": list(signers)} if keys else {}
        _print_json({**told, "results": [result.to_json() for result in results]})
    else:
        for signer in signers:
            click.echo(f"signed by {signer}")
        for result in results:
            click.echo(str(result))


@cli.command(short_help="Time a package.")
@_package
@_given_inputs
@_sizes
@_run_options
@click.option("--runs", default=200, type=click.IntRange(1), help="Timed runs.")
@click.option("--kernels", default=10, type=click.IntRange(0), help="Slowest kernels to list.")
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    help="The model file: its time in eager PyTorch (needs torch), runs alternating.",
)
@click.option(
    "--trace",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a timeline of some more runs to this file, for ui.perfetto.dev.",
)
@click.option("--sessions", default=1, type=click.IntRange(1), help="Also time so many at once.")
@_json
@_debug
def bench(
    *,
    package: Path,
    npz: Path | None,
    seed: int,
    sizes: Sequence[str],
    device: str | None,
    isa: str | None,
    threads: int | None,
    runs: int,
    kernels: int,
    against: Path | None,
    trace: Path | None,
    sessions: int,
    as_json: bool,
    debug: bool,
) -> None:
    """Time PACKAGE: load, latency percentiles, and the slowest kernels."""
    inputs = _inputs(package, npz, sizes, seed)
    rival = None if against is None else partial(_torch_side().eager, against, inputs)
    result = bench_report.measure(
        package, isa, threads, inputs, runs, rival, device, trace, sessions
    )
    if as_json:
        _print_json(result.to_json())
    else:
        click.echo(bench_report.text(result, kernels), nl=False)


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
    tuning = _torch_side().tune
    options = build_options.from_environment(jobs=jobs, debug=debug)
    report = tuning.tune(model, build_options.parse_target(target), options, rounds=rounds)
    kept = tuning.record(report, database)
    if as_json:
        _print_json({**report.to_json(), "database": str(kept)})
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
        _print_json(names)
    else:
        click.echo("\n".join(names))


cli.add_command(keygen)
cli.add_command(sign)


def _fail(error: AotError, as_json: bool, debug: bool) -> int:
    """Print the error and give the exit code."""
    if debug:
        traceback.print_exception(error)
    if as_json:
        click.echo(json.dumps({"error": error.to_json()}, ensure_ascii=False))
    click.echo(f"error[{error.code}]: {error}", err=True)
    return error.exit_code


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    """SIGTERM as an interrupt, so that half-written files are removed.

    Raises:
        KeyboardInterrupt: Always.
    """
    raise KeyboardInterrupt


def run_command(arguments: Sequence[str]) -> int:
    """Run one command and give its exit code; prints, never raises."""
    as_json, debug = "--json" in arguments, "--debug" in arguments
    try:
        result = cli.main(list(arguments), prog_name="aot-package", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted; nothing was changed", err=True)
        return INTERRUPTED
    except AotError as error:
        return _fail(error, as_json, debug)
    except BrokenPipeError:
        # The reader of our output has gone (`| head`); that is its right.
        sys.stderr.close()
        return 0
    except Exception as error:  # the last resort: our bug, told as such
        wrapped = InternalError(f"{type(error).__name__}: {error}")
        wrapped.__cause__ = error
        return _fail(wrapped, as_json, debug)
    return result if isinstance(result, int) else 0


def main() -> NoReturn:
    """The `aot-package` program."""
    signal.signal(signal.SIGTERM, _terminate)
    garbage.search_seldom()
    sys.exit(run_command(sys.argv[1:]))


if __name__ == "__main__":
    main()
