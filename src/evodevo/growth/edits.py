"""Applying edits: an action becomes one structural change of a network, and a record that can repeat it.

Source: docs/spec/architect_thyself.md#edit-log.

A newborn contributes nothing at first: its birth factor is 0, its learning rate small. One that replaces a module by
itself (``replace``) has the place of that one at once. What is drawn for it comes from (run seed, event, order) alone,
and what it inherits from blobs that the record names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from evodevo.errors import DataError, UsageError
from evodevo.growth.around.base import AROUND
from evodevo.growth.edit_spec import NETWORK, Action, Edit
from evodevo.growth.growable import Growable, GrowingNetwork
from evodevo.growth.in_place.base import EDITS
from evodevo.growth.in_place.weights import answers_alike, enlarge, rebuilt
from evodevo.growth.spec import REPLACE, BirthSettings, GrowthSettings
from evodevo.growth.strategists.state import BIRTHS
from evodevo.growth.zoo.bank import ModuleBank, start_from
from evodevo.growth.zoo.birth import ModuleParent, Origin, inherit, rebuild, same_nodes
from evodevo.growth.zoo.splice import splice
from evodevo.module_zoo.modules.attributes import SIGMA
from evodevo.module_zoo.modules.build import build_module
from evodevo.module_zoo.modules.cost import genotype_parameters
from evodevo.module_zoo.modules.spec import ModuleGenotype, ZooModule
from evodevo.module_zoo.modules.zoo import mutate, sample, with_lineage
from evodevo.networks.base import Network
from evodevo.operators.base import Operator
from evodevo.randomness import generator, integer_seed
from evodevo.storage.blobs import BlobPool
from evodevo.training.parts import part_digest, read_tensors, save_part

Refuses = Callable[[ModuleGenotype, str | None], str | None]
"""(exact child, id of the module that it replaces) -> why it may not be born; None where it may."""
Leave = Callable[[str], str]
"""Called with the id of a module before it is removed, to distil it into the others; returns a note on the result."""


@dataclass
class Editor:
    """Applies actions to a network.

    Attributes:
        zoo: Network, changed in place; its optimiser needs the new parameters afterwards.
        settings: Settings of the growth.
        seed: Seed of the run.
        blobs: Pool for the weights of parents and of removed modules.
        refuses: Called with every child before it is born.
        leave: Called before a module is removed; see ``Leave``.
        bank: Bank of removed modules.
        exceeds: Called with the network as it would be after an edit around its modules: why it may not be so, None
            where it may.
        stays: Called with the id of a module that a strategist prunes: why it may not go, None where it may.
        planned: Genotype of a fresh module by family; of other families one is drawn.
    """

    zoo: GrowingNetwork
    settings: GrowthSettings
    seed: int
    blobs: BlobPool
    refuses: Refuses
    leave: Leave
    bank: ModuleBank
    exceeds: Callable[[Growable], str | None] = lambda _: None
    stays: Callable[[str], str | None] = lambda _: None
    planned: Mapping[str, ModuleGenotype] = field(default_factory=dict)

    def apply(
        self, action: Action, *, event: int, order: int, fitness: Mapping[str, float], replaces: str | None = None
    ) -> tuple[Edit, ...]:
        """Apply one action.

        Args:
            action: Any action but ``noop``.
            event: Number of the event, from 1.
            order: Index of the first edit in the event; each edit takes one.
            fitness: Fitness by module id; the fitter of two parents is the first.
            replaces: Id of the module that a newborn replaces; None for none.

        Returns:
            The edits in their order: a birth that replaces a module is two, and so is ``replace``, whose newborn comes
            first. A refused one changes nothing, and its record has no module.
        """
        if action.operation == "prune":
            (name,) = action.modules
            words = self.stays(name)
            if words is not None:
                seed = integer_seed(self.seed, event, order, "edit")
                return (Edit(event=event, order=order, action=action, seed=seed, note=f"refused: {words}"),)
            return (self._prune(action, event, order, ""),)
        if action.operation == "rewarm":
            (name,) = action.modules
            self.zoo.newborn_rates[name] = self.settings.events.warm_rate
            seed = integer_seed(self.seed, event, order, "edit")
            return (Edit(event=event, order=order, action=action, seed=seed, module=name),)
        if action.operation in EDITS:
            return (self._in_place(action, event, order),)
        if action.operation in AROUND:
            return (self._around(action, event, order),)
        if action.operation == REPLACE:
            return self._replace(action, event, order)
        return self._birth(action, event, order, fitness, replaces)

    def _in_place(self, action: Action, event: int, order: int) -> Edit:
        (name,) = action.modules
        row, settings, genotype = EDITS.get(action.operation)(), self.settings.in_place, self._module(name).genotype
        seed = integer_seed(self.seed, event, order, "edit")
        edit = Edit(event=event, order=order, action=action, seed=seed, before={name: genotype})
        try:
            child = with_lineage(row.child(genotype, settings), f"{name}-{event}-{order}")
        except UsageError as error:
            return edit.model_copy(update={"note": f"refused: {error}"})
        refusal = self.refuses(child, name)
        if refusal is not None:
            return edit.model_copy(update={"note": f"refused: {refusal}"})
        state = self._state(name)
        before = ModuleParent(genotype, state, save_part(self.blobs, state))
        made = enlarge(row, name, before, child, settings, seed)
        if not answers_alike(before, child, made.state, seed):
            return edit.model_copy(update={"note": "refused: the module would answer otherwise than before"})
        self.zoo.exchange(name, child, state=made.state, places=made.places)
        return edit.model_copy(
            update={
                "module": name,
                "after": child,
                "tensors": made.tensors,
                "in_place": settings,
                "weights": part_digest(made.state),
                "note": f"{genotype_parameters(genotype):,} to {genotype_parameters(child):,} parameters",
            }
        )

    def _around(self, action: Action, event: int, order: int) -> Edit:
        settings, network = self.settings.around, self.zoo.network
        seed = integer_seed(self.seed, event, order, "edit")
        edit = Edit(event=event, order=order, action=action, seed=seed)
        try:
            refusal = self.exceeds(self.zoo.structure.changed_around(action.operation, settings))
        except UsageError as error:
            refusal = str(error)
        if refusal is not None:
            return edit.model_copy(update={"note": f"refused: {refusal}"})
        before = _parameters(network)
        self.zoo.edit_around(action.operation, settings, seed)
        note = f"{before:,} to {_parameters(network):,} parameters"
        return edit.model_copy(update={"module": NETWORK, "around": settings, "note": note})

    def _replace(self, action: Action, event: int, order: int) -> tuple[Edit, ...]:
        """A fresh module comes in with the statistics of another, which then goes: the network answers otherwise.

        The others are not taught what that one said, as somebody has its place.
        """
        (gone,) = action.modules
        newborn, child = self._born(action, event, order, gone)
        if child is None:
            return (newborn,)
        insert(self.zoo, newborn, child)
        leaving = Action(operation="prune", modules=(gone,))
        return newborn, self._remove(leaving, event, order + 1, f"gives its place to {newborn.module}")

    def at_once(self, action: Action, *, event: int, order: int) -> tuple[Edit, ...]:
        """Apply a ``spawn``, a ``replace`` or a ``prune`` for a reason of another than the strategist.

        Nobody warms up, and nobody is taught: the network answers otherwise from then on. Arguments as for ``apply``.
        """
        if action.operation == REPLACE:
            return self._replace(action, event, order)
        if action.operation == "prune":
            return (self._remove(action, event, order, ""),)
        newborn, child = self._born(action, event, order, None)
        if child is not None:
            insert(self.zoo, newborn, child)
        return (newborn,)

    def let_go(self, name: str, *, event: int, order: int, note: str, taught: bool) -> Edit:
        """Remove a module for a reason of another than the strategist.

        Args:
            name: Id of the module.
            event, order: As for ``apply``.
            note: The reason.
            taught: Whether it is distilled into the others before (``leave``).
        """
        action = Action(operation="prune", modules=(name,))
        return self._prune(action, event, order, note) if taught else self._remove(action, event, order, note)

    def _prune(self, action: Action, event: int, order: int, note: str) -> Edit:
        (name,) = action.modules
        notes = [note, self.leave(name)]
        return self._remove(action, event, order, "; ".join(filter(None, notes)))

    def _remove(self, action: Action, event: int, order: int, note: str) -> Edit:
        (name,) = action.modules
        module = self._module(name)
        state = self._state(name)
        self.bank.keep(name, module.genotype, state, save_part(self.blobs, state))
        self.zoo.remove(name)
        return Edit(
            event=event,
            order=order,
            action=action,
            seed=integer_seed(self.seed, event, order, "edit"),
            module=name,
            before={name: module.genotype},
            note=note,
        )

    def _birth(
        self, action: Action, event: int, order: int, fitness: Mapping[str, float], replaces: str | None
    ) -> tuple[Edit, ...]:
        fitter_first = sorted(action.modules, key=lambda name: -fitness.get(name, 0.0))
        room = order + (replaces is not None)  # the place of the newborn's own edit
        edit, child = self._born(action, event, room, replaces, fitter_first)
        if child is None:
            return (edit.model_copy(update={"order": order}),)
        # Removed only now: a refused birth must change nothing, and the module that leaves may be a parent.
        gone: tuple[Edit, ...] = ()
        if replaces is not None:
            leaving = Action(operation="prune", modules=(replaces,))
            gone = (self._prune(leaving, event, order, f"gives its place to {edit.module}"),)
        assert edit.module is not None, "it was born"
        self.zoo.births[edit.module] = 0.0
        self.zoo.newborn_rates[edit.module] = self.settings.events.warm_rate
        insert(self.zoo, edit, child)
        return (*gone, edit)

    def _born(
        self, action: Action, event: int, order: int, replaces: str | None, parents: Sequence[str] = ()
    ) -> tuple[Edit, Operator | None]:
        """The record of a birth, and the module, which is not in the network yet; None where it was refused.

        Args:
            action, event, order: Action, number of the event, and index of the newborn's own edit.
            replaces: Id of the module that it replaces; None for none.
            parents: Ids of its parents, the fitter first.
        """
        modules = {name: self._module(name) for name in parents}
        before = {name: modules[name].genotype for name in parents}
        seed = integer_seed(self.seed, event, order, "edit")
        edit = Edit(event=event, order=order, action=action, seed=seed, before=before)
        try:
            genotype, origins = self._conceive(action, modules, event, order)
        except UsageError as error:
            return edit.model_copy(update={"note": f"refused: {error}"}), None
        refusal = self.refuses(genotype, replaces)
        if refusal is not None:
            return edit.model_copy(update={"note": f"refused: {refusal}"}), None
        name = f"{genotype.archetype}-{event}-{order}"
        genotype = with_lineage(genotype, name)
        child = build_module(genotype, seed)
        banked, twin = self.bank.find(genotype), False
        if banked is not None:
            tensors, note = start_from(child, banked), f"kept from the bank: {banked.name}"
        else:
            states = {ancestor: self._state(ancestor) for ancestor in before}
            given = {
                ancestor: ModuleParent(before[ancestor], state, save_part(self.blobs, state))
                for ancestor, state in states.items()
            }
            tensors, note = inherit(child, genotype, given, self.settings.birth, origins, seed), ""
            if action.operation == "grow" and self.settings.birth.inheritance == "split":
                (parent,) = action.modules
                # A parent that leaves has no weight to share.
                twin = parent != replaces and _alike(child, given[parent], seed)
        update = {"module": name, "after": genotype, "tensors": tensors, "twin": twin, "note": note}
        return edit.model_copy(update=update), child

    def _conceive(
        self, action: Action, modules: Mapping[str, ZooModule], event: int, order: int
    ) -> tuple[ModuleGenotype, dict[str, Origin]]:
        """The genotype of the newborn, and the origin of each of its nodes in its parents."""
        rng = generator(self.seed, event, order, "genotype")
        if action.operation == "grow":
            (name,) = action.modules
            parent = modules[name].genotype
            child = self._mutant(name, parent, rng, action.scale * self.settings.birth.mutation / SIGMA)
            return child, same_nodes(child, parent, name)
        if action.operation == "hybridise":
            first, second = (modules[name] for name in action.modules)
            hybrid = splice(first, second, rng, self.settings.birth, action.mix)
            return hybrid.child, hybrid.correspondence
        assert action.archetype is not None, "a spawn and a replacement name a family"
        planned = self.planned.get(action.archetype)
        return planned or sample(action.archetype, self.zoo.structure.width, rng), {}

    def _mutant(self, name: str, parent: ModuleGenotype, rng: np.random.Generator, scale: float) -> ModuleGenotype:
        """A child's genotype; for ``split`` the first one that can compute what its parent does, if drawn in time."""
        child = mutate(parent, rng, scale)
        if self.settings.birth.inheritance != "split":
            return child
        own = {name: ModuleParent(parent, self._state(name))}
        for _ in range(TRIES):
            module = build_module(child, 0)
            inherit(module, child, own, self.settings.birth, same_nodes(child, parent, name), 0)
            if _alike(module, own[name], 0):
                break
            child = mutate(parent, rng, scale)
        return child

    def _module(self, name: str) -> ZooModule:
        return next(module for module in self.zoo.structure.modules if module.id == name)

    def _state(self, name: str) -> dict[str, Tensor]:
        """The weights of a module, copied to the CPU."""
        weights = self.zoo.weights(name)
        return {key: value.detach().to("cpu", copy=True).contiguous() for key, value in weights.items()}


def insert(zoo: GrowingNetwork, edit: Edit, child: Operator | None = None) -> None:
    """Insert the newborn of an edit; without ``child`` its weights are drawn from the seed of the edit."""
    assert edit.module is not None
    assert edit.after is not None
    zoo.insert(
        _newborn(edit, edit.after),
        state=None if child is None else child.state_dict(),
        # Who replaces a module begins with its statistics, and shares nothing once that one is gone.
        twin_of=edit.action.modules[0] if edit.twin or edit.action.operation == REPLACE else None,
    )


@torch.no_grad()
def _alike(child: Operator, parent: ModuleParent, seed: int) -> bool:
    """Whether a newborn computes what its parent does: only then does halving the weight of each change nothing."""
    own = build_module(parent.genotype, 0)
    own.load_state_dict(dict(parent.state))
    source = torch.Generator().manual_seed(integer_seed(seed, "alike"))
    x = torch.randn((*LIKENESS_SHAPE, parent.genotype.width), generator=source)
    output, wanted = (module.eval()(x).y for module in (child, own))
    return bool(torch.allclose(output, wanted, rtol=LIKENESS, atol=LIKENESS))


def _parameters(network: Network) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


TRIES = 16
"""Most mutants drawn until one computes what its parent does; those that shrink do not."""
LIKENESS = 1e-4
"""Tolerance of outputs that differ by rounding."""
LIKENESS_SHAPE = (4, 7)
"""Samples and positions of the input on which they are compared."""


def repeat(zoo: GrowingNetwork, edits: Iterable[Edit]) -> None:
    """Give a network the structure that it has after these edits; weights come from elsewhere, such as a checkpoint."""
    for edit in edits:
        if edit.module is None or edit.action.operation == "rewarm":
            continue
        if edit.around is not None:
            zoo.edit_around(edit.action.operation, edit.around, edit.seed)
        elif edit.action.operation == "prune":
            zoo.remove(edit.module)
        elif edit.enlarged and edit.after is not None:
            zoo.exchange(edit.module, edit.after)
        else:
            insert(zoo, edit)


@dataclass(frozen=True)
class Replayed:
    """The result of a replayed log.

    Attributes:
        modules: Modules of the network after all edits, in its order.
        newborns: First weights of every module that was ever born, by id.
        enlarged: Weights right after each edit in place, by event and order.
    """

    modules: tuple[ZooModule, ...]
    newborns: dict[str, dict[str, Tensor]]
    enlarged: dict[tuple[int, int], dict[str, Tensor]] = field(default_factory=dict)


def replay_log(
    start: Sequence[ZooModule], edits: Iterable[Edit], fetch: Callable[[str], bytes], how: BirthSettings
) -> Replayed:
    """Rebuild all genotypes, and the first weights of every newborn, bit for bit.

    Source: docs/spec/architect_thyself.md#edit-log.

    Args:
        start: Modules before the first edit.
        edits: The log, in order.
        fetch: Returns the bytes of the blob with a digest.
        how: Settings of births in that run.

    Raises:
        DataError: The log does not fit the start, itself or the settings.
    """
    modules = {module.id: module for module in start}
    known = {module.id: module.genotype for module in start}
    newborns: dict[str, dict[str, Tensor]] = {}
    enlarged: dict[tuple[int, int], dict[str, Tensor]] = {}

    def weights(digest: str) -> dict[str, Tensor]:
        data = fetch(digest)
        if hashlib.sha256(data).hexdigest() != digest:
            raise DataError(f"the blob {digest[:12]} differs from the log; it was changed.")
        return read_tensors(data, f"the weights {digest[:12]}")

    def check(edit: Edit) -> None:
        for name, genotype in edit.before.items():
            if known.get(name) != genotype:
                raise DataError(f"the log of event {edit.event} describes {name!r} as something that it never was.")

    for edit in edits:
        if edit.module is None or edit.action.operation == "rewarm" or edit.surrounds:
            continue
        if edit.action.operation in (*BIRTHS, REPLACE):
            if edit.after is None or edit.module in modules:
                raise DataError(f"the log lets {edit.module!r} be born twice, or without a genotype.")
            check(edit)
            newborns[edit.module] = rebuild(edit.after, edit.seed, edit.tensors, weights, before=edit.before, how=how)
            modules[edit.module] = _newborn(edit, edit.after)
            known[edit.module] = edit.after
        elif edit.enlarged:
            if edit.module not in modules or edit.after is None or set(edit.before) != {edit.module}:
                raise DataError(f"the log edits {edit.module!r} in place, which is not there.")
            check(edit)
            digest = next((source.digest for source in edit.tensors if source.digest is not None), None)
            if digest is None:
                raise DataError(f"the log of event {edit.event} names no weights of {edit.module!r} before its edit.")
            before = ModuleParent(edit.before[edit.module], weights(digest), digest)
            enlarged[edit.event, edit.order] = rebuilt(edit, before)
            modules[edit.module] = modules[edit.module].model_copy(update={"genotype": edit.after})
            known[edit.module] = edit.after
        elif modules.pop(edit.module, None) is None:
            raise DataError(f"the log takes {edit.module!r} away, which is not there.")
        else:
            check(edit)
    return Replayed(tuple(modules.values()), newborns, enlarged)


def _newborn(edit: Edit, genotype: ModuleGenotype) -> ZooModule:
    assert edit.module is not None
    return ZooModule(id=edit.module, genotype=genotype, seed=edit.seed, parents=edit.parents, birth_event=edit.event)
