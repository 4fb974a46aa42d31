"""The command line: what it prints, where, and the exit code of every way to fail."""

import json
import re
import signal
import subprocess
import sys
import types
from dataclasses import replace
from pathlib import Path

import aot_runtime
import numpy as np
import pytest
from aot_runtime.tools import bench as bench_report
from aot_runtime.tools.failures import INTERRUPTED

import aot
from aot.__main__ import main as start
from aot.cli import run_command
from aot.errors import CompilerFailed, ExportError, PackageWriteError
from aot.options import CPU_LEVELS, STAGES, TUNED, BuildOptions, default_cache_dir
from tests.kernels import reference, write_kernels
from tests.report.samples import sample_report


class FakeDriver:
    """Stands in for the driver: remembers what it was asked, raises or reports."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, BuildOptions]] = []
        self.error: BaseException | None = None
        self.measured: tuple[str, ...] = ()

    def build(self, source: object, options: BuildOptions, observer, *, tune):
        self.asked.append((source, options))
        observer.stage_begin("capture")
        observer.stage_end("capture", None, 0.5)
        if self.error is not None:
            raise self.error
        return replace(sample_report(), measured=self.measured)


class FakeStopped(Exception):
    """As the driver's."""


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    fake = FakeDriver()
    module = types.ModuleType("aot.api")
    module.driver = types.SimpleNamespace(build=fake.build, Stopped=FakeStopped)
    module.tuning = types.SimpleNamespace(measured=None)
    monkeypatch.setitem(sys.modules, "aot.api", module)
    monkeypatch.setattr(aot, "api", module, raising=False)
    return fake


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    levels = CPU_LEVELS[: CPU_LEVELS.index(aot_runtime.cpu_isa()) + 1]
    return write_kernels(tmp_path_factory.mktemp("kernels"), dict.fromkeys(levels, "0"))


def test_short_form_is_build(driver: FakeDriver, capsys) -> None:
    assert run_command(["model.py", "-o", "m.pkg"]) == 0
    assert run_command(["build", "model.py", "-o", "m.pkg"]) == 0
    assert run_command(["-o", "m.pkg", "model.py"]) == 0
    sources = [source for source, _ in driver.asked]
    assert sources == [Path("model.py")] * 3
    assert {options.output for _, options in driver.asked} == {Path("m.pkg")}
    out = capsys.readouterr()
    assert out.out.count("sample.pkg: 1.23 MB, 2 kernels for cpu:x86-64-v3, cpu:x86-64-v4") == 3
    assert "[ 1/" in out.err
    assert "capture" in out.err


def test_defaults_of_build(driver: FakeDriver, tmp_path: Path) -> None:
    assert run_command(["somewhere/model.py"]) == 0
    (_, options) = driver.asked[0]
    assert options.output == Path("model.pkg")
    assert options.golden
    assert options.cache_dir is not None
    assert options.cache_dir != default_cache_dir({})


def test_options_reach_the_driver(driver: FakeDriver, tmp_path: Path) -> None:
    arguments = ["m.py", "--target", "cpu:x86-64-v3", "-j", "3", "--dump", str(tmp_path)]
    more = ["--no-cache", "--check", "--no-golden", "--cxx", "clang++", "--stop-after", "lower"]
    assert run_command([*arguments, *more]) == 0
    (_, options) = driver.asked[0]
    assert [str(target) for target in options.targets] == ["cpu:x86-64-v3"]
    assert (options.jobs, options.dump_dir, options.compiler) == (3, tmp_path, "clang++")
    assert options.output is None
    assert options.stop_after == "lower"
    assert options.verify
    assert not options.golden
    assert options.cache_dir is None


@pytest.mark.parametrize(
    ("given", "tried"), [((), 0), (("--tune",), TUNED), (("--tune", "20"), 20)]
)
def test_a_build_is_asked_to_measure(
    driver: FakeDriver, given: tuple[str, ...], tried: int
) -> None:
    assert run_command(["m.py", "--target", "cuda:sm_90", *given]) == 0
    ((_, options),) = driver.asked
    assert options.tune == tried


def test_what_was_measured_is_told(driver: FakeDriver, capsys) -> None:
    driver.measured = ("matmul 1x64x64x64 float16: rows=64, 2.0 µs",)
    assert run_command(["m.py"]) == 0
    assert "measured: matmul 1x64x64x64 float16: rows=64, 2.0 µs\n" in capsys.readouterr().out


def test_stopping_early_is_no_failure(driver: FakeDriver, capsys) -> None:
    driver.error = FakeStopped("lower")
    assert run_command(["m.py", "--stop-after", "lower"]) == 0
    assert "stopped after lower; no package was written" in capsys.readouterr().out
    assert run_command(["m.py", "--stop-after", "lower", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["timings"] == [
        {"stage": "capture", "seconds": 0.5, "passes": []}
    ]


def test_build_as_json_is_one_document(driver: FakeDriver, capsys) -> None:
    assert run_command(["m.py", "--json"]) == 0
    out = capsys.readouterr()
    assert json.loads(out.out)["programs"][0]["kernels"][1]["name"] == "k1_mm_gelu"
    assert out.err == ""


def test_explain_text_page_and_json(driver: FakeDriver, tmp_path: Path, capsys) -> None:
    assert run_command(["explain", "m.py"]) == 0
    assert "k0_add_sum (reduction)" in capsys.readouterr().out
    page = tmp_path / "page.html"
    assert run_command(["explain", "m.py", "--html", str(page)]) == 0
    assert "k1_mm_gelu" in page.read_text()
    capsys.readouterr()
    assert run_command(["explain", "m.py", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model"] == "sample"
    assert all(options.output is None for _, options in driver.asked)


@pytest.mark.parametrize(
    ("error", "code", "word"),
    [
        (ExportError("cannot trace", where="m.py:7"), 3, "error[EXPORT]: cannot trace"),
        (CompilerFailed(["g++"], "bad", Path("k.cc")), 4, "error[COMPILER_FAILED]"),
        (PackageWriteError("disk full", where="o.pkg"), 5, "where: o.pkg"),
        (ZeroDivisionError("oops"), 70, "error[INTERNAL]: ZeroDivisionError: oops"),
        (KeyboardInterrupt(), INTERRUPTED, "interrupted"),
    ],
)
def test_failures_have_their_exit_code_and_no_traceback(
    driver: FakeDriver, capsys, error: BaseException, code: int, word: str
) -> None:
    driver.error = error
    assert run_command(["m.py"]) == code
    out = capsys.readouterr()
    assert word in out.err
    assert "Traceback" not in out.err
    assert out.out == ""


def test_debug_adds_the_traceback(driver: FakeDriver, capsys) -> None:
    driver.error = ZeroDivisionError("oops")
    assert run_command(["m.py", "--debug"]) == 70
    assert "Traceback" in capsys.readouterr().err


def test_errors_as_json(driver: FakeDriver, capsys) -> None:
    driver.error = ExportError("cannot trace", where="m.py:7")
    assert run_command(["m.py", "--json"]) == 3
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["code"], error["where"], error["exit_code"]) == ("EXPORT", "m.py:7", 3)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["build"], "Missing argument"),
        (["m.py", "--no-such"], "No such option"),
        (["m.py", "--stop-after", "fly"], "'fly' is not one of"),
        (["m.py", "--target", "tpu"], "unknown device"),
        (["m.py", "-j", "0"], "0 is not in the range"),
        (["inspect"], "the following arguments are required: PACKAGE"),
        (["bench", "m.pkg", "--runs", "0"], "'0' is not a number of at least 1"),
    ],
)
def test_wrong_usage_exits_2(driver: FakeDriver, capsys, arguments: list[str], word: str) -> None:
    assert run_command(arguments) == 2
    assert word in capsys.readouterr().err


def test_help_names_every_command_and_stage(capsys) -> None:
    assert run_command(["--help"]) == 0
    text = capsys.readouterr().out
    for command in ("build", "run", "inspect", "explain", "verify", "bench", "ops"):
        assert f"\n  {command} " in text
    assert run_command(["build", "--help"]) == 0
    assert "|".join(STAGES[:2]) in capsys.readouterr().out


def test_inspect(package: Path, capsys) -> None:
    assert run_command(["inspect", str(package), "--weights", "--checksums"]) == 0
    text = capsys.readouterr().out
    assert "weights/w: float32[4], 16 B" in text
    assert "checksums: all entries" in text
    assert run_command(["inspect", str(package), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["programs"][0]["kernels"] == ["k0", "k1"]


def flipped(package: Path) -> bytes:
    """The package with another bit in its weights."""
    data = bytearray(package.read_bytes())
    data[data.rfind(np.array([1.0, -2.0, 0.5, 3.0], np.float32).tobytes())] ^= 1
    return bytes(data)


def test_inspect_finds_a_flipped_bit(package: Path, tmp_path: Path, capsys) -> None:
    damaged = tmp_path / "damaged.pkg"
    damaged.write_bytes(flipped(package))
    assert run_command(["inspect", str(damaged), "--checksums"]) == 5
    assert "weights/w" in capsys.readouterr().err


def test_run_random_by_size_and_from_a_file(package: Path, tmp_path: Path, capsys) -> None:
    assert run_command(["run", str(package), "--size", "batch=5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outputs"][0]["shape"] == [5, 4]
    x = np.linspace(-2, 2, 8, dtype=np.float32).reshape(2, 4)
    np.savez(tmp_path / "in.npz", x=x)
    result = tmp_path / "out.npz"
    arguments = ["run", str(package), "--inputs", str(tmp_path / "in.npz"), "-o", str(result)]
    assert run_command([*arguments, "--threads", "1", "--isa", "x86-64-v2"]) == 0
    np.testing.assert_array_equal(np.load(result)["output"], reference(x))


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (["--size", "depth=3"], 2, "no dynamic dim\n  what to do: Dynamic dims: batch.\n"),
        (["--size", "batch=65"], 2, "batch = 65 is not allowed"),
        (["--size", "batch"], 2, "--size wants DIM=N"),
        (["--inputs", "missing.npz"], 3, "cannot read inputs"),
        (["--isa", "x86-64-v9"], 5, "x86-64-v9"),
        (["--device", "cpu:1"], 5, "no device 'cpu:1'"),
        (["--device", "tpu"], 5, "no device 'tpu'"),
        (["--device", "cuda:x"], 3, "device 'cuda:x' must be a name"),
    ],
)
def test_wrong_runs(package: Path, capsys, arguments: list[str], code: int, word: str) -> None:
    assert run_command(["run", str(package), *arguments]) == code
    assert word in capsys.readouterr().err


def test_a_damaged_package_is_not_run(package: Path, tmp_path: Path, capsys) -> None:
    damaged = tmp_path / "damaged.pkg"
    damaged.write_bytes(flipped(package))
    assert run_command(["run", str(damaged)]) == 5
    assert "1 entry is not as written: weights/w" in capsys.readouterr().err


def test_files_of_a_run_that_are_none(package: Path, tmp_path: Path, capsys) -> None:
    assert run_command(["run", str(package), "-o", str(tmp_path)]) == 5
    assert "outputs cannot be written: Is a directory" in capsys.readouterr().err
    assert run_command(["run", str(package), "-o", str(tmp_path / "plain")]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["plain"]
    for path, word in ((__file__, "this is no .npz file"), (tmp_path, "Is a directory")):
        assert run_command(["run", str(package), "--inputs", str(path)]) == 3
        message = capsys.readouterr().err
        assert f"cannot read inputs: {word}" in message and "numpy.savez" in message


@pytest.mark.parametrize(
    ("arrays", "word"),
    [
        ({"z": np.zeros((2, 4), np.float32)}, "no array for x; no input is called z"),
        ({"x": np.zeros((2, 5), np.float32)}, "x"),
        ({"x": np.zeros((2, 4), np.float64)}, "float32"),
        ({"x": np.zeros((2,), np.float32)}, "x"),
    ],
)
def test_wrong_inputs_are_named(
    package: Path, tmp_path: Path, capsys, arrays: dict[str, np.ndarray], word: str
) -> None:
    np.savez(tmp_path / "in.npz", **arrays)
    assert run_command(["run", str(package), "--inputs", str(tmp_path / "in.npz")]) == 3
    assert word in capsys.readouterr().err


def test_verify_runs_every_level(package: Path, capsys) -> None:
    assert run_command(["verify", str(package), "--json"]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    levels = CPU_LEVELS[: CPU_LEVELS.index(aot_runtime.cpu_isa()) + 1]
    assert [result["isa"] for result in results] == list(levels)
    assert all(result["ok"] for result in results)


@pytest.mark.skipif(aot_runtime.cpu_isa() == CPU_LEVELS[0], reason="needs two levels")
def test_verify_names_the_first_wrong_kernel(tmp_path: Path, capsys) -> None:
    wrong = write_kernels(tmp_path, {"x86-64-v2": "0", "x86-64-v3": "0.25f"})
    assert run_command(["verify", str(wrong)]) == 1
    out = capsys.readouterr()
    assert "x86-64-v2 set 0 output: ok" in out.err
    assert "x86-64-v3 set 0 output: WRONG, error 0.25" in out.err
    assert "first wrong: k1 (model.py:4 (aten.relu.default))" in out.err
    assert "error[VERIFICATION_FAILED]: 1 of 2 outputs differ" in out.err


def test_verify_when_every_level_is_wrong(tmp_path: Path, capsys) -> None:
    wrong = write_kernels(tmp_path, {"x86-64-v2": "0.25f"})
    assert run_command(["verify", str(wrong), "--json"]) == 1
    shown = capsys.readouterr()
    error = json.loads(shown.out)["error"]
    assert error["code"] == "VERIFICATION_FAILED"
    assert [(r["ok"], r["blame"]) for r in error["results"]] == [(False, "")]
    assert "If no level is right" in shown.err


@pytest.mark.parametrize("command", ["run", "verify", "bench"])
def test_a_device_that_the_package_lacks(package: Path, capsys, command: str) -> None:
    assert run_command([command, str(package), "--device", "cpu"]) == 0
    capsys.readouterr()
    assert run_command([command, str(package), "--device", "cuda:1"]) == 5
    message = capsys.readouterr().err
    assert "the package has nothing for device 'cuda': it was built for cpu (x86-64-v2" in message


def test_inspect_of_one_program(package: Path, capsys) -> None:
    assert run_command(["inspect", str(package), "--target", "cpu"]) == 0
    assert "runs on cpu" in capsys.readouterr().out
    assert run_command(["inspect", str(package), "--target", "cuda:sm_90", "--json"]) == 2
    assert "It has cpu." in capsys.readouterr().err


def test_verify_without_golden_values(tmp_path: Path, capsys) -> None:
    bare = write_kernels(tmp_path, {"x86-64-v2": "0"}, golden=False)
    assert run_command(["verify", str(bare)]) == 3
    assert "without --no-golden" in capsys.readouterr().err


def test_bench(package: Path, capsys) -> None:
    assert run_command(["bench", str(package), "--runs", "5", "--threads", "1"]) == 0
    text = capsys.readouterr().out
    assert "1 thread\n" in text
    assert "(5 runs)" in text
    assert "model.py:4" in text
    assert run_command(["bench", str(package), "--runs", "5", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert {kernel["kernel"] for kernel in result["kernels"]} == {"k0", "k1"}


def test_the_time_of_kernels_is_of_the_runs_that_nothing_interrupted(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def profile(model: object, inputs: object, runs: int) -> list[aot_runtime.StepTime]:
        return [aot_runtime.StepTime("k0", "m.py:1", runs, 10**9, 2000)] * 2

    monkeypatch.setattr(bench_report, "profile", profile)
    result = bench_report.measure(package, None, 1, [np.zeros((2, 4), np.float32)], 5)
    assert [kernel.seconds for kernel in result.kernels] == [pytest.approx(4e-6)]
    told = replace(result, percentiles={50: 1e-3}, rival={50: 1.0})
    text = bench_report.text(told, 1)
    assert "ours takes 0.001 of its p50" in text and "others used this machine" not in text
    busy = bench_report.text(replace(result, percentiles={50: 1e-6}), 1)
    assert "which is more than the latency above: others used this machine" in busy


def test_bench_writes_a_page(package: Path, tmp_path: Path, capsys) -> None:
    page = tmp_path / "page.html"
    assert run_command(["bench", str(package), "--runs", "2", "--html", str(page)]) == 0
    assert 'data-chart="timeline"' in page.read_text()
    assert "latency" in capsys.readouterr().out


def test_bench_of_several_sessions(
    package: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aot_runtime.tools.throughput.ROUND_SECONDS", 0.01)
    arguments = ["bench", str(package), "--runs", "3", "--sessions", "3"]
    assert run_command(arguments) == 0
    out = capsys.readouterr().out
    assert re.search(
        r"throughput [\d,]+ runs/s of 3 sessions with 1 thread each: [\d.]+ times", out
    )
    assert run_command([*arguments, "--threads", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["throughput"]
    assert (found["sessions"], found["threads"]) == (3, 2)
    assert found["alone"] > 0 and found["together"] > 0


def test_bench_against_eager(package: Path, tmp_path: Path, capsys) -> None:
    model = tmp_path / "model.py"
    model.write_text(
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return (x * torch.tensor([1.0, -2.0, 0.5, 3.0])).relu()\n"
        "model = Net()\nexample_inputs = (torch.ones(3, 4),)\n"
    )
    arguments = ["bench", str(package), "--runs", "3", "--against", str(model)]
    assert run_command(arguments) == 0
    assert "of its p50" in capsys.readouterr().out
    model.write_text("import torch\nmodel = torch.nn.Linear(4, 2)\nexample_inputs = ()\n")
    assert run_command(arguments) == 3


def test_ops_are_listed(capsys) -> None:
    assert run_command(["ops", "--json"]) == 0
    names = json.loads(capsys.readouterr().out)
    assert "aten.add.Tensor" in names
    assert names == sorted(names)


def test_the_table_of_operators_is_printed(capsys) -> None:
    assert run_command(["ops", "--table", "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert table["operators"]["add"]["float32"]["cpu"][0] > 0
    assert run_command(["ops", "--table"]) == 0
    assert "refused" in capsys.readouterr().out


def test_inspecting_needs_no_torch(package: Path) -> None:
    script = (
        "import sys; from aot.cli import run_command; "
        f"code = run_command(['inspect', {str(package)!r}]); "
        "sys.exit(code or ('torch' in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_termination_is_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(sys, "argv", ["aot-package", "--help"])
    from aot import cli

    try:
        with pytest.raises(SystemExit):
            cli.main()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


BLOCKED = """
import sys
sys.modules.update(dict.fromkeys(sys.argv.pop(1).split(",")))  # importing them fails
from aot.__main__ import main
main()
"""


def without(packages: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """The command where packages of others are not installed."""
    command = [sys.executable, "-c", BLOCKED, packages, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_an_interrupt_while_the_compiler_is_imported_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["aot-package", "m.py"])
    monkeypatch.setattr("importlib.import_module", interrupted)
    with pytest.raises(SystemExit) as end:
        start()
    assert end.value.code == 130
    assert capsys.readouterr().err == "interrupted; nothing was changed\n"


ENDING = """
import atexit, sys
from aot import __main__
class Held:
    def __del__(self):
        print("taken apart")
held = Held()
def main(*given):
    atexit.register(print, "told to end")
    what = sys.argv[1]
    if what == "raise":
        raise ValueError(what)
    sys.exit(int(what) if what.isdigit() else None if what == "none" else what)
__main__.main = main
__main__.program()
"""


@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        ("0", 0, ""),
        ("3", 3, ""),
        ("none", 0, ""),
        ("words", 1, "words"),
        ("raise", 1, "ValueError"),
    ],
)
def test_the_process_ends_with_its_status_and_is_not_taken_apart(
    how: str, code: int, said: str
) -> None:
    command = [sys.executable, "-c", ENDING, how]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (code, "told to end\n")
    assert said in done.stderr


def test_what_is_missing_is_told_in_one_line() -> None:
    blocked = "click,rich,jinja2,sympy,ml_dtypes,torch,safetensors"
    done = without(blocked, "--version")
    assert (done.returncode, done.stdout) == (0, f"aot-package, version {aot.__version__}\n")
    done = without(blocked, "inspect", "m.pkg")
    assert done.returncode == 4
    assert done.stderr.startswith("error[TOOLCHAIN_MISSING]: the compiler needs ")
    assert "there is `aot-runtime`" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_commands_about_packages_need_no_torch(package: Path, tmp_path: Path) -> None:
    for arguments in (["inspect"], ["plan"], ["run"], ["verify"], ["bench", "--runs", "2"]):
        command, *rest = arguments
        done = without(
            "torch,safetensors,triton,cryptography,bokeh,jinja2", command, package, *rest
        )
        assert (done.returncode, done.stderr) == (0, "")
    done = without("torch,safetensors", "model.py")
    assert done.returncode == 4
    assert "this command needs torch" in done.stderr
    done = without("bokeh", "bench", package, "--runs", "2", "--html", tmp_path / "page.html")
    assert done.returncode == 4
    assert "this command needs bokeh" in done.stderr


def test_the_version_is_one() -> None:
    assert aot.__version__ == aot_runtime.__version__
    assert (Path(aot.__file__).parent / "py.typed").exists()


def test_places_that_cannot_be_written_are_no_bug_of_ours(
    driver: FakeDriver, package: Path, tmp_path: Path, capsys
) -> None:
    (tmp_path / "file").touch()
    nowhere = tmp_path / "file" / "below"
    for arguments, option in (
        (["explain", "m.py", "--html", str(nowhere)], "--html"),
        (["run", str(package), "-o", str(nowhere)], "-o"),
        (["bench", str(package), "--runs", "1", "--trace", str(nowhere)], "--trace"),
        (["m.py", "--dump", str(nowhere)], "--dump"),
    ):
        assert run_command(arguments) == 5, arguments
        message = capsys.readouterr().err
        assert "error[PACKAGE_WRITE]" in message
        assert f"Choose another path with {option}." in message


def test_a_misspelt_command_is_no_model(driver: FakeDriver, tmp_path: Path, capsys) -> None:
    assert run_command(["insepct", "m.pkg"]) == 2
    assert "no command or file 'insepct'. Did you mean 'inspect'?" in capsys.readouterr().err
    assert run_command(["deploy", "m.pkg"]) == 2
    assert "no command or file 'deploy'. Commands: build, explain," in capsys.readouterr().err
