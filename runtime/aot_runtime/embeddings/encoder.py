"""A sentence encoder: a package and the tokenizer that it carries."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from tokenizers import Tokenizer

from aot_runtime.errors import InvalidArgument
from aot_runtime.limits import Limits
from aot_runtime.model import Model, load
from aot_runtime.policy import Policy
from aot_runtime.tensors import Dim, TensorInfo

from .grouping import groups

if TYPE_CHECKING:
    from numpy.typing import NDArray

TOKENIZER = "tokenizer.json"
"""The file in the package: what the `tokenizers` package saves."""

IDS = ("input_ids", "ids", "tokens")
MASK = ("attention_mask", "mask")
TYPES = ("token_type_ids", "types")
"""Names of a model's inputs, and what they are."""

PADS = ("[PAD]", "<pad>", "<|endoftext|>")
"""Tokens that pad, where the tokenizer does not say which does."""

MOST_ROWS = 64
"""Of one run: above, a run takes longer, and each row as long."""


class Contract(NamedTuple):
    """What the model takes, by position: tokens, which of them count, and their types or None."""

    ids: int
    mask: int
    types: int | None
    rows: Dim
    length: Dim


class Encoder:
    """Gives texts, or tokens, their vectors.

    Use it from one thread at a time; `session()` gives another that may run beside it.

    Attributes:
        name: What it is called.
        width: Numbers of a vector.
        most_tokens: Tokens of a text, special ones included; None: any number.
        most_rows: Rows of one run.
    """

    def __init__(self, model: Model, tokenizer: Tokenizer, name: str) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._contract = contract_of(model)
        self._vocabulary = tokenizer.get_vocab_size(with_added_tokens=True)
        self._pad = _pad_of(tokenizer)
        self.name = name
        self.width = width_of(model)
        self.most_tokens = self._contract.length.max
        self.most_rows = min(MOST_ROWS, self._contract.rows.max or MOST_ROWS)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        name: str | None = None,
        *,
        device: str | None = None,
        num_threads: int | None = None,
        policy: Policy | None = None,
        limits: Limits | None = None,
    ) -> Encoder:
        """Opens a package and reads its tokenizer.

        Args:
            path: The package.
            name: What it is called; None: as the file, without its ending.
            device: As for `aot_runtime.load`, and so are the others.
            num_threads: Threads of one run.
            policy: What is allowed of the package.
            limits: What a session may use.

        Raises:
            NotFound: The package carries no tokenizer.json.
            InvalidArgument: That is no tokenizer, or the model no sentence encoder.
            AotError: As `aot_runtime.load`.
        """
        model = load(path, device, num_threads=num_threads, policy=policy, limits=limits)
        return cls(model, tokenizer_of(model), name or Path(path).stem)

    def session(self) -> Encoder:
        """The same with memory of its own for runs, on the same weights."""
        return Encoder(self._model.session(), self._tokenizer, self.name)

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text, with those that the model wants at its ends. Any thread."""
        return [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]

    def fault(self, row: Sequence[int]) -> str | None:
        """Why a text of these tokens has no vector; None: it has."""
        if self.most_tokens is not None and len(row) > self.most_tokens:
            return f"it has {len(row)} tokens, this model takes at most {self.most_tokens}"
        wrong = next((t for t in row if not 0 <= t < self._vocabulary), None)
        if wrong is not None:
            return f"{wrong} is no token: they are 0 to {self._vocabulary - 1}"
        return None if row else "it has no tokens"

    def embed(self, rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """The vector of each row of tokens, however many and however long they are.

        Raises:
            InvalidArgument: A row is too long, or holds what is no token.
            AotError: The run fails.
        """
        for position, row in enumerate(rows):
            fault = self.fault(row)
            if fault is not None:
                raise InvalidArgument(f"row {position}: {fault}")
        vectors = np.empty((len(rows), self.width), np.float32)
        for group in groups([len(row) for row in rows], self.most_rows):
            vectors[group] = self.run([rows[i] for i in group])
        return vectors

    def run(self, rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """The same in one run, of at most `most_rows` rows."""
        found = self._contract
        shape = (
            least_size(len(rows), found.rows),
            least_size(max(map(len, rows)), found.length),
        )
        ids = np.full(shape, self._pad, np.int64)
        mask = np.zeros(shape, np.int64)
        # Rows that only fill the model's least size attend to something, lest they make NaN.
        mask[len(rows) :, 0] = 1
        for i, row in enumerate(rows):
            ids[i, : len(row)] = row
            mask[i, : len(row)] = 1
        infos = self._model.inputs
        given = [np.zeros(shape, info.dtype) for info in infos]
        given[found.ids] = ids.astype(infos[found.ids].dtype, copy=False)
        given[found.mask] = mask.astype(infos[found.mask].dtype, copy=False)
        (vectors,) = self._model.run(given)
        return np.asarray(vectors[: len(rows)], np.float32)


def tokenizer_of(model: Model) -> Tokenizer:
    """The tokenizer that a package carries.

    Raises:
        NotFound: It carries none.
        InvalidArgument: The file is no tokenizer.
    """
    text = model.file(TOKENIZER)
    try:
        tokenizer = Tokenizer.from_buffer(text)
    except ValueError as error:
        raise InvalidArgument(f"the package's {TOKENIZER} is no tokenizer: {error}") from error
    # Lengths are the request's business: what is too long is an error, not cut in silence.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def contract_of(model: Model) -> Contract:
    """Which input of a model is what.

    Raises:
        InvalidArgument: It has others than a sentence encoder has, or of other ranks.
    """
    names = {info.name: i for i, info in enumerate(model.inputs)}
    ids, mask, types = (_named(names, known) for known in (IDS, MASK, TYPES))
    known = {position for position in (ids, mask, types) if position is not None}
    if ids is None or mask is None or len(known) != len(names):
        raise InvalidArgument(
            f"a sentence encoder takes {IDS[0]}, {MASK[0]} and perhaps {TYPES[0]}; this model "
            f"takes {', '.join(names) or 'nothing'}"
        )
    wrong = next((info.name for info in model.inputs if len(info.dims) != 2), None)
    if wrong is not None:
        raise InvalidArgument(f"input '{wrong}' must have two dimensions, rows and tokens")
    rows, length = model.inputs[ids].dims
    return Contract(ids, mask, types, rows, length)


def width_of(model: Model) -> int:
    """Numbers of a vector.

    Raises:
        InvalidArgument: The output is not a vector for each row.
    """
    if len(model.outputs) != 1 or not _is_vectors(model.outputs[0]):
        gives = ", ".join(f"{o.name} {list(o.shape)}" for o in model.outputs)
        raise InvalidArgument(
            f"a sentence encoder gives one vector a row (rows, width); this model gives {gives}. "
            "Package it with its pooling: a module that calls the model and takes the mean over "
            "the tokens that count, or the first token."
        )
    width = model.outputs[0].dims[1].size
    assert width is not None
    return width


def _is_vectors(output: TensorInfo) -> bool:
    return len(output.dims) == 2 and output.dims[1].size is not None and "float" in output.dtype


def _named(names: dict[str, int], known: Sequence[str]) -> int | None:
    return next((names[name] for name in known if name in names), None)


def least_size(wanted: int, dim: Dim) -> int:
    """The least size that a dimension may have and that has room."""
    if dim.size is not None:
        return dim.size
    least = max(wanted, dim.min)
    return -(-least // dim.multiple_of) * dim.multiple_of


def _pad_of(tokenizer: Tokenizer) -> int:
    for token in PADS:
        number = tokenizer.token_to_id(token)
        if number is not None:
            return number
    return 0
