"""Networks that were trained elsewhere, as agents: one that hands an import in, and others that build on imports.

Any part with any driver: what ``evolve`` found or ``grow`` grew, or an H-Model, is a path like others. Its
parts are shared frozen or copied by mutation; what a task adds are a norm and a head (docs/spec/munet.md#components).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import Field

from evodevo.errors import UsageError
from evodevo.multitask.agent import IMPORT, AgentClass, Child, ChildComponent, Draw, GenerationContext, SystemView
from evodevo.multitask.agents.multipath import MultipathAgents
from evodevo.multitask.agents.singlepath import Singlepath, price_of
from evodevo.multitask.hyperparameters import DATA
from evodevo.multitask.paths.network.kind import NETWORK
from evodevo.multitask.paths.network.spec import KIND, NetworkStructure
from evodevo.multitask.settings import AgentSettings
from evodevo.settings import Settings, merge, validate
from evodevo.storage.systems.base import AgentRow

ENTRY = "path_import"
_SIZE = "ti3"
"""Size whose lists of the optimizer's and the data's values are tuned."""


class ImportedPart(Settings):
    """A component of an import: its blob, which is in the store, and how many numbers of it could learn."""

    digest: str = Field(pattern=r"^[0-9a-f]{64}$")
    parameters: int = Field(ge=0)


class ImportOrigin(Settings):
    """The origin of an import, for display; nothing depends on it.

    Attributes:
        run, recipe: run and recipe that made it.
        individual: individual of that run.
        genome: hash of its genome.
        weights: digest of its checkpoint.
    """

    run: str = ""
    recipe: str = ""
    individual: str = ""
    genome: str = ""
    weights: str = ""


class ImportOptions(Settings):
    """The options of an agent that imports a network.

    Attributes:
        structure: structure of the path, without a head.
        components: role -> imported component.
        origin: origin of the components.
    """

    structure: dict[str, Any]
    components: dict[str, ImportedPart]
    origin: ImportOrigin = ImportOrigin()


class ImportAgents(AgentClass):
    """Agents each of which makes one path of a network that was trained elsewhere, and then runs no more.

    Args:
        name: name of the class.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def reads(self, agent: AgentRow) -> bool:
        """False: these agents read no offers."""
        return False

    def missing(self, agent: AgentRow, view: SystemView) -> str | None:
        """Nothing."""
        return None

    def check(self, settings: AgentSettings) -> None:
        """Refuse what is no import."""
        if not settings.root or settings.classes:
            raise UsageError(f"an agent of class {self.name} makes one path without a head; see: evodevo extend import")
        _imported(settings)

    def breed(self, situation: GenerationContext, count: int, draw: Draw) -> Sequence[Child]:
        """The import; see ``AgentClass.breed``."""
        options, structure = _imported(situation.settings)
        parts = tuple(ChildComponent(part.role, None, True, part.parameters, "new") for part in structure.parts)
        price = price_of(parts, NETWORK.flops(structure), situation)
        imported = {role: part.model_dump() for role, part in options.components.items()}
        return [
            Child(
                KIND,
                structure.model_dump(mode="json"),
                {},
                {},
                parts,
                None,
                False,
                None,
                price.flops,
                price.factor,
                price.accounted,
                story={"root": "import", "origin": options.origin.model_dump()},
                payload={"root": "import", "imported": imported},
                entry=ENTRY,
                always=True,
            )
        ]


class NetAgents(Singlepath):
    """Singlepath agents whose paths begin with imports.

    Args:
        name: name of the class.
        size: size whose lists of optimizer's and data's values are tuned.
    """

    def __init__(self, name: str, size: str) -> None:
        super().__init__(name, "", size, KIND)

    def reads(self, agent: AgentRow) -> bool:
        """Agents of the same class, and imports."""
        return agent.kind in (self.name, IMPORT)

    def missing(self, agent: AgentRow, view: SystemView) -> str | None:
        """An import that can read the task."""
        if view.offers:
            return None
        return (
            f"{agent.name} needs a network that can read its samples, and this system has none. Next:"
            " evodevo extend import"
        )

    def check(self, settings: AgentSettings) -> None:
        """Refuse roots: an import is made otherwise."""
        if settings.root:
            raise UsageError(f"an agent of class {self.name} makes no roots; they are imported: evodevo extend import")
        super().check(settings)

    def breed(self, situation: GenerationContext, count: int, draw: Draw) -> Sequence[Child]:
        """A generation; see ``AgentClass.breed``. Where there is no image, nothing that changes images is tuned."""
        return super().breed(_without_images(situation), count, draw)


class MultiNetAgents(MultipathAgents):
    """Agents that join paths of ``NetAgents``."""

    def breed(self, situation: GenerationContext, count: int, draw: Draw) -> Sequence[Child]:
        """A generation; see ``AgentClass.breed``. Where there is no image, nothing that changes images is tuned."""
        return super().breed(_without_images(situation), count, draw)


def _without_images(situation: GenerationContext) -> GenerationContext:
    settings = situation.settings
    if "image" in settings.modalities:
        return situation
    still = {
        key: {"values": [row.default], "default": row.default, "tuned": False}
        for key, row in NETWORK.hyperparameters(_SIZE, "paper").by_key.items()
        if key.startswith(DATA)
    }
    options = {**settings.options, "hyperparameters": merge(still, settings.options.get("hyperparameters", {}))}
    return replace(situation, settings=settings.model_copy(update={"options": options}))


def _imported(settings: AgentSettings) -> tuple[ImportOptions, NetworkStructure]:
    options = validate(ImportOptions, settings.options, what="options of an import")
    structure = NETWORK.structure(options.structure, "structure of an import")
    sizes = {role: component.parameters for role, component in options.components.items()}
    if structure.classes or sizes != NETWORK.parameters(structure):
        raise UsageError("the components of an import are the parts of its network, without a head.")
    return options, structure


IMPORTS = ImportAgents(IMPORT)
NET = NetAgents("Net", _SIZE)
MULTI_NET = MultiNetAgents("MultiNet", "Net", KIND)
