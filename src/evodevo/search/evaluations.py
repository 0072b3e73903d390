"""Evaluation of a search's members: on an executor, recorded as it ends, never twice."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Literal

from evodevo.errors import EvodevoError
from evodevo.randomness import integer_seed
from evodevo.search.dispatch import POLL_SECONDS, Dispatcher, Finished, Ticket
from evodevo.search.members import BASELINE, Listener, Member, Members
from evodevo.search.problem import INHERITANCE, SNAPSHOT, Outcome, Problem, Terms, write_numbers
from evodevo.search.record import REPEATABLE, is_final, is_lost, to_evaluation, to_outcome
from evodevo.search.recorder import Recorder
from evodevo.search.settings import StudySettings
from evodevo.storage import EvaluationRow, Store, evaluation_id
from evodevo.storage.base import RESUMED

LOST_ATTEMPTS = 5
"""Starts of an evaluation, over all resumes, that may end without an answer and without a further checkpoint."""
_Key = tuple[str, int, float]
"""Id of an individual, number of the seed, share of the budget."""


class Evaluations:
    """The evaluations of one search.

    Args:
        problem: Problem that evaluates genomes.
        settings: Settings of the search.
        members: Individuals of the run.
        dispatcher: Dispatcher of the jobs.
        store: Store of the run.
        listener: Function called for each event.

    Attributes:
        recorder: Record of the run's evaluations; set while the search runs.
        stop: ``no``; ``finish`` starts no further evaluation; ``now`` cancels the running ones too.
        waited_seconds: Time spent waiting for the executor, in seconds.
    """

    recorder: Recorder

    def __init__(
        self,
        problem: Problem,
        settings: StudySettings,
        members: Members,
        dispatcher: Dispatcher,
        store: Store,
        listener: Listener,
    ) -> None:
        self.dispatcher = dispatcher
        self.stop: Literal["no", "finish", "now"] = "no"
        self.waited_seconds = 0.0
        self._problem = problem
        self._settings = settings
        self._members = members
        self._store = store
        self._listener = listener
        self._attempts: dict[_Key, int] = {}
        self._lost: dict[_Key, list[EvaluationRow]] = {}
        self._decided: list[Finished] = []

    def recall(self) -> None:
        """Restore the outcomes of a resumed run's members from the store."""
        numbers = {self.seed(number): number for number in range(self._settings.confirmations + 1)}
        for evaluation in self._store.evaluations(self._members.run):
            if evaluation.individual_id in self._members.by_id and evaluation.seed in numbers:
                member, number = self._members.by_id[evaluation.individual_id], numbers[evaluation.seed]
                share = self._share_of(member, number, evaluation.fidelity)
                key = (member.id, number, share)
                self._attempts[key] = max(evaluation.attempt, self._attempts.get(key, 0))
                if is_lost(evaluation):
                    self._lost.setdefault(key, []).append(evaluation)
                if is_final(evaluation) and share < 1:
                    member.rungs[share] = to_outcome(evaluation)
                elif is_final(evaluation):
                    member.outcomes[number] = to_outcome(evaluation)

    def by_completion(self) -> list[Member]:
        """The members of the search with a recorded outcome, in order of completion."""
        rows = self._store.evaluations(self._members.run)
        first = self.seed(0)
        ids = dict.fromkeys(row.individual_id for row in rows if row.seed == first and is_final(row))
        members = [self._members.by_id[identity] for identity in ids if identity in self._members.by_id]
        return [member for member in members if member.operation != BASELINE]

    def seed(self, number: int) -> int:
        """The seed of the number-th evaluation of every individual; see ``Study.seed``."""
        return integer_seed(self._settings.seed, "evaluation", number)

    @property
    def busy(self) -> bool:
        """Whether an evaluation is running or its outcome is not recorded yet."""
        return bool(len(self.dispatcher) or self._decided)

    def evaluate(self, members: Sequence[Member], number: int = 0) -> None:
        """Evaluate members without an outcome for this seed; returns when all have one, or after ``stop``."""
        pending = [member for member in members if number not in member.outcomes]
        # Members whose genome equals an earlier one go second: by then the original has an outcome to copy.
        self.work([member for member in pending if self._members.original(member) is member], number)
        self.work([member for member in pending if self._members.original(member) is not member], number)

    def work(self, pending: list[Member], number: int, share: float = 1.0) -> None:
        """Evaluate these members; returns when all have an outcome there, or after a stop.

        Args:
            pending: Members; the list is emptied as they are started.
            number: Number of the seed; 0 is the evaluation for the search.
            share: Share of the budget, above 0, at most 1.
        """
        while True:
            while pending and self.dispatcher.free and self.stop == "no":
                self.submit(pending.pop(0), number, share)
            if not self.busy:
                return
            self.poll()

    def submit(self, member: Member, number: int, share: float = 1.0) -> None:
        """Start one evaluation, from its checkpoint or snapshot where there is one; see ``work``."""
        seed = self.seed(number)
        attempt = self._attempts.get((member.id, number, share), 0) + 1
        checkpoint = self.recorder.checkpoint(Ticket(member.id, number, attempt, share))
        decided = self.decided_before(member, number) or self._given_up((member.id, number, share), checkpoint)
        # A row at the start shows after a crash what was running; a store in memory would not survive the crash.
        if decided is None and self._store.durable:
            attempt = self._store.start_evaluation(
                self.recorder.lease, member.id, self._fidelity(member, number, share), seed, checkpoint
            )
        self._attempts[member.id, number, share] = attempt
        ticket = Ticket(member.id, number, attempt, share)
        if decided is not None:
            self._decided.append(Finished(ticket, decided))
            return
        resume = checkpoint or (self._snapshot(member, share) if number == 0 else None)
        terms = self._terms(member, number, share)
        self.dispatcher.submit(ticket, self._problem, member.genome, seed, resume, terms)
        facts = {} if share == 1 else {"share": share}
        self._listener("started", {"id": member.id, "seed": number, "attempt": attempt, **facts})

    def decided_before(self, member: Member, number: int) -> Outcome | None:
        """An outcome that needs no training: a broken constraint, or that of an equal genome."""
        return self._problem.screen(member.genome) or self._of_its_original(member, number)

    def _given_up(self, key: _Key, checkpoint: str | None) -> Outcome | None:
        """The end of an evaluation that ends its worker or its coordinator again and again, without getting further."""
        same = [row for row in self._lost.get(key, ()) if row.extra.get(RESUMED) == checkpoint]
        if len(same) < LOST_ATTEMPTS:
            return None
        last = next((f" The last one: {row.detail}" for row in reversed(same) if row.detail), "")
        detail = f"{len(same)} attempts ended with their worker or with the whole run, without an answer.{last}"
        return Outcome(reason="crash", detail=detail)

    def abandon(self) -> None:
        """Stop what is running, on purpose."""
        open_evaluations = len(self.dispatcher)
        self.dispatcher.cancel_all()
        if open_evaluations and self._store.durable:
            with suppress(EvodevoError):  # an error here would hide that for which it is stopped
                self._store.abandon_evaluations(self.recorder.lease)

    def _of_its_original(self, member: Member, number: int) -> Outcome | None:
        """The outcome of an earlier individual with the same genome (a baseline), which is not evaluated again."""
        original = self._members.original(member)
        outcome = original.outcomes.get(number)
        if original is member or outcome is None or outcome.reason in REPEATABLE:
            return None
        if number == 0 and member.donors:
            return None  # it begins with other weights
        return replace(outcome, extra={**outcome.extra, "same_as": original.id}, seconds=0.0)

    def release(self, role: str, members: Iterable[Member], share: float = 1.0) -> None:
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
            self._store.release_blobs(self.recorder.lease, evaluations, roles=sorted(roles))

    def poll(self) -> list[Member]:
        """Record finished evaluations; returns the members whose evaluation for the search ended, in that order."""
        ended = []
        before = time.monotonic()
        decided, self._decided = self._decided, []
        events = [*decided, *self.dispatcher.poll(0.0 if decided else POLL_SECONDS)]
        self.waited_seconds += time.monotonic() - before
        for event in events:
            if not isinstance(event, Finished):
                if not self.recorder.message(event):
                    continue
                facts = {name: value for name, value in event.payload.items() if name != "event"}
                self._listener("progress", {"id": event.ticket.individual, "seed": event.ticket.seed, **facts})
                continue
            self._record(event)
            if event.ticket.seed == 0:
                ended.append(self._members.by_id[event.ticket.individual])
        self.recorder.heartbeat()
        if self.stop == "now":
            self.dispatcher.cancel_all()
        return ended

    def _record(self, event: Finished) -> None:
        ticket, member = event.ticket, self._members.by_id[event.ticket.individual]
        outcome = replace(self.recorder.judged(ticket, event.outcome), share=ticket.share)
        if outcome.reason in REPEATABLE and (checkpoint := self.recorder.checkpoint(ticket)) is not None:
            outcome = replace(outcome, extra={**outcome.extra, RESUMED: checkpoint})
        fidelity, seed = self._fidelity(member, ticket.seed, ticket.share), self.seed(ticket.seed)
        row = to_evaluation(ticket.individual, fidelity, seed, ticket.attempt, outcome)
        self.recorder.finish(ticket, row, ended=outcome.reason not in REPEATABLE)
        if ticket.share < 1:
            member.rungs[ticket.share] = outcome
        else:
            member.outcomes[ticket.seed] = outcome
        facts = {"id": ticket.individual, "seed": ticket.seed, "reason": outcome.reason, "seconds": outcome.seconds}
        facts |= {} if ticket.share == 1 else {"share": ticket.share}
        self._listener("evaluated", {**facts, "scores": write_numbers(outcome.scores), "detail": outcome.detail[-300:]})

    def _terms(self, member: Member, number: int, share: float) -> Terms:
        """Confirmations and baselines are trained from scratch, without rungs, for the whole budget."""
        inheritance = self._settings.inheritance
        if number or inheritance is None:
            return Terms(share=share)
        donors = [(donor, self._members.by_id[donor].outcomes[0].blobs.get(INHERITANCE, "")) for donor in member.donors]
        return Terms(share, inheritance.budget if donors else 1.0, tuple(donors), bequeaths=True)

    def _fidelity(self, member: Member, number: int, share: float) -> str:
        """The problem's, and before it what else decides these scores."""
        inherited = self._settings.inheritance if member.donors and number == 0 else None
        words = [] if share == 1 else [f"share={share!r}"]
        words += [] if inherited is None else [f"inherited={inherited.budget!r}"]
        return ";".join([*words, self._problem.fidelity])

    def _share_of(self, member: Member, number: int, fidelity: str) -> float:
        """Share of the budget of a recorded evaluation; the inverse of ``_fidelity``."""
        shares = () if self._settings.rungs is None else self._settings.rungs.shares
        return next((share for share in shares if self._fidelity(member, number, share) == fidelity), 1.0)

    def _snapshot(self, member: Member, share: float) -> str | None:
        """Digest of the snapshot of the last rung below this share."""
        below = [rung for rung in member.rungs if rung < share]
        return member.rungs[max(below)].blobs.get(SNAPSHOT) if below else None
