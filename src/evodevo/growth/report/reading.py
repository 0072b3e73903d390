"""From what an evaluation recorded of a growth to objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from evodevo.growth.around.after import surrounded
from evodevo.growth.edit_spec import Edit
from evodevo.growth.growable import GROWABLES, Growable
from evodevo.growth.report.data import (
    GIVES_PLACE,
    MEASURES,
    GrowthHistory,
    Happening,
    Life,
    Sight,
    modules_after,
)
from evodevo.module_zoo.modules.spec import ModuleGenotype, ZooModule
from evodevo.networks.spec import NetworkSpec
from evodevo.settings import validate
from evodevo.storage.base import as_written

if TYPE_CHECKING:
    from evodevo.runs.archive import Individual


def growth_of(individual: Individual) -> GrowthHistory | None:
    """The growth that was recorded, of a training that has not ended as far as it came; None where nothing grew.

    Raises:
        StoreDamagedError: a record of another shape.
        UsageError: edits of another evodevo.
    """
    what = f"individual {individual.id}"
    with as_written(what, "a growth"):
        record = individual.fact.get("growth") or _so_far(individual)
        if record is None:
            return None
        stored = list(record["edits"])
    edits = [validate(Edit, edit, what="a recorded edit") for edit in stored]
    with as_written(what, "a growth"):
        return _history(individual, record, edits)


def _history(individual: Individual, record: Mapping[str, Any], edits: Sequence[Edit]) -> GrowthHistory:
    facts = individual.fact
    steps = float(facts.get("steps") or max((entry["step"] for entry in record["timeline"]), default=1))
    events, probed = _events(record, edits), _probed(record, steps)
    named = {entry["id"]: str(entry["archetype"]) for entry in record.get("start", ())}
    start = {module.id: module for module in started(individual)}
    first = named or {name: module.genotype.archetype for name, module in start.items()}
    # In a record without its start, modules are those that a probe or an edit named.
    seen = (row["id"] for entry in record["timeline"][:1] for row in entry["modules"])
    first = first or dict.fromkeys(seen, "")
    genotypes = {name: module.genotype for name, module in start.items()}
    return GrowthHistory(
        strategist=str(record.get("strategist") or individual.genome.options.get("strategist", "")),
        events=events,
        lives=_lives(first, genotypes, events, _sights(probed)),
        steps=steps,
        decisions=int(record.get("decisions", 0)),
        differing=tuple(record.get("differing", ())),
        overhead=record.get("overhead") or {},
        probes=tuple(
            (float(point["step"]), float(point["value"])) for point in probed if point.get("value") is not None
        ),
        race=record.get("race"),
        forks=record.get("forks"),
        caps=record.get("caps"),
        shift=record.get("shift"),
        policy=record.get("policy"),
        foresight=record.get("foresight"),
    )


def started(individual: Individual) -> tuple[ZooModule, ...]:
    """The modules with which the network of a training is planned; none of a network that cannot grow.

    A race may have left some of them.
    """
    network = individual.genome.network
    return GROWABLES.get(network.kind).of(network.structure).modules if network.kind in GROWABLES else ()


def grown_network(individual: Individual) -> NetworkSpec:
    """The network of a training as it is kept: with the modules that growth has left, where it grew.

    Raises:
        StoreDamagedError: a record of another shape.
        UsageError: edits of another evodevo.
    """
    network: NetworkSpec = individual.genome.network
    growth = growth_of(individual)
    if growth is None or not (growth.accepted or growth.race):
        return network
    pool = GROWABLES.get(network.kind).of(network.structure)
    if growth.race:
        pool = pool.with_modules(tuple(module for module in pool.modules if module.id in growth.begun))
    pool = pool.with_modules(_kept(individual, growth, pool))
    structure = surrounded(pool, growth.accepted).structure
    return network.model_copy(update={"structure": structure})


def _kept(individual: Individual, growth: GrowthHistory, pool: Growable) -> tuple[ZooModule, ...]:
    """The modules that the router was measured on: weights that were best in the middle are of the network of then."""
    measured = set(individual.fact.get("routing", {}).get("ids", ()))
    stages = [
        modules_after(pool.modules, [edit for edit in growth.edits if edit.event <= number])
        for number in range(len(growth.events), -1, -1)
    ]
    fitting = (modules for modules in stages if {module.id for module in modules} - set(pool.disabled) == measured)
    return next(fitting, stages[0])


def _so_far(individual: Individual) -> dict[str, Any] | None:
    """Record of an unfinished evaluation's growth, from the events of the run; None where there are none."""
    if getattr(individual.genome, "procedure", None) != "grow":
        return None
    payloads = [
        event.payload for event in individual.run.events() if (event.type, event.subject) == ("growth", individual.id)
    ]
    # Of an event that came again after an interruption the last record holds.
    events = {payload["event"]["number"]: payload["event"] for payload in payloads if "event" in payload}
    rewards = {payload["reward"]["number"]: payload["reward"] for payload in payloads if "reward" in payload}
    raced: dict[str, Any] = next((payload for payload in reversed(payloads) if "race" in payload), {})
    planned: dict[str, Any] = next((payload for payload in reversed(payloads) if "forks" in payload), {})
    if not events and not raced:
        return None
    start = [{"id": one["id"], "archetype": one["genotype"]["archetype"]} for one in raced.get("start", ())]
    decisions = [decision for event in events.values() for decision in event["decisions"]]
    return {
        "edits": [edit for event in events.values() for edit in event["edits"]],
        "timeline": [{**event, "event": number} for number, event in events.items()],
        "rewards": [{**reward, "total": sum(reward["terms"].values())} for reward in rewards.values()],
        "decisions": len(decisions),
        "start": start,
        "race": raced.get("race"),
        "forks": {**planned["forks"], "tried": _forked(events)} if planned else None,
    }


def _forked(events: Mapping[int, Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{"event": number, **event["fork"]} for number, event in events.items() if "fork" in event]


def _events(record: Mapping[str, Any], edits: Sequence[Edit]) -> tuple[Happening, ...]:
    of_event: dict[int, list[Edit]] = {}
    for edit in edits:
        of_event.setdefault(edit.event, []).append(edit)
    rewards = {reward["number"]: reward for reward in record.get("rewards", ())}
    return tuple(
        Happening(
            number=entry["event"],
            step=float(entry["step"]),
            share=float(entry["share"]),
            value=entry["value"],
            loss=entry["loss"],
            edits=tuple(of_event.get(entry["event"], ())),
            reward=rewards.get(entry["event"], {}).get("total"),
            terms=rewards.get(entry["event"], {}).get("terms", {}),
        )
        for entry in record["timeline"]
    )


def _probed(record: Mapping[str, Any], steps: float) -> list[Mapping[str, Any]]:
    """Events, probes between them and the end, in order of time."""
    end = record.get("end")
    entries = [*record["timeline"], *record.get("looks", ()), *([] if end is None else [{"step": steps, **end}])]
    return sorted(entries, key=lambda entry: float(entry["step"]))


def _sights(entries: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Sight, ...]]:
    """Module -> what probes saw, in order of time."""
    by_module: dict[str, list[Sight]] = {}
    for entry in entries:
        for row in entry["modules"]:
            values = {name: float(row[name]) for name in MEASURES if row.get(name) is not None}
            sight = Sight(float(entry["step"]), entry.get("share"), entry.get("event"), values)
            by_module.setdefault(row["id"], []).append(sight)
    return {name: tuple(sights) for name, sights in by_module.items()}


def _lives(
    first: Mapping[str, str],
    genotypes: Mapping[str, ModuleGenotype],
    events: Sequence[Happening],
    sights: Mapping[str, tuple[Sight, ...]],
) -> tuple[Life, ...]:
    ends = {
        edit.module: (event, edit.note)
        for event in events
        for edit in event.edits
        if edit.action.operation == "prune" and edit.module is not None
    }
    lives = [Life(name, kind, genotypes.get(name), sights=sights.get(name, ())) for name, kind in first.items()]
    lives += [
        Life(
            edit.module,
            edit.after.archetype,
            edit.after,
            edit.action.operation,
            edit.parents,
            event.number,
            event.step,
            sights=sights.get(edit.module, ()),
            note=edit.note,
        )
        for event in events
        for edit in event.edits
        if edit.born and edit.module is not None and edit.after is not None
    ]
    enlarged: dict[str, list[tuple[float, str]]] = {}
    for event in events:
        for edit in event.edits:
            if edit.enlarged and edit.module is not None:
                enlarged.setdefault(edit.module, []).append((event.step, edit.action.operation))
    lives = [replace(life, enlarged=tuple(enlarged.get(life.id, ()))) for life in lives]
    return tuple(_ended(life, *ends[life.id]) if life.id in ends else life for life in lives)


def _ended(life: Life, event: Happening, note: str) -> Life:
    heir = note.removeprefix(GIVES_PLACE).split(";")[0] if note.startswith(GIVES_PLACE) else ""
    return replace(life, gone=event.number, gone_step=event.step, heir=heir)
