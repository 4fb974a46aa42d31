"""Every way a model file can be wrong has an error that says what, where and what to do."""

from pathlib import Path

import pytest
import torch

from aot.errors import DynamicShapeError, ExportError, InputMismatch, ModelFileError
from aot.frontend.capture import capture_file, capture_module
from aot.frontend.ingest import ingest

LINEAR = "import torch\nmodel = torch.nn.Linear(3, 2)\n"


def write(directory: Path, text: str, name: str = "model.py") -> Path:
    path = directory / name
    path.write_text(text)
    return path


def failure(directory: Path, text: str, error: type[Exception]) -> str:
    with pytest.raises(error) as caught:
        capture_file(write(directory, text))
    return str(caught.value)


def test_a_model_and_its_inputs_may_be_functions(tmp_path: Path) -> None:
    text = (
        "import torch\n"
        "def model():\n    return torch.nn.Linear(3, 2)\n"
        "def example_inputs():\n    return (torch.randn(4, 3),)\n"
        "extra_inputs = [(torch.randn(5, 3),)]\n"
        "dynamic_shapes = ({0: torch.export.Dim('rows', min=0)},)\n"
    )
    captured = capture_file(write(tmp_path, text, "small.py"))
    assert captured.name == "small"
    assert [tuple(args[0].shape) for args, _ in captured.extra] == [(5, 3)]


def test_inputs_may_be_given_by_name_alone(tmp_path: Path) -> None:
    text = LINEAR + "example_kwargs = {'input': torch.ones(4, 3)}\n"
    text += "extra_kwargs = [{'input': torch.ones(5, 3)}]\n"
    text += "dynamic_shapes = {'input': {0: torch.export.Dim('rows')}}\n"
    captured = capture_file(write(tmp_path, text))
    assert captured.parameter_names == ("input",)
    assert [tuple(kwargs["input"].shape) for _, kwargs in captured.extra] == [(5, 3)]


def test_a_file_called_model_is_named_by_its_folder(tmp_path: Path) -> None:
    text = LINEAR + "example_inputs = (torch.randn(4, 3),)\n"
    assert capture_file(write(tmp_path, text)).name == tmp_path.name


def test_a_model_file_may_import_its_neighbours(tmp_path: Path) -> None:
    write(tmp_path, LINEAR, "neighbour_of_model.py")
    text = (
        "import torch\nfrom neighbour_of_model import model\nexample_inputs = (torch.ones(1, 3),)\n"
    )
    assert capture_file(write(tmp_path, text)).name


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="there is no model file"):
        capture_file(tmp_path / "nothing.py")


def test_file_that_raises_names_the_line(tmp_path: Path) -> None:
    message = failure(tmp_path, "import torch\n\nx = 1 / 0\n", ModelFileError)
    assert f"{tmp_path}/model.py:3" in message
    assert "ZeroDivisionError" in message


def test_file_that_exits_is_an_error(tmp_path: Path) -> None:
    assert "SystemExit" in failure(tmp_path, "import sys\nsys.exit(0)\n", ModelFileError)


def test_file_that_is_not_python_names_the_line(tmp_path: Path) -> None:
    message = failure(tmp_path, "import torch\nmodel = = 3\n", ModelFileError)
    assert f"{tmp_path}/model.py:2" in message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import torch\nexample_inputs = (torch.ones(1),)\n", "defines no `model`"),
        (LINEAR, "defines no `example_inputs`"),
        ("model = 3\nexample_inputs = ()\n", "`model` is a int"),
        (LINEAR + "example_inputs = torch.ones(1, 3)\n", "not a tuple"),
        (LINEAR + "def example_inputs():\n    raise KeyError('x')\n", "`example_inputs()` raises"),
        (LINEAR + "example_inputs = (torch.ones(1, 3),)\nextra_inputs = 3\n", "extra_inputs"),
        (LINEAR + "example_inputs = (torch.ones(1, 3),)\nexample_kwargs = 3\n", "example_kwargs"),
        (LINEAR + "example_inputs = {'input': torch.ones(1, 3)}\n", "are in `example_kwargs`"),
        (LINEAR + "example_inputs = ()\nextra_inputs = [{'input': 3}]\n", "are in `extra_kwargs`"),
        (LINEAR + "example_inputs = ()\nextra_kwargs = [3]\n", "not a list of dicts"),
    ],
)
def test_what_a_model_file_must_define(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in failure(tmp_path, text, ModelFileError)


def test_too_few_inputs(tmp_path: Path) -> None:
    assert "missing" in failure(tmp_path, LINEAR + "example_inputs = ()\n", InputMismatch)


def test_inputs_of_the_wrong_size(tmp_path: Path) -> None:
    message = failure(tmp_path, LINEAR + "example_inputs = (torch.ones(1, 4),)\n", InputMismatch)
    assert "fails with the example inputs" in message
    assert "Traceback" not in message


CONTROL_FLOW = """import torch
class Model(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return x[:1]
model = Model()
example_inputs = (torch.ones(3),)
"""


def test_untraceable_model_names_the_line(tmp_path: Path) -> None:
    message = failure(tmp_path, CONTROL_FLOW, ExportError)
    assert f"{tmp_path}/model.py:4" in message
    assert "Traceback" not in message


def test_dynamic_size_that_the_model_fixes(tmp_path: Path) -> None:
    text = LINEAR + (
        "example_inputs = (torch.ones(4, 3),)\n"
        "dynamic_shapes = ({1: torch.export.Dim('d', min=1)},)\n"
    )
    message = failure(tmp_path, text, DynamicShapeError)
    assert "Make the dimension static" in message and "capture_file" not in message


@pytest.mark.parametrize("rows", [0, 1])
def test_example_of_size_0_or_1_in_a_dynamic_dimension(tmp_path: Path, rows: int) -> None:
    text = LINEAR + (
        f"example_inputs = (torch.ones({rows}, 3),)\n"
        "dynamic_shapes = ({0: torch.export.Dim('d')},)\n"
    )
    (tmp_path / "model.py").write_text(text)
    captured = capture_file(tmp_path / "model.py")
    assert captured.example[0][0].shape == (rows, 3)
    (only,) = ingest(captured)[0].dims
    assert (only.minimum, only.maximum, only.label) == (0, None, "d")


def test_saved_program(tmp_path: Path) -> None:
    program = torch.export.export(torch.nn.Linear(3, 2), (torch.ones(4, 3),))
    torch.export.save(program, tmp_path / "saved.pt2")
    captured = capture_file(tmp_path / "saved.pt2")
    assert captured.name == "saved"
    assert captured.example[0][0].shape == (4, 3)


def test_damaged_saved_program(tmp_path: Path) -> None:
    (tmp_path / "bad.pt2").write_bytes(b"not a program")
    with pytest.raises(ModelFileError, match="not an exported program"):
        capture_file(tmp_path / "bad.pt2")
    with pytest.raises(ModelFileError, match="there is no file"):
        capture_file(tmp_path / "none.pt2")


def test_the_users_module_keeps_its_mode() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout())
    module[0].eval()
    captured = capture_module(module, (torch.ones(2, 3),))
    assert [m.training for m in module.modules()] == [True, False, True]
    targets = [str(n.target) for n in captured.program.graph.nodes]
    assert not any("dropout" in t or "rand" in t for t in targets)


def test_an_input_that_the_model_does_not_use(tmp_path: Path) -> None:
    """torch's guards read its sizes, but tracing gives them nothing there."""
    text = """
import torch

class Unused(torch.nn.Module):
    def forward(self, x, y):
        return x + 1

model = Unused()
example_inputs = (torch.ones(2), torch.ones(1, 8, 12)[:, :, :6])
dynamic_shapes = (None, {2: torch.export.Dim("n")})
"""
    (tmp_path / "model.py").write_text(text)
    graph, _ = ingest(capture_file(tmp_path / "model.py"))
    assert [d.label for d in graph.dims] == ["n"]


def test_one_tensor_given_for_two_inputs_is_two_inputs() -> None:
    class Digits(torch.nn.Module):
        def forward(self, a, b):
            return a * 10 + b

    same = torch.ones(3)
    program = capture_module(Digits(), (same, same)).program.module()
    assert program(torch.ones(3), torch.full((3,), 5.0)).tolist() == [15.0] * 3


@pytest.mark.parametrize("inputs", [1, 3])
def test_sizes_of_a_catch_all_parameter_may_come_in_a_tuple(inputs: int) -> None:
    class Sum(torch.nn.Module):
        def forward(self, *rows):
            return sum(rows)

    sizes = ({0: torch.export.Dim("n", min=1)},) * inputs
    captured = capture_module(Sum(), (torch.ones(3),) * inputs, dynamic_shapes=(sizes,))
    graph, _ = ingest(captured)
    assert [d.label for d in graph.dims] == ["n"]
