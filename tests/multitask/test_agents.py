"""Each class of agents keeps the laws; a row that is added to the table is tested by being there."""

from __future__ import annotations

import re

import pytest

from evodevo.multitask.agent import AGENTS, IMPORT
from evodevo.multitask.system import System
from evodevo.multitask.training.values import PathTrainingSettings
from evodevo.settings import validate
from evodevo.testing.multitask.agents import AgentTests
from fixtures.imports import small_import

QUICK = ("VitTiny", "ConvTiny")
# The same classes with larger numbers.
LARGER = {
    f"{multi}{one}"
    for multi in ("", "Multi")
    for one in ("Text", "Vit", "VitB", "VitT3", "ConvSmall", "ConvBase", "MlpSmall", "MlpBase", "NgramSmall")
}
# Those that hand in an import make one path and have no children; see test_imports.py.
ROWS = [
    one if one in QUICK else pytest.param(one, marks=pytest.mark.slow)
    for one in AGENTS.names()
    if one not in {IMPORT, *LARGER}
]


@pytest.mark.parametrize("kind", sorted(LARGER))
def test_a_larger_class_is_the_tiny_one_with_other_numbers(kind: str) -> None:
    larger, tiny = AGENTS.get(kind), AGENTS.get("".join(re.findall("Multi|Vit|Text|Conv|Mlp|Ngram", kind)) + "Tiny")
    assert type(larger) is type(tiny)
    numbers = {"name", "single", "_preset", "_size"}
    assert all(value == vars(tiny)[name] for name, value in vars(larger).items() if name not in numbers)
    assert vars(larger).get("single", kind) == (kind.removeprefix("Multi") if "single" in vars(larger) else kind)


@pytest.mark.parametrize("kind", sorted({*AGENTS.names()} - {IMPORT}))
def test_a_child_of_any_class_has_500_steps_at_least(kind: str) -> None:
    rules = AGENTS.get(kind).published("paper")
    assert rules is not None
    training = validate(PathTrainingSettings, dict(rules.training), what="training")
    for train in (20, 500, 2_000, 10_000, 100_000):
        assert training.most(training.plan(train, 100)) >= 500, train


@pytest.mark.parametrize("kind", ROWS)
class TestAgents(AgentTests):
    @pytest.fixture(autouse=True)
    def _of_kind(self, kind: str) -> None:
        self.kind = kind
        # Agents of several tasks: the same code, whatever they read. A root of rows is no support.
        if not kind.endswith("VitTiny") and kind != "MultiMlpTiny":
            self.tasks = ("a",)
        if kind.startswith("Multi"):
            self.roots = kind.removeprefix("Multi")
            self.companions = (self.roots,)

    def add_root(self, system: System) -> None:
        if "Net" in (self.kind, self.roots):
            system.add_agent(IMPORT, "one", small_import())
        else:
            super().add_root(system)
