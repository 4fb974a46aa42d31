"""Loading and calling a package from Python: values, kinds of arrays, structure, descriptions."""

import inspect
from collections.abc import Iterator
from pathlib import Path

import aot_runtime
import numpy as np
import pytest

from tests.runtime.make_package import (
    Package,
    chain_package,
    copy_package,
    expected_small,
    gather_package,
    small_package,
    tensor,
)
from tests.settings import seeded


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[aot_runtime.Model]:
    path = small_package().write(tmp_path_factory.mktemp("small") / "small.pkg")
    yield aot_runtime.load(path)


def rows(count: int, width: int = 8) -> np.ndarray:
    return np.random.default_rng(seeded(count)).standard_normal((count, width), np.float32)


@pytest.mark.parametrize("count", [1, 64, 0, 2, 63, 0, 1])
def test_all_batches_of_the_range(small: aot_runtime.Model, count: int) -> None:
    x = rows(count)
    result = small(x)
    y, total = expected_small(x)
    np.testing.assert_array_equal(result["y"], y)
    np.testing.assert_allclose(result["rest"][0], total, rtol=1e-5, atol=1e-5)
    assert result["y"].shape == (count, 8)


def test_the_models_own_structure_comes_back(small: aot_runtime.Model) -> None:
    result = small(x=rows(2), mode="plain")
    assert list(result) == ["y", "rest"]
    assert isinstance(result["rest"], tuple)
    assert result["rest"][1] == [7]


def test_descriptions(small: aot_runtime.Model) -> None:
    (x,) = small.inputs
    assert (x.name, x.dtype, x.shape) == ("x", "float32", ("batch", 8))
    assert x.dims[0] == aot_runtime.Dim(None, 0, 64, 1, "batch")
    assert [o.name for o in small.outputs] == ["y", "total"]
    assert small.plan["model"] == "small"
    assert small.isa == "x86-64-v2"
    assert repr(small) == "<aot_runtime.Model small(x, *, mode='plain') on x86-64-v2>"
    assert small.num_threads >= 1


def test_entries_are_views_of_the_file(small: aot_runtime.Model) -> None:
    assert "weights/bias" in small.entries
    bias = small.entry("weights/bias")
    np.testing.assert_array_equal(bias, np.arange(8, dtype=np.float32))
    assert not bias.flags.writeable
    with pytest.raises(aot_runtime.NotFound, match="no entry 'weights/none'"):
        small.entry("weights/none")


@pytest.mark.parametrize(
    "layout", ["transposed", "reversed", "every other", "misaligned", "read-only"]
)
def test_inputs_of_any_layout(small: aot_runtime.Model, layout: str) -> None:
    base = rows(12, 16)
    if layout == "transposed":
        x = np.asfortranarray(base[:, :8])
    elif layout == "reversed":
        x = base[::-1, 7::-1]
    elif layout == "every other":
        x = base[::3, ::2]
    elif layout == "misaligned":
        x = np.frombuffer(b"?" + base[:, :8].tobytes(), np.float32, offset=1).reshape(12, 8)
    else:
        x = base[:, :8].copy()
        x.flags.writeable = False
    before = x.copy()
    np.testing.assert_array_equal(small(x)["y"], expected_small(before)[0])
    np.testing.assert_array_equal(x, before)


def test_outputs_are_writable_and_private(small: aot_runtime.Model) -> None:
    first = small(rows(3))["y"]
    kept = first.copy()
    second = small(rows(4))["y"]
    second[:] = 0
    np.testing.assert_array_equal(first, kept)
    assert not np.shares_memory(first, second)


def test_outputs_outlive_the_model(tmp_path: Path) -> None:
    model = aot_runtime.load(small_package().write(tmp_path / "m.pkg"))
    x = rows(5)
    result = model(x)
    del model
    np.testing.assert_array_equal(result["y"], expected_small(x)[0])


def test_output_memory_is_recycled(small: aot_runtime.Model) -> None:
    x = rows(7)
    addresses = {small(x)["y"].ctypes.data for _ in range(10)}
    assert len(addresses) == 1


@pytest.mark.parametrize(
    "dtype",
    ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"],
)
def test_every_element_type(tmp_path: Path, dtype: str) -> None:
    model = aot_runtime.load(copy_package(dtype, [3, 5], [5, 1]).write(tmp_path / "m.pkg"))
    x = (np.arange(15).reshape(3, 5) % 2).astype(dtype)
    result = model(x)
    assert result.dtype == x.dtype
    np.testing.assert_array_equal(result, x)


def test_bfloat16_through_ml_dtypes(tmp_path: Path) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    model = aot_runtime.load(copy_package("bfloat16", [4], [1]).write(tmp_path / "m.pkg"))
    x = np.array([1, -2, 0.5, 3e38], ml_dtypes.bfloat16)
    result = model(x)
    assert result.dtype == x.dtype
    np.testing.assert_array_equal(result.view(np.uint16), x.view(np.uint16))


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("float64", 0.1),
        ("float32", 3),
        ("float16", 1.0009765625),
        ("float16", 65504),
        ("float16", 6e-8),
        ("float16", 1e-5),
        ("int64", -(2**62)),
        ("int32", 2**31 - 1),
        ("int8", -128),
        ("uint8", 255),
        ("bool", True),
    ],
)
def test_python_numbers(tmp_path: Path, dtype: str, value: float) -> None:
    model = aot_runtime.load(copy_package(dtype, [], []).write(tmp_path / "m.pkg"))
    result = model(value)
    assert result.shape == ()
    assert result == np.array(value).astype(dtype)


@pytest.mark.parametrize("value", [0.0, -1.5, 2.0**-24, 3e-8, 65519.9, 65520.0, -1e30, 1 / 3])
def test_float16_numbers_round_as_numpy_does(tmp_path: Path, value: float) -> None:
    model = aot_runtime.load(copy_package("float16", [], []).write(tmp_path / "m.pkg"))
    with np.errstate(over="ignore"):
        assert model(value).view(np.uint16) == np.float16(value).view(np.uint16)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int8", 128),
        ("uint8", -1),
        ("int64", 2**63),
        ("int32", 1.0),
        ("bool", 1),
        ("float32", True),
    ],
)
def test_numbers_that_do_not_fit(tmp_path: Path, dtype: str, value: float) -> None:
    model = aot_runtime.load(copy_package(dtype, [], []).write(tmp_path / "m.pkg"))
    with pytest.raises(aot_runtime.InvalidArgument, match=f"which {dtype} does not hold"):
        model(value)


def test_outputs_in_the_plans_layout(tmp_path: Path) -> None:
    model = aot_runtime.load(copy_package("float32", [2, 3, 4], [12, 1, 3]).write(tmp_path / "m"))
    x = rows(6, 4).reshape(2, 3, 4)
    result = model(x)
    assert result.strides == (48, 4, 12)
    np.testing.assert_array_equal(result, x)


def test_many_steps_in_a_row(tmp_path: Path) -> None:
    model = aot_runtime.load(chain_package(40).write(tmp_path / "m.pkg"))
    np.testing.assert_array_equal(model(np.zeros((8, 16), np.float32)), np.full((8, 16), 40.0))


def test_sessions_share_the_package(small: aot_runtime.Model) -> None:
    other = small.session(num_threads=2)
    assert other.num_threads == 2
    x = rows(6)
    np.testing.assert_array_equal(other(x)["y"], small(x)["y"])
    assert other.entry("weights/bias").ctypes.data == small.entry("weights/bias").ctypes.data


def test_profile_counts_every_step(small: aot_runtime.Model) -> None:
    times = small.profile(rows(4), runs=5)
    assert [t.kernel for t in times] == ["add_bias", "scale", "row_sum"]
    assert [t.calls for t in times] == [5, 5, 5]
    assert times[0].origin == "small.py:3 aten.add.Tensor"
    assert all(0 < t.median <= t.nanoseconds for t in times)


def test_observers_see_intermediate_values(small: aot_runtime.Model) -> None:
    seen: dict[tuple[int, int], bytes] = {}
    x = rows(3)
    result = small.run_observed(lambda step, buffer, data: seen.update({(step, buffer): data}), x)
    assert sorted(seen) == [(0, 0), (0, 1), (0, 3), (1, 2), (1, 3), (1, 4), (2, 4), (2, 5)]
    total = np.frombuffer(seen[0, 3], np.float32).reshape(3, 8)
    np.testing.assert_array_equal(total, x + np.arange(8, dtype=np.float32))
    np.testing.assert_array_equal(result["y"], 2 * total)


def test_an_observer_may_raise(small: aot_runtime.Model) -> None:
    def stop(step: int, buffer: int, data: bytes) -> None:
        raise KeyError(step, buffer, len(data))

    with pytest.raises(KeyError, match="0, 0, 96"):
        small.run_observed(stop, rows(3))
    small(rows(3))


def test_verify_on_load(tmp_path: Path) -> None:
    package = small_package()
    aot_runtime.load(package.write(tmp_path / "good.pkg"), verify=True)
    package.entries[0].data = b"\1" + package.entries[0].data[1:]
    path = package.write(tmp_path / "bad.pkg")
    aot_runtime.load(path)
    with pytest.raises(aot_runtime.CorruptPackage, match="checksum of 'weights/bias'"):
        aot_runtime.load(path, verify=True)


# ---------------------------------------------------------------- signatures


def two_inputs(signature: dict[str, object]) -> Package:
    """A package with inputs a and b and outputs a and b, both float32 [2]."""
    package = copy_package("float32", [2], [1])
    plan = package.plan
    plan["inputs"].append(tensor("b", [2], [1]))
    plan["outputs"].append(tensor("b", [2], [1]))
    program = package.program
    program["outputs"].append(3)
    program["buffers"] += [
        {"name": "b", "dtype": "float32", "bytes": 8, "storage": {"kind": "input", "index": 1}},
        {"name": "o", "dtype": "float32", "bytes": 8, "storage": {"kind": "output", "index": 1}},
    ]
    program["steps"].append({**program["steps"][0], "buffers": [2, 3]})
    plan["signature"] = signature
    return package


NESTED = {
    "parameters": [
        {
            "name": "pair",
            "kind": "positional",
            "tree": {"tuple": [{"input": 1}, {"dict": [["k", {"input": 0}]]}]},
        },
        {"name": "flag", "kind": "positional", "tree": {"constant": True}},
        {"name": "extra", "kind": "keyword", "tree": {"list": [{"constant": None}]}},
    ],
    "result": {
        "list": [
            {"output": 1},
            {"tuple": [{"output": 0}, {"output": 1}]},
            {"dict": [["c", {"constant": 2.5}]]},
        ]
    },
}


def test_nested_arguments_and_results(tmp_path: Path) -> None:
    model = aot_runtime.load(two_inputs(NESTED).write(tmp_path / "m.pkg"))
    a, b = np.array([1, 2], np.float32), np.array([3, 4], np.float32)
    for result in (
        model((b, {"k": a})),
        model([b, {"k": a}], True, extra=[None]),
        model(pair=(b, {"k": a}), flag=True),
    ):
        assert isinstance(result, list)
        np.testing.assert_array_equal(result[0], b)
        np.testing.assert_array_equal(result[1][0], a)
        assert result[2] == {"c": 2.5}
    assert str(inspect.signature(type(model).__call__)) == (
        "(self, *args: 'Any', **kwargs: 'Any') -> 'Any'"
    )


A = np.zeros(2, np.float32)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "argument 'pair' is missing"),
        (((A, {"k": A}), True, 3), {}, "takes 2 positional arguments, got 3"),
        (((A, {"k": A}),), {"pair": 1}, "argument 'pair' is given twice"),
        (
            ((A, {"k": A}),),
            {"other": 1},
            "has no argument 'other'; its arguments: pair, flag, extra",
        ),
        ((A,), {}, "argument 'pair' must be a tuple of 2 elements, got ndarray"),
        (((A,),), {}, "argument 'pair' must be a tuple of 2 elements, got 1 elements"),
        (
            ((A, {"j": A}),),
            {},
            r"argument 'pair\[1\]' must be a dict with keys \['k'\], got \['j'\]",
        ),
        (((A, A),), {}, r"argument 'pair\[1\]' must be a dict with keys \['k'\], got ndarray"),
        (((A, {"k": A}), False), {}, "argument 'flag' is False, but .* packaged with True"),
        (((A, {"k": A}), 1), {}, "argument 'flag' is 1, but"),
        (((A, {"k": A}),), {"extra": [0]}, r"argument 'extra\[0\]' is 0, but"),
    ],
)
def test_arguments_that_do_not_fit(
    tmp_path: Path, args: tuple[object, ...], kwargs: dict[str, object], message: str
) -> None:
    model = aot_runtime.load(two_inputs(NESTED).write(tmp_path / "m.pkg"))
    with pytest.raises(aot_runtime.InvalidArgument, match=message):
        model(*args, **kwargs)


def test_one_input_in_two_places(tmp_path: Path) -> None:
    signature = {
        "parameters": [
            {"name": n, "kind": "positional", "tree": {"input": i}}
            for n, i in (("a", 0), ("b", 1), ("c", 0))
        ],
        "result": {"output": 0},
    }
    model = aot_runtime.load(two_inputs(signature).write(tmp_path / "m.pkg"))
    a, b = np.ones(2, np.float32), np.zeros(2, np.float32)
    np.testing.assert_array_equal(model(a, b, a), a)
    with pytest.raises(aot_runtime.InvalidArgument, match="'c' must be the same object"):
        model(a, b, a.copy())


@pytest.mark.parametrize(
    "signature",
    [
        {},
        {"parameters": [], "result": {"output": 2}},
        {"parameters": [], "result": {}},
        {"parameters": [], "result": {"set": []}},
        {
            "parameters": [{"name": "x", "kind": "odd", "tree": {"input": 0}}],
            "result": {"output": 0},
        },
        {
            "parameters": [{"name": "x", "kind": "keyword", "tree": {"input": 5}}],
            "result": {"output": 0},
        },
    ],
)
def test_malformed_signatures(tmp_path: Path, signature: dict[str, object]) -> None:
    path = two_inputs(signature).write(tmp_path / "m.pkg")
    with pytest.raises(aot_runtime.CorruptPackage, match=r"plan\.signature"):
        aot_runtime.load(path)


# ---------------------------------------------------------------- other libraries


def test_torch_in_torch_out(small: aot_runtime.Model) -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(5, 8)
    result = small(x)
    assert isinstance(result["y"], torch.Tensor)
    y, _ = expected_small(x.numpy())
    np.testing.assert_array_equal(result["y"].numpy(), y)
    turned = torch.randn(8, 5).t()
    np.testing.assert_array_equal(small(turned)["y"].numpy(), expected_small(turned.numpy())[0])


def test_torch_bfloat16(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    model = aot_runtime.load(copy_package("bfloat16", [4], [1]).write(tmp_path / "m.pkg"))
    x = torch.tensor([1, -2, 0.5, 3e38], dtype=torch.bfloat16)
    assert torch.equal(model(x), x)


def test_torch_outputs_outlive_the_model(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    model = aot_runtime.load(chain_package(3).write(tmp_path / "m.pkg"))
    result = model(torch.zeros(8, 16))
    del model
    assert torch.equal(result, torch.full((8, 16), 3.0))


class OnlyDLPack:
    """An array of a library that is none: it speaks DLPack, and its module has no from_dlpack."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: object) -> object:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def test_objects_whose_module_makes_no_arrays(small: aot_runtime.Model) -> None:
    with pytest.raises(aot_runtime.InvalidArgument, match="has no from_dlpack"):
        small(OnlyDLPack(rows(2)))


def test_dlpack_beside_numpy(tmp_path: Path) -> None:
    model = aot_runtime.load(gather_package().write(tmp_path / "m.pkg"))
    np.testing.assert_array_equal(model(np.array([4, 0])), [14, 10])


def test_versioned_and_plain_capsules(small: aot_runtime.Model) -> None:
    x = rows(2)
    for options in ({}, {"max_version": (1, 0)}, {"max_version": (0, 8)}):
        output = small._session.run([x])[0]
        assert output.__dlpack_device__() == (1, 0)
        capsule = output.__dlpack__(**options)
        versioned = options.get("max_version", (0,))[0] >= 1
        assert ("dltensor_versioned" in repr(capsule)) == versioned
        with pytest.raises(BufferError, match="already given away"):
            output.__dlpack__()
    for max_version in (None, (1, 0)):  # NumPy as the consumer
        output = small._session.run([x])[0]
        del max_version
        np.testing.assert_array_equal(np.from_dlpack(output), expected_small(x)[0])


def test_a_copy_does_not_need_its_file(tmp_path: Path) -> None:
    path = small_package().write(tmp_path / "small.pkg")
    model = aot_runtime.load(path, copy=True)
    path.write_bytes(b"")  # ends the process with SIGBUS where weights are mapped
    x = rows(3)
    np.testing.assert_array_equal(model(x)["y"], expected_small(x)[0])
