"""From the rows of an ablation to the arms of an experiment (Table 3 of Architect Thyself).

Source: docs/spec/architect_thyself.md#ablation.

Every block has a base of its own in its cell, and the differences of its rows refer to that base.
Rows that are the same training as another one (the base of block C is that of block B) are trained once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evodevo.errors import UsageError
from evodevo.experiments.recipe import ExperimentSettings
from evodevo.experiments.settings import task_settings
from evodevo.experiments.trials import FixedTrials, Variant, expand
from evodevo.growth.ablation.row import BASES, BLOCKS, AblationRow, Base
from evodevo.growth.spec import GrowthSettings
from evodevo.module_zoo.encoders.spec import origin
from evodevo.module_zoo.modules.zoo import random_zoo
from evodevo.module_zoo.named import zoo_structure
from evodevo.module_zoo.network import ModuleZooNetwork, structure_of_zoo
from evodevo.module_zoo.spec import ZooStructure
from evodevo.networks.canvas import NamedInput
from evodevo.randomness import generator
from evodevo.settings import merge, validate

GROW = "grow"
BASE = "base"
"""Name of the arm that the others of its cell are compared with."""
GROWING = ", growing"
"""Suffix of the cell of further rows whose base grows."""
ZOO_OF: Mapping[Base, Mapping[str, Any]] = {
    "nine": {"modules": "table_3"},
    "fused": {"fusion": {"relative_positions": True, "concat_query": True}},
    "growing": {},
}
"""Base -> changes of the recipe's zoo."""
_SIDES = {"image": "image", "text": "tokens"}


@dataclass(frozen=True)
class SkippedRow:
    """A row that this experiment does not have, and why."""

    row: AblationRow
    why: str

    def __str__(self) -> str:
        return f"{self.row.title} ({self.row.name}) is left out: {self.why}"


def ablation(
    settings: ExperimentSettings, rows: Sequence[AblationRow], inputs: Sequence[NamedInput]
) -> tuple[ExperimentSettings, tuple[SkippedRow, ...]]:
    """The experiment with the chosen rows and their bases instead of the recipe's arms.

    Args:
        settings: settings of a recipe whose first arm is a zoo; ``evaluation.options.grow`` is the growth of all
            growing arms.
        rows: see ``ablation_rows.chosen_rows``.
        inputs: inputs of the task.

    Returns:
        The settings, and the rows that would change nothing here.

    Raises:
        UsageError: the first arm is no zoo, settings of the growth that cannot be, or no row is left.
    """
    structure = structure_of_zoo(settings.experiment.arms[0].network)
    if structure is None:
        raise UsageError("an ablation takes parts of a zoo away, and the first arm of this recipe is none.")
    maker = _Maker(settings, structure, tuple(inputs))
    plans: dict[str, list[Variant]] = {}
    left: list[SkippedRow] = []
    for row in rows:
        cell = cell_of(row)
        base = maker.base(row.base, cell)
        plan = maker.arm(row, cell)
        if isinstance(plan, str):
            left.append(SkippedRow(row, plan))
            continue
        if row.words != "the base itself" and _same(plan, base):
            left.append(SkippedRow(row, "it changes nothing here"))
            continue
        plans.setdefault(cell, [base]).append(plan)
    if not plans:
        raise UsageError(" ".join(f"{row}." for row in left))
    experiment = settings.experiment.model_copy(
        update={
            "title": "what each part is good for: an ablation, each row against the base of its block",
            "arms": tuple(plan for members in plans.values() for plan in members),
            "reference": BASE,
            "caveats": (*settings.experiment.caveats, *_caveats(plans), *map(str, left)),
        }
    )
    return settings.model_copy(update={"experiment": experiment}), tuple(left)


def cell_of(row: AblationRow) -> str:
    """Cell of a row: its block, with a base of its own."""
    return row.block + (GROWING if row.block == "more" and row.base == "growing" else "")


def _same(plan: Variant, base: Variant) -> bool:
    """Whether both are one training."""
    space = FixedTrials()
    first, other = (space.hash(expand([each], [1e-3], 1)[0]) for each in (plan, base))
    return first == other


def _caveats(plans: Mapping[str, Sequence[Variant]]) -> list[str]:
    caveats = []
    for cell, members in plans.items():
        grows = members[0].procedure == GROW
        base: Base = "growing" if grows else "nine" if cell == "A" else "fused"
        caveats.append(f"block {cell} ({BLOCKS[cell.removesuffix(GROWING)]}): the base is {BASES[base]}.")  # type: ignore[index]
    return caveats


class _Maker:
    """Makes arms of one experiment."""

    def __init__(self, settings: ExperimentSettings, structure: ZooStructure, inputs: tuple[NamedInput, ...]) -> None:
        self.settings = settings
        self.structures = {base: zoo_structure(dict(changes), structure) for base, changes in ZOO_OF.items()}
        self.inputs = inputs
        common = settings.evaluation.options.get(GROW, {})
        self.growth = validate(GrowthSettings, dict(common), what="options of grow")

    def base(self, base: Base, cell: str) -> Variant:
        return self._plan(BASE, cell, self.structures[base], {}, {}, grows=base == "growing")

    def arm(self, row: AblationRow, cell: str) -> Variant | str:
        """The arm, or why there is none."""
        obstacle = self._obstacle(row)
        if obstacle:
            return obstacle
        structure = self._zoo(row)
        options = self._options(row, structure)
        most = options.get("birth", {}).get("most")
        if most is not None:  # the first of them start
            structure = structure.model_copy(update={"modules": structure.modules[:most]})
        return self._plan(row.title, cell, structure, options, row.task, grows=row.base == "growing")

    def _plan(
        self,
        name: str,
        cell: str,
        structure: ZooStructure,
        options: Mapping[str, Any],
        task: Mapping[str, Any],
        *,
        grows: bool,
    ) -> Variant:
        return Variant(
            name=name,
            role="zoo",
            network=ModuleZooNetwork(structure=structure),
            cell={"block": cell},
            task=dict(task),
            procedure=GROW if grows else "train",
            options=dict(options),
        )

    def _zoo(self, row: AblationRow) -> ZooStructure:
        structure = self.structures[row.base]
        read = {
            spec.name: {**structure.extractor_of(spec.name).model_dump(mode="json"), **changes}
            for side, changes in row.extractor.items()
            for spec in self._of_side(side)
        }
        changed = zoo_structure(merge(dict(row.zoo), {"extractors": read} if read else {}), structure)
        if not row.random:
            return changed
        modules = random_zoo(changed.width, len(changed.live), generator(0, "random zoo"))
        return changed.model_copy(update={"modules": modules, "disabled": ()})

    def _options(self, row: AblationRow, structure: ZooStructure) -> dict[str, Any]:
        options = dict(row.grow)
        growth = self.growth
        if row.rate != 1.0:
            count = round(growth.events.count * row.rate)
            options = merge(options, {"events": {"count": max(count, min(1, growth.events.count))}})
        if row.forbid:
            options["allow"] = [operation for operation in growth.allow if operation not in row.forbid]
        if row.shortest:
            options = merge(options, {"events": {"warm": self._one_step(), "warm_rate": 1.0}})
        return options

    def _one_step(self) -> float:
        """The shortest warm-up: a share of the budget in which one step fits, a two hundredth where none is known."""
        budget, size = self.settings.evaluation.training.budget, self.settings.evaluation.training.batch_size
        steps = budget.steps or (None if budget.tokens is None else budget.tokens // size)
        return min(0.5, 1.001 / steps) if steps else 0.005

    def _obstacle(self, row: AblationRow) -> str:
        missing = [side for side in sorted(row.needs) if not self._of_side(side)]
        if missing:
            return f"the task has no {' and no '.join(missing)}"
        for side, changes in row.extractor.items():
            for spec in self._of_side(side):
                chosen = self.structures[row.base].extractor_of(spec.name)
                is_tower = chosen.kind == "hugging_face" and spec.modality in ("image", "tokens")
                if is_tower and not {"normalise", "positions"} >= set(changes):
                    return f"the input {spec.name!r} is read by a tower, which has no such switch"
        if row.task:
            try:
                task_settings(self.settings.evaluation, dict(row.task))
            except UsageError:
                return f"the task {self.settings.evaluation.task!r} has no {', '.join(row.task)} to change"
            now = self.settings.evaluation.task_settings
            if all(now.get(name) == value for name, value in row.task.items()):
                return "the task is so already"
        return ""

    def _of_side(self, side: str) -> list[NamedInput]:
        return [spec for spec in self.inputs if origin(spec) == _SIDES[side]]
