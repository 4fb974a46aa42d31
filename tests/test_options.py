"""Options: values without meaning are refused at once; the environment gives defaults only."""

from pathlib import Path

import pytest

from aot import options
from aot.errors import UsageError
from aot.options import CPU_LEVELS, BuildOptions, Target, merge_targets, parse_target

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("text", "archs"),
    [
        ("cpu", CPU_LEVELS),
        ("cpu:", CPU_LEVELS),
        ("cpu:x86-64-v3", ("x86-64-v3",)),
        ("cpu:x86-64-v4+x86-64-v2", ("x86-64-v2", "x86-64-v4")),
        ("cuda:sm_90", ("sm_90",)),
        ("cuda:sm_90+sm_80+sm_90", ("sm_80", "sm_90")),
        ("cuda:sm_120+sm_100+sm_89+sm_86", ("sm_86", "sm_89", "sm_100", "sm_120")),
    ],
)
def test_targets(text: str, archs: tuple[str, ...]) -> None:
    assert parse_target(text) == Target(text.partition(":")[0], archs)
    assert parse_target(str(parse_target(text))) == parse_target(text)


@pytest.mark.parametrize(
    ("text", "problem", "known"),
    [
        ("tpu", "unknown device 'tpu'", "Devices: cpu, cuda"),
        ("", "unknown device ''", "Devices: cpu, cuda"),
        ("sm_90", "unknown device 'sm_90'", "Devices: cpu, cuda"),
        ("cpu:x86-64-v9", "unknown architecture 'x86-64-v9'", "x86-64-v2, x86-64-v3, x86-64-v4"),
        ("cpu:sm_90", "unknown architecture 'sm_90'", "x86-64-v2, x86-64-v3, x86-64-v4"),
        ("cuda:sm_90+sm_91", "unknown architecture 'sm_91'", "sm_80, sm_86, sm_89, sm_90"),
        ("cuda:", "'cuda:' names no architecture", "sm_100, sm_120"),
        ("cuda", "'cuda' names no architecture", "sm_100, sm_120"),
    ],
)
def test_unknown_targets_are_refused(text: str, problem: str, known: str) -> None:
    with pytest.raises(UsageError, match=problem) as raised:
        parse_target(text)
    assert known in raised.value.advice


def test_targets_merge() -> None:
    v2, v4 = parse_target("cpu:x86-64-v2"), parse_target("cpu:x86-64-v4")
    assert merge_targets([v4, v2, v4]) == (Target("cpu", ("x86-64-v2", "x86-64-v4")),)
    assert merge_targets([]) == ()
    gpus = [parse_target("cuda:sm_90"), v4, parse_target("cuda:sm_80")]
    assert merge_targets(gpus) == (
        Target("cpu", ("x86-64-v4",)),
        Target("cuda", ("sm_80", "sm_90")),
    )


def test_unknown_stage_is_refused() -> None:
    with pytest.raises(UsageError, match="no stage 'fly'") as raised:
        BuildOptions(stop_after="fly")
    assert "capture, ingest" in raised.value.advice


def test_jobs_and_targets_are_checked() -> None:
    with pytest.raises(UsageError, match="at least 1"):
        BuildOptions(jobs=0)
    with pytest.raises(UsageError, match="no target"):
        BuildOptions(targets=())


def test_environment_gives_defaults(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AOT_JOBS", "3")
    monkeypatch.setenv("AOT_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("CXX", "some-c++")
    made = options.from_environment(output=tmp_path / "o.pkg", dump_dir=None)
    assert (made.jobs, made.cache_dir, made.compiler) == (3, tmp_path, "some-c++")
    assert options.from_environment(jobs=7).jobs == 7
    assert made.exact_jobs
    again = options.without_cache(made)
    assert (again.cache_dir, again.headers_dir) == (None, tmp_path)


def test_only_a_number_of_compilers_that_somebody_said_is_exact(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AOT_JOBS", raising=False)
    assert not options.from_environment().exact_jobs
    assert not options.from_environment(jobs=None).exact_jobs
    assert options.from_environment(jobs=2).exact_jobs
    monkeypatch.setenv("AOT_JOBS", "2")
    assert options.from_environment().exact_jobs


def test_bad_environment_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOT_JOBS", "many")
    with pytest.raises(UsageError, match="AOT_JOBS must be a positive integer, not 'many'"):
        options.from_environment()


def test_default_cache_follows_the_standard() -> None:
    assert options.default_cache_dir({"XDG_CACHE_HOME": "/x"}) == Path("/x/aot-package")
    assert options.default_cache_dir({}).parts[-2:] == (".cache", "aot-package")


def test_every_variable_is_documented() -> None:
    document = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    for name, meaning in options.ENVIRONMENT.items():
        assert f"| `{name}` | {meaning} |" in document


def test_weights_do_not_go_to_the_package_itself(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"'m\.pkg', which is the package itself") as caught:
        BuildOptions(output=tmp_path / "m.pkg", weights_file="m.pkg")
    assert "another name" in caught.value.advice
