"""The parameter ``modules`` of classifiers: names or modules to modules."""

from __future__ import annotations

from collections.abc import Sequence

from evodevo.errors import UsageError
from evodevo.module_zoo.modules.spec import ZooModule
from evodevo.module_zoo.named import named_zoo
from evodevo.randomness import integer_seed


def zoo(modules: str | Sequence[str] | Sequence[ZooModule], width: int, seed: int) -> tuple[ZooModule, ...]:
    """The modules that the parameter describes.

    Args:
        modules: Names as ``module_zoo.named.named_zoo`` takes them, or modules.
        width: Width d.
        seed: Seed of the initial weights of modules given by name; others keep their own.

    Raises:
        UsageError: An unknown name, nothing, or names and modules together.
    """
    if isinstance(modules, str):
        names: str | list[str] = modules
    else:
        given = [module for module in modules if isinstance(module, ZooModule)]
        names = [module for module in modules if not isinstance(module, ZooModule)]
        if given and names:
            raise UsageError("modules are names of archetypes or modules as they are, not both.")
        if given:
            return tuple(given)
    named = named_zoo(names, width)
    return tuple(module.model_copy(update={"seed": integer_seed(seed, "module", module.id)}) for module in named)
