"""The models of the comparison: a sentence encoder and ResNet-50, each as package and as ONNX; and
a multilayer perceptron as package, whose rows are worth joining."""

from __future__ import annotations

import itertools
import json
import random
import runpy
import shutil
import sys
import warnings
from pathlib import Path

import aot_runtime
import torch

import aot

EXAMPLES = Path(__file__).parents[2] / "examples"
TEXTS = 256
WIDTHS = (512, 1024, 1024, 512)


def make(folder: Path) -> None:
    """Packages, ONNX files and request bodies, where they are not there yet."""
    if (folder / "done").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    source = runpy.run_path(str(EXAMPLES / "02_minilm" / "model.py"))
    tokenizer = source["model_directory"]() / "tokenizer.json"
    shutil.copy(tokenizer, folder)
    _both(folder / "minilm", source, {"tokenizer.json": tokenizer})
    _texts(folder / "texts", tokenizer)
    _both(folder / "resnet50", runpy.run_path(str(EXAMPLES / "03_resnet50" / "model.py")), {})
    _tensor(folder / "image", "image", (1, 3, 224, 224))
    _perceptron(folder / "mlp.pkg")
    _tensor(folder / "row", "input", (1, WIDTHS[0]))
    (folder / "done").touch()


def _perceptron(path: Path) -> None:
    torch.manual_seed(0)
    layers = [torch.nn.Linear(a, b) for a, b in itertools.pairwise(WIDTHS)]
    model = torch.nn.Sequential(*(part for one in layers for part in (one, torch.nn.ReLU())))
    aot.package(
        model.eval(),
        (torch.randn(8, WIDTHS[0]),),
        path=path,
        targets=[f"cpu:{aot_runtime.cpu_isa()}"],
        dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=64)},),
    )


def _both(path: Path, source: dict, files: dict[str, Path]) -> None:
    model, example = source["model"](), source["example_inputs"]()
    shapes = source.get("dynamic_shapes")
    target = f"cpu:{aot_runtime.cpu_isa()}"
    aot.package(
        model,
        example,
        path=path.with_suffix(".pkg"),
        targets=[target],
        dynamic_shapes=shapes,
        files=files,
    )
    names = ["input_ids", "attention_mask"] if len(example) == 2 else ["image"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model.eval(),
            example,
            str(path.with_suffix(".onnx")),
            dynamo=True,
            dynamic_shapes=shapes,
            input_names=names,
        )


def _texts(folder: Path, tokenizer: Path) -> None:
    """One text a request, of 3 to 120 words of the vocabulary, short ones more often."""
    folder.mkdir()
    vocabulary = json.loads(tokenizer.read_text())["model"]["vocab"]
    words = sorted(word for word in vocabulary if word.isalpha())
    chosen = random.Random(0)
    for number in range(TEXTS):
        count = round(3 * 40 ** chosen.random())
        text = " ".join(chosen.choices(words, k=count))
        body = {"model": "m", "input": text, "encoding_format": "base64"}
        (folder / str(number)).write_text(json.dumps(body))


def _tensor(folder: Path, name: str, shape: tuple[int, ...]) -> None:
    """One tensor a request, as bytes; the folder's `head` has the JSON's length."""
    folder.mkdir()
    values = torch.randn(shape).numpy().tobytes()
    tensor = {"name": name, "datatype": "FP32", "shape": shape}
    tensor["parameters"] = {"binary_data_size": len(values)}
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    (folder / "head").write_text(str(len(head)))
    (folder / "0").write_bytes(head + values)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
