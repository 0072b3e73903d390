"""Settings of the task ``table``: files, the meaning of the columns, and the preparation of the samples."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from evodevo.errors import DataError, quoted_list
from evodevo.settings import Settings
from evodevo.tasks.images.pixels import Colour
from evodevo.tasks.table.group_splits import Shares
from evodevo.tasks.table.tables import HOW_TO_GIVE_ROWS, ColumnTable

Names = str | tuple[str, ...]


class TableSettings(Settings):
    """Paths of the rows, meaning of the columns, and preparation of the samples."""

    data: str | None = Field(
        default=None,
        description="a .csv, .jsonl (or .gz, .xz) or .parquet file, a sample per row; or a folder with one folder of "
        "images or .txt files per class, whose columns are image or text, and label",
    )
    architecture: str | None = Field(default=None, description="the same for the split of a strategist's decisions")
    validation: str | None = Field(default=None, description="the same for the validation split")
    test: str | None = Field(default=None, description="the same for the test split")
    image: str | None = Field(default=None, min_length=1, description="column of the image's path, or number in an npz")
    box: Names = Field(
        default=(), description="columns of x, y, width, height (or one with all four) of the relevant part"
    )
    text: str | None = Field(default=None, min_length=1, description="column of the text")
    vectors: Names = Field(default=(), description="columns of numbers, or one column of lists")
    label: str | None = Field(default=None, min_length=1, description="column of the class, or of several labels")
    separator: str | None = Field(
        default=None,
        min_length=1,
        description="separator of labels in a row; none is one class, unless the cells are JSON lists",
    )
    match: str | None = Field(
        default=None, min_length=1, description="column of whether the inputs match: yes/no, true/false, 1/0"
    )
    group: str | None = Field(
        default=None,
        min_length=1,
        description="column whose equal values stay in one split; none is equal images or texts",
    )
    split: str | None = Field(
        default=None, min_length=1, description="column of train, architecture, validation, test; empty is free"
    )
    images: str | None = Field(
        default=None,
        description="folder of the images, or an .npz with images 'x'; none is the folder of the file, or data itself",
    )
    test_images: str | None = Field(default=None, description="the same for the test split; none is that of data")
    size: tuple[int, int] | None = Field(
        default=None,
        description="height and width to which images are resized; none is their own where all have one of at most"
        " 128 x 128, else 64 x 64",
    )
    colour: Colour = Field(default="auto", description="'grey', 'rgb', or 'auto' for that of the images")
    tokenizer: str = Field(default="words", description="'words', 'bytes', or a tokenizer.json or a folder with one")
    vocabulary: int = Field(
        default=4096, ge=3, le=65_536, description="token ids of 'words', the commonest of training texts"
    )
    length: int | None = Field(
        default=None, ge=1, le=65_536, description="largest number of tokens of a text; none is the longest, up to 128"
    )
    shares: Shares = Field(default=Shares(), description="shares of the splits that no file or column defines")
    skip_corrupt: bool = Field(
        default=False, description="leave out and count rows with unreadable images, and unreadable numbers"
    )

    @model_validator(mode="after")
    def _what_belongs_together(self) -> Self:
        if self.data is None and any((self.architecture, self.validation, self.test, self.images)):
            raise ValueError("files of splits and images belong to data; there is none")
        if self.test_images is not None and self.test is None:
            raise ValueError("test_images belong to test; there is none")
        if self.size is not None and not all(1 <= side <= 4096 for side in self.size):
            raise ValueError(f"size is a height and a width from 1 to 4096, got {list(self.size)}")
        if self.box and self.image is None:
            raise ValueError("box is a part of an image; name the column of images too")
        return self


class Columns(Settings):
    """Names of the columns by their meaning; None or empty where the table has no such column."""

    image: str | None
    box: tuple[str, ...]
    text: str | None
    vectors: tuple[str, ...]
    label: str | None
    match: str | None
    group: str | None
    split: str | None

    def inputs(self) -> tuple[str, ...]:
        """Names of the columns of inputs."""
        return tuple(name for name in (self.image, *self.box, self.text, *self.vectors) if name)

    def all(self) -> tuple[str, ...]:
        """Names of all columns."""
        others = (self.label, self.match, self.group, self.split)
        return self.inputs() + tuple(name for name in others if name)


def columns_of(settings: TableSettings, table: ColumnTable) -> Columns:
    """The columns in the settings; where these name no input or no answer, columns with the default names.

    Raises:
        DataError: There is no input, or no answer, or a box has neither 1 nor 4 columns.
    """
    image, text, vectors = settings.image, settings.text, _names(settings.vectors, table)
    if not (image or text or vectors):
        image, text = ("image" if "image" in table else None), ("text" if "text" in table else None)
    label, match = settings.label, settings.match
    if not (label or match):
        label = "label" if "label" in table else None
        match = "match" if "match" in table and not label else None
    there = quoted_list(list(table)[:16])
    if not (image or text or vectors):
        raise DataError(f"no input is named. Set image, text or vectors to columns of the table (there: {there}).")
    if not (label or match):
        raise DataError(f"no answer is named. Set label or match to a column of the table (there: {there}).")
    box = _names(settings.box, table)
    if len(box) not in (0, 1, 4):
        raise DataError(f"box is one column, or four of x, y, width and height; got {quoted_list(box)}.")
    if match and sum(map(bool, (image, text, vectors))) < 2:
        raise DataError("a match needs two inputs. Set two of image, text and vectors, or set label instead of match.")
    return Columns(
        image=image,
        box=box,
        text=text,
        vectors=vectors,
        label=label,
        match=match,
        group=settings.group,
        split=settings.split,
    )


def data_of(settings: TableSettings) -> str:
    """The path of the rows.

    Raises:
        DataError: The settings have none.
    """
    if settings.data is None:
        raise DataError(f"the task 'table' has no data of its own. {HOW_TO_GIVE_ROWS}.")
    return settings.data


def _names(given: Names, table: ColumnTable) -> tuple[str, ...]:
    """Names of columns, given as a list, or as one text with commas between them."""
    if isinstance(given, tuple):
        return given
    return (given,) if given in table else tuple(name.strip() for name in given.split(",") if name.strip())
