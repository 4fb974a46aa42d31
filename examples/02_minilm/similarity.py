"""How alike are some sentences? The Python loader's version of similarity.cc; needs no torch.

python similarity.py minilm.pkg tokenizer.json "first sentence" "second sentence" …
"""

import statistics
import sys
import time

import aot_runtime
import numpy as np
from tokenizers import Tokenizer

RUNS = 20


def tokenize(path: str, sentences: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Token ids and attention mask, padded to the longest sentence."""
    tokenizer = Tokenizer.from_file(path)
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    encoded = [tokenizer.encode(sentence).ids for sentence in sentences]
    longest = max(map(len, encoded))
    ids = np.zeros((len(encoded), longest), np.int64)
    mask = np.zeros_like(ids)
    for row, tokens in enumerate(encoded):
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    return ids, mask


def print_matrix(vectors: np.ndarray) -> None:
    wide = vectors.astype(np.float64)
    for row in wide @ wide.T:
        print("".join(f"{value:10.6f}" for value in row))


def main(package: str, tokenizer: str, *sentences: str) -> None:
    start = time.perf_counter()
    model = aot_runtime.load(package)
    load = time.perf_counter() - start
    print(f"load {load * 1e3:.2f} ms, kernels for {model.isa}, {model.num_threads} threads")
    ids, mask = tokenize(tokenizer, list(sentences))
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        vectors = model(ids, mask)
        times.append((time.perf_counter() - start) * 1e3)
    print(
        f"first run {times[0]:.2f} ms, then {statistics.median(times[1:]):.2f} ms "
        f"for {len(ids)} sentences of up to {ids.shape[1]} tokens"
    )
    print_matrix(vectors)
    assert "torch" not in sys.modules, "the loader must not bring torch along"


if __name__ == "__main__":
    main(*sys.argv[1:])
