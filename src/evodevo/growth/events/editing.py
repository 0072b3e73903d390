"""The edits of one event: who leaves is taught to the others before, and whoever is gone is kept in the bank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from evodevo.growth.caps.smaller import needed
from evodevo.growth.edit_spec import Edit
from evodevo.growth.edits import Editor
from evodevo.growth.events.records import BankedModule, GrowthMemory
from evodevo.growth.events.surroundings import Surroundings
from evodevo.growth.flops import Prices
from evodevo.growth.growable import GrowingNetwork
from evodevo.growth.legality import over_caps, refusal
from evodevo.growth.spec import GrowthSettings
from evodevo.growth.strategists.transition import Decision
from evodevo.growth.zoo.bank import ModuleBank
from evodevo.module_zoo.modules.spec import ModuleGenotype
from evodevo.randomness import integer_seed


@dataclass
class EventEdits:
    """The edits of a network at one event.

    Attributes:
        number: Number of the event.
        zoo: The network, changed in place.
        settings: Settings of the growth, with the caps in force.
        around: Task, samples and stores.
        seed: Seed of the run.
        bank: Removed modules, those of earlier events included.
        distil_steps: Distillation steps before a module is removed.
        distilled: Steps that each distillation took.
    """

    number: int
    zoo: GrowingNetwork
    settings: GrowthSettings
    around: Surroundings
    seed: int
    bank: ModuleBank
    distil_steps: int
    distilled: list[int] = field(default_factory=list)

    def editor(self, planned: Mapping[str, ModuleGenotype] | None = None) -> Editor:
        """Applies actions to the network.

        Args:
            planned: Genotype of a fresh module by family; of other families one is drawn. None for none.
        """
        zoo, task, caps = self.zoo, self.around.task, self.settings.caps
        return Editor(
            zoo,
            self.settings,
            self.seed,
            self.around.blobs,
            lambda child, gone: refusal(zoo.structure, child, task, caps, gone),
            self._teach,
            self.bank,
            lambda changed: over_caps(changed, task, caps),
            lambda name: needed(zoo.structure, task, caps).get(name),
            planned or {},
        )

    def decided(
        self, decisions: Sequence[Decision], fitness: Mapping[str, float], replaces: str | None
    ) -> tuple[tuple[Edit, ...], dict[int, ModuleGenotype]]:
        """Apply the decisions of a strategist.

        Args:
            decisions: The decisions; ``noop`` changes nothing.
            fitness: Fitness by module id.
            replaces: Id of the module that a newborn replaces where the network is full; None for none.

        Returns:
            The edits, and the genotypes of newborns by the index of their decision.
        """
        zoo, editor = self.zoo, self.editor()
        edits: list[Edit] = []
        children: dict[int, ModuleGenotype] = {}
        for place, decision in enumerate(decisions):
            if decision.action.operation == "noop":
                continue
            full = len(zoo.structure.live) >= self.settings.birth.most
            made = editor.apply(
                decision.action,
                event=self.number,
                order=len(edits),
                fitness=fitness,
                replaces=replaces if full and replaces in zoo.live else None,
            )
            edits += made
            children.update((place, edit.after) for edit in made if edit.after is not None)
        return tuple(edits), children

    def flops(self, prices: Prices) -> float:
        """FLOPs of the distillations, by the prices of the network before the edits."""
        each = sum(prices.distillation(self.distil_steps, steps) for steps in self.distilled)
        return self.around.batch_size * each

    def _teach(self, name: str) -> str:
        """Distil a module into the others before it is removed; weights are restored where that fails."""
        settings, around = self.settings.prune, self.around
        if not self.distil_steps:
            return "" if not settings.distil_steps else "not distilled: that would cost too much here"
        before = {key: value.clone() for key, value in self.zoo.network.state_dict().items()}
        done = self.zoo.distil(
            name,
            around.distillation_batch,
            self.distil_steps,
            tolerance=settings.distil_tolerance,
            batch_size=around.batch_size,
            seed=integer_seed(self.seed, self.number, f"distillation of {name}"),
            precision=around.precision,
        )
        self.distilled.append(done.steps)
        if done.state != "finished":
            self.zoo.network.load_state_dict(before)
            return f"the others could not learn from it: {done.state}"
        return f"distilled in {done.steps} steps, from {done.before:.3g} to {done.after:.3g}"


@dataclass(frozen=True)
class Editing:
    """What the edits of all events of a run have in common.

    Attributes:
        settings: Settings of the growth.
        around: Task, samples and stores.
        seed: Seed of the run.
    """

    settings: GrowthSettings
    around: Surroundings
    seed: int

    def in_force(self, memory: GrowthMemory) -> GrowthSettings:
        """The settings with the caps in force now, and the falls that are still to come."""
        return self.settings.model_copy(update={"caps": self.settings.caps.after(memory.falls)})

    def distil_steps(self, memory: GrowthMemory) -> int:
        """Distillation steps before a module is removed."""
        return self.settings.prune.distil_steps if memory.portions is None else memory.portions.distil_steps

    def begin(self, number: int, zoo: GrowingNetwork, memory: GrowthMemory) -> EventEdits:
        """The edits of an event, none of which is made yet."""
        bank = ModuleBank(self.settings.prune.bank)
        for entry in memory.bank:
            bank.keep(entry.name, entry.genotype, self.around.tensors(entry.digest), entry.digest)
        settings, steps = self.in_force(memory), self.distil_steps(memory)
        return EventEdits(number, zoo, settings, self.around, self.seed, bank, steps)


def with_edits(memory: GrowthMemory, edits: Sequence[Edit], bank: ModuleBank) -> GrowthMemory:
    """The memory with the bank, and with the digests of all blobs that the log names so far."""
    parents = {source.digest for edit in edits for source in edit.tensors if source.digest is not None}
    banked = tuple(
        BankedModule(name=entry.name, genotype=entry.genotype, digest=entry.digest or "") for entry in bank.entries
    )
    return memory.model_copy(update={"bank": banked, "blobs": tuple(sorted({*memory.blobs, *parents}))})
