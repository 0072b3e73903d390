"""What a worker does with one backbone: the evaluation of all networks, and how a language model is measured."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, cast

from evodevo import canonical
from evodevo.backbone.evaluation_settings import EvaluationSettings
from evodevo.backbone.spec import BackboneStructure
from evodevo.execution.base import Report
from evodevo.experiments.evaluate import ArmEvaluation, TrainingFacts
from evodevo.experiments.replicated import evaluate_replicated
from evodevo.experiments.trained import Trained
from evodevo.experiments.trainer import Trainer
from evodevo.networks.base import Network
from evodevo.objectives.base import Subject, parse_objectives
from evodevo.search.problem import answered
from evodevo.settings import validate
from evodevo.tasks.text.language import LanguageTask
from evodevo.training import held_out, replicas
from evodevo.training.loop import TrainingResult


def evaluate_backbone(payload: bytes, report: Report) -> bytes:
    """See ``BackboneProblem.payload`` and ``BackboneProblem.read`` for both ends.

    Live messages: {"step", "tokens", "share", "loss"}; {"checkpoint": digest, "blobs": digests of all that it is
    made of} where the training's settings ask for checkpoints; {"restarted": why} where one could not be used.
    """
    data = canonical.loads(payload, what="an evaluation")
    count = data["settings"]["training"].get("replicas", 1)
    if count > replicas.count():
        return evaluate_replicated("backbone", payload, report, count)
    return answered(lambda: BackboneEvaluation(data, report).run())


class TextTrainer(Trainer):
    """A trainer that counts tokens, measures nothing while it trains, and keeps the tokenizer with the weights."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.text = cast(LanguageTask, self.task)
        self.tokens_per_sample = self.text.context_length

    def train(self, network: Network, **options: Any) -> TrainingResult:
        """See ``Trainer``."""
        return super().train(network, **options, watched=False)

    def describe(self, network: Network) -> dict[str, Any]:
        """See ``Trainer``; the space and the genome, as ``BackboneNetwork.recall`` reads them."""
        structure: BackboneStructure = network.structure
        space, genome = structure.parse()
        return {
            "genome": space.to_json(genome),
            "input_specification": {
                "modality": "text",
                "tokenizer": self.text.tokenizer.describe(),
                "context_length": self.text.context_length,
                "model": {"vocabulary": self.text.vocabulary, "tied": structure.tied},
                "space": space.settings.model_dump(mode="json"),
            },
            "attachments": {"tokenizer": self.text.tokenizer.to_bytes()},
        }

    def _count_flops(self, *_: Any, **__: Any) -> None:
        """Nothing: backbones have no budget in FLOPs, and a count by plain products needs memory for all scores."""


class BackboneEvaluation(ArmEvaluation):
    """A backbone that predicts text."""

    trainer = TextTrainer

    def __init__(self, data: dict[str, Any], report: Report) -> None:
        super().__init__(data, report)
        self.judged = validate(EvaluationSettings, data["evaluation"], what="evaluation settings")
        self.space, self.genome = self.arm.network.structure.parse()

    def course(self, bench: Trainer, trained: Trained) -> TrainingFacts:
        """See ``ArmEvaluation``."""
        result, settings = trained.result, self.judged
        cost = self.space.cost(
            self.genome,
            length=settings.cost_length,
            convention=settings.convention,
            vocabulary=cast(LanguageTask, self.task).vocabulary,
            tied=settings.tied,
        )
        extra: dict[str, Any] = {
            "train_loss": result.final_loss,
            "steps": result.steps,
            "tokens": result.tokens,
            "training_seconds": result.seconds,
            "device": str(self.precision.device),
            "spreads": {},
        }
        return TrainingFacts(cost.to_json(), extra)

    def measure(self, bench: Trainer, network: Network, found: TrainingFacts) -> None:
        """See ``ArmEvaluation``: on windows of the validation split in which no token is predicted twice."""
        task, settings, size = cast(LanguageTask, self.task), self.judged, self.judged.windows_at_once
        places = task.spread("validation", settings.validation_tokens)
        measured = held_out.evaluate(
            network,
            (task.fetch("validation", places[start : start + size]) for start in range(0, len(places), size)),
            tokens=len(places) * task.context_length,
            predicted_bytes=task.predicted_bytes("validation", places),
            precision=self.precision,
        )
        found.extra |= {name: asdict(measured)[name] for name in ("loss", "perplexity", "bits_per_byte")}
        subject = Subject(
            space=self.space,
            genome=self.genome,
            length=settings.cost_length,
            vocabulary=task.vocabulary,
            convention=settings.convention,
            model=network,
            held_out=measured,
            seed=bench.seed,
            recall=settings.recall,
        )
        for objective in parse_objectives(settings.objectives):
            measurement = objective.measure(subject)
            found.scores[objective.name] = measurement.value
            if measurement.spread is not None:
                found.extra["spreads"][objective.name] = measurement.spread

    def series(self, bench: Trainer, trained: Trained) -> dict[str, list[list[float]]]:
        """See ``ArmEvaluation``: over tokens."""
        return {"train_loss": [[tokens, loss] for tokens, loss in trained.result.curve]}
