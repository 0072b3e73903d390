"""One search: ask, evaluate, record, tell. Open this file first.

``Study`` drives an algorithm over a space and records everything in a store. It has no state that the store does not
have: a resumed study reads the recorded results, tells them to the algorithm again, and continues where it stopped. In
generational mode the rest of the search is then equal, bit for bit, to that of an uninterrupted study.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from evodevo.errors import EvaluationsFailedError, EvodevoError, UsageError
from evodevo.execution.base import Executor
from evodevo.randomness import integer_seed
from evodevo.search.ask_tell import AskTell
from evodevo.search.base import Algorithm, Proposal, SearchState
from evodevo.search.dispatch import Dispatcher
from evodevo.search.evaluations import Evaluations
from evodevo.search.failures import judge_failures
from evodevo.search.generations import Generations
from evodevo.search.members import BASELINE, Listener, Member, Members, front_of
from evodevo.search.own_function import default_executor
from evodevo.search.problem import INHERITANCE, FunctionProblem, Goal, Problem, Scores
from evodevo.search.record import to_generation
from evodevo.search.recorder import Recorder
from evodevo.search.rung_training import RungTraining
from evodevo.search.settings import StudySettings
from evodevo.search.space import Space
from evodevo.search.start import founders
from evodevo.search.steady import SteadyState
from evodevo.storage import Lease, Store
from evodevo.storage.base import names_of


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
        evaluate: Problem, or a plain function genome -> number(s), which is evaluated in forks of this process where it
            has one thread, else in this process (see ``own_function``).
        goals: Meaning of the function's numbers: names (all minimised) or ``Goal``; ignored for a problem, which has
            goals of its own.
        settings: Settings of the search.
        store: Store of the records; None = in memory.
        seconds: Time limit in seconds of one evaluation of a function; None = no limit. A problem has its own.
        memory_bytes: Memory limit in bytes of one evaluation of a function; None = what is free now.
        executor: Executor of the evaluations, closed by the caller; None = forks for a function, else this process.
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
        seconds: float | None = None,
        memory_bytes: int | None = None,
        store: Store | None = None,
        executor: Executor | None = None,
        algorithm: Algorithm | None = None,
        run: str | None = None,
        record: Mapping[str, Any] | None = None,
        listener: Listener | None = None,
    ) -> None:
        named = tuple(goal if isinstance(goal, Goal) else Goal(goal) for goal in goals)
        self.problem = (
            evaluate
            if isinstance(evaluate, Problem)
            else FunctionProblem(space, evaluate, named, seconds, memory_bytes)
        )
        self.space = space
        self.settings = settings or StudySettings()
        self.settings.check(self.problem)
        self.algorithm = (algorithm or self.settings.create()).informed(self.problem.foresee)
        given = founders(self.settings.start, space, self.settings.population)
        self.store = store if store is not None else Store.memory()
        self.listener = listener or (lambda kind, facts: None)
        self._described: dict[str, Any] | None = None
        self._exhausted: set[int] = set()
        self._recorder: Recorder | None = None
        if run is not None:
            self._check(run)
        self.run_id = run or self._create(record or {})
        self.part_of: str | None = None
        goals, parts = self.problem.goals, (self.store, self._notify)
        self._members = Members(space, self.store, self.run_id, self.seed(0), self._notify)
        self._own_executor = default_executor(self.problem) if executor is None else None
        used = executor or self._own_executor
        assert used is not None, "one of the two"
        used.adopt(self.problem.local_evaluators() or {})
        dispatcher = Dispatcher(used, self.settings.retries)
        self._evaluations = Evaluations(self.problem, self.settings, self._members, dispatcher, *parts)
        self._training = RungTraining(self._evaluations, self.settings.rungs, goals, *parts)
        self._ask_tell = AskTell(self.algorithm, space, self.settings, goals, self._members, given)
        self._generations = Generations(goals, self.settings, *parts)

    @property
    def members(self) -> dict[str, Member]:
        """Id -> individual, in order of birth, baselines included."""
        return self._members.by_id

    def _notify(self, kind: str, facts: dict[str, Any]) -> None:
        """Call the listener of the moment: a caller may set another one."""
        self.listener(kind, facts)

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
        self._recorder = self._evaluations.recorder = Recorder(self.store, self.store.acquire(self.run_id))
        try:
            self.store.keep_alive(self.lease)
            if self.store.run(self.run_id).state != "running":
                self.store.finish_run(self.lease, "running")
            self._recall()
            if self._described is None:
                self._described = self.problem.describe()
                self.store.add_event(self.lease, "task", self.problem.fidelity, self._described)
            self.listener("task", self._described)
            exhausted = self._search()
            finished = self._evaluations.stop == "no" or self._is_complete(exhausted)
            if finished:
                # Those who may still have children keep theirs: a finished run can be made longer.
                self._evaluations.release(
                    INHERITANCE, [one for one in self.members.values() if one.id not in self._ask_tell.living]
                )
            # The part of the wall time that was spent waiting shows what the search itself costs.
            times = {
                "wall_seconds": self._last_score - self._first_proposal,
                "waited_seconds": self._evaluations.waited_seconds,
            }
            self.store.add_event(self.lease, "study.time", self.run_id, times)
            self.store.finish_run(self.lease, "finished" if finished else "interrupted")
            self.listener("finished", {"run": self.run_id, "state": "finished" if finished else "interrupted"})
        except EvaluationsFailedError:
            self.store.finish_run(self.lease, "failed")
            raise
        except EvodevoError:
            raise
        except Exception:
            # What is running may be the reason, and stays recorded as lost.
            self._evaluations.dispatcher.cancel_all()
            raise
        finally:
            self._evaluations.abandon()
            if self._own_executor is not None:
                self._own_executor.close()
            self.store.release(self.lease)
        return StudyResult(
            "finished" if finished else "interrupted",
            self.run_id,
            tuple(self.front()),
            tuple(self.members.values()),
            tuple(self._generations.hypervolumes),
            exhausted,
        )

    def stop(self) -> None:
        """End early: after the first call running evaluations are finished, after the second they are cancelled."""
        self._evaluations.stop = "finish" if self._evaluations.stop == "no" else "now"

    @property
    def stopping(self) -> bool:
        """Whether ``stop`` was called."""
        return self._evaluations.stop != "no"

    @property
    def dropping(self) -> bool:
        """Whether ``stop`` was called again."""
        return self._evaluations.stop == "now"

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
            exhausted = self._generational()
        else:
            exhausted = SteadyState(
                self.settings, self._members, self._evaluations, self._ask_tell, self._generations
            ).run()
        if self._evaluations.stop == "no" or self._is_searched(exhausted):
            own = [member.outcomes[0] for member in self._members.own() if 0 in member.outcomes]
            judge_failures(own, self.settings.max_failed_share, self.run_id)
            self._confirm()
        self._last_score = time.monotonic()
        return exhausted

    def _is_searched(self, exhausted: bool) -> bool:
        """Whether all generations are done; a stop that comes after the last evaluation has nothing to end."""
        return exhausted or len(self._generations.hypervolumes) >= self.settings.generations

    def _is_complete(self, exhausted: bool) -> bool:
        """Whether nothing is left to do, confirmations included."""
        numbers = range(1, self.settings.confirmations + 1)
        return self._is_searched(exhausted) and all(
            number in member.outcomes for number in numbers for member in self._confirmed()
        )

    def _confirmed(self) -> list[Member]:
        """The members that are evaluated with fresh seeds: baselines and front."""
        return self._members.baselines() + self.front()

    def _baselines(self) -> None:
        self.listener("phase", {"name": "baselines"})
        born = []
        for slot, (name, genome) in enumerate(self.problem.baselines().items()):
            proposal = Proposal(genome, (), BASELINE, {"name": name})
            born.append((f"{BASELINE}/{name}", -1, slot, proposal))
        self._evaluations.evaluate(self._members.add(self.lease, born))

    def _generational(self) -> bool:
        """Ask for, evaluate and tell generation after generation. True where the space ran out of genomes."""
        state = self.algorithm.start()
        for generation in range(self.settings.generations):
            members, exhausted = self._generation(state, generation)
            self._training.train(members, generation)
            if any(0 not in member.outcomes for member in members):
                return False  # stopped
            state = self._ask_tell.tell(state, members)
            self._generations.close(self.lease, generation, members, state)
            ended = [member for member in self._ask_tell.told if member.id not in self._ask_tell.living]
            self._evaluations.release(INHERITANCE, ended)
            if exhausted or self.stopping:
                return exhausted
        return False

    def _generation(self, state: SearchState, generation: int) -> tuple[list[Member], bool]:
        """The members of a generation, recorded or new, and whether the space was exhausted."""
        recorded = [member for member in self.members.values() if member.generation == generation]
        if recorded:
            return sorted(recorded, key=lambda member: member.slot), generation in self._exhausted
        count = self.algorithm.offspring if generation else self.algorithm.settings.population
        proposals, exhausted = self._ask_tell.ask(state, generation, count, generation, first=generation == 0)
        born = [(f"{generation}/{slot}", generation, slot, proposal) for slot, proposal in enumerate(proposals)]
        if exhausted:
            self.store.add_event(self.lease, "space.exhausted", str(generation), {})
        return self._members.add(self.lease, born), exhausted

    def _confirm(self) -> None:
        """Evaluate the front and the baselines again, with seeds that played no part in the search."""
        if not self.settings.confirmations or self.stopping:
            return
        self.listener("phase", {"name": "confirmation"})
        chosen = self._confirmed()
        for number in range(1, self.settings.confirmations + 1):
            if not self.stopping:
                self._evaluations.evaluate(chosen, number)

    def seed(self, number: int) -> int:
        """The seed of the number-th evaluation of every individual.

        It does not depend on the individual, so that all are trained on the same data in the same order.
        """
        return integer_seed(self.settings.seed, "evaluation", number)

    def _recall(self) -> None:
        """Restore the members, outcomes and generations of a resumed run from the store."""
        self._members.recall(inheritance=self.settings.inheritance is not None)
        self._evaluations.recall()
        for event in self.store.events(self.run_id):
            if event.type == "generation":
                number, facts = to_generation(event)
                self._generations.recorded[number] = facts
            elif event.type == "space.exhausted":
                self._exhausted.add(int(event.subject))
            elif event.type == "rung":
                self._training.decisions[event.subject] = event.fact("went_on", names_of)
            elif event.type == "task":
                self._described = event.payload
        done = sum(0 in member.outcomes for member in self.members.values())
        facts = {"run": self.run_id, "individuals": len(self.members), "evaluated": done}
        self.listener("run", facts)

    def front(self) -> list[Member]:
        """The non-dominated individuals of the search, without baselines, in order of birth."""
        return front_of(self._members.own(), self.problem.goals)
