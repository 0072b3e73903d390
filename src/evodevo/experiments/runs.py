"""Runs over networks of separate samples: what searches of them have in common, experiments, and features of frozen
towers that are computed before the first training.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evodevo import canonical
from evodevo.errors import DataError, UsageError
from evodevo.execution.base import Executor, Job, Progress, Result
from evodevo.execution.jobs import run_jobs
from evodevo.experiments.comparison import compare_arms
from evodevo.experiments.forecast import forecast
from evodevo.experiments.problem import FEATURES, NetworkProblem
from evodevo.experiments.procedures import PROCEDURES
from evodevo.experiments.recipe import ExperimentSettings
from evodevo.experiments.trials import FixedTrials, Trial, Variant
from evodevo.export.folder import Export
from evodevo.networks.sampling import SamplingSettings
from evodevo.randomness import generator
from evodevo.runs.answers import Predicts
from evodevo.runs.archive import Individual, Run
from evodevo.runs.fixed_generation import OPERATION, FixedGeneration
from evodevo.runs.slices import Slice, absolute
from evodevo.search.base import Proposal
from evodevo.search.members import Listener
from evodevo.search.problem import Problem

ARM = "arm"
"""Operation of a training that a recipe names."""
PATHS = ("data", "tokenizer", "architecture", "validation", "test", "images", "test_images")
"""Settings of tasks that may hold a path; what exists under that name is one."""


class NetworkSlice(Slice[Run, Individual]):
    """Runs whose individuals are trainings of networks, or designs of networks that are trained alike."""

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
            pretrained = [
                absolute(donor) if isinstance(donor, str) and Path(donor).expanduser().is_dir() else donor
                for donor in donors
            ]
            evaluation["options"] = {"pretrained": {"paths": pretrained}}
        return {"evaluation": evaluation} if evaluation else {}

    def tokens_per_step(self, values: Mapping[str, Any]) -> int:
        return int(values["evaluation"]["training"]["batch_size"])

    def arms(self, settings: Any, problem: NetworkProblem) -> list[Trial]:
        """The trainings of a run, or of a search, all of whose genomes read with the same towers, any one."""
        return [problem.arm_of(self.space(settings).sample(generator(settings.study.seed, "towers")))]

    def prepare(self, settings: Any, problem: Problem, executor: Executor, listener: Listener | None) -> None:
        """Features of frozen towers, which all trainings read."""
        assert isinstance(problem, NetworkProblem), "the slice's own"
        prepare_features(self.arms(settings, problem), problem, executor, settings.study.seed, listener)

    def predictor(self, individual: Individual, cache_folder: Path | None = None, device: str = "cpu") -> Predicts:
        from evodevo.runs.predict import Predictor

        return Predictor(individual, cache_folder, device)

    def export(self, individual: Individual, target: str | Path, to: str | None) -> Export:
        from evodevo.runs.export import export_individual

        return export_individual(individual, target, to=to)

    def load(self, individual: Individual) -> Any:
        from evodevo.networks.saved import load_network

        return load_network(individual.run.archive.store.blobs, individual.weights())[0]

    def tokenizer(self, individual: Individual) -> Any:
        """That of the task that the network was trained on, where it reads text.

        Raises:
            UsageError: the task has no text.
            DataError: its data are gone, or are others by now.
        """
        from evodevo.networks.saved import reopen_task
        from evodevo.training import checkpoints

        kept = checkpoints.load(individual.run.archive.store.blobs, individual.weights())
        tokenizer = getattr(reopen_task(kept.manifest.input), "tokenizer", None)
        return super().tokenizer(individual) if tokenizer is None else tokenizer

    def generate(
        self, individual: Individual, prompt: str, count: int, *, sampling: SamplingSettings | None, seed: int
    ) -> str:
        """Text from a causal network that predicts tokens, with the tokenizer of the task that it was trained on."""
        import torch

        from evodevo.networks.saved import load_network, reopen_task

        network, about = load_network(individual.run.archive.store.blobs, individual.weights())
        network.writer()  # refuses a network that does not write, before its task refuses the prompt
        task, name = reopen_task(about), network.input_specs[0].name
        ids = torch.from_numpy(task.encode(name, prompt)).long().unsqueeze(0)
        return task.decode(name, network.continue_text(ids, count, sampling=sampling, seed=seed)[0].numpy())


class ExperimentSlice(NetworkSlice):
    """Experiments: the individuals are trainings."""

    name = "experiment"
    settings_class = ExperimentSettings

    def paths(self, settings: ExperimentSettings) -> dict[str, Any]:
        """Those of towers, too, whose digests are filled in or checked."""
        arms = settings.experiment.arms
        settled = [arm.model_copy(update={"network": arm.network.settled()}) for arm in arms]
        if all(pinned.network == arm.network for pinned, arm in zip(settled, arms, strict=True)):
            return super().paths(settings)
        changes = {"experiment": {"arms": [pinned.model_dump(mode="json") for pinned in settled]}}
        return {**super().paths(settings), **changes}

    def space(self, settings: ExperimentSettings) -> FixedTrials:
        return FixedTrials()

    def problem(
        self, settings: ExperimentSettings, blobs: str | Path | None = None, cache_folder: Path | None = None
    ) -> NetworkProblem:
        arms = settings.experiment.trainings()
        return NetworkProblem(lambda arm: arm, settings.evaluation, blobs, cache_folder, arms)

    def arms(self, settings: ExperimentSettings, problem: NetworkProblem) -> list[Trial]:
        return settings.experiment.trainings()

    def algorithm(self, settings: ExperimentSettings) -> FixedGeneration:
        """All trainings, in the order of the recipe."""
        proposals = [
            Proposal(arm, () if arm.parent is None else (arm.parent,), ARM if arm.parent is None else OPERATION, {})
            for arm in settings.experiment.trainings()
        ]
        return FixedGeneration(proposals)

    def forecast(self, settings: ExperimentSettings, problem: Problem, executor: Executor) -> dict[str, Any]:
        assert isinstance(problem, NetworkProblem), "the slice's own"
        return forecast(settings.experiment.trainings(), problem, executor, settings.study.seed).to_json()

    def best(self, run: Run) -> list[Individual]:
        """The finished trainings of the reference, or of the first arm, with the learning rate of the table's row."""
        reference = run.settings.experiment.reference
        rows = [row for row in compare_arms(run).rows if row.trainings and reference in (None, row.name)]
        return sorted(rows[0].trainings, key=lambda individual: individual.key(run.goals[0])) if rows else []

    def retraining(self, settings: Any, individual: Individual | None, budget: Mapping[str, Any], seeds: int) -> Any:
        """The training is an experiment of its own, with one arm; its seeds are that experiment's."""
        if individual is None:
            raise UsageError(
                "an experiment names its networks itself; give a recipe of a search, such as backbone.demo."
            )
        same = individual.genome.model_dump(exclude={"learning_rate", "seed"})
        rates = (individual.genome.learning_rate,)
        plan = Variant.model_validate({**same, "learning_rates": rates, "parent": individual.id})
        values = super().retraining(settings, individual, budget, 1)
        again = plan.model_dump(mode="json")
        if any(limit is not None for limit in budget.values()):
            again["training"].pop("budget", None)
        values["experiment"] |= {"arms": [again], "seeds": seeds, "reference": None}
        return values

    def words(self, individual: Individual) -> list[str]:
        arm = individual.genome
        return [*arm.describe(), *PROCEDURES.get(arm.procedure).words(individual)]

    def drawing(self, individual: Individual) -> str:
        """The network as it is kept, drawn by its kind."""
        network = PROCEDURES.get(individual.genome.procedure).network(individual)
        drawn = network.draw(
            title=individual.id,
            subtitle=individual.title,
            group=individual.genome.group,
            facts=individual.fact,
        )
        return super().drawing(individual) if drawn is None else drawn

    def report(self, run: Run) -> str:
        from evodevo.experiments.report.page import report

        return report(run)


EXPERIMENT = ExperimentSlice()


def prepare_features(
    arms: Sequence[Trial],
    problem: NetworkProblem,
    executor: Executor,
    seed: int,
    listener: Callable[[str, dict[str, Any]], None] | None = None,
) -> int:
    """Have frozen towers read all samples in a worker; samples whose features are in the cache are not read again.

    Args:
        arms: all trainings.
        problem: problem of the run.
        executor: an idle executor; it is idle again afterwards.
        seed: seed of the run.
        listener: called with ``features`` and {"features": input, "done", "total"}, in samples.

    Returns:
        The number of different sets of towers.

    Raises:
        DataError: a tower cannot read the data.
    """
    if problem.settings.features == "live":
        return 0
    kinds: dict[str, Trial] = {}
    for arm in arms:
        towers = arm.network.towers(problem.open_task(arm.task).inputs)
        if towers:
            facts = {
                "towers": {name: tower.model_dump(mode="json") for name, tower in towers.items()},
                "task": arm.task,
            }
            kinds.setdefault(canonical.digest(facts), arm)

    def on_progress(event: Progress) -> None:
        if listener is not None and "features" in event.payload:
            listener("features", event.payload)

    for name, arm in kinds.items():  # one after the other: they may share towers
        job = Job(f"features/{name}", FEATURES, problem.payload(arm, seed), None, problem.memory_bytes)
        result = run_jobs(executor, [job], listener=on_progress)[job.id]
        if result.state == "failed":
            raise DataError(f"the features of frozen towers cannot be computed: {_last_line(result)}")
    return len(kinds)


def _last_line(result: Result) -> str:
    lines = result.detail.strip().splitlines()
    return lines[-1] if lines else result.reason or "the worker was lost"
