"""The commands about packages: `inspect`, `plan`, `run`, `verify`, `bench`, `compare`.

They need NumPy and the loader. `aot-runtime` has them where packages run, `aot-package` beside its
own. Results go to stdout (as JSON with --json); whoever calls `run_command` tells of errors.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aot_runtime
from aot_runtime.format.errors import SignatureError, UsageError, VerificationFailed
from aot_runtime.format.plan_json import plan_text
from aot_runtime.format.reader import PackageFile
from aot_runtime.tools import bench, compare, verify
from aot_runtime.tools.arrays import (
    golden_inputs,
    load_inputs,
    random_inputs,
    save_outputs,
    size_given,
)
from aot_runtime.tools.failures import register
from aot_runtime.tools.files import writing
from aot_runtime.tools.inspect import inspect_json, inspect_text
from aot_runtime.tools.loaded import load_model


@dataclass(frozen=True)
class Extras:
    """What the compiler does better where it is installed.

    Attributes:
        rival: A model file and inputs to what `bench --against` compares with; None: it cannot.
        page: The text of a page of what `bench` found; None: there is nothing to make it with.
        signers: Those of the keys in files that have signed a package, of which so many must; None:
            the loader's policy says whether they have, without names.
    """

    rival: Callable[[Path, Sequence[Any]], bench.Rival] | None = None
    signers: Callable[[PackageFile, Sequence[Path], int], Sequence[str]] | None = None
    page: Callable[[PackageFile, bench.BenchResult, bench.Observed], str] | None = None


NO_EXTRAS = Extras()
Command = Callable[[argparse.Namespace, Extras], None]


def run_command(arguments: Sequence[str], program: str, extras: Extras = NO_EXTRAS) -> None:
    """Run one command and print its result.

    Args:
        arguments: The command's name and what follows it.
        program: The program's name, for its help.
        extras: What the compiler adds.

    Raises:
        AotError: It fails; see `format.errors`.
        SystemExit: The arguments have no meaning, or help was asked for, and printed.
    """
    given = _parser(program).parse_args(arguments)
    for file in getattr(given, "register", ()):
        register(file)
    command: Command = given.command
    command(given, extras)


def print_json(value: object) -> None:
    """One JSON document for programs."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def _inspect(given: argparse.Namespace, _extras: Extras) -> None:
    """Show what is in PACKAGE, from its data alone; nothing of it is run."""
    with PackageFile(given.package) as file:
        if given.json:
            print_json(inspect_json(file, given.target))
        else:
            print(inspect_text(file, weights=given.weights, target=given.target), end="")
        if given.checksums:
            verify.check_entries(file)
            if not given.json:
                print("checksums: all entries are as they were written")


def _plan(given: argparse.Namespace, _extras: Extras) -> None:
    """Print PACKAGE's plan, all that a run does, as JSON (docs/format.md)."""
    with PackageFile(given.package) as file:
        print(plan_text(file.plan), end="")


def _run(given: argparse.Namespace, _extras: Extras) -> None:
    """Check PACKAGE's bytes, and run it once, on inputs from a file or on random ones."""
    with PackageFile(given.package) as file:
        # Who runs a package by hand has the time to hear that it is damaged.
        verify.check_entries(file)
    model = load_model(given.package, given.isa, given.threads, given.device)
    outputs = model.run(_inputs(given))
    if given.output is not None:
        save_outputs(model.plan, outputs, given.output)
    rows = [
        {"name": spec.name, "dtype": spec.dtype, "shape": list(array.shape)}
        for spec, array in zip(model.plan.outputs, outputs, strict=True)
    ]
    if given.json:
        print_json({"outputs": rows, "file": str(given.output) if given.output else None})
        return
    for row, array in zip(rows, outputs, strict=True):
        print(f"{row['name']}: {row['dtype']}{row['shape']}")
        if given.output is None:
            print(array)


def _verify(given: argparse.Namespace, extras: Extras) -> None:
    """Check PACKAGE: all its bytes, signatures, then its golden values on every level it has."""
    keys = given.key
    with PackageFile(given.package) as file:
        verify.check_entries(file)
        signers = (extras.signers or _signers)(file, keys, given.signatures) if keys else ()
        # Who asked for signatures has an answer without golden values too.
        golden = bool(file.plan.golden) or not keys
        results = (
            verify.compare_golden(file, given.isa, given.threads, given.device) if golden else []
        )
    wrong = [result for result in results if not result.ok]
    if wrong:
        raise VerificationFailed(
            f"{len(wrong)} of {len(results)} outputs differ from their golden values",
            where=given.package,
            results=[str(result) for result in results],
            records=[result.to_json() for result in results],
        )
    if given.json:
        told = {"signers": list(signers)} if keys else {}
        print_json({**told, "results": [result.to_json() for result in results]})
    else:
        for signer in signers:
            print(f"signed by {signer}")
        for result in results:
            print(result)


def _signers(package: PackageFile, keys: Sequence[Path], wanted: int) -> Sequence[str]:
    """The keys that have signed the package: each is a policy that the loader holds it to.

    Raises:
        SignatureError: Fewer have than must.
        UsageError: A file holds no Ed25519 public key.
    """
    found = [str(key) for key in keys if _has_signed(package, key)]
    if len(found) < (wanted or len(keys)):
        missing = ", ".join(str(key) for key in keys if str(key) not in found)
        raise SignatureError(
            f"{len(found)} of {len(keys)} keys have signed this package, "
            f"{wanted or len(keys)} must",
            where=package.path,
            details=f"not, or wrongly, signed by {missing}",
        )
    return found


def _has_signed(package: PackageFile, key: Path) -> bool:
    policy = aot_runtime.Policy(keys=[key], signatures=1, trust_weights=True)
    try:
        aot_runtime.load(str(package.path), policy=policy)
    except aot_runtime.Refused:
        return False
    except (OSError, aot_runtime.InvalidArgument) as error:
        raise UsageError(
            f"no public key can be read: {error}",
            where=key,
            advice="Give a .pub file of `aot-package keygen`.",
        ) from error
    return True


def _bench(given: argparse.Namespace, extras: Extras) -> None:
    """Time PACKAGE: load, latency percentiles, and the slowest kernels."""
    inputs = _inputs(given)
    rival = None
    if given.against is not None:
        if extras.rival is None:
            raise UsageError(
                "--against runs the model in PyTorch, which is for the compiler",
                advice="pip install aot-package, and then `aot-package bench … --against`.",
            )
        rival = extras.rival(given.against, inputs)
    if given.html is not None and extras.page is None:
        raise UsageError(
            "--html makes a page with what the compiler brings along",
            advice="pip install aot-package, and then `aot-package bench … --html`.",
        )
    result = bench.measure(
        given.package,
        given.isa,
        given.threads,
        inputs,
        given.runs,
        rival,
        given.device,
        given.trace,
        given.sessions,
    )
    if given.html is not None and extras.page is not None:
        _write_page(given, extras.page, result, inputs)
    if given.json:
        print_json(result.to_json())
    else:
        print(bench.text(result, given.kernels), end="")


def _write_page(
    given: argparse.Namespace,
    page: Callable[[PackageFile, bench.BenchResult, bench.Observed], str],
    result: bench.BenchResult,
    inputs: Sequence[Any],
) -> None:
    """Write what `bench` found as a page."""
    observed = bench.observe(
        given.package, given.isa, given.threads, inputs, given.runs, given.device
    )
    with PackageFile(given.package) as file:
        text = page(file, result, observed)
    with writing("the page", given.html, "--html"):
        given.html.write_text(text, encoding="utf-8")


def _compare(given: argparse.Namespace, _extras: Extras) -> None:
    """Tell what differs between PACKAGE and OTHER: contract, sizes, kernels, weights, outputs.

    Where both take and give the same, they are run in turn on the same inputs and timed.
    """
    with PackageFile(given.package) as first, PackageFile(given.other) as second:
        result = compare.compare_files(first, second)
    if not (result.contract or given.data):
        models = [
            load_model(path, given.isa, given.threads, given.device)
            for path in (given.package, given.other)
        ]
        outputs, times = compare.compare_runs(models[0], models[1], _inputs(given), given.runs)
        result = replace(result, outputs=outputs, times=times)
    if given.json:
        print_json(result.to_json())
    else:
        print(compare.text(result), end="")


COMMANDS: dict[str, tuple[str, Command]] = {
    "inspect": ("Show what is in a package.", _inspect),
    "plan": ("Print a package's plan as JSON.", _plan),
    "run": ("Run a package once.", _run),
    "verify": ("Check a package on this machine.", _verify),
    "bench": ("Time a package.", _bench),
    "compare": ("Tell what differs between two packages.", _compare),
}
"""Name -> what the list of commands says, and the command, whose text is its help."""


def _inputs(given: argparse.Namespace) -> list[Any]:
    with PackageFile(given.package) as file:
        if given.inputs is not None:
            return load_inputs(file.plan, given.inputs)
        sizes = dict(size_given(text) for text in given.size)
        return random_inputs(file.plan, sizes, given.seed, golden_inputs(file))


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(program, allow_abbrev=False)
    _add_commands(parser)
    return parser


def parsers(program: str) -> dict[str, argparse.ArgumentParser]:
    """The parser of each command, by name: for its help."""
    return _add_commands(argparse.ArgumentParser(program))


def _add_commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    made = {}
    for name, (short, command) in COMMANDS.items():
        made[name] = commands.add_parser(
            name, help=short, description=command.__doc__, allow_abbrev=False
        )
        made[name].set_defaults(command=command)
        made[name].add_argument("package", type=Path, metavar="PACKAGE")
    for add in (_add_inspect, _add_run_options, _add_inputs, _add_verify, _add_bench, _add_compare):
        add(made)
    for name, one in made.items():
        if name != "plan":  # which is JSON
            one.add_argument("--json", action="store_true", help="print the result as JSON")
        one.add_argument("--debug", action="store_true", help="show tracebacks")
    return made


Parsers = dict[str, argparse.ArgumentParser]


def _add_inspect(made: Parsers) -> None:
    add = made["inspect"].add_argument
    add("--weights", action="store_true", help="list every weight")
    add("--target", help="show this program's kernels alone: cpu, cuda, cuda:sm_90")
    add("--checksums", action="store_true", help="compare every entry's bytes with its SHA-256")


def _add_run_options(made: Parsers) -> None:
    for name in ("run", "verify", "bench", "compare"):
        add = made[name].add_argument
        add(
            "--register",
            action="append",
            type=Path,
            default=[],
            metavar="FILE",
            help="a Python file that registers the model's custom operators, run first",
        )
        add("--device", help="where to run: cpu, cuda, cuda:1; default: cpu if it can")
        add("--isa", help="force an instruction set level, for example x86-64-v3")
        add("--threads", type=_at_least(1), metavar="N", help="threads to run with")


def _add_inputs(made: Parsers) -> None:
    for name in ("run", "bench", "compare"):
        add = made[name].add_argument
        add(
            "--inputs",
            type=Path,
            metavar="NPZ",
            help="a .npz file with one array for each input name; default: random by contract",
        )
        add("--seed", type=int, default=0, help="for random inputs")
        add(
            "--size",
            action="append",
            default=[],
            metavar="DIM=N",
            help="value of a dynamic dim, by label or symbol; may be repeated",
        )
    add = made["run"].add_argument
    add("-o", "--output", type=Path, metavar="NPZ", help="write the outputs to this .npz file")


def _add_verify(made: Parsers) -> None:
    add = made["verify"].add_argument
    add(
        "--key",
        action="append",
        type=Path,
        default=[],
        metavar="PUB",
        help="a public key (a .pub file of keygen) that must have signed it; may be repeated",
    )
    add(
        "--signatures",
        type=_at_least(0),
        default=0,
        metavar="N",
        help="how many of the keys must have signed; default: all",
    )


def _add_bench(made: Parsers) -> None:
    add = made["bench"].add_argument
    add("--runs", type=_at_least(1), default=200, metavar="N", help="timed runs")
    add("--kernels", type=_at_least(0), default=10, metavar="N", help="slowest kernels to list")
    add(
        "--against",
        type=Path,
        metavar="MODEL",
        help="the model file: its time in eager PyTorch (needs the compiler), runs alternating",
    )
    add(
        "--trace",
        type=Path,
        metavar="FILE",
        help="write a timeline of some more runs to this file, for ui.perfetto.dev",
    )
    add("--html", type=Path, metavar="FILE", help="write a page with charts (needs the compiler)")
    add("--sessions", type=_at_least(1), default=1, metavar="N", help="also time so many at once")


def _add_compare(made: Parsers) -> None:
    add = made["compare"].add_argument
    add("other", type=Path, metavar="OTHER")
    add("--data", action="store_true", help="compare what the files hold; run nothing")
    add("--runs", type=_at_least(1), default=50, metavar="N", help="timed runs of each")


def _at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least {least}")
        return int(text)

    return number
