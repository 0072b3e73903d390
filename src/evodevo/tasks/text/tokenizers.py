"""Tokenizers: bytes, byte-pair encoding trained on the corpus, or a user's tokenizer file.

Every tokenizer marks the end of a document with one token. Where possible it is the token of the byte NUL, which no
document contains, so that 256 ids are enough for all text and its boundaries.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from evodevo import canonical, files
from evodevo.errors import DataError, UsageError
from evodevo.execution.limited import limited
from evodevo.tasks.splits import SEPARATOR

FORMAT = "evodevo.tokenizer/1"
MAX_FILE_BYTES = 64 * files.MIB
MAX_IDS = 2**22
MAX_WORD = 1000
"""Letters of a word that a WordPiece vocabulary may divide: it takes the square of them."""
MAX_RUN = 1024
"""Letters without a boundary that are learned from together: merging takes the square of them. No word is as long."""
_FAULT = "is not a tokenizer.json that the tokenizers library reads"
_MEMORY = 2 * files.GIB
_FEW = 1024
_WORDS = "Is any of these 12 words unknown? Größe, 東京, 🙂.\n"
_BLANKS = re.compile(rf"\s{{{MAX_RUN + 1},}}")
_BATCH_BYTES = 4 * 2**20

# Tokens with which published tokenizers end a document, in the order of preference.
_END_OF_DOCUMENT = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|im_end|>", "[SEP]")


class Tokenizer(ABC):
    """Conversion of text to ids in ``[0, vocabulary)`` and back."""

    kind: str
    vocabulary: int
    separator: int | None
    """Id after each document; None where the tokenizer has none."""

    @abstractmethod
    def encode(self, text: str) -> NDArray[np.int64]:
        """Token ids of one text, without separator. Shape ``(tokens,)``."""

    @abstractmethod
    def decode(self, ids: Sequence[int] | NDArray[Any]) -> str:
        """Text of token ids; bytes that are not UTF-8 become U+FFFD."""

    def encode_documents(self, documents: Sequence[bytes]) -> NDArray[Any]:
        """Token ids of all documents, a separator after each, in the smallest unsigned type. Shape ``(tokens,)``."""
        parts = list(self.encode_some(documents))
        return np.concatenate(parts) if parts else np.empty(0, self.dtype)

    @abstractmethod
    def encode_some(self, documents: Sequence[bytes]) -> Iterator[NDArray[Any]]:
        """The same, some documents at a time."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The smallest unsigned type of all ids."""
        return np.min_scalar_type(self.vocabulary - 1)

    @abstractmethod
    def token_bytes(self) -> list[bytes] | None:
        """Bytes of each id, ``vocabulary`` of them; None where an id has no fixed bytes."""

    @abstractmethod
    def to_bytes(self) -> bytes:
        """The whole tokenizer as strict JSON; the inverse of :func:`from_bytes`."""

    @property
    def digest(self) -> str:
        """SHA-256 of ``to_bytes``."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def describe(self) -> dict[str, Any]:
        """JSON-able description for input specifications."""
        return {"kind": self.kind, "vocabulary": self.vocabulary, "separator": self.separator, "digest": self.digest}


class ByteTokenizer(Tokenizer):
    """The 256 bytes as ids; without training and lossless."""

    kind = "bytes"
    vocabulary = 256
    separator = 0

    def encode(self, text: str) -> NDArray[np.int64]:
        return np.frombuffer(text.encode("utf-8"), dtype=np.uint8).astype(np.int64)

    def decode(self, ids: Sequence[int] | NDArray[Any]) -> str:
        return bytes(int(i) for i in ids).decode("utf-8", "replace")

    def encode_some(self, documents: Sequence[bytes]) -> Iterator[NDArray[Any]]:
        return byte_stretches(documents)

    def token_bytes(self) -> list[bytes]:
        return [bytes((i,)) for i in range(256)]

    def to_bytes(self) -> bytes:
        return canonical.dumps({"format": FORMAT, "kind": self.kind}).encode()


class SubwordTokenizer(Tokenizer):
    """A tokenizer of the ``tokenizers`` library.

    Args:
        kind: "bpe" (trained here) or "file" (the user's).
        json_text: Content of a tokenizer.json.

    Raises:
        DataError: The library cannot read it.
    """

    def __init__(self, kind: str, json_text: str) -> None:
        import tokenizers

        self.kind = kind
        self._json = json_text
        settings = _checked(json_text)
        try:
            self._tokenizer = tokenizers.Tokenizer.from_str(json_text)
        except Exception as error:  # the library raises bare Exception, and nothing narrower
            raise DataError(f"not a tokenizer.json that the tokenizers library reads: {str(error)[:200]}") from None
        # A tokenizer file may ask for padding or truncation, which would change the text of a corpus.
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        names = self._tokenizer.get_vocab(with_added_tokens=True)
        if not names:
            raise DataError("the tokenizer has an empty vocabulary.")
        self._names: dict[str, int] = names
        self.vocabulary = max(names.values()) + 1
        _refuse_holes(self.vocabulary, len(names))
        self._byte_level = self._is_byte_level(settings)
        separators = (_LETTER_OF[0], *_END_OF_DOCUMENT) if self._byte_level else _END_OF_DOCUMENT
        self.separator = next((names[name] for name in separators if name in names), None)

    def encode(self, text: str) -> NDArray[np.int64]:
        return np.asarray(self._tokenizer.encode(text, add_special_tokens=False).ids, dtype=np.int64)

    def decode(self, ids: Sequence[int] | NDArray[Any]) -> str:
        return str(self._tokenizer.decode([int(i) for i in ids], skip_special_tokens=False))

    def encode_some(self, documents: Sequence[bytes]) -> Iterator[NDArray[Any]]:
        end = np.asarray([] if self.separator is None else [self.separator], dtype=self.dtype)
        for batch in _batches(documents):
            parts: list[NDArray[Any]] = []
            for encoding in self._tokenizer.encode_batch_fast(batch, add_special_tokens=False):
                parts += [np.asarray(encoding.ids, dtype=self.dtype), end]
            yield np.concatenate(parts)

    def token_bytes(self) -> list[bytes] | None:
        if not self._byte_level:
            return None
        table = [b""] * self.vocabulary
        added = {token.content for token in self._tokenizer.get_added_tokens_decoder().values()}
        for name, index in self._names.items():
            table[index] = name.encode() if name in added else bytes(_BYTE_OF[letter] for letter in name)
        if self.separator is not None:
            table[self.separator] = SEPARATOR
        return table

    def to_bytes(self) -> bytes:
        return canonical.dumps({"format": FORMAT, "kind": self.kind, "json": self._json}).encode()

    @property
    def json_text(self) -> str:
        """Content of its tokenizer.json."""
        return self._json

    def framed(self, text: str) -> tuple[list[int], list[int]]:
        """Ids of a text with the special tokens that the file puts around it, and 1 for each id that is special."""
        encoding = self._tokenizer.encode(text)
        return list(encoding.ids), list(encoding.special_tokens_mask)

    def _is_byte_level(self, settings: Mapping[str, Any]) -> bool:
        decoder = settings.get("decoder") or {}
        added = {token["content"] for token in settings.get("added_tokens") or []}
        spelled = all(letter in _BYTE_OF for name in self._names if name not in added for letter in name)
        return decoder.get("type") == "ByteLevel" and spelled


def train_bpe(documents: Sequence[bytes], vocabulary: int) -> SubwordTokenizer:
    """Byte-level byte-pair encoding, lossless on any text (Sennrich et al. 2016, on bytes as in GPT-2).

    Args:
        documents: Documents of the training split only.
        vocabulary: Number of ids to reach, above 256; a small corpus may give fewer.
    """
    import tokenizers

    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    words = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = words
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocabulary,
        min_frequency=2,
        show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )
    texts = (document.decode("utf-8") for document in documents)
    tokenizer.train_from_iterator((piece for text in texts for piece in _without_long_runs(text, words)), trainer)
    return SubwordTokenizer("bpe", tokenizer.to_str())


def _without_long_runs(text: str, pre_tokenizer: Any) -> Iterator[str]:
    """The text, divided within what would be learned from as one word of more than ``MAX_RUN`` letters."""
    if max(map(len, text.split()), default=0) <= MAX_RUN and not _BLANKS.search(text):
        yield text
        return
    begin = 0
    for _, (first, end) in pre_tokenizer.pre_tokenize_str(text):
        for cut in range(first + MAX_RUN, end, MAX_RUN):
            yield text[begin:cut]
            begin = cut
    yield text[begin:]


def read_tokenizer_file(path: Path) -> SubwordTokenizer:
    """The tokenizer in a Hugging Face tokenizer.json, or in a folder with one.

    Raises:
        DataError: The file is missing, too large, or has another format.
    """
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise DataError(f"no tokenizer file at {file}. Give 'bytes', 'bpe', or the path of a tokenizer.json.")
    text = files.read_text(file, MAX_FILE_BYTES)
    limited(attempt, [str(file)], what=str(file), fault=_FAULT, memory_bytes=_MEMORY)
    try:
        return SubwordTokenizer("file", text)
    except UsageError as error:
        raise DataError(f"{file}: {error}") from None


def attempt(out: BinaryIO, name: str) -> int:
    """Read a tokenizer file and encode a few words, in a limited process: the number of its ids."""
    try:
        tokenizer = SubwordTokenizer("file", files.read_text(Path(name), MAX_FILE_BYTES))
    except UsageError as error:
        raise DataError(f"{name}: {error}") from None
    tokenizer.framed("a")
    tokenizer.decode(tokenizer.encode(_WORDS))
    return tokenizer.vocabulary


def _checked(text: str) -> dict[str, Any]:
    """The settings in a tokenizer.json, whose ids are within bounds before the library sees them.

    Raises:
        DataError: It is no JSON object, or has an id that no table has.
    """
    try:
        settings = canonical.loads(text, what="tokenizer.json", max_bytes=MAX_FILE_BYTES)
    except UsageError as error:
        raise DataError(str(error)) from None
    if not isinstance(settings, dict):
        raise DataError("tokenizer.json holds no JSON object.")
    model = settings.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    added = settings.get("added_tokens")
    ids = [*vocabulary.values()] if isinstance(vocabulary, dict) else []
    ids += [token.get("id") for token in added if isinstance(token, dict)] if isinstance(added, list) else []
    numbers = [number for number in ids if type(number) is int]
    if numbers and max(numbers) >= MAX_IDS:
        raise DataError(f"tokenizer.json has the id {max(numbers):,}; ids below {MAX_IDS:,} are read.")
    if isinstance(model, dict):
        longest = model.get("max_input_chars_per_word")
        if isinstance(longest, int) and longest > MAX_WORD:
            raise DataError(f"tokenizer.json takes words of {longest:,} letters; at most {MAX_WORD:,} are read.")
    return settings


def _refuse_holes(ids: int, names: int) -> None:
    if ids > 2 * names + _FEW:
        raise DataError(
            f"the tokenizer names {names:,} tokens and has ids up to {ids - 1:,}; number them without holes."
        )


def choose(name: str, vocabulary: int) -> tuple[Tokenizer | None, dict[str, Any]]:
    """The tokenizer that a setting names, and its identity as part of a key.

    Args:
        name: Name or path: ``bytes``, ``bpe``, or the path of a tokenizer.json.
        vocabulary: Number of ids of ``bpe``.

    Returns:
        Tokenizer, None for ``bpe``, which has to be trained on the data; and its identity, JSON-able.

    Raises:
        DataError: The file is not a tokenizer.
    """
    if name == "bytes":
        return ByteTokenizer(), {"kind": "bytes"}
    if name == "bpe":
        # The library's release is part of the key, because another one may merge in another order.
        return None, {"kind": "bpe", "vocabulary": vocabulary, "library": version("tokenizers")}
    tokenizer = read_tokenizer_file(Path(name).expanduser())
    return tokenizer, {"kind": "file", "digest": tokenizer.digest}


def from_bytes(data: bytes) -> Tokenizer:
    """The tokenizer that ``to_bytes`` wrote.

    Raises:
        DataError: The bytes are no tokenizer.
    """
    try:
        value = canonical.loads(data, what="the tokenizer", max_bytes=2 * MAX_FILE_BYTES)
    except UsageError as error:
        raise DataError(str(error)) from None
    match value:
        case {"format": "evodevo.tokenizer/1", "kind": "bytes", **rest} if not rest:
            return ByteTokenizer()
        case {"format": "evodevo.tokenizer/1", "kind": "bpe" | "file" as kind, "json": str(text), **rest} if not rest:
            return SubwordTokenizer(kind, text)
        case _:
            raise DataError(f"the tokenizer is not in the format {FORMAT!r}; write it again with this evodevo.")


def hugging_face_json(tokenizer: Tokenizer) -> str:
    """The content of a tokenizer.json with the same ids.

    Raises:
        UsageError: The tokenizer is of a kind that another package added.
    """
    if isinstance(tokenizer, SubwordTokenizer):
        return tokenizer.json_text
    if not isinstance(tokenizer, ByteTokenizer):
        raise UsageError(f"a tokenizer of kind {tokenizer.kind!r} cannot be written as a tokenizer.json.")
    import tokenizers

    # Byte-pair encoding without any pair is the byte tokenizer.
    model = tokenizers.models.BPE(vocab={letter: byte for byte, letter in enumerate(_LETTER_OF)}, merges=[])
    plain = tokenizers.Tokenizer(model)
    plain.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = tokenizers.decoders.ByteLevel()
    return str(plain.to_str())


def byte_stream(documents: Sequence[bytes]) -> NDArray[np.uint8]:
    """The bytes of all documents in one array, NUL after each. Shape ``(bytes,)``."""
    return np.frombuffer(b"".join(part for document in documents for part in (document, SEPARATOR)), dtype=np.uint8)


def byte_stretches(documents: Sequence[bytes]) -> Iterator[NDArray[np.uint8]]:
    """The same, some documents at a time."""
    stretch: list[bytes] = []
    size = 0
    for document in documents:
        stretch.append(document)
        size += len(document)
        if size >= _BATCH_BYTES:
            yield byte_stream(stretch)
            stretch, size = [], 0
    if stretch:
        yield byte_stream(stretch)


def _batches(documents: Sequence[bytes]) -> Iterator[list[str]]:
    """Texts in groups of some megabytes, because the library holds offsets, many times the text, for a whole group."""
    batch: list[str] = []
    size = 0
    for document in documents:
        batch.append(document.decode("utf-8"))
        size += len(document)
        if size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _byte_letters() -> list[str]:
    """The printable letter of each byte in byte-level vocabularies (GPT-2's table), 256 of them."""
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]


_LETTER_OF = _byte_letters()
_BYTE_OF = {letter: byte for byte, letter in enumerate(_LETTER_OF)}
