"""Random damage to the store of a multitask system: is it noticed, or does a command answer something else silently?

A store of a system with two tasks whose agents have run is damaged in a copy, as ``damage.py`` damages one of a search,
in the tables of systems too. Then ``extend status``, ``extend graph`` and ``status`` run as a user runs them.

    python benchmarks/faults/damage_systems.py --cases 60 --seed 0
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import damage
from campaign import Campaign

TABLES = (
    *("run", "event", "blob_reference", "blob", "seal"),
    *("system", "agent", "cycle", "path", "component", "component_use", "subpath", "publication"),
)
COMMANDS = (
    ["extend", "status"],
    ["extend", "status", "zoo", "--children"],
    ["extend", "status", "zoo", "--task", "digits_parity"],
    ["extend", "graph", "zoo"],
    ["status"],
)
FAULTS: dict[str, damage.Fault] = damage.FAULTS | {
    "columns": partial(damage.change_column, tables=TABLES),
    "rows": partial(damage.lose_row, tables=TABLES),
}
SETTINGS = {
    "cycle": {"samples": 2, "generation_size": 2},
    "training": {"validations": 1, "most_between": 64, "device": "cpu"},
    "root": {
        "structure": {"width": 16, "heads": 2, "hidden": 16},
        "hyperparameters": {
            "num_layers": {"values": [0, 1, 2], "default": 1},
            "ds_image_size": {"values": [8, 16], "default": 8},
        },
    },
}
IMPORTS = ("evodevo.storage", "evodevo.multitask.system", "evodevo.multitask.report")


def make_store(shared: Path) -> None:
    """The store that is damaged, and what the commands answer before."""
    from evodevo import add_task, create_system, run_system
    from evodevo.execution.serial import SerialExecutor

    os.environ["XDG_CACHE_HOME"] = str(shared / "cache")
    store = shared / "whole"
    create_system("zoo", kind="VitTiny", overrides=SETTINGS, store=store)
    add_task("zoo", "digits", store=store)
    add_task("zoo", "digits_parity", question="parity", store=store)
    with SerialExecutor() as executor:
        run_system("zoo", store=store, executor=executor)
    damage.keep(shared, COMMANDS)


if __name__ == "__main__":
    case = partial(damage.damage, faults=FAULTS, commands=COMMANDS)
    Campaign("damage_systems", case, make_store, imports=IMPORTS).main(__doc__, cases=60)
