"""The training of one child (docs/spec/munet.md#training), what is kept of it, what chance does to images."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.experiments.correct_bits import unpack
from evodevo.multitask.evaluate import exact_answers
from evodevo.multitask.hyperparameters import multipath_hyperparameters, singlepath_hyperparameters
from evodevo.multitask.paths.multipath.model import Multipath
from evodevo.multitask.training.augmentation import augmented
from evodevo.multitask.training.objective import ACCURACY
from evodevo.multitask.training.training import PathResult, accuracy, quality, train_path
from evodevo.multitask.training.values import DataValues, PathTrainingSettings, data_values, optimizer_settings
from evodevo.settings import validate
from evodevo.tasks.multitask.batches import BatchPlan
from evodevo.training.precision import decide
from evodevo.training.settings import MomentumSettings

CPU = decide("cpu")


def test_hyperparameters_of_agents_are_understood() -> None:
    for table in (singlepath_hyperparameters("ti3"), multipath_hyperparameters()):
        assert optimizer_settings(table.defaults()) == MomentumSettings()
        assert data_values(table.defaults()).identity
    for row in singlepath_hyperparameters("ti3").rows:
        for value in row.values:
            optimizer_settings({row.key: value})
            changed = data_values({row.key: value})
            inert = row.key in ("ds_aspect_ratio_range_min", "ds_image_size") or not row.key.startswith("ds_")
            assert changed.identity == (inert or value == row.default)
    with pytest.raises(UsageError, match="momentum"):
        optimizer_settings({"opt_momentum": 1.0})


def test_a_course_follows_task_and_table() -> None:
    settings = PathTrainingSettings()
    assert settings.plan(2_000, 500).batch == 62
    plan = settings.plan(2_000, 500, 512)
    assert plan == BatchPlan(512, 4, 500, 1)
    loop = PathTrainingSettings(clip=0.5, momentum_format="bfloat16", validations=3).loop(plan, MomentumSettings())
    assert (loop.budget.steps, loop.report_every) == (12, 4)
    assert loop.optimizer == MomentumSettings(clip=0.5, trace_format="bfloat16", interval=4)


@pytest.mark.parametrize(("train", "batch", "steps"), [(100, 16, 500), (2_000, 62, 500), (20_000, 512, 500)])
def test_few_samples_make_no_few_steps(train: int, batch: int, steps: int) -> None:
    settings = PathTrainingSettings(least_steps=500)
    plan = settings.plan(train, 100)
    assert (plan.batch, settings.most(plan)) == (batch, steps)
    assert PathTrainingSettings().most(PathTrainingSettings().plan(train, 100)) < steps
    assert PathTrainingSettings(least_steps=5).plan(train, 100) == PathTrainingSettings().plan(train, 100)


def test_what_is_said_of_a_course_goes_before_its_least_steps() -> None:
    large = PathTrainingSettings(batch=64, least_steps=500)
    assert large.most(large.plan(60_000, 100)) == 4 * 938, "passes that are more steps stay"
    for said, steps in (({"most_between": 100}, 4 * 2), ({"steps": 40}, 40)):
        settings = large.model_copy(update=said)
        assert settings.most(settings.plan(60_000, 100)) == steps
    assert "least_steps" not in PathTrainingSettings().model_dump(mode="json"), "names of systems follow from records"


# Periods: training until validation is flat

LOOKS = (
    *(217, 236, 255, 257, 254, 251, 258, 260, 261, 259, 259, 261),
    *(258, 260, 261, 262, 261, 263, 263, 263, 262, 263, 263, 263),
)
"""Right ones of 266 validation samples, every 25 steps, of ConvTiny trained from random on scikit-learn's digits with
``steps = 100`` and ``most_steps = 1200``, seed 0; recorded on 2026-11-26."""


@pytest.mark.parametrize(("flat", "steps"), [(0.02, 200), (0.005, 300), (0.002, 600)])
def test_a_recorded_curve_is_flat_where_a_period_gains_no_more_than_is_said(flat: float, steps: int) -> None:
    settings = PathTrainingSettings(steps=100, most_steps=1200, flat=flat)
    evals = [right / 266 for right in LOOKS]
    ended = [count for count in range(4, 25, 4) if settings.is_flat(evals[:count])]
    assert 25 * ended[0] == steps


def test_a_child_is_trained_in_whole_periods_until_validation_is_flat() -> None:
    rising = [0.3, 0.5, 0.6, 0.7, 0.7, 0.6, 0.9, 0.9]
    short, _, _ = _course(rising[:2], None, validations=2, steps=6)
    long, _, data = _course(rising, None, validations=2, steps=6, most_steps=30)
    assert long.evals == tuple(rising[:6]), "the third period gained nothing"
    assert (long.steps, long.kept, len(data.seen)) == (18, 3, 18)
    assert (long.evals[:2], long.losses[:2]) == (short.evals, short.losses), "a longer child begins as a shorter one"
    capped, _, _ = _course(rising, None, validations=2, steps=6, most_steps=13)
    assert capped.steps == 12, "no period is begun that would not be whole"


def test_steps_take_the_place_of_passes_and_have_a_whole_cosine_each() -> None:
    settings = PathTrainingSettings(steps=500, most_steps=2_000)
    plan = settings.plan(2_000, 500)
    assert plan == replace(PathTrainingSettings().plan(2_000, 500), between=125)
    loop = settings.loop(plan, MomentumSettings())
    assert (loop.budget.steps, loop.report_every) == (2_000, 125)
    once = settings.model_copy(update={"most_steps": 0}).loop(plan, MomentumSettings())
    assert once.budget.steps == 500
    rates = [one.optimizer.rate_at(step, one.budget.steps, 0.0) for one in (loop, once) for step in range(500)]
    assert rates[:500] == rates[500:]
    assert loop.optimizer.rate_at(500, 2_000, 0.0) == rates[0]
    assert PathTrainingSettings(steps=3).plan(2_000, 500).between == 1
    with pytest.raises(UsageError, match="set steps, too"):
        validate(PathTrainingSettings, {"most_steps": 3}, what="training")
    with pytest.raises(UsageError, match="most_steps = 3 is below steps = 4"):
        validate(PathTrainingSettings, {"most_steps": 3, "steps": 4}, what="training")
    assert not {"steps", "most_steps", "flat"} & set(PathTrainingSettings().model_dump())


# What is kept: docs/spec/munet.md#kept-weights


class _Model(nn.Module):
    """One number decides which class all samples get; a frozen part is beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Linear(1, 3, bias=False)
        self.head = nn.Linear(1, 3)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.head(x) + 0 * self.frozen(x)
        return y


class _Script:
    """Validation accuracies as written: classes are chosen after what the model says."""

    def __init__(self, model: nn.Module, accuracies: list[float], *, broken_at: int = -1) -> None:
        self.model, self.accuracies, self.broken_at = model, list(accuracies), broken_at
        self.seen: list[int] = []
        self.states: list[dict[str, Tensor]] = []

    def training(self, step: int) -> tuple[Any, Tensor]:
        self.seen.append(step)
        x = torch.ones(4, 1) * (float("nan") if step == self.broken_at else 1.0)
        return x, torch.tensor([0, 1, 2, step % 3])

    def validation(self, batch: int) -> tuple[Any, Tensor]:
        x = torch.ones(10, 1)
        with torch.no_grad():
            said = self.model(x).argmax(1)
        self.states.append({name: value.clone() for name, value in self.model.state_dict().items()})
        right = torch.arange(10) < round(10 * self.accuracies.pop(0))
        return x, torch.where(right, said, (said + 1) % 3)


def _course(
    accuracies: list[float], bar: float | None, *, learns: bool = True, broken_at: int = -1, **settings: Any
) -> tuple[PathResult, _Model, _Script]:
    torch.manual_seed(0)
    model = _Model()
    data = _Script(model, accuracies, broken_at=broken_at)
    result = train_path(
        model,
        {"head": model.head} if learns else {},
        data.training,
        lambda: quality(ACCURACY, model, [data.validation(0)], CPU),
        BatchPlan(4, 3, 10, 1),
        PathTrainingSettings(**{"validations": len(accuracies), **settings}),
        MomentumSettings(),
        bar=bar,
        precision=CPU,
    )
    return result, model, data


def test_the_weights_of_the_first_best_look_are_kept_and_installed() -> None:
    result, model, data = _course([0.5, 0.8, 0.8, 0.6], 0.4)
    assert result.evals == (0.5, 0.8, 0.8, 0.6)
    assert (result.kept, result.quality, result.steps, result.samples) == (1, 0.8, 12, 48)
    assert data.seen == list(range(12))
    for name, value in model.head.state_dict().items():
        assert torch.equal(value, data.states[1][f"head.{name}"])
        assert torch.equal(value, result.weights["head"][name])
        assert not torch.equal(value, data.states[2][f"head.{name}"])


def test_what_a_path_begins_with_is_kept_where_training_makes_it_worse() -> None:
    torch.manual_seed(0)
    model = _Model()
    before = {name: value.clone() for name, value in model.head.state_dict().items()}
    data = _Script(model, [0.7, 0.5, 0.7, 0.6])
    result = train_path(
        model,
        {"head": model.head},
        data.training,
        lambda: quality(ACCURACY, model, [data.validation(0)], CPU),
        BatchPlan(4, 3, 10, 1),
        PathTrainingSettings(validations=3, first_look=True),
        MomentumSettings(),
        bar=None,
        precision=CPU,
    )
    assert result.evals == (0.7, 0.5, 0.7, 0.6)
    assert (result.kept, result.quality, result.steps) == (0, 0.7, 9)
    assert all(torch.equal(value, before[name]) for name, value in model.head.state_dict().items())
    # The looks that follow are those of a training without it.
    plain, _, _ = _course([0.5, 0.7, 0.6], None)
    assert result.losses == plain.losses
    assert plain.kept == 1


def test_nothing_is_kept_that_does_not_exceed_the_bar() -> None:
    result, _, _ = _course([0.5, 0.8, 0.8, 0.6], 0.8)
    assert result.kept is None
    assert not result.weights
    assert result.quality == 0.8
    free, _, _ = _course([0.0, 0.0], None)
    assert free.kept == 0


def test_only_what_is_named_learns() -> None:
    torch.manual_seed(0)
    before = _Model().state_dict()
    _, model, _ = _course([0.5, 0.6], None)
    assert torch.equal(model.frozen.weight, before["frozen.weight"])
    assert not torch.equal(model.head.bias, before["head.bias"])


def test_a_child_that_learns_nothing_is_looked_at_once() -> None:
    result, _, data = _course([0.7, 0.9], None, learns=False)
    assert result.evals == (0.7,)
    assert (result.kept, result.steps, data.seen) == (0, 0, [])


def test_a_child_that_diverges_keeps_what_was_kept_before() -> None:
    result, _, _ = _course([0.7, 0.9], None, broken_at=4)
    assert (result.state, result.evals, result.kept, result.steps) == ("diverged", (0.7,), 0, 4)
    first, _, _ = _course([0.7, 0.9], None, broken_at=0)
    assert (first.state, first.evals, first.kept, first.quality) == ("diverged", (), None, None)


def test_accuracies() -> None:
    model = nn.Identity()
    logits = torch.eye(3)
    batches = [(logits, torch.tensor([0, 1, 2])), (logits[:1], torch.tensor([1]))]
    assert accuracy(model, batches, CPU) == 0.5


# Images: docs/spec/munet.md#augmentation

PHOTOS = np.random.default_rng(0).integers(0, 256, (6, 9, 12, 3)).astype(np.uint8)


def _plain(images: Any) -> Tensor:
    return torch.from_numpy(images).permute(0, 3, 1, 2).float()


def test_defaults_change_nothing() -> None:
    for images in (PHOTOS, PHOTOS[..., :1]):
        (found,) = augmented(images, DataValues(), 0, 0)
        assert torch.equal(found, _plain(images))
        (inert,) = augmented(images, DataValues(aspect=0.5), 0, 0)
        assert torch.equal(inert, _plain(images))


CHANGES = {
    "area": 0.3,
    "flip": True,
    "shift": 0.3,
    "brightness": 0.2,
    "contrast": 0.2,
    "saturation": 0.2,
    "hue": 0.2,
    "quality": 0.2,
}


@pytest.mark.parametrize("name", CHANGES)
def test_every_change_does_something_and_follows_from_seed_and_step(name: str) -> None:
    values = DataValues(**{name: CHANGES[name]})
    assert not values.identity, "what frozen paths make of such images is not kept"
    found = augmented(PHOTOS, values, 3, 5)
    again, other = augmented(PHOTOS, values, 3, 5), augmented(PHOTOS, values, 3, 6)
    assert all(torch.equal(one, two) for one, two in zip(found, again, strict=True))
    assert any(one.shape != two.shape or not torch.equal(one, two) for one, two in zip(found, other, strict=True))
    for part in found:
        assert part.min() >= 0
        assert part.max() <= 255.001


def test_a_change_leaves_the_draws_of_others_alone() -> None:
    (flipped,) = augmented(PHOTOS, DataValues(flip=True), 1, 1)
    (both,) = augmented(PHOTOS, DataValues(flip=True, brightness=1e-6), 1, 1)
    torch.testing.assert_close(flipped, both, atol=1e-3, rtol=0)


def test_a_flip_is_a_mirror_of_half_of_the_images() -> None:
    many = np.random.default_rng(1).integers(0, 256, (400, 3, 4, 1)).astype(np.uint8)
    (found,) = augmented(many, DataValues(flip=True), 0, 0)
    plain = _plain(many)
    same = (found == plain).flatten(1).all(1)
    assert 140 <= int(same.sum()) <= 260
    assert torch.equal(found[~same], plain.flip(3)[~same])


def test_a_shift_moves_by_whole_pixels_and_repeats_edges() -> None:
    many = np.random.default_rng(1).integers(0, 256, (300, 10, 20, 3)).astype(np.uint8)
    (found,) = augmented(many, DataValues(shift=0.2), 0, 0)
    plain, moves = _plain(many), []
    for before, after in zip(plain, found, strict=True):
        padded = nn.functional.pad(before[None], (4, 4, 2, 2), mode="replicate")[0]
        fits = [
            (down, right)
            for down in range(-2, 3)
            for right in range(-4, 5)
            if torch.equal(padded[:, 2 + down : 12 + down, 4 + right : 24 + right], after)
        ]
        assert len(fits) == 1
        moves += fits
    assert {down for down, _ in moves} == set(range(-2, 3))
    assert {right for _, right in moves} == set(range(-4, 5))


def test_a_crop_is_a_part_of_the_image() -> None:
    place = np.arange(20 * 30).reshape(1, 20, 30, 1) % 251
    images = np.repeat(place, 50, axis=0).astype(np.uint8)
    crops = augmented(images, DataValues(area=0.5, aspect=0.5), 0, 0)
    whole = _plain(images)[0]
    shares = []
    for crop in crops:
        high, wide = crop.shape[2:]
        shares.append(high * wide / 600)
        spots = [
            (top, left)
            for top in range(20 - high + 1)
            for left in range(30 - wide + 1)
            if torch.equal(whole[:, top : top + high, left : left + wide], crop[0])
        ]
        assert spots
    assert min(shares) >= 0.45
    assert max(shares) <= 1
    assert len({round(share, 2) for share in shares}) > 10


def test_brightness_is_on_the_scale_from_0_to_1() -> None:
    """In the published code of µ4Net it is in grey levels, and so does nothing."""
    grey = np.full((300, 2, 2, 1), 128, np.uint8)
    (found,) = augmented(grey, DataValues(brightness=0.2), 0, 0)
    moved = (found[:, 0, 0, 0] - 128) / 255
    assert 0.18 < float(moved.max()) <= 0.2
    assert -0.2 <= float(moved.min()) < -0.18


def test_contrast_keeps_the_mean_and_colours_keep_grey() -> None:
    dim = (PHOTOS // 4 + 96).astype(np.uint8)
    (found,) = augmented(dim, DataValues(contrast=0.2), 0, 0)
    torch.testing.assert_close(found.mean((2, 3)), _plain(dim).mean((2, 3)), rtol=1e-4, atol=1e-2)
    grey = np.repeat(PHOTOS[..., :1], 3, axis=3)
    (same,) = augmented(grey, DataValues(saturation=0.2, hue=0.2), 0, 0)
    torch.testing.assert_close(same, _plain(grey), rtol=0, atol=1e-2)


def test_saturation_and_hue_are_those_of_hsv() -> None:
    import colorsys

    from evodevo.multitask.training.augmentation import _saturated, _turned

    x = torch.rand(40, 3, 1, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    factor, turn = torch.tensor(1.15, dtype=torch.float64), torch.tensor(0.13, dtype=torch.float64)
    more, turned = _saturated(x, factor), _turned(x, turn.view(1, 1, 1, 1))
    for row in range(40):
        hue, saturation, value = colorsys.rgb_to_hsv(*x[row].flatten().tolist())
        wanted = colorsys.hsv_to_rgb(hue, min(1.0, saturation * 1.15), value)
        assert more[row].flatten().tolist() == pytest.approx(wanted, abs=1e-6)
        wanted = colorsys.hsv_to_rgb((hue + 0.13) % 1, saturation, value)
        assert turned[row].flatten().tolist() == pytest.approx(wanted, abs=1e-6)


def test_what_is_no_image_is_refused() -> None:
    with pytest.raises(UsageError, match="bytes of shape"):
        augmented(np.zeros((2, 3, 4, 2), np.uint8), DataValues(), 0, 0)


# What is kept of a measurement: how many answers are right, which, and how much each path counted


def test_batches_of_any_size_count_by_their_samples() -> None:
    logits = torch.eye(3)
    batches = [(logits, torch.tensor([0, 1, 2])), (logits[:1], torch.tensor([1]))]
    found = exact_answers(nn.Identity(), batches, CPU)
    assert (found["accuracy"], found["samples"]) == (0.75, 4)
    assert unpack(found["right"]).tolist() == [1, 1, 1, 0]
    assert "weights" not in found


def test_equal_answers_have_equal_digests_whatever_the_logits() -> None:
    logits, labels = torch.randn(50, 4, generator=torch.manual_seed(1)), torch.zeros(50, dtype=torch.long)
    same = [exact_answers(nn.Identity(), [(scale * logits, labels)], CPU)["answers"] for scale in (1.0, 0.5)]
    other = exact_answers(nn.Identity(), [(-logits, labels)], CPU)["answers"]
    assert same[0] == same[1] != other


def test_the_weights_of_paths_are_means_over_samples() -> None:
    model = Multipath(nn.Linear(6, 3), [nn.Linear(6, 4)], 3, [4])
    x, labels = torch.randn(7, 6), torch.zeros(7, dtype=torch.long)
    model.train()
    found = exact_answers(model, [(x[:5], labels[:5]), (x[5:], labels[5:])], CPU)
    assert torch.allclose(torch.tensor(found["weights"]), torch.tensor([0.8, 0.2])), "untrained: w* for the main path"
    alone = exact_answers(model.paths["main"], [(x, labels)], CPU)
    assert alone["answers"] == found["answers"], "an untrained model answers as its main path does"
