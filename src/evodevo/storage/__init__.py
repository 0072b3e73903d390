"""What happened, for ever: one database and one pool of blobs for many runs. No torch."""

from evodevo.storage.base import (
    Evaluation,
    EvaluationRow,
    EventRow,
    Found,
    IndividualRow,
    Lease,
    NewIndividual,
    Parent,
    RunRow,
    Score,
    evaluation_id,
    individual_id,
)
from evodevo.storage.database import Store

__all__ = [
    "Evaluation",
    "EvaluationRow",
    "EventRow",
    "Found",
    "IndividualRow",
    "Lease",
    "NewIndividual",
    "Parent",
    "RunRow",
    "Score",
    "Store",
    "evaluation_id",
    "individual_id",
]
