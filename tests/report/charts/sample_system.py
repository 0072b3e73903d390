"""Made-up systems for the drawings: any number of tasks, roots, shared and cloned components, multipath models."""

from __future__ import annotations

import random

from evodevo.multitask.diagrams.system.frame import Joined, OfferedPath, PartMark, Stream, SystemFrame

ROLES = ("embedding", "cls", "posembed_input", "encoderblock_0", "encoderblock_1", "encoder_norm", "head")


def frame(
    count: int, models: int = 1, *, seed: int = 1, names: tuple[str, ...] = (), weights: bool = True
) -> SystemFrame:
    """``count`` tasks that clone about a third of what they take from a root or from each other."""
    rng = random.Random(seed)
    tasks = tuple(names[n] if n < len(names) else f"task_{n + 1}" for n in range(count))
    root = "Vit~root_model~random_init"
    parts = {
        f"{root}:{n}": PartMark(f"{root}:{n}", role, 1000, "root_model/random_init", True)
        for n, role in enumerate(ROLES[:-1])
    }
    routes = [OfferedPath("root_model/random_init", root, f"{root}/0", tuple(parts), None, root=True)]
    for task in tasks:
        agent, chosen = f"Vit~{task}", []
        parent = dict(
            zip((parts[one].role for one in rng.choice(routes).parts), rng.choice(routes).parts, strict=False)
        )
        for n, role in enumerate(ROLES):
            if role == "encoderblock_1" and rng.random() < 0.5:
                continue
            old = parent.get(role)
            if old is None or parts[old].role != role or role == "head" or rng.random() < 0.3:
                old = f"{agent}:{n}"
                parts[old] = PartMark(old, role, 100 + n, task)
            chosen.append(old)
        routes.append(OfferedPath(task, agent, f"{agent}/3", tuple(chosen), rng.uniform(0.3, 1.0), rng.random()))
    joined = [_joined(rng, routes, parts, place, weights) for place in range(min(models, count))]
    used = {part for one in routes for part in one.parts} | {
        p for m in joined for p in (m.router, *(s.connector for s in m.streams))
    }
    return SystemFrame(
        "zoo",
        99,
        "cycle 2 of Vit",
        tasks,
        tuple(routes),
        tuple(joined),
        {k: v for k, v in parts.items() if k in used},
        ("Vit~gone",),
    )


def _joined(
    rng: random.Random, routes: list[OfferedPath], parts: dict[str, PartMark], place: int, weights: bool
) -> Joined:
    main, others = routes[place + 1], [one for one in routes if one is not routes[place + 1]]
    agent = f"Multi{main.agent}"
    streams = [Stream(main.task, main.path, main.parts, None, 0.8 if weights else None)]
    for number, one in enumerate(rng.sample(others, min(2, len(others))), 1):
        connector = f"{agent}:{number}"
        parts[connector] = PartMark(connector, f"connector_{number}", 50, main.task)
        streams.append(Stream(one.task, one.path, one.parts, connector, 0.1 if weights else None, root=one.root))
    parts[f"{agent}:0"] = PartMark(f"{agent}:0", "router", 10, main.task)
    return Joined(main.task, agent, f"{agent}/5", tuple(streams), f"{agent}:0", (main.accuracy or 0) + 0.01, 0.5)
