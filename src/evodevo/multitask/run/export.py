"""A path of a system as files that work without evodevo; ``export/`` writes them, this module gathers their
contents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from evodevo.errors import NotFoundError, UsageError
from evodevo.multitask.agent import PublishedPath
from evodevo.multitask.measure import measured
from evodevo.multitask.recorded import TEST
from evodevo.multitask.report.outcomes import child_record
from evodevo.multitask.system import System
from evodevo.storage import Store

if TYPE_CHECKING:
    from evodevo.export.base import Component, ExportSubject, Provenance, SampleInput, Samples
    from evodevo.export.folder import Export
    from evodevo.multitask.run.dense_export import DensePath
    from evodevo.multitask.run.predict import PathPredictor
    from evodevo.tasks.inputs import InputSpec

MOST_ANCESTORS = 1000


def export_system(
    store: Store,
    system: str,
    task: str | None,
    target: str | Path,
    *,
    to: str = "pt2",
    agent: str | None = None,
    cache_folder: Path | None = None,
) -> Export:
    """Export the path that answers a task: the best by validation accuracy, or an agent's.

    Args:
        store: store of the system.
        system: its name, id, or the beginning of one.
        task: name of the task; None raises an error that lists the tasks.
        target: a folder that is missing, empty, or an earlier export, which is replaced.
        to: a row of ``EXPORTERS``.
        agent: agent whose path is exported instead of the best one.
        cache_folder: folder of prepared data; None is the user's.

    Raises:
        UsageError: no task or format of that name, a folder that holds something else, a network that does not fit.
        NotFoundError: no such system, task or agent.
        VerificationError: the written files do not answer as the path does; none of them is left.
    """
    from evodevo.export.base import EXPORTERS
    from evodevo.export.folder import check_target, write_export
    from evodevo.multitask.run.predict import PathPredictor, chosen_path
    from evodevo.registry import enable_packages

    opened = System.open(store, system)
    enable_packages(opened.settings.packages)
    known = chosen_path(opened, task, agent)
    exporter = EXPORTERS.get(to)
    check_target(Path(target))  # before what takes long
    answerer = PathPredictor(opened, known, skip_below=0.0, cache_folder=cache_folder)
    return write_export(exporter, subject_of(answerer), Path(target))


def subject_of(answerer: PathPredictor) -> ExportSubject:
    """The subject of an export from an answerer's path; it runs all supports, on the CPU.

    Raises:
        UsageError: it reads more of a sample than one image, text or vector, or paths of its kind cannot be exported.
    """
    from evodevo.export.base import ExportSubject
    from evodevo.multitask.run.dense_export import DensePath

    network = DensePath(answerer.built.model)
    modalities = {_MODALITIES.get(entry.name) for entry in network.reads.values()}
    inputs = [spec for spec in answerer.samples.inputs if spec.modality in modalities]
    if len(modalities) != 1 or len(inputs) != 1:
        given = ", ".join(f"{source.name} ({source.modality})" for source in answerer.samples.inputs)
        raise UsageError(
            f"the task {answerer.task!r} hands out {given}; exported are paths that read one image, text or vector of"
            f" them. Ask it with: evodevo predict {answerer.system.row.name} --task {answerer.task}"
        )
    (spec,) = inputs
    read, notes = _INPUTS[spec.modality](spec, answerer, network)
    if not answerer.named:
        notes.append("Classes are called by their numbers: nobody recorded their names, and the data are gone.")
    return ExportSubject(
        network=network,
        input=read,
        classes=answerer.classes,
        answer=lambda samples: answerer.logits(_batch(spec.name, read, samples)),
        provenance=provenance(answerer.system, answerer.known, answerer.built.flops),
        notes=(*notes, *_weights(answerer)),
    )


def _batch(name: str, read: SampleInput, samples: Samples) -> dict[str, Samples]:
    """Samples of an export as the task hands them out."""
    from evodevo.export.text_input import TextInput

    if not isinstance(read, TextInput):
        return {name: samples}
    data, mask = read.decoded(samples)
    return {name: data, f"{name}/mask": mask}


def _image(spec: InputSpec, *_: object) -> tuple[SampleInput, list[str]]:
    from evodevo.export.image_input import ImageInput

    size = f"{spec.height} x {spec.width}"
    return ImageInput(spec.height, spec.width, spec.channels), [
        f"Images of another size are to be resized to {size} first (bilinear); the aspect is not kept.",
        "Transparent parts become white in `evodevo predict`; do so yourself where you read such files.",
    ]


def _rows(spec: InputSpec, answerer: PathPredictor, network: DensePath) -> tuple[SampleInput, list[str]]:
    """The rows of a table, with what their numbers mean where it was recorded."""
    import numpy as np

    from evodevo.export.row_input import RowInput
    from evodevo.multitask.paths.mlp.model import RowEmbedding

    first = next((part for part in network.modules() if isinstance(part, RowEmbedding)), None)
    middle, factor = np.zeros(spec.size, np.float32), np.ones(spec.size, np.float32)
    if first is not None:  # an imported network keeps no statistics of the rows
        middle, factor = first.mean.numpy(), first.factor.numpy()
    spread = np.divide(1, factor, out=np.zeros_like(factor), where=factor > 0)
    table = answerer.samples.table
    read = RowInput(
        spec.size,
        () if table is None else table.meanings,
        () if table is None else table.columns,
        middle,
        spread,
    )
    if table is None:
        return read, ["Numbers come as the task hands them out; nobody recorded what they mean."]
    return read, ["A value of a category that the training rows did not have counts as `(other)`."]


def _text(spec: InputSpec, answerer: PathPredictor, network: DensePath) -> tuple[SampleInput, list[str]]:
    """The tokens of a text, as many as the path that reads most of it reads."""
    from evodevo.export.text_input import TextInput
    from evodevo.multitask.paths.text.spec import BYTES
    from evodevo.tasks.text.tokenizers import SubwordTokenizer, from_bytes

    if spec.vocabulary != BYTES:
        raise UsageError(
            f"the task {answerer.task!r} hands out the ids of a tokenizer of its own; exported are paths of tasks that"
            " hand out bytes."
        )
    entries = list(network.reads.values())
    kept = entries[0].tokenizer
    tokenizer = from_bytes(kept) if kept else None
    assert tokenizer is None or isinstance(tokenizer, SubwordTokenizer)
    # Each of the bytes that the task hands out makes one token at most.
    read = TextInput(min(spec.length, max(entry.length for entry in entries)), spec.length, tokenizer)
    return read, ["An empty text has an answer here, too; `evodevo predict` refuses it."]


_INPUTS: Mapping[str, Callable[[InputSpec, PathPredictor, DensePath], tuple[SampleInput, list[str]]]] = {
    "image": _image,
    "tokens": _text,
    "vector": _rows,
}
"""Modality of a sample -> what an export reads, with remarks for people."""
_MODALITIES = {"images": "image", "texts": "tokens", "rows": "vector"}
"""``DenseInput.name`` -> modality of the input of the task."""


def provenance(system: System, known: PublishedPath, flops: float) -> Provenance:
    """Provenance of a path."""
    from evodevo.export.base import Provenance

    test = measured(system, known)
    inside = [system.library.by_number(path.agent, path.number) for path in known.path.paths]
    return Provenance(
        system=system.row.name,
        agent=known.path.agent,
        task=known.path.task,
        path=known.path.id,
        kind=known.path.kind,
        validation=known.quality,
        test=None if test is None else test.accuracy,
        test_samples=_test_samples(system, known),
        flops=flops,
        components=tuple(_components([*inside, known])),
        ancestors=tuple(_ancestors(system, known)),
        paths=tuple(path.path.id for path in inside),
        created=system.store.individual(known.id).created_at,
    )


def _components(paths: list[PublishedPath]) -> Iterator[Component]:
    """Components of the paths, the main one first and the joint last; a support goes without its head, which is
    not used."""
    from evodevo.export.base import Component
    from evodevo.multitask.paths.kinds import structure_of

    for place, path in enumerate(paths):
        roles = {part.role for part in path.components}
        if 0 < place < len(paths) - 1:
            roles &= set(structure_of(path.path).changed(classes=0).roles)
        for part in path.components:
            if part.role in roles:
                yield Component(path.path.id, part.role, part.id, part.digest, part.parameters)


def _ancestors(system: System, known: PublishedPath) -> Iterator[tuple[str, str]]:
    """(path, what was changed to make it), nearest first; the path itself is not among them."""
    for individual in system.library.lineage(known.id)[:MOST_ANCESTORS]:
        try:
            outcome = child_record(system.store, individual)
        except NotFoundError:
            return
        yield outcome["path"], ", ".join(map(str, outcome["applied"]))
    for main in known.path.paths[:1]:
        inside = system.library.by_number(main.agent, main.number)
        yield inside.path.id, "the main path inside it"
        yield from _ancestors(system, inside)


def _test_samples(system: System, known: PublishedPath) -> int | None:
    samples: int | None = None
    for result in system.store.systems.evaluations_of([known.id])[known.id]:
        if result.fidelity == TEST and result.state == "done":
            samples = result.fact("samples", int, None)
    return samples


def _weights(answerer: PathPredictor) -> Iterator[str]:
    """Mean weight of each path of a multipath model on the test split, where it was measured, in words."""
    test = measured(answerer.system, answerer.known)
    if test is None or test.weights is None:
        return
    paths = [f"{path.agent}/{path.number}" for path in answerer.known.path.paths]
    weights = ", ".join(f"`{path}` {weight:.3f}" for path, weight in zip(paths, test.weights, strict=True))
    yield f"Mean weights of its paths on the test split: {weights}."
