"""Reading of a user's labelled images: npz, idx (MNIST's format), or a folder with one folder per class.

Finding and reading are two steps, so that a task can look up prepared data by the hashes of the files before it decodes
any image.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evodevo import canonical, files
from evodevo.errors import DataError, UsageError, quoted_list
from evodevo.tasks.base import Split
from evodevo.tasks.images.arrays import as_pixels, is_arrays, joined_files, open_arrays, read_bytes, read_idx
from evodevo.tasks.images.pixels import SUFFIXES, Pixels, decode_all
from evodevo.tasks.images.suffixes import SOUND_SUFFIXES
from evodevo.tasks.sample_splits import Pool
from evodevo.tasks.split_files import pool_of, split_of, splits_in

HOW_TO_GIVE_IMAGES = (
    "Give a folder with one folder of images or .wav files per class (or train/ and test/ with such folders), an .npz"
    " with images 'x' and labels 'y' (or a folder with train.npz and test.npz), or MNIST's idx files; .npz and idx also"
    " as .gz and .xz"
)
_IDX_IMAGES = re.compile(r"(.*)images([-.]idx)3(.*)")


@dataclass(frozen=True)
class ImageSet:
    """One source of labelled images.

    Args:
        kind: Format of the source.
        path: Path of the file, or of the folder whose folders are classes.
        pool: Splits that the images may belong to.
        files: All files that determine the content, in order.
    """

    kind: Literal["npz", "idx", "folder"]
    path: Path
    pool: Pool
    files: tuple[Path, ...]

    def fingerprint(self) -> str:
        """SHA-256 over names and contents of the files, and over the pool."""
        whole = hashlib.sha256(f"{self.kind} {self.pool}".encode())
        for path in self.files:
            name = path.relative_to(self.path).as_posix() if self.kind == "folder" else path.name
            whole.update(f"\0{name}\0".encode())
            whole.update(bytes.fromhex(files.sha256(path)))
        return whole.hexdigest()


@dataclass(frozen=True)
class Labelled:
    """Images with labels.

    Args:
        images: Images, each (height, width, 1 or 3).
        labels: Class name of each image.
        classes: Names of the classes in order.
        skipped: Names of the images that could not be read.
        uneven: Whether they had several sizes and none was given, so that all were resized.
    """

    images: Sequence[Pixels]
    labels: Sequence[str]
    classes: tuple[str, ...]
    skipped: tuple[str, ...] = ()
    uneven: bool = False


def locate(path: Path, pool: Pool = "all") -> list[ImageSet]:
    """The sources at a path: one, or one per split where the names of the files define splits.

    Raises:
        DataError: The path does not exist, or has none of the known formats.
    """
    if path.is_file():
        return [_file(path, pool)]
    if not path.exists():
        raise DataError(f"there is nothing at {path}. {HOW_TO_GIVE_IMAGES}.")
    if not path.is_dir():
        raise DataError(f"{path} is neither a file nor a folder. {HOW_TO_GIVE_IMAGES}.")
    entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith("."))
    stored = splits_in(path, is_arrays)
    if {"train", "test"} <= stored.keys():
        return _given_splits(stored, entries)
    idx = [entry for entry in entries if entry.is_file() and _IDX_IMAGES.fullmatch(entry.name)]
    if idx:
        return _idx_folder(idx, pool)
    files.refuse_links_outside(path)
    folders = [entry for entry in entries if entry.is_dir()]
    if folders and all(map(split_of, folders)):
        return _given_splits(splits_in(path, Path.is_dir), folders)
    found = tuple(file for folder in folders for file in _images_below(folder))
    if not found:
        if stored:
            return _given_splits(stored, list(stored.values()))  # which says what is missing
        there = quoted_list([entry.name for entry in entries[:8]]) or "nothing"
        raise DataError(f"{path} holds no images in folders of classes (there: {there}). {HOW_TO_GIVE_IMAGES}.")
    return [ImageSet("folder", path, pool, found)]


def read(
    part: ImageSet,
    *,
    size: tuple[int, int] | None = None,
    images: str = "x",
    labels: str = "y",
    skip_corrupt: bool = False,
) -> Labelled:
    """The images and labels of a source.

    Args:
        part: Source from ``locate``.
        size: Height and width in pixels to which encoded images are resized while reading; None leaves them.
        images: Name of the npz's array of images, (N, height, width) or (N, height, width, 1 or 3), uint8 or 0..1;
            where it is absent, the arrays ``jpg`` (all files concatenated) and ``offset`` (N + 1) are read.
        labels: Name of the npz's array of labels, (N,) numbers or names; numbers are indices into ``classes.json``
            beside the npz, if there is one.
        skip_corrupt: Whether to leave out images that cannot be read, and list them in the result.

    Raises:
        DataError: A file cannot be read; the message names it.
    """
    if part.kind == "npz":
        return _npz(part.path, images, labels, size, skip_corrupt)
    if part.kind == "idx":
        pixels, numbers = (read_idx(path) for path in part.files)
        if pixels.ndim != 3 or numbers.ndim != 1 or len(pixels) != len(numbers):
            raise DataError(
                f"{part.path} holds {pixels.shape} and {part.files[1].name} {numbers.shape}; wanted are images (N,"
                " height, width) and labels (N,)."
            )
        return _numbered(list(pixels[..., None]), numbers, None)
    return _class_folders(part, size, skip_corrupt)


def _file(path: Path, pool: Pool) -> ImageSet:
    if is_arrays(path):
        names = path.with_name("classes.json")
        return ImageSet("npz", path, pool, (path, names) if names.is_file() else (path,))
    match = _IDX_IMAGES.fullmatch(path.name)
    if match is None:
        raise DataError(f"{path} is no file of labelled images. {HOW_TO_GIVE_IMAGES}.")
    stem = f"{match[1]}labels{match[2]}1"
    for ending in (match[3], "-ubyte", *(f"-ubyte{packed}" for packed in files.COMPRESSIONS)):
        labels = path.with_name(stem + ending)
        if labels.is_file():
            return ImageSet("idx", path, pool, (path, labels))
    raise DataError(f"the labels of {path} are missing: there is no {stem}{match[3]} beside it.")


def _idx_folder(images: Sequence[Path], pool: Pool) -> list[ImageSet]:
    # MNIST's test split is called t10k; a folder may have each file both compressed and uncompressed.
    chosen = {_unpacked_name(path): path for path in images}
    train = [path for name, path in chosen.items() if name.startswith("train")]
    test = [path for name, path in chosen.items() if name.startswith(("t10k", "test"))]
    if len(train) == 1 and len(test) == 1:
        return [_file(train[0], "train_validation"), _file(test[0], "test")]
    if len(chosen) == 1:
        return [_file(next(iter(chosen.values())), pool)]
    raise DataError(
        f"{images[0].parent} holds {len(chosen)} files of images ({quoted_list(sorted(chosen)[:4])}); expected are"
        " train-images... and t10k-images..., or one file."
    )


def _unpacked_name(path: Path) -> str:
    return path.stem if path.suffix in files.COMPRESSIONS else path.name


def _given_splits(paths: dict[Split, Path], there: Sequence[Path]) -> list[ImageSet]:
    if not {"train", "test"} <= paths.keys():
        only = there[0]
        raise DataError(
            f"{only.parent} has {quoted_list(entry.name for entry in there)} but not both train and test. Add what is"
            f" missing, or give one of them alone ({only}), which is then split."
        )
    return [part for split, path in paths.items() for part in locate(path, pool_of(split, paths))]


def _images_below(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        hidden = any(piece.startswith(".") for piece in path.relative_to(folder).parts)
        if path.suffix.lower() in SUFFIXES and path.is_file() and not hidden:
            yield path


def _class_folders(part: ImageSet, size: tuple[int, int] | None, skip_corrupt: bool) -> Labelled:
    names = [file.relative_to(part.path).parts[0] for file in part.files]
    sounds = [file for file in part.files if file.suffix.lower() in SOUND_SUFFIXES]
    if 0 < len(sounds) < len(part.files):
        raise DataError(
            f"{part.path} holds {len(sounds):,} sounds ({sounds[0].relative_to(part.path)}, ...) and "
            f"{len(part.files) - len(sounds):,} images; give one kind."
        )
    found = ((str(file), _bytes_or_error(file)) for file in part.files)
    decoded = decode_all(found, size, skip_corrupt)
    labels = [names[row] for row in decoded.kept]
    return Labelled(decoded.images, labels, tuple(sorted(set(names))), tuple(decoded.skipped), decoded.uneven)


def _bytes_or_error(path: Path) -> bytes | DataError:
    try:
        return read_bytes(path)
    except DataError as error:
        return error


def _npz(path: Path, images: str, labels: str, size: tuple[int, int] | None, skip_corrupt: bool) -> Labelled:
    arrays = open_arrays(path)
    packed = images not in arrays and {"jpg", "offset"} <= arrays.keys()
    for name in (labels,) if packed else (images, labels):
        if name not in arrays:
            raise DataError(f"{path} has no array {name!r} (there: {quoted_list(arrays)}). Name it in the settings.")
    numbers = arrays[labels].reshape(-1)
    count = max(0, arrays["offset"].size - 1) if packed else len(arrays[images])
    if count != len(numbers):
        raise DataError(f"{path} has {count:,} images and {len(numbers):,} labels; give one label per image.")
    beside = path.with_name("classes.json")
    names = beside if beside.is_file() else None
    if not packed:
        return _numbered(list(as_pixels(arrays[images], f"the array {images!r} of {path}")), numbers, names)
    decoded = decode_all(joined_files(arrays["jpg"], arrays["offset"], path), size, skip_corrupt)
    labelled = _numbered(decoded.images, numbers[decoded.kept], names, tuple(decoded.skipped))
    return replace(labelled, uneven=decoded.uneven)


def _numbered(
    pixels: Sequence[Pixels], numbers: NDArray[Any], names_file: Path | None, skipped: tuple[str, ...] = ()
) -> Labelled:
    """Images with labels that are names, or numbers of classes whose names may be in a file."""
    if numbers.dtype.kind not in "iubU":
        raise DataError(f"labels are {numbers.dtype}; wanted are whole numbers or text.")
    if numbers.dtype.kind == "U" or names_file is None:
        classes = tuple(str(value) for value in np.unique(numbers).tolist())
        return Labelled(pixels, [str(value) for value in numbers.tolist()], classes, skipped)
    try:
        names = canonical.loads(files.read(names_file, canonical.MAX_BYTES), what=str(names_file))
    except UsageError as error:
        raise DataError(str(error)) from None
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names) and len(set(names)) == len(names)):
        raise DataError(f"{names_file} must be a JSON list of distinct class names.")
    outside = [value for value in np.unique(numbers).tolist() if not 0 <= value < len(names)]
    if outside:
        raise DataError(f"the label {outside[0]} has no name in {names_file}, which has {len(names)}.")
    return Labelled(pixels, [names[value] for value in numbers.tolist()], tuple(names), skipped)
