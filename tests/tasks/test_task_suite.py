"""The laws of tasks of samples, for every such row of the table."""

from __future__ import annotations

from typing import Any, NamedTuple

from evodevo.tasks.base import TASKS
from evodevo.tasks.generated import SplitSizes
from evodevo.tasks.reasoning.domains import DomainsSettings
from evodevo.tasks.reasoning.pointer import PointerSettings
from evodevo.tasks.reasoning.programs import ProgramsSettings
from evodevo.tasks.reasoning.proofs import ProofsSettings
from evodevo.tasks.recall.base import RecallSettings
from evodevo.tasks.recall.copying import SelectiveCopyingSettings
from evodevo.tasks.recall.mqar import MQARSettings
from evodevo.tasks.recall.noisy import NoisyRecallSettings
from evodevo.tasks.text.languages import LanguagesSettings
from evodevo.tasks.text.synthetic_languages import SyntheticSettings
from evodevo.tasks.text.text_labels import TextLabelsSettings
from evodevo.tasks.text.topics import TopicSettings
from evodevo.testing.tasks import SampleTaskTests

SIZES = SplitSizes(train=300, validation=60, test=70)


def proofs(**values: Any) -> ProofsSettings:
    return ProofsSettings(**{"samples": SIZES, **values})


def pointer(**values: Any) -> PointerSettings:
    return PointerSettings(**{"samples": SIZES, **values})


def domains(**values: Any) -> DomainsSettings:
    return DomainsSettings(**{"samples": SIZES, "domains": 3, **values})


def programs(**values: Any) -> ProgramsSettings:
    return ProgramsSettings(**{"samples": SIZES, "operations": 4, **values})


def recall(kind: type[Any], **values: Any) -> Any:
    return kind(**{"samples": SIZES, "length": 24, **values})


def recall_case(kind: type[Any], **values: Any) -> Small:
    """The settings that all recall tasks have, and one that a task has of its own."""
    others = (
        {"length": 25},
        {"vocabulary": 63},
        {"seed": 1},
        {"samples": SplitSizes(train=301, validation=60, test=70)},
    )
    own = tuple({name: value} for name, value in values.items())
    return Small(recall(kind), tuple(recall(kind, **changes) for changes in (*others, *own)))


def text_labels(topics: dict[str, Any] | None = None, **values: Any) -> TextLabelsSettings:
    return TextLabelsSettings(topics=TopicSettings(**{"samples": SIZES, "classes": 5, **(topics or {})}), **values)


def languages(synthetic: dict[str, Any] | None = None, **values: Any) -> LanguagesSettings:
    return LanguagesSettings(
        synthetic=SyntheticSettings(**{"documents": 60, "letters": 80, **(synthetic or {})}), **values
    )


class Small(NamedTuple):
    """Settings of a task that opens fast, others that give other samples, and others that give the same ones."""

    settings: Any
    decisive: tuple[Any, ...] = ()
    indifferent: tuple[Any, ...] = ()
    memory: bool = False


# Their own test files inherit the laws, with settings of their own.
ELSEWHERE = frozenset({"images", "language", "image_text", "table", "rows", "digits_questions", "multitask"})

# A task without an entry is tested with its own defaults.
SMALL = {
    "proofs": Small(
        proofs(),
        (
            proofs(world="open"),
            proofs(form="language"),
            proofs(form="language", loss="answer"),
            proofs(wording="terse"),
            proofs(negated_questions=False),
            proofs(depths_train=(0, 1)),
            proofs(depths_test=(1, 2)),
            proofs(entities=4),
            proofs(attributes=9),
            proofs(facts=7),
            proofs(words="few"),
            proofs(form="language", questions=3),
            proofs(form="language", questions=3, shares=(2, 1, 1)),
            proofs(rules=8),
            proofs(seed=1),
            proofs(samples=SplitSizes(train=301, validation=60, test=70)),
        ),
        (proofs(loss="answer"), proofs(depths_train=(2, 1, 0))),
    ),
    "pointer": Small(
        pointer(),
        (
            pointer(nodes=7),
            pointer(hops_min=2),
            pointer(hops_max=5),
            pointer(seed=1),
            pointer(samples=SplitSizes(train=301, validation=60, test=70)),
        ),
    ),
    "domains": Small(
        domains(),
        (
            domains(domains=4),
            domains(values=7),
            domains(steps_min=2),
            domains(steps_max=3),
            domains(seed=1),
            domains(samples=SplitSizes(train=301, validation=60, test=70)),
        ),
        memory=True,
    ),
    "programs": Small(
        programs(),
        (
            programs(operations=5),
            programs(values=7),
            programs(length=4),
            programs(held_out=0.5),
            programs(seed=1),
            programs(samples=SplitSizes(train=301, validation=60, test=70)),
        ),
    ),
    "mqar": recall_case(MQARSettings, pairs=3, gap=2),
    "noisy_recall": recall_case(NoisyRecallSettings, pairs=3, noise=0.5),
    "induction": recall_case(RecallSettings),
    "selective_copying": recall_case(SelectiveCopyingSettings, tokens=5),
    "text_labels": Small(
        text_labels(),
        (
            text_labels(tokenizer="bytes"),
            text_labels(vocabulary=300),
            text_labels(length=16),
            text_labels({"classes": 6}),
            text_labels({"clarity": 2.0}),
            text_labels({"own": 0.6}),
            text_labels({"other": 0.3}),
            text_labels({"seed": 1}),
            text_labels({"samples": SplitSizes(train=301, validation=60, test=70)}),
        ),
        (text_labels(text="body", label="kind"),),
    ),
    "languages": Small(
        languages(context_length=32),
        (
            languages(context_length=33),
            languages(context_length=32, tokenizer="bpe", vocabulary=400),
            languages({"seed": 1}, context_length=32),
            languages({"documents": 61}, context_length=32),
            languages({"letters": 81}, context_length=32),
        ),
        (languages(context_length=32, language="l", text="t"), languages(context_length=32, vocabulary=300)),
    ),
}


def suite(name: str) -> type[SampleTaskTests]:
    task_class = TASKS.get(name)
    small = SMALL.get(name) or Small(task_class.settings_class())
    attributes = {"task_class": task_class, **small._asdict()}
    return type(f"Test{name.title().replace('_', '')}", (SampleTaskTests,), attributes)


assert set(SMALL) <= set(TASKS)
globals().update({suite(name).__name__: suite(name) for name in TASKS if name not in ELSEWHERE})
