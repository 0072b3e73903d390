"""``evodevo extend add``: add a task to a system."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evodevo.cli import output
from evodevo.cli.extend.options import Document, SystemName, words_of
from evodevo.cli.options import DEFAULT_STORE, Assignments, ConfigFile, StoreFolder
from evodevo.cli.overrides import overrides
from evodevo.cli.running import store_option

if TYPE_CHECKING:
    from evodevo.multitask.run.create import CreatedAgent


class LabelKind(StrEnum):
    """Kind of question about the samples."""

    label = "class"
    parity = "parity"
    upper_half = "upper_half"


def add(
    system: SystemName,
    task: Annotated[str, typer.Argument(metavar="TASK", help="A name of your choice.")],
    data: Annotated[Path | None, typer.Option(help="Your data, a file or a folder; see: docs/extend.md")] = None,
    source: Annotated[
        str | None,
        typer.Option(help="Reader of the data: images, text_labels, rows, table.  [default: what fits the data]"),
    ] = None,
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of the class in a table.  [default: label]")
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--class", metavar="CLASS", help="Class of agents.  [default: that of the root]")
    ] = None,
    question: Annotated[LabelKind | None, typer.Option(help="Question about the samples.  [default: class]")] = None,
    rotate: Annotated[int | None, typer.Option(help="Number added to each class number.")] = None,
    only: Annotated[str | None, typer.Option(metavar="A,B", help="Classes that are kept.  [default: all]")] = None,
    multi: Annotated[bool, typer.Option("--multi", help="Add an agent that combines paths, too.")] = False,
    few_labels: Annotated[
        bool, typer.Option("--few-labels", help="Take the settings for some twenty labelled samples of each class.")
    ] = False,
    store: StoreFolder = DEFAULT_STORE,
    config: ConfigFile = None,
    set: Assignments = None,
    json: Document = False,
) -> None:
    """Add a task: read its data, divide them into splits, and create an agent for it.

    --set cycle.samples=8, training.validations=2, task.batch=64 hold for this agent alone; others are options of its
    class.
    """
    changes = overrides(config, set or [], {})
    from evodevo.multitask.run.create import add_task

    made = add_task(
        system,
        task,
        data=data,
        source=source,
        label=label,
        kind=kind,
        question=None if question is None else question.value,
        rotate=rotate,
        only=words_of(only or ""),
        multi=multi,
        few_labels=few_labels,
        overrides=changes,
        store=store,
    )
    first = made[0]
    if json:
        facts = {
            "system": first.system,
            "task": task,
            "agents": [created.agent.name for created in made],
            "classes": list(first.agent.settings["class_names"]),
            "samples": dict(first.samples),
            "root": None if first.root is None else first.root.name,
            "left_out": dict(first.left_out),
            "notes": list(first.notes),
        }
        output.document("evodevo.extend.add/1", facts)
        return
    if data is not None:
        output.line(f"data: {_understood(first, data)}")
    for note in first.notes:
        output.words(note)
    for name, reason in first.left_out.items():
        output.words(f"The column {name!r} is not read: {reason}.")
    if first.root is not None:
        output.words(f"No root could read such samples; {first.root.name} was added, which begins at random.")
    for created in made:
        samples = "".join(f"   {count:,} {split}" for split, count in first.samples.items()) if created is first else ""
        output.line(f"agent {created.agent.name}   {created.agent.settings['classes']} classes{samples}")
    if len(first.together) >= _SEVERAL:
        output.words(
            f"{len(first.together)} tasks could train one root together, and share it: evodevo extend create "
            f"{first.system} --beside --root joint{store_option(store)}"
        )
    output.words(f"Next: evodevo extend run {first.system}{store_option(store)}")


_SEVERAL = 3
"""Tasks from which on a root that they train together is proposed."""


def _understood(made: CreatedAgent, data: Path) -> str:
    """``images, 28 x 28, grey; 10 classes; 5,000 samples``."""
    from evodevo.multitask.run.data_kind import holds_sounds, words_of_inputs, words_of_table
    from evodevo.tasks.inputs import InputSpec

    settings = made.agent.settings
    columns = settings.get("columns", ())
    inputs = words_of_table(columns) if columns else ""
    inputs = inputs or words_of_inputs([InputSpec(**values) for values in settings["inputs"]])
    inputs = f"sounds, read as {inputs} (log-mel)" if holds_sounds(data) else inputs
    return f"{inputs}; {settings['classes']:,} classes; {sum(made.samples.values()):,} samples"
