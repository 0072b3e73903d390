"""The laws of every network of separate samples, as tests to inherit.

    class TestMine(NetworkTests):
        @pytest.fixture
        def case(self) -> NetworkCase:
            return NetworkCase(MyNetworkSpec())

Legend: B samples, S positions, d width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest
import torch
from torch import Tensor

from evodevo.experiments.flop_counter import counting
from evodevo.networks.base import Network
from evodevo.networks.build import build_network
from evodevo.networks.spec import NetworkSpec
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec
from evodevo.testing.networks import CLASS, FACTS, IMAGE, LABELS, TEXT, rows, small_batch

OUTPUTS = (CLASS, LABELS)
FEATURES = InputSpec("features", "features", length=5, size=6)
QUESTION = InputSpec("question", "tokens", length=9, vocabulary=11)
TASKS: dict[str, tuple[InputSpec, ...]] = {
    "image and text": (IMAGE, TEXT),
    "text": (TEXT,),
    "image": (IMAGE,),
    "vector": (FACTS,),
    "two texts": (QUESTION, TEXT),
    "image, features and two texts": (IMAGE, FEATURES, TEXT, QUESTION),
}
TOLERANCE = 1e-5


@dataclass(frozen=True)
class NetworkCase:
    """One network under test.

    Attributes:
        spec: description of a small network, which is built quickly.
        inputs: inputs of the task.
        outputs: outputs of the task.
        missing: whether samples may lack inputs.
        silent: beginnings of names of parameters that no gradient reaches, by design.
        counted: the stated FLOPs are those that one pass executes ``exactly``, or the ``most`` that it can execute;
            ``elsewhere`` if they are recounted by other tests.
        joint: false where the loss in evaluation is not that of the answers.
    """

    spec: NetworkSpec
    inputs: tuple[InputSpec, ...] = TASKS["image and text"]
    outputs: tuple[OutputSpec, ...] = OUTPUTS
    missing: bool = True
    silent: tuple[str, ...] = ()
    counted: Literal["exactly", "most", "elsewhere"] = "exactly"
    joint: bool = True

    def network(self, seed: int = 0) -> Network:
        """In evaluation mode."""
        return build_network(self.spec, self.inputs, self.outputs, seed).eval()

    def batch(self, count: int = 4, *, padded: bool = True, seed: int = 0) -> dict[str, Tensor]:
        """Random samples of different lengths."""
        return small_batch(self.inputs, self.outputs, count=count, padded=padded, seed=seed)


class NetworkTests:
    """Inherit, and give a fixture ``case``."""

    def test_answers_and_representations_have_their_shapes(self, case: NetworkCase) -> None:
        network, batch = case.network(), case.batch()
        with torch.no_grad():
            answers, seen = network(batch), network.represent(batch)
        assert {name: tuple(x.shape) for name, x in answers.items()} == {
            spec.name: (4, spec.size) for spec in case.outputs
        }
        assert seen.tokens.ndim == 3
        assert seen.pooled.shape == (4, seen.pooled.shape[-1])
        assert seen.mask is None or (seen.mask.shape == seen.tokens.shape[:2] and seen.mask.dtype == torch.bool)

    def test_a_sample_is_answered_as_if_alone(self, case: NetworkCase) -> None:
        network, batch = case.network(), case.batch(4)
        with torch.no_grad():
            together = network(batch)
            for place in range(4):
                alone = network(rows(batch, slice(place, place + 1)))
                for name, answer in alone.items():
                    torch.testing.assert_close(answer[0], together[name][place], atol=TOLERANCE, rtol=TOLERANCE)

    def test_padding_says_nothing(self, case: NetworkCase) -> None:
        texts = [spec for spec in case.inputs if spec.modality in ("tokens", "features")]
        if not texts:
            pytest.skip("nothing is padded here")
        network, batch = case.network(), case.batch()
        scrambled, longer = dict(batch), dict(batch)
        for spec in texts:
            raw, mask = batch[spec.name], batch[f"{spec.name}/mask"]
            other = raw.roll(1, 0)
            keep = mask if raw.ndim == 2 else mask.unsqueeze(-1)
            scrambled[spec.name] = torch.where(keep, raw, other)
            room = min(2, spec.length - raw.shape[1])
            longer[spec.name] = torch.cat([raw, other[:, :room]], 1)
            longer[f"{spec.name}/mask"] = torch.cat([mask, torch.zeros_like(mask[:, :room])], 1)
        with torch.no_grad():
            answers = network(batch)
            for changed in (scrambled, longer):
                for name, answer in network(changed).items():
                    torch.testing.assert_close(answer, answers[name], atol=TOLERANCE, rtol=TOLERANCE)

    def test_each_input_matters(self, case: NetworkCase) -> None:
        network, batch = case.network(), case.batch(8)
        with torch.no_grad():
            answers = network(batch)
            for spec in case.inputs:
                changed = network({**batch, spec.name: batch[spec.name].roll(1, 0)})
                assert any((changed[name] - answers[name]).abs().max() > 1e-7 for name in answers), spec.name

    def test_an_empty_text_gives_finite_answers_and_gradients(self, case: NetworkCase) -> None:
        network, batch = case.network(), case.batch()
        for name in [name for name in batch if name.endswith("/mask")]:
            batch[name] = torch.zeros_like(batch[name])
        for training in (False, True):
            network.train(training)
            loss = network.loss(batch)
            network.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            assert loss.isfinite()
            assert all(p.grad is None or p.grad.isfinite().all() for p in network.parameters())

    def test_a_missing_input_is_replaced_for_its_samples_alone(self, case: NetworkCase) -> None:
        if not case.missing:
            pytest.skip("it wants all inputs")
        network, batch = case.network(), case.batch()
        name = case.inputs[-1].name
        present = torch.tensor([True, False, True, False])
        with torch.no_grad():
            answers = network(batch)
            part = network({**batch, f"{name}/present": present})
            absent = {key: value for key, value in batch.items() if key.split("/")[0] != name}
            if len(case.inputs) > 1:
                none = network(absent)
                for key, answer in none.items():
                    torch.testing.assert_close(part[key][~present], answer[~present], atol=TOLERANCE, rtol=TOLERANCE)
        for key, answer in answers.items():
            torch.testing.assert_close(part[key][present], answer[present], atol=TOLERANCE, rtol=TOLERANCE)
            assert not torch.allclose(part[key][~present], answer[~present], atol=1e-7)

    def test_every_parameter_learns(self, case: NetworkCase) -> None:
        network = case.network().train()
        reached: set[str] = set()
        for seed in range(4):  # a rare expert may have no token in one batch
            batch = case.batch(16, seed=seed)
            if case.missing:
                for spec in case.inputs:
                    batch[f"{spec.name}/present"] = torch.arange(16) % 3 != 0
            network.zero_grad()
            network.set_progress(0.0)
            network.loss(batch).backward()  # type: ignore[no-untyped-call]
            for name, parameter in network.named_parameters():
                if parameter.grad is not None and bool(parameter.grad.abs().sum() > 0):
                    assert parameter.grad.isfinite().all(), name
                    reached.add(name)
            silent = {name for name, p in network.named_parameters() if p.requires_grad} - reached
            if not silent:
                break
        assert not [name for name in silent if not name.startswith(case.silent or ("-",))]

    def test_the_loss_is_the_sum_of_its_terms(self, case: NetworkCase) -> None:
        network, batch = case.network(), case.batch()
        for training in (True, False):
            network.train(training)
            with torch.no_grad():
                loss = network.loss(batch)
            assert all(not term.requires_grad and term.ndim == 0 for term in network.terms.values())
            if network.terms:
                torch.testing.assert_close(torch.stack(list(network.terms.values())).sum(), loss)
        if case.joint:
            with torch.no_grad():
                torch.testing.assert_close(loss, network.answers_loss(network(batch), batch))

    @pytest.mark.slow
    def test_it_learns_a_batch_by_heart(self, case: NetworkCase) -> None:
        network, batch = case.network().train(), case.batch(8)
        optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            before = float(network.eval().loss(batch).detach())
            for step in range(40):
                network.train().set_progress(step / 40)
                optimizer.zero_grad()
                network.loss(batch).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                network.observe()
                if step % 10 == 9 and float(network.eval().loss(batch).detach()) < 0.7 * before:
                    return
        raise AssertionError(f"after 40 steps the loss of 8 samples is above 0.7 of the first, {before}")

    def test_equal_seeds_give_equal_networks_and_leave_the_stream_alone(self, case: NetworkCase) -> None:
        state = torch.get_rng_state()
        first, second, other = (case.network(seed).state_dict() for seed in (1, 1, 2))
        assert torch.equal(state, torch.get_rng_state())
        assert first.keys() == second.keys()
        assert all(torch.equal(first[name], second[name]) or first[name].isnan().any() for name in first)
        assert any(not torch.equal(first[name], other[name]) for name in first if not first[name].isnan().any())

    def test_weights_travel(self, case: NetworkCase) -> None:
        first, second, batch = case.network(1), case.network(2), case.batch()
        second.load_state_dict(first.state_dict())
        with torch.no_grad():
            for name, answer in first(batch).items():
                assert torch.equal(answer, second(batch)[name])

    def test_learning_rates_name_parameters(self, case: NetworkCase) -> None:
        network = case.network()
        names = [name for name, _ in network.named_parameters()]
        assert all(any(name.startswith(start) for name in names) for start in network.learning_rates())

    def test_half_precision_is_finite(self, case: NetworkCase) -> None:
        network, batch = case.network().train(), case.batch()
        with torch.autocast("cpu", torch.bfloat16):
            loss = network.loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        assert loss.isfinite()
        assert all(p.grad is None or p.grad.isfinite().all() for p in network.parameters())

    def test_stated_parameters_are_built(self, case: NetworkCase) -> None:
        cost = case.spec.cost(inputs=case.inputs, outputs=case.outputs)
        built = sum(parameter.numel() for parameter in case.network().parameters())
        assert cost.parameters + cost.embedding_parameters == built

    def test_stated_work_is_counted(self, case: NetworkCase) -> None:
        network = case.network()
        batch = small_batch(case.inputs, case.outputs, count=2, length=max(spec.length for spec in case.inputs) or 1)
        for spec in case.inputs:
            if spec.modality == "tokens":
                batch[spec.name] = torch.zeros(2, spec.length, dtype=torch.long)
        with torch.no_grad(), counting(network) as counter:
            network(batch)
        stated = case.spec.cost(inputs=case.inputs, outputs=case.outputs, batch=2)
        if case.counted == "exactly":
            assert stated.executed_flops == counter.flops
        elif case.counted == "most":
            assert stated.executed_flops >= counter.flops
        assert case.spec.cost(inputs=case.inputs, outputs=case.outputs, batch=4).flops == 2 * stated.flops
