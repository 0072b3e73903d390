"""A zoo that begins with a race, against the networks that one would draw by hand, each at its best of several rates.

Run: python benchmarks/zoo_opponents.py DATA --results FILE [--budget 70] [--recipe] [--arms "raced;..."]

DATA is a folder that ``module_zoo.growth_proof`` knows; its settings hold but for batch and width, 16 each (with
``--recipe`` these hold, too). Each arm is trained for ``--budget`` GFLOPs, everything counted: ``raced`` begins with
the module that a race over six leaves; ``raced, pool of positions`` has ``pool = "positions"``, and the next one
``readout = 128``, too; ``raced with pairs`` leaves half of the race to pairs; ``raced and grown, forked`` grows after
it where a fork confirms an edit, ``race, then grow`` grows as in ``module_zoo.race_then_grow``, whose zoo ``--zoo``
gives; the mixtures of experts, the gated multimodal unit and the concatenated MLP have the parameters of the six and
their extractors, and ``--zoo`` changes these in all of them; ``plain`` is a convolutional network for images beside a
GRU for texts, concatenated, in two sizes, and to find out why it is ahead also with a mean over places, and with linear
patches in the place of convolutions. The rate of each arm is that with the best accuracy on validation with seed 0;
with it come the seeds. A line of JSON for each training is appended to ``--results``, which is gone on with; then a
table, with the differences of the ``--reference`` to each arm on test, paired over seeds, and their 95 % interval (t
distribution). One thread.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from evodevo.experiments.evaluate import evaluate_network
from evodevo.experiments.measure import places
from evodevo.experiments.problem import NetworkProblem
from evodevo.experiments.recipe import ExperimentSettings
from evodevo.experiments.trials import Trial
from evodevo.growth.recipes.proof import RACE, RACE_LEAST
from evodevo.module_zoo.baselines.network import BaselineNetwork
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.recipes.baselines import STYLES, Style, matched
from evodevo.settings import merge
from evodevo.tasks.base import SampleTask, Split
from measuring import print_table
from starting_race import ARMS, against, experiment

GIGA = 1e9
RACED = "raced"
PAIRS = "raced with pairs"
PLACED = "raced, pool of positions"
COMBINED = "raced, pool of positions, readout"
CHANGED: dict[str, dict[str, Any]] = {PLACED: {"pool": "positions"}, COMBINED: {"pool": "positions", "readout": 128}}
GROWN = "raced and grown, forked"
RACE_GROWN = "race, then grow"
RIVALS: tuple[Style, ...] = ("switch", "st_moe", "soft_moe", "gated_unit", "concat_mlp")
MEAN = "mean of places"
PLAIN: dict[str, tuple[int, ...]] = {
    "plain, 8 channels": (8, 16, 32),
    "plain, 16 channels": (16, 32, 64),
    f"plain, 8 channels, {MEAN}": (8, 16, 32),
    "patches": (),
    f"patches, {MEAN}": (),
}
"""Name -> channels after each convolution; none are linear patches."""
SIDE, CHANNELS = 4, 32
"""Pixels along a patch, and what is made of it."""
NAMES = (RACED, *CHANGED, PAIRS, GROWN, RACE_GROWN, *(STYLES[style] for style in RIVALS), *PLAIN)
UNITS = 32
POINTS = 20
"""Looks at the validation split, of which the best counts, as in the recipe."""
PART = 500


class Plain(nn.Module):
    """Convolutions or patches for each image, a GRU both ways for each text, and a hidden layer over all of them.

    A hidden layer reads all places of the image, or their mean.
    """

    def __init__(self, task: SampleTask, channels: Sequence[int], *, mean: bool) -> None:
        super().__init__()
        self.inputs, self.output = task.inputs, task.outputs[0]
        encoders: dict[str, nn.Module] = {}
        width = 0
        for spec in self.inputs:
            if spec.modality == "image":
                layers: list[nn.Module] = []
                for narrow, wide in itertools.pairwise((spec.channels, *channels)):
                    layers += [nn.Conv2d(narrow, wide, 3, padding=1), nn.BatchNorm2d(wide), nn.ReLU(), nn.MaxPool2d(2)]
                if not layers:
                    layers = [nn.Conv2d(spec.channels, CHANNELS, SIDE, stride=SIDE), nn.ReLU()]
                wide, shrunk = (channels[-1], 2 ** len(channels)) if channels else (CHANNELS, SIDE)
                cells = 1 if mean else (spec.height // shrunk) * (spec.width // shrunk)
                layers += [nn.AdaptiveAvgPool2d(1)] if mean else []
                layers += [nn.Flatten(), nn.Linear(wide * cells, 2 * UNITS), nn.ReLU()]
                encoders[spec.name] = nn.Sequential(*layers)
            else:
                encoders[spec.name] = Words(spec.vocabulary)
            width += 2 * UNITS
        self.encoders = nn.ModuleDict(encoders)
        self.head = nn.Sequential(nn.Linear(width, 2 * UNITS), nn.ReLU(), nn.Linear(2 * UNITS, self.output.size))

    def forward(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Logits (B, classes)."""
        encoded = []
        for spec in self.inputs:
            given = batch[spec.name]
            if spec.modality == "image":
                encoded.append(self.encoders[spec.name](given.permute(0, 3, 1, 2).float() / 127.5 - 1))
            else:
                mask = batch.get(f"{spec.name}/mask", torch.ones_like(given, dtype=torch.bool))
                encoded.append(self.encoders[spec.name](given.long(), mask))
        return self.head(torch.cat(encoded, 1))


class Words(nn.Module):
    """Mean over the positions of a GRU both ways."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, UNITS)
        self.gru = nn.GRU(UNITS, UNITS, batch_first=True, bidirectional=True)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """(B, 2 units) of tokens (B, L)."""
        states, _ = self.gru(self.embedding(tokens))
        weights = mask.float()[..., None]
        return (states * weights).sum(1) / weights.sum(1).clamp_min(1)


def tensors(batch: Mapping[str, Any]) -> dict[str, Tensor]:
    return {key: torch.from_numpy(np.ascontiguousarray(value)) for key, value in batch.items()}


def accuracy(network: Plain, task: SampleTask, split: Split, most: int | None) -> float:
    """On the samples of a split that the recipe measures."""
    chosen = places(task, split, most)
    right = 0
    network.eval()
    with torch.no_grad():
        for start in range(0, len(chosen), PART):
            batch = tensors(task.fetch(split, chosen[start : start + PART]))
            target = batch[f"{task.outputs[0].name}/target"]
            right += int((network(batch).argmax(1) == target).sum())
    network.train()
    return right / len(chosen)


def plain(made: ExperimentSettings, task: SampleTask, name: str, rate: float, seed: int) -> dict[str, Any]:
    """The plain network, trained with the optimiser and for the FLOPs of the recipe."""
    torch.manual_seed(seed)
    network = Plain(task, PLAIN[name], mean=name.endswith(MEAN))
    settings = made.evaluation.training
    optimiser_settings = settings.optimizer.model_copy(update={"learning_rate": rate})
    budget = settings.budget.flops
    assert budget is not None, "the benchmark sets it"

    def loss(step: int) -> Tensor:
        batch = tensors(task.batch("train", seed, step, settings.batch_size))
        return F.cross_entropy(network(batch), batch[f"{task.outputs[0].name}/target"].long())

    with FlopCounterMode(display=False) as counter:
        loss(0).backward()
    each = counter.get_total_flops()
    steps = max(1, int(budget / each))
    decayed = [weight for weight in network.parameters() if weight.ndim > 1]
    others = [weight for weight in network.parameters() if weight.ndim <= 1]
    groups = [
        {"params": decayed, "weight_decay": optimiser_settings.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    betas = (optimiser_settings.beta1, optimiser_settings.beta2)
    optimiser = torch.optim.AdamW(groups, rate, betas=betas)
    looks = {math.ceil(steps * point / POINTS) for point in range(1, POINTS + 1)}
    best, weights = -1.0, network.state_dict()
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = optimiser_settings.rate_at(step, steps, (step + 1) / steps)
        optimiser.zero_grad()
        loss(step).backward()
        nn.utils.clip_grad_norm_(network.parameters(), optimiser_settings.clip)
        optimiser.step()
        if step + 1 in looks:
            seen = accuracy(network, task, "validation", made.evaluation.validation_samples)
            if seen > best:
                best, weights = seen, {name: value.clone() for name, value in network.state_dict().items()}
    network.load_state_dict(weights)
    return {
        "validation": round(100 * best, 2),
        "accuracy": round(100 * accuracy(network, task, "test", made.evaluation.test_samples), 2),
        "steps": steps,
    }


def arm_of(made: ExperimentSettings, task: SampleTask, name: str, rate: float, seed: int) -> Trial:
    """One training of the zoo or of a rival."""
    zoo = next(arm.network for arm in made.experiment.arms if arm.name == "fixed")
    assert isinstance(zoo, ModuleZooNetwork)
    race = {**RACE, "least": RACE_LEAST}
    same: dict[str, Any] = {"name": name, "learning_rate": rate, "seed": seed}
    if name in CHANGED:
        zoo = ModuleZooNetwork(structure=zoo.structure.model_copy(update=CHANGED[name]))
    if name in (RACED, *CHANGED, PAIRS):
        options = {**race, "singles": 0.5} if name == PAIRS else race
        return Trial(role="zoo", network=zoo, procedure="race", options=options, **same)
    if name == GROWN:
        options = merge(ARMS[GROWN], {"race": {**race, "partial": True}})
        return Trial(role="zoo", network=zoo, procedure="grow", options=options, **same)
    if name == RACE_GROWN:
        return Trial(role="zoo", network=zoo, procedure="grow", options=ARMS[RACE_GROWN], **same)
    style = next(style for style in RIVALS if STYLES[style] == name)
    structure = matched(style, zoo.structure, task.inputs, task.outputs)
    return Trial(role="opponent", network=BaselineNetwork(structure=structure), **same)


def trained(made: ExperimentSettings, task: SampleTask, name: str, rate: float, seed: int) -> dict[str, Any]:
    """One training to the end of its budget."""
    began = time.process_time()
    if name in PLAIN:
        told = plain(made, task, name, rate, seed)
    else:
        arm = arm_of(made, task, name, rate, seed)
        with tempfile.TemporaryDirectory() as folder:
            problem = NetworkProblem(lambda one: one, made.evaluation, Path(folder), arms=(arm,))
            outcome = problem.read(evaluate_network(problem.payload(arm, seed, None), lambda message: None))
        assert outcome.reason is None, outcome.detail
        facts = outcome.extra
        told = {
            "validation": round(100 * facts["validation"]["accuracy"], 2),
            "accuracy": round(100 * facts["test"]["accuracy"], 2),
            "steps": facts["steps"],
        }
    return {"arm": name, "rate": rate, "seed": seed, **told, "cpu_seconds": round(time.process_time() - began, 1)}


def table(rows: Sequence[dict[str, Any]], rates: Mapping[str, float], reference: str) -> list[dict[str, Any]]:
    """One row for each arm, at its rate, best on test first, with the difference of the reference to it."""
    made = []
    for arm, rate in rates.items():
        own = [row for row in rows if row["arm"] == arm]
        scores = [row["accuracy"] for row in own]
        if own:
            made.append(
                {
                    "arm": arm,
                    "rate": rate,
                    "seeds": len(own),
                    "accuracy": round(statistics.fmean(scores), 1),
                    "deviation": round(statistics.stdev(scores), 1) if len(scores) > 1 else "",
                    f"{reference} minus it": against(list(rows), reference, arm),
                    "steps": round(statistics.fmean(row["steps"] for row in own)),
                    "CPU seconds": round(statistics.fmean(row["cpu_seconds"] for row in own)),
                }
            )
    return sorted(made, key=lambda row: -row["accuracy"])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data")
    parser.add_argument("--results", type=Path, required=True, help="file of results, one a line, that is gone on with")
    parser.add_argument("--budget", type=float, default=70.0, help="GFLOPs of each training")
    parser.add_argument("--recipe", action="store_true", help="width and batch of the recipe, 32 and 64")
    parser.add_argument("--rates", type=float, nargs="+", default=[1e-3, 3e-3, 1e-2])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--zoo", type=json.loads, default={}, help="settings of the zoo in all arms, as JSON")
    parser.add_argument("--reference", default=RACED, help="arm from which differences are taken")
    parser.add_argument("--arms", help=f"with semicolons, of: {'; '.join(NAMES)}")
    given = parser.parse_args()
    torch.set_num_threads(1)
    names = given.arms.split(";") if given.arms else list(NAMES)
    if unknown := sorted(set(names) - set(NAMES)):
        parser.error(f"there is no arm {unknown[0]}; there are {'; '.join(NAMES)}")
    made = experiment(given.data, given.budget, recipe=given.recipe, zoo=given.zoo)
    task = NetworkProblem(lambda one: one, made.evaluation, None).open_task({})
    of = {"data": Path(given.data).resolve().name, "budget": given.budget, "recipe": given.recipe}
    of |= {"zoo": given.zoo} if given.zoo else {}
    lines = given.results.read_text().splitlines() if given.results.exists() else []
    known = [row for row in map(json.loads, lines) if row["of"] == of]

    def result(name: str, rate: float, seed: int) -> dict[str, Any]:
        for row in known:
            if (row["arm"], row["rate"], row["seed"]) == (name, rate, seed):
                return row
        row = {"of": of, **trained(made, task, name, rate, seed)}
        print(json.dumps(row), flush=True)
        with given.results.open("a") as file:
            file.write(json.dumps(row) + "\n")
        return row

    rates = {name: max(given.rates, key=lambda rate: result(name, rate, 0)["validation"]) for name in names}
    rows = [result(name, rate, seed) for seed in given.seeds for name, rate in rates.items()]
    print_table(table(rows, rates, given.reference))


if __name__ == "__main__":
    main()
