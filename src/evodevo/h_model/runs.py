"""Runs over networks of separate samples: searches of H-Models, and experiments that compare given trainings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evodevo.experiments.given import plan_again
from evodevo.experiments.problem import NetworkProblem
from evodevo.experiments.recipe import ExperimentSettings
from evodevo.experiments.trials import Arm, ArmSpace
from evodevo.growth.report.reading import grown_network, growth_of
from evodevo.growth.report.words import growth_words
from evodevo.h_model.draw import h_model_drawing
from evodevo.h_model.network import HModelNetwork
from evodevo.h_model.recipes.search import HModelSearchSettings
from evodevo.h_model.space import HModelSpace
from evodevo.runs.slices import Slice, absolute

if TYPE_CHECKING:
    from evodevo.backbone.settings import SamplingSettings
    from evodevo.runs.archive import Individual, Run

PATHS = ("data", "tokenizer", "architecture", "validation", "test", "images", "test_images")
"""Settings of tasks that may hold a path; what exists under that name is one."""


class NetworkSlice(Slice):
    """What both have in common."""

    preload = ("torch", "networks")
    judged = "network"

    def paths(self, settings: Any) -> dict[str, Any]:
        changes = {}
        for name in PATHS:
            given = settings.evaluation.task_settings.get(name)
            if isinstance(given, str) and Path(given).expanduser().exists():
                changes[name] = absolute(given)
        evaluation: dict[str, Any] = {"task_settings": changes} if changes else {}
        donors = settings.evaluation.options.get("pretrained", {}).get("paths")
        if isinstance(donors, (list, tuple)):
            # A name in the Hugging Face cache stays what it is.
            found = [
                absolute(one) if isinstance(one, str) and Path(one).expanduser().is_dir() else one for one in donors
            ]
            evaluation["options"] = {"pretrained": {"paths": found}}
        return {"evaluation": evaluation} if evaluation else {}

    def tokens_per_step(self, values: Mapping[str, Any]) -> int:
        return int(values["evaluation"]["training"]["batch_size"])

    def load(self, individual: Individual) -> Any:
        from evodevo.networks.saved import load_network

        return load_network(individual.run.archive.store.blobs, individual.weights())[0]

    def generate(
        self, individual: Individual, prompt: str, count: int, *, sampling: SamplingSettings | None, seed: int
    ) -> str:
        """Causal networks that predict tokens write; the task they were trained on knows the words."""
        import torch

        from evodevo.backbone.generation import generate
        from evodevo.h_model.generation import Writer
        from evodevo.networks.saved import load_network, reopen_task

        network, about = load_network(individual.run.archive.store.blobs, individual.weights())
        writer, name = Writer(network), network.input_specs[0].name
        task = reopen_task(about)
        ids = torch.from_numpy(task.encode(name, prompt)).long().unsqueeze(0)
        return task.decode(name, generate(writer, ids, count, sampling=sampling, seed=seed)[0].numpy())


class ExperimentSlice(NetworkSlice):
    """Experiments: the individuals are trainings."""

    name = "experiment"
    settings_class = ExperimentSettings

    def paths(self, settings: ExperimentSettings) -> dict[str, Any]:
        """Those of towers, too, whose digests are filled in or checked."""
        arms = settings.experiment.arms
        settled = [arm.model_copy(update={"network": arm.network.settled()}) for arm in arms]
        if all(one.network == arm.network for one, arm in zip(settled, arms, strict=True)):
            return super().paths(settings)
        found = {"experiment": {"arms": [one.model_dump(mode="json") for one in settled]}}
        return {**super().paths(settings), **found}

    def space(self, settings: ExperimentSettings) -> ArmSpace:
        return ArmSpace()

    def problem(
        self, settings: ExperimentSettings, blobs: Path | None = None, cache_folder: Path | None = None
    ) -> NetworkProblem:
        arms = settings.experiment.trainings()
        return NetworkProblem(_itself, settings.evaluation, blobs, cache_folder, arms)

    def retraining(self, settings: Any, individual: Individual, budget: Mapping[str, Any], seeds: int) -> Any:
        """The training is an experiment of its own, with one arm; its seeds are that experiment's."""
        plan = plan_again(individual.id, individual.genome)
        values = super().retraining(settings, individual, budget, 1)
        again = plan.model_dump(mode="json")
        if any(limit is not None for limit in budget.values()):
            again["training"].pop("budget", None)
        values["experiment"] |= {"arms": [again], "seeds": seeds, "reference": None}
        return values

    def trained(self, run: Run) -> list[Individual]:
        """The finished trainings of the reference arm, or of the first; with the learning rate of the table's row."""
        from evodevo.experiments.comparison import compare_arms

        reference = run.settings.experiment.reference
        rows = [row for row in compare_arms(run).rows if row.trainings and reference in (None, row.name)]
        return sorted(rows[0].trainings, key=lambda one: one.key(run.goals[0])) if rows else []

    def words(self, individual: Individual) -> list[str]:
        growth = growth_of(individual)
        return [*individual.genome.describe(), *([] if growth is None else growth_words(growth))]

    def drawing(self, individual: Individual) -> str:
        drawn = grown_network(individual).draw(
            title=individual.id,
            subtitle=individual.title,
            group=individual.genome.group,
            facts=individual.fact,
        )
        return super().drawing(individual) if drawn is None else drawn

    def report(self, run: Run) -> str:
        from evodevo.experiments.report.data import report

        return report(run)


class HModelSlice(NetworkSlice):
    """Searches over the structure of H-Models."""

    name = "h_model"
    settings_class = HModelSearchSettings

    def space(self, settings: HModelSearchSettings) -> HModelSpace:
        return HModelSpace(settings.space)

    def problem(
        self, settings: HModelSearchSettings, blobs: Path | None = None, cache_folder: Path | None = None
    ) -> NetworkProblem:
        space, rate = self.space(settings), settings.evaluation.training.optimizer.learning_rate

        def arm(genome: Any) -> Arm:
            network = HModelNetwork(structure=space.structure(genome))
            return Arm(name="H-Model", role="h_model", network=network, learning_rate=rate)

        return NetworkProblem(arm, settings.evaluation, blobs, cache_folder)

    def words(self, individual: Individual) -> list[str]:
        space = individual.run.space
        assert isinstance(space, HModelSpace), "the slice's own"
        return HModelNetwork(structure=space.structure(individual.genome)).describe()

    def drawing(self, individual: Individual) -> str:
        space = individual.run.space
        assert isinstance(space, HModelSpace), "the slice's own"
        return h_model_drawing(space.structure(individual.genome), title=individual.id, subtitle=individual.text)

    def report(self, run: Run) -> str:
        from evodevo.backbone.report.gather import evolution

        return evolution(run)


def _itself(arm: Arm) -> Arm:
    return arm


EXPERIMENT = ExperimentSlice()
H_MODEL = HModelSlice()
