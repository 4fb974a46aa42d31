"""What `make demo` shows: one package, three programs, the same similarities.

python demo.py minilm.pkg path/to/the/built/similarity
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
from model import model_directory

HERE = Path(__file__).parent
TOLERANCE = 1e-5
SENTENCES = [
    "A man is eating food.",
    "Someone is having a meal.",
    "The girl is playing a violin.",
    "A musician performs on stage with her instrument.",
    "The stock market fell sharply on Monday.",
]


def matrix_of(output: str) -> np.ndarray:
    """The rows of numbers at the end of a program's output."""
    rows = output.strip().splitlines()[-len(SENTENCES) :]
    return np.array([[float(value) for value in row.split()] for row in rows])


def show(title: str, command: list[str]) -> np.ndarray:
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    print(f"\n== {title}\n{output}", end="")
    return matrix_of(output)


def main(package: str, program: str) -> int:
    files = model_directory()
    vocabulary, tokenizer = str(files / "vocab.txt"), str(files / "tokenizer.json")
    for number, sentence in enumerate(SENTENCES):
        print(f"{number}: {sentence}")
    cpp = show("C++ program", [program, package, vocabulary, *SENTENCES])
    python = [sys.executable, str(HERE / "similarity.py"), package, tokenizer, *SENTENCES]
    loader = show("Python loader, without torch", python)
    eager = [sys.executable, str(HERE / "reference.py"), tokenizer, *SENTENCES]
    reference = show("PyTorch", eager)
    worst = max(float(np.abs(found - reference).max()) for found in (cpp, loader))
    verdict = "agree" if worst <= TOLERANCE else "DIFFER"
    print(f"\nC++, Python and PyTorch {verdict}: largest difference {worst:.1e}")
    return 0 if worst <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
