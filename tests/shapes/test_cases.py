"""The cases of a seed: the same again, of all kinds, within their scale; a dozen of them run."""

import re
from collections import Counter
from pathlib import Path

import aot_runtime
import pytest
import torch

from aot.frontend.weights import to_array
from benchmarks.processes import Settings
from benchmarks.shapes.attention import HEADS
from benchmarks.shapes.case import SCALES, SHORT, Case, Numbers
from benchmarks.shapes.cases import CYCLE, FAMILIES, case_at, family_at, name_of, place_of
from benchmarks.shapes.convolutions import KINDS
from benchmarks.shapes.measure import compared, package_case, wrong_of
from benchmarks.shapes.rows import NORMS, REDUCED, SEARCHED
from tests.comparing import complaint
from tests.settings import level, seeded

MANY = 1500
DEVICES = ("cpu", "cuda")


@pytest.fixture(scope="module")
def texts() -> dict[str, list[str]]:
    """The texts of many cases, by family."""
    found: dict[str, list[str]] = {family: [] for family in FAMILIES}
    for index in range(MANY):
        found[family_at(index)].append(case_at(seeded(7), index, "cpu").text)
    return found


@pytest.mark.parametrize("device", SCALES)
def test_a_place_has_the_same_case_again_and_not_for_another_seed(device: str) -> None:
    first, again, other = (
        [case_at(seed, index, device).text for index in range(44)] for seed in (3, 3, 4)
    )
    assert first == again
    assert sum(a == b for a, b in zip(first, other, strict=True)) < 3


def test_inputs_are_the_same_again() -> None:
    for index in range(len(CYCLE)):
        case = case_at(3, index, "tests")
        (module, inputs), (same, again) = (case.build("cpu", index) for _ in range(2))
        for a, b in zip(inputs, again, strict=True):
            assert torch.equal(a, b)
            assert a.stride() == b.stride()
        for name, value in module.state_dict().items():
            assert torch.equal(value, same.state_dict()[name])


def test_every_run_of_a_cycle_has_all_families() -> None:
    assert set(CYCLE) == set(FAMILIES)
    assert Counter(family_at(k) for k in range(5, 5 + len(CYCLE))) == Counter(CYCLE)


@pytest.mark.parametrize(
    ("family", "words"),
    [
        ("linear", ("linear", "forward", "transposed", "mlp", "swiglu")),
        ("batched", ("bmm NN", "bmm TN", "bmm NT", "baddbmm")),
        ("attention", ("causal", "mask", "bias", *(f"head {head}" for head in HEADS))),
        ("convolution", (*KINDS, "conv1d", "conv2d", "conv3d", "channels last", "stride 2")),
        ("rows", (*REDUCED, *NORMS, *SEARCHED)),
    ],
)
def test_all_kinds_and_types_are_drawn(
    texts: dict[str, list[str]], family: str, words: tuple[str, ...]
) -> None:
    for word in (*words, *SHORT.values()):
        assert any(re.search(rf"\b{word}\b", text) for text in texts[family]), word


def test_odd_extents_are_drawn(texts: dict[str, list[str]]) -> None:
    products = [re.findall(r"\d+", text.split()[2]) for text in texts["linear"]]
    odd = sum(any(int(n) % 2 for n in sizes) for sizes in products)
    assert len(products) / 5 < odd < len(products)


@pytest.mark.parametrize("device", DEVICES)
def test_cases_have_enough_work_and_not_too_much(device: str) -> None:
    scale = SCALES[device]
    for index in range(200):
        work = case_at(seeded(9), index, device).work
        assert scale.least <= work <= 40 * scale.work, case_at(seeded(9), index, device).text


def test_extents_are_halved_until_they_fit_and_stay_odd() -> None:
    numbers = Numbers("0", SCALES["cpu"])
    assert numbers.fit((1001, 64), lambda a, b: a * b, 9000) == [125, 64]
    assert numbers.fit((1, 1), lambda a, b: 5, 3) == [1, 1]


def test_names_lead_to_their_places() -> None:
    assert place_of(name_of(20261123, 17)) == (20261123, 17)


def test_examples_are_smaller_where_extents_are_free() -> None:
    x, y = torch.randn(2, 16, 40).transpose(1, 2), torch.randn(3, 40)
    case = Case("", torch.float32, 0.0, lambda: None, (("", "n", "m"), ("few", "n")), {"m": 5})
    (a, b), (dims, others) = case.example((x, y), 8)
    assert a.shape == (2, 5, 5) and b.shape == (2, 5)
    assert a.stride(1) < a.stride(2), "in the order of the input's"
    assert dims[1] is others[1] and dims[2].min == 5
    assert str(dims[1].max) == "int_oo", "as torch.export has it where nobody says more"
    assert torch.equal(a, x[:, :5, :5])


@pytest.mark.parametrize("smaller", [0, 4], ids=["static", "dynamic"])
@pytest.mark.parametrize("index", range(len(CYCLE) + 1), ids=lambda k: f"{k} {family_at(k)}")
def test_a_dozen_small_ones_keep_the_error_rule(index: int, smaller: int, tmp_path: Path) -> None:
    case = case_at(seeded(1), index, "tests")
    with torch.no_grad():
        module, inputs = case.build("cpu", index)
        path = tmp_path / "case.pkg"
        settings = Settings("cpu", f"cpu:{level()}", tmp_path, 1.0, 1.0, 1.0, smaller=smaller)
        package_case(case, module, inputs, path, settings)
        model = aot_runtime.load(path, num_threads=1)
        calls = {"eager": lambda: module(*inputs), "ours": lambda: model(*inputs)}
        events = list(compared(index, calls, module, inputs))
    assert [event.what for event in events] == ["eager error", "ours error"], events[-1].text


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64, torch.bfloat16, torch.int64))
def test_tensors_are_held_to_the_rule_of_arrays(dtype: torch.dtype) -> None:
    """Where results lie on a GPU they are not fetched to be compared."""
    generator = torch.Generator().manual_seed(seeded())
    exact = torch.randn(64, generator=generator, dtype=torch.float64)
    exact[3], exact[5] = float("inf"), float("nan")
    if dtype == torch.int64:
        exact = (exact.nan_to_num(posinf=0.0) * 9).to(dtype)
    eager = exact.to(dtype)
    off, gone, nothing = eager.clone(), eager.clone(), eager.clone()
    off[7] += 1
    gone[5], nothing[9] = 0, 0 if dtype == torch.int64 else float("nan")
    for ours in (eager, off, gone, nothing, eager[1:], eager.to(torch.float16)):
        arrays = [to_array(x) for x in (ours, eager, exact)]
        floor = 1e-12 if dtype == torch.float64 else None
        assert bool(wrong_of(ours, eager, exact)) == bool(complaint(*arrays, floor)), ours
