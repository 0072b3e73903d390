"""What is gone from H-Models is refused in words; other recorded structures read, and have the hash that they had."""

from __future__ import annotations

from typing import Any

import pytest

from evodevo import canonical
from evodevo.errors import GenomeError, UsageError
from evodevo.experiments.trials import FixedTrials
from evodevo.h_model.spec import HModelStructure
from evodevo.settings import validate

GONE: list[tuple[dict[str, Any], str]] = [
    ({"normaliser": "sinkhorn"}, 'normaliser = "sinkhorn" is gone.*Leave it out'),
    ({"normaliser": "rms"}, 'normaliser = "rms" is gone.*with the evodevo that made it'),
    ({"window": 1, "ring": True}, "ring = true is gone"),
]
DIGEST = "d556369866efb9073df9e93e5d0b3f46c33aaf2e98bbb512d71a4280fd8304ff"
"""That of the default structure since before the ring went."""


def trial(structure: dict[str, Any]) -> dict[str, Any]:
    """The envelope of a training of an H-Model."""
    network = {"kind": "h_model", "structure": structure}
    return {"space": "arm", "version": 1, "genes": {"name": "it", "network": network, "learning_rate": 1e-3}}


@pytest.mark.parametrize(("changes", "words"), GONE, ids=str)
def test_what_is_gone_is_refused_wherever_a_structure_is_read(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        validate(HModelStructure, changes, what="an H-Model")
    inside = {"hidden": [{"kind": "h_model", "structure": changes}]}
    with pytest.raises(UsageError, match=rf"hidden\.0.*{words}"):
        validate(HModelStructure, inside, what="an H-Model")
    with pytest.raises(GenomeError, match=words):
        FixedTrials().from_json(trial(changes))


def test_a_structure_that_never_had_a_ring_reads_and_is_recorded_as_before() -> None:
    recorded = {**HModelStructure(stream="paper", window=1).model_dump(mode="json"), "ring": False}
    read = validate(HModelStructure, recorded, what="an H-Model")
    assert read == HModelStructure(stream="paper", window=1)
    assert read.model_dump(mode="json") == recorded
    assert "ring" not in HModelStructure.model_fields
    assert canonical.digest(HModelStructure(stream="paper").model_dump(mode="json")) == DIGEST


def test_a_ring_that_is_no_truth_value_is_an_unknown_setting() -> None:
    with pytest.raises(UsageError, match="unknown key 'ring'"):
        validate(HModelStructure, {"ring": "always"}, what="an H-Model")
