"""Reading of a user's images and texts: rows of a CSV or JSONL file with an image's name, a text and the answers.

An image's name is a file's path below a folder, or the number of an image in an npz.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from evodevo.errors import DataError, quoted_list
from evodevo.settings import Settings
from evodevo.tasks.base import SPLITS, Split
from evodevo.tasks.image_text import references as image_references
from evodevo.tasks.image_text.references import References
from evodevo.tasks.image_text.samples import MATCH, TEXTS, Form, ImageTextSamples, Prepared, QuestionKind, truth
from evodevo.tasks.images.pixels import Colour, Pixels
from evodevo.tasks.sample_splits import Pool, assign, columns_digest, fingerprint
from evodevo.tasks.table import rows
from evodevo.tasks.text.words import Vocabulary, cut

_VERSION = 1
_LONGEST = 128
_NAMED = 20


class FileSettings(Settings):
    """Paths of the rows and images, names of the columns, and preparation of the samples."""

    data: str | None = Field(default=None, description="a .csv or .jsonl file (or .gz, .xz); none is generated scenes")
    test: str | None = Field(default=None, description="the same for the test split; none is cut off by content")
    images: str | None = Field(
        default=None, description="folder of the images, or an .npz with images 'x'; none is the folder of data"
    )
    test_images: str | None = Field(default=None, description="the same for the test split; none is that of data")
    image_column: str = Field(default="image", min_length=1, description="column with the image's path or number")
    text_column: str = Field(default="text", min_length=1, description="column with the text, or the first caption")
    second_column: str = Field(default="second", min_length=1, description="column with the second caption")
    label_column: str = Field(default="label", min_length=1, description="column with the class, or the labels")
    match_column: str = Field(default="match", min_length=1, description="column of the match: yes/no, true/false, 1/0")
    separator: str = Field(default="|", min_length=1, description="separator of labels in a row")
    size: tuple[int, int] | None = Field(default=None, description="height and width to which images are resized")
    colour: Colour = Field(default="auto", description="'grey', 'rgb', or 'auto' for that of the images")
    vocabulary: int = Field(default=4096, ge=3, le=65_536, description="token ids of the commonest training words")
    length: int | None = Field(
        default=None, ge=1, le=4096, description="largest number of words in a text; none is the longest, up to 128"
    )
    held_out: float = Field(
        default=0.1,
        gt=0,
        le=0.4,
        description="share of the validation split, and of the test split where no test file is given",
    )
    skip_corrupt: bool = Field(default=False, description="leave out rows with an unreadable image")

    @model_validator(mode="after")
    def _what_belongs_together(self) -> Self:
        if self.data is None and (self.test is not None or self.images is not None):
            raise ValueError("test and images belong to data; there is none")
        if self.test is None and self.test_images is not None:
            raise ValueError("test_images belong to test; there is none")
        if self.size is not None and not all(1 <= side <= 4096 for side in self.size):
            raise ValueError(f"size is a height and a width from 1 to 4096, got {list(self.size)}")
        return self


@dataclass(frozen=True)
class _Part:
    """One file: its rows as column -> values, and the references to its images."""

    path: Path
    pool: Pool
    columns: dict[str, list[str]]
    images: References | None

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


def read_parts(form: Form, settings: FileSettings) -> list[_Part]:
    """The rows of all files.

    Raises:
        DataError: A file is unreadable, empty, or lacks a column.
    """
    assert settings.data is not None
    wanted = {"caption_match": ["text", "second", "match"], "match": ["image", "text", "match"]}.get(
        form, ["image", "text", "label", *(["match"] if form == "both" else [])]
    )
    names = [getattr(settings, f"{column}_column") for column in wanted]
    pool: Pool = "all" if settings.test is None else "train_validation"
    files: list[tuple[str, Pool, str | None]] = [(settings.data, pool, settings.images)]
    if settings.test is not None:
        files.append((settings.test, "test", settings.test_images or settings.images))
    parts: list[_Part] = []
    for name, pool, images in files:
        path = Path(name).expanduser()
        if not path.is_file():
            raise DataError(f"there is no file at {path}. Give a .csv or .jsonl file with {quoted_list(names)}.")
        table = list(rows.read(path, names, separator=settings.separator))
        if not table:
            raise DataError(f"{path} has no rows. Give at least one of each class.")
        columns = {column: [row[index].strip() for row in table] for index, column in enumerate(wanted)}
        folder = Path(images).expanduser() if images else path.parent
        named = References(columns["image"], folder, settings.image_column, path) if "image" in columns else None
        parts.append(_Part(path, pool, columns, named))
    return parts


def identity(parts: Sequence[_Part]) -> list[Any]:
    """All that determines the samples: the rows and the bytes of the images that they name. JSON-able."""
    return [
        [_VERSION, part.pool, columns_digest(part.columns), part.images.digest() if part.images else None]
        for part in parts
    ]


def prepare(form: Form, settings: FileSettings, parts: Sequence[_Part]) -> Prepared:
    """Decode images, tokenise texts and divide the samples; rows without any input are counted as skipped.

    Raises:
        DataError: An image or an answer cannot be read, there is one class only, or a class has no training sample.
        UnsafeFileError: A path leads out of the folder of images.
    """
    named = [part.images for part in parts if part.images is not None]
    decoded = image_references.read(named, settings.size, settings.colour, settings.skip_corrupt) if named else None
    pixels, image = (decoded.pixels, decoded.numbers) if decoded else (None, None)
    column = {
        name: [value for part in parts for value in part.columns[name]] for name in parts[0].columns if name != "image"
    }
    pools = [part.pool for part in parts for _ in range(len(part))]
    texts = {
        name: [cut(text) for text in column[key]] for name, key in zip(TEXTS[form], ("text", "second"), strict=False)
    }
    questions, targets = _answers(form, settings, column)
    unit, content = _contents(pixels, image, texts)
    usable = np.asarray([any(row) for row in zip(*texts.values(), strict=True)], bool)
    if decoded:
        usable = decoded.usable & (usable | (decoded.numbers >= 0))
    kept = np.flatnonzero(usable)
    classes = targets["label"][kept].tolist() if form == "labels" else None
    division = assign(
        [content[row] for row in kept],
        [pools[row] for row in kept],
        units=[unit[row] for row in kept],
        unit_name="image" if named else "first caption",
        classes=classes,
        held_out=settings.held_out,
    )
    indices = {split: kept[division.places[split]] for split in SPLITS}
    _check_seen(questions, targets, indices)
    learned = [words for group in texts.values() for words in (group[row] for row in indices["train"])]
    vocabulary = Vocabulary.of(learned, settings.vocabulary)
    length = settings.length or max(1, min(_LONGEST, max(map(len, learned))))
    splits = {
        split: ImageTextSamples(
            images=None if image is None else image[chosen],
            tokens={name: vocabulary.encode([group[row] for row in chosen], length) for name, group in texts.items()},
            targets={name: target[chosen] for name, target in targets.items()},
            groups={"match": targets["match"][chosen]} if "match" in targets else {},
        )
        for split, chosen in indices.items()
    }
    return Prepared(
        pixels=pixels,
        words=vocabulary.words,
        questions=questions,
        groups={"match": MATCH} if "match" in targets else {},
        splits=splits,
        info={
            "source": quoted_list(part.path for part in parts),
            "split_rule": division.rule,
            "repeated": division.repeated,
            "dropped_as_held_out": division.dropped,
            "skipped": int((~usable).sum()),
            "skipped_names": decoded.skipped[:_NAMED] if decoded else [],
            "truncated": sum(len(words) > length for group in texts.values() for words in group),
        },
    )


def _answers(
    form: Form, settings: FileSettings, column: dict[str, list[str]]
) -> tuple[tuple[QuestionKind, ...], dict[str, NDArray[np.int64]]]:
    questions: list[QuestionKind] = []
    targets: dict[str, NDArray[np.int64]] = {}
    if form == "labels":
        names = tuple(sorted(set(column["label"])))
        numbers = {name: number for number, name in enumerate(names)}
        questions.append(QuestionKind("label", "class", names))
        targets["label"] = np.asarray([numbers[label] for label in column["label"]], np.int64)
    elif form in ("multilabel", "both"):
        sets = [{piece.strip() for piece in text.split(settings.separator)} - {""} for text in column["label"]]
        names = tuple(sorted(set().union(*sets)))
        questions.append(QuestionKind("labels", "labels", names))
        targets["labels"] = np.asarray([[name in own for name in names] for own in sets], np.int64)
    if "match" in column:
        questions.append(QuestionKind("match", "class", MATCH))
        targets["match"] = np.asarray([truth(value, settings.match_column) for value in column["match"]], np.int64)
    for question in questions:
        few = len(np.unique(targets[question.name])) < 2 if question.kind == "class" else not question.names
        if few:
            raise DataError(f"the answers to {question.name!r} are all the same; a task needs two classes at least.")
    return tuple(questions), targets


def _check_seen(
    questions: Iterable[QuestionKind], targets: dict[str, NDArray[np.int64]], indices: dict[Split, NDArray[np.int64]]
) -> None:
    for question in questions:
        seen = {split: _occurring(question, targets[question.name][rows]) for split, rows in indices.items()}
        unseen = sorted((seen["validation"] | seen["test"]) - seen["train"])
        if unseen:
            names = [repr(question.names[number]) for number in unseen[:8]]
            raise DataError(
                f"{len(unseen)} of the answers to {question.name!r} ({quoted_list(names)}) are in no training sample."
                " Give training samples of them, or remove them."
            )


def _occurring(question: QuestionKind, target: NDArray[np.int64]) -> set[int]:
    numbers = np.unique(target) if question.kind == "class" else np.flatnonzero(target.any(axis=0))
    return set(numbers.tolist())


def _contents(
    pixels: Pixels | None, image: NDArray[np.int64] | None, texts: dict[str, list[list[str]]]
) -> tuple[list[bytes], list[bytes]]:
    """Per sample a fingerprint of the content that must stay in one split (image, or else first text), and of all."""
    texts_of_rows = [[" ".join(words).encode() for words in row] for row in zip(*texts.values(), strict=True)]
    if pixels is None or image is None:
        return [fingerprint(row[0]) for row in texts_of_rows], [fingerprint(*row) for row in texts_of_rows]
    each = [fingerprint(picture.tobytes()) for picture in pixels]
    images = [each[number] if number >= 0 else b"" for number in image.tolist()]
    content = [fingerprint(picture, *row) for picture, row in zip(images, texts_of_rows, strict=True)]
    return [picture or whole for picture, whole in zip(images, content, strict=True)], content
