"""Texts as the input of an exported network: ids of their tokens, which are bytes or subwords.

Shapes: B samples, L tokens of a text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evodevo.export.base import SampleInput, Samples
from evodevo.randomness import generator

if TYPE_CHECKING:
    from evodevo.tasks.text.tokenizers import SubwordTokenizer

TOKENIZER = "tokenizer.json"
END = -1
"""Stands behind the last token of a text."""
_BYTES = '''\
def encoded(texts):
    """Texts as the model reads them: the first {length} bytes in UTF-8, {end} behind the end of a text."""
    rows = [list(text.encode()[:{length}]) for text in texts]
    return torch.tensor([row + [{end}] * ({length} - len(row)) for row in rows])
'''
_SUBWORDS = '''\
def encoded(texts):
    """Texts as the model reads them: {length} subwords of the first {most} bytes, {end} behind the end of a text."""
    from tokenizers import Tokenizer

    subwords = Tokenizer.from_file(str({file}))
    whole = [text.encode()[:{most}].decode(errors="ignore") for text in texts]
    rows = [subwords.encode(text, add_special_tokens=False).ids[:{length}] for text in whole]
    return torch.tensor([row + [{end}] * ({length} - len(row)) for row in rows])
'''
_TEXTS = """\
import json
import sys

import torch

{load}

with torch.no_grad():
    for text in sys.argv[1:]:
        row = {call}(encoded([text])).softmax(-1)[0]
        print(spec["classes"][int(row.argmax())], round(float(row.max()), 4), text[:60])
"""


@dataclass(frozen=True)
class TextInput(SampleInput):
    """Ids of tokens (B, L), ``END`` behind the end of a text.

    Attributes:
        length: L.
        bytes_read: bytes of a text that are read, at most.
        tokenizer: tokenizer of the ids; None where they are the bytes.
    """

    length: int
    bytes_read: int
    tokenizer: SubwordTokenizer | None = None

    name = "texts"
    dtype = "int64"
    subject = "texts"
    tag = "text-classification"

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.length,)

    def to_json(self) -> dict[str, Any]:
        tokens = {"tokens": "utf-8"} if self.tokenizer is None else {"tokens": TOKENIZER, "bytes": self.bytes_read}
        return {
            "name": self.name,
            "modality": "text",
            "dtype": self.dtype,
            "shape": [None, self.length],
            "axes": ["samples", "tokens"],
            "end": END,
            **tokens,
        }

    def encoded(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Texts as ids (B, L), as the function does that ``function`` writes."""
        batch = np.full((len(texts), self.length), END, np.int64)
        for row, text in enumerate(texts):
            data = text.encode()[: self.bytes_read]
            whole = None if self.tokenizer is None else self.tokenizer.encode(data.decode(errors="ignore"))
            ids = np.frombuffer(data, np.uint8) if whole is None else whole
            batch[row, : len(ids)] = ids[: self.length]
        return batch

    def decoded(self, ids: Samples) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The bytes of texts and their mask, as a task hands them out: (B, bytes), twice."""
        data = np.zeros((len(ids), self.bytes_read), np.int64)
        mask = np.zeros(data.shape, np.bool_)
        known = None if self.tokenizer is None else self.tokenizer.token_bytes()
        for row, numbers in enumerate(ids):
            plain = [int(one) for one in numbers if one != END]
            text = bytes(plain) if known is None else b"".join(known[one] for one in plain)
            data[row, : len(text)], mask[row, : len(text)] = np.frombuffer(text, np.uint8), True
        return data, mask

    def probe(self, size: int) -> NDArray[Any]:
        """Texts of chance, of ASCII or of any letters; one is empty, and of bytes some are longer than what is read."""
        chance = generator(0, size, "probe")
        texts = [
            "".join(map(chr, chance.integers(32, 127 if row % 2 else 0x3000, chance.integers(2 * self.length))))
            for row in range(size)
        ]
        texts[size // 2] = ""
        if self.tokenizer is not None:
            # So few bytes are at most L subwords: what ends within a letter is no text again.
            texts = [text.encode()[: self.length].decode(errors="ignore") for text in texts]
        return self.encoded(texts)

    def words(self) -> str:
        kind = f"subwords (`{TOKENIZER}`) of the first {self.bytes_read} bytes"
        return (
            f"`texts`: numbers (int64) of shape (samples, {self.length}): the first"
            f" {'bytes in UTF-8' if self.tokenizer is None else kind} of each text, {END} behind its end."
        )

    @property
    def example(self) -> str:
        return f"texts = torch.full((4, {self.length}), {END})  # your texts; see encoded() below"

    def files(self, load: str, call: str) -> Sequence[tuple[str, str]]:
        needs = "" if self.tokenizer is None else ", with the library tokenizers"
        return ((f"Texts{needs}: `python classify.py 'a text'`", _TEXTS.format(load=load, call=call)),)

    def function(self, beside: str) -> str:
        sizes = {"length": self.length, "most": self.bytes_read, "end": END, "file": beside.format(TOKENIZER)}
        return (_BYTES if self.tokenizer is None else _SUBWORDS).format(**sizes)

    def beside(self) -> Mapping[str, str]:
        return {} if self.tokenizer is None else {TOKENIZER: self.tokenizer.json_text}
