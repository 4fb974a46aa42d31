"""Products so large that programs stay and fetch blocks by descriptors, in the interpreter."""

from __future__ import annotations

import pytest
import torch

from aot.backends.triton import dot_tiling
from aot.backends.triton.template_matmul import _is_one
from aot.frontend.capture import capture_module
from aot.frontend.weights import to_array
from aot.ir.nests import Axis
from aot.symbolic import integer, var
from tests.backends.triton.interpret import run_emitted
from tests.backends.triton.templates import (
    captured,
    check_close,
    emitted,
    kernels_of,
    machine_code,
    tensors,
)
from tests.comparing import difference
from tests.conformance import executors
from tests.conformance.executors import interpret_triton
from tests.launches import template_kernels
from tests.settings import seeded

_ADDING = ("FADD", "FFMA", "HGMMA", "HMMA")


class Product(torch.nn.Module):
    """A linear layer with something to do afterwards."""

    def __init__(self, rows: int, columns: int, depth: int) -> None:
        super().__init__()
        torch.manual_seed(seeded())
        self.linear = torch.nn.Linear(depth, columns, dtype=torch.bfloat16)
        self.example = torch.randn(rows, depth, dtype=torch.bfloat16)

    def forward(self, x):
        return torch.nn.functional.gelu(self.linear(x))


@pytest.mark.slow
@pytest.mark.parametrize("size", [(4352, 1024, 64), (4360, 1080, 72), (4500, 1032, 40)])
def test_products_by_descriptors(size, monkeypatch):
    texts = []

    def run(emitted, *rest):
        texts.extend(f.text for f in emitted.functions)
        return run_emitted(emitted, *rest)

    monkeypatch.setattr(executors, "run_emitted", run)
    module = Product(*size)
    model = capture_module(module, (module.example,))
    (actual,) = interpret_triton(model, (module.example,))
    assert any("make_tensor_descriptor" in text for text in texts)
    with torch.no_grad():
        eager = module(module.example)
        exact = module.double()(module.example.double())

    assert difference(actual, to_array(eager), torch.bfloat16, to_array(exact)) == ""


def heads(x, y):
    """Products of heads that stand side by side in a token."""
    return x.transpose(1, 2) @ y.transpose(1, 2).transpose(2, 3)


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (torch.matmul, ((3, 72, 64), (3, 64, 40))),
        (heads, ((2, 70, 3, 64), (2, 40, 3, 64))),
        (lambda x, y: x.transpose(1, 2) @ y, ((3, 128, 72), (3, 128, 40))),
    ],
    ids=["rows", "heads", "turned"],
)
def test_batches_are_copied_by_descriptors(function, shapes, monkeypatch):
    """One descriptor of all matrices, each of which begins somewhere in it: however few, here."""
    monkeypatch.setattr(dot_tiling, "PLAIN", 0)
    monkeypatch.setattr(dot_tiling, "GROUPED", ())
    args = tensors(*shapes, dtype=torch.bfloat16)
    model = captured(function, args)
    (text,) = [f.text for f in emitted(model).functions]
    assert "make_tensor_descriptor" in text
    check_close(model, function, args)


@pytest.mark.parametrize("shapes", [((3, 72, 72), (3, 72, 40)), ((3, 72, 104), (3, 72, 40))])
def test_batches_whose_last_step_reaches_into_the_next_one_are_planes(shapes, monkeypatch):
    """Of infinite numbers, of which nothing must come into another product."""
    monkeypatch.setattr(dot_tiling, "PLAIN", 0)
    args = tensors(*shapes, dtype=torch.bfloat16)
    args[1][1] = float("inf")

    def function(x, y):
        return (x if x.shape[2] == y.shape[1] else x.transpose(1, 2)) @ y

    model = captured(function, args)
    (text,) = [f.text for f in emitted(model).functions]
    assert "block_shape=[1, " in text
    check_close(model, function, args)


@pytest.mark.parametrize("function", [torch.matmul, lambda x, y: torch.relu(x @ y)])
def test_single_elements_of_a_turned_operand_come_first(function):
    """The product of 40 rows by odd ones is that of the odd ones' transposed by the 40."""
    args = tensors((2, 40, 128), (2, 128, 99))
    model = captured(function, args)
    (text,) = [f.text for f in emitted(model).functions]
    _, left, right = text.split("def k0_load_")
    assert left.startswith("left") and "m < 99" in left
    assert right.startswith("right") and "n < 40" in right
    check_close(model, function, args)


def test_single_elements_of_the_first_operand_stay_first():
    """Its rows of 129 elements would be a second operand's, copied one by one into one bank."""
    args = tensors((2, 40, 129), (2, 129, 99))
    model = captured(torch.matmul, args)
    (text,) = [f.text for f in emitted(model).functions]
    left, right = text.split("def k0_load_")[1:]
    assert "m < 40" in left and "n < 99" in right
    check_close(model, torch.matmul, args)


def test_a_depth_that_ends_within_vectors_is_copied_by_descriptors():
    """Few blocks, but rows that start at whole lines: nothing tests where 1001 numbers end."""
    torch.manual_seed(seeded())
    layers = torch.nn.Sequential(
        torch.nn.Linear(40, 1001), torch.nn.GELU(), torch.nn.Linear(1001, 40)
    ).bfloat16()
    (x,) = tensors((160, 40), dtype=torch.bfloat16)
    with torch.no_grad():
        model = capture_module(layers, (x,))
        text = emitted(model).functions[-1].text
        assert "shape=[160, 1001]" in text and "load_left" not in text
        (actual,) = interpret_triton(model, (x,))
        eager, exact = layers(x), layers.double()(x.double())
    assert difference(actual, to_array(eager), torch.bfloat16, to_array(exact)) == ""


def test_axes_of_a_batch_are_one_where_each_goes_on_where_the_next_one_ends():
    axes = tuple(Axis(var(name), integer(n)) for name, n in (("a", 3), ("b", 4), ("c", 5)))
    steps = [[integer(n) for n in steps] for steps in ((160, 40, 8), (161, 40, 8), (160, 48, 8))]
    assert [_is_one(axes, apart) for apart in steps] == [True, False, False]
    assert _is_one(axes[:1], steps[0][:1])


@pytest.mark.parametrize("columns", [98, 96])
def test_vectors_of_a_turned_operand_come_first_too(columns):
    """They would be turned in shared memory; where the first operand is, too, nothing is won."""
    args = tensors((2, 40, 128), (2, 128, columns))
    model = captured(torch.matmul, args)
    (text,) = [f.text for f in emitted(model).functions]
    assert f"{columns} * k + m" in text  # its columns are the rows of the product
    assert "n < 40" in text
    check_close(model, torch.matmul, args)
    turned = captured(lambda x, y: x.transpose(1, 2) @ y, tensors((2, 128, 40), (2, 128, 98)))
    (text,) = [f.text for f in emitted(turned).functions]
    assert "n < 98" in text


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("turned", [(False, True), (False, False), (True, False)], ids=str)
def test_odd_rows_of_a_batch_are_copied_where_blocks_read_them_again(dtype, turned):
    """With the depth of the second one last in float32, where the first one's is not, either."""
    shapes = (4, 160, 701), (4, 701, 163)

    def function(x, y):
        return (x.transpose(1, 2) if turned[0] else x) @ (y.transpose(1, 2) if turned[1] else y)

    args = tuple(
        (x.transpose(1, 2).contiguous() if t else x)
        for x, t in zip(tensors(*shapes, dtype=dtype), turned, strict=True)
    )
    model = captured(function, args)
    (call,) = template_kernels(kernels_of(model))
    graph = kernels_of(model)
    a, b = (graph.buffers[v.buffer] for v in (call.template.a, call.template.b))
    assert a.name.endswith("_a") is not turned[0]
    assert b.name.endswith("_b")
    each = 16 // a.dtype.itemsize
    assert all(int(s) % each == 0 for x in (a, b) for s in x.strides if int(s) != 1)
    assert (b.strides[1] == 1) is (turned[1] or (turned[0] and dtype == torch.float32))
    (actual,) = interpret_triton(model, args)
    exact = function(*(x.double() for x in args))
    assert difference(actual, to_array(function(*args)), dtype, to_array(exact)) == ""


@pytest.mark.parametrize(("depth", "copied"), [(20, False), (32, False), (64, True)])
def test_float32_of_one_step_is_read_by_plain_loads(depth, copied):
    """What takes the time is stored by many programs that end, not by few that stay."""
    model = captured(torch.matmul, tensors((4096, depth), (depth, 4096)))
    (text,) = [f.text for f in emitted(model).functions]
    assert ("make_tensor_descriptor" in text) == copied


def test_few_rows_that_start_at_odd_addresses_are_copied_for_many_columns():
    """A weight of any distance of rows is there in whole lines."""
    args = tensors((2051, 19), dtype=torch.bfloat16)
    weight = torch.nn.Parameter(tensors((2051, 2050), dtype=torch.bfloat16)[0])

    class Turned(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = weight

        def forward(self, x):
            return x.t() @ self.weight

    graph = kernels_of(capture_module(Turned(), args))
    (call,) = template_kernels(graph)
    read = [graph.buffers[v.buffer] for v in (call.template.a, call.template.b)]
    (a, b) = ([int(s) for s in buffer.strides if s != 1][-1] for buffer in read)
    assert a % 8 == 0
    assert b % 64 == 0


def test_float64_is_read_by_plain_loads_where_it_lies():
    """Descriptors' blocks have conflicts of banks; copies of odd rows cost more than products."""
    args = tensors((2049, 515), (515, 2051), dtype=torch.float64)
    source = emitted(captured(torch.matmul, args))
    (function,) = source.functions
    assert "make_tensor_descriptor" not in function.text


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_deep_product_is_computed_in_parts(dtype):
    class Deep(torch.nn.Module):
        def forward(self, x, y):
            return (x @ y).relu()

    torch.manual_seed(seeded())
    args = torch.randn(9, 1 << 14, dtype=dtype), torch.randn(1 << 14, 24, dtype=dtype)
    model = capture_module(Deep(), args)
    found = [d.verdict for d in kernels_of(model).decisions]
    assert any(verdict.endswith(" parts of the depth") for verdict in found)
    (actual,) = interpret_triton(model, args)
    x, y = (a.double() for a in args)
    eager, exact = Deep()(*args), Deep()(x, y)
    assert difference(actual, to_array(eager), dtype, to_array(exact)) == ""


def test_a_depth_that_nothing_divides_gets_zeros_behind_it():
    class Deep(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(8237, 40, dtype=torch.float16)

        def forward(self, x):
            return self.linear(x).relu()

    torch.manual_seed(seeded())
    module, x = Deep().eval(), torch.randn(33, 8237, dtype=torch.float16)
    model = capture_module(module, (x,))
    kernels = kernels_of(model)
    assert any(d.verdict.endswith(" parts of the depth") for d in kernels.decisions)
    assert len(kernels.derived) == 1  # the weight is stored so
    (actual,) = interpret_triton(model, (x,))
    eager, exact = module(x), module.double()(x.double())
    assert difference(actual, to_array(eager), torch.float16, to_array(exact)) == ""


@pytest.mark.parametrize("arch", ["sm_86", "sm_90"])
def test_blocks_of_a_deep_product_are_summed_by_themselves(arch):
    """One chain over the depth had up to nine times eager's error at 8192 terms."""
    args = tensors((64, 8192), (8192, 64))
    code = machine_code(captured(torch.matmul, args), "matmul", arch)
    counts = {k: sum(n for i, n in code.instructions.items() if i.startswith(k)) for k in _ADDING}
    assert code.uses_tensor_cores == (arch == "sm_90")
    if code.uses_tensor_cores:  # in three products, which end in additions
        assert counts["FADD"] > counts["HGMMA"] + counts["HMMA"] > 0
    else:  # each thread's results, once a block of 16 to 128 terms
        assert 16 * counts["FADD"] <= counts["FFMA"] <= 128 * counts["FADD"]


@pytest.mark.parametrize(("dtype", "turned"), [(torch.float32, True), (torch.bfloat16, False)])
def test_weights_of_float32_lie_with_the_depth_last(dtype, turned):
    """As asynchronous tensor cores take them; halves they take in either order."""

    class Forward(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(seeded())
            self.weight = torch.nn.Parameter(torch.randn(96, 200, dtype=dtype))

        def forward(self, x):
            return x @ self.weight

    args = tensors((150, 96), dtype=dtype)
    model = capture_module(Forward(), args)
    graph = kernels_of(model)
    (call,) = template_kernels(graph)
    assert graph.buffers[call.template.b.buffer].shape == ((200, 96) if turned else (96, 200))
    (actual,) = interpret_triton(model, args)
    module = Forward()
    exact = module.double()(args[0].double())
    assert difference(actual, to_array(Forward()(*args)), dtype, to_array(exact)) == ""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_odd_rows_are_copied_where_that_is_worth_it(dtype):
    """Weights when the package is built, what is given in a launch of its own: whole lines."""

    class Odd(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(seeded())
            self.weight = torch.nn.Parameter(torch.randn(1021, 1027, dtype=dtype))

        def forward(self, x):
            return torch.nn.functional.linear(x, self.weight)

    args = tensors((805, 1027), dtype=dtype)
    model = capture_module(Odd(), args)
    graph = kernels_of(model)
    (call,) = template_kernels(graph)
    shapes = [graph.buffers[v.buffer].shape for v in (call.template.a, call.template.b)]
    room = 1056 if dtype == torch.float32 else 1088
    assert shapes == [(805, room), (1021, room)]
    (actual,) = interpret_triton(model, args)
    eager, exact = Odd()(*args), Odd().double()(args[0].double())
    assert difference(actual, to_array(eager), dtype, to_array(exact)) == ""
    few = tensors((9, 1027), dtype=dtype)
    (call,) = template_kernels(kernels_of(capture_module(Odd(), few)))
    assert not call.template.a.buffer.endswith("_a")


@pytest.mark.parametrize("rows", (1, 70))
def test_products_of_doubles_are_a_template(rows):
    args = tensors((rows, 300), (300, 50), dtype=torch.float64)
    model = captured(torch.matmul, args)
    assert len(template_kernels(kernels_of(model))) == 1
    check_close(model, torch.matmul, args)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_tensor_cores_multiply_doubles(arch):
    args = tensors((256, 512), (512, 256), dtype=torch.float64)
    code = machine_code(captured(torch.matmul, args), "matmul", arch)
    assert code.uses_tensor_cores
    assert not code.local_bytes


def test_odd_rows_of_float32_are_read_where_they_lie_by_few_columns():
    """Each is read once, as a copy would; a copy took as long as the product."""
    x = torch.randn(512, 4099)
    for columns, copied in ((64, False), (72, True)):
        program = captured(lambda x, w: x.t() @ w, (x, torch.randn(512, columns)))
        kernels = kernels_of(program).kernels
        (call,) = [kernel.template for kernel in template_kernels(kernels_of(program))]
        assert (call.a.buffer not in {"args_0"}) == copied, kernels
