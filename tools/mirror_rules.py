"""Tests mirror sources by name: the rule as data, and a check of it.

`tests/F/test_X.py` tests `aot/F/X.py` (or the folder `aot/F/X`), and its parts `X_part.py`. A test
of more than one source, and a source whose tests have another's name, stand in the tables below; a
row that is wrong or not needed any more is a breach too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.code_facts import ROOT, read_python

MIRRORED = (
    ("aot", "tests"),
    ("aot/backends/cpp/include/aot", "tests/backends/cpp"),
    ("runtime/aot_runtime", "tests/runtime"),
    ("tools", "tests/tools"),
    ("scripts", "tests/scripts"),
    ("tests", "tests"),  # what tests are made of is tested beside it
)
"""(folder of sources, folder of their tests), with all that is below."""

ENDINGS = ("", ".py", ".h")
"""Of a source: a folder or script, a module, a header for kernels."""

LARGE = 100
"""Lines above which a module of `aot` wants a test of its name: half the median that we allow. The
smaller ones are read and tested together with whoever calls them."""

EACH = ("aot/passes/", "aot/schedule/")
"""Where every module with a public function has one: a wrong rewrite is found by looking at what
this one makes, and by running that, not by the end of a build."""

SPANNING: Mapping[str, str] = {
    "tests/bindings/": "the crate and the addon of bindings/, through their own tests",
    "tests/conformance/": "every operator, on every backend",
    "tests/works/": "the workloads of benchmarks/works, and what a run writes of them",
    "tests/growth/": "the measures of growth in benchmarks/growth, and what they find",
    "tests/shapes/": "the random cases of benchmarks/shapes, and what a run writes of them",
    "tests/docs/": "the documents: blocks of the guides, names that they mention, the site",
    "tests/examples/": "the examples, packaged and run",
    "tests/models/": "architectures of four libraries, packaged and run",
    "tests/packaging/": "the measures of packaging in benchmarks/packaging, and what they find",
    "tests/scale/": "the large models of benchmarks/scale, and what serving them costs",
    "tests/programs/": "random programs, packaged and run",
    "tests/runtime/": "packages as users run them: the loader, and the C++ runtime below it",
    "tests/serve/": "the server of cpp/serve, through its clients",
    "tests/backends/cpp/tmpl/test_conv_gathered.py": "a way of conv.h, and what chooses it",
    "tests/backends/cpp/vec/test_math.py": "the headers math_*.h: one table of functions",
    "tests/backends/triton/test_by_size.py": "what all backends share, and the runtime",
    "tests/backends/triton/test_split_attention.py": "a pass, a template and its two kernels",
    "tests/backends/triton/test_template_attention_groups.py": "a template in two languages",
    "tests/backends/triton/test_template_attention_odd.py": "a template, and the assembler",
    "tests/backends/triton/test_template_conv_phases.py": "a template, and what fusion gives it",
    "tests/backends/triton/test_template_matmul_doubles.py": "a template in two languages",
    "tests/backends/triton/test_template_matmul_groups.py": "a template in two languages",
    "tests/lowering/test_guide.py": "docs/adding-an-op.md, followed",
    "tests/schedule/test_example.py": "the example of docs/architecture.md, followed",
    "tests/test_abi.py": "the headers of cpp/include, against those of the last release",
    "tests/test_failures.py": "every way in which a user's model, machine or disk can be wrong",
    "tests/test_readme.py": "README.md, followed",
}
"""Tests, or folders of tests, of more than one source -> what they test."""

THROUGH: Mapping[str, tuple[str, ...]] = {
    "tests/test_check.py": ("aot/blame.py",),
    "tests/conformance/test_rows.py": ("aot/lowering/",),
    "tests/backends/test_plain.py": ("aot/backends/base.py",),
    "tests/backends/cpp/test_build.py": ("aot/backends/cpp/toolchain.py",),
    "tests/backends/cpp/test_reduction.py": ("aot/backends/cpp/stage.py",),
    "tests/backends/cpp/test_template_conv.py": ("aot/backends/cpp/conv_parts.py",),
    "tests/backends/cpp/test_template_matmul.py": ("aot/backends/cpp/operands.py",),
    "tests/backends/cpp/test_values.py": (
        "aot/backends/cpp/indexing.py",
        "aot/backends/cpp/kernel.py",
        "aot/backends/cpp/tile.py",
    ),
    "tests/backends/cpp/tmpl/test_winograd.py": ("aot/backends/cpp/winograd_heuristic.py",),
    "tests/backends/triton/test_compile.py": (
        "aot/backends/triton/toolchain.py",
        "aot/backends/triton/workers.py",
    ),
    "tests/backends/triton/test_kernel.py": (
        "aot/backends/triton/backend.py",
        "aot/backends/triton/context.py",
        "aot/backends/triton/reduction.py",
        "aot/backends/triton/short_reduction.py",
        "aot/backends/triton/short_tile.py",
    ),
    "tests/backends/triton/test_online.py": ("aot/backends/triton/device/combining.py",),
    "tests/backends/triton/test_helpers.py": (
        "aot/backends/triton/device/loops.py",
        "aot/backends/triton/device/special.py",
    ),
    "tests/ir/templates/test_base.py": ("aot/ir/templates/builder.py",),
    "tests/backends/triton/test_template_matmul.py": ("aot/backends/triton/device/matmul.py",),
    "tests/backends/triton/test_template_argsort.py": ("aot/backends/triton/device/argsort.py",),
    "tests/backends/triton/test_template_scan.py": ("aot/backends/triton/device/scan.py",),
    "tests/backends/triton/test_template_recurrence.py": (
        "aot/backends/triton/device/recurrence.py",
    ),
    "tests/backends/triton/test_template_library.py": (
        "aot/backends/triton/device/linalg.py",
        "aot/backends/triton/device/orthogonal.py",
    ),
    "tests/backends/triton/test_template_attention.py": (
        "aot/backends/triton/attention_tile.py",
        "aot/backends/triton/device/attention.py",
    ),
    "tests/backends/triton/test_template_attention_groups.py": (
        "aot/backends/triton/device/attention_groups.py",
    ),
    "tests/backends/triton/test_template_matmul_doubles.py": (
        "aot/backends/triton/device/matmul_doubles.py",
    ),
    "tests/backends/triton/test_template_matmul_groups.py": (
        "aot/backends/triton/device/matmul_groups.py",
    ),
    "tests/backends/triton/test_template_conv.py": ("aot/backends/triton/device/conv.py",),
    "tests/backends/triton/test_template_conv_boxes.py": (
        "aot/backends/triton/device/conv_groups.py",
    ),
    "tests/backends/triton/test_template_resample_outer.py": (
        "aot/backends/triton/resample_ahead.py",
    ),
    "tests/backends/triton/test_template_resample.py": (
        "aot/backends/triton/resample_walk.py",
        "aot/backends/triton/template_resample2.py",
    ),
    "tests/backends/triton/test_user_kernel.py": (
        "aot/frontend/triton_source.py",
        "aot/frontend/user_kernels.py",
    ),
    "tests/frontend/test_capture.py": ("aot/frontend/source.py",),
    "tests/frontend/test_ingest.py": (
        "aot/frontend/inputs.py",
        "aot/frontend/nodes.py",
        "aot/frontend/places.py",
        "aot/frontend/sizes.py",
    ),
    "tests/frontend/test_true_loops.py": ("aot/frontend/turns.py",),
    "tests/frontend/test_measured.py": (
        "aot/frontend/measuring.py",
        "aot/frontend/size_numbers.py",
    ),
    "tests/lowering/test_uniques.py": ("aot/frontend/uniques.py",),
    "tests/ir/test_operations.py": ("aot/backends/triton/ops.py",),
    "tests/passes/test_join_templates.py": ("aot/ir/templates/resample2.py",),
    "tests/lowering/test_outline.py": ("aot/frontend/control.py",),
    "tests/lowering/test_special.py": ("aot/ir/special_loops.py",),
    "tests/ir/test_numpy_ops.py": ("aot/ir/special.py",),
    "tests/runtime/format/test_plan.py": (
        "aot/link/plan_check.py",
        "aot/link/program_check.py",
        "aot/link/steps_check.py",
    ),
    "tests/test_driver.py": ("aot/link/assemble.py", "aot/link/steps.py"),
    "tests/runtime/test_operators.py": ("aot/link/operator_library.py",),
    "tests/trust/test_signing.py": ("aot/trust_commands.py",),
}
"""Tests -> the large modules, or folders of them, that are tested here and by no test of their
name."""


@dataclass(frozen=True)
class Rules:
    """The tables, and the tree that they are about."""

    root: Path
    spanning: Mapping[str, str]
    through: Mapping[str, tuple[str, ...]]

    def breaches(self) -> Iterator[str]:
        """Everything that breaks the rule, as `path: sentence`."""
        tests = sorted(p.relative_to(self.root) for p in self.root.glob("tests/**/test_*.py"))
        unnamed = [test.as_posix() for test in tests if not self._has_source(test)]
        for test in unnamed:
            if not any(_covers(row, test) for row in self.spanning):
                yield f"{test}: no source has that name; see tools/mirror_rules.py"
        for row in self.spanning:
            if not (self.root / row).exists():
                yield f"{row}: is listed as spanning sources, and does not exist"
            elif not any(_covers(row, test) for test in unnamed):
                yield f"{row}: is listed as spanning sources, and is named after one"
        yield from self._untested()

    def _has_source(self, test: Path) -> bool:
        """True when one of the mirrored folders has what the test is named after."""
        name = test.stem.removeprefix("test_")
        return any(
            (self.root / source / test.parent.relative_to(folder) / (name + ending)).exists()
            for source, folder in MIRRORED
            if test.is_relative_to(folder)
            for ending in ENDINGS
        )

    def _untested(self) -> Iterator[str]:
        """Modules that want a test and have none, and rows about others."""
        modules = (p.relative_to(self.root).as_posix() for p in self.root.glob("aot/**/*.py"))
        wanting = [m for m in sorted(modules) if self._wants_test(m) and not self._has_test(m)]
        listed = [row for rows in self.through.values() for row in rows]
        for module in wanting:
            if module.startswith(EACH) or not any(_covers(row, module) for row in listed):
                yield f"{module}: there is no {_test_of(module)}; see tools/mirror_rules.py"
        for test, rows in self.through.items():
            if not (self.root / test).exists():
                yield f"{test}: is listed as a test of other modules, and does not exist"
            for row in rows:
                if not any(_covers(row, module) for module in wanting):
                    yield f"{row}: is listed below {test}, and needs no row"

    def _wants_test(self, module: str) -> bool:
        if module.endswith("__init__.py"):
            return False
        facts = read_python(self.root / module)
        if module.startswith(EACH):
            return any(function.public for function in facts.functions)
        return facts.lines > LARGE

    def _has_test(self, module: str) -> bool:
        """True with a test of its name, or of what its name says that it is a part of."""
        test = self.root / _test_of(module)
        words = test.stem.split("_")
        least = len(words) if module.startswith(EACH) else 2
        names = ("_".join(words[:count]) for count in range(least, len(words) + 1))
        return any(test.with_stem(name).exists() for name in names)


def _test_of(module: str) -> str:
    """Where the test of a module of `aot` is."""
    folder, _, name = module.rpartition("/")
    return f"tests{folder.removeprefix('aot')}/test_{name}"


def _covers(row: str, path: str) -> bool:
    """True when the row is the path, or a folder ("…/") above it."""
    return path == row or (row.endswith("/") and path.startswith(row))


OURS = Rules(ROOT, SPANNING, THROUGH)


def main() -> int:
    """Print what breaks the rule; 1 when something does."""
    found = list(OURS.breaches())
    sys.stdout.writelines(f"{line}\n" for line in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
