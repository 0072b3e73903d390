"""Each class of agents keeps the laws; a row that is added to the table is tested by being there."""

from __future__ import annotations

import pytest

from evodevo.system.base import AGENTS
from evodevo.testing.agents import AgentTests

# Deep paths have many components, and so many rows.
DEEP = ("Vit", "VitB", "MultiVit", "MultiVitB")
ROWS = [pytest.param(one, marks=pytest.mark.slow) if one in DEEP else one for one in AGENTS.names()]


@pytest.mark.parametrize("kind", ROWS)
class TestAgents(AgentTests):
    @pytest.fixture(autouse=True)
    def _of_kind(self, kind: str) -> None:
        self.kind = kind
        if kind.startswith("Multi"):
            self.roots = kind.removeprefix("Multi")
            self.companions = (self.roots,)
