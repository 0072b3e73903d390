"""What it costs to know what each of nine modules is worth: leaving out one after the other, in forwards of the zoo.

Run: python benchmarks/zoo_leave_one_out.py [--json PATH] [--width 64 --batch 256 --rounds 15]

The nine modules of the paper's Table 3 on images of digits (L = 16 positions) with a text of 24 tokens. ``one forward``
is a whole pass of the zoo in evaluation; ``cached`` is such a pass, then router, mixture and head once without each
module on what the modules said; ``brute force`` disables each module and passes the whole batch again. Both give equal
losses. ``probe`` is all that an event of growth measures: usage, impact, advantage, each module alone, distances. CPU
time of one thread.
"""

from __future__ import annotations

import torch

from evodevo.growth.probes import everything, probe, relate, without_each
from evodevo.growth.spec import FitnessSettings
from evodevo.module_zoo.model import ModuleZoo
from evodevo.module_zoo.modules.zoo import table_3_zoo
from evodevo.module_zoo.network import ModuleZooNetwork
from evodevo.module_zoo.spec import ZooStructure
from evodevo.networks.base import Batch
from evodevo.networks.build import build_network
from evodevo.tasks.base import OutputSpec
from evodevo.tasks.inputs import InputSpec
from measuring import Report, arguments, ratio, take_turns

MOST = 1.25
NEAR = 1e-5
IMAGE = InputSpec("image", "image", height=8, width=8, channels=1)
TEXT = InputSpec("question", "tokens", length=24, vocabulary=256)
DIGIT = OutputSpec("digit", "class", 10)


def cached(zoo: ModuleZoo, batch: Batch) -> list[float]:
    """The loss without each module, from one run of them."""
    with torch.no_grad():
        f, outputs, _, _ = everything(zoo, batch)
        ids = zoo.live
        relations, voices = relate(zoo, f, outputs, ids), zoo.router.voices(outputs)
        return [float(zoo.answers_loss(said, batch)) for said in without_each(zoo, f, voices, relations, ids)]


def brute_force(zoo: ModuleZoo, batch: Batch) -> list[float]:
    """The same, by disabling each module."""
    losses, ids = [], zoo.live
    with torch.no_grad():
        for one in ids:
            zoo.active = frozenset(ids) - {one}
            losses.append(float(zoo.answers_loss(zoo(batch), batch)))
    zoo.active = None
    return losses


def main() -> None:
    """Measure and report."""
    options = arguments(__doc__, width=64, batch=256, rounds=15)
    modules = table_3_zoo(options.width)
    structure = ZooStructure.model_validate({"width": options.width, "modules": modules, "router": {"top_k": None}})
    zoo = build_network(ModuleZooNetwork(structure=structure), (IMAGE, TEXT), (DIGIT,), 0).eval()
    assert isinstance(zoo, ModuleZoo)
    batch = {
        "image": torch.randint(0, 256, (options.batch, 8, 8, 1), dtype=torch.uint8),
        "question": torch.randint(0, 256, (options.batch, 24)),
        "digit/target": torch.randint(0, 10, (options.batch,)),
    }
    apart = max(abs(a - b) for a, b in zip(cached(zoo, batch), brute_force(zoo, batch), strict=True))
    settings = FitnessSettings()

    def forward() -> None:
        with torch.no_grad():
            zoo(batch)

    seconds = take_turns(
        {
            "one forward": forward,
            "cached": lambda: cached(zoo, batch),
            "probe": lambda: probe(zoo, [batch], settings),
            "brute force": lambda: brute_force(zoo, batch),
        },
        options.rounds,
    )
    report = Report(
        "Leaving out each of nine modules",
        settings={"zoo": f"N={len(modules)}, d={options.width}, B={options.batch}, float32"},
    )
    for name, times in seconds.items():
        forwards = ratio(times, seconds["one forward"])
        report.rows.append({"what": name, "zoo forwards": forwards.show()})
        if name == "cached":
            report.at_most("zoo forwards for leaving out each of 9 modules", forwards.median, MOST)
    report.at_most("difference from brute force, nats", apart, NEAR)
    report.finish(options.json)


if __name__ == "__main__":
    main()
