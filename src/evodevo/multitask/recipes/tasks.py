"""Tasks of the recipes: characters and objects from a folder of data, or, without one, questions about scikit-learn's
digits.
"""

from __future__ import annotations

from pathlib import Path

from evodevo.errors import NotFoundError, quoted_list
from evodevo.multitask.recipes.settings import TaskPlan
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


def tasks_of(data: str | None) -> tuple[TaskPlan, tuple[TaskPlan, ...]]:
    """The root's data, and the tasks.

    Args:
        data: a folder with one folder for each of ``FOLDERS`` and ``PRETRAINING``; None = questions about digits.

    Raises:
        NotFoundError: one of them is not there.
    """
    if data is None:
        return OFFLINE_ROOT, OFFLINE
    folder = Path(data).expanduser().resolve()
    missing = [name for name in (PRETRAINING, *FOLDERS) if not (folder / name).is_dir()]
    if missing:
        raise NotFoundError(
            f"{folder} has no {quoted_list(missing)}; this recipe reads one folder for each task. Without --data it"
            " asks questions about scikit-learn's digits."
        )

    def plan(name: str) -> TaskPlan:
        return TaskPlan(name=name, source=MultitaskSettings(data=str(folder / name)))

    return plan(PRETRAINING), (*map(plan, FOLDERS), DIGITS)
