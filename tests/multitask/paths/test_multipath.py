"""Multipath models (docs/spec/munet.md#multipath-model; reference vectors of docs/spec/munet.md#reference-numbers)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from evodevo.errors import UsageError
from evodevo.multitask.genome import Path, SubPath
from evodevo.multitask.paths.blocks_spec import HEAD
from evodevo.multitask.paths.frozen import FrozenPath
from evodevo.multitask.paths.multipath.model import Multipath, build_component
from evodevo.multitask.paths.multipath_spec import (
    ABLATIONS,
    ROUTER,
    MultipathStructure,
    connector,
    inherited,
    multipath_flops,
    multipath_parameters,
    multipath_shapes,
    structure_of,
)
from evodevo.multitask.paths.vision.model import VisionPath
from evodevo.multitask.paths.vision.spec import VisionStructure
from evodevo.networks.base import Representation
from evodevo.training import optimizers
from evodevo.training.settings import OptimizerSettings

PIXELS, CLASSES, WIDTHS = 6, 4, (5, 3)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Watched(nn.Module):
    """A path with everything that a frozen one must keep quiet, and a list of the rows that it was asked for."""

    def __init__(self, outputs: int, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.layers = nn.Sequential(nn.Linear(PIXELS, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.5))
        self.last = nn.Linear(8, outputs)
        self.asked: list[int] = []
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        self.asked.append(len(x))
        answer: Tensor = self.last(self.layers(x))
        return answer


def model(
    structure: MultipathStructure | None = None, *, rate: float = 1.0, widths: Sequence[int] = WIDTHS
) -> Multipath:
    supports = [Watched(width, seed) for seed, width in enumerate(widths, start=1)]
    return Multipath(Watched(CLASSES, 0), supports, CLASSES, widths, structure).double()


def shaken(found: Multipath, size: float = 1.0) -> Multipath:
    """With trained parts that are not zero."""
    with torch.no_grad():
        for number, parameter in enumerate(p for part in found.components().values() for p in part.parameters()):
            parameter.copy_(size * drawn(*parameter.shape, seed=100 + number))
    return found


def learn(found: Multipath, steps: int = 3, rate: float = 0.5) -> None:
    learning = [one for one in found.parameters() if one.requires_grad]
    optimizer = torch.optim.SGD(learning, lr=rate)
    for step in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(found(drawn(8, PIXELS, seed=step)), torch.arange(8) % CLASSES)
        loss.backward()
        optimizer.step()


# docs/spec/munet.md#reference-numbers
R_0 = [[2.0, 0, -1], [0, 1, 3]]
X_1 = [[1, -1, 0.5, 0], [0.5, 2, 0, -1]]
X_2 = [[0, 1, 1, 2], [1, 0, -1, 0.5]]
AVERAGED = [[-0.113187, 0.078096, 0.035091], [0.035091, -0.421904, 0.386813]]


def reference(structure: MultipathStructure, rate: float) -> tuple[Multipath, dict[str, Tensor], Tensor]:
    given = {"main": R_0, "support_1": X_1, "support_2": X_2}
    inputs = {name: torch.tensor(value, dtype=torch.float64) for name, value in given.items()}
    structure = structure.model_copy(update={"router_rate": rate})
    found = Multipath(nn.Identity(), [nn.Identity(), nn.Identity()], 3, (4, 4), structure).double().train()
    loss = nn.functional.cross_entropy(found(inputs), torch.tensor([0, 1]))
    loss.backward()
    grads = {name: p.grad for name, p in found.named_parameters() if p.grad is not None}
    return found, grads, loss.detach()


def close(found: Tensor, wanted: Any) -> None:
    torch.testing.assert_close(found, torch.tensor(wanted, dtype=found.dtype), atol=1e-6, rtol=0)


def test_reference_vectors() -> None:
    found, grads, loss = reference(MultipathStructure(router_norm="layer"), 0.05)
    inputs = {"main": torch.tensor(R_0), "support_1": torch.tensor(X_1), "support_2": torch.tensor(X_2)}
    close(found({name: value.double() for name, value in inputs.items()}), [[1.6, 0, -0.8], [0, 0.8, 2.4]])
    assert float(loss) == pytest.approx(1.0566669, abs=1e-7)
    for number in (1, 2):
        close(grads[f"connector_{number}.bias"], [-0.078096, -0.343808, 0.421904])
    close(grads["connector_1.weight"].T[:2], [[-0.095642, -0.132856, 0.228497], [0.183369, -0.921904, 0.738535]])
    close(grads["router.dense.bias"], [0.003817, -0.001908, -0.001908])
    close(grads["router.dense.weight"].T[:2], [[-0.009111, 0.004556, 0.004556], [-0.001020, 0.000510, 0.000510]])
    assert not grads["router.norm.weight"].any()
    assert not grads["router.norm.bias"].any()
    # dL/da, from the connector's kernel and what it read: X^T dL/da.
    torch.testing.assert_close(
        grads["connector_1.weight"].T, torch.tensor(X_1).double().T @ torch.tensor(AVERAGED).double(), atol=2e-6, rtol=0
    )


def test_reference_vectors_without_norm() -> None:
    _, grads, _ = reference(MultipathStructure(), 0.05)
    rows = [[-0.004183, 0.002092, 0.002092], [0.005908, -0.002954, -0.002954], [0.019817, -0.009908, -0.009908]]
    close(grads["router.dense.weight"].T, rows)


def test_without_the_main_path_connectors_learn_and_the_router_does_not() -> None:
    """By ``main_dropout``, checked by hand: some answers are of the supports alone, and only in training."""
    torch.manual_seed(3)
    kept = torch.rand(8, 1) >= 0.5
    assert 0 < int(kept.sum()) < 8
    found = shaken(model(MultipathStructure(main_dropout=0.5, router_rate=1.0)), 0.3)
    inputs = drawn(8, PIXELS)
    known = found.represent_paths(inputs)
    weights = found.eval().route(known).weights
    assert weights is not None
    parts = [known["main"], *(found.get_submodule(connector(n))(known[f"support_{n}"]) for n in (1, 2))]
    whole = sum(weights[:, place : place + 1] * part for place, part in enumerate(parts))
    torch.testing.assert_close(found(known), whole)
    torch.manual_seed(3)
    torch.testing.assert_close(found.train()(known), whole - weights[:, :1] * parts[0] * ~kept)

    always = shaken(model(MultipathStructure(main_dropout=1.0, router_rate=1.0)), 0.3).train()
    nn.functional.cross_entropy(always(inputs), torch.arange(8) % CLASSES).backward()
    gradients = {name: one.grad for name, one in always.named_parameters() if one.grad is not None}
    assert all(not gradients[name].any() for name in gradients if name.startswith(ROUTER))
    assert all(gradients[f"connector_{number}.weight"].any() for number in (1, 2))


def test_a_main_path_that_knows_its_samples_leaves_connectors_nothing_to_learn_without_dropout() -> None:
    targets = torch.arange(8) % CLASSES
    known = {"main": 40.0 * nn.functional.one_hot(targets, CLASSES).double()}
    known |= {f"support_{number}": drawn(8, width, seed=number) for number, width in enumerate(WIDTHS, start=1)}
    norms = {}
    for dropout in (0.0, 0.5):
        torch.manual_seed(0)
        found = model(MultipathStructure(main_dropout=dropout)).train()
        nn.functional.cross_entropy(found(known), targets).backward()
        gradient = found.get_submodule(connector(1)).weight.grad
        assert isinstance(gradient, Tensor)
        norms[dropout] = float(gradient.norm())
    assert norms[0.0] < 1e-9
    assert norms[0.5] > 0.05


def test_the_default_structure_is_the_papers_and_is_recorded_as_before() -> None:
    assert "main_dropout" not in MultipathStructure().model_dump(mode="json")
    assert MultipathStructure(main_dropout=0.5).model_dump(mode="json")["main_dropout"] == 0.5


def test_standard_aggregation_starves_the_connectors() -> None:
    for norm in ("none", "layer"):
        _, ours, _ = reference(MultipathStructure(router_norm=norm), 0.05)  # type: ignore[arg-type]
        _, standard, _ = reference(MultipathStructure(router_norm=norm, aggregation="standard"), 0.05)  # type: ignore[arg-type]
        for name, gradient in standard.items():
            wanted = ours[name] * 0.1 if name.startswith("connector") else ours[name]
            torch.testing.assert_close(gradient, wanted)


def test_the_first_step_of_the_ema_variant_is_plain_decoupling() -> None:
    found, ema, _ = reference(MultipathStructure(aggregation="ema"), 0.05)
    _, ours, _ = reference(MultipathStructure(), 0.05)
    for name, gradient in ours.items():
        torch.testing.assert_close(ema[name], gradient, atol=1e-7, rtol=0)  # the average is kept in float32
    close(found._router.average, [0.8, 0.1, 0.1])  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ABLATIONS)
def test_untrained_it_says_what_its_main_path_says(name: str) -> None:
    """docs/spec/munet.md#first-weights."""
    structure = ABLATIONS[name]
    found = model(structure).eval()
    x = drawn(50, PIXELS)
    main = found.paths["main"](x)
    weight = {"sum": 1.0}.get(structure.aggregation, 1 / 3 if structure.router_start == "uniform" else 0.8)
    torch.testing.assert_close(found(x), weight * main, rtol=1e-6, atol=0)
    assert torch.equal(found(x).argmax(-1), main.argmax(-1))


def test_alone_the_main_path_has_nothing_to_learn() -> None:
    found = model(widths=())
    x = drawn(5, PIXELS)
    routed = found.route(x)
    assert torch.equal(routed.logits, found.paths["main"](x))
    assert torch.equal(routed.weights, torch.ones(5, 1, dtype=torch.float64))
    assert not found.components()
    assert not [one for one in found.parameters() if one.requires_grad]


@pytest.mark.parametrize("name", ABLATIONS)
def test_training_changes_what_is_trained_and_not_a_bit_of_the_paths(name: str) -> None:
    found = model(ABLATIONS[name]).train()
    before = copy.deepcopy(found.state_dict())
    learn(found)
    changed = {key.split(".")[0] for key, value in found.state_dict().items() if not torch.equal(value, before[key])}
    assert changed == set(found.components())
    assert not any(part.training for path in found.paths.values() for part in path.modules())
    assert all(one.grad is None for one in found.paths.parameters())


@pytest.mark.parametrize("name", ABLATIONS)
def test_trained_parts_and_flops_are_those_that_are_stated(name: str) -> None:
    """Names, shapes and numbers are known without torch."""
    from torch.utils.flop_counter import FlopCounterMode

    structure = ABLATIONS[name]
    found = model(structure).eval()
    stated = multipath_shapes(structure, CLASSES, WIDTHS)
    sizes = multipath_parameters(structure, CLASSES, WIDTHS)
    assert list(found.components()) == list(stated)
    for role, part in found.components().items():
        assert {key: tuple(value.shape) for key, value in part.state_dict().items()} == stated[role]
        assert sum(one.numel() for one in part.parameters()) == sizes[role]
    known = found.represent_paths(drawn(7, PIXELS))
    with FlopCounterMode(display=False) as counter:
        found(known)
    assert counter.get_total_flops() == 7 * multipath_flops(structure, CLASSES, WIDTHS)


def test_sizes_of_the_specification() -> None:
    sizes = multipath_parameters(MultipathStructure(router_norm="layer"), 1000, (1024, 1024))
    assert sizes[ROUTER] == 5_003
    assert sizes[connector(1)] + sizes[connector(2)] == 2_050_000


@pytest.mark.parametrize("bar", [0.05, 0.2, 0.4, 0.99])
def test_skipping_equals_the_whole_with_those_rows_zeroed(bar: float) -> None:
    """docs/spec/munet.md#caching-and-skipping; the counters are the rows that each path was asked for."""
    structure = MultipathStructure(skip_below=bar)
    found = shaken(model(structure)).eval()
    x = drawn(40, PIXELS, seed=5) * 3
    for path in found.paths.values():
        path.module.asked.clear()  # type: ignore[union-attr]
    routed = found.route(x)
    asked = [sum(path.module.asked) for path in found.paths.values()]  # type: ignore[union-attr]
    assert asked == routed.ran.sum(0).tolist()
    assert asked[0] == 40
    assert bool((routed.ran[:, 1:] == (routed.weights[:, 1:] >= bar)).all())
    known = found.represent_paths(x)
    parts = [known["main"]] + [found.components()[connector(k)](known[f"support_{k}"]) for k in (1, 2)]
    zeroed = torch.stack(parts, 1) * routed.ran.unsqueeze(-1)
    torch.testing.assert_close(routed.logits, (routed.weights.unsqueeze(-1) * zeroed).sum(1))
    torch.testing.assert_close(found.route(known).logits, routed.logits)
    torch.testing.assert_close(routed.weights.sum(-1), torch.ones(40, dtype=torch.float64))
    if bar == 0.2:
        assert 0 < asked[1] < 40, "the case must be one where some are skipped"
    assert bool(found.train().route(x).ran.all()), "nothing is skipped while it learns"


@pytest.mark.parametrize("name", ABLATIONS)
def test_it_learns_and_skips_under_autocast(name: str) -> None:
    found = shaken(model(ABLATIONS[name])).float().train()
    x = drawn(8, PIXELS).float()
    with torch.autocast("cpu", torch.bfloat16):
        loss = nn.functional.cross_entropy(found(x).float(), torch.arange(8) % CLASSES)
    loss.backward()
    assert all(one.grad is not None for part in found.components().values() for one in part.parameters())
    exact = found.eval()(x)
    if found.structure.has_router:
        found.structure = found.structure.model_copy(update={"skip_below": 1e-6})
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        torch.testing.assert_close(found(x), exact.detach(), atol=0.3, rtol=0.05)


def test_a_child_with_as_many_paths_inherits_everything() -> None:
    """docs/spec/munet.md#multipath-children."""
    for structure in (MultipathStructure(router_norm="layer"), MultipathStructure(aggregation="ema")):
        parent, child = shaken(model(structure)), model(structure)
        assert child.inherit(parent) == dict.fromkeys(child.components(), True)
        before = copy.deepcopy(parent.state_dict())
        for role, part in parent.components().items():
            for key, value in part.state_dict().items():
                assert torch.equal(value, child.components()[role].state_dict()[key])
        learn(child.train())
        assert all(torch.equal(value, before[key]) for key, value in parent.state_dict().items())


@pytest.mark.parametrize("norm", ["none", "layer"])
@pytest.mark.parametrize(("paths", "then"), [(2, 3), (3, 2)])
def test_another_number_of_paths_resets_the_router_and_keeps_connectors(norm: Any, paths: int, then: int) -> None:
    """docs/spec/munet.md#multipath-children."""
    structure = MultipathStructure(router_norm=norm)
    parent = shaken(model(structure, widths=WIDTHS[: paths - 1]))
    child = model(structure, widths=WIDTHS[: then - 1])
    kept = child.inherit(parent)
    assert kept == {role: role == connector(1) for role in child.components()}
    assert torch.equal(child.components()[connector(1)].weight, parent.components()[connector(1)].weight)  # type: ignore[arg-type]
    fresh = build_component(structure, ROUTER, CLASSES, WIDTHS[: then - 1]).double()
    for key, value in child.components()[ROUTER].state_dict().items():
        assert torch.equal(value, fresh.state_dict()[key])
    if then == 3:
        assert not any(value.any() for value in child.components()[connector(2)].state_dict().values())
    else:
        assert set(child.components()) == {ROUTER, connector(1)}


def test_what_a_child_cannot_use_it_does_not_inherit() -> None:
    plain, classes = MultipathStructure(), 4
    parent = multipath_shapes(plain, classes, (5, 3))
    wider = multipath_shapes(plain, classes, (5, 7))
    assert inherited(parent, wider) == {"connector_1": True, "connector_2": False, "router": True}
    assert inherited(parent, parent, replaced=[1]) == {"connector_1": False, "connector_2": True, "router": True}
    assert not any(inherited({}, parent).values())


def test_anything_that_represents_may_support() -> None:
    class Imported(nn.Module):
        def represent(self, batch: dict[str, Tensor]) -> Representation:
            return Representation(batch["text"].unsqueeze(1), None, batch["text"] * 2)

    batch = {"text": drawn(6, 5), "image": drawn(6, PIXELS)}
    supports = [FrozenPath(Imported(), represent=True)]
    found = Multipath(FrozenPath(Watched(3, 0), reads="image"), supports, 3, (5,)).double()
    assert torch.equal(found.represent_path("support_1", batch), batch["text"] * 2)
    half = shaken(found).eval().route(batch).weights[:, 1].median().item()
    found.structure = MultipathStructure(skip_below=half)
    ran = found.route(batch).ran
    assert 0 < int(ran[:, 1].sum()) < 6
    with pytest.raises(UsageError, match="represent"):
        FrozenPath(nn.Identity(), represent=True)


def test_under_adam_the_router_has_a_rate_of_its_own() -> None:
    """Adam divides a gradient by its size, so scaling it does nothing; a group does."""
    moved = {}
    settings = OptimizerSettings(learning_rate=0.01, weight_decay=0.0)
    for rate_by in ("gradient", "group"):
        for rate in (1.0, 0.1):
            found = model(MultipathStructure(rate_by=rate_by, router_rate=rate)).train()  # type: ignore[arg-type]
            before = found.components()[ROUTER].dense.bias.detach().clone()  # type: ignore[union-attr]
            optimizer = optimizers.build(found, settings)
            nn.functional.cross_entropy(found(drawn(8, PIXELS)), torch.arange(8) % CLASSES).backward()
            optimizer.step()
            moved[rate_by, rate] = found.components()[ROUTER].dense.bias.detach() - before  # type: ignore[union-attr]
    torch.testing.assert_close(moved["gradient", 0.1], moved["gradient", 1.0], rtol=1e-3, atol=0)
    torch.testing.assert_close(moved["group", 0.1], moved["group", 1.0] * 0.1, rtol=1e-6, atol=0)


def path(structure: dict[str, Any], **hparams: Any) -> Path:
    paths = (SubPath(agent="Vit~a", number=0), SubPath(agent="Vit~b", number=3))
    plain: dict[str, Any] = {"agent": "MultiVit~a", "number": 1, "task": "a", "classes": 2, "kind": "multipath"}
    return Path(**plain, structure=structure, hparams=hparams, paths=paths)


def test_hyperparameters_say_what_the_structure_leaves_open() -> None:
    given = {"router_lr_mult": 0.2, "router_init_main_path_weight": 0.6}
    for stored in ({}, MultipathStructure().model_dump()):
        found = structure_of(path(stored, **given))
        assert (found.rate, found.first_weight) == (0.2, 0.6)
        assert (structure_of(path(stored)).rate, structure_of(path(stored)).first_weight) == (0.05, 0.8)
    ablated = structure_of(path(ABLATIONS["no_rate_scaling"].model_dump(), **given))
    assert (ablated.rate, ablated.first_weight) == (1.0, 0.6)
    for wrong in (1.5, "much", True):
        with pytest.raises(UsageError, match="router_rate"):
            structure_of(path({}, router_lr_mult=wrong))
    with pytest.raises(UsageError, match="two classes"):
        structure_of(path({"router_norm": "layer"}))
    with pytest.raises(UsageError, match="no multipath"):
        structure_of(path({}).model_copy(update={"kind": "vision_path"}))


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(ValueError, match="skip_below"):
        MultipathStructure(aggregation="sum", skip_below=0.1)
    with pytest.raises(UsageError, match="support_2"):
        model()({"main": drawn(2, CLASSES), "support_1": drawn(2, WIDTHS[0])})
    with pytest.raises(UsageError, match="widths"):
        Multipath(nn.Identity(), [nn.Identity()], 3, ())
    with pytest.raises(UsageError, match="two classes"):
        Multipath(nn.Identity(), [nn.Identity()], 2, (4,), MultipathStructure(router_norm="layer"))
    with pytest.raises(UsageError, match="other shapes"):
        Multipath(nn.Identity(), [nn.Identity()], 3, (4,), components={"connector_1": nn.Linear(5, 3)})
    with pytest.raises(UsageError, match="connector_2"):
        Multipath(nn.Identity(), [nn.Identity()], 3, (4,), components={"connector_2": nn.Linear(4, 3)})
    with pytest.raises(UsageError, match="head"):
        build_component(MultipathStructure(), "head", 3, (4,))
    with pytest.raises(UsageError, match="one row"):
        FrozenPath(nn.Identity())(drawn(2, 3, 4))


# Over vision paths of different resolutions (docs/spec/munet.md#sub-path-inputs)

SMALL = VisionStructure(width=16, heads=2, hidden=32, layers=2, image_size=16, patch=8, classes=CLASSES)
LARGE = VisionStructure(width=16, heads=4, hidden=32, layers=1, image_size=32, patch=16)


def paths() -> tuple[VisionPath, VisionPath]:
    main = VisionPath.fresh(SMALL, 0)
    with torch.no_grad():
        generator = torch.Generator().manual_seed(0)
        for parameter in main.components()[HEAD].parameters():
            parameter.normal_(generator=generator)
    return main.eval(), VisionPath.fresh(LARGE, 1).eval()


def images(batch: int = 4) -> dict[int, Tensor]:
    """The same pictures at both sizes."""
    native = torch.rand(batch, 3, 32, 32, generator=torch.Generator().manual_seed(1)) * 2 - 1
    return {32: native, 16: nn.functional.avg_pool2d(native, 2)}


def joined(main: VisionPath, support: VisionPath) -> Multipath:
    return Multipath(FrozenPath(main, reads=16), [FrozenPath(support, reads=32)], CLASSES, (support.structure.width,))


def test_each_path_represents_what_it_does_alone() -> None:
    """docs/spec/munet.md#sub-path-inputs."""
    main, support = paths()
    batch = images()
    with torch.no_grad():
        wanted = {"main": main(batch[16]), "support_1": support(batch[32])}
    found = joined(main, support).train().represent_paths(batch)
    assert {name: value.shape for name, value in found.items()} == {"main": (4, CLASSES), "support_1": (4, 16)}
    for name, value in wanted.items():
        assert torch.equal(found[name], value)
    with pytest.raises(UsageError, match="32"):
        joined(main, support)({16: batch[16]})


@pytest.mark.slow
def test_a_multipath_model_is_exported_for_any_number_of_samples() -> None:
    found = joined(*paths()).eval()
    samples = torch.export.Dim("samples", min=1, max=64)
    with torch.no_grad():
        found.get_submodule("connector_1").weight.normal_()  # type: ignore[operator,union-attr]
        shapes = ({size: {0: samples} for size in (32, 16)},)
        program = torch.export.export(found, (images(2),), dynamic_shapes=shapes)
        torch.testing.assert_close(program.module()(images(5)), found(images(5)))
