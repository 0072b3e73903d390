"""Record of a growth, so that a classifier can be described, replayed, saved and loaded."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from evodevo.errors import DataError, UsageError
from evodevo.estimators.keeping import EDITS, MEMORY, MOST_BYTES, PARENT
from evodevo.growth.edits import Replayed, replay_log
from evodevo.growth.log import read_log
from evodevo.module_zoo.modules.spec import ZooModule
from evodevo.module_zoo.spec import ZooStructure


@dataclass(frozen=True)
class GrowthRecord:
    """The log of a growth with the weights that it names.

    Attributes:
        log: Log of the edits, as in the blob ``edits``.
        parents: Weights of a module, safetensors, by their SHA-256.
        memory: Edits with their rewards, as in the blob ``edit_memory``.
    """

    log: bytes
    parents: Mapping[str, bytes]
    memory: bytes

    def files(self) -> dict[str, bytes]:
        """Contents by file name."""
        weights = {PARENT.format(digest): data for digest, data in self.parents.items()}
        return {EDITS: self.log, MEMORY: self.memory, **weights}

    @classmethod
    def of_files(cls, files: Mapping[str, bytes]) -> Self:
        """From the result of ``files``.

        Raises:
            UsageError: A file is missing.
        """
        missing = [name for name in (EDITS, MEMORY) if name not in files]
        if missing:
            raise UsageError(f"{missing[0]} is missing.")
        ending = PARENT.format("")
        parents = {name.removesuffix(ending): data for name, data in files.items() if name.endswith(ending)}
        return cls(files[EDITS], parents, files[MEMORY])

    def replay(self, zoo: ZooStructure) -> Replayed:
        """See ``GrowingClassifier.replay``."""
        log = read_log(self.log, what="the log of the edits", most_bytes=MOST_BYTES)
        replayed = replay_log(log.start, log.edits, self._fetch, log.birth)
        if _genotypes(replayed.modules) != _genotypes(zoo.modules):
            raise DataError("the log of the edits leads to another zoo than the one that is here; was one edited?")
        return replayed

    def _fetch(self, digest: str) -> bytes:
        if digest not in self.parents:
            raise DataError(f"the log names the weights {digest[:12]}, which are missing.")
        data = self.parents[digest]
        if hashlib.sha256(data).hexdigest() != digest:
            raise DataError(f"the weights {digest[:12]} are not those that the log names; the file was changed.")
        return data


def summary_text(history: Mapping[str, Any], modules: Sequence[str]) -> str:
    """The edits of a growth, one per line, and the final modules, as text."""
    values = {event["event"]: event for event in history["timeline"]}
    rewards = {value["number"]: value["total"] for value in history["rewards"]}
    lines = [f"{'event':>5} {'step':>7} {'accuracy':>8} {'reward':>7}  edit"]
    for number, event in values.items():
        edits = [edit for edit in history["edits"] if edit["event"] == number]
        reward = f"{rewards[number]:+.3f}" if number in rewards else "–"
        for place, words in enumerate([_words(edit) for edit in edits] or ["nothing"]):
            head = f"{number:>5} {event['step']:>7} {event['value']:>8.3f} {reward:>7}" if not place else " " * 30
            lines.append(f"{head}  {words}")
    if not values:
        lines = ["no event"]
    differing = len(history["differing"])
    other = f", {differing} of them other than the heuristic's" if differing else ""
    lines.append(f"{history['decisions']} decisions{other}; {len(modules)} modules in the end: {', '.join(modules)}")
    return "\n".join(lines)


def _words(edit: Mapping[str, Any]) -> str:
    """``grow mlp-1 → mlp-2-0``, ``prune cnn-1 (distilled in 50 steps)``, ``spawn lstm: refused: over the cap``."""
    action = edit["action"]
    subject = " ".join([action["operation"], *action["modules"], *filter(None, [action["archetype"]])])
    if edit["module"] is None:
        return f"{subject}: {edit['note']}"
    child = f" → {edit['module']}" if edit["after"] is not None else ""
    return f"{subject}{child}" + (f" ({edit['note']})" if edit["note"] else "")


def _genotypes(modules: Sequence[ZooModule]) -> dict[str, Any]:
    return {module.id: module.genotype for module in modules}
