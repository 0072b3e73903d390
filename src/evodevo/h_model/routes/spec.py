"""Given routes as plain data: which symbol of a sample is read before each iteration, and which layer it names.

Source: docs/spec/h_model.md#given-routes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self

from pydantic import Field, model_validator

from evodevo.errors import UsageError
from evodevo.settings import Settings
from evodevo.tasks.inputs import InputSpec


class RoutesStructure(Settings):
    """Routes by a table: in iteration t the layer runs that the symbol in slot t names.

    Attributes:
        input: the input, a vector, in which the symbols are written as one-hot codes.
        slots: first entry of the code that is read, for each iteration.
        layers: place of the hidden layer that runs, for each symbol.
    """

    input: str
    slots: tuple[int, ...] = Field(min_length=1, max_length=256)
    layers: tuple[int, ...] = Field(min_length=1, max_length=65536)

    @model_validator(mode="after")
    def _places_are_counted_from_zero(self) -> Self:
        for name in ("slots", "layers"):
            wrong = [place for place in getattr(self, name) if place < 0]
            if wrong:
                raise ValueError(f"routes.{name} holds {wrong[0]}; places are counted from 0")
        return self

    def moved(self, new: Callable[[int], int | None]) -> Self:
        """The same table after a change of the layers' places; ``new`` has None for a layer that is there no longer.

        Raises:
            UsageError: the table names that layer.
        """
        places = tuple(new(place) for place in self.layers)
        gone = [place for place, moved in zip(self.layers, places, strict=True) if moved is None]
        if gone:
            raise UsageError(
                f"the routes lead to the hidden layer {gone[0]}; give a table that names another one before it goes."
            )
        return self.model_copy(update={"layers": places})

    def check(self, inputs: Sequence[InputSpec]) -> None:
        """
        Raises:
            UsageError: there is no such input, it is no vector, or a code reaches beyond its end.
        """
        known = {spec.name: spec for spec in inputs}
        spec = known.get(self.input)
        if spec is None or spec.modality != "vector":
            vectors = ", ".join(name for name, one in known.items() if one.modality == "vector")
            raise UsageError(f"routes read the input {self.input!r}; they can read vectors: {vectors or 'none here'}.")
        last = max(self.slots) + len(self.layers)
        if last > spec.size:
            raise UsageError(
                f"routes read {len(self.layers)} symbols from entry {max(self.slots)} of {self.input!r} on, which has "
                f"{spec.size} entries."
            )
