"""The interface between driver and agents: the context of a generation, proposed children, classes of agents.

Sources: µNet (2205.10937), µ4Net (2302.02721); docs/spec/munet.md#agents.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from evodevo import canonical
from evodevo.errors import StoreDamagedError
from evodevo.multitask.genome import Path
from evodevo.multitask.hyperparameters import Hyperparameters, Version
from evodevo.multitask.paths.kinds import can_read
from evodevo.multitask.search.mutation import matches
from evodevo.multitask.search.population import Population
from evodevo.multitask.search.versions import Rules
from evodevo.multitask.settings import AgentSettings, CycleSettings
from evodevo.registry import Registry, table
from evodevo.settings import validate
from evodevo.storage.base import IndividualRow
from evodevo.storage.systems.base import AgentRow, ComponentRow

if TYPE_CHECKING:
    import numpy as np

SPACE = "path"
IMPORT = "Import"
"""Class of the agents that hand in networks which were trained elsewhere."""

Draw = Callable[..., "np.random.Generator"]
"""``draw(purpose, ...)``: a generator keyed by system, agent, cycle and child, besides the purpose."""


@dataclass(frozen=True)
class PublishedPath:
    """A path that was trained and kept, with the facts that later decisions need.

    Attributes:
        id: id of its individual.
        path: its genome.
        components: its components, in order.
        quality: best validation accuracy, 0 to 1; None for a root, which answers no task.
        flops: FLOPs of one sample.
    """

    id: str
    path: Path
    components: tuple[ComponentRow, ...]
    quality: float | None
    flops: float

    @property
    def sizes(self) -> tuple[tuple[str, int], ...]:
        """(component, parameters) of each."""
        return tuple((part.id, part.parameters) for part in self.components)

    @property
    def parameters(self) -> int:
        """Number of parameters of all its components."""
        return sum(part.parameters for part in self.components)

    @property
    def frozen(self) -> dict[str, Any]:
        """The path as a part of a worker's request: its genome, and role -> digest of each component."""
        digests = {component.role: component.digest for component in self.components}
        return {"path": self.path.model_dump(mode="json"), "components": digests}

    def component(self, role: str) -> ComponentRow | None:
        """Component in a role; None where it has none."""
        return next((part for part in self.components if part.role == role), None)


@dataclass(frozen=True)
class SystemView:
    """The state of a system in a cycle: publications up to ``seq``, unchanged by later ones.

    Attributes:
        seq: number of the last publication in it.
        offers: agent's name -> its published path, in the order of publication.
        agents: agent's name -> its row, for agents with an offer.
        locks: component -> agents whose publication uses it.
    """

    seq: int
    offers: Mapping[str, PublishedPath]
    agents: Mapping[str, AgentRow]
    locks: Mapping[str, frozenset[str]]

    def others(self, agent: str) -> frozenset[str]:
        """Components that the publications of other agents use: for this one they are frozen."""
        return frozenset(component for component, users in self.locks.items() if users - {agent})


@dataclass(frozen=True)
class GenerationContext:
    """All that a generation's children depend on, besides their draws.

    Attributes:
        agent: the agent of the generation.
        settings: settings of the agent.
        cycle: settings of its cycles.
        view: state of the system in its cycle.
        population: its living paths, best first, with their offspring.
        known: individual -> path, for the population and the view.
        root: parameters and FLOPs of the system's root: the bases of scores.
        resolve: an (agent's name, number) of a sub-path -> its published path.
        history: children of this agent in all its cycles: the agents whose paths each ran through, and whether it was
            kept.
        ancestors: an individual -> those that it descends from and that are among ``known``, nearest first.
        losses: individual -> log-loss of the linear probe of a published path on the task, in nats.
        probed: agent -> smallest log-loss of the probes of its paths on the task, in nats.
    """

    agent: AgentRow
    settings: AgentSettings
    cycle: CycleSettings
    view: SystemView
    population: Population
    known: Mapping[str, PublishedPath]
    root: tuple[float, float]
    resolve: Callable[[str, int], PublishedPath]
    history: Callable[[], Sequence[tuple[tuple[str, ...], bool]]]
    ancestors: Callable[[str], Sequence[PublishedPath]]
    losses: Mapping[str, float] = field(default_factory=dict)
    probed: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ChildComponent:
    """The source of a child's component.

    Attributes:
        role: its place in the path.
        source: the component whose weights it begins with, or that it is; None begins anew.
        train: whether it is a new component, trained for this child; else the source itself, frozen.
        parameters: number of its parameters.
        how: "shared", "cloned", "adapted" or "new", for display.
    """

    role: str
    source: str | None
    train: bool
    parameters: int
    how: str = ""


@dataclass(frozen=True)
class Child:
    """A proposed path, before it has a number.

    Attributes:
        kind, structure, hparams, mu: fields of the path.
        parts: its components, in order; those that are trained become new components.
        parent: id of the individual from which it inherits; None without one.
        accepted: whether the parent counts this child among its offspring.
        bar: the score that it has to exceed; None = any.
        flops: FLOPs of one sample.
        factor: factor by which its accuracy is discounted, 0 to 1.
        accounted: number of its accounted parameters.
        subpaths: individuals inside it, the main path first.
        story: draws and decisions that led to it, JSON.
        payload: further input of its evaluator, JSON.
        entry: name of the evaluator.
        always: whether it is kept whatever its accuracy: a root that answers no task.
    """

    kind: str
    structure: Mapping[str, Any]
    hparams: Mapping[str, Any]
    mu: Mapping[str, float]
    parts: tuple[ChildComponent, ...]
    parent: str | None
    accepted: bool
    bar: float | None
    flops: float
    factor: float
    accounted: float
    subpaths: tuple[PublishedPath, ...] = ()
    story: Mapping[str, Any] = field(default_factory=dict)
    payload: Mapping[str, Any] = field(default_factory=dict)
    entry: str = "path"
    always: bool = False


class AgentClass(ABC):
    """One way to solve tasks: a row of ``AGENTS``. It keeps no state; a system calls it by name.

    Attributes:
        name: name of the row, the first half of its agents' names.
        stage: classes of a lower stage do all their rounds first.
        priced: whether size and work count in scores; else the score is the accuracy.
        probes: whether its draws of parents take probes of published paths into account.
    """

    name: str
    stage: int = 0
    priced: bool = True
    probes: bool = False

    @abstractmethod
    def reads(self, agent: AgentRow) -> bool:
        """Whether agents of this class may build on what an agent publishes (itself and roots included)."""

    def builds_on(self, path: Path, modalities: Collection[str]) -> bool:
        """Whether agents of this class may build on a path where samples have these modalities."""
        return can_read(path, modalities)

    def probed_by(self, agent: AgentRow) -> str | None:
        """Name of another agent whose probes, on the same task, serve the draws of this one too; None = its own do."""
        return None

    @abstractmethod
    def missing(self, agent: AgentRow, view: SystemView) -> str | None:
        """Description of the part of the view that the agent lacks to begin; None where it can begin, as roots can that
        begin with no other."""

    def check(self, settings: AgentSettings) -> None:
        """Refuse settings that an agent of this class cannot work with.

        Raises:
            UsageError: with the wrong setting.
        """
        return

    def published(self, version: Version) -> Rules | None:
        """The rules of a published version of this class; None where there are none, and no option ``version``."""
        return None

    def usual_options(self, version: Version, *, root: bool) -> Mapping[str, Any]:
        """Options of an agent that a user adds, below what he says; they are recorded with it.

        Args:
            version: version of its rules.
            root: whether it is a root whose weights are not read from a checkpoint of others.
        """
        return {}

    def hyperparameters(self, settings: AgentSettings) -> Hyperparameters | None:
        """Hyperparameters that an agent of this class tunes; None where it tunes none of a path's own."""
        return None

    @abstractmethod
    def breed(self, situation: GenerationContext, count: int, draw: Draw) -> Sequence[Child]:
        """The children of one generation. ``draw(place, purpose, …)`` and ``draw("generation", …)`` are its only
        sources of randomness.

        Args:
            situation: all that they depend on.
            count: number of children.
            draw: generators by purpose; the same purposes give the same numbers.
        """


def readable(view: SystemView, kind: AgentClass, settings: AgentSettings) -> SystemView:
    """The part of a view that agents of a class may build on: offers that it reads, of paths that it builds on where
    samples are those of the task, by agents that the settings do not leave out.
    """
    offers = {
        name: offer
        for name, offer in view.offers.items()
        if kind.reads(view.agents[name])
        and matches(name, settings.builds_on)
        and kind.builds_on(offer.path, settings.modalities)
    }
    return replace(view, offers=offers, agents={name: view.agents[name] for name in offers})


AGENTS: Registry[AgentClass] = table("class of agents", "evodevo.agents")
for _name, _row in {"Vit": "VIT", "VitB": "VIT_B", "VitT3": "VIT_T3", "VitTiny": "VIT_TINY"}.items():
    AGENTS.add(_name, f"evodevo.multitask.agents.singlepath:{_row}")
    AGENTS.add(f"Multi{_name}", f"evodevo.multitask.agents.multipath:MULTI_{_row}")
for _name, _row in {"ConvTiny": "CONV_TINY", "ConvSmall": "CONV_SMALL", "ConvBase": "CONV_BASE"}.items():
    AGENTS.add(_name, f"evodevo.multitask.agents.convolution:{_row}")
    AGENTS.add(f"Multi{_name}", f"evodevo.multitask.agents.convolution:MULTI_{_row}")
for _name, _row in {"MlpTiny": "MLP_TINY", "MlpSmall": "MLP_SMALL", "MlpBase": "MLP_BASE"}.items():
    AGENTS.add(_name, f"evodevo.multitask.agents.mlp:{_row}")
    AGENTS.add(f"Multi{_name}", f"evodevo.multitask.agents.mlp:MULTI_{_row}")
for _name, _row in {"NgramTiny": "NGRAM_TINY", "NgramSmall": "NGRAM_SMALL"}.items():
    AGENTS.add(_name, f"evodevo.multitask.agents.ngrams:{_row}")
    AGENTS.add(f"Multi{_name}", f"evodevo.multitask.agents.ngrams:MULTI_{_row}")
for _name, _row in {"Text": "TEXT", "TextTiny": "TEXT_TINY"}.items():
    AGENTS.add(_name, f"evodevo.multitask.agents.text:{_row}")
    AGENTS.add(f"Multi{_name}", f"evodevo.multitask.agents.text:MULTI_{_row}")
AGENTS.add(IMPORT, "evodevo.multitask.agents.network:IMPORTS")
AGENTS.add("Net", "evodevo.multitask.agents.network:NET")
AGENTS.add("MultiNet", "evodevo.multitask.agents.network:MULTI_NET")


def envelope(path: Path) -> dict[str, Any]:
    """The genome of a path as the store keeps it."""
    return {"space": SPACE, "version": 1, "genes": path.model_dump(mode="json")}


def path_of(row: IndividualRow) -> Path:
    """The path that an individual is.

    Raises:
        StoreDamagedError: its genome is none.
    """
    genome = row.genome_envelope
    if genome.get("space") != SPACE or genome.get("version") != 1:
        raise StoreDamagedError(f"individual {row.id} holds no path that this evodevo understands.")
    return validate(Path, genome["genes"], what=f"individual {row.id}")


def genome_hash(genome: Mapping[str, Any]) -> str:
    """Hash of a genome's envelope."""
    return canonical.digest(dict(genome))
