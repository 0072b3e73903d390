"""A trained individual of a run as files for other programs; ``export/models`` writes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evodevo.errors import NotFoundError, UsageError, quoted_list
from evodevo.runs.archive import Individual

if TYPE_CHECKING:
    from evodevo.export.folder import Export
    from evodevo.export.models.base import ModelSubject, Story, TensorInput
    from evodevo.tasks.inputs import InputSpec

DEFAULT_FORMATS = ("source", "pt2")
"""Formats that are taken where none is named: the first that holds the network."""
MOST_ANCESTORS = 200
FACTS = {
    "tokens": "tokens of the training",
    "steps": "steps of the training",
    "parameters": "parameters as the search counts them, without embedding and head",
    "cache_bytes": "cache in bytes as the search counts it",
}


def export_individual(individual: Individual, target: str | Path, *, to: str | None = None) -> Export:
    """Export a trained individual.

    Args:
        individual: individual of any run with kept weights.
        target: a folder that is missing, empty, or an earlier export, which is replaced.
        to: a row of ``MODEL_EXPORTERS``; None takes ``source`` where it holds the network, else ``pt2``.

    Raises:
        NotFoundError: no weights were kept: the individual is unfinished or failed.
        UsageError: no format of that name, a folder that holds something else, a network that the format cannot hold,
            or a tokenizer that is not the model's.
        MissingExtraError: the format needs a package that is not installed.
        VerificationError: the written files do not answer as the model does; none of them is left.
    """
    from evodevo.export.folder import check_target
    from evodevo.export.models.base import MODEL_EXPORTERS
    from evodevo.export.models.write import write_model

    chosen = None if to is None else MODEL_EXPORTERS.get(to)  # before what takes long
    check_target(Path(target).absolute())
    subject = subject_of(individual)
    if chosen is None:
        rows = [MODEL_EXPORTERS.get(name) for name in DEFAULT_FORMATS]
        chosen = next((row for row in rows if row.holds(subject)), rows[-1])
    return write_model(chosen, subject, Path(target))


def subject_of(individual: Individual) -> ModelSubject:
    """The subject of an export.

    Raises:
        NotFoundError, UsageError: see ``export_individual``.
    """
    from evodevo.networks.tensors import TensorNetwork

    if individual.state == "waiting" and not _has_weights(individual):
        raise NotFoundError(
            f"{individual.id} has not been trained yet; go on with its run: evodevo resume {individual.run.id}"
        )
    network = individual.load()
    tokenizer = None
    if _writes(network):
        with suppress(UsageError):  # the tokens of a generated task are no text
            tokenizer = individual.tokenizer()
    return model_subject(
        TensorNetwork(network),
        name=individual.id,
        kind=_kind(individual),
        story=story_of(individual),
        tokenizer=tokenizer,
    )


def model_subject(network: Any, *, name: str, kind: str, story: Story, tokenizer: Any = None) -> ModelSubject:
    """The subject of a network.

    Args:
        network: a ``networks.tensors.TensorNetwork``.
        name: its name in messages.
        kind: its kind, a row of ``NETWORKS``.
        story: its origin.
        tokenizer: tokenizer of its text, or None.

    Raises:
        UsageError: a tokenizer of another vocabulary.
    """
    from evodevo.export.models.base import ModelSubject
    from evodevo.networks.spec import NETWORKS

    inner = network.network
    inputs = tuple(one for spec in inner.input_specs for one in _inputs(spec, network))
    if tokenizer is not None and tokenizer.vocabulary != inner.input_specs[0].vocabulary:
        raise UsageError(
            f"the tokenizer of {name} has {tokenizer.vocabulary:,} ids and the model"
            f" {inner.input_specs[0].vocabulary:,}; they do not belong together, and nothing was exported."
        )
    return ModelSubject(
        kind=kind,
        name=name,
        network=network,
        inputs=inputs,
        outputs=tuple((spec.name, spec.kind, tuple(spec.names)) for spec in inner.output_specs),
        story=story,
        model=inner,
        tokenizer=tokenizer,
        context_length=max((spec.length for spec in inner.input_specs if spec.modality == "tokens"), default=0),
        program=partial(NETWORKS.get(kind).source, inner) if kind in NETWORKS else None,
    )


def _inputs(spec: InputSpec, network: Any) -> Iterator[TensorInput]:
    from evodevo.export.models.base import TensorInput

    if spec.modality == "tokens":
        longest = network.longest(spec)
        yield TensorInput(spec.name, "int64", (None,), below=spec.vocabulary, longest=longest)
        if network.masked(spec):
            yield TensorInput(f"{spec.name}/mask", "bool", (None,), longest=longest)
    elif spec.modality == "image":
        yield TensorInput(spec.name, "uint8", (spec.height, spec.width, spec.channels))
    else:
        sizes = (spec.size,) if spec.modality == "vector" else (spec.length, spec.size)
        yield TensorInput(spec.name, "float32", sizes)


def _has_weights(individual: Individual) -> bool:
    try:
        individual.weights()
    except NotFoundError:
        return False
    return True


def _kind(individual: Individual) -> str:
    """The kind of network that a checkpoint holds, a row of ``NETWORKS``."""
    from evodevo.training import checkpoints

    genome = checkpoints.load(individual.run.archive.store.blobs, individual.weights()).manifest.genome or {}
    return str(genome["space"] if "space" in genome else genome["network"]["kind"])


def _writes(network: Any) -> bool:
    """Whether it is a language model: it reads one text and predicts its tokens."""
    return [spec.modality for spec in network.input_specs] == ["tokens"] and any(
        spec.kind == "tokens" for spec in network.output_specs
    )


# What is known of it


def story_of(individual: Individual) -> Story:
    """The origin of an individual: run, architecture, scores beside its baselines', lineage."""
    from evodevo.export.models.base import Story

    run = individual.run
    return Story(
        title=f"{individual.name}: {individual.title}"[:200],
        source={
            "individual": individual.id,
            "genome": _genome(individual),
            "run": run.id,
            "recipe": run.recipe or "none",
            "seed": str(run.seed),
            "created": run.row.created_at,
        },
        architecture=tuple(run.slice.words(individual)),
        svg=_drawing(individual),
        training=tuple(_training(individual)),
        scores=tuple(_scores(individual)),
        lineage=tuple(_lineage(individual)),
        notes=tuple(_notes(individual)),
    )


def _genome(individual: Individual) -> str:
    """The genome; of a training in an experiment that of its network, where it has one."""
    network = getattr(individual.genome, "network", None)
    return str(getattr(getattr(network, "structure", None), "genome", individual.text))


def _drawing(individual: Individual) -> str | None:
    try:
        return individual.run.slice.drawing(individual)
    except UsageError:
        return None


def _training(individual: Individual) -> Iterator[tuple[str, str]]:
    evaluation = individual.run.row.settings.get("evaluation", {})
    budget = evaluation.get("training", {}).get("budget", {})
    limits = [f"{value:,} {name}" for name, value in budget.items() if value is not None]
    yield "budget of the training", ", ".join(limits) or "none"
    data = evaluation.get("language", evaluation.get("task_settings", {})).get("data")
    # Its name alone: a card is for others, and a path is private to this machine.
    yield "data", Path(str(data)).name if data else str(evaluation.get("task", "the recipe's own"))
    for name, said in FACTS.items():
        value = individual.fact.get(name)
        if isinstance(value, int):
            yield said, f"{value:,}"


def _scores(individual: Individual) -> Iterator[tuple[str, tuple[str, ...], tuple[tuple[str, ...], ...]]]:
    run = individual.run
    if run.is_experiment:
        own = [(name, f"{value:.6g}") for name, value in individual.scores.items() if value is not None]
        yield "Its own evaluation", ("score", "value"), tuple(own)
        return
    columns = ("", *(f"{goal.name} ({goal.unit})" if goal.unit else goal.name for goal in run.goals), "scores of")
    rows: list[tuple[str, ...]] = []
    for other in (individual, *run.baselines()):
        found = [other.summary(goal.name) for goal in run.goals]
        cells = ["none" if one is None else _cell(one) for one in found]
        fresh = any(one is not None and one.fresh for one in found)
        kind = "fresh seeds, which played no part in the search" if fresh else "the search's own seed, which flatters"
        rows.append((other.name if other is not individual else "this model", *cells, kind))
    yield "Scores on validation data, beside baselines of the same budget", columns, tuple(rows)


def _cell(summary: Any) -> str:
    spread = f" ({summary.low:.6g} to {summary.high:.6g}, {summary.seeds} seeds)" if summary.seeds > 1 else " (1 seed)"
    return f"{summary.mean:.6g}{spread}"


def _lineage(individual: Individual) -> Iterator[tuple[str, str, str]]:
    """Every ancestor once, nearest first."""
    archive, seen, nearest = individual.run.archive, {individual.id}, list(individual.parents)
    while nearest and len(seen) <= MOST_ANCESTORS:
        identity = nearest.pop(0)
        if identity in seen:
            continue
        seen.add(identity)
        try:
            parent = archive.individual(identity)
        except NotFoundError:
            yield identity, "of another store", ""
            continue
        yield parent.id, parent.operation, parent.text
        nearest += list(parent.parents)


def _notes(individual: Individual) -> Iterator[str]:
    pool = individual.run.individuals()
    if len(pool) > 1:
        failed = sum(one.state == "failed" for one in pool)
        yield (
            f"It is one of {len(pool)} candidates that its run looked at, of which {failed} failed: scores by which it"
            " was chosen flatter it."
        )
    packages = individual.run.row.settings.get("execution", {}).get("packages")
    if packages:
        yield f"Its run used the packages {quoted_list(packages)}."
