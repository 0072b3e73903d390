"""The laws of a class of agents of a multitask system; a test inherits them and names the class.

Nothing is trained (``testing.multitask.paths``), so that a ViT-L has them as fast as a tiny path.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import Any, get_args

import pytest

from evodevo import canonical
from evodevo.errors import UsageError
from evodevo.multitask.agent import AGENTS
from evodevo.multitask.genome import Path
from evodevo.multitask.hyperparameters import Version
from evodevo.multitask.paths.kinds import KINDS, structure_of
from evodevo.multitask.paths.multipath_spec import MultipathStructure, multipath_flops, multipath_parameters
from evodevo.multitask.rules import whole_settings
from evodevo.multitask.schedule import is_root
from evodevo.multitask.settings import AgentSettings, SystemSettings
from evodevo.multitask.stored import agent_settings
from evodevo.multitask.system import System
from evodevo.settings import validate
from evodevo.storage import Store
from evodevo.testing.multitask.paths import PathTrainer, executor_of, small, told

ALL = ("image", "tokens:bytes", "vector:4")
"""Modalities of samples that a path of any kind can read."""
VECTOR: dict[str, Any] = {"name": "row", "modality": "vector", "size": 4}
"""The one of their inputs whose size decides a structure."""
CYCLES = 2
"""Number of cycles of each agent, each of two generations of two children."""
_GROWN: dict[str, tuple[System, dict[str, Any]]] = {}


class AgentTests:
    """Laws of one class.

    Attributes:
        kind: a row of ``AGENTS``.
        roots: the class that makes its roots; None = itself.
        companions: classes whose agents it builds on, each of which works on every task.
    """

    kind: str
    roots: str | None = None
    companions: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ("a", "b")

    def grown(self, workers: int = 1, *, seed: int = 5, cycles: int = CYCLES, stops: int | None = None) -> System:
        """A system in which the class has run.

        Args:
            workers: number of workers, whose results come back in any order.
            seed: seed of the system.
            cycles: number of cycles of each agent.
            stops: number of children after which the run is stopped and resumed.
        """
        store = Store.memory()
        system = System.create(store, "laws", seed=seed, settings=SystemSettings(cycle=small(4, 2)))
        self.add_root(system)
        for task in self.tasks:
            for kind in (*self.companions, self.kind):
                system.add_agent(kind, task, AgentSettings(classes=3, modalities=ALL, inputs=(VECTOR,)))
        agents = [agent for agent in system.agents() if not is_root(agent)]
        if stops is not None:
            left = [stops]

            def count(kind: str, facts: dict[str, Any]) -> None:
                left[0] -= kind == "child"
                if left[0] == 0:
                    watched.stop()

            watched = System(store, system.row, listener=count)
            assert watched.run(agents, cycles, executor_of(PathTrainer(store), workers)).state == "interrupted"
        system.run(agents, cycles, executor_of(PathTrainer(store), workers))
        return system

    def add_root(self, system: System) -> None:
        """The path from which agents of the class begin."""
        system.add_root(self.roots or self.kind, "random_init", AgentSettings(classes=0))

    @property
    def system(self) -> System:
        """One, for laws that only look; tests of one class share it and what it tells."""
        if self.kind not in _GROWN:
            system = self.grown()
            _GROWN[self.kind] = system, told(system)
        return _GROWN[self.kind][0]

    @property
    def told(self) -> dict[str, Any]:
        """What ``system`` tells."""
        assert self.system
        return _GROWN[self.kind][1]

    @cached_property
    def children(self) -> dict[str, dict[str, Any]]:
        """Name -> child of an agent of the class."""
        own = {f"{self.kind}~{task}" for task in self.tasks}
        return {name: child for name, child in self.told.items() if name.rpartition("/")[0] in own}

    def test_its_children_follow_from_the_seed_alone(self) -> None:
        """Not from the number of workers, the order of results, or who stopped it; another seed makes others."""
        again = self.grown(workers=3, stops=9)
        assert self.told == told(again)
        other = told(self.grown(seed=6, cycles=1))
        mine = {name: one["genome"]["genes"]["hparams"] for name, one in self.children.items() if name in other}
        assert mine != {name: other[name]["genome"]["genes"]["hparams"] for name in mine}

    def test_each_generation_is_full_and_each_child_is_whole(self) -> None:
        assert len(self.children) == 4 * CYCLES * len(self.tasks)
        for child in self.children.values():
            parts = child["details"]["parts"]
            roles = [part["role"] for part in parts]
            assert len(set(roles)) == len(roles)
            assert [part["id"] for part in parts] == [use["id"] for use in child["genome"]["genes"]["components"]]
            assert all(part["parameters"] >= 0 for part in parts)
            assert any(part["train"] for part in parts), "a child in which nothing learns is its parent"
            assert 0 < child["details"]["factor"] <= 1

    def test_what_is_trained_is_new_and_what_is_shared_is_locked_by_others(self) -> None:
        cycles = {(agent, number): view for agent, number, _, view, _ in self.told["cycles"]}
        seen: set[str] = set()
        for name, child in self.children.items():
            agent = name.rpartition("/")[0]
            number = next(n for n in range(CYCLES) if name in self._of_cycle(agent, n))
            others = self.system.view(cycles[agent, number]).others(agent)
            for part in child["details"]["parts"]:
                if part["train"]:
                    assert part["id"].startswith(f"{agent}:")
                    assert part["id"] not in seen
                    seen.add(part["id"])
                else:
                    assert part["id"] in others, "what only its agent has could be trained, so it is copied"

    def test_numbers_are_given_once_and_in_order(self) -> None:
        for task in self.tasks:
            own = [child for name, child in self.children.items() if name.startswith(f"{self.kind}~{task}/")]
            numbers = sorted(child["genome"]["genes"]["number"] for child in own)
            assert numbers == list(range(len(own)))
            made = [
                int(part["id"].rpartition(":")[2])
                for child in sorted(own, key=lambda child: int(child["genome"]["genes"]["number"]))
                for part in child["details"]["parts"]
                if part["train"]
            ]
            assert made == list(range(len(made)))

    def test_what_is_stated_is_counted(self) -> None:
        """Parameters of each part and work of a sample are those of its family; a path inside another counts, too."""
        for child in self.children.values():
            details, path = child["details"], validate(Path, child["genome"]["genes"], what="a path")
            parts = {part["role"]: part["parameters"] for part in details["parts"]}
            assert details["parameters"] == sum(parts.values())
            assert details["trainable"] == sum(part["parameters"] for part in details["parts"] if part["train"])
            assert 0 < details["accounted"] <= details["parameters"]
            inside = [self.system.library.by_number(sub.agent, sub.number).path for sub in path.paths]
            if inside:
                structure = validate(MultipathStructure, path.structure, what="structure")
                widths = [structure_of(sub).width for sub in inside[1:]]
                assert parts == multipath_parameters(structure, path.classes, widths)
                flops = multipath_flops(structure, path.classes, widths) + _flops(inside[0])
                flops += sum(_flops(sub, headless=True) for sub in inside[1:])
            else:
                assert parts == KINDS.get(path.kind).single().parameters(structure_of(path))
                flops = _flops(path)
            assert details["flops"] == pytest.approx(flops)

    def test_a_genome_survives_storage_and_says_what_it_builds_on(self) -> None:
        kind = AGENTS.get(self.kind)
        for name, child in self.children.items():
            genes = child["genome"]["genes"]
            path = validate(Path, canonical.loads(canonical.dumps(genes)), what="a path")
            assert path.model_dump(mode="json") == genes
            assert path.id == name
            agents = {parent.rpartition("/")[0] for parent in child["parents"]} - {path.agent}
            assert all(kind.reads(self.system.agent(agent)) for agent in agents)

    def test_options_that_it_does_not_know_are_refused(self) -> None:
        system = System.create(Store.memory(), "bare", settings=SystemSettings(cycle=small(2, 2)))
        with pytest.raises(UsageError, match="nonsense"):
            system.add_agent(
                self.kind, "a", AgentSettings(classes=3, modalities=ALL, inputs=(VECTOR,), options={"nonsense": 1})
            )
        assert not system.agents()

    def test_a_published_version_is_recorded_whole(self) -> None:
        kind = AGENTS.get(self.kind)
        for version in get_args(Version):
            if kind.published(version) is None:
                continue
            system = System.create(Store.memory(), "bare", settings=SystemSettings(version=version))
            row = system.add_agent(self.kind, "a", AgentSettings(classes=3, modalities=ALL, inputs=(VECTOR,)))
            settings = agent_settings(row)
            assert settings.cycle is not None
            assert settings.options.get("version", "paper") == version
            assert whole_settings(kind, SystemSettings(), settings) == settings, "nothing is left open"

    def test_values_and_rates_stay_in_their_lists(self) -> None:
        tuned: dict[str, set[Any]] = defaultdict(set)
        for child in self.children.values():
            genes = child["genome"]["genes"]
            assert "_mu_" in genes["mu"]
            assert all(0.0 < rate <= 0.3 for rate in genes["mu"].values())
            for key, value in genes["hparams"].items():
                tuned[key].add(value)
        assert any(len(values) > 1 for values in tuned.values()), "somebody differs from somebody"

    def test_it_says_what_it_lacks(self) -> None:
        system = System.create(Store.memory(), "bare", settings=SystemSettings(cycle=small(2, 2)))
        agent = system.add_agent(self.kind, "a", AgentSettings(classes=3, modalities=ALL, inputs=(VECTOR,)))
        missing = AGENTS.get(self.kind).missing(agent, system.view())
        assert missing is not None
        assert agent.name in missing

    def _of_cycle(self, agent: str, number: int) -> set[str]:
        row = self.system.agent(agent)
        return {f"{agent}/{path.number}" for path in self.system.store.systems.paths(row.id, number)}


def _flops(path: Path, *, headless: bool = False) -> float:
    family = KINDS.get(path.kind).single()
    structure = structure_of(path)
    return family.flops(structure.changed(classes=0) if headless else structure)
