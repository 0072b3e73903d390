"""The command ``grow``: train networks that grow, with the edits and policies that earlier runs left.

Source: docs/spec/architect_thyself.md#edit-memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evodevo.errors import NotFoundError, StoreDamagedError, UsageError
from evodevo.experiments.recipe import ExperimentSettings
from evodevo.experiments.trials import Trial
from evodevo.growth.backbone.evolved import names_individual, with_evolved
from evodevo.growth.earlier_policies import ROLE as POLICY_ROLE
from evodevo.growth.earlier_policies import check_policies, policies_of
from evodevo.growth.recipes.growing import strategist_of, with_edit_memory, with_policy_memory
from evodevo.runs.archive import Archive, Individual, Run
from evodevo.runs.command import Command
from evodevo.runs.drive import GROW
from evodevo.runs.evolve import begin
from evodevo.runs.resolve import resolve
from evodevo.search.members import Listener
from evodevo.search.study import Study
from evodevo.settings import merge

if TYPE_CHECKING:
    from evodevo.growth.strategists.edit_memory import EditMemory

ROLE = "edit_memory"
"""Role of the blob of a growth, and first part of the role, before the strategist's name, of a run's own blobs."""
NO_MEMORY = "none"


def grow(
    recipe: str = "module_zoo.classifier",
    *,
    size: str = "quick",
    strategist: str | None = None,
    baselines: str | None = None,
    memory: str | None = None,
    overrides: dict[str, Any] | None = None,
    store: str | Path = "runs",
    listener: Listener | None = None,
    on_start: Callable[[Study], None] | None = None,
    cache_folder: Path | None = None,
) -> Run:
    """Train the zoo of a recipe while it grows, beside the same zoo fixed.

    Args:
        recipe: Name of the recipe; see ``evodevo recipes``.
        size: ``quick`` or ``full``.
        strategist: Name of the strategist, or several names with commas between them. If left out, the zoo of
            ``module_zoo.classifier`` races, then grows what a fork confirms; in other recipes it is PPO.
        baselines: Baselines to train as well: none (if left out), quick or all.
        memory: Id of a run of this store that grew, or of one of its trainings. Strategists that learn begin with its
            edits, policies with the policy of their strategist there, of the first training if a run is named;
            ``none`` for none.
        overrides: Nested settings that replace the recipe's, for example ``{"grow": {"events": {"count": 4}}}``. The
            genome of a backbone may be the id of an individual of this store.
        store, listener, on_start, cache_folder: Same as for ``evolve``.

    Returns:
        A run of kind ``grow``; ``experiments.comparison`` makes its table; ``growth`` is a fact of its individuals.

    Raises:
        UsageError, DataError: Settings, data or a memory cannot be used; nothing was recorded then.
        NotFoundError: No run and no training of that name.
    """
    named = {} if strategist is None else {GROW: {"strategist": strategist}}
    changes = merge(overrides or {}, named)
    if names_individual(changes):
        with Archive(store) as archive:
            changes = with_evolved(changes, archive)
    settings = resolve(recipe, size=size, driver="grow", baselines=baselines, overrides=changes)
    held: dict[str, bytes] = {}
    if memory not in (None, NO_MEMORY):
        assert memory is not None
        if not isinstance(settings, ExperimentSettings):
            raise UsageError(f"the recipe {recipe!r} compares no growing arms; leave --memory out.")
        with Archive(store) as archive:
            only = None
            if memory != "last" and archive.store.find(memory).kind == "individual":
                only = archive.individual(memory)
            settings, held = _remembering(settings, archive.run(memory) if only is None else only.run, only)
    return begin(
        GROW,
        recipe,
        settings,
        store=store,
        listener=listener,
        on_start=on_start,
        cache_folder=cache_folder,
        held=held,
        command=Command(
            "grow",
            recipe,
            {"size": size, "strategist": strategist, "baselines": baselines, "memory": memory},
            overrides or {},
        ),
    )


def _remembering(
    settings: ExperimentSettings, run: Run, only: Individual | None
) -> tuple[ExperimentSettings, dict[str, bytes]]:
    """Settings whose strategists that learn begin with what a run left, or one training of it, and its blobs by role.

    Raises:
        UsageError: It never grew, has no edits, or its memory is of another version, or its policy of another shape.
    """
    memories = edit_memories(run) if only is None else _edits_of(_growths([only]))
    joined = {"all": join(memory for _, memory in memories)}
    joined |= {name: join(memory for by, memory in memories if by == name) for name in dict(memories)}
    contents = {name: memory.dumps().encode() for name, memory in joined.items() if memory.edits}
    if "all" not in contents:
        raise UsageError(
            f"run {run.id} ({run.kind} {run.recipe}) remembers no edit of a zoo"
            f"{'' if only is None else f' in its training {only.id}'}. Name a run of evodevo grow in which a "
            "strategist had finished events, or leave --memory out."
        )
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()}
    changed = with_edit_memory(settings, digests, digests["all"])
    used = {arm.options.get("edit_memory") for arm in changed.experiment.arms} - {None}
    if not used:
        raise UsageError(f"no strategist of this run learns from the edits of {run.id}; name one with --strategist.")
    roles = {digests[name]: name for name in reversed(contents)}  # those of one strategist alone are all there are
    held = {f"{ROLE}/{name}": contents[name] for digest, name in roles.items() if digest in used}
    policies = policies_of(_growths(_trainings(run) if only is None else [only]))
    check_policies(changed, policies)
    changed = with_policy_memory(changed, {name: hashlib.sha256(data).hexdigest() for name, data in policies.items()})
    wanted = {strategist_of(changed.evaluation, arm) for arm in changed.experiment.arms}
    held |= {f"{POLICY_ROLE}/{name}": data for name, data in policies.items() if name in wanted}
    return changed, held


def edit_memories(run: Run) -> list[tuple[str, EditMemory]]:
    """Memories of edits of a run's trainings: strategist and memory, in the order of the trainings.

    Raises:
        UsageError: A memory of another version.
        StoreDamagedError: A memory that is missing in the store.
    """
    return _edits_of(_growths(_trainings(run)))


def _trainings(run: Run) -> list[Individual]:
    return run.individuals() if run.is_experiment else []


def _growths(trainings: Iterable[Individual]) -> list[tuple[str, Individual]]:
    """Strategist and training, of those that grew and left something."""
    growths: list[tuple[str, Individual]] = []
    for individual in trainings:
        genome = individual.genome
        name = strategist_of(individual.run.settings.evaluation, genome) if isinstance(genome, Trial) else None
        if name is not None and individual.evaluation is not None:
            growths.append((name, individual))
    return growths


def _edits_of(growths: Iterable[tuple[str, Individual]]) -> list[tuple[str, EditMemory]]:
    return [
        (name, _memory(individual, individual.evaluation.blobs[ROLE]))
        for name, individual in growths
        if individual.evaluation is not None and ROLE in individual.evaluation.blobs
    ]


def join(memories: Iterable[EditMemory]) -> EditMemory:
    """All edits of the memories, newest last; one that two of them took over from an earlier run counts once."""
    from evodevo.growth.strategists.edit_memory import MOST, EditMemory

    edits = {edit.model_dump_json(): edit for memory in memories for edit in memory.edits}
    return EditMemory(tuple(edits.values())[-MOST:])


def _memory(individual: Individual, digest: str) -> EditMemory:
    from evodevo.growth.strategists.edit_memory import EditMemory

    try:
        data = individual.run.archive.store.blobs.get(digest)
    except NotFoundError:
        raise StoreDamagedError(
            f"the memory of edits of {individual.id} is not in the store. Next: evodevo repair."
        ) from None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"the memory of edits of {individual.id} is no text.") from None
    return EditMemory.loads(text, what=f"the memory of edits of {individual.id} (run {individual.run.id})")
