"""Saving of classifiers to a folder: settings as JSON, weights as safetensors; loading runs no code from the files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import numpy as np

from evodevo import canonical, files
from evodevo.errors import DataError, NotFoundError, UnsafeFileError, UsageError
from evodevo.estimators.fitting import build
from evodevo.estimators.reading import InputReading
from evodevo.estimators.targets import restored
from evodevo.module_zoo.spec import ZooStructure
from evodevo.settings import Settings, validate
from evodevo.training.parts import part_bytes, read_tensors

ABOUT, WEIGHTS = "zoo.json", "weights.safetensors"
EDITS, MEMORY, PARENT = "edits.json", "edit_memory.jsonl", "{}.safetensors"
"""Files of a growth: the log, the edits with their rewards, and the weights of parents by their SHA-256."""
_MORE = re.compile(rf"{re.escape(EDITS)}|{re.escape(MEMORY)}|plain\.(json|safetensors)|[0-9a-f]{{64}}\.safetensors")
MOST_BYTES = 64 << 20
"""Largest size of the JSON in bytes: it holds a vocabulary and a structure."""


class Keepable(Protocol):
    """The stored parts of a classifier and its reconstruction from them; see ``Classifier``."""

    kept_format: ClassVar[str]
    kept_facts: ClassVar[tuple[str, ...]]
    classes_: Any
    network_: Any
    n_features_in_: Any
    _reading: Any
    _targets: Any

    def __init__(self, *given: Any, **parameters: Any) -> None: ...
    def get_params(self, deep: bool = True) -> Any: ...
    def _more_files(self) -> dict[str, bytes]: ...
    def _take_files(self, files: Mapping[str, bytes]) -> None: ...
    def _take(self, reading: InputReading, targets: Any, network: Any) -> None: ...


C = TypeVar("C", bound=Keepable)


class SavedEstimator(Settings):
    """Contents of ``zoo.json``."""

    format: str
    parameters: dict[str, Any]
    structure: ZooStructure
    reading: InputReading
    kind: Literal["class", "labels"]
    classes: tuple[str | int | float | bool, ...]
    features: int | None
    course: dict[str, Any]


def save(classifier: Keepable, folder: Path) -> None:
    """See ``Classifier.save``."""
    before = {file.name for file in folder.iterdir()} if folder.exists() else set()
    if any(name not in (ABOUT, WEIGHTS) and not _MORE.fullmatch(name) for name in before):
        raise UsageError(f"{folder} holds other files; name a folder that is empty or new.")
    classes = classifier.classes_.tolist()
    if any(not isinstance(value, (str, int, float, bool)) for value in classes):
        raise UsageError("classes that are neither texts nor numbers cannot be written down.")
    network = classifier.network_
    given = classifier.get_params(deep=False)
    # A generator or a user's own modules are not saved; the resulting modules are in the structure.
    plain = {name: list(item) if isinstance(item, tuple) else item for name, item in given.items() if _is_plain(item)}
    kept = SavedEstimator(
        format=classifier.kept_format,
        parameters=plain,
        structure=network.structure,
        reading=classifier._reading,
        kind="class" if classifier._targets.output.kind == "class" else "labels",
        classes=tuple(classes),
        features=getattr(classifier, "n_features_in_", None),
        course={name: getattr(classifier, name) for name in classifier.kept_facts},
    )
    weights = part_bytes(network.state_dict())  # refuses what is not finite before anything is written
    folder.mkdir(parents=True, exist_ok=True)
    more = classifier._more_files()
    for name in before - {ABOUT, WEIGHTS} - set(more):
        (folder / name).unlink()
    for name, contents in more.items():
        (folder / name).write_bytes(contents)
    (folder / WEIGHTS).write_bytes(weights)
    (folder / ABOUT).write_text(canonical.dumps(kept.model_dump(mode="json")), encoding="utf-8")


def load(cls: type[C], folder: Path) -> C:
    """See ``Classifier.load``."""
    try:
        for name in (ABOUT, WEIGHTS):
            if not (folder / name).exists():
                raise NotFoundError(f"no classifier in {folder}: {name} is missing.")
        text = files.read_text(folder / ABOUT, MOST_BYTES, inside=folder)
        most = files.most_input()
        tensors = read_tensors(files.read(folder / WEIGHTS, most, inside=folder), str(folder / WEIGHTS))
        found = [file for file in folder.iterdir() if _MORE.fullmatch(file.name)]
        more = {file.name: files.read(file, most, inside=folder) for file in found}
    except DataError as error:
        raise UnsafeFileError(f"{folder} holds no readable classifier: {error}") from None
    try:
        kept = validate(
            SavedEstimator, canonical.loads(text, what=str(folder / ABOUT), max_bytes=MOST_BYTES), what="a classifier"
        )
        if kept.format != cls.kept_format:
            raise UsageError(f"its format is {kept.format[:60]!r}, that of a {cls.__name__} {cls.kept_format!r}.")
        names = kept.parameters.get("modules", ())
        listed = {"modules": tuple(names)} if isinstance(names, list) else {}
        classifier = cls(**{**kept.parameters, **listed})
        targets = restored(kept.kind, np.array(kept.classes))
        network = build(kept.structure, kept.reading.inputs, (targets.output,), seed=0)
        network.load_state_dict(tensors)
        classifier._take_files(more)
    except (UsageError, TypeError, RuntimeError) as error:
        raise UnsafeFileError(f"{folder} holds no classifier of this evodevo: {error}") from None
    classifier._take(kept.reading, targets, network.eval())
    for name in cls.kept_facts:
        setattr(classifier, name, kept.course.get(name))
    if kept.features is not None:
        classifier.n_features_in_ = kept.features
    return classifier


def _is_plain(value: Any) -> bool:
    """Whether JSON can represent it."""
    if isinstance(value, (list, tuple)):
        return all(_is_plain(item) for item in value)
    if isinstance(value, dict):
        return all(isinstance(name, str) and _is_plain(item) for name, item in value.items())
    return value is None or isinstance(value, (str, int, float, bool))
