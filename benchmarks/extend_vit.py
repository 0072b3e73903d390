"""At which patches, resolution and learning rate a small vision transformer learns small images from random weights.

Run: python benchmarks/extend_vit.py --data FOLDER [--json PATH] [--steps 500] [--seed 0]
    [--cases VitTiny/4/16/.02,VitTiny/4/16/.1,VitTiny/4/16/.2,VitTiny/8/32/.2,VitTiny/4/32/.1,VitTiny/4/32/.2]

FOLDER is one set, with ``train`` and ``test``. A case is a class of agents, pixels of a patch's side, pixels of an
image's side, and a learning rate; all else is the default of the class. Each is one child: the root of a new system,
trained from random weights in as many steps of 64 samples as all others. Accuracy on validation, the best of its looks:
it is what a rate is chosen by, and the test split is left alone. CPU seconds of one process of one thread.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch

from evodevo.execution.serial import SerialExecutor
from evodevo.multitask.hyperparameters import singlepath_hyperparameters
from evodevo.multitask.recorded import cpu_seconds_of, deciding
from evodevo.multitask.run.create import create_system
from evodevo.multitask.system import System
from evodevo.storage import Store
from measuring import THREADS, Report

CASES = (
    "VitTiny/4/16/.02,VitTiny/4/16/.1,VitTiny/4/16/.2,VitTiny/8/32/.2,VitTiny/4/32/.1,VitTiny/4/32/.2,"
    "VitT3/16/32/.02,VitT3/16/32/.1,VitT3/16/32/.2,VitT3/8/32/.1"
)
BATCH, SYSTEM = 64, "one"


def child(folder: Path, cache: Path, case: str, options: argparse.Namespace) -> dict[str, str | int]:
    """One row of the table."""
    kind, patch, side, rate = case.split("/")
    rates = singlepath_hyperparameters().by_key["opt_lr"].values
    root = {
        "structure": {"patch": int(patch)},
        "hyperparameters": {
            "ds_image_size": {"values": [int(side)], "default": int(side)},
            "opt_lr": {"values": list(rates), "default": float(rate)},
        },
        "training": {"steps": options.steps, "batch": BATCH},
    }
    name, data = f"pretrain:{options.data.name}", options.data
    create_system(
        SYSTEM,
        root=name,
        data=data,
        kind=kind,
        seed=options.seed,
        overrides={"root": root},
        store=folder,
        cache_folder=cache,
    )
    with Store.open(folder) as store, SerialExecutor() as executor:
        system = System.open(store, SYSTEM)
        (agent,) = system.agents()
        system.run([agent], 1, executor, cache=str(cache))
        offer = system.view().offers[agent.name]
        result = deciding(store.systems.evaluations_of([offer.id])[offer.id])
    assert result is not None
    answer = result.extra["answer"]
    return {
        "class": kind,
        "patch": patch,
        "image": side,
        "patches": (int(side) // int(patch)) ** 2,
        "rate": rate,
        "parameters": offer.parameters,
        "steps": answer["steps"],
        "samples of a step": answer["batch"],
        "validation": f"{offer.quality:.3f}",
        "of": answer["validation_samples"],
        "CPU seconds": round(cpu_seconds_of(result) or 0),
    }


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=None, help="write everything measured to this file")
    parser.add_argument("--data", type=Path, required=True, help="folder of one set")
    parser.add_argument("--cases", default=CASES, help="CLASS/PATCH/IMAGE/RATE, separated by commas")
    parser.add_argument("--steps", type=int, default=500, help="of each case")
    parser.add_argument("--seed", type=int, default=0, help="of the systems")
    options = parser.parse_args()
    options.data = options.data.resolve()
    torch.set_num_threads(THREADS)
    report = Report("vision transformers on small images", settings={"set": options.data.name, "seed": options.seed})
    with tempfile.TemporaryDirectory() as scratch:
        for number, case in enumerate(options.cases.split(",")):
            row = child(Path(scratch) / str(number), Path(scratch) / "cache", case, options)
            print(case, row["validation"], f"{row['CPU seconds']} CPU s", flush=True)
            report.rows.append(row)
    report.finish(options.json)


if __name__ == "__main__":
    main()
