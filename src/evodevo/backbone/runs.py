"""Runs over language-model backbones (STAR)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any, cast

from evodevo.backbone.genome import LIVPlan
from evodevo.backbone.problem import BackboneProblem, exact_objectives
from evodevo.backbone.search_settings import EvolveSettings
from evodevo.backbone.space import BackboneSpace
from evodevo.export.folder import Export
from evodevo.networks.sampling import SamplingSettings
from evodevo.runs.archive import Individual, Run
from evodevo.runs.slices import Motifs, Slice, absolute
from evodevo.search.space import Space
from evodevo.settings import merge


class BackboneSlice(Slice[Run, Individual]):
    """See ``Slice``."""

    name = "backbone"
    settings_class: type[EvolveSettings] = EvolveSettings
    preload = ("torch", "evaluation")
    judged = "language_model"
    follows = frozenset({"depth", "dimensions"})
    data_setting = "evaluation.language.data"

    def space(self, settings: EvolveSettings) -> BackboneSpace:
        return BackboneSpace(settings.space)

    def problem(
        self, settings: EvolveSettings, blobs: str | Path | None = None, cache_folder: Path | None = None
    ) -> BackboneProblem:
        return BackboneProblem(self.space(settings), settings.evaluation, blobs, cache_folder)

    def needs(
        self,
        settings: EvolveSettings,
        store: Path,
        cache_folder: Path | None = None,
        device_profile: str | None = None,
    ) -> dict[str, Any]:
        from evodevo.backbone.protocol.plan import plan

        return plan(settings, store, cache_folder, device_profile=device_profile).to_json()

    def exact(self, run: Run) -> Mapping[str, Callable[[Any], float]]:
        vocabulary = run.data().get("tokenizer", {}).get("vocabulary")
        if not isinstance(vocabulary, int):
            return {}  # the data were never read
        return exact_objectives(self.space(run.settings), run.settings.evaluation, vocabulary)

    def paths(self, settings: EvolveSettings) -> dict[str, Any]:
        language = settings.evaluation.language
        changes: dict[str, Any] = {}
        if language.data is not None:
            changes["data"] = absolute(language.data)
        if language.tokenizer not in ("bytes", "bpe"):
            changes["tokenizer"] = absolute(language.tokenizer)
        return {"evaluation": {"language": changes}} if changes else {}

    def tokens_per_step(self, values: Mapping[str, Any]) -> int:
        evaluation = values["evaluation"]
        return int(evaluation["training"]["batch_size"] * evaluation["language"]["context_length"])

    def export(self, individual: Individual, target: str | Path, to: str | None) -> Export:
        from evodevo.runs.export import export_individual

        return export_individual(individual, target, to=to)

    def load(self, individual: Individual) -> Any:
        from evodevo.networks.saved import load_network

        return load_network(individual.run.archive.store.blobs, individual.weights())[0]

    def tokenizer(self, individual: Individual) -> Any:
        from evodevo.tasks.text.tokenizers import from_bytes
        from evodevo.training import checkpoints

        kept = checkpoints.load(individual.run.archive.store.blobs, individual.weights())
        return from_bytes(kept.attachment("tokenizer"))

    def generate(
        self, individual: Individual, prompt: str, count: int, *, sampling: SamplingSettings | None, seed: int
    ) -> str:
        import torch

        tokenizer = individual.tokenizer()
        ids = torch.from_numpy(tokenizer.encode(prompt)).long().unsqueeze(0)
        new = individual.load().continue_text(ids, count, sampling=sampling, seed=seed)
        return str(tokenizer.decode(new[0].numpy()))

    def recall(self, individual: Individual, task: str, device: str = "cpu") -> Any:
        from evodevo.backbone.recall.training import train_and_ask
        from evodevo.errors import EvaluationsFailedError

        settings = individual.run.settings
        space, evaluation = self.space(settings), settings.evaluation
        seed = individual.run.evaluation_seed(0)
        found = train_and_ask(task, space, individual.genome, evaluation.recall, seed, device)
        if found is None:
            raise EvaluationsFailedError(
                f"the training of {individual.id} on {task} diverged; lower evaluation.recall.learning_rate of its run."
            )
        return found

    def strip(self, space: Space[Any], genome: Any, *, ascii_only: bool = False) -> str:
        """One glyph per LIV; letters where only ASCII can be shown."""
        from evodevo.backbone.diagrams.glyph_line import text_strip
        from evodevo.backbone.draw import marks

        own = cast(BackboneSpace, space)
        return text_strip(marks(own.plan(genome), genome), ascii_only=ascii_only)

    def plan(self, individual: Individual) -> tuple[LIVPlan, ...]:
        return self.space(individual.run.settings).plan(individual.genome)

    def words(self, individual: Individual) -> list[str]:
        from evodevo.backbone.draw import words

        return words(individual.plan)

    def differences(self, a: Individual, b: Individual) -> list[dict[str, Any]]:
        """LIV by LIV of the networks: ``position`` from 1, both LIVs in words, and the names of the integers whose
        meaning differs. Integers without effect are no difference."""
        differences = []
        livs = (self.space(one.run.settings).resolved(one.genome) for one in (a, b))
        for place, (left, right) in enumerate(zip_longest(*livs), 1):
            if left == right:
                continue
            names = ["all"] if left is None or right is None else left.differences(right)
            texts = [None if liv is None else liv.words for liv in (left, right)]
            differences.append({"position": place, "a": texts[0], "b": texts[1], "integers": names})
        return differences

    def distance(self, a: Individual, b: Individual) -> float:
        return self.space(a.run.settings).network_distance(a.genome, b.genome)

    def at_depth(self, genome: Any, values: dict[str, Any]) -> dict[str, Any]:
        return merge(values, {"space": {"depth": len(genome), "depth_range": None}})

    def extent(self, a: Individual, b: Individual) -> str:
        return f"of {max(len(a.genome), len(b.genome))} LIVs"

    def motifs(self, run: Run) -> Motifs | None:
        """Sequences of classes and connections that recur in the last population (STAR 5.5)."""
        from evodevo.backbone.motifs.reading import search_motifs

        return search_motifs(run)

    def drawing(self, individual: Individual) -> str:
        from evodevo.backbone.draw import drawn

        genome = individual.run.space.canonical(individual.genome)
        return drawn(individual.plan, genome).svg(title=individual.name, subtitle=individual.title)

    def report(self, run: Run) -> str:
        from evodevo.backbone.report import BackboneParts
        from evodevo.runs.report.page import search_page

        return search_page(run, BackboneParts())


BACKBONE = BackboneSlice()
