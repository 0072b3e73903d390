"""What agents tune: the published lists, and the law that a value moves by one place and stays in its list."""

from __future__ import annotations

import pytest

from evodevo import canonical
from evodevo.errors import UsageError
from evodevo.multitask.hyperparameters import (
    MU,
    RANGES,
    Hyperparameter,
    Hyperparameters,
    Version,
    multipath_hyperparameters,
    singlepath_hyperparameters,
)
from evodevo.multitask.paths.vision.spec import PRESETS
from evodevo.settings import validate

VERSIONS: tuple[Version, ...] = ("paper", "v4", "v4b", "v3", "v2", "v1")
EVERY = [singlepath_hyperparameters(size, version) for size in RANGES for version in VERSIONS]
EVERY += [multipath_hyperparameters(version) for version in VERSIONS]


def test_the_largest_paths_have_fifteen_actions_on_values() -> None:
    # With 27 components to clone that makes the 42 actions of docs/spec/munet.md#learned-mutation.
    assert len(singlepath_hyperparameters("L").tuned) == 15


def test_the_paper_s_lists() -> None:
    space = multipath_hyperparameters()
    assert space.by_key["router_lr_mult"].values == (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
    assert space.by_key["opt_lr"].values[-1] == 0.5
    assert multipath_hyperparameters("v4").by_key["opt_lr"].values[-1] == 1.0
    assert space.rates.values == tuple(step / 50 for step in range(1, 16))
    assert space.defaults() == {
        "opt_lr": 0.02,
        "opt_lr_schedule": "cosine",
        "opt_lr_warmup_ratio": 0.02,
        "opt_momentum": 0.8,
        "opt_nesterov": True,
        "ds_area_range_min": 1.0,
        "ds_aspect_ratio_range_min": 1.0,
        "ds_flip_left_right": False,
        "ds_brightness_delta": 0.0,
        "ds_contrast_delta": 0.0,
        "ds_saturation_delta": 0.0,
        "ds_hue_delta": 0.0,
        "ds_quality_delta": 0.0,
        "router_lr_mult": 0.05,
        "num_paths": 2,
        "router_init_main_path_weight": 0.8,
    }
    assert space.default_mu() == {MU: 0.2}


def test_sizes_and_versions_differ_where_the_table_says() -> None:
    assert singlepath_hyperparameters("l").by_key["num_layers"].values[-1] == 25
    assert singlepath_hyperparameters("l", "v3").by_key["num_layers"].values[-1] == 24
    assert singlepath_hyperparameters("b").defaults()["ds_image_size"] == 80
    third = singlepath_hyperparameters("ti3", "v3")
    assert third.default_mu() == {MU: 0.1}
    assert (
        third.defaults()
        | {
            "opt_lr": 0.01,
            "opt_lr_warmup_ratio": 0.1,
            "opt_momentum": 0.9,
            "opt_nesterov": False,
            "adapter_dim": 32,
        }
        == third.defaults()
    )
    assert singlepath_hyperparameters("l", "v3").default_mu() == {MU: 0.2}
    assert "adapter_dim" not in singlepath_hyperparameters("ti3").by_key


def test_the_first_agents_augment_and_mutate_at_fewer_rates() -> None:
    """docs/spec/munet.md#hyperparameters: µNet and µ2Net."""
    first, second = (singlepath_hyperparameters("ti3", version) for version in ("v1", "v2"))
    for space in (first, second):
        values = space.defaults()
        names = ("ds_area_range_min", "ds_aspect_ratio_range_min", "ds_flip_left_right")
        assert [values[name] for name in names] == [0.05, 0.75, True]
        assert "adapter_dim" in space.tuned
    assert (first.rates.values, first.by_key["opt_lr"].values[-1]) == ((0.1,), 0.1)
    assert (second.rates.values[0], second.rates.values[-1], second.by_key["opt_lr"].values[-1]) == (0.1, 0.3, 0.5)
    assert set(first.tuned) - set(second.tuned) == {"opt_lr_schedule", "ds_image_size"}
    assert second.by_key["ds_area_range_min"].values == (0.05, 1.0), "a crop or none"


@pytest.mark.parametrize("name", PRESETS)
def test_defaults_are_the_preset_s_and_every_value_can_be_built(name: str) -> None:
    structure, given = PRESETS[name], RANGES[name.lower()]
    assert (structure.layers, structure.image_size) == (given.layers[2], given.image_size)
    assert all(size % structure.patch == 0 for size in given.image_sizes)


@pytest.mark.parametrize("space", EVERY)
def test_every_value_moves_one_place_and_back(space: Hyperparameters) -> None:
    assert (MU in space.tuned) == (len(space.rates.values) > 1)
    assert min(space.by_key) == MU, "it is decided first"
    assert list(space.tuned) == sorted(space.tuned)
    for row in space.rows:
        for place, value in enumerate(row.values):
            up, down = row.neighbour(value, up=True), row.neighbour(value, up=False)
            assert row.index(up) == min(place + 1, len(row.values) - 1)
            assert row.index(down) == max(place - 1, 0)


@pytest.mark.parametrize("space", EVERY)
def test_values_survive_storage(space: Hyperparameters) -> None:
    assert validate(Hyperparameters, space.model_dump(mode="json"), what="hyperparameters") == space
    stored = canonical.loads(canonical.dumps(space.defaults()))
    assert space.complete(stored) == space.defaults()


def test_a_number_is_found_with_a_tolerance_and_a_switch_is_no_number() -> None:
    row = Hyperparameter(key="a", values=(0.1, 0.3, 1.0), default=0.3)
    assert row.index(0.1 + 0.2) == 1
    assert row.index(1) == 2
    for strange in (True, "1.0", 0.2):
        with pytest.raises(UsageError, match=r"'a' is one of 0.1, 0.3, 1.0"):
            row.index(strange)
    with pytest.raises(UsageError):
        Hyperparameter(key="b", values=(True, False), default=True).index(1)


def test_values_of_others_are_completed_and_cut_to_what_is_known() -> None:
    space = singlepath_hyperparameters("tiny")
    assert space.complete({"num_paths": 3, "num_layers": 1}) == space.defaults() | {"num_layers": 1}
    with pytest.raises(UsageError, match="num_layers"):
        space.complete({"num_layers": 24})


@pytest.mark.parametrize(
    "values",
    [
        {"rows": []},
        {"rows": [{"key": MU, "values": [0.1, 1.5], "default": 0.1}]},
        {"rows": [{"key": MU, "values": [0.1], "default": 0.2}]},
        {"rows": [{"key": MU, "values": [0.1], "default": 0.1}] * 2},
        {"rows": [{"key": MU, "values": [0.1, 0.1], "default": 0.1}]},
        {"rows": [{"key": MU, "values": [0.1], "default": 0.1}, {"key": "a", "values": [1, "b"], "default": 1}]},
    ],
)
def test_what_is_no_list_of_hyperparameters(values: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        validate(Hyperparameters, values, what="hyperparameters")


def test_a_row_takes_the_place_of_its_key_s() -> None:
    space = singlepath_hyperparameters("tiny")
    pinned = space.with_row(Hyperparameter(key="opt_lr", values=(0.02,), default=0.02, tuned=False))
    assert set(space.tuned) - set(pinned.tuned) == {"opt_lr"}
    with pytest.raises(UsageError, match="no size 'huge'"):
        singlepath_hyperparameters("huge")
