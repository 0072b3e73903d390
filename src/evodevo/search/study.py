"""One search: ask, evaluate, record, tell. Open this file first.

``Study`` drives an algorithm over a space and records everything in a store. It keeps no state that the store does not
have: a resumed study reads what was recorded, tells it to the algorithm again, and goes on where it stopped. In
generational mode the future is then the one that the uninterrupted study would have had, bit for bit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from pydantic import Field

from evodevo import canonical
from evodevo.errors import DiskFullError, EvaluationsFailedError, UsageError
from evodevo.execution.base import Executor
from evodevo.execution.serial import SerialExecutor
from evodevo.randomness import generator, integer_seed
from evodevo.search.base import Algorithm, Proposal, Scored, SpaceExhausted, State, create
from evodevo.search.dispatch import Dispatcher, Finished, Ticket
from evodevo.search.front import feasible_points, front_places, hypervolume, reference_point
from evodevo.search.problem import (
    DISK_FULL,
    INFEASIBLE,
    FunctionProblem,
    Goal,
    Outcome,
    Problem,
    Scores,
    write_numbers,
)
from evodevo.search.record import REPEATABLE, is_final, to_evaluation, to_outcome
from evodevo.search.space import Space
from evodevo.settings import Settings
from evodevo.storage import Lease, NewIndividual, Store, individual_id
from evodevo.storage.failpoints import failpoint

BASELINE = "baseline"
POLL_SECONDS = 0.5
HEARTBEAT_SECONDS = 5.0
Listener = Callable[[str, dict[str, Any]], None]
"""Told what happens: type and JSON-able facts. See ``docs/evolve.md`` for the types."""


class StudySettings(Settings):
    """One search.

    Attributes:
        algorithm: nsga2, genetic, firefly, regularized or random.
        population: individuals that live at a time.
        generations: the first one counts; in steady state, generations times population evaluations are made.
        mode: ``generational`` waits for a whole generation; ``steady`` gives a free worker the next child at once.
        algorithm_settings: further settings of the algorithm.
        seed: of every draw.
        baselines: hand-drawn genomes are evaluated too, before the first generation.
        confirmations: fresh seeds with which the final front and the baselines are evaluated again.
        retries: how often an evaluation is begun again that was killed from outside, alone or with its worker.
        max_failed_share: a larger share of failed evaluations ends the run with an error; None allows any.
    """

    algorithm: str = "nsga2"
    population: int = Field(default=16, ge=2, le=100_000)
    generations: int = Field(default=18, ge=1, le=1_000_000)
    mode: Literal["generational", "steady"] = "generational"
    algorithm_settings: dict[str, int | float | str | bool] = Field(default_factory=dict)
    seed: int = Field(default=0, ge=0, lt=2**63)
    baselines: bool = True
    confirmations: int = Field(default=0, ge=0, le=1000)
    retries: int = Field(default=2, ge=0, le=100)
    max_failed_share: float | None = Field(default=None, ge=0.0, le=1.0)

    def create(self) -> Algorithm:
        """The algorithm with its settings."""
        return create(self.algorithm, {**self.algorithm_settings, "population": self.population})


@dataclass
class Member:
    """One individual in memory.

    Attributes:
        id: in the store.
        birth: unique key in the run, ``generation/slot``, ``event/n`` or ``baseline/name``.
        generation: -1 for baselines.
        genome: the architecture.
        hash: of the genome.
        outcomes: by seed number; 0 is the search's own.
    """

    id: str
    birth: str
    generation: int
    slot: int
    genome: Any
    hash: str
    operation: str
    outcomes: dict[int, Outcome] = field(default_factory=dict)


@dataclass(frozen=True)
class StudyResult:
    """How a study ended.

    Attributes:
        state: finished, or interrupted (resumable).
        run: its id in the store.
        front: the non-dominated members that keep all constraints.
        members: all individuals, in order of birth, baselines included.
        hypervolumes: of the archive after each generation.
        exhausted: the space held no further genome.
    """

    state: Literal["finished", "interrupted"]
    run: str
    front: tuple[Member, ...]
    members: tuple[Member, ...]
    hypervolumes: tuple[float, ...]
    exhausted: bool = False


class Study:
    """A search over a space.

    Args:
        space: of the genomes.
        evaluate: a problem, or a plain function genome -> number(s), which runs in this process.
        goals: what the function's numbers mean: names (all minimised) or ``Goal``; a problem brings its own.
        settings: of the search.
        store: where it is recorded; in memory if left out.
        executor: where evaluations run; in this process if left out. The caller closes what it gives.
        algorithm: instead of the one that the settings name.
        run: id of a recorded run to go on with.
        record: kind, recipe and settings to record with a new run.
        listener: told what happens.

    Raises:
        UsageError: settings that cannot be, or a recorded run of another seed or of other data.
        NotFoundError: no such run in the store.
    """

    def __init__(
        self,
        space: Space[Any],
        evaluate: Problem | Callable[[Any], Scores],
        *,
        goals: Sequence[str | Goal] = ("score",),
        settings: StudySettings | None = None,
        store: Store | None = None,
        executor: Executor | None = None,
        algorithm: Algorithm | None = None,
        run: str | None = None,
        record: Mapping[str, Any] | None = None,
        listener: Listener | None = None,
    ) -> None:
        named = tuple(goal if isinstance(goal, Goal) else Goal(goal) for goal in goals)
        self.problem = evaluate if isinstance(evaluate, Problem) else FunctionProblem(space, evaluate, named)
        self.space = space
        self.settings = settings or StudySettings()
        self.algorithm = algorithm or self.settings.create()
        self.store = store if store is not None else Store.memory()
        self.listener = listener or (lambda kind, facts: None)
        self.members: dict[str, Member] = {}
        executor = executor or SerialExecutor(evaluators=self.problem.local_evaluators())
        self._dispatcher = Dispatcher(self.problem, executor, self.settings.retries)
        self._births: dict[str, str] = {}
        self._originals: dict[str, Member] = {}
        self._hashes: set[str] = set()
        self._attempts: dict[tuple[str, int], int] = {}
        self._stop: Literal["no", "finish", "now"] = "no"
        self._reference: tuple[float, ...] | None = None
        self._hypervolumes: list[float] = []
        self._closed: dict[int, dict[str, Any]] = {}
        self._exhausted: set[int] = set()
        self._described = False
        self._told: list[Member] = []
        self._archive: list[Member] = []
        self._decided: list[Finished] = []
        self._checkpoints: dict[str, str] = {}
        self._noted: dict[tuple[str, Any, str, Any], str] | None = None
        self._beat = 0.0
        self._waited = 0.0
        self._lease: Lease | None = None
        if run is not None:
            self._check(run)
        self.run_id = run or self._create(record or {})

    def _check(self, run: str) -> None:
        """Refuse to go on with a run whose scores would not be comparable with the new ones."""
        seed = self.store.run(run).seed
        if seed != self.settings.seed:
            raise UsageError(f"run {run} was begun with seed {seed}, not {self.settings.seed}; go on with that one.")
        for event in self.store.events(run):
            if event.type == "task" and event.subject != self.problem.fidelity:
                raise UsageError(
                    f"the data or the training are not those of run {run}: its scores hold for {event.subject}, new "
                    f"ones would hold for {self.problem.fidelity}. Restore what was changed, or begin a new run."
                )

    def _create(self, record: Mapping[str, Any]) -> str:
        goals = [{"name": one.name, "unit": one.unit, "direction": one.direction} for one in self.problem.goals]
        own = {"study": self.settings.model_dump(mode="json"), "goals": goals}
        return self.store.create_run(
            kind=record.get("kind", "study"),
            recipe=record.get("recipe", ""),
            settings=record.get("settings", own),
            seed=self.settings.seed,
            space=record.get("space", {"name": self.space.name}),
            versions=record.get("versions", {}),
        )

    # The search

    def run(self) -> StudyResult:
        """Search until the generations are done, or until ``stop``. A study runs once.

        Raises:
            EvaluationsFailedError: none succeeded, or more failed than the settings allow.
            RunOwnedError: another process works on this run.
        """
        if self._lease is not None:
            raise UsageError(f"this study has run already; go on with a new Study(…, run={self.run_id!r}).")
        self._lease = self.store.acquire(self.run_id)
        try:
            if self.store.run(self.run_id).state != "running":
                self.store.finish_run(self.lease, "running")
            self._recall()
            self._describe()
            exhausted = self._search()
            finished = self._stop == "no"
            self.store.add_event(self.lease, "study.time", self.run_id, self._times())
            self.store.finish_run(self.lease, "finished" if finished else "interrupted")
            self.listener("finished", {"run": self.run_id, "state": "finished" if finished else "interrupted"})
        except EvaluationsFailedError:
            self.store.finish_run(self.lease, "failed")
            raise
        finally:
            self._dispatcher.cancel_all()
            self.store.release(self.lease)
        return StudyResult(
            "finished" if finished else "interrupted",
            self.run_id,
            tuple(self.front()),
            tuple(self.members.values()),
            tuple(self._hypervolumes),
            exhausted,
        )

    def stop(self) -> None:
        """End early: at the first call running evaluations are finished, at the second they are dropped."""
        self._stop = "finish" if self._stop == "no" else "now"

    @property
    def lease(self) -> Lease:
        """The right to write, held while ``run`` runs."""
        assert self._lease is not None, "held while running"
        return self._lease

    def _search(self) -> bool:
        self._first_proposal = time.monotonic()
        if self.settings.baselines:
            self._baselines()
        if self.settings.mode == "generational":
            exhausted = self._generations()
        else:
            exhausted = self._steady_state()
        if self._stop == "no":
            self._judge_failures()
            self._confirm()
        self._last_score = time.monotonic()
        return exhausted

    def _baselines(self) -> None:
        self.listener("phase", {"name": "baselines"})
        born = []
        for slot, (name, genome) in enumerate(self.problem.baselines().items()):
            proposal = Proposal(genome, (), BASELINE, {"name": name})
            born.append((f"{BASELINE}/{name}", -1, slot, proposal))
        self._evaluate(self._add(born))

    def _generations(self) -> bool:
        """Ask for a generation, evaluate it, tell it; again. True where the space ran out of genomes."""
        state = self.algorithm.start()
        for generation in range(self.settings.generations):
            members, exhausted = self._generation(state, generation)
            self._evaluate(members)
            if any(0 not in member.outcomes for member in members):
                return False  # stopped
            state = self._tell(state, members)
            self._close_generation(generation, members, state)
            if exhausted or self._stop != "no":
                return exhausted
        return False

    def _generation(self, state: State, generation: int) -> tuple[list[Member], bool]:
        """The members of a generation: those recorded, or new ones."""
        recorded = [member for member in self.members.values() if member.generation == generation]
        if recorded:
            return sorted(recorded, key=lambda member: member.slot), generation in self._exhausted
        count = self.algorithm.offspring if generation else self.algorithm.settings.population
        draw = partial(self._draw, generation)
        exhausted = False
        try:
            proposals = self.algorithm.ask(state, self.space, draw, count, self._hashes.__contains__)
        except SpaceExhausted as end:
            proposals, exhausted = end.proposals, True
        born = [(f"{generation}/{slot}", generation, slot, one) for slot, one in enumerate(proposals)]
        if exhausted:
            self.store.add_event(self.lease, "space.exhausted", str(generation), {})
        return self._add(born), exhausted

    def _steady_state(self) -> bool:
        """A free worker gets the next child at once; results are told one by one, in the order in which they came."""
        population, total = self.settings.population, self.settings.generations * self.settings.population
        state = self.algorithm.start()
        for member in self._by_completion():
            state = self._tell_one(state, member)
        waiting = [m for m in self.members.values() if 0 not in m.outcomes and m.operation != BASELINE]
        born, exhausted = len(self._told) + len(waiting), False
        while True:
            while self._stop == "no" and self._dispatcher.free:
                if not waiting and born < total and not exhausted:
                    waiting, exhausted = self._children(state, born)
                    born += len(waiting)
                if not waiting:
                    break
                self._submit(waiting.pop(0), 0)
            if not self._busy:
                break
            for member in self._poll():
                state = self._tell_one(state, member)
        if exhausted and self._stop == "no" and len(self._told) % population:
            self._close_generation(len(self._hypervolumes), self._told[-(len(self._told) % population) :], state)
        return exhausted

    def _tell_one(self, state: State, member: Member) -> State:
        """In steady state a generation is as many results as a population has members, whoever they are of."""
        population = self.settings.population
        state = self._tell(state, [member])
        if len(self._told) % population == 0:
            self._close_generation(len(self._told) // population - 1, self._told[-population:], state)
        return state

    def _children(self, state: State, born: int) -> tuple[list[Member], bool]:
        """The first population at once, later one child at a time."""
        population = self.settings.population
        draw, exhausted = partial(self._draw, born), False
        try:
            count = population if born == 0 else 1
            proposals = self.algorithm.ask(state, self.space, draw, count, self._hashes.__contains__)
        except SpaceExhausted as end:
            proposals, exhausted = end.proposals, True
        rows = []
        for number, one in enumerate(proposals, born):
            # How much was known at its birth: with the order of completion, all that a replay needs.
            proposal = replace(one, details={**one.details, "told": len(self._told)})
            rows.append((f"event/{number}", number // population, number % population, proposal))
        return self._add(rows), exhausted

    def _confirm(self) -> None:
        """The front and the baselines again, with seeds that played no part in the search."""
        if not self.settings.confirmations:
            return
        self.listener("phase", {"name": "confirmation"})
        chosen = [m for m in self.members.values() if m.operation == BASELINE] + self.front()
        for number in range(1, self.settings.confirmations + 1):
            if self._stop == "no":
                self._evaluate(chosen, number)

    # Individuals

    def _describe(self) -> None:
        """Record once what scores hold for, and what the problem says of its data."""
        if not self._described:
            self.store.add_event(self.lease, "task", self.problem.fidelity, self.problem.describe())

    def _draw(self, moment: int, slot: int, purpose: str) -> np.random.Generator:
        return generator(self.settings.seed, moment, slot, purpose)

    def seed(self, number: int) -> int:
        """The seed of the number-th evaluation of every individual: all candidates see the same data in one order."""
        return integer_seed(self.settings.seed, "evaluation", number)

    def _add(self, born: Sequence[tuple[str, int, int, Proposal]]) -> list[Member]:
        """Record new individuals in one transaction; those of these births that are recorded are taken as they are."""
        members, rows = [], []
        for birth, generation, slot, proposal in born:
            if birth in self._births:
                members.append(self.members[self._births[birth]])
                continue
            identity = individual_id(self.run_id, birth)
            genome_hash = self.space.hash(proposal.genome)
            rows.append(
                NewIndividual(
                    id=identity,
                    birth=birth,
                    generation=generation,
                    slot=slot,
                    genome_envelope=self.space.to_json(proposal.genome),
                    genome_hash=genome_hash,
                    operation=proposal.operation,
                    details=proposal.details,
                    parents=proposal.parents,
                    seed=self.seed(0),
                )
            )
            member = Member(identity, birth, generation, slot, proposal.genome, genome_hash, proposal.operation)
            members.append(member)
        if rows:
            self.store.add_individuals(self.lease, rows)
            for member in members:
                if member.birth not in self._births:
                    self._admit(member)
            facts = [{"id": row.id, "operation": row.operation, "generation": row.generation} for row in rows]
            self.listener("proposed", {"individuals": facts})
        return members

    def _admit(self, member: Member) -> None:
        self.members[member.id] = member
        self._births[member.birth] = member.id
        self._originals.setdefault(member.hash, member)
        # A baseline is no part of the search: a child equal to it is a discovery of its own.
        if member.operation != BASELINE:
            self._hashes.add(member.hash)

    def _recall(self) -> None:
        """Read what was recorded."""
        for row in self.store.individuals(self.run_id):
            genome = self.space.from_json(row.genome_envelope)
            self._admit(Member(row.id, row.birth, row.generation, row.slot, genome, row.genome_hash, row.operation))
        numbers = {self.seed(number): number for number in range(self.settings.confirmations + 1)}
        for evaluation in self.store.evaluations(self.run_id):
            if evaluation.individual_id in self.members and evaluation.seed in numbers:
                key = (evaluation.individual_id, numbers[evaluation.seed])
                self._attempts[key] = max(evaluation.attempt, self._attempts.get(key, 0))
                if is_final(evaluation):
                    self.members[key[0]].outcomes[key[1]] = to_outcome(evaluation)
        self._checkpoints = self.store.run_blobs(self.run_id)
        for event in self.store.events(self.run_id):
            if event.type == "generation":
                self._closed[int(event.subject)] = event.payload
            elif event.type == "space.exhausted":
                self._exhausted.add(int(event.subject))
            elif event.type == "task":
                self._described = True
        done = sum(0 in member.outcomes for member in self.members.values())
        facts = {"run": self.run_id, "individuals": len(self.members), "evaluated": done}
        self.listener("run", facts)

    def _by_completion(self) -> list[Member]:
        rows = self.store.evaluations(self.run_id)
        first = self.seed(0)
        ids = dict.fromkeys(row.individual_id for row in rows if row.seed == first and is_final(row))
        members = [self.members[one] for one in ids if one in self.members]
        return [member for member in members if member.operation != BASELINE]

    def _scored(self, member: Member) -> Scored:
        outcome = member.outcomes[0]
        if outcome.violation > 0:
            return Scored(member.id, member.genome, (0.0,) * len(self.problem.goals), outcome.violation)
        return Scored(member.id, member.genome, outcome.values(self.problem.goals))

    # Evaluations

    @property
    def _busy(self) -> bool:
        return bool(len(self._dispatcher) or self._decided)

    def _evaluate(self, members: Sequence[Member], number: int = 0) -> None:
        """Evaluate whoever has no outcome of this seed number; returns when all have one, or after ``stop``."""
        pending = [member for member in members if number not in member.outcomes]
        # A copy of one that is in this list waits until its original has an outcome that it can take.
        self._work([member for member in pending if self._originals[member.hash] is member], number)
        self._work([member for member in pending if self._originals[member.hash] is not member], number)

    def _work(self, pending: list[Member], number: int) -> None:
        while True:
            while pending and self._dispatcher.free and self._stop == "no":
                self._submit(pending.pop(0), number)
            if not self._busy:
                return
            self._poll()

    def _submit(self, member: Member, number: int) -> None:
        seed = self.seed(number)
        attempt = self._attempts.get((member.id, number), 0) + 1
        decided = self.problem.screen(member.genome) or self._of_its_original(member, number)
        # The row of a beginning tells of a crash what was running; of a store in memory nothing would be left to read.
        if decided is None and self.store.folder is not None:
            attempt = self.store.start_evaluation(self.lease, member.id, self.problem.fidelity, seed)
        self._attempts[member.id, number] = attempt
        ticket = Ticket(member.id, number, attempt)
        if decided is not None:
            self._decided.append(Finished(ticket, decided))
            return
        self._dispatcher.submit(ticket, member.genome, seed, self._checkpoints.get(_role(ticket)))
        self.listener("started", {"id": member.id, "seed": number, "attempt": attempt})

    def _of_its_original(self, member: Member, number: int) -> Outcome | None:
        """The outcome of an earlier individual with this very genome (a baseline): nothing is evaluated twice."""
        original = self._originals[member.hash]
        outcome = original.outcomes.get(number)
        if original is member or outcome is None or outcome.reason in REPEATABLE:
            return None
        return replace(outcome, extra={**outcome.extra, "same_as": original.id}, seconds=0.0)

    def _poll(self) -> list[Member]:
        """Record what has finished; gives the members whose search evaluation ended, in the order of recording."""
        ended = []
        before = time.monotonic()
        decided, self._decided = self._decided, []
        events = [*decided, *self._dispatcher.poll(0.0 if decided else POLL_SECONDS)]
        self._waited += time.monotonic() - before
        for event in events:
            if not isinstance(event, Finished):
                if "checkpoint" in event.payload:
                    self._keep(_role(event.ticket), event.payload)
                told = {name: value for name, value in event.payload.items() if name != "event"}
                if "event" in event.payload and not self._note(event.ticket, event.payload["event"]):
                    continue
                self.listener("progress", {"id": event.ticket.individual, "seed": event.ticket.seed, **told})
                continue
            self._record(event)
            if event.ticket.seed == 0:
                ended.append(self.members[event.ticket.individual])
        if time.monotonic() - self._beat > HEARTBEAT_SECONDS:
            self._beat = time.monotonic()
            self.store.heartbeat(self.lease)
        if self._stop == "now":
            self._dispatcher.cancel_all()
        return ended

    def _record(self, event: Finished) -> None:
        ticket, outcome = event.ticket, event.outcome
        if outcome.reason == DISK_FULL:
            # The disk's fault, not the genome's: nothing is recorded, and a resume does it again.
            raise DiskFullError(f"{outcome.detail} What was finished is safe; free some space and resume.")
        fidelity, seed = self.problem.fidelity, self.seed(ticket.seed)
        row = to_evaluation(ticket.individual, fidelity, seed, ticket.attempt, outcome)
        self.store.finish_evaluation(self.lease, row)
        self.members[ticket.individual].outcomes[ticket.seed] = outcome
        if outcome.reason not in REPEATABLE:
            self._drop_checkpoint(_role(ticket))
        facts = {"id": ticket.individual, "seed": ticket.seed, "reason": outcome.reason, "seconds": outcome.seconds}
        self.listener("evaluated", {**facts, "scores": write_numbers(outcome.scores), "detail": outcome.detail[-300:]})

    def _keep(self, role: str, message: Mapping[str, Any]) -> None:
        """Hold the last checkpoint of an evaluation with all that it is made of."""
        parts = {f"{role}/{number}": str(digest) for number, digest in enumerate(message.get("blobs", ()))}
        blobs = {role: str(message["checkpoint"]), **parts}
        self.store.attach_blobs(self.lease, blobs)
        self._checkpoints |= blobs

    def _note(self, ticket: Ticket, told: Mapping[str, Any]) -> bool:
        """Record what an evaluation tells of itself; after an interruption it tells again what is recorded already.

        Where it had to begin anew and something came otherwise, that is recorded too: the last event of a name counts.
        """
        if self._noted is None:
            self._noted = {
                (one.subject, one.payload.get("seed"), one.type, one.payload.get("name")): canonical.digest(one.payload)
                for one in self.store.events(self.run_id)
            }
        what = (ticket.individual, ticket.seed, str(told["type"]), str(told["name"]))
        payload = {**told["payload"], "seed": ticket.seed, "name": what[-1]}
        if self._noted.get(what) == canonical.digest(payload):
            return False
        self.store.add_event(self.lease, what[2], ticket.individual, payload)
        self._noted[what] = canonical.digest(payload)
        return True

    def _drop_checkpoint(self, role: str) -> None:
        """Let go of the checkpoint of an evaluation that has ended."""
        roles = [name for name in self._checkpoints if name == role or name.startswith(f"{role}/")]
        if roles:
            self.store.detach_blobs(self.lease, roles)
        for name in roles:
            del self._checkpoints[name]

    # Fronts

    def front(self) -> list[Member]:
        """The non-dominated of the search's own individuals, in order of birth."""
        pool = [member for member in self.members.values() if member.operation != BASELINE]
        return _front(pool, self.problem.goals)

    def _tell(self, state: State, members: Sequence[Member]) -> State:
        self._told += members
        return self.algorithm.tell(state, [self._scored(member) for member in members])

    def _close_generation(self, generation: int, own: Sequence[Member], state: State) -> None:
        """Fix the reference point once, measure the hypervolume of all that was told, and record both.

        Args:
            generation: its number.
            own: who was told in it.
            state: after all of them.
        """
        # Whoever is dominated once stays so: the front of all is that of the last front and of the new ones.
        self._archive = _front([*self._archive, *own], self.problem.goals)
        closed = self._closed.get(generation)
        if closed is None:
            closed = self._measure(own)
            closed["population"] = [one.id for one in state.population]
            failpoint("before_generation_event")
            self.store.add_event(self.lease, "generation", str(generation), closed)
            failpoint("after_generation_event")
            self._closed[generation] = closed
        if closed["reference"] is not None:
            self._reference = tuple(closed["reference"])
        self._hypervolumes.append(closed["hypervolume"])
        self.listener("generation", {"generation": generation, **closed})

    def _measure(self, own: Sequence[Member]) -> dict[str, Any]:
        goals = self.problem.goals
        if self._reference is None:
            # Told before were only individuals without values.
            points = [values for _, values in feasible_points([member.outcomes[0] for member in own], goals)]
            self._reference = reference_point(points) if points else None
        outcomes = [member.outcomes[0] for member in self._archive]
        return {
            "hypervolume": 0.0 if self._reference is None else hypervolume(outcomes, goals, self._reference),
            "reference": None if self._reference is None else list(self._reference),
            "front": [member.id for member in self._archive],
            "evaluated": len(own),
            "failed": sum(member.outcomes[0].reason is not None for member in own),
        }

    def _judge_failures(self) -> None:
        own = [m.outcomes[0] for m in self.members.values() if m.operation != BASELINE and 0 in m.outcomes]
        judged = [outcome for outcome in own if outcome.reason != INFEASIBLE]
        failed = [outcome for outcome in judged if outcome.reason is not None]
        if own and len(failed) == len(judged):
            reasons = sorted({outcome.reason or "" for outcome in own if outcome.reason})
            # Of a traceback the last line says what it is about.
            last = next((outcome.detail.splitlines()[-1] for outcome in reversed(own) if outcome.detail), "nothing")
            raise EvaluationsFailedError(
                f"none of {len(own)} evaluations succeeded ({', '.join(reasons)}). The last one says: {last[-300:]!r}. "
                f"Look at them with: evodevo show {self.run_id}"
            )
        share = len(failed) / len(judged) if judged else 0.0
        limit = self.settings.max_failed_share
        if limit is not None and share > limit:
            raise EvaluationsFailedError(
                f"{len(failed)} of {len(judged)} evaluations failed ({share:.0%}); at most {limit:.0%} are allowed "
                f"(max_failed_share). Look at them with: evodevo show {self.run_id}"
            )

    def _times(self) -> dict[str, float]:
        """Where the time went, for ``docs/results.md``: waiting for evaluations, and everything else."""
        wall = self._last_score - self._first_proposal
        return {"wall_seconds": wall, "waited_seconds": self._waited}


def _role(ticket: Ticket) -> str:
    """Under which name the run holds the last checkpoint of an evaluation."""
    return f"checkpoint/{ticket.individual}/{ticket.seed}"


def _front(members: Sequence[Member], goals: tuple[Goal, ...]) -> list[Member]:
    return [members[place] for place in front_places([member.outcomes.get(0) for member in members], goals)]
