"""Agents that combine a task's path with frozen paths of others, through trained connectors and a router.

µ4Net (2302.02721), section 2; docs/spec/munet.md#multipath-model. They build on the singlepath agents of one class; no
agent builds on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pydantic import Field

from evodevo import canonical
from evodevo.errors import UsageError
from evodevo.multitask.agent import (
    IMPORT,
    AgentClass,
    Child,
    ChildComponent,
    Draw,
    GenerationContext,
    PublishedPath,
    SystemView,
)
from evodevo.multitask.genome import Path, SubPath, agent_name
from evodevo.multitask.hyperparameters import (
    DATA,
    Hyperparameter,
    Hyperparameters,
    Version,
    multipath_hyperparameters,
)
from evodevo.multitask.paths.kinds import KINDS, SinglepathKind, structure_of
from evodevo.multitask.paths.multipath_spec import (
    MultipathStructure,
    multipath_flops,
    multipath_parameters,
    multipath_shapes,
)
from evodevo.multitask.search.child import SharedData, shared_data
from evodevo.multitask.search.components import Place
from evodevo.multitask.search.parents import ParentChoice, select_parents
from evodevo.multitask.search.sampler import Evidence, component_similarity, records
from evodevo.multitask.search.supports import MultipathSettings, draw_main, plan_multipath_child
from evodevo.multitask.search.versions import Rules, multipath_rules
from evodevo.multitask.settings import AgentSettings
from evodevo.settings import Settings, validate
from evodevo.storage.systems.base import AgentRow

KIND = "multipath"


class MultipathOptions(Settings):
    """The options of an agent of a class of multipath models.

    Attributes:
        version: version of the lists of tuned values.
        most_paths: largest number of paths, the main one included.
        hyperparameters: key -> another list: ``{"values": […], "default": …, "tuned": true}``.
        structure: joining of the paths; every ablation of the paper is a value here.
        child: settings of children and of the draw of supports.
    """

    version: Version = "paper"
    most_paths: int = Field(default=3, ge=2, le=64)
    hyperparameters: dict[str, dict[str, Any]] = Field(default_factory=dict)
    structure: MultipathStructure = Field(default=MultipathStructure())
    child: MultipathSettings = Field(default=MultipathSettings())


class MultipathAgents(AgentClass):
    """Agents that build on the paths of one singlepath class.

    Args:
        name: name of the class.
        single: name of the singlepath class.
        family: row of ``KINDS``: the kind of its paths.
    """

    stage = 1
    priced = False

    def __init__(self, name: str, single: str, family: str = "vision_path") -> None:
        self.name, self.single, self._kind = name, single, family

    @property
    def family(self) -> SinglepathKind:
        """Kind of the paths that it builds on."""
        return KINDS.get(self._kind).single()

    def reads(self, agent: AgentRow) -> bool:
        """Agents of the singlepath class, its roots, and imports of networks: the latter two may be supports."""
        return agent.kind in (self.single, IMPORT)

    def probed_by(self, agent: AgentRow) -> str | None:
        return agent_name(self.single, agent.task)

    def missing(self, agent: AgentRow, view: SystemView) -> str | None:
        """The task's own path, and another one."""
        main = agent_name(self.single, agent.task)
        if main not in view.offers:
            return f"{agent.name} builds on {main}, which offers no path yet; let that one run first."
        if not any(self.reads(row) for name, row in view.agents.items() if name != main):
            return f"{agent.name} needs a path of another agent of class {self.single} as a support; there is none."
        return None

    def published(self, version: Version) -> Rules:
        """See ``AgentClass``."""
        return multipath_rules(version)

    def usual_options(self, version: Version, *, root: bool) -> Mapping[str, Any]:
        """Supports by the probes of the task's singlepath agent; the papers and their recipes draw them uniformly."""
        return {} if version != "paper" else {"child": {"supports": {"sampler": {"kind": "probed"}}}}

    def check(self, settings: AgentSettings) -> None:
        """Refuse roots, and options that make no model."""
        options = _options(settings)
        if settings.root:
            raise UsageError(f"an agent of class {self.name} makes no roots.")
        multipath_shapes(options.structure, settings.classes, [1])
        self._space(options)

    def breed(self, situation: GenerationContext, count: int, draw: Draw) -> Sequence[Child]:
        """A generation; see ``AgentClass.breed``."""
        options = _options(situation.settings)
        space = self._space(options)
        rule = situation.cycle.parents.model_copy(update={"fallback": "none"})
        chosen, _ = select_parents(situation.population, [], [draw(place, "parent") for place in range(count)], rule)
        shared = None
        if situation.cycle.child.data == "generation":
            best = _best(situation)
            mutation = options.child.mutation
            shared = shared_data(space, best.path if best else None, draw("generation", "data"), mutation)
        evidence = self._evidence(situation, options)
        return [
            self._child(situation, selection, options, space, shared, evidence, draw, place)
            for place, selection in enumerate(chosen)
        ]

    # Inside

    def _child(
        self,
        situation: GenerationContext,
        selection: ParentChoice,
        options: MultipathOptions,
        space: Hyperparameters,
        shared: SharedData | None,
        evidence: Evidence,
        draw: Draw,
        place: int,
    ) -> Child:
        classes = situation.settings.classes
        main_agent = agent_name(self.single, situation.agent.task)
        offers = {_subpath(offer): offer for offer in situation.view.offers.values()}
        main = draw_main([offer for offer in offers if offer.agent == main_agent], draw(place, "main"))
        parent = None if selection.parent is None else situation.known[selection.parent]
        best = _best(situation)

        def known(sub_path: SubPath) -> PublishedPath:
            return offers[sub_path] if sub_path in offers else situation.resolve(sub_path.agent, sub_path.number)

        def widths(paths: Sequence[SubPath]) -> list[int]:
            return [structure_of(known(path).path).width for path in paths[1:]]

        def places(paths: tuple[SubPath, ...]) -> list[Place]:
            shapes = multipath_shapes(options.structure, classes, widths(paths))
            return [Place(role, canonical.dumps(dict(tensors))) for role, tensors in shapes.items()]

        plan = plan_multipath_child(
            None if parent is None else parent.path,
            [] if parent is None else _filled(parent, widths(parent.path.paths)),
            main=main,
            pool=[offer for offer in offers if offer.agent != main_agent],
            needs=places,
            space=space,
            settings=options.child,
            rng=draw(place, "child"),
            best=None if best is None else best.path,
            shared=shared,
            evidence=evidence,
        )
        inside = widths(plan.paths)
        sizes = multipath_parameters(options.structure, classes, inside)
        parts = tuple(
            ChildComponent(part.role, part.source, True, sizes[part.role], part.fate) for part in plan.components
        )
        score = {path.id: path.score for path in situation.population}.get(selection.parent or "")
        flops = multipath_flops(options.structure, classes, inside) + sum(
            _flops(known(path).path, 0 if number else classes) for number, path in enumerate(plan.paths)
        )
        return Child(
            KIND,
            options.structure.model_dump(mode="json"),
            plan.hparams,
            plan.mu,
            parts,
            selection.parent,
            selection.parent is not None,
            score,
            float(flops),
            1.0,
            float(sum(part.parameters for part in parts)),
            tuple(known(path) for path in plan.paths),
            story={
                "selection": asdict(selection),
                "plan": plan.to_json(),
                "population": [asdict(path) for path in situation.population],
            },
        )

    def _space(self, options: MultipathOptions) -> Hyperparameters:
        space = multipath_hyperparameters(options.version, most_paths=options.most_paths)
        if not self.family.augments:  # nothing that chance could change, and so nothing that it keeps from being kept
            space = Hyperparameters(rows=tuple(row for row in space.rows if not row.key.startswith(DATA)))
        for key, row in options.hyperparameters.items():
            space = space.with_row(validate(Hyperparameter, {"key": key, **row}, what=f"hyperparameter {key}"))
        return space

    def _evidence(self, situation: GenerationContext, options: MultipathOptions) -> Evidence:
        kind = options.child.supports.sampler.kind
        if kind != "informed":
            return Evidence(losses=situation.probed) if kind == "probed" else Evidence()
        main = situation.view.offers[agent_name(self.single, situation.agent.task)]
        near = {
            name: component_similarity(dict(main.sizes), dict(offer.sizes))
            for name, offer in situation.view.offers.items()
            if offer.id != main.id
        }
        return Evidence(records(situation.history()), near)


def _flops(path: Path, classes: int) -> float:
    family = KINDS.get(path.kind).single()
    return family.flops(family.structure_of(path).changed(classes=classes))


def _best(situation: GenerationContext) -> PublishedPath | None:
    return situation.known[situation.population[0].id] if situation.population else None


def _subpath(known: PublishedPath) -> SubPath:
    return SubPath(agent=known.path.agent, number=known.path.number)


def _filled(parent: PublishedPath, widths: Sequence[int]) -> list[Place]:
    structure = validate(MultipathStructure, parent.path.structure, what=f"path {parent.path.id}")
    shapes = multipath_shapes(structure, parent.path.classes, widths)
    return [Place(part.role, canonical.dumps(dict(shapes[part.role])), part.id) for part in parent.components]


def _options(settings: AgentSettings) -> MultipathOptions:
    return validate(MultipathOptions, settings.options, what="options of the agent")


MULTI_VIT = MultipathAgents("MultiVit", "Vit")
MULTI_VIT_B = MultipathAgents("MultiVitB", "VitB")
MULTI_VIT_T3 = MultipathAgents("MultiVitT3", "VitT3")
MULTI_VIT_TINY = MultipathAgents("MultiVitTiny", "VitTiny")
