"""Evaluation of one backbone genome in a worker: build, train, score; the result is numbers or a reason."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

from evodevo import canonical
from evodevo.backbone.build import build_backbone
from evodevo.backbone.evaluation_settings import EvaluationSettings
from evodevo.backbone.model import Backbone
from evodevo.backbone.settings import LanguageModelSettings
from evodevo.backbone.space import BackboneSettings, BackboneSpace
from evodevo.errors import NotFoundError, StoreDamagedError, UnsafeFileError
from evodevo.execution.base import Report
from evodevo.objectives.base import Subject, parse_objectives
from evodevo.search.problem import answered, write_numbers
from evodevo.settings import validate
from evodevo.storage.blobs import FolderPool
from evodevo.tasks.text.language import LanguageTask
from evodevo.training import checkpoints, held_out
from evodevo.training.loop import TrainingProgress, TrainingResult, TrainingSnapshot, train
from evodevo.training.precision import decide


def evaluate_backbone(payload: bytes, report: Report) -> bytes:
    """See ``BackboneProblem.payload`` and ``BackboneProblem.read`` for both ends.

    Live messages: {"step", "tokens", "share", "loss"}; {"checkpoint": digest, "blobs": digests of all that it is
    made of} where the training's settings ask for checkpoints; {"restarted": why} where one could not be used.
    """
    return answered(lambda: _BackboneEvaluation(canonical.loads(payload, what="an evaluation"), report).run())


class _BackboneEvaluation:
    def __init__(self, data: dict[str, Any], report: Report) -> None:
        self.data = data
        self.report = report
        self.settings = validate(EvaluationSettings, data["settings"], what="evaluation settings")
        self.space = BackboneSpace(validate(BackboneSettings, data["space"], what="space settings"))
        self.genome = self.space.from_json(data["genome"])
        folder = data["cache_folder"]
        self.task = LanguageTask.open(
            self.settings.language, None if folder is None else Path(folder), data["task_key"]
        )
        self.pool = None if data["blobs"] is None else FolderPool(Path(data["blobs"]))
        self.precision = decide(self.settings.training.device, self.settings.training.precision)
        model = LanguageModelSettings(vocabulary=self.task.vocabulary, tied=self.settings.tied)
        self.model = build_backbone(self.space, self.genome, model, data["seed"])

    def run(self) -> dict[str, Any]:
        begin = time.perf_counter()
        result = self._train()
        reason, detail = None if result.state == "finished" else result.state, result.reason
        windows = self.task.evaluation_windows("validation", self.settings.validation_tokens)
        scores: dict[str, float] = {}
        spreads: dict[str, float] = {}
        extra: dict[str, Any] = {
            "train_loss": result.final_loss,
            "steps": result.steps,
            "tokens": result.tokens,
            "training_seconds": result.seconds,
            "device": str(self.precision.device),
        }
        if reason is None:
            measured = held_out.evaluate(
                self.model,
                windows,
                predicted_bytes=self.task.predicted_bytes("validation", windows),
                batch_size=self.settings.training.batch_size,
                precision=self.precision,
            )
            extra |= {"loss": measured.loss, "perplexity": measured.perplexity, "bits_per_byte": measured.bits_per_byte}
            scores, spreads = self._scores(measured)
            wrong = [name for name, value in scores.items() if not math.isfinite(value)]
            if wrong:
                reason, detail = "nan", f"not a finite number: {', '.join(wrong)}."
        extra["spreads"] = spreads
        blobs: dict[str, str] = {}
        if self.pool is not None and self.settings.keep_weights and reason is None:
            digest, parts = self._save(self.pool)
            blobs = {"weights": digest, **{f"weights/{number}": part for number, part in enumerate(parts)}}
        cost = self.space.cost(
            self.genome,
            length=self.settings.cost_length,
            convention=self.settings.convention,
            vocabulary=self.task.vocabulary,
            tied=self.settings.tied,
        )
        return {
            "reason": reason,
            "detail": detail,
            "scores": write_numbers(scores),
            "cost": cost.to_json(),
            "extra": extra,
            "blobs": blobs,
            "series": {"train_loss": [[tokens, loss] for tokens, loss in result.curve]},
            "seconds": time.perf_counter() - begin,
        }

    def _train(self) -> TrainingResult:
        training = self.settings.training
        size, length = training.batch_size, self.task.context_length
        return train(
            self.model,
            training,
            batch_at=lambda step: self.task.batch("train", self.data["seed"], step, size),
            tokens_per_step=size * length,
            seed=self.data["seed"],
            uniform_loss=math.log(self.task.vocabulary),
            resume=self._recall(),
            report=self._progress,
            checkpoint=None if self.pool is None else self._checkpoint,
            precision=self.precision,
        )

    def _recall(self) -> TrainingSnapshot | None:
        """The training to go on with; a checkpoint that is damaged or gone costs its work, not the evaluation."""
        if self.data["resume"] is None or self.pool is None:
            return None
        try:
            kept = checkpoints.load(self.pool, self.data["resume"])
            # The weights last: where something is damaged, the model must still be the new one.
            snapshot = kept.snapshot(self.model)
            kept.restore(self.model)
            self.model.to(self.precision.device)
            return snapshot
        except (NotFoundError, StoreDamagedError, UnsafeFileError) as error:
            self.report({"restarted": str(error)})
            return None

    def _progress(self, progress: TrainingProgress) -> None:
        self.report({"step": progress.step, "tokens": progress.tokens, "share": progress.share, "loss": progress.loss})

    def _checkpoint(self, snapshot: TrainingSnapshot) -> None:
        assert self.pool is not None, "asked for only where there is one"
        digest, parts = self._save(self.pool, snapshot)
        self.report({"checkpoint": digest, "blobs": parts, "tokens": snapshot.cursor.tokens})

    def _save(self, pool: FolderPool, snapshot: TrainingSnapshot | None = None) -> tuple[str, list[str]]:
        """The digest of a checkpoint, and of each blob that it is made of: blobs without a holder are garbage."""
        digest = checkpoints.save(
            pool,
            self.model,
            snapshot=snapshot,
            genome=self.space.to_json(self.genome),
            input_specification=input_specification(self.task, self.settings, self.space),
            attachments={"tokenizer": self.task.tokenizer.to_bytes()},
        )
        return digest, checkpoints.load(pool, digest).manifest.digests()

    def _scores(self, measured: held_out.HeldOut) -> tuple[dict[str, float], dict[str, float]]:
        subject = Subject(
            space=self.space,
            genome=self.genome,
            length=self.settings.cost_length,
            vocabulary=self.task.vocabulary,
            convention=self.settings.convention,
            model=self.model,
            held_out=measured,
        )
        scores, spreads = {}, {}
        for objective in parse_objectives(self.settings.objectives):
            measurement = objective.measure(subject)
            scores[objective.name] = measurement.value
            if measurement.spread is not None:
                spreads[objective.name] = measurement.spread
        return scores, spreads


def input_specification(task: LanguageTask, settings: EvaluationSettings, space: BackboneSpace) -> dict[str, Any]:
    """Input of the model and the settings that rebuild it: JSON, kept with the weights."""
    return {
        "modality": "text",
        "tokenizer": task.tokenizer.describe(),
        "context_length": task.context_length,
        "model": {"vocabulary": task.vocabulary, "tied": settings.tied},
        "space": space.settings.model_dump(mode="json"),
    }


def load_backbone(pool: checkpoints.BlobStore, digest: str) -> tuple[Backbone, bytes]:
    """The model of a checkpoint with its weights, on the CPU, and its tokenizer's bytes.

    Raises:
        UnsafeFileError: not exactly such a checkpoint.
        StoreDamagedError: a blob is not what was written.
    """
    kept = checkpoints.load(pool, digest)
    specification = kept.manifest.input
    space = BackboneSpace(validate(BackboneSettings, specification["space"], what="the model's space"))
    genome = space.from_json(kept.manifest.genome)
    settings = validate(LanguageModelSettings, specification["model"], what="the model's settings")
    model = build_backbone(space, genome, settings, seed=0)
    kept.restore(model)
    return model.eval(), kept.attachment("tokenizer")
