"""A zoo decides per sample, calls nobody in vain, and remembers by id (docs/spec/architect_thyself.md#laws)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from evodevo.errors import UsageError
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.modules.spec import ZooModule
from evodevo.module_zoo.modules.zoo import start_zoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.readout import Readout
from evodevo.module_zoo.spec import ZooLosses, ZooStructure
from evodevo.networks.build import build_network
from evodevo.settings import merge, validate
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec
from evodevo.testing.networks import CLASS, FACTS, IMAGE, NEXT, TEXT, small_batch

WIDTH = 16
BOTH = (IMAGE, TEXT)
MATCH = OutputSpec("match", "class", 2, ("no", "yes"))


KEYS = ("output", "genotype", "predictor")


def loss_of(network: ModuleZoo, batch: dict[str, Tensor]) -> Tensor:
    """Modules drop units while they train; equal seeds drop the same ones."""
    torch.manual_seed(3)
    return network.loss(batch)


def assert_learns(network: ModuleZoo, batch: dict[str, Tensor]) -> None:
    loss = loss_of(network.train(), batch)
    loss.backward()
    assert bool(loss.isfinite())
    assert all(bool(p.grad.isfinite().all()) for p in network.parameters() if p.grad is not None)


def dumped(*modules: ZooModule) -> list[dict[str, Any]]:
    return [module.model_dump(mode="json") for module in modules]


def structure(**changes: Any) -> ZooStructure:
    base = {
        "width": WIDTH,
        "extractor": {"blocks": 1},
        "statistics": {"rank": 2},
        "fusion": {"heads": 2},
        "router": {"heads": 2, "top_k": 2},
        "modules": dumped(*start_zoo(WIDTH)[:4]),
        "dropout": 0.0,
    }
    return validate(ZooStructure, merge(base, changes), what="a small zoo")


def zoo(
    inputs: tuple[InputSpec, ...] = BOTH,
    outputs: tuple[OutputSpec, ...] = (CLASS,),
    *,
    seed: int = 0,
    **changes: Any,
) -> ModuleZoo:
    """In evaluation mode, float64, with a router whose choices differ between samples."""
    network = build_network(ModuleZooNetwork(structure=structure(**changes)), inputs, outputs, seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name.startswith(("router.", "predictor.", "genotype_keys.", "pool.query")):
                parameter.add_(0.7 * torch.randn(parameter.shape, generator=generator))
    return network.double().eval()


def answers(network: ModuleZoo, batch: dict[str, Tensor]) -> Tensor:
    with torch.no_grad():
        return torch.cat(list(network(batch).values()), 1)


@pytest.mark.parametrize("inputs", [BOTH, (TEXT,)], ids=["image asks, no mask", "padded text"])
@pytest.mark.parametrize("keys", ["genotype", "predictor"])
def test_modules_that_were_not_chosen_are_not_run(keys: str, inputs: tuple[InputSpec, ...]) -> None:
    network = zoo(inputs, router={"keys": keys, "top_k": 2})
    batch = small_batch(inputs, count=12, padded=True)
    network.pool.reset()
    passage = network.passage(batch)
    wanted = {one: int(count) for one, count in zip(passage.ids, passage.executed.sum(0), strict=True)}
    assert {one: network.pool.rows[one] for one in passage.ids} == wanted
    assert {one for one, count in network.pool.calls.items() if count} == {one for one, n in wanted.items() if n}
    most = 2 if keys == "genotype" else 3
    assert (passage.executed.sum(1) <= most).all()
    assert passage.executed.any(1).all()
    assert len({tuple(row) for row in passage.executed.tolist()}) > (keys == "predictor"), "choices differ"
    # The same decision over the outputs of all modules, masked, is the same answer.
    heard = network.fuse(batch)
    everything = network.pool(passage.ids, heard.fused.tokens, heard.fused.mask)
    torch.testing.assert_close(
        torch.where(passage.executed[..., None], everything, 0.0), passage.outputs, rtol=0, atol=1e-10
    )
    mixed = network.router.mix(passage.decision, everything, heard.fused.vector)
    torch.testing.assert_close(mixed, passage.mixed, rtol=0, atol=1e-10)


@pytest.mark.parametrize("keys", KEYS)
def test_while_training_everybody_runs(keys: str) -> None:
    """Otherwise who is not chosen would never learn to be."""
    network, batch = zoo(router={"keys": keys, "top_k": 1}).train(), small_batch(BOTH, count=5)
    passage = network.passage(batch)
    assert passage.executed.all()
    assert passage.outputs.any(-1).all()
    assert network.pool.rows == dict.fromkeys(network.live, 5)
    if keys == "output":
        network.eval().pool.reset()
        network.passage(batch)
        assert set(network.pool.calls) == set(network.live), "keys from outputs need everybody, always"


def test_an_attention_pool_weighs_real_positions() -> None:
    network = zoo(pool="attention")
    pool, source = network.pool, torch.Generator().manual_seed(0)
    x = torch.randn(3, 6, WIDTH, generator=source, dtype=torch.float64)
    mask = torch.arange(6) < torch.tensor([[6], [2], [1]])
    with torch.no_grad():
        found = pool(("mlp-1",), x, mask)[:, 0]
        y = pool.parts["mlp-1"](x, mask=mask).y
        for number, length in enumerate((6, 2, 1)):
            scores = y[number, :length] @ pool.query / WIDTH**0.5
            torch.testing.assert_close(found[number], scores.softmax(0) @ y[number, :length])


def test_a_readout_starts_as_nothing_and_lets_one_input_decide_what_another_means() -> None:
    batch = small_batch(BOTH)
    linear, network = zoo(), zoo(readout=12)
    missing = network.load_state_dict(linear.state_dict(), strict=False)
    assert all(name.startswith("readout.") for name in missing.missing_keys)
    torch.testing.assert_close(answers(network, batch), answers(linear, batch), rtol=0, atol=1e-10)
    assert isinstance(network.readout, Readout)
    z = torch.randn(5, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        for parameter in network.readout.parameters():
            parameter.copy_(torch.randn(parameter.shape, dtype=torch.float64))
        part = network.readout
        normed = z / (z.square().mean(-1, keepdim=True) + 1e-6).sqrt() * part.norm.weight
        inner = torch.nn.functional.gelu(normed @ part.up.weight.T + part.up.bias)
        torch.testing.assert_close(part(z), z + inner @ part.down.weight.T + part.down.bias)


def test_a_pool_of_positions_starts_as_the_mean_and_maps_each_real_position_for_itself() -> None:
    batch = small_batch(BOTH)
    mean, network = zoo(), zoo(pool="positions")
    missing = network.load_state_dict(mean.state_dict(), strict=False)
    assert missing == (["pool.maps"], [])
    torch.testing.assert_close(answers(network, batch), answers(mean, batch), rtol=0, atol=1e-10)
    pool, source = network.pool, torch.Generator().manual_seed(0)
    places = pool.maps.shape[0]
    x = torch.randn(4, places, WIDTH, generator=source, dtype=torch.float64)
    mask = torch.arange(places) < torch.tensor([[places], [2], [1], [0]])
    with torch.no_grad():
        pool.maps.copy_(torch.randn(pool.maps.shape, generator=source, dtype=torch.float64))
        found, all_real = pool(("mlp-1",), x, mask)[:, 0], pool(("mlp-1",), x, None)[:, 0]
        y, whole = pool.parts["mlp-1"](x, mask=mask).y, pool.parts["mlp-1"](x, mask=None).y
        for number, length in enumerate((places, 2, 1)):
            mapped = [y[number, place] @ pool.maps[place] for place in range(length)]
            torch.testing.assert_close(found[number], torch.stack(mapped).mean(0))
        assert not found[3].any()
        mapped = [whole[1, place] @ pool.maps[place] for place in range(places)]
        torch.testing.assert_close(all_real[1], torch.stack(mapped).mean(0))


@pytest.mark.parametrize("keys", KEYS)
def test_the_order_of_modules_does_not_matter(keys: str) -> None:
    network, batch = zoo(router={"keys": keys}), small_batch(BOTH)
    turned = zoo(router={"keys": keys}, modules=dumped(*network.structure.modules[::-1]))
    turned.load_state_dict(network.state_dict())
    torch.testing.assert_close(answers(turned, batch), answers(network, batch), rtol=0, atol=1e-10)
    weights, others = network.route(batch)["weights"], turned.route(batch)["weights"]
    torch.testing.assert_close(others.flip(1), weights, rtol=0, atol=1e-6)


def test_who_goes_is_inactive_and_who_is_inactive_or_disabled_neither_runs_nor_counts() -> None:
    network, batch = zoo(), small_batch(BOTH)
    ids = network.live
    without = zoo(disabled=[ids[1]])
    assert ids[1] not in without.live
    network.active = frozenset(ids) - {ids[1]}
    without.load_state_dict(network.state_dict())
    torch.testing.assert_close(answers(network, batch), answers(without, batch), rtol=0, atol=1e-12)
    network.pool.reset()
    network(batch)
    assert network.pool.calls[ids[1]] == 0
    with pytest.raises(UsageError, match="transformer-1"):
        network.active = frozenset({"transfomer-1"})
    with pytest.raises(UsageError, match="at least one"):
        network.active = frozenset()
    network = zoo()
    first, second = network.live[:2]
    network.active = (first, second)
    network.remove(first)
    assert network.active == {second}
    network.active = network.active  # which refuses modules that are not there
    with pytest.raises(UsageError, match="last module that is live"):
        network.remove(second)


TERMS = ("load", "budget", "entropy", "orthogonality", "complexity", "z", "predictor", "align")


@pytest.mark.parametrize("name", TERMS)
def test_every_loss_has_a_switch_and_a_log(name: str) -> None:
    router = {"predictor": {"keys": "predictor"}, "budget": {"gate": "softmax"}}.get(name, {})
    changes: dict[str, Any] = {"router": router}
    batch, network = small_batch(BOTH), zoo(**changes).train()
    total = loss_of(network, batch)
    torch.testing.assert_close(torch.stack(list(network.terms.values())).sum(), total.detach())
    off = zoo(losses={name: 0.0}, **changes).train()
    off.load_state_dict(network.state_dict(), strict=name != "align")  # who does not align has no statistics
    less = loss_of(off, batch)
    assert name not in off.terms
    torch.testing.assert_close(less.detach() + network.terms[name], total.detach())
    assert network.terms[name] != 0


def test_in_evaluation_and_without_other_losses_the_task_is_all_that_counts() -> None:
    network, quiet = zoo(), zoo(losses=dict.fromkeys(TERMS, 0.0)).train()
    for one in (network, quiet):
        one.loss(small_batch(BOTH))
        assert set(one.terms) == {"task"}
    fields = {name for name, one in ZooLosses.model_fields.items() if one.annotation is float}
    assert fields - set(TERMS) == {"entropy_until", "align_temperature", "replay"}, "a new loss is to be tested above"


def test_the_entropy_term_fades() -> None:
    network, batch, seen = zoo().train(), small_batch(BOTH), []
    for share in (0.0, 0.15, 0.3, 0.9):
        network.set_progress(share)
        loss_of(network, batch)
        seen.append(float(network.terms.get("entropy", 0.0)))
    assert seen[0] < seen[1] < seen[2] == seen[3] == 0.0, "entropy is subtracted, and half of it is left half way"
    assert seen[1] == pytest.approx(seen[0] / 2)


def test_only_matched_pairs_align() -> None:
    batch = small_batch(BOTH, (MATCH,), count=6)
    network = zoo(outputs=(MATCH,)).train()
    batch["match/target"] = torch.zeros(6, dtype=torch.int64)
    loss_of(network, batch)
    assert network.terms["align"] == 0, "nothing matches"
    batch["match/target"][:4] = 1
    loss_of(network, batch)
    first = network.terms["align"]
    assert first > 0
    torch.manual_seed(1)
    batch["image"][4:] = torch.randint(0, 256, batch["image"][4:].shape).to(torch.uint8)
    loss_of(network, batch)
    torch.testing.assert_close(network.terms["align"], first)
    loss_of(network, {**batch, "matched": torch.zeros(6, dtype=torch.bool)})
    assert network.terms["align"] == 0, "a question is not pulled towards its image"


def aligned(network: ModuleZoo, batch: dict[str, Tensor], positives: list[int]) -> tuple[float, float]:
    """The term of a batch, and what it is where samples of one number are positives of each other."""
    loss_of(network, batch)
    torch.manual_seed(3)
    image, text = network.fuse(batch).sides
    numbers = torch.tensor(positives)
    wanted = network.alignment(image.vector, text.vector, same=(numbers, numbers))
    return float(network.terms["align"]), float(network.structure.losses.align * wanted.detach())


def test_equal_inputs_are_positives_and_those_that_merely_add_up_alike_are_not() -> None:
    network, batch = zoo().train(), small_batch(BOTH)
    batch["text"] = torch.tensor([[1, 2, 2, 1], [2, 1, 1, 2], [3, 3, 3, 3], [1, 4, 4, 1]])
    found, wanted = aligned(network, batch, [0, 1, 2, 3])
    assert found == pytest.approx(wanted), "a permutation with the same centre is another text"
    batch["text"][3] = batch["text"][0]
    found, wanted = aligned(network, batch, [0, 1, 2, 0])
    assert found == pytest.approx(wanted)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_features_of_any_type_align(dtype: torch.dtype) -> None:
    inputs = (InputSpec("image", "features", length=1, size=3), TEXT)
    network, batch = zoo(inputs).train(), small_batch((TEXT,))
    batch["image"] = torch.tensor([[1, 2, 3], [4, 5, 6], [1, 2, 3], [1, 3, 2]], dtype=dtype).unsqueeze(1)
    found, wanted = aligned(network, batch, [0, 1, 0, 3])
    assert found == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("keys", "dtype"), [("output", torch.bfloat16), ("genotype", torch.float16), ("predictor", torch.bfloat16)]
)
def test_a_zoo_of_16_bits_learns(keys: str, dtype: torch.dtype) -> None:
    network, batch = zoo(router={"keys": keys}).to(dtype), small_batch(BOTH)
    if keys == "output":
        wanted = answers(zoo(router={"keys": keys}), batch)
        torch.testing.assert_close(answers(network, batch).double(), wanted, rtol=0, atol=0.1)
    assert_learns(network, batch)


def test_statistics_learn_by_observing_alone_and_are_kept_by_id() -> None:
    network, batch = zoo().train(), small_batch(BOTH)
    assert network.statistics.contribution(network.live).isnan().all()
    loss_of(network.eval(), batch)
    network.observe()
    network(batch)
    network.observe()
    assert network.statistics.contribution(network.live).isnan().all()
    loss_of(network.train(), batch)
    torch.manual_seed(3)
    used = network.passage(batch).decision.weights.mean(0)
    assert network.statistics.usage(network.live).isnan().all()
    network.observe()
    torch.testing.assert_close(network.statistics.usage(network.live), used, rtol=0, atol=1e-6)
    before = network.statistics.usage(network.live)
    network.observe()
    assert torch.equal(network.statistics.usage(network.live), before), "one step is counted once"
    network, batch = zoo().train(), small_batch(BOTH)
    ids = network.live
    loss_of(network, batch)
    network.observe()
    before = dict(zip(ids, network.statistics.contribution(ids).tolist(), strict=True))
    network.active = frozenset(ids[2:])
    loss_of(network, batch)
    network.observe()
    after = dict(zip(ids, network.statistics.contribution(ids).tolist(), strict=True))
    assert all(before[one] == after[one] for one in ids[:2])
    assert any(before[one] != after[one] for one in ids[2:])


def test_what_was_contributed_biases_the_router_and_impacts_of_which_none_helps_count_for_nobody() -> None:
    network, batch = zoo(router={"contribution": 5.0, "gate": "softmax", "top_k": None}), small_batch(BOTH)
    quiet, ids = network.route(batch)["weights"], network.live
    statistics, usage = network.statistics, torch.linspace(0.1, 0.5, len(ids), dtype=torch.float64)
    statistics.probed(dict.fromkeys(ids, -1.0))
    statistics.observe(ids, usage)
    torch.testing.assert_close(statistics.contribution(ids), 0.5 * usage / 0.5)
    statistics.probed(dict.fromkeys(ids, -1.0) | {ids[0]: 1.0})
    for _ in range(20):
        statistics.observe(ids, torch.full((len(ids),), 1 / len(ids), dtype=torch.float64))
    assert (network.route(batch)["weights"][:, 0] > quiet[:, 0]).all()


def test_modules_of_the_start_differ_between_networks_and_newborns_do_not() -> None:
    def weights(network: ModuleZoo, module: str) -> Tensor:
        return torch.cat([part.flatten() for part in network.pool.parts[module].parameters()])

    one, other = zoo(seed=0), zoo(seed=1)
    assert not torch.equal(weights(one, "transformer-1"), weights(other, "transformer-1"))
    newborn = start_zoo(WIDTH)[0].model_copy(update={"id": "newborn", "seed": 7})
    for network in (one, other):
        network.pool.insert(newborn)
    assert torch.equal(weights(one, "newborn"), weights(other, "newborn"))


@pytest.mark.parametrize("inputs", [BOTH, (TEXT, FACTS)])
def test_a_batch_of_empty_texts_is_one_of_masked_texts(inputs: tuple[InputSpec, ...]) -> None:
    network, batch = zoo(inputs), small_batch(inputs)
    masked = {**batch, "text/mask": torch.zeros(batch["text"].shape, dtype=torch.bool)}
    empty = {**batch, "text": batch["text"][:, :0]}
    torch.testing.assert_close(answers(network, empty), answers(network, masked), rtol=0, atol=1e-9)
    assert_learns(network, empty)


def test_zoos_that_cannot_be_and_one_module_that_has_nothing_to_route() -> None:
    first = start_zoo(WIDTH)[0]
    with pytest.raises(UsageError, match="at least one module"):
        zoo(modules=[])
    with pytest.raises(UsageError, match="tokens"):
        zoo((TEXT,), (NEXT,))
    with pytest.raises(UsageError, match="two modules have the id"):
        structure(modules=dumped(first, first))
    with pytest.raises(UsageError, match="width 8"):
        structure(modules=dumped(start_zoo(8)[0]))
    with pytest.raises(UsageError, match="PyTorch"):
        zoo(modules=dumped(first.model_copy(update={"id": "train"})))
    with pytest.raises(UsageError, match="missing"):
        answers(zoo(missing=False), {**small_batch(BOTH), "image/present": torch.tensor([True, False, True, False])})
    network = zoo(modules=dumped(start_zoo(WIDTH)[1]))
    network.train().loss(small_batch(BOTH))
    assert set(network.terms) <= {"task", "align"}
    assert torch.equal(network.route(small_batch(BOTH))["weights"], torch.ones(4, 1))
