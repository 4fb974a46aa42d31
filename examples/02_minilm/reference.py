"""The same similarities from eager PyTorch.

python reference.py tokenizer.json "first sentence" "second sentence" …
"""

import statistics
import sys
import time

import model as minilm
import torch
from similarity import RUNS, print_matrix, tokenize


def main(tokenizer: str, *sentences: str) -> None:
    start = time.perf_counter()
    encoder = minilm.model()
    load = time.perf_counter() - start
    print(f"load {load * 1e3:.2f} ms (importing torch not counted), eager PyTorch")
    ids, mask = (torch.from_numpy(array) for array in tokenize(tokenizer, list(sentences)))
    times = []
    with torch.inference_mode():
        for _ in range(RUNS):
            start = time.perf_counter()
            vectors = encoder(ids, mask)
            times.append((time.perf_counter() - start) * 1e3)
    print(
        f"first run {times[0]:.2f} ms, then {statistics.median(times[1:]):.2f} ms "
        f"for {len(ids)} sentences of up to {ids.shape[1]} tokens"
    )
    print_matrix(vectors.numpy())


if __name__ == "__main__":
    main(*sys.argv[1:])
