"""The laws of stores, as a test class to inherit.

class TestMyStore(StoreTests):
    def make(self, folder: Path) -> Store:
        return MyStore(folder)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from evodevo.errors import NotFoundError, RunOwnedError, UsageError
from evodevo.storage import Evaluation, Lease, NewIndividual, Parent, Score, Store, individual_id
from evodevo.storage.base import GarbageReport, evaluation_id

FIDELITY = "tokens=1000"
SETTINGS = {"population": 4, "name": "größer", "nested": {"list": [1, 2.5, None, True]}}
SPACE = {"space": "backbone", "settings": {"depth": 4}}
VERSIONS = {"evodevo": "0.1.0", "torch": "2.13.0"}


def new_run(store: Store, seed: int = 7) -> str:
    """A run like any other."""
    return store.create_run("evolve", "backbone.demo", SETTINGS, seed, SPACE, VERSIONS)


def newborn(run_id: str, birth: str, parents: Sequence[str] = (), **other: Any) -> NewIndividual:
    """An individual of a birth key ``generation/slot``."""
    generation, slot = (int(word) for word in birth.split("/"))
    values: dict[str, Any] = {
        "genome_envelope": {"space": "test", "version": 1, "genes": [generation, slot]},
        "genome_hash": f"hash-{birth}",
        "operation": "crossover" if parents else "initial",
        "details": {"redraws": slot},
        "seed": 2**63 - 1 - slot,
        **other,
    }
    return NewIndividual(individual_id(run_id, birth), birth, generation, slot, parents=tuple(parents), **values)


def grown(store: Store, count: int = 4) -> tuple[Lease, list[NewIndividual]]:
    """A run that this process holds, with a generation 0."""
    run_id = new_run(store)
    lease = store.acquire(run_id)
    individuals = [newborn(run_id, f"0/{slot}") for slot in range(count)]
    assert store.add_individuals(lease, individuals) == count
    return lease, individuals


class StoreTests:
    """The laws of every store."""

    def make(self, folder: Path) -> Store:
        """A new, empty store; ``folder`` exists and is empty."""
        raise NotImplementedError

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        with self.make(tmp_path) as store:
            yield store

    # Runs

    def test_a_run_is_read_as_it_was_written(self, store: Store) -> None:
        run_id = new_run(store)
        run = store.run(run_id)
        assert (run.id, run.kind, run.recipe, run.seed, run.state) == (run_id, "evolve", "backbone.demo", 7, "running")
        assert (run.settings, run.space, run.versions) == (SETTINGS, SPACE, VERSIONS)
        assert run.finished_at is None
        assert store.runs() == [run]
        assert [event.type for event in store.events(run_id)] == ["run.created"]

    def test_runs_come_in_the_order_of_their_making(self, store: Store) -> None:
        made = [new_run(store) for _ in range(5)]
        assert [run.id for run in store.runs()] == made
        assert len(set(made)) == 5

    def test_a_run_ends_and_goes_on(self, store: Store) -> None:
        lease = store.acquire(new_run(store))
        store.finish_run(lease, "interrupted")
        assert store.run(lease.run_id).finished_at is not None
        store.finish_run(lease, "running")
        assert store.run(lease.run_id).finished_at is None
        store.finish_run(lease, "finished")
        assert store.run(lease.run_id).state == "finished"
        with pytest.raises(UsageError, match="interrupted"):
            store.finish_run(lease, "paused")  # type: ignore[arg-type]

    def test_changed_settings_leave_the_old_ones_in_an_event(self, store: Store) -> None:
        lease = store.acquire(new_run(store))
        store.change_settings(lease, {"population": 8})
        assert store.run(lease.run_id).settings == {"population": 8}
        assert store.events(lease.run_id)[-1].payload == {"before": SETTINGS, "after": {"population": 8}}

    def test_a_seed_that_does_not_fit_is_refused(self, store: Store) -> None:
        wrong: tuple[Any, ...] = (-1, 2**63, 1.5, "1")
        for seed in wrong:
            with pytest.raises(UsageError, match="seed"):
                new_run(store, seed)
        assert store.runs() == []

    def test_settings_without_a_json_form_are_refused(self, store: Store) -> None:
        for value in (math.nan, math.inf, object(), "\ud800"):
            with pytest.raises(UsageError):
                store.create_run("evolve", "r", {"x": value}, 0)
        assert store.runs() == []

    def test_what_is_not_there_is_not_found(self, store: Store) -> None:
        for ask in (store.run, store.individual, store.acquire):
            with pytest.raises(NotFoundError):
                ask("r000000000000")
        assert store.evaluations("r000000000000") == []
        assert store.series("nothing") == {}

    # Leases

    def test_one_holder_at_a_time_and_tokens_grow(self, store: Store) -> None:
        run_id = new_run(store)
        first = store.acquire(run_id)
        assert store.owner(run_id) is not None
        with pytest.raises(RunOwnedError, match="open in process"):
            store.acquire(run_id)
        store.release(first)
        assert store.owner(run_id) is None
        second = store.acquire(run_id)
        assert second.token > first.token
        store.release(first)  # an old lease takes nothing away
        store.heartbeat(second)

    def test_an_old_token_writes_nothing(self, store: Store) -> None:
        lease, (individual, *_) = grown(store)
        digest = store.blobs.put_bytes(b"weights")
        evaluation = Evaluation(individual.id, FIDELITY, 0, scores={"loss": Score(1.0)})
        store.release(lease)
        current = store.acquire(lease.run_id)
        before = (store.run(lease.run_id), store.individuals(lease.run_id), store.events())
        writes: dict[str, Callable[[], object]] = {
            "heartbeat": lambda: store.heartbeat(lease),
            "finish_run": lambda: store.finish_run(lease, "finished"),
            "change_settings": lambda: store.change_settings(lease, {}),
            "add_individuals": lambda: store.add_individuals(lease, [newborn(lease.run_id, "1/0")]),
            "start_evaluation": lambda: store.start_evaluation(lease, individual.id, FIDELITY, 0),
            "finish_evaluation": lambda: store.finish_evaluation(lease, evaluation),
            "add_event": lambda: store.add_event(lease, "x", "y", {}),
            "attach_blobs": lambda: store.attach_blobs(lease, {"tokenizer": digest}),
            "detach_blobs": lambda: store.detach_blobs(lease, ["tokenizer"]),
            "release_blobs": lambda: store.release_blobs(lease, []),
        }
        for name, write in writes.items():
            with pytest.raises(RunOwnedError, match="no longer owns"):
                write()
            assert (store.run(lease.run_id), store.individuals(lease.run_id), store.events()) == before, name
        assert store.evaluations(lease.run_id) == []
        assert store.run_blobs(lease.run_id) == {}
        assert store.finish_evaluation(current, evaluation)

    # Individuals and ancestry

    def test_individuals_are_read_as_they_were_written(self, store: Store) -> None:
        lease, first = grown(store)
        children = [
            newborn(lease.run_id, "1/0", (first[0].id, first[1].id)),
            newborn(lease.run_id, "1/1", (first[1].id,)),
            newborn(lease.run_id, "1/2", (first[2].id, first[2].id)),
        ]
        store.add_individuals(lease, children)
        rows = store.individuals(lease.run_id)
        assert [row.birth for row in rows] == ["0/0", "0/1", "0/2", "0/3", "1/0", "1/1", "1/2"]
        for row, new in zip(rows, [*first, *children], strict=True):
            for name in vars(new):
                assert getattr(row, name) == getattr(new, name), name
            assert row.run_id == lease.run_id
            assert store.individual(row.id) == row
        assert store.individuals(lease.run_id, generation=1) == rows[4:]
        assert store.individuals(lease.run_id, since_seq=rows[0].created_seq) == rows[4:]

    def test_ids_follow_from_run_and_birth_alone(self, store: Store) -> None:
        assert individual_id("r0", "1/2") == individual_id("r0", "1/2") != individual_id("r1", "1/2")
        run_id = new_run(store)
        lease = store.acquire(run_id)
        wrong = NewIndividual("a" * 12, "0/0", 0, 0, {}, "h", "initial")
        with pytest.raises(UsageError, match="individual_id"):
            store.add_individuals(lease, [wrong])
        assert store.individuals(run_id) == []

    def test_adding_again_changes_nothing_and_adding_otherwise_is_refused(self, store: Store) -> None:
        lease, first = grown(store)
        before = store.events()
        assert store.add_individuals(lease, first) == 0
        assert store.events() == before
        with pytest.raises(UsageError, match="something else"):
            store.add_individuals(lease, [newborn(lease.run_id, "0/1", genome_hash="other")])
        assert store.add_individuals(lease, [*first, newborn(lease.run_id, "0/9")]) == 1

    def test_a_batch_with_an_unknown_parent_leaves_nothing(self, store: Store) -> None:
        lease, first = grown(store)
        batch = [newborn(lease.run_id, "1/0", (first[0].id,)), newborn(lease.run_id, "1/1", ("f" * 12,))]
        with pytest.raises(UsageError):
            store.add_individuals(lease, batch)
        assert len(store.individuals(lease.run_id)) == len(first)

    def test_what_no_column_can_hold_is_refused(self, store: Store) -> None:
        lease, first = grown(store)
        wrong: list[dict[str, Any]] = [{"operation": "\ud800"}, {"details": {"x": "\udfff"}}, {"seed": 2**63}]
        for child in (*(newborn(lease.run_id, "1/0", **each) for each in wrong), newborn(lease.run_id, f"{2**70}/0")):
            with pytest.raises(UsageError):
                store.add_individuals(lease, [child])
        assert len(store.individuals(lease.run_id)) == len(first)

    def test_lineage_walks_to_the_first_ancestors_and_across_runs(self, store: Store) -> None:
        _, first = grown(store, 2)
        other = store.acquire(new_run(store))
        middle = newborn(other.run_id, "0/0", (first[0].id, first[1].id))
        last = newborn(other.run_id, "1/0", (middle.id, first[0].id))
        store.add_individuals(other, [middle])
        store.add_individuals(other, [last])
        assert store.parents(last.id) == [Parent(last.id, middle.id, "a"), Parent(last.id, first[0].id, "b")]
        assert [arrow.child_id for arrow in store.children(first[0].id)] == [middle.id, last.id]
        up = [Parent(middle.id, first[0].id, "a"), Parent(middle.id, first[1].id, "b")]
        assert store.lineage(last.id) == [*store.parents(last.id), *up]
        assert store.lineage(last.id, depth=1) == store.parents(last.id)
        assert store.lineage(last.id, depth=2) == store.lineage(last.id)
        assert store.lineage(first[0].id) == []

    # Evaluations

    def test_an_evaluation_is_read_as_it_was_written(self, store: Store) -> None:
        lease, (individual, *_) = grown(store)
        blobs = {role: store.blobs.put_bytes(role.encode()) for role in ("weights", "optimizer")}
        curve = [(0.0, 1.5), (10.0, math.inf), (20.0, -0.0)]
        evaluation = Evaluation(
            individual.id,
            FIDELITY,
            3,
            attempt=store.start_evaluation(lease, individual.id, FIDELITY, 3),
            scores={"loss": Score(1.25), "cache": Score(None, "diverged"), "parameters": Score(84_934_656)},
            cost={"parameters": 84_934_656},
            extra={"steps": 10},
            seconds=2.5,
            blobs=blobs,
            series={"loss": curve, "empty": []},
        )
        running = store.evaluations(lease.run_id)
        assert [(row.state, row.attempt, row.finished_seq) for row in running] == [("running", 1, None)]
        assert store.finish_evaluation(lease, evaluation)
        (row,) = store.evaluations(lease.run_id)
        for name in set(vars(evaluation)) - {"series"}:
            assert getattr(row, name) == getattr(evaluation, name), name
        assert row.id == evaluation.id == evaluation_id(individual.id, FIDELITY, 3, 1)
        assert row.run_id == lease.run_id
        assert store.series(row.id) == {"empty": [], "loss": curve}
        assert store.evaluations(individual_id=individual.id, state="done") == [row]
        assert store.evaluations(lease.run_id, state="failed") == []
        finished = store.events(lease.run_id)[-1]
        assert (finished.type, finished.subject, finished.seq) == (
            "evaluation.finished",
            individual.id,
            row.finished_seq,
        )

    def test_a_failure_keeps_its_reason_and_the_end_of_its_detail(self, store: Store) -> None:
        lease, (individual, *_) = grown(store)
        detail = "x" * 10_000 + "\udc80 the last line"
        store.finish_evaluation(
            lease, Evaluation(individual.id, FIDELITY, 0, state="failed", reason="memory", detail=detail)
        )
        (row,) = store.evaluations(lease.run_id)
        assert (row.state, row.reason, len(row.detail)) == ("failed", "memory", 4096)
        assert row.detail.endswith("? the last line")

    def test_evaluations_come_in_the_order_of_their_completion(self, store: Store) -> None:
        lease, individuals = grown(store)
        for individual in individuals:
            store.start_evaluation(lease, individual.id, FIDELITY, 0)
        order = [individuals[index] for index in (2, 0, 3)]
        for individual in order:
            store.finish_evaluation(lease, Evaluation(individual.id, FIDELITY, 0))
        ids = [row.individual_id for row in store.evaluations(lease.run_id)]
        assert ids == [individual.id for individual in (*order, individuals[1])]

    def test_only_the_current_attempt_counts_and_only_once(self, store: Store) -> None:
        lease, (individual, *_) = grown(store)
        assert [store.start_evaluation(lease, individual.id, FIDELITY, 0) for _ in range(2)] == [1, 2]
        late = Evaluation(individual.id, FIDELITY, 0, attempt=1, scores={"loss": Score(9.0)})
        right = Evaluation(individual.id, FIDELITY, 0, attempt=2, scores={"loss": Score(1.0)})
        assert not store.finish_evaluation(lease, late)
        assert store.finish_evaluation(lease, right)
        assert not store.finish_evaluation(lease, right)
        assert not store.finish_evaluation(lease, late)
        rows = store.evaluations(lease.run_id)
        assert [(row.attempt, row.state, row.scores) for row in rows] == [
            (2, "done", {"loss": Score(1.0)}),
            (1, "stale", {}),
        ]

    def test_an_attempt_before_the_last_one_comes_too_late(self, store: Store) -> None:
        lease, (individual, *_) = grown(store)
        assert store.finish_evaluation(lease, Evaluation(individual.id, FIDELITY, 0, attempt=3))
        assert not store.finish_evaluation(lease, Evaluation(individual.id, FIDELITY, 0, attempt=2))
        assert [row.attempt for row in store.evaluations(lease.run_id)] == [3]

    def test_an_evaluation_with_a_blob_that_is_not_there_leaves_nothing(self, store: Store) -> None:
        lease, (individual, *_) = grown(store)
        with pytest.raises(NotFoundError, match="not in the pool"):
            store.finish_evaluation(lease, Evaluation(individual.id, FIDELITY, 0, blobs={"weights": "0" * 64}))
        for digest in ("../../etc/passwd", "ABC", "0" * 63, "0" * 63 + "\n"):
            with pytest.raises(UsageError, match="64 hexadecimal"):
                store.finish_evaluation(lease, Evaluation(individual.id, FIDELITY, 0, blobs={"weights": digest}))
        assert store.evaluations(lease.run_id) == []

    def test_an_individual_of_another_run_may_be_evaluated_again(self, store: Store) -> None:
        lease, (individual, *_) = grown(store)
        store.finish_evaluation(lease, Evaluation(individual.id, FIDELITY, 0))
        other = store.acquire(new_run(store))
        attempt = store.start_evaluation(other, individual.id, FIDELITY, 0)
        assert attempt == 2
        assert store.finish_evaluation(other, Evaluation(individual.id, FIDELITY, 0, attempt=attempt))
        assert [row.run_id for row in store.evaluations(individual_id=individual.id)] == [lease.run_id, other.run_id]
        with pytest.raises(UsageError, match="another run"):
            store.finish_evaluation(lease, Evaluation(individual.id, FIDELITY, 0, attempt=2))

    def test_scores_survive_to_the_bit(self, store: Store) -> None:
        lease, (individual, *_) = grown(store)
        numbers = [0.1, -0.0, 5e-324, 1.7976931348623157e308, -1.7976931348623157e308, 1e22, 2.0**53, math.pi]
        numbers += [math.nan, math.inf, -math.inf]
        scores = {f"objective {place}": Score.of(number) for place, number in enumerate(numbers)}
        store.finish_evaluation(lease, Evaluation(individual.id, FIDELITY, 0, scores=scores))
        (row,) = store.evaluations(lease.run_id)
        assert row.scores == scores
        assert [repr(row.scores[name].value) for name in scores] == [repr(score.value) for score in scores.values()]
        assert [score.status for score in row.scores.values()].count("ok") == 8

    # Events

    def test_events_have_growing_numbers_and_a_cursor(self, store: Store) -> None:
        lease, _ = grown(store)
        other = new_run(store)
        first = store.add_event(lease, "generation", "0", {"hypervolume": 0.5})
        second = store.add_event(lease, "generation", "1", {})
        assert second > first
        tail = store.events(lease.run_id, since_seq=first - 1)
        assert [(event.seq, event.subject, event.payload) for event in tail] == [
            (first, "0", {"hypervolume": 0.5}),
            (second, "1", {}),
        ]
        assert store.events(lease.run_id, since_seq=first - 1, limit=1) == tail[:1]
        assert other in {event.run_id for event in store.events()}
        assert [event.seq for event in store.events()] == sorted(event.seq for event in store.events())

    # Names

    def test_any_unique_prefix_names_one_thing(self, store: Store) -> None:
        lease, individuals = grown(store, 40)
        ids = [individual.id for individual in individuals]
        for name, kind in [(lease.run_id, "run"), *((one, "individual") for one in ids)]:
            everything = [lease.run_id, *ids]
            shortest = next(
                length for length in range(1, 14) if sum(each.startswith(name[:length]) for each in everything) == 1
            )
            for length in (shortest, 12, len(name)):
                reference = store.find(name[: max(length, shortest)])
                assert (reference.kind, reference.id) == (kind, name)
            if shortest > 1:
                with pytest.raises(UsageError, match="ambiguous"):
                    store.find(name[: shortest - 1])

    def test_a_wrong_name_is_answered_with_the_nearest(self, store: Store) -> None:
        lease, (individual, *_) = grown(store)
        typo = individual.id[:8] + "zzzz"
        with pytest.raises(NotFoundError, match=individual.id):
            store.find(typo)
        with pytest.raises(NotFoundError, match=lease.run_id):
            store.find("zz")
        with pytest.raises(UsageError, match="unique prefix"):
            store.find("")

    def test_a_strange_name_is_only_not_found(self, store: Store) -> None:
        grown(store)
        for name in ("%", "_", "'; DROP TABLE run; --", "../..", "\ud800", "\0", "R" * 10_000):
            with pytest.raises(NotFoundError):
                store.find(name)

    # Blobs

    def test_a_blob_comes_back_and_twice_is_once(self, store: Store, tmp_path: Path) -> None:
        for data in (b"", b"weights", bytes(range(256)) * 1_000):
            digest = store.blobs.put_bytes(data)
            path = tmp_path / "a file"
            path.write_bytes(data)
            assert store.blobs.put_bytes(data) == store.blobs.put_file(path) == digest
            assert store.blobs.get(digest) == data
            assert store.blobs.size(digest) == len(data)
            assert store.blobs.verify(digest) is None
        assert len(list(store.blobs.digests())) == 3
        with pytest.raises(NotFoundError):
            store.blobs.get("0" * 64)

    def test_gc_takes_what_nobody_holds_and_only_that(self, store: Store) -> None:
        lease, (first, two, *_) = grown(store)
        shared, own, orphan, tokenizer = (store.blobs.put_bytes(bytes([place]) * 10) for place in range(4))
        store.finish_evaluation(lease, Evaluation(first.id, FIDELITY, 0, blobs={"weights": shared, "log": own}))
        store.finish_evaluation(lease, Evaluation(two.id, FIDELITY, 0, blobs={"weights": shared}))
        store.attach_blobs(lease, {"tokenizer": tokenizer})
        assert store.run_blobs(lease.run_id) == {"tokenizer": tokenizer}
        assert store.gc().blobs == ()  # all are young
        assert store.gc(grace_seconds=0, dry_run=True).blobs == (orphan,)
        assert store.gc(grace_seconds=0) == GarbageReport((orphan,), temporary=0, bytes=10)
        before = store.evaluations(lease.run_id)
        assert store.release_blobs(lease, [before[0].id], roles=["log"]) == 1
        assert store.gc(grace_seconds=0).blobs == (own,)
        assert store.release_blobs(lease, [before[0].id]) == 1
        assert store.gc(grace_seconds=0).blobs == ()
        assert store.release_blobs(lease, [before[1].id]) == 1
        assert store.gc(grace_seconds=0).blobs == (shared,)
        after = store.evaluations(lease.run_id)
        assert [row.blobs for row in after] == [{}, {}]
        assert [row.scores for row in after] == [row.scores for row in before]
        assert store.check(deep=True).ok
        assert store.blobs.get(tokenizer)
        # The same bytes may come back later.
        store.blobs.put_bytes(bytes([0]) * 10)
        store.finish_evaluation(lease, Evaluation(first.id, FIDELITY, 1, blobs={"weights": shared}))
        assert store.gc(grace_seconds=0).blobs == ()
        assert store.detach_blobs(lease, ["tokenizer", "unknown"]) == 1
        assert store.run_blobs(lease.run_id) == {}
        assert store.gc(grace_seconds=0).blobs == (tokenizer,)
        assert store.check(deep=True).ok

    def test_repair_leaves_a_run_that_is_open_as_it_is(self, store: Store) -> None:
        holdings = [grown(store, 1) for _ in range(2)]
        closed, opened = sorted(holdings, key=lambda holding: holding[0].run_id)
        digest = store.blobs.put_bytes(b"shared by two runs")
        for lease, (individual,) in holdings:
            store.finish_evaluation(lease, Evaluation(individual.id, FIDELITY, 0, blobs={"weights": digest}))
        store.release(closed[0])
        store.blobs.remove(digest)
        before = store.events(opened[0].run_id)
        with pytest.raises(RunOwnedError, match=opened[0].run_id):
            store.repair()
        assert [row.state for row in store.evaluations(closed[0].run_id)] == ["failed"]
        assert [row.state for row in store.evaluations(opened[0].run_id)] == ["done"]
        assert store.events(opened[0].run_id) == before
        store.release(opened[0])
        assert len(store.repair().lost_evaluations) == 1
        assert store.check().ok

    def test_a_lost_blob_marks_its_evaluations_and_nothing_else(self, store: Store) -> None:
        lease, (first, two, three, *_) = grown(store)
        shared, own = store.blobs.put_bytes(b"shared"), store.blobs.put_bytes(b"own")
        for individual, digest in ((first, shared), (two, shared), (three, own)):
            evaluation = Evaluation(individual.id, FIDELITY, 0, scores={"loss": Score(1.0)}, blobs={"weights": digest})
            store.finish_evaluation(lease, evaluation)
        store.blobs.remove(shared)
        report = store.check()
        assert [(problem.kind, problem.subject) for problem in report.problems] == [("blob", shared)]
        with pytest.raises(RunOwnedError):
            store.repair()
        store.release(lease)
        repaired = store.repair()
        assert len(repaired.lost_evaluations) == 2
        assert repaired.remaining == ()
        rows = {row.individual_id: row for row in store.evaluations(lease.run_id)}
        assert [(rows[each.id].state, rows[each.id].reason) for each in (first, two, three)] == [
            ("failed", "lost"),
            ("failed", "lost"),
            ("done", None),
        ]
        assert rows[first.id].scores == {"loss": Score(1.0)}
        assert (rows[first.id].blobs, rows[three.id].blobs) == ({}, {"weights": own})
        assert store.repair().lost_evaluations == ()
        # It is done again as a new attempt.
        lease = store.acquire(lease.run_id)
        attempt = store.start_evaluation(lease, first.id, FIDELITY, 0)
        again = Evaluation(first.id, FIDELITY, 0, attempt, blobs={"weights": store.blobs.put_bytes(b"shared")})
        assert store.finish_evaluation(lease, again)
        assert store.check(deep=True).ok
