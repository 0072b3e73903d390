"""What the paths of a class read of images that are larger than they can: a sentence for whoever adds them."""

from __future__ import annotations

from evodevo.multitask.agent import AGENTS
from evodevo.multitask.hyperparameters import IMAGE_SIZE
from evodevo.multitask.settings import AgentSettings

_OF_LARGE = "Vit"
"""Class of agents whose paths read the largest images, which begins with a checkpoint."""


def notes_on_size(kind: str, agent: AgentSettings) -> list[str]:
    """A sentence, or none where paths of this class can read the images of a task at their own size.

    Args:
        kind: class of agents.
        agent: settings of one for the task.
    """
    sizes = [(int(one["height"]), int(one["width"])) for one in agent.inputs if one["modality"] == "image"]
    read = _sides(kind, agent)
    if not sizes or read is None:
        return []
    (height, width), (first, most) = max(sizes, key=max), read
    if max(height, width) <= most:
        return []
    sentence = (
        f"Its images are {height} x {width}; paths of {kind} read them resized to {first} x {first} at first, and to"
        f" {most} x {most} at most."
    )
    largest = _sides(_OF_LARGE, AgentSettings(classes=agent.classes))
    if largest is not None and largest[1] > most:
        sentence += (
            f" For large images begin with a ViT checkpoint: --class {_OF_LARGE} --root checkpoint:FOLDER of extend"
            f" create reads up to {largest[1]} x {largest[1]}."
        )
    return [sentence]


def _sides(kind: str, agent: AgentSettings) -> tuple[int, int] | None:
    """Pixels of a side that paths of a class read at first, and at most; None where it tunes none."""
    space = AGENTS.get(kind).hyperparameters(agent)
    row = None if space is None else space.by_key.get(IMAGE_SIZE)
    return None if row is None else (int(row.default), int(max(map(int, row.values))))
