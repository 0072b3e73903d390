"""Why a child is as it is, and what became of it: everything was recorded when it happened.

Source: docs/spec/munet.md#paths. The bar, the draws, the actions applied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evodevo.errors import NotFoundError
from evodevo.multitask.recorded import DISCARDED, FAILED, KEPT, QUALITY, SCORE, deciding
from evodevo.storage import Store
from evodevo.storage.base import EvaluationRow, IndividualRow, as_written


def child_record(store: Store, individual: str) -> dict[str, Any]:
    """One child, as JSON; see ``child_records``."""
    return child_records(store, [individual])[0]


def child_records(store: Store, individuals: Sequence[str]) -> list[dict[str, Any]]:
    """Children, as JSON, in the order given; they are read together.

    Returns:
        Each with ``path``, ``cycle``, ``parent`` and ``parent_path``, ``begins`` (of a first child alone, for
        which nothing is drawn: ``multitask.search.child.Beginning``), ``chosen`` (how the parent was), ``applied``
        (actions taken), ``moves`` (values before and after), ``inside`` (paths of a multipath one, the main
        path first), ``components`` (role, id, how), ``bar``, ``factor``,
        ``quality``, ``score``, ``evals``, ``fate`` ("waiting", "kept", "discarded", "failed") and ``why``, a sentence.

    Raises:
        NotFoundError: one is no child of an agent.
        StoreDamagedError: one has another shape than evodevo writes.
    """
    rows = store.systems.individuals(individuals)
    for individual in individuals:
        if individual not in rows or "parts" not in rows[individual].details:
            raise NotFoundError(f"individual {individual} is no path of a system.")
    results = store.systems.evaluations_of(individuals)
    parents = {str(row.details.get("parent")) for row in rows.values()} - {"None", *rows}
    named = {individual: path_name(row) for individual, row in {**rows, **store.systems.individuals(parents)}.items()}
    told = []
    for individual in individuals:
        row, result = rows[individual], deciding(results[individual])
        with as_written(f"individual {individual}", "a genome or details"):
            told.append(_record(row, result, named.get(row.details["parent"])))
    return told


def path_name(row: IndividualRow) -> str:
    """``agent/number`` of a path."""
    with as_written(f"individual {row.id}", "a genome"):
        return f"{row.genome_envelope['genes']['agent']}/{row.birth}"


def _record(row: IndividualRow, result: EvaluationRow | None, parent: str | None) -> dict[str, Any]:
    details = row.details
    plan = details["story"].get("plan", {})
    scores = {} if result is None else {name: score.value for name, score in result.scores.items()}
    return {
        "path": path_name(row),
        "cycle": row.generation,
        "parent": details["parent"],
        "parent_path": parent,
        **{key: details["story"][key] for key in ("begins",) if key in details["story"]},
        "chosen": details["story"].get("selection"),
        "applied": [decision["action"] for decision in plan.get("decisions", []) if decision["applied"]],
        "decisions": plan.get("decisions", []),
        "moves": plan.get("moves", []),
        "inside": [f"{path['agent']}/{path['number']}" for path in row.genome_envelope["genes"].get("paths", ())],
        "components": [{key: part[key] for key in ("role", "id", "how", "parameters")} for part in details["parts"]],
        "bar": details["bar"],
        "factor": details["factor"],
        "quality": scores.get(QUALITY),
        "score": scores.get(SCORE),
        "evals": [] if result is None else result.extra["evals"],
        "fate": "waiting" if result is None else result.extra["fate"],
        "why": why(row, result),
    }


def why(row: IndividualRow, result: EvaluationRow | None) -> str:
    """The outcome of a child in a sentence."""
    if result is None:
        return "asked for, and not trained yet"
    outcome = result.extra["fate"]
    if outcome == FAILED:
        return f"failed: {result.reason}"
    bar, score = row.details["bar"], result.scores.get(SCORE)
    if score is None or score.value is None:
        return "kept: it answers no task" if outcome == KEPT else "discarded: it has no accuracy"
    if outcome == DISCARDED:
        return f"discarded: its score {score.value:.6g} does not exceed {bar:.6g}, that of its parent"
    if bar is None:
        whose = "its parent is not its agent's own" if row.details["parent"] else "it has no parent"
        return f"kept with score {score.value:.6g}: {whose}, so there is no bar"
    return f"kept: its score {score.value:.6g} exceeds {bar:.6g}, that of its parent"
