"""Agents that solve a task with one path of the system: share what others froze, train the rest.

µNet (2205.10937), µ4Net (2302.02721); docs/spec/munet.md#agents.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from evodevo import canonical
from evodevo.errors import UsageError
from evodevo.multitask.agent import (
    AgentClass,
    Child,
    ChildComponent,
    Draw,
    GenerationContext,
    PublishedPath,
    SystemView,
)
from evodevo.multitask.genome import Path, Value
from evodevo.multitask.hyperparameters import NUM_LAYERS, SHIFT, Hyperparameter, Hyperparameters, Version
from evodevo.multitask.paths.blocks_spec import HEAD
from evodevo.multitask.paths.kinds import KINDS, PathStructure, SinglepathKind, can_begin, structure_of
from evodevo.multitask.schedule import has_learned
from evodevo.multitask.search.accounts import accounted_parameters
from evodevo.multitask.search.child import ChildPlan, ChildSettings, SharedData, plan_child, shared_data
from evodevo.multitask.search.components import EVERY, Place
from evodevo.multitask.search.parents import ParentChoice, select_parents
from evodevo.multitask.search.score import PathCost, bar, cost
from evodevo.multitask.search.transfer import transfer_weights
from evodevo.multitask.search.versions import Rules, singlepath_rules
from evodevo.multitask.settings import JOINT, TASK_HEAD, AgentSettings, JointTask
from evodevo.settings import Settings, validate
from evodevo.storage.systems.base import AgentRow


class SinglepathOptions(Settings):
    """The options of an agent of a singlepath class.

    Attributes:
        version: version of the lists of tuned values.
        hyperparameters: key -> another list: ``{"values": […], "default": …, "tuned": true}``.
        structure: for a root, differences from the preset of its class.
        root: origin of a root: ``random_init``, ``pretrain`` on the agent's task, from a ``checkpoint``, or ``joint``,
            trained on several tasks together.
        checkpoint: for such a root, folder of a Hugging Face ViT, ``builtin:NAME``, a root of the package, or the file
            of another such root.
        together: for a joint root, its tasks.
        begins: for a joint root, name of the root whose path it copies and trains.
    """

    version: Version = "paper"
    hyperparameters: dict[str, dict[str, Any]] = Field(default_factory=dict)
    structure: dict[str, Any] = Field(default_factory=dict)
    root: Literal["random_init", "pretrain", "checkpoint", "joint"] | None = None
    checkpoint: str | None = None
    together: tuple[JointTask, ...] = Field(default=(), exclude_if=lambda value: not value)
    begins: str | None = Field(default=None, exclude_if=lambda value: value is None)

    @model_validator(mode="after")
    def _joint_roots_have_tasks(self) -> Self:
        if (self.root == JOINT) != (len(self.together) > 1) or (self.root == JOINT) != (self.begins is not None):
            raise ValueError("a joint root, and no other, has two tasks at least and a root that it begins with")
        return self


class Singlepath(AgentClass):
    """Agents of paths of one family and size.

    Args:
        name: name of the class.
        preset: row of the family's presets: structure of a root.
        size: name of the family's lists of tuned values.
        family: row of ``paths.kinds.KINDS``: the kind of its paths.
    """

    probes = True

    def __init__(self, name: str, preset: str, size: str, family: str = "vision_path") -> None:
        self.name, self._preset, self._size, self._kind = name, preset, size, family

    @property
    def family(self) -> SinglepathKind:
        """Kind of its paths."""
        return KINDS.get(self._kind).single()

    @property
    def usual_root(self) -> str | None:
        """The root of the package that it begins with where nobody names one."""
        return self.family.roots.get(self._preset)

    def reads(self, agent: AgentRow) -> bool:
        """Agents of the same class; its roots are of it, too."""
        return agent.kind == self.name

    def builds_on(self, path: Path, modalities: Collection[str]) -> bool:
        """Parents, from which a path with another first component may begin."""
        return can_begin(path, modalities)

    def missing(self, agent: AgentRow, view: SystemView) -> str | None:
        """A path to begin with."""
        if agent.settings.get("root"):
            begins = agent.settings["options"].get("begins")
            if begins is None or begins in view.offers:
                return None
            return f"{agent.name} begins with the root {begins}, which offers no path."
        if any(self.reads(row) for row in view.agents.values()):
            return None
        return f"{agent.name} needs a root of class {self.name}, and the system has none; add one first."

    def published(self, version: Version) -> Rules:
        """See ``AgentClass``."""
        rules, family = singlepath_rules(version, self._size), self.family
        if version != "paper":
            return rules
        samples = rules.cycle.samples if family.children is None else family.children
        firsts = {one: getattr(family, one) for one in ("fine_tuned", "unshifted", "from_scratch")}
        child = rules.cycle.child.model_copy(update=firsts)
        score = rules.cycle.score
        if family.scale is not None:
            score = score.model_copy(update={"scale": family.scale})
        cycle = rules.cycle.model_copy(update={"samples": samples, "child": child, "score": score})
        return replace(rules, cycle=cycle, training={**rules.training, **family.training})

    def usual_options(self, version: Version, *, root: bool) -> Mapping[str, Any]:
        """Those of its family for a new root; other agents take hyperparameters over from theirs."""
        return self.family.new_roots.get(self._preset, {}) if root and version == "paper" else {}

    def hyperparameters(self, settings: AgentSettings) -> Hyperparameters:
        """Those of its family, with the lists that the agent's options change."""
        return self._space(_options(settings))

    def check(self, settings: AgentSettings) -> None:
        """Refuse options that make no path."""
        options = _options(settings)
        space = self._space(options)
        if settings.root != (options.root is not None):
            raise UsageError("a root needs its origin (root = random_init, pretrain or checkpoint).")
        if (options.root == "checkpoint") != (options.checkpoint is not None):
            raise UsageError("a root from a checkpoint, and no other, names its folder ('checkpoint').")
        if settings.root:
            made = self._structure(options, self._root_values(options, space), settings)
            self.family.check_root(made, str(options.root))
        if not settings.classes and options.root in (None, "pretrain"):
            raise UsageError("a task of this class has at least 1 class; give the number as 'classes'.")

    def breed(self, situation: GenerationContext, count: int, draw: Draw) -> Sequence[Child]:
        """A generation; see ``AgentClass.breed``."""
        options = _options(situation.settings)
        space = self._space(options)
        if situation.settings.root:
            return [self._root(situation, options, space)]
        strangers = [
            offer.id for name, offer in reversed(list(situation.view.offers.items())) if name != situation.agent.name
        ]
        generators = [draw(place, "parent") for place in range(count)]
        rule, own = situation.cycle.parents, [member.id for member in situation.population]
        weights = None
        if rule.fallback == "probed":
            weights = transfer_weights(
                [*own, *strangers], own, situation.losses, temperature=rule.temperature, explore=rule.explore
            )
        learned = roots_that_learned(situation.view, situation.settings.task_key)
        settings = situation.cycle.child
        if settings.shared is None:
            settings = settings.model_copy(update={"shared": int(bool(learned))})
        if learned or settings.data == "generation" or not moves(space):
            settings = settings.model_copy(update={"unshifted": 0})
        if learned or not any(_is_trained(situation.known[one], situation.view) for one in strangers):
            settings = settings.model_copy(update={"from_scratch": 0})
        planned = len(settings.firsts)
        earlier = len(situation.history()) if planned else 0
        first = max(0, planned - earlier)
        # What is shared is theirs: all of a root that has learned the task, else of the path whose probe is best.
        # A child from scratch has only values of theirs, none that training has changed.
        of_others = {
            place: learned if learned and begins == "shared" else strangers
            for place in range(count)
            if (begins := settings.begins(earlier + place)) in ("shared", "from_scratch", "adapted")
        }
        chosen, _ = select_parents(
            situation.population, strangers, generators, rule, weights=weights, best=first, of_others=of_others
        )
        shared = self._shared(situation, space, draw)
        return [
            self._child(situation, selection, space, settings, shared, draw(place, "child"), earlier + place)
            for place, selection in enumerate(chosen)
        ]

    # Inside

    def _child(
        self,
        situation: GenerationContext,
        selection: ParentChoice,
        space: Hyperparameters,
        settings: ChildSettings,
        shared: SharedData | None,
        rng: Any,
        earlier: int,
    ) -> Child:
        assert selection.parent is not None, "these agents always have a parent"
        parent, agent = situation.known[selection.parent], situation.agent.name
        others, family = situation.view.others(agent), self.family
        base = structure_of(parent.path)
        inherited = parent.path if selection.own else with_own_movement(parent.path, space)
        begins = settings.begins(earlier)
        if begins == "unshifted":
            inherited = inherited.model_copy(update={"hparams": {**inherited.hparams, SHIFT: 0.0}})
        drawn = set() if family.shares_untrained else _random_roots(situation.view)

        def untrained(component: str) -> bool:
            return component.partition(":")[0] in drawn

        if begins == "adapted" and not any(untrained(part.id) for part in parent.components):
            base = family.adapted_structure(base, settings.adapter_width) or base

        def needs(values: Mapping[str, Value]) -> list[Place]:
            return places(family, child_structure(family, base, values, situation.settings))

        # Where nothing at all is taken of others, a head is not either.
        takes = EVERY not in settings.components.head
        head = head_that_learned(parent, situation.view, situation.settings) if takes else []
        rule = settings.of_child(earlier, learned=bool(head))
        plan = plan_child(
            inherited,
            [*filled(parent), *head],
            own=selection.own,
            needs=needs,
            locked=others.__contains__,
            space=space,
            settings=rule,
            rng=rng,
            ancestors=[filled(path) for path in situation.ancestors(parent.id)],
            shared=shared,
            untrained=untrained,
            learned=[place.id for place in head if place.id is not None],
        )
        structure = child_structure(family, base, plan.hparams, situation.settings)
        parts = parts_of(plan, family.parameters(structure))
        price = price_of(parts, family.flops(structure), situation)
        score = {path.id: path.score for path in situation.population}.get(parent.id)
        return Child(
            self._kind,
            structure.model_dump(mode="json"),
            plan.hparams,
            plan.mu,
            parts,
            parent.id,
            selection.how == "population",
            bar(score, counts=selection.own),
            price.flops,
            price.factor,
            price.accounted,
            story={
                **({} if begins is None else {"begins": begins}),
                "selection": asdict(selection),
                "plan": plan.to_json(),
                "population": [asdict(path) for path in situation.population],
            },
        )

    def _root(self, situation: GenerationContext, options: SinglepathOptions, space: Hyperparameters) -> Child:
        together = [one.model_dump(mode="json") for one in options.together]
        parent = None if options.begins is None else situation.view.offers[options.begins]
        if parent is None:
            values = self._root_values(options, space)
            structure = self._structure(options, values, situation.settings)
            sources: Mapping[str, str] = {}
        else:
            values = space.complete(parent.path.hparams)
            structure = child_structure(self.family, structure_of(parent.path), values, situation.settings)
            sources = {part.role: part.id for part in parent.components}
        sizes, how = self.family.parameters(structure), "new" if parent is None else "clone"
        parts = tuple(ChildComponent(role, sources.get(role), True, sizes[role], how) for role in structure.roles)
        for number, one in enumerate(options.together):
            size = self.family.parameters(structure.changed(classes=one.classes))[HEAD]
            parts += (ChildComponent(f"{TASK_HEAD}{number}", None, True, size, "new"),)
        price = price_of(parts, self.family.flops(structure), situation)
        trained = options.root == "pretrain"
        made = {} if trained else {"root": options.root, "checkpoint": options.checkpoint}
        return Child(
            self._kind,
            structure.model_dump(mode="json"),
            values,
            space.default_mu(),
            parts,
            None if parent is None else parent.id,
            False,
            None,
            price.flops,
            price.factor,
            price.accounted,
            story={"root": options.root, **({"tasks": [one.name for one in options.together]} if together else {})},
            payload={"together": together} if together else made,
            entry="path_joint" if together else "path" if trained else "path_root",
            always=not trained,
        )

    def _shared(self, situation: GenerationContext, space: Hyperparameters, draw: Draw) -> SharedData | None:
        child = situation.cycle.child
        if child.data == "child":
            return None
        best = situation.known[situation.population[0].id].path if situation.population else None
        return shared_data(space, best, draw("generation", "data"), child.mutation)

    def _space(self, options: SinglepathOptions) -> Hyperparameters:
        space = self.family.hyperparameters(self._size, options.version)
        for key, row in options.hyperparameters.items():
            space = space.with_row(validate(Hyperparameter, {"key": key, **row}, what=f"hyperparameter {key}"))
        return space

    def _root_values(self, options: SinglepathOptions, space: Hyperparameters) -> dict[str, Value]:
        values = space.defaults()
        if options.checkpoint is not None:
            structure = self.family.checkpoint(options.checkpoint).model_dump(mode="json")
            layers = structure[self.family.fields[NUM_LAYERS]]
            space.by_key[NUM_LAYERS].index(layers)  # a checkpoint may be too deep for the class
            values[NUM_LAYERS] = layers
        return values

    def _structure(
        self, options: SinglepathOptions, values: Mapping[str, Value], settings: AgentSettings
    ) -> PathStructure:
        family = self.family
        base = family.presets[self._preset] if options.checkpoint is None else family.checkpoint(options.checkpoint)
        plain = {**base.model_dump(mode="json"), **options.structure}
        checked = family.structure(plain, f"structure of a root of {self.name}")
        return child_structure(family, checked, values, settings)


def child_structure(
    family: SinglepathKind,
    base: PathStructure,
    values: Mapping[str, Value],
    settings: AgentSettings,
) -> PathStructure:
    """The structure of a child: its parent's, changed by its own values and task."""
    changed: PathStructure = family.of_task(base, settings)
    return changed.changed(**_structure_fields(family, values), classes=settings.classes)


def places(family: SinglepathKind, structure: PathStructure) -> list[Place]:
    """The places of a path, to be filled."""
    return [
        Place(role, canonical.dumps(structure.signature(role)), resizable=family.resizable(structure, role))
        for role in structure.roles
    ]


def filled(known: PublishedPath) -> list[Place]:
    """The places of a path with what fills them."""
    ids = {part.role: part.id for part in known.components}
    family = KINDS.get(known.path.kind).single()
    own = places(family, structure_of(known.path))
    return [replace(place, id=ids[place.role]) for place in own if place.role in ids]


def parts_of(plan: ChildPlan, sizes: Mapping[str, int]) -> tuple[ChildComponent, ...]:
    """The components of a planned child; ``sizes``: role -> parameters."""
    return tuple(
        ChildComponent(part.role, part.source, part.trained, sizes[part.role], part.fate) for part in plan.components
    )


def price_of(parts: Sequence[ChildComponent], flops: float, situation: GenerationContext) -> PathCost:
    """The accounted cost of a child: shared components in part, its own ones whole; ``flops`` are those of a sample."""
    shared = [(part.source, part.parameters) for part in parts if not part.train and part.source is not None]
    accounted = accounted_parameters(shared, situation.view.locks, situation.agent.name)
    accounted += sum(part.parameters for part in parts if part.train)
    return cost(accounted, flops, situation.cycle.score, situation.root)


def moves(space: Hyperparameters) -> bool:
    """Whether an agent moves its training images, and may leave it."""
    shift = space.by_key.get(SHIFT)
    return shift is not None and bool(shift.default) and 0.0 in shift.values


def with_own_movement(path: Path, space: Hyperparameters) -> Path:
    """A path of another agent as a parent, with the movement of training images that this one begins with: it follows
    from the number of samples of its task."""
    if SHIFT not in space.by_key:
        return path
    return path.model_copy(update={"hparams": {**path.hparams, SHIFT: space.by_key[SHIFT].default}})


def roots_that_learned(view: SystemView, task_key: str | None) -> list[str]:
    """Ids of the joint root that has learned the samples with this key, the last one; empty without any."""
    names = [name for name, row in view.agents.items() if has_learned(row, task_key)]
    return [view.offers[name].id for name in names[-1:]]


def head_that_learned(parent: PublishedPath, view: SystemView, settings: AgentSettings) -> list[Place]:
    """The head of a joint root for an agent's task, as a place of a parent that is this root; else empty.

    Roots that were trained before heads were kept have none.
    """
    row = view.agents.get(parent.path.agent)
    if row is None or not has_learned(row, settings.task_key):
        return []
    keys = [task["task_key"] for task in row.settings["options"]["together"]]
    head = parent.component(f"{TASK_HEAD}{keys.index(settings.task_key)}")
    if head is None:
        return []
    signature = structure_of(parent.path).changed(classes=settings.classes).signature(HEAD)
    return [Place(HEAD, canonical.dumps(signature), head.id)]


def _is_trained(path: PublishedPath, view: SystemView) -> bool:
    """Whether somebody has trained a component of a path."""
    drawn = _random_roots(view)
    return any(part.id.partition(":")[0] not in drawn for part in path.components)


def _random_roots(view: SystemView) -> set[str]:
    """Names of roots that nobody has trained."""
    return {name for name, row in view.agents.items() if row.settings.get("options", {}).get("root") == "random_init"}


def _structure_fields(family: SinglepathKind, values: Mapping[str, Value]) -> dict[str, Value]:
    return {field: values[key] for key, field in family.fields.items() if key in values}


def _options(settings: AgentSettings) -> SinglepathOptions:
    return validate(SinglepathOptions, settings.options, what="options of the agent")


VIT = Singlepath("Vit", "L", "l")
VIT_B = Singlepath("VitB", "B", "b")
VIT_T3 = Singlepath("VitT3", "Ti3", "ti3")
VIT_TINY = Singlepath("VitTiny", "tiny", "tiny")
