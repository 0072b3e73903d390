"""Tasks of the recipes: characters and objects from a folder of data, or, without one, questions about scikit-learn's
digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evodevo.errors import NotFoundError, quoted_list
from evodevo.multitask.recipes.settings import TaskPlan
from evodevo.multitask.recipes.variants import FINE_TUNED
from evodevo.multitask.settings import CycleSettings
from evodevo.multitask.training.objective import LIKELIHOOD
from evodevo.tasks.multitask.few import FewSamples
from evodevo.tasks.multitask.task import MultitaskSettings

DIGITS = TaskPlan(name="digits", source=MultitaskSettings())
PRETRAINING = "fashion_mnist"
"""Task of a root's pretraining in a folder of data; it is no task of the systems."""
FOLDERS = (
    "mnist10k",
    "notmnist10k",
    "cmaterdb_bangla",
    "cmaterdb_devanagari",
    "omniglot_small1",
    "cifar10_jpg",
)
"""Tasks of a folder of data; scikit-learn's digits are one more."""

OFFLINE_ROOT = TaskPlan(name="digits_parity", source=MultitaskSettings(question="parity"))
OFFLINE = (
    DIGITS,
    TaskPlan(name="digits_upper_half", source=MultitaskSettings(question="upper_half")),
    TaskPlan(name="digits_rotated", source=MultitaskSettings(rotate=3)),
    TaskPlan(name="digits_0_to_4", source=MultitaskSettings(only=("0", "1", "2", "3", "4"))),
    TaskPlan(name="digits_even", source=MultitaskSettings(only=("0", "2", "4", "6", "8"))),
)


FEW = FewSamples(train=20, validation=20)
"""Samples of each class of a task that has few of them."""
FEW_SUFFIX = "_few"
FEW_ROOT = "cmaterdb_bangla"
WHOLE = ("cmaterdb_devanagari", "omniglot_small1")
"""Tasks of a folder of data that are read by tasks with few samples, and are none themselves."""
BOTH = ("mnist10k", "notmnist10k", "fashion_mnist", "cifar10_jpg")
"""Tasks of a folder of data with 2,000 test samples or more: each is learned whole, and once more of few samples."""
WHOLE_CYCLE = CycleSettings(samples=2, generation_size=2, child=FINE_TUNED)
"""Tasks that others read are learned with all of their components; else several would be the root with other heads."""
FEW_STEPS, FEW_BATCH = 500, 32
"""Steps of a child of a task with few samples, and samples of a step."""


def few_tasks_of(data: str | None) -> tuple[TaskPlan, tuple[TaskPlan, ...]]:
    """The root's data, and tasks with few samples besides others with all of theirs.

    No path that a task with few samples may read has learned the whole of the same data: the others begin with the
    root alone.

    Args:
        data: a folder with one folder for each of ``FEW_ROOT``, ``WHOLE`` and ``BOTH``; None = questions about digits.

    Raises:
        NotFoundError: one of them is not there.
    """
    if data is None:
        root = OFFLINE_ROOT
        # Rotated labels are the same question: such a path would know the answers.
        whole = {one.name: one.source for one in OFFLINE if not one.source.rotate and one is not DIGITS}
        sources = {"digits": DIGITS.source}
    else:
        folder = _folder(data, (FEW_ROOT, *WHOLE, *BOTH))
        root = _plan(folder, FEW_ROOT)
        whole = {name: _plan(folder, name).source for name in (*WHOLE, *BOTH)} | {"digits": DIGITS.source}
        sources = {name: whole[name] for name in BOTH}
    others = [TaskPlan(name=name, source=source, reads=(), cycle=WHOLE_CYCLE) for name, source in whole.items()]
    few = [
        TaskPlan(
            name=f"{name}{FEW_SUFFIX}",
            source=source.model_copy(update={"few": FEW, "batch": FEW_BATCH}),
            reads=tuple(other for other in whole if other != name),
            training={"steps": FEW_STEPS, "objective": LIKELIHOOD},
        )
        for name, source in sources.items()
    ]
    return root, (*others, *few)


def tasks_of(data: str | None) -> tuple[TaskPlan, tuple[TaskPlan, ...]]:
    """The root's data, and the tasks.

    Args:
        data: a folder with one folder for each of ``FOLDERS`` and ``PRETRAINING``; None = questions about digits.

    Raises:
        NotFoundError: one of them is not there.
    """
    if data is None:
        return OFFLINE_ROOT, OFFLINE
    folder = _folder(data, (PRETRAINING, *FOLDERS))
    return _plan(folder, PRETRAINING), (*(_plan(folder, name) for name in FOLDERS), DIGITS)


def _folder(data: str, names: Sequence[str]) -> Path:
    folder = Path(data).expanduser().resolve()
    missing = [name for name in names if not (folder / name).is_dir()]
    if missing:
        raise NotFoundError(
            f"{folder} has no {quoted_list(missing)}; this recipe reads one folder for each task. Without --data it"
            " asks questions about scikit-learn's digits."
        )
    return folder


def _plan(folder: Path, name: str) -> TaskPlan:
    return TaskPlan(name=name, source=MultitaskSettings(data=str(folder / name)))
