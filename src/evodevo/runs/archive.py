"""The contents of a store as objects: runs, individuals, their scores, their models. Nothing here writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evodevo.errors import NotFoundError, UsageError
from evodevo.networks.sampling import SamplingSettings
from evodevo.runs.answers import Prediction, Predicts
from evodevo.runs.pick import Pick, pick
from evodevo.runs.recorded import RecordedIndividual, RecordedRun
from evodevo.runs.slices import OWN_STUDY
from evodevo.search.front import front_places
from evodevo.search.members import BASELINE
from evodevo.storage import EvaluationRow, RunRow, Store
from evodevo.storage.addresses import place

if TYPE_CHECKING:  # it loads numpy, and most commands only read
    from evodevo.export.folder import Export

MAX_PROMPT_BYTES = 1 << 20
STAGE = "protocol.stage"
"""Type of the event of a composed run that names the run of a stage."""
OF_SYSTEMS = ("system", "agent")
"""Kinds of the store's runs that are no runs of a recipe."""


class Archive:
    """A store opened for reading; it may be in use, and it may be of a run that was killed.

    Args:
        folder: folder of the store, or the address of its database.

    Raises:
        NotFoundError: there is none.
    """

    def __init__(self, folder: str | Path = "runs") -> None:
        self.folder = place(folder)
        self.store = Store.open(self.folder, "ro", create=False)

    def close(self) -> None:
        """Let go of the files."""
        self.store.close()

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def runs(self) -> list[Run]:
        """All runs, oldest first. Systems of many tasks and their agents are others' (``evodevo.multitask``)."""
        return [Run(self, row) for row in self.store.runs() if row.kind not in OF_SYSTEMS]

    def run(self, prefix: str) -> Run:
        """The run whose id begins so; ``last`` is the newest one, or the composed one that it is a stage of.

        Raises:
            NotFoundError: none.
            UsageError: more than one.
        """
        if prefix == "last":
            found_runs = self.runs()
            if not found_runs:
                raise NotFoundError(f"the store {self.folder} holds no run yet; begin one with: evodevo evolve")
            return self._whole(found_runs[-1], found_runs)
        reference = self.store.find(prefix)
        if reference.kind != "run":
            raise NotFoundError(f"{prefix!r} is an individual; a run is wanted here. See: evodevo status")
        return self._run(reference.id)

    def _whole(self, run: Run, every: Sequence[Run]) -> Run:
        """The composed run that a run is a stage of; a run that stands alone itself."""
        for other in every:
            if other.is_composed and any(
                event.type == STAGE and event.fact("run", str) == run.id for event in other.events()
            ):
                return other
        return run

    def individual(self, prefix: str) -> Individual:
        """The individual whose id begins so; ``last`` is the one that answers for the newest run (``Run.best``).

        Raises:
            NotFoundError: none.
            UsageError: more than one.
        """
        if prefix == "last":
            return self.run("last").best()
        reference = self.store.find(prefix)
        if reference.kind != "individual":
            raise NotFoundError(f"{prefix!r} is a run; an individual is wanted here. See: evodevo front {prefix}")
        row = self.store.individual(reference.id)
        return self._run(row.run_id).individual(reference.id)

    def _run(self, run_id: str) -> Run:
        row = self.store.run(run_id)
        if row.kind in OF_SYSTEMS:
            raise UsageError(f"{run_id} is a multitask {row.kind}; it is read with evodevo.multitask.System.open.")
        return Run(self, row)


class Run(RecordedRun):
    """One recorded run of ``evolve`` or ``train``."""

    def __init__(self, archive: Archive, row: RunRow) -> None:
        super().__init__(archive.store, row)
        self.archive = archive

    def __repr__(self) -> str:
        return f"<Run {self.id} {self.recipe} {self.state}>"

    @cached_property
    def _members(self) -> dict[str, Individual]:
        evaluations: dict[str, list[EvaluationRow]] = {}
        for evaluation in self.store.evaluations(self.id):
            evaluations.setdefault(evaluation.individual_id, []).append(evaluation)
        rows = self.store.individuals(self.id)
        return {row.id: Individual(self, row, evaluations.get(row.id, [])) for row in rows}

    def individuals(self) -> list[Individual]:
        """All of the search's own, in order of birth; no baselines."""
        return [individual for individual in self._members.values() if individual.operation != BASELINE]

    def individual(self, identity: str) -> Individual:
        """One of this run by its whole id."""
        if identity not in self._members:
            raise NotFoundError(f"run {self.id} has no individual {identity}.")
        return self._members[identity]

    def baselines(self) -> list[Individual]:
        """The hand-drawn ones, evaluated under the same budget."""
        return [individual for individual in self._members.values() if individual.operation == BASELINE]

    def front(self) -> list[Individual]:
        """The non-dominated that keep all constraints, best first in the first goal."""
        pool = self.individuals()
        chosen = [pool[place] for place in front_places([individual.outcome for individual in pool], self.goals)]
        return sorted(chosen, key=lambda individual: individual.key(self.goals[0]))

    def best(self) -> Individual:
        """The individual that answers for the run: of a search the best of its front in the first goal, of an
        experiment the training of its first arm (its reference, where it names one) that is best on validation data.

        Raises:
            NotFoundError: no individual is finished.
        """
        individuals: list[Individual] = self.slice.best(self)
        if not individuals:
            raise NotFoundError(
                f"run {self.id} has no trained network yet (state {self.state}); see: evodevo status {self.id}"
            )
        return individuals[0]

    def searched(self) -> Run:
        """The run whose front is meant: of a composed run that of a stage; see ``Slice.searched``."""
        found: Run = self.slice.searched(self)
        return found

    def pick(self, rule: str = "knee", where: Sequence[str] = ()) -> Pick[Individual]:
        """One of the front, with the reason and the comparison with the baselines; see ``runs.pick``."""
        return pick(self, rule, where)

    def report(self, path: str | Path) -> Path:
        """Write the page on this run, one self-contained HTML file, and return its absolute path.

        Raises:
            UsageError: the file cannot be written.
        """
        target = Path(path)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(self.slice.report(self), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{target} cannot be written: {error}.") from None
        return target.absolute()

    def export(self, target: str | Path, *, to: str | None = None) -> Export:
        """Export the individual that answers for this run (``best``); see ``Individual.export``."""
        return self.best().export(target, to=to)

    def facts(self) -> dict[str, Any]:
        """Facts for ``evodevo status``: JSON."""
        pool = self.individuals()
        closed = self.generations()
        reasons: dict[str, int] = {}
        for individual in pool:
            if individual.reason:
                reasons[individual.reason] = reasons.get(individual.reason, 0) + 1
        return {
            "run": self.id,
            "kind": self.kind,
            "recipe": self.recipe,
            "state": self.state,
            "created": self.row.created_at,
            "individuals": len(pool),
            "scored": sum(individual.state == "done" for individual in pool),
            "failed": reasons,
            "generations": len(closed),
            "generations_wanted": self.settings.study.generations if self.kind in ("evolve", OWN_STUDY) else None,
            "front": len(self.front()),
            "hypervolume": closed[-1]["hypervolume"] if closed else None,
        }


class Individual(RecordedIndividual):
    """One genome in one run, with what is known of it."""

    run: Run

    def __repr__(self) -> str:
        return f"<Individual {self.id} {self.operation} {self.title}>"

    @cached_property
    def genome(self) -> Any:
        """The architecture; in an experiment, the training."""
        return self.run.space.from_json(self.row.genome_envelope)

    @property
    def text(self) -> str:
        """The genome as written."""
        return self.run.space.print(self.genome)

    @property
    def title(self) -> str:
        """The genome in one line for people."""
        return self.run.space.title(self.genome)

    @cached_property
    def plan(self) -> Any:
        """A backbone with its connections resolved, a tuple of ``LIVPlan``.

        Raises:
            UsageError: it is no backbone.
        """
        return self.run.slice.plan(self)

    def load(self) -> Any:
        """The trained model, on the CPU, in evaluation mode: a ``torch.nn.Module``."""
        return self._loaded

    @cached_property
    def _loaded(self) -> Any:
        return self.run.slice.load(self)

    def tokenizer(self) -> Any:
        """The tokenizer that the model was trained with."""
        return self._tokenizer

    @cached_property
    def _tokenizer(self) -> Any:
        return self.run.slice.tokenizer(self)

    def predict(self, values: Mapping[str, str]) -> Prediction:
        """The trained network's answers to one sample of the user's; for many see ``runs.predict.Predictor``.

        Args:
            values: input -> a text, the path of an image, or numbers with commas; inputs that are left out are missing.

        Raises:
            UsageError, DataError: see ``Predictor.sample``.
            NotFoundError: no weights were kept.
        """
        return self._predictor.sample(values)

    def export(self, target: str | Path, *, to: str | None = None) -> Export:
        """Write the trained network for other programs, as ``evodevo export`` does.

        Args:
            target: a folder that is missing, empty, or an earlier export, which is replaced.
            to: format, for example ``source``, ``hf`` or ``pt2``; ``source`` where it holds the network, else ``pt2``,
                if left out.

        Raises:
            NotFoundError, UsageError, MissingExtraError, VerificationError: see ``runs.export.export_individual``.
        """
        return self.run.slice.export(self, target, to)

    @cached_property
    def _predictor(self) -> Predicts:
        return self.run.slice.predictor(self)

    def generate(
        self, prompt: str, count: int = 200, *, sampling: SamplingSettings | None = None, seed: int = 0
    ) -> str:
        """Let the trained model continue a text.

        Args:
            prompt: the text to continue.
            count: number of tokens to write.
            sampling: temperature, top-k and top-p of the draws.
            seed: seed of the draws; equal seeds give equal text.

        Returns:
            The new text alone.

        Raises:
            UsageError: an empty or very long prompt.
            NotFoundError: no weights were kept.
        """
        if not prompt:
            raise UsageError("the prompt is empty; give at least one character, for example --prompt 'def '.")
        if len(prompt.encode("utf-8", "surrogatepass")) > MAX_PROMPT_BYTES:
            raise UsageError(f"the prompt has more than {MAX_PROMPT_BYTES} bytes.")
        return self.run.slice.generate(self, prompt, count, sampling=sampling, seed=seed)
