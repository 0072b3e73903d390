"""A race of networks: who wins, how it ends, and what its networks answer afterwards."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from evodevo.errors import UnsafeFileError, UsageError
from evodevo.estimators.automatic.features.package_root import USUAL, RootReading
from evodevo.estimators.automatic.networks import race as race_file
from evodevo.estimators.automatic.networks.arms import OF_ROOT, Arm, arms_for
from evodevo.estimators.automatic.networks.data import NetworkSamples
from evodevo.estimators.automatic.networks.predictor import NetworkPredictor
from evodevo.estimators.automatic.networks.race import NetworkRace, NetworkResult, RaceNews
from evodevo.estimators.automatic.networks.training import ArmTraining
from evodevo.tasks.rows.samples import Samples

COUNT = 96
TRAIN, VALIDATION = np.arange(64), np.arange(64, COUNT)
WORDS = ("good fine nice great", "bad poor awful grim")


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def everything(rng: np.random.Generator, y: NDArray[np.int64]) -> NetworkSamples:
    """Images, texts and numbers that tell the class; each is missing in some samples."""
    images = rng.integers(0, 100, (len(y), 8, 8, 1)).astype(np.uint8)
    images[y == 1, :4] += 100
    texts = [" ".join(rng.choice(WORDS[label].split(), 3)) for label in y]
    texts[3] = texts[70] = ""
    vectors = rng.normal(y[:, None], 1, (len(y), 3))
    vectors[::5, 1] = np.nan
    present = np.ones(len(y), np.bool_)
    present[[5, 71]] = False
    return NetworkSamples(images, present, texts, vectors)


def two_classes() -> NDArray[np.int64]:
    return np.random.default_rng(0).permutation(np.arange(COUNT) % 2)


def silent(news: RaceNews) -> None:
    assert 0 <= news.share <= 1


def make(samples: NetworkSamples, y: NDArray[Any], arms: Sequence[str] = (), **changes: Any) -> NetworkRace:
    values: dict[str, Any] = {"kind": "class", "classes": 2, "train": TRAIN, "validation": VALIDATION, "seed": 1}
    race = NetworkRace(samples, y, **{**values, **changes})
    race.arms = [arm for arm in race.arms if not arms or arm.name in arms]
    assert race.arms
    return race


def accuracy(result: NetworkResult, y: NDArray[np.int64]) -> float:
    return float((result.validation.argmax(1) == y[VALIDATION]).mean())


@pytest.fixture(scope="module")
def whole() -> tuple[NetworkSamples, NDArray[np.int64], list[NetworkResult]]:
    """A race of three networks over three kinds of inputs."""
    torch.set_num_threads(1)
    y = two_classes()
    samples = everything(np.random.default_rng(1), y)
    names = ("fine convolutions + terms + residual", "patches + recurrent + pieces", "zoo: mlp")
    return samples, y, make(samples, y, names).run(60, silent, max_steps=240)


@pytest.mark.slow
def test_networks_of_all_kinds_learn(whole: tuple[NetworkSamples, NDArray[np.int64], list[NetworkResult]]) -> None:
    _, y, results = whole
    assert len(results) == 3
    for result in results:
        assert result.validation.shape == (len(VALIDATION), 2)
        assert np.allclose(result.validation.sum(1), 1)
        assert result.note
    assert max(accuracy(result, y) for result in results) > 0.9


def test_results_are_the_answers_of_the_predictor(
    whole: tuple[NetworkSamples, NDArray[np.int64], list[NetworkResult]],
) -> None:
    samples, _, results = whole
    for result in results:
        assert np.array_equal(result.predictor.probabilities(samples.take(VALIDATION)), result.validation)


def test_a_kept_network_answers_the_same_to_the_bit(
    whole: tuple[NetworkSamples, NDArray[np.int64], list[NetworkResult]],
) -> None:
    samples, _, results = whole
    for result in results:
        facts, arrays = result.predictor.to_state()
        again = NetworkPredictor.from_state(json.loads(json.dumps(facts)), arrays)
        assert np.array_equal(again.probabilities(samples), result.predictor.probabilities(samples))


def test_an_answer_does_not_depend_on_the_other_samples(
    whole: tuple[NetworkSamples, NDArray[np.int64], list[NetworkResult]],
) -> None:
    samples, _, results = whole
    rows = np.array([70, 3, 5, 90, 20])
    for result in results:
        together = result.predictor.probabilities(samples)[rows]
        alone = [result.predictor.probabilities(samples.take(rows[[place]]))[0] for place in range(len(rows))]
        assert np.allclose(together, alone, atol=1e-5)


def test_samples_may_lack_any_input(
    whole: tuple[NetworkSamples, NDArray[np.int64], list[NetworkResult]],
) -> None:
    samples, _, results = whole
    for result in results:
        for lacking in (
            NetworkSamples(texts=samples.texts),
            NetworkSamples(images=samples.images),
            NetworkSamples(vectors=samples.vectors),
        ):
            answers = result.predictor.probabilities(lacking)
            assert np.isfinite(answers).all()
            assert answers.std(0).max() > 0
    assert results[0].predictor.probabilities(NetworkSamples(texts=[])).shape == (0, 2)


def test_damaged_files_are_refused(whole: tuple[NetworkSamples, NDArray[np.int64], list[NetworkResult]]) -> None:
    facts, arrays = whole[2][0].predictor.to_state()
    name = next(iter(arrays))
    wrong: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({**facts, "more": 1}, arrays),
        ({**facts, "format": "evodevo.network_predictor/1"}, arrays),
        ({**facts, "structure": {"plain": None, "zoo": None}}, arrays),
        (facts, {key: value for key, value in arrays.items() if key != name}),
        (facts, {**arrays, "more": np.zeros(1, np.float32)}),
        (facts, {**arrays, name: arrays[name][..., None]}),
        (facts, {**arrays, name: arrays[name].astype(np.float64)}),
        (facts, {**arrays, name: np.full_like(arrays[name], np.nan)}),
    ]
    for some_facts, some_arrays in wrong:
        with pytest.raises(UnsafeFileError):
            NetworkPredictor.from_state(some_facts, some_arrays)


def test_equal_seeds_give_equal_races() -> None:
    y = two_classes()
    samples = NetworkSamples(texts=everything(np.random.default_rng(1), y).texts)
    state = torch.get_rng_state()
    first, again, other = (
        make(samples, y, ("terms", "recurrent"), seed=seed).run(60, silent, max_steps=160) for seed in (1, 1, 2)
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert [result.note for result in first] == [result.note for result in again]
    for one, same, different in zip(first, again, other, strict=True):
        assert np.array_equal(one.validation, same.validation)
        assert not np.array_equal(one.validation, different.validation)


@pytest.mark.slow
def test_the_winner_is_trained_on_and_losers_stop() -> None:
    """The order of words tells the class, which a bag of words cannot see."""
    rng, y = np.random.default_rng(0), np.arange(COUNT) % 2
    texts = [f"{' '.join(['x'] * rng.integers(1, 5))} {'left right' if label else 'right left'}" for label in y]
    race = make(NetworkSamples(texts=texts), y, ("recurrent", "zoo: mlp", "zoo: squeeze_excite"))
    results = {result.name: result for result in race.run(60, silent, max_steps=700)}
    best = min(results.values(), key=lambda result: -accuracy(result, y))
    assert best.name == "recurrent"
    assert accuracy(best, y) == 1
    stopped = [result for result in results.values() if result.note.startswith("stopped after rung")]
    assert len(stopped) == 1
    assert stopped[0].steps < best.steps


def test_several_labels() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(COUNT, 3))
    labels = np.stack([vectors[:, 0] > 0, vectors[:, 1] > 0.5, vectors[:, 2] > -0.5], 1).astype(np.float32)
    race = make(NetworkSamples(vectors=vectors), labels, ("mlp",), kind="labels", classes=3)
    (result,) = race.run(60, silent, max_steps=150)
    assert ((result.validation > 0.5) == labels[VALIDATION]).mean() > 0.85
    assert not np.allclose(result.validation.sum(1), 1)


def test_validation_may_lack_a_class() -> None:
    y = np.concatenate([np.arange(64) % 3, np.zeros(32, np.int64)])
    vectors = np.random.default_rng(0).normal(y[:, None], 0.3, (COUNT, 2))
    (result,) = make(NetworkSamples(vectors=vectors), y, ("residual",), classes=3).run(60, silent, max_steps=60)
    assert result.validation.shape == (32, 3)
    assert accuracy(result, y) > 0.9


def test_a_report_that_says_no_ends_the_race_with_what_there_is() -> None:
    y = two_classes()
    samples = NetworkSamples(vectors=everything(np.random.default_rng(1), y).vectors)
    told: list[RaceNews] = []

    def twice(news: RaceNews) -> bool:
        told.append(news)
        return len(told) < 2

    results = make(samples, y, ("mlp", "pieces", "residual")).run(3600, twice)
    assert len(told) == 2
    assert told[-1].score is not None
    assert results
    assert all(np.isfinite(result.validation).all() for result in results)


@pytest.mark.slow
def test_a_clock_ends_the_race(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock is a hundredth of a second."""
    looks = iter(range(10**9))
    monkeypatch.setattr("time.monotonic", lambda: next(looks) / 100)
    y = two_classes()
    samples = NetworkSamples(vectors=everything(np.random.default_rng(1), y).vectors)
    told: list[RaceNews] = []
    results = make(samples, y, ("mlp", "residual")).run(12, lambda news: told.append(news))
    assert next(looks) / 100 < 13
    assert [result.name for result in results][:2] == ["mlp", "residual"]
    assert sum(result.seconds for result in results) <= 13
    assert [news.share for news in told] == sorted(news.share for news in told)


def test_a_loss_that_is_not_finite_ends_its_network_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    y = two_classes()
    samples = NetworkSamples(vectors=everything(np.random.default_rng(1), y).vectors)
    begin = ArmTraining.__init__

    def broken(self: ArmTraining, arm: Arm, *given: Any) -> None:
        begin(self, arm, *given)
        if arm.name == "mlp":
            loss = self.network.loss
            self.network.loss = lambda batch: loss(batch) * float("nan")

    monkeypatch.setattr(ArmTraining, "__init__", broken)
    mlp, residual = make(samples, y, ("mlp", "residual")).run(60, silent, max_steps=200)
    assert "not finite" in mlp.note
    assert np.isfinite(mlp.validation).all()
    assert mlp.steps < residual.steps
    assert "finite" not in residual.note


@pytest.mark.parametrize(
    ("samples", "classes"), [(4, 8), (100, 12), (400, 50), (2000, 64), (20_000, 156), (10**6, 256)]
)
def test_batches_fit_the_number_of_samples(samples: int, classes: int) -> None:
    assert race_file.batch_size(samples) == min(samples, classes)


def test_plain_networks_come_first() -> None:
    y = two_classes()
    race = make(everything(np.random.default_rng(1), y), y)
    plain = [arm.structure.plain is not None for arm in race.arms]
    assert plain == sorted(plain, reverse=True)
    assert sum(plain) == 3
    assert len({arm.name for arm in race.arms}) == len(race.arms)
    assert arms_for(race._data.reading) == list(race.arms)


def rooted() -> tuple[NetworkSamples, NDArray[np.int64], RootReading]:
    y = two_classes()
    samples = everything(np.random.default_rng(1), y)
    assert samples.images is not None
    shown = Samples(COUNT, np.zeros((COUNT, 0)), np.zeros((COUNT, 0), np.int64), images=(samples.images,))
    return NetworkSamples(samples.images, samples.images_present), y, RootReading.of(USUAL, shown)


def test_a_network_begins_as_the_root_and_all_of_it_learns() -> None:
    samples, y, root = rooted()
    race = make(samples, y, [f"{USUAL}, fine-tuned"], root=root)
    begun = ArmTraining(race.arms[0], race._data, 0).network.state_dict()
    of_root = {name.removeprefix(OF_ROOT): tensor for name, tensor in begun.items() if name.startswith(OF_ROOT)}
    assert of_root.keys() == root.weights.keys()
    assert all((of_root[name].numpy() == array).all() for name, array in root.weights.items())
    (found,) = race.run(60, silent, max_steps=60)
    learned = found.predictor.network.state_dict()
    assert all((learned[f"{OF_ROOT}{name}"].numpy() != array).any() for name, array in root.weights.items())
    assert accuracy(found, y) > 0.9
    facts, arrays = found.predictor.to_state()
    again = NetworkPredictor.from_state(json.loads(json.dumps(facts)), arrays)
    np.testing.assert_array_equal(again.probabilities(samples), found.predictor.probabilities(samples))


def test_one_of_two_such_networks_sees_its_images_where_they_are() -> None:
    y = two_classes()
    images = np.random.default_rng(0).integers(0, 256, (COUNT, 24, 24, 1)).astype(np.uint8)
    shown = Samples(COUNT, np.zeros((COUNT, 0)), np.zeros((COUNT, 0), np.int64), images=(images,))
    race = make(NetworkSamples(images), y, root=RootReading.of(USUAL, shown))
    moved, still = race.arms[:2]
    assert (moved.name, still.name) == (f"{USUAL}, fine-tuned", f"{USUAL}, fine-tuned, images not moved")
    batches = [ArmTraining(arm, race._data, 0)._batch(0)["image"] for arm in (moved, still)]
    known = {image.tobytes() for image in images[TRAIN]}
    assert [sum(image.tobytes() in known for image in batch) == len(batch) for batch in batches] == [False, True]


def test_a_file_that_claims_a_huge_root_is_refused_before_it_is_made() -> None:
    samples, y, root = rooted()
    (found,) = make(samples, y, [f"{USUAL}, fine-tuned"], root=root).run(60, silent, max_steps=20)
    facts, arrays = found.predictor.to_state()
    for changes, message in (
        ({"widths": [32, 64, 960]}, "fewer than those of its root"),
        ({"image_size": 4096}, "128 pixels at most"),
        ({"classes": 3}, "no head"),
    ):
        plain = facts["structure"]["plain"]
        claimed = {
            **facts,
            "structure": {**facts["structure"], "plain": {**plain, "root": {**plain["root"], **changes}}},
        }
        with pytest.raises(UnsafeFileError, match=message):
            NetworkPredictor.from_state(claimed, arrays)


def test_a_root_takes_part_where_it_is_given_and_there_are_images_alone() -> None:
    samples, y, root = rooted()
    assert make(samples, y, root=root).arms[0].name == f"{USUAL}, fine-tuned"  # too small to be moved: one of them
    assert not any(USUAL in arm.name for arm in make(samples, y).arms)
    numbers = NetworkSamples(vectors=np.random.default_rng(0).normal(size=(COUNT, 3)))
    assert not any(USUAL in arm.name for arm in make(numbers, y, root=root).arms)
    both = make(everything(np.random.default_rng(1), y), y, root=root).arms
    assert not any(USUAL in arm.name for arm in both), "beside texts others had learned more in the same time"


def test_a_race_needs_samples() -> None:
    with pytest.raises(UsageError, match="validation samples"):
        make(NetworkSamples(vectors=np.eye(4)), np.arange(4) % 2, train=np.arange(4), validation=np.arange(0))
