"""What is kept of a measurement: how many answers are right, which, and how much each path counted."""

from __future__ import annotations

import torch
from torch import nn

from evodevo.experiments.correct_bits import unpack
from evodevo.multitask.exact_answers import exact_answers
from evodevo.multitask.paths.multipath.model import Multipath
from evodevo.training.precision import Precision, decide

CPU: Precision = decide("cpu", "float32")


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
