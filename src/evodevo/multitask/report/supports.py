"""The use of supports: supports of the children of every multipath agent, read from the record.

µ4Net (2302.02721) section 2; docs/spec/munet.md#multipath-children.
"""

from __future__ import annotations

from collections import Counter

from evodevo.multitask.diagrams.support_usage import SupportUse
from evodevo.multitask.diagrams.system.frame import SystemFrame
from evodevo.multitask.recorded import KEPT, deciding, supports_in
from evodevo.multitask.report.picture import SystemFrames
from evodevo.multitask.schedule import is_root


def support_uses(picture: SystemFrames, frame: SystemFrame) -> list[SupportUse]:
    """One entry for each task with multipath children and each task, or root, that supported one of them.

    Args:
        picture: frames of the system; children that have a result count.
        frame: frame whose multipath models are the offered ones.
    """
    tried: Counter[tuple[str, str]] = Counter()
    kept: Counter[tuple[str, str]] = Counter()
    store, agents = picture.system.store, picture.agents

    def called(agent: str) -> str:
        return agent.rpartition("~")[2] + " (root)" if is_root(agents[agent]) else agents[agent].task

    for agent in agents.values():
        inside = {row.id: supports_in(row) for row in store.individuals(agent.id)}
        results = store.systems.evaluations_of([individual for individual, names in inside.items() if names])
        for individual, found in results.items():
            result = deciding(found)
            for support in [] if result is None else inside[individual]:
                key = (agent.task, called(support))
                tried[key] += 1
                kept[key] += result is not None and result.extra["fate"] == KEPT
    now = {(model.task, called(stream.agent)): stream.weight for model in frame.joined for stream in model.streams[1:]}
    return [
        SupportUse(task, support, count, kept[task, support], (task, support) in now, now.get((task, support)))
        for (task, support), count in tried.items()
    ]
