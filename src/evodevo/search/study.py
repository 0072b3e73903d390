"""One search: ask, evaluate, record, tell. Open this file first.

``Study`` drives an algorithm over a space and records everything in a store. It has no state that the store does not
have: a resumed study reads the recorded results, tells them to the algorithm again, and continues where it stopped. In
generational mode the rest of the search is then equal, bit for bit, to that of an uninterrupted study.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from pydantic import Field

from evodevo.errors import EvaluationsFailedError, UsageError
from evodevo.execution.base import Executor
from evodevo.execution.serial import SerialExecutor
from evodevo.randomness import generator, integer_seed
from evodevo.search.base import Algorithm, Draw, Proposal, Scored, SearchState, SpaceExhausted, create
from evodevo.search.dispatch import POLL_SECONDS, Dispatcher, Finished, Ticket
from evodevo.search.front import feasible_points, front_places, hypervolume, reference_point
from evodevo.search.inheritance import DONORS, InheritanceSettings, with_donors
from evodevo.search.problem import (
    INFEASIBLE,
    INHERITANCE,
    SNAPSHOT,
    FunctionProblem,
    Goal,
    Outcome,
    Problem,
    Scores,
    Terms,
    write_numbers,
)
from evodevo.search.record import REPEATABLE, is_final, to_evaluation, to_outcome
from evodevo.search.recorder import Recorder
from evodevo.search.rungs import RungSettings, going_on, mean_changes, spent_tokens
from evodevo.search.space import Space
from evodevo.search.start import Start, founders
from evodevo.settings import Settings
from evodevo.storage import Lease, NewIndividual, Store, evaluation_id, individual_id
from evodevo.storage.failpoints import failpoint

BASELINE = "baseline"
Listener = Callable[[str, dict[str, Any]], None]
"""Called for each event of a study with its type and JSON-able facts. See ``docs/evolve.md`` for the types."""


def _is_off(value: object) -> bool:
    return value is None


class StudySettings(Settings):
    """One search.

    Attributes:
        algorithm: Name of the algorithm: nsga2, surrogate, genetic, firefly, regularized or random.
        population: Number of individuals in the population, at least 2.
        generations: Number of generations, the initial population included; in steady state, generations times
            population evaluations are made.
        mode: ``generational`` waits for a whole generation; ``steady`` gives a free worker the next child at once.
        algorithm_settings: Further settings of the algorithm.
        seed: Seed of every draw.
        start: Genomes of the user's that come first in the initial population.
        baselines: Whether hand-designed genomes are evaluated too, before the initial population.
        confirmations: Number of fresh seeds with which the final front and the baselines are evaluated again.
        retries: Largest number of restarts of an evaluation that was killed from outside, alone or with its worker.
        max_failed_share: Largest share of failed evaluations, 0 to 1; more end the run with an error. None = any.
        rungs: Shares of the budget at which candidates are ranked and most of them stop; None trains all to the end.
        inheritance: Terms on which a child begins with weights of its parents; None trains all from scratch.
    """

    algorithm: str = "nsga2"
    population: int = Field(default=16, ge=2, le=100_000)
    generations: int = Field(default=18, ge=1, le=1_000_000)
    mode: Literal["generational", "steady"] = "generational"
    algorithm_settings: dict[str, int | float | str | bool] = Field(default_factory=dict)
    seed: int = Field(default=0, ge=0, lt=2**63)
    # Not written where it is empty, so that runs from before it are still written as they were.
    start: tuple[Start, ...] = Field(default=(), exclude_if=lambda value: not value)
    baselines: bool = True
    confirmations: int = Field(default=0, ge=0, le=1000)
    retries: int = Field(default=2, ge=0, le=100)
    max_failed_share: float | None = Field(default=None, ge=0.0, le=1.0)
    # Left out of what is stored where they are off, so that records of plain searches are as they were.
    rungs: RungSettings | None = Field(default=None, exclude_if=_is_off)
    inheritance: InheritanceSettings | None = Field(default=None, exclude_if=_is_off)

    def check(self, problem: Problem) -> None:
        """
        Raises:
            UsageError: The problem's evaluations, or the mode, do not allow rungs or inheritance.
        """
        if self.rungs is not None and self.mode != "generational":
            raise UsageError(
                "rungs rank the candidates of a generation, and steady mode has none; "
                "set study.mode=generational, or leave study.rungs out."
            )
        if self.rungs is not None and problem.undivided:
            raise UsageError(f"study.rungs cannot be used here: {problem.undivided}. Leave it out.")
        if self.inheritance is not None and problem.fresh:
            raise UsageError(f"study.inheritance cannot be used here: {problem.fresh}. Leave it out.")

    def create(self) -> Algorithm:
        """The algorithm with its settings."""
        return create(self.algorithm, {**self.algorithm_settings, "population": self.population})


@dataclass
class Member:
    """One individual in memory.

    Attributes:
        id: Id in the store.
        birth: Unique key in the run: ``generation/slot``, ``event/n`` or ``baseline/name``.
        generation: Number of the generation, from 0; -1 for baselines.
        slot: Position in the generation, from 0.
        genome: Genome of the individual.
        hash: Hash of the genome.
        operation: Operation that made it, see ``Proposal``; ``baseline`` for baselines.
        outcomes: Number of the seed -> outcome; 0 is the evaluation for the search, others are confirmations. Of an
            individual that stopped at a rung, 0 is its outcome there.
        donors: Ids of the individuals whose weights the evaluation for the search begins with, the preferred first.
        rungs: Share of the budget -> outcome there, of the rungs below the whole budget.
        released: (share, role) of the blobs that the search has let go of.
    """

    id: str
    birth: str
    generation: int
    slot: int
    genome: Any
    hash: str
    operation: str
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    donors: tuple[str, ...] = ()
    rungs: dict[float, Outcome] = field(default_factory=dict)
    released: set[tuple[float, str]] = field(default_factory=set)


@dataclass(frozen=True)
class StudyResult:
    """The result of a study.

    Attributes:
        state: finished, or interrupted (resumable).
        run: Id of the run in the store.
        front: Non-dominated members that keep all constraints.
        members: All individuals, in order of birth, baselines included.
        hypervolumes: Hypervolume of all results so far after each generation.
        exhausted: Whether the search ended because the space had no further genome.
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
        space: Space of the genomes.
        evaluate: Problem, or a plain function genome -> number(s), which runs in this process.
        goals: Meaning of the function's numbers: names (all minimised) or ``Goal``; ignored for a problem, which has
            goals of its own.
        settings: Settings of the search.
        store: Store of the records; None = in memory.
        executor: Executor of the evaluations; None = in this process. The caller closes it.
        algorithm: Algorithm to use instead of the one in the settings.
        run: Id of a recorded run to continue.
        record: Kind, recipe and settings to record with a new run.
        listener: Function called for each event.

    Attributes:
        part_of: Id of the protocol that the run is a stage of; None where it stands alone.

    Raises:
        UsageError: The settings are wrong, or the recorded run has another seed or other data.
        NotFoundError: The run is not in the store.
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
        self.settings.check(self.problem)
        self.algorithm = (algorithm or self.settings.create()).informed(self.problem.foresee)
        self._founders = founders(self.settings.start, space, self.settings.population)
        self.store = store if store is not None else Store.memory()
        self.listener = listener or (lambda kind, facts: None)
        self.members: dict[str, Member] = {}
        executor = executor or SerialExecutor(evaluators=self.problem.local_evaluators())
        self._dispatcher = Dispatcher(executor, self.settings.retries)
        self._births: dict[str, str] = {}
        self._originals: dict[str, Member] = {}
        self._hashes: set[str] = set()
        self._attempts: dict[tuple[str, int, float], int] = {}
        self._stop: Literal["no", "finish", "now"] = "no"
        self._reference: tuple[float, ...] | None = None
        self._hypervolumes: list[float] = []
        self._closed: dict[int, dict[str, Any]] = {}
        self._decisions: dict[str, list[str]] = {}
        self._living: set[str] = set()
        self._exhausted: set[int] = set()
        self._described: dict[str, Any] | None = None
        self._told: list[Member] = []
        self._archive: list[Member] = []
        self._decided: list[Finished] = []
        self._waited = 0.0
        self._recorder: Recorder | None = None
        if run is not None:
            self._check(run)
        self.run_id = run or self._create(record or {})
        self.part_of: str | None = None

    def _check(self, run: str) -> None:
        """Refuse to continue a run whose scores would not be comparable with the new ones."""
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
        goals = [{"name": goal.name, "unit": goal.unit, "direction": goal.direction} for goal in self.problem.goals]
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
            EvaluationsFailedError: No evaluation succeeded, or more failed than the settings allow.
            RunOwnedError: Another process has the run open.
        """
        if self._recorder is not None:
            raise UsageError(f"this study has run already; go on with a new Study(…, run={self.run_id!r}).")
        self._recorder = Recorder(self.store, self.store.acquire(self.run_id))
        try:
            if self.store.run(self.run_id).state != "running":
                self.store.finish_run(self.lease, "running")
            self._recall()
            if self._described is None:
                self._described = self.problem.describe()
                self.store.add_event(self.lease, "task", self.problem.fidelity, self._described)
            self.listener("task", self._described)
            exhausted = self._search()
            finished = self._stop == "no" or self._is_complete(exhausted)
            if finished:
                # Those who may still have children keep theirs: a finished run can be made longer.
                self._release(INHERITANCE, [one for one in self.members.values() if one.id not in self._living])
            # The part of the wall time that was spent waiting shows what the search itself costs.
            times = {"wall_seconds": self._last_score - self._first_proposal, "waited_seconds": self._waited}
            self.store.add_event(self.lease, "study.time", self.run_id, times)
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
        """End early: after the first call running evaluations are finished, after the second they are cancelled."""
        self._stop = "finish" if self._stop == "no" else "now"

    @property
    def stopping(self) -> bool:
        """Whether ``stop`` was called."""
        return self._stop != "no"

    @property
    def lease(self) -> Lease:
        """The run's write lease, held during ``run``."""
        return self.recorder.lease

    @property
    def recorder(self) -> Recorder:
        """The record of the run's evaluations, there during ``run``."""
        assert self._recorder is not None, "there while running"
        return self._recorder

    def _search(self) -> bool:
        self._first_proposal = time.monotonic()
        if self.settings.baselines:
            self._baselines()
        if self.settings.mode == "generational":
            exhausted = self._generations()
        else:
            exhausted = self._steady_state()
        if self._stop == "no" or self._is_searched(exhausted):
            self._judge_failures()
            self._confirm()
        self._last_score = time.monotonic()
        return exhausted

    def _is_searched(self, exhausted: bool) -> bool:
        """Whether all generations are done; a stop that comes after the last evaluation has nothing to end."""
        return exhausted or len(self._hypervolumes) >= self.settings.generations

    def _is_complete(self, exhausted: bool) -> bool:
        """Whether nothing is left to do, confirmations included."""
        numbers = range(1, self.settings.confirmations + 1)
        return self._is_searched(exhausted) and all(
            number in member.outcomes for number in numbers for member in self._confirmed()
        )

    def _confirmed(self) -> list[Member]:
        """The members that are evaluated with fresh seeds: baselines and front."""
        return [member for member in self.members.values() if member.operation == BASELINE] + self.front()

    def _baselines(self) -> None:
        self.listener("phase", {"name": "baselines"})
        born = []
        for slot, (name, genome) in enumerate(self.problem.baselines().items()):
            proposal = Proposal(genome, (), BASELINE, {"name": name})
            born.append((f"{BASELINE}/{name}", -1, slot, proposal))
        self._evaluate(self._add(born))

    def _generations(self) -> bool:
        """Ask for, evaluate and tell generation after generation. True where the space ran out of genomes."""
        state = self.algorithm.start()
        for generation in range(self.settings.generations):
            members, exhausted = self._generation(state, generation)
            self._train(members, generation)
            if any(0 not in member.outcomes for member in members):
                return False  # stopped
            state = self._tell(state, members)
            self._close_generation(generation, members, state)
            self._release(INHERITANCE, [member for member in self._told if member.id not in self._living])
            if exhausted or self._stop != "no":
                return exhausted
        return False

    def _generation(self, state: SearchState, generation: int) -> tuple[list[Member], bool]:
        """The members of a generation, recorded or new, and whether the space was exhausted."""
        recorded = [member for member in self.members.values() if member.generation == generation]
        if recorded:
            return sorted(recorded, key=lambda member: member.slot), generation in self._exhausted
        count = self.algorithm.offspring if generation else self.algorithm.settings.population
        draw = partial(self._draw, generation)
        exhausted = False
        try:
            proposals = self._ask(state, draw, count, generation, first=generation == 0)
        except SpaceExhausted as end:
            proposals, exhausted = end.proposals, True
        born = [
            (f"{generation}/{slot}", generation, slot, self._given_donors(proposal, state))
            for slot, proposal in enumerate(proposals)
        ]
        if exhausted:
            self.store.add_event(self.lease, "space.exhausted", str(generation), {})
        return self._add(born), exhausted

    def _ask(self, state: SearchState, draw: Draw, count: int, generation: int, *, first: bool) -> list[Proposal]:
        """Proposals of the algorithm in a generation; in the initial population the user's own genomes come first.

        Raises:
            SpaceExhausted: The space has too few; the error holds all proposals.
        """
        given, known, space = (self._founders if first else []), self._hashes, self.space.at(generation)
        if given:
            known = known.union(self.space.hash(proposal.genome) for proposal in given)
        try:
            return given + self.algorithm.ask(state, space, draw, count - len(given), known.__contains__)
        except SpaceExhausted as end:
            raise SpaceExhausted(given + end.proposals) from None

    def _steady_state(self) -> bool:
        """Give each free worker the next child at once; tell results one by one, in order of completion."""
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

    def _tell_one(self, state: SearchState, member: Member) -> SearchState:
        """Tell one result; in steady state a generation ends after as many results as the population has members."""
        population = self.settings.population
        state = self._tell(state, [member])
        if len(self._told) % population == 0:
            self._close_generation(len(self._told) // population - 1, self._told[-population:], state)
        return state

    def _children(self, state: SearchState, born: int) -> tuple[list[Member], bool]:
        """The initial population at once, later one child per call; and whether the space was exhausted."""
        population = self.settings.population
        draw, exhausted = partial(self._draw, born), False
        try:
            count = population if born == 0 else 1
            proposals = self._ask(state, draw, count, born // population, first=born == 0)
        except SpaceExhausted as end:
            proposals, exhausted = end.proposals, True
        rows = []
        for number, child in enumerate(proposals, born):
            # Number of results the algorithm had at this birth: with the order of completion, all a replay needs.
            proposal = self._given_donors(child, state)
            proposal = replace(proposal, details={**proposal.details, "told": len(self._told)})
            rows.append((f"event/{number}", number // population, number % population, proposal))
        return self._add(rows), exhausted

    def _given_donors(self, proposal: Proposal, state: SearchState) -> Proposal:
        return proposal if self.settings.inheritance is None else with_donors(proposal, state)

    def _train(self, members: Sequence[Member], generation: int) -> None:
        """Evaluate a generation, rung by rung where the settings have rungs; what was recorded is not repeated."""
        rungs = self.settings.rungs
        if rungs is None:
            self._evaluate(members)
            return
        # What is known without training takes no part in the rungs.
        self._evaluate([member for member in members if self._decided_before(member, 0) is not None])
        climbing = [member for member in members if 0 not in member.outcomes or member.rungs]
        for place, share in enumerate(rungs.shares):
            self._work([member for member in climbing if share not in member.rungs], 0, share)
            if any(share not in member.rungs for member in climbing):
                return  # stopped
            if place:
                self._release("", climbing, rungs.shares[place - 1])
            ahead = self._decision(generation, share, climbing, rungs)
            stopped = [member for member in climbing if member.id not in ahead]
            for member in stopped:
                member.outcomes[0] = member.rungs[share]
            self._release(SNAPSHOT, stopped, share)
            climbing = [member for member in climbing if member.id in ahead]
        self._evaluate(climbing)
        if all(0 in member.outcomes for member in climbing):
            self._release("", climbing, rungs.shares[-1])

    def _decision(self, generation: int, share: float, climbing: list[Member], rungs: RungSettings) -> list[str]:
        """Ids of the candidates that go on from a rung; decided once, and recorded."""
        subject = f"{generation}/{share!r}"
        ahead = self._decisions.get(subject)
        if ahead is None:
            outcomes = [(member, member.rungs[share]) for member in climbing]
            pool = [
                Scored(member.id, member.genome, outcome.values(self.problem.goals), outcome.violation, share)
                for member, outcome in outcomes
            ]
            ahead = going_on(pool, rungs.size(len(pool)))
            stopped = [member.id for member in climbing if member.id not in ahead]
            facts = {"generation": generation, "share": share, "went_on": ahead, "stopped": stopped}
            self.store.add_event(self.lease, "rung", subject, facts)
            self._decisions[subject] = ahead
            self.listener("rung", facts)
        return ahead

    def _confirm(self) -> None:
        """Evaluate the front and the baselines again, with seeds that played no part in the search."""
        if not self.settings.confirmations or self._stop != "no":
            return
        self.listener("phase", {"name": "confirmation"})
        chosen = self._confirmed()
        for number in range(1, self.settings.confirmations + 1):
            if self._stop == "no":
                self._evaluate(chosen, number)

    # Individuals

    def _draw(self, moment: int, slot: int, purpose: str) -> np.random.Generator:
        return generator(self.settings.seed, moment, slot, purpose)

    def seed(self, number: int) -> int:
        """The seed of the number-th evaluation of every individual.

        It does not depend on the individual, so that all are trained on the same data in the same order.
        """
        return integer_seed(self.settings.seed, "evaluation", number)

    def _add(self, born: Sequence[tuple[str, int, int, Proposal]]) -> list[Member]:
        """Record individuals in one transaction; a birth that is recorded already gives the recorded member."""
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
            donors = tuple(proposal.details.get(DONORS, ()))
            operation = proposal.operation
            member = Member(identity, birth, generation, slot, proposal.genome, genome_hash, operation, donors=donors)
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
        # A baseline is no part of the search: the search may propose an equal genome by itself.
        if member.operation != BASELINE:
            self._hashes.add(member.hash)

    def _recall(self) -> None:
        """Restore the members, outcomes and generations of a resumed run from the store."""
        for row in self.store.individuals(self.run_id):
            genome = self.space.from_json(row.genome_envelope)
            member = Member(row.id, row.birth, row.generation, row.slot, genome, row.genome_hash, row.operation)
            if self.settings.inheritance is not None:
                member.donors = tuple(row.details.get(DONORS, ()))
            self._admit(member)
        numbers = {self.seed(number): number for number in range(self.settings.confirmations + 1)}
        for evaluation in self.store.evaluations(self.run_id):
            if evaluation.individual_id in self.members and evaluation.seed in numbers:
                member, number = self.members[evaluation.individual_id], numbers[evaluation.seed]
                share = self._share_of(member, number, evaluation.fidelity)
                key = (member.id, number, share)
                self._attempts[key] = max(evaluation.attempt, self._attempts.get(key, 0))
                if is_final(evaluation) and share < 1:
                    member.rungs[share] = to_outcome(evaluation)
                elif is_final(evaluation):
                    member.outcomes[number] = to_outcome(evaluation)
        for event in self.store.events(self.run_id):
            if event.type == "generation":
                self._closed[int(event.subject)] = event.payload
            elif event.type == "space.exhausted":
                self._exhausted.add(int(event.subject))
            elif event.type == "rung":
                self._decisions[event.subject] = event.payload["went_on"]
            elif event.type == "task":
                self._described = event.payload
        done = sum(0 in member.outcomes for member in self.members.values())
        facts = {"run": self.run_id, "individuals": len(self.members), "evaluated": done}
        self.listener("run", facts)

    def _by_completion(self) -> list[Member]:
        rows = self.store.evaluations(self.run_id)
        first = self.seed(0)
        ids = dict.fromkeys(row.individual_id for row in rows if row.seed == first and is_final(row))
        members = [self.members[identity] for identity in ids if identity in self.members]
        return [member for member in members if member.operation != BASELINE]

    def _scored(self, member: Member, changes: Mapping[float, tuple[float, ...]]) -> Scored:
        outcome = member.outcomes[0]
        if outcome.violation > 0:
            return Scored(member.id, member.genome, (0.0,) * len(self.problem.goals), outcome.violation)
        values, change = outcome.values(self.problem.goals), changes.get(outcome.share)
        if values is not None and change is not None:
            values = tuple(a + b for a, b in zip(values, change, strict=True))
        return Scored(member.id, member.genome, values, share=outcome.share)

    # Evaluations

    @property
    def _busy(self) -> bool:
        return bool(len(self._dispatcher) or self._decided)

    def _evaluate(self, members: Sequence[Member], number: int = 0) -> None:
        """Evaluate members without an outcome for this seed; returns when all have one, or after ``stop``."""
        pending = [member for member in members if number not in member.outcomes]
        # Members whose genome equals an earlier one go second: by then the original has an outcome to copy.
        self._work([member for member in pending if self._originals[member.hash] is member], number)
        self._work([member for member in pending if self._originals[member.hash] is not member], number)

    def _work(self, pending: list[Member], number: int, share: float = 1.0) -> None:
        while True:
            while pending and self._dispatcher.free and self._stop == "no":
                self._submit(pending.pop(0), number, share)
            if not self._busy:
                return
            self._poll()

    def _submit(self, member: Member, number: int, share: float = 1.0) -> None:
        seed = self.seed(number)
        attempt = self._attempts.get((member.id, number, share), 0) + 1
        decided = self._decided_before(member, number)
        # A row at the start shows after a crash what was running; a store in memory would not survive the crash.
        if decided is None and self.store.folder is not None:
            attempt = self.store.start_evaluation(self.lease, member.id, self._fidelity(member, number, share), seed)
        self._attempts[member.id, number, share] = attempt
        ticket = Ticket(member.id, number, attempt, share)
        if decided is not None:
            self._decided.append(Finished(ticket, decided))
            return
        resume = self.recorder.checkpoint(ticket) or (self._snapshot(member, share) if number == 0 else None)
        terms = self._terms(member, number, share)
        self._dispatcher.submit(ticket, self.problem, member.genome, seed, resume, terms)
        facts = {} if share == 1 else {"share": share}
        self.listener("started", {"id": member.id, "seed": number, "attempt": attempt, **facts})

    def _decided_before(self, member: Member, number: int) -> Outcome | None:
        """An outcome that needs no training: a broken constraint, or that of an equal genome."""
        return self.problem.screen(member.genome) or self._of_its_original(member, number)

    def _of_its_original(self, member: Member, number: int) -> Outcome | None:
        """The outcome of an earlier individual with the same genome (a baseline), which is not evaluated again."""
        original = self._originals[member.hash]
        outcome = original.outcomes.get(number)
        if original is member or outcome is None or outcome.reason in REPEATABLE:
            return None
        if number == 0 and member.donors:
            return None  # it begins with other weights
        return replace(outcome, extra={**outcome.extra, "same_as": original.id}, seconds=0.0)

    # Terms of an evaluation

    def _terms(self, member: Member, number: int, share: float) -> Terms:
        """Confirmations and baselines are trained from scratch, without rungs, for the whole budget."""
        inheritance = self.settings.inheritance
        if number or inheritance is None:
            return Terms(share=share)
        donors = [(donor, self.members[donor].outcomes[0].blobs.get(INHERITANCE, "")) for donor in member.donors]
        return Terms(share, inheritance.budget if donors else 1.0, tuple(donors), bequeaths=True)

    def _fidelity(self, member: Member, number: int, share: float) -> str:
        """The problem's, and before it what else decides these scores."""
        inherited = self.settings.inheritance if member.donors and number == 0 else None
        words = [] if share == 1 else [f"share={share!r}"]
        words += [] if inherited is None else [f"inherited={inherited.budget!r}"]
        return ";".join([*words, self.problem.fidelity])

    def _share_of(self, member: Member, number: int, fidelity: str) -> float:
        """Share of the budget of a recorded evaluation; the inverse of ``_fidelity``."""
        shares = () if self.settings.rungs is None else self.settings.rungs.shares
        return next((share for share in shares if self._fidelity(member, number, share) == fidelity), 1.0)

    def _snapshot(self, member: Member, share: float) -> str | None:
        """Digest of the snapshot of the last rung below this share."""
        below = [rung for rung in member.rungs if rung < share]
        return member.rungs[max(below)].blobs.get(SNAPSHOT) if below else None

    def _release(self, role: str, members: Iterable[Member], share: float = 1.0) -> None:
        """Let go of blobs of the search's own evaluations at this share, so that ``gc`` may delete them.

        Args:
            role: Blobs of this role and its parts; empty = all.
            members: Individuals whose evaluation has ended; released blobs are passed over.
            share: Share of the budget.
        """
        evaluations: list[str] = []
        roles: set[str] = set()
        for member in members:
            outcome = member.outcomes.get(0) if share == 1 else member.rungs.get(share)
            held = [name for name in (outcome.blobs if outcome is not None else ()) if name.startswith(role)]
            if outcome is None or not held or (outcome.share, role) in member.released:
                continue
            # The outcome of an individual that stopped is that of its rung.
            attempt = self._attempts[member.id, 0, outcome.share]
            fidelity = self._fidelity(member, 0, outcome.share)
            evaluations.append(evaluation_id(member.id, fidelity, self.seed(0), attempt))
            roles.update(held)
            member.released.add((outcome.share, role))
        if evaluations:
            self.store.release_blobs(self.lease, evaluations, roles=sorted(roles))

    def _poll(self) -> list[Member]:
        """Record finished evaluations; returns the members whose evaluation for the search ended, in that order."""
        ended = []
        before = time.monotonic()
        decided, self._decided = self._decided, []
        events = [*decided, *self._dispatcher.poll(0.0 if decided else POLL_SECONDS)]
        self._waited += time.monotonic() - before
        for event in events:
            if not isinstance(event, Finished):
                if not self.recorder.message(event):
                    continue
                facts = {name: value for name, value in event.payload.items() if name != "event"}
                self.listener("progress", {"id": event.ticket.individual, "seed": event.ticket.seed, **facts})
                continue
            self._record(event)
            if event.ticket.seed == 0:
                ended.append(self.members[event.ticket.individual])
        self.recorder.heartbeat()
        if self._stop == "now":
            self._dispatcher.cancel_all()
        return ended

    def _record(self, event: Finished) -> None:
        ticket, member = event.ticket, self.members[event.ticket.individual]
        outcome = replace(event.outcome, share=ticket.share)
        fidelity, seed = self._fidelity(member, ticket.seed, ticket.share), self.seed(ticket.seed)
        row = to_evaluation(ticket.individual, fidelity, seed, ticket.attempt, outcome)
        self.recorder.finish(row)
        if ticket.share < 1:
            member.rungs[ticket.share] = outcome
        else:
            member.outcomes[ticket.seed] = outcome
        if outcome.reason not in REPEATABLE:
            self.recorder.release(ticket)
        facts = {"id": ticket.individual, "seed": ticket.seed, "reason": outcome.reason, "seconds": outcome.seconds}
        facts |= {} if ticket.share == 1 else {"share": ticket.share}
        self.listener("evaluated", {**facts, "scores": write_numbers(outcome.scores), "detail": outcome.detail[-300:]})

    # Fronts

    def front(self) -> list[Member]:
        """The non-dominated individuals of the search, without baselines, in order of birth."""
        pool = [member for member in self.members.values() if member.operation != BASELINE]
        return _front(pool, self.problem.goals)

    def _tell(self, state: SearchState, members: Sequence[Member]) -> SearchState:
        self._told += members
        courses = [{**member.rungs, member.outcomes[0].share: member.outcomes[0]} for member in members]
        changes = mean_changes(courses, self.problem.goals)
        state = self.algorithm.tell(state, [self._scored(member, changes) for member in members])
        self._living = {individual.id for individual in state.population}
        return state

    def _close_generation(self, generation: int, own: Sequence[Member], state: SearchState) -> None:
        """Fix the reference point once, measure the hypervolume of all results so far, and record both.

        Args:
            generation: Number of the generation, from 0.
            own: Members whose results the algorithm got in this generation.
            state: State of the algorithm after all of them.
        """
        # A dominated point stays dominated, so the front of all is the front of the last front and the new members.
        self._archive = _front([*self._archive, *own], self.problem.goals)
        closed = self._closed.get(generation)
        if closed is None:
            closed = self._measure(own)
            closed["population"] = [individual.id for individual in state.population]
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
            # No individual of an earlier generation had values, else the reference would be fixed already.
            # Individuals that stopped at a rung bound the volume, too; alone those of the whole budget are too few.
            ended = [replace(member.outcomes[0], share=1.0) for member in own]
            points = [values for _, values in feasible_points(ended, goals)]
            self._reference = reference_point(points) if points else None
        outcomes = [member.outcomes[0] for member in self._archive]
        return {
            "hypervolume": 0.0 if self._reference is None else hypervolume(outcomes, goals, self._reference),
            "reference": None if self._reference is None else list(self._reference),
            "front": [member.id for member in self._archive],
            "evaluated": len(own),
            "failed": sum(member.outcomes[0].reason is not None for member in own),
            **self._tokens_of(own),
        }

    def _tokens_of(self, own: Sequence[Member]) -> dict[str, Any]:
        """Tokens that these individuals were trained on, by share of the budget; nothing where a search is plain."""
        if self.settings.rungs is None and self.settings.inheritance is None:
            return {}
        spent = spent_tokens({**member.rungs, member.outcomes[0].share: member.outcomes[0]} for member in own)
        return {"tokens": {repr(share): tokens for share, tokens in spent.items()}} if spent else {}

    def _judge_failures(self) -> None:
        own = [m.outcomes[0] for m in self.members.values() if m.operation != BASELINE and 0 in m.outcomes]
        judged = [outcome for outcome in own if outcome.reason != INFEASIBLE]
        failed = [outcome for outcome in judged if outcome.reason is not None]
        if own and len(failed) == len(judged):
            reasons = sorted({outcome.reason or "" for outcome in own if outcome.reason})
            # The last line of a traceback has the exception and its message.
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


def _front(members: Sequence[Member], goals: tuple[Goal, ...]) -> list[Member]:
    return [members[index] for index in front_places([member.outcomes.get(0) for member in members], goals)]
