"""Runs that search over the structure of H-Models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evodevo.experiments.problem import NetworkProblem
from evodevo.experiments.runs import NetworkSlice
from evodevo.experiments.trials import Trial
from evodevo.h_model.draw import h_model_drawing
from evodevo.h_model.network import HModelNetwork
from evodevo.h_model.recipes.search import HModelSearchSettings
from evodevo.h_model.space import HModelSpace
from evodevo.runs.archive import Individual, Run
from evodevo.runs.sampling import SamplingSettings


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

        def arm(genome: Any) -> Trial:
            network = HModelNetwork(structure=space.structure(genome))
            return Trial(name="H-Model", role="h_model", network=network, learning_rate=rate)

        return NetworkProblem(arm, settings.evaluation, blobs, cache_folder)

    def generate(
        self, individual: Individual, prompt: str, count: int, *, sampling: SamplingSettings | None, seed: int
    ) -> str:
        """Text from a causal network that predicts tokens, with the tokenizer of the task that it was trained on."""
        import torch

        from evodevo.backbone.generation import generate
        from evodevo.h_model.generation import Writer
        from evodevo.networks.saved import load_network, reopen_task

        network, about = load_network(individual.run.archive.store.blobs, individual.weights())
        writer, name = Writer(network), network.input_specs[0].name
        task = reopen_task(about)
        ids = torch.from_numpy(task.encode(name, prompt)).long().unsqueeze(0)
        return task.decode(name, generate(writer, ids, count, sampling=sampling, seed=seed)[0].numpy())

    def words(self, individual: Individual) -> list[str]:
        space = individual.run.space
        assert isinstance(space, HModelSpace), "the slice's own"
        return HModelNetwork(structure=space.structure(individual.genome)).describe()

    def drawing(self, individual: Individual) -> str:
        space = individual.run.space
        assert isinstance(space, HModelSpace), "the slice's own"
        return h_model_drawing(space.structure(individual.genome), title=individual.id, subtitle=individual.text)

    def report(self, run: Run) -> str:
        from evodevo.runs.report.gather import evolution

        return evolution(run)


H_MODEL = HModelSlice()
