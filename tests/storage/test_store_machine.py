"""Random histories against a plain dictionary: create, add, start, finish, crash, reopen, release, gc, repair."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sqlalchemy import update

from evodevo.errors import NotFoundError, RunOwnedError, StoreDamagedError
from evodevo.storage import Evaluation, Lease, Score, Store, database
from evodevo.storage.base import sha256
from evodevo.storage.schema import lease_table
from evodevo.testing.storages import new_run, newborn

NUMBERS = st.floats(allow_nan=True, allow_infinity=True)
CONTENTS = st.integers(0, 5).map(lambda number: bytes([number]) * 100)


class Crash(BaseException):
    """The process ends here, as far as the store can tell."""


@dataclass
class Attempt:
    state: str
    reason: str | None = None
    scores: dict[str, Score] = field(default_factory=dict)
    blobs: dict[str, str] = field(default_factory=dict)


@dataclass
class Reference:
    """What a store is, in three dictionaries."""

    individuals: dict[str, tuple[str, ...]] = field(default_factory=dict)
    attempts: dict[tuple[str, int, int], Attempt] = field(default_factory=dict)
    pool: dict[str, bytes] = field(default_factory=dict)

    def held(self) -> set[str]:
        return {digest for attempt in self.attempts.values() for digest in attempt.blobs.values()}

    def last(self, individual: str, seed: int) -> int:
        return max((key[2] for key in self.attempts if key[:2] == (individual, seed)), default=0)


class StoreMachine(RuleBasedStateMachine):
    """One run; the in-memory store crashes by losing nothing but its lease."""

    in_memory = False

    @initialize()
    def open(self) -> None:
        # A folder in memory where there is one: the histories are many, and fsync is not what is tested here.
        shared = Path("/dev/shm")
        self.folder = Path(tempfile.mkdtemp(dir=shared if os.access(shared, os.W_OK) else None))
        self.store = Store.memory() if self.in_memory else Store.open(self.folder / "runs")
        self.run_id = new_run(self.store)
        self.lease: Lease = self.store.acquire(self.run_id)
        self.model = Reference()
        self.damaged: set[str] = set()
        self.births = 0
        self.old: list[Lease] = []

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.folder)

    @rule(data=st.data(), count=st.integers(1, 3), crash=st.booleans())
    def add(self, data: st.DataObject, count: int, crash: bool) -> None:
        known = list(self.model.individuals)  # in order of birth: ids differ from run to run, and histories must not
        parents = data.draw(st.lists(st.sampled_from(known), max_size=2)) if known else []
        batch = [newborn(self.run_id, f"0/{self.births + place}", parents) for place in range(count)]
        if crash:
            self.crash_at("before_individuals", lambda: self.store.add_individuals(self.lease, batch))
        else:
            assert self.store.add_individuals(self.lease, batch) == count
            self.births += count
            self.model.individuals.update({one.id: one.parents for one in batch})

    @precondition(lambda self: self.model.individuals)
    @rule(data=st.data(), seed=st.integers(0, 1))
    def start(self, data: st.DataObject, seed: int) -> None:
        individual = data.draw(st.sampled_from(list(self.model.individuals)))
        last = self.model.last(individual, seed)
        for key, attempt in self.model.attempts.items():
            if key[:2] == (individual, seed) and attempt.state == "running":
                attempt.state = "stale"
        assert self.store.start_evaluation(self.lease, individual, "quick", seed) == last + 1
        self.model.attempts[individual, seed, last + 1] = Attempt("running")

    @precondition(lambda self: self.model.individuals)
    @rule(data=st.data(), seed=st.integers(0, 1), score=NUMBERS, content=CONTENTS, crash=st.booleans())
    def finish(self, data: st.DataObject, seed: int, score: float, content: bytes, crash: bool) -> None:
        individual = data.draw(st.sampled_from(list(self.model.individuals)))
        attempt = data.draw(st.integers(1, self.model.last(individual, seed) + 1))
        failed = data.draw(st.booleans())
        digest = self.store.blobs.put_bytes(content)
        self.model.pool[digest] = content
        self.damaged.discard(digest)
        outcome: dict[str, Any] = {"state": "failed", "reason": "crash"} if failed else {"state": "done"}
        scores, blobs = {"loss": Score.of(score)}, {"weights": digest}
        evaluation = Evaluation(individual, "quick", seed, attempt, **outcome, scores=scores, blobs=blobs)
        if crash:
            self.crash_at("before_evaluation_commit", lambda: self.store.finish_evaluation(self.lease, evaluation))
            return
        before = self.model.attempts.get((individual, seed, attempt))
        current = attempt >= self.model.last(individual, seed) and (before is None or before.state == "running")
        assert self.store.finish_evaluation(self.lease, evaluation) is current
        if current:
            self.model.attempts[individual, seed, attempt] = Attempt(evaluation.state, evaluation.reason, scores, blobs)

    @precondition(lambda self: self.old and self.model.individuals)
    @rule(data=st.data())
    def finish_with_an_old_lease(self, data: st.DataObject) -> None:
        individual = data.draw(st.sampled_from(list(self.model.individuals)))
        with pytest.raises(RunOwnedError):
            self.store.finish_evaluation(data.draw(st.sampled_from(self.old)), Evaluation(individual, "quick", 0, 99))

    @rule(content=CONTENTS)
    def put_without_a_row(self, content: bytes) -> None:
        digest = self.store.blobs.put_bytes(content)
        self.model.pool[digest] = content
        self.damaged.discard(digest)

    @rule()
    def crash(self) -> None:
        # The holder dies without release; the next one finds its pid dead.
        with self.store._database.writing() as connection:
            connection.execute(update(lease_table).values(pid=2**22 + 1))
        if not self.in_memory:
            self.store._database.close()
            self.store = Store.open(self.folder / "runs")
        self.old.append(self.lease)
        self.lease = self.store.acquire(self.run_id)
        assert self.lease.token == self.old[-1].token + 1

    @precondition(lambda self: not self.in_memory)
    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = Store.open(self.folder / "runs", create=False)
        self.old.append(self.lease)
        self.lease = self.store.acquire(self.run_id)

    @precondition(lambda self: self.model.attempts)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        rows = self.store.evaluations(self.run_id)
        chosen = data.draw(st.lists(st.sampled_from(rows), max_size=3, unique_by=lambda row: row.id))
        count = self.store.release_blobs(self.lease, [row.id for row in chosen])
        assert count == sum(len(row.blobs) for row in chosen)
        for row in chosen:
            self.model.attempts[row.individual_id, row.seed, row.attempt].blobs = {}

    @rule()
    def gc(self) -> None:
        free = set(self.model.pool) - self.model.held()
        assert set(self.store.gc(grace_seconds=-1).blobs) == free
        for digest in free:
            del self.model.pool[digest]
        self.damaged -= free

    @precondition(lambda self: self.model.held() - self.damaged)
    @rule(data=st.data(), how=st.sampled_from(["flip", "truncate", "remove"]))
    def damage(self, data: st.DataObject, how: str) -> None:
        digest = data.draw(st.sampled_from(sorted(self.model.held() - self.damaged)))
        self.damaged.add(digest)
        if how == "remove":
            self.store.blobs.remove(digest)
            del self.model.pool[digest]
        elif self.in_memory:
            self.store.blobs._blobs[digest] = b"torn"  # type: ignore[attr-defined]
        else:
            path = self.store.blobs.path(digest)
            path.write_bytes(b"x" + path.read_bytes()[1:] if how == "flip" else path.read_bytes()[:50])

    @rule()
    def repair(self) -> None:
        self.store.release(self.lease)
        self.old.append(self.lease)
        lost = {
            key: attempt for key, attempt in self.model.attempts.items() if self.damaged & set(attempt.blobs.values())
        }
        report = self.store.repair()
        assert set(report.quarantined) == self.damaged & self.model.held()
        assert len(report.lost_evaluations) == len(lost)
        assert report.remaining == ()
        for digest in report.quarantined:
            self.model.pool.pop(digest, None)
        for attempt in lost.values():
            attempt.state, attempt.reason, attempt.blobs = "failed", "lost", {}
        self.damaged -= set(report.quarantined)
        self.lease = self.store.acquire(self.run_id)

    @invariant()
    def the_store_is_the_reference(self) -> None:
        if not hasattr(self, "store"):
            return
        assert {row.id: row.parents for row in self.store.individuals(self.run_id)} == self.model.individuals
        rows = self.store.evaluations(self.run_id)
        found = {
            (row.individual_id, row.seed, row.attempt): Attempt(row.state, row.reason, row.scores, row.blobs)
            for row in rows
        }
        assert found == self.model.attempts
        finished = [row.finished_seq for row in rows if row.finished_seq is not None]
        assert finished == sorted(finished)
        problems = {problem.subject for problem in self.store.check(deep=True).problems}
        assert problems == self.damaged & self.model.held()
        assert set(self.store.blobs.digests()) == set(self.model.pool)
        for digest, content in self.model.pool.items():
            if digest not in self.damaged:
                assert self.store.blobs.get(digest) == content
                assert sha256(content) == digest
        for digest in self.damaged:
            with pytest.raises((StoreDamagedError, NotFoundError)):
                self.store.blobs.get(digest)

    def crash_at(self, point: str, write: Any) -> None:
        def failpoint(name: str) -> None:
            if name == point:
                raise Crash

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(database, "failpoint", failpoint)
            with pytest.raises(Crash):
                write()
        self.crash()


class MemoryStoreMachine(StoreMachine):
    in_memory = True


HISTORIES = settings(
    max_examples=6,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestFolderHistories = pytest.mark.slow(StoreMachine.TestCase)
TestFolderHistories.settings = HISTORIES
TestMemoryHistories = pytest.mark.slow(MemoryStoreMachine.TestCase)
TestMemoryHistories.settings = HISTORIES
