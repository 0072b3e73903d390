"""A fitted classifier in a folder: settings as JSON, weights as safetensors; reading them runs no code of theirs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from evodevo import canonical
from evodevo.errors import NotFoundError, UnsafeFileError, UsageError
from evodevo.estimators.fitting import build
from evodevo.estimators.reading import Reading
from evodevo.estimators.targets import restored
from evodevo.settings import Settings, validate
from evodevo.spaces.zoo_structure import ZooStructure

if TYPE_CHECKING:
    from evodevo.estimators.zoo_classifier import ZooClassifier

    C = TypeVar("C", bound=ZooClassifier)

ABOUT, WEIGHTS = "zoo.json", "weights.safetensors"
MOST_BYTES = 64 << 20
"""Of the JSON: a vocabulary and a structure."""


class Kept(Settings):
    """What ``zoo.json`` holds."""

    format: Literal["evodevo.zoo_classifier/1"]
    parameters: dict[str, Any]
    structure: ZooStructure
    reading: Reading
    kind: Literal["class", "labels"]
    classes: tuple[str | int | float | bool, ...]
    features: int | None
    course: dict[str, Any]


def save(classifier: ZooClassifier, folder: Path) -> None:
    """See ``ZooClassifier.save``."""
    if folder.exists() and {one.name for one in folder.iterdir()} - {ABOUT, WEIGHTS}:
        raise UsageError(f"{folder} holds other files; name a folder that is empty or new.")
    classes = classifier.classes_.tolist()
    if any(not isinstance(one, (str, int, float, bool)) for one in classes):
        raise UsageError("classes that are neither texts nor numbers cannot be written down.")
    network = classifier.network_
    given = classifier.get_params(deep=False)
    # A generator or modules of one's own belong to the fit; what was made of them is in the structure.
    plain: dict[str, Any] = {
        name: one for name, one in given.items() if one is None or isinstance(one, (str, int, float, bool))
    }
    if not isinstance(given["modules"], str) and all(isinstance(one, str) for one in given["modules"]):
        plain["modules"] = list(given["modules"])
    kept = Kept(
        format="evodevo.zoo_classifier/1",
        parameters=plain,
        structure=network.structure,
        reading=classifier._reading,
        kind="class" if classifier._targets.output.kind == "class" else "labels",
        classes=tuple(classes),
        features=getattr(classifier, "n_features_in_", None),
        course={
            "metric_": classifier.metric_,
            "best_epoch_": classifier.best_epoch_,
            "n_epochs_": classifier.n_epochs_,
            "history_": classifier.history_,
        },
    )
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: one.contiguous() for name, one in network.state_dict().items()}
    save_file(tensors, folder / WEIGHTS)
    (folder / ABOUT).write_text(canonical.dumps(kept.model_dump(mode="json")), encoding="utf-8")


def load(cls: type[C], folder: Path) -> C:
    """See ``ZooClassifier.load``."""
    try:
        if (folder / ABOUT).stat().st_size > MOST_BYTES:
            raise UnsafeFileError(f"{folder / ABOUT} has more than {MOST_BYTES:,} bytes; it is no classifier of ours.")
        text = (folder / ABOUT).read_text(encoding="utf-8")
        tensors = load_file(folder / WEIGHTS)
    except FileNotFoundError as error:
        raise NotFoundError(f"no classifier in {folder}: {Path(error.filename or WEIGHTS).name} is missing.") from None
    except (SafetensorError, UnicodeDecodeError) as error:
        raise UnsafeFileError(f"{folder} holds no readable classifier: {error}") from None
    try:
        kept = validate(
            Kept, canonical.loads(text, what=str(folder / ABOUT), max_bytes=MOST_BYTES), what="a classifier"
        )
        names = kept.parameters.get("modules", ())
        listed = {"modules": tuple(names)} if isinstance(names, list) else {}
        classifier = cls(**{**kept.parameters, **listed})
        targets = restored(kept.kind, np.array(kept.classes))
        network = build(kept.structure, kept.reading.inputs, (targets.output,), seed=0)
        network.load_state_dict(tensors)
    except (UsageError, TypeError, RuntimeError) as error:
        raise UnsafeFileError(f"{folder} holds no classifier of this evodevo: {error}") from None
    classifier._take(kept.reading, targets, network.eval())
    for name in ("metric_", "best_epoch_", "n_epochs_", "history_"):
        setattr(classifier, name, kept.course.get(name))
    if kept.features is not None:
        classifier.n_features_in_ = kept.features
    return classifier
