"""Record the probes of one real training: ``history.json`` beside this file, as README.md tells."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import evodevo
from evodevo.growth.driver import Growth
from evodevo.growth.events.date import EventDate
from evodevo.growth.events.probing import Probing
from evodevo.growth.fitness import FitnessHistory
from evodevo.growth.probes import ModuleProbe
from evodevo.growth.views import ages_of

OVERRIDES: dict[str, Any] = {
    "zoo": {"width": 16, "modules": "mlp,squeeze_excite,lstm,transformer"},
    # Births as they were before newborns learned at the full rate beside the gate, and nobody goes.
    "grow": {
        "strategist": "random",
        "allow": ["grow", "spawn", "hybridise"],
        "events": {"warm_rate": 0.1, "first": 0.2, "last": 0.9},
        "birth": {"entry": "gate", "most": 8},
        "prune": {"rule": "standard"},
    },
    "evaluation": {"training": {"budget": {"seconds": None, "steps": 800}, "batch_size": 32}, "curve_points": 2},
    "execution": {"executor": "serial"},
}


def main(path: Path) -> None:
    """Train, and write what every event and every look between two saw."""
    probes: list[dict[str, Any]] = []
    looked, event, look = Probing.look, Growth.event, Growth.look
    now: dict[str, Any] = {}

    def _look(self: Probing, *given: Any) -> tuple[ModuleProbe, FitnessHistory]:
        seen, history = looked(self, *given)
        if now:
            growth, number = now.pop("growth"), now["event"]
            ages = ages_of(growth.zoo.structure.live, number)
            kept = {"accuracy": seen.accuracy, "ages": ages, "warming": sorted(growth.memory.warming)}
            probes.append({**now, **kept, "history": history.model_dump(mode="json")})
            rounded = json.loads(json.dumps(probes), parse_float=lambda text: round(float(text), 6))
            lines = ",\n".join(json.dumps(entry) for entry in rounded)
            path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
            now.clear()
        return seen, history

    def _event(self: Growth, date: EventDate, *rest: Any, **more: Any) -> Any:
        now.update(what="event", event=date.number, growth=self)
        return event(self, date, *rest, **more)

    def _between(self: Growth, step: int, share: float, number: int, *, last: bool = False) -> Any:
        if not last:  # after the training there is no event to come
            now.update(what="look", event=number, growth=self)
        return look(self, step, share, number, last=last)

    Probing.look, Growth.event, Growth.look = _look, _event, _between  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as folder:
        evodevo.grow("module_zoo.classifier", strategist="ppo", store=Path(folder) / "runs", overrides=OVERRIDES)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
