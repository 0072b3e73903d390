"""The procedure ``extend``: domains learned one after another, and what is left of the earlier ones.

Source: docs/spec/h_model.md#experiments.

First some domains are learned together, then others, each by itself: by the whole network, by new hidden layers and the
routers while everything else is frozen, by adapters of low rank, or by an output layer alone. After each stage every
domain is measured.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, Self, cast

from pydantic import Field, model_validator

from evodevo.errors import UsageError
from evodevo.experiments.trained import Trained
from evodevo.experiments.trainer import Trainer
from evodevo.h_model.extension import freeze_old
from evodevo.h_model.model import HModel, as_h_model
from evodevo.h_model.procedures.adapters import adapt, fold
from evodevo.networks.base import Network
from evodevo.operators.layers.base import Layer
from evodevo.randomness import integer_seed
from evodevo.settings import Settings, validate
from evodevo.tasks.base import Split
from evodevo.tasks.selected import SelectedTask
from evodevo.training.settings import Budget, TrainingSettings

Learning = Literal["all", "new", "adapters", "output"]


class ExtendSettings(Settings):
    """The order of the domains, and the parts that learn them. The steps of the training are shared evenly over the
    domains.

    Attributes:
        group: the fact about samples that is their domain.
        first: domains that are learned together, by the whole network.
        then: domains that are learned afterwards, one by one.
        add: hidden layers that an H-Model gets before each of them.
        learn: the parts that learn them: ``all``; ``new``, the added layers, the routers and the domain's own output
            layer; ``adapters``, a map of low rank beside every linear map between inputs and outputs, and that output
            layer; ``output``, that output layer alone.
        routers: with ``new``, the old layers' routers learn too.
        own: with ``new``, the added layers take part in the domain's answers alone, whose output has its name; the old
            layers' routers then stay as they are.
        rank: rank of the adapters.
        later: number of steps of each later domain, as a multiple of its even share, above 0: those beyond it come on
            top of the budget, so that arms whose steps cost less can have as many FLOPs.
    """

    group: str = "domain"
    first: tuple[str, ...] = Field(min_length=1)
    then: tuple[str, ...] = Field(min_length=1)
    add: tuple[Layer, ...] = ()
    learn: Learning = "all"
    routers: bool = True
    own: bool = False
    rank: int = Field(default=4, ge=1, le=1024)
    later: float = Field(default=1.0, gt=0, le=1000)

    @model_validator(mode="after")
    def _each_is_learned_once(self) -> Self:
        if len({*self.first, *self.then}) != len(self.first) + len(self.then):
            raise ValueError("a domain occurs twice in first and then")
        if self.learn == "new" and not self.add:
            raise ValueError("learn is 'new', but no layer is added; give add, or learn 'output'")
        if self.own and self.learn != "new":
            raise ValueError(f"own layers learn by themselves; learn is {self.learn!r}, so leave own out")
        return self


def extend(bench: Trainer, options: Mapping[str, Any]) -> Trained:
    """See the module.

    Facts: ``accuracy``: after each stage, per domain, on validation samples; ``forgetting``: how much accuracy the
    domains have lost since they were learned, a mean over those that were learned before the last stage; ``learned``:
    accuracy on the last domain; ``learning``: numbers that the last stage could change; ``apart``: accuracy on test
    samples of each domain when its stage ended, which it keeps where every stage's changes are stored apart.

    Raises:
        UsageError: wrong options, layers for a network that cannot grow, or a budget that is not in steps.
    """
    settings = validate(ExtendSettings, dict(options), what="options of extend")
    network = bench.build()
    if settings.learn == "new":  # what cannot be is refused before anything is trained
        rehearsal = copy.deepcopy(network)
        for name in settings.then:
            _prepare(rehearsal, settings, name, bench.seed)
    trainable = [parameter for parameter in network.parameters() if parameter.requires_grad]
    stages = [settings.first, *((name,) for name in settings.then)]
    parts = {name: SelectedTask(bench.task, settings.group, (name,)) for stage in stages for name in stage}
    accuracy: list[dict[str, float]] = []
    apart: dict[str, float] = {}
    learning = 0
    for number, domains in enumerate(stages):
        if number:
            _open(network, trainable)
            trainable += _prepare(network, settings, domains[0], integer_seed(bench.seed, number, "new layers"))
        learning = sum(parameter.numel() for parameter in network.parameters() if parameter.requires_grad)
        task = SelectedTask(bench.task, settings.group, domains)
        share = len(domains) * (settings.later if number else 1.0)
        result = bench.train(network, training=_part(bench.training, share, len(parts)), task=task)
        if settings.learn == "adapters":
            fold(network)
        if result.state != "finished":
            break
        accuracy.append(bench.once(f"accuracy after {', '.join(domains)}", lambda: _measured(bench, network, parts)))
        ended = {name: parts[name] for name in domains}
        apart |= bench.once(f"test of {', '.join(domains)}", partial(_measured, bench, network, ended, "test"))
    _open(network, trainable)
    facts: dict[str, Any] = {"accuracy": accuracy, "learning": learning, "apart": apart}
    if len(accuracy) == len(stages):
        facts["forgetting"] = bench.once("forgetting", lambda: forgetting(stages, accuracy))
        facts["learned"] = bench.once("accuracy on the last domain", lambda: accuracy[-1][stages[-1][0]])
    return Trained(network, result, extra=facts)


def forgetting(stages: list[tuple[str, ...]], accuracy: list[dict[str, float]]) -> float:
    """Mean over the domains of all stages but the last: accuracy when they were learned minus accuracy in the end."""
    lost = [
        accuracy[number][name] - accuracy[-1][name] for number, domains in enumerate(stages[:-1]) for name in domains
    ]
    return sum(lost) / len(lost)


def _measured(
    bench: Trainer, network: Network, parts: Mapping[str, SelectedTask], split: Split = "validation"
) -> dict[str, float]:
    samples = bench.settings.validation_samples if split == "validation" else bench.settings.test_samples
    if samples == 0:
        return {}
    return {name: bench.measure(network, split, task=part, samples=samples).accuracy for name, part in parts.items()}


def _part(training: TrainingSettings, domains: float, of: int) -> TrainingSettings:
    """The settings of a stage, which gets the steps of so many of all domains."""
    steps = training.budget.steps
    if steps is None or training.budget != Budget(steps=steps):
        raise UsageError("extend shares its budget over stages; give it in steps.")
    budget = training.budget.model_copy(update={"steps": max(1, int(steps * domains / of))})
    return training.model_copy(update={"budget": budget})


def _open(network: Network, trainable: list[Any]) -> None:
    """Make the parameters trainable again that were trainable at first."""
    for parameter in trainable:
        parameter.requires_grad_(True)


def _prepare(network: Network, settings: ExtendSettings, domain: str, seed: int) -> list[Any]:
    """Grow and freeze for a domain; returns parameters that are new."""
    old = {id(parameter) for parameter in network.parameters()}
    new: list[int] = []
    if settings.add:
        model = as_h_model(network)
        if model is None:
            raise UsageError(f"a {type(network).__name__} cannot be extended by layers; leave add out.")
        new = [
            model.add_node(layer, enabled=True, seed=integer_seed(seed, number, "layer")).place
            for number, layer in enumerate(settings.add)
        ]
    if settings.own:
        cast(HModel, network).give(domain, new)
    added = [parameter for parameter in network.parameters() if id(parameter) not in old and parameter.requires_grad]
    names = [spec.name for spec in network.output_specs]
    outputs = [domain] if domain in names else names
    if settings.learn == "new":
        routers = settings.routers and not settings.own
        freeze_old(cast(HModel, network), new, routers=routers, outputs=outputs)
    elif settings.learn != "all":
        heads = tuple(f"outputs.layers.{name}." for name in outputs)
        for name, parameter in network.named_parameters():
            parameter.requires_grad_(parameter.requires_grad and name.startswith(heads))
        if settings.learn == "adapters":
            adapt(network, settings.rank, seed)
    return added
