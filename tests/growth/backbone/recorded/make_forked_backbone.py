"""Write ``forked_backbone.json`` from a run: ``python make_forked_backbone.py STORE > forked_backbone.json``."""

from __future__ import annotations

import json
import sys

from evodevo.growth.backbone.records import EVENTS
from evodevo.growth.backbone.rows import plan_of
from evodevo.runs.archive import Archive

with Archive(sys.argv[1]) as archive:
    run = archive.run("last")
    grown = next(individual for individual in run.individuals() if EVENTS in individual.fact)
    record = {
        "plan": plan_of(run.settings.evaluation, grown.genome).model_dump(mode="json"),
        "start": grown.genome.network.structure.model_dump(mode="json"),
        "whole": run.settings.evaluation.task_settings["context_length"],
        "seed": grown.genome.seed,
        "events": grown.fact[EVENTS],
    }
    print(json.dumps(record, indent=1))
